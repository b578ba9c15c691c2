/*-------------------------------------------------------------------------
 *
 * request.h
 *	  What is asked of etcd, step by step, and what is known of it.
 *
 * Where it says so, an error may be thrown; call sf_request_fail() then.
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
