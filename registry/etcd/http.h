/*-------------------------------------------------------------------------
 *
 * http.h
 *	  One POST at a time, without blocking.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_HTTP_H
#define SF_ETCD_HTTP_H

#include "backend.h"

typedef struct SfHttpAnswer
{
	int			status;			/* 0: there is no answer */
	const char *body;			/* ends in a zero byte besides */
	int64		date_ms;		/* the server's clock, to 1000; 0: unknown */
	const char *address;		/* our end of the connection; or NULL */

	/* If there is none. */
	bool		sent;			/* the server may have the request */
	const char *problem;		/* without a full stop */
} SfHttpAnswer;

/* The files of TLS, or NULL. */
extern bool sf_http_open(const char *cacert, const char *cert,
						 const char *key);
extern void sf_http_post(const char *url, const char *token,
						 const char *body, int64 timeout_ms,
						 int64 connect_timeout_ms);
extern bool sf_http_receive(SfHttpAnswer *answer);
extern int	sf_http_sockets(SfSocket *sockets, int64 *timeout_ms);
extern void sf_http_cancel(void);
extern void sf_http_close(void);

#endif							/* SF_ETCD_HTTP_H */
