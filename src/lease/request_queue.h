/*-------------------------------------------------------------------------
 *
 * request_queue.h
 *	  Multiplexes one registry connection: one request in flight at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REQUEST_QUEUE_H
#define SF_REQUEST_QUEUE_H

#include "lease/backend.h"

/*
 * One source of requests.  If several have one, the first in the array is
 * served first, after the request under way.
 */
typedef struct SfRequester
{
	const SfAsk *ask;			/* to send if its number is new; or
								 * SF_ASK_NOTHING */
	void		(*answered) (const SfAnswer *answer);
	uint64_t	sent;			/* number of its last request */
} SfRequester;

extern void sf_request_queue_receive(const SfBackend *backend);
extern void sf_request_queue_send(SfRequester *requesters, int n,
								  const SfBackend *backend);

#endif							/* SF_REQUEST_QUEUE_H */
