/*-------------------------------------------------------------------------
 *
 * http.h
 *	  Non-blocking HTTP client for one POST at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_HTTP_H
#define SF_ETCD_HTTP_H

#include "lease/backend.h"

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
extern int	sf_http_sockets(SfSocket *sockets, int64 *timeout_ms);
extern void sf_http_cancel(void);
extern void sf_http_close(void);

#endif							/* SF_ETCD_HTTP_H */
