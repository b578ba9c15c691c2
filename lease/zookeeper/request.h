/*-------------------------------------------------------------------------
 *
 * request.h
 *	  The current request to ZooKeeper with its steps, and what is known of the
 *	  registry.
 *
 * Functions marked "may throw" throw errors; then call sf_request_fail().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_REQUEST_H
#define SF_ZOO_REQUEST_H

#include "session.h"

extern void sf_request_open(const SfZooLocation *location,
							const SfBackendConfig *config,
							MemoryContext context);
extern void sf_request_begin(const SfAsk *ask); /* may throw */
extern void sf_request_continue(void);	/* may throw */
extern void sf_request_fail(const char *problem);
extern int64 sf_request_patience(void);
extern bool sf_request_answer(SfAnswer *answer);

#endif							/* SF_ZOO_REQUEST_H */
