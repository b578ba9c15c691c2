/*-------------------------------------------------------------------------
 *
 * url.h
 *	  The URL of a registry in etcd.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_URL_H
#define SF_ETCD_URL_H

#include "uri.h"

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

#endif							/* SF_ETCD_URL_H */
