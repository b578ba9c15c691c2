/*-------------------------------------------------------------------------
 *
 * request.h
 *	  The current request to etcd with its steps, and what is known of the
 *	  registry.
 *
 * Functions marked "may throw" throw errors; then call sf_request_fail().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_REQUEST_H
#define SF_ETCD_REQUEST_H

#include "http.h"
#include "uri.h"

/* url.c */

#define SF_ETCD_ENDPOINTS	SF_URI_HOSTS

typedef struct SfEtcdUrl
{
	int			nendpoints;

	/* "https://host:2379" */
	char	   *endpoints[SF_ETCD_ENDPOINTS];

	char	   *prefix;			/* of all keys; no slash at the end */

	/* Paths of files, or NULL. */
	char	   *credentials;	/* two lines: user, password */
	char	   *cacert;			/* authorities that sign the server's
								 * certificate */
	char	   *cert;			/* our certificate, and its key */
	char	   *key;
} SfEtcdUrl;

extern bool sf_etcd_url_parse(SfEtcdUrl *url, const char *text,
							  char *reason, size_t reason_size);

/* request.c */

extern void sf_request_open(const SfEtcdUrl *url,
							const SfBackendConfig *config,
							MemoryContext context);
extern void sf_request_begin(const SfAsk *ask); /* may throw */
extern void sf_request_take(const SfHttpAnswer *http);	/* may throw */
extern void sf_request_fail(const char *problem);
extern bool sf_request_is_answered(void);
extern bool sf_request_answer(SfAnswer *answer);

#endif							/* SF_ETCD_REQUEST_H */
