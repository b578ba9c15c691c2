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
#include "url.h"

extern void sf_request_open(const SfEtcdUrl *url,
							const SfBackendConfig *config,
							MemoryContext context);
extern void sf_request_begin(const SfAsk *ask); /* may throw */
extern void sf_request_take(const SfHttpAnswer *http);	/* may throw */
extern void sf_request_fail(const char *problem);
extern bool sf_request_is_answered(void);
extern bool sf_request_answer(SfAnswer *answer);

#endif							/* SF_ETCD_REQUEST_H */
