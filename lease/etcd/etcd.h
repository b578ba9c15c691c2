/*-------------------------------------------------------------------------
 *
 * etcd.h
 *	  What the files of the library for etcd share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_H
#define SF_ETCD_H

#include "common.h"

/* http.c: a non-blocking HTTP client for one POST at a time */
typedef struct SfHttpAnswer
{
	int			status;			/* 0: there is no answer */
	const char *body;			/* with a zero byte at the end */
	int64		date_ms;		/* the server's clock, in whole seconds; 0:
								 * unknown */
	const char *address;		/* our end of the connection; or NULL */

	/* If there is no answer: */
	bool		sent;			/* the server may have received the request */
	SfFailure	failure;
	const char *problem;		/* without a full stop */
} SfHttpAnswer;

/* The arguments are the TLS files, or NULL. */
extern bool sf_http_open(const char *cacert, const char *cert,
						 const char *key, int64 slots);
extern void sf_http_post(const char *url, const char *token,
						 const char *body, int64 timeout_ms,
						 int64 connect_timeout_ms);
extern bool sf_http_receive(SfHttpAnswer *answer);
extern int	sf_http_sockets(SfSocket *sockets, int64_t *timeout_ms);
extern void sf_http_cancel(void);
extern void sf_http_close(void);

/* protocol.c: the registry as keys of etcd, requests and answers */
typedef struct SfEtcdReading
{
	SfRegistry	registry;
	char	   *identity;		/* the value of prefix/registry */
	char	   *cluster;		/* cluster ID of the etcd that has answered,
								 * and the prefix */
	bool		in_place;		/* the generation began in this cluster */
	int64		lease;			/* etcd's lease of our presence; or 0 */
} SfEtcdReading;

typedef enum SfEtcdWritten
{
	SF_ETCD_WRITTEN,
	SF_ETCD_NOT_WRITTEN,
	SF_ETCD_ELSEWHERE,			/* another cluster has answered */
	SF_ETCD_UNREADABLE
} SfEtcdWritten;

extern char *sf_etcd_read_request(const char *prefix);
extern const char *sf_etcd_read_answer(SfJson *json, const char *prefix,
									   uint64 owner,
									   SfEtcdReading *reading);
extern char *sf_etcd_write_request(const char *prefix, const SfAsk *ask,
								   const char *identity, const char *cluster,
								   int64 lease, const char *address);
extern SfEtcdWritten sf_etcd_write_answer(SfJson *json, const char *prefix,
										  const char *cluster,
										  int64 *version);

#endif							/* SF_ETCD_H */
