/*-------------------------------------------------------------------------
 *
 * asker.h
 *	  One connection to the registry for all who ask through the worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ASKER_H
#define SF_ASKER_H

#include "backend.h"

/*
 * One who asks.  Of several the first comes first, when what is under way has
 * ended.
 */
typedef struct SfAsker
{
	const SfAsk *ask;			/* NOTHING; or to be sent, by a new number */
	void		(*answered) (const SfAnswer *answer);
	uint64_t	sent;			/* the number of its last request */
} SfAsker;

extern void sf_asker_receive(const SfBackend *backend);
extern void sf_asker_send(SfAsker *askers, int n, const SfBackend *backend);

#endif							/* SF_ASKER_H */
