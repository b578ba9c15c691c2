/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  Per-backend bookkeeping: the low-water mark of the running transaction,
 *	  and the pending ranges of ended ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PENDING_H
#define SF_PENDING_H

#include "runtime/shmem.h"

/*
 * What this transaction has written: a low-water mark for the node, and the
 * tick of that for shards.  Check both before each swap.
 */
extern bool sf_pending_entered;
extern uint64 sf_pending_tick;

extern void sf_pending_register(void);
extern void sf_pending_enter_node(void);
extern void sf_pending_enter_tick(uint64 tick);
extern uint64 sf_pending_first_xid(void);

/* Lower the low-water mark: the next shard IDs are not before this tick. */
static inline void
sf_pending_enter_shard(uint64 tick)
{
	if (unlikely(tick < sf_pending_tick))
		sf_pending_enter_tick(tick);
}

#endif							/* SF_PENDING_H */
