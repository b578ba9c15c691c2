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
 * The low-water marks of this transaction: whether it has made an ID above
 * that of the node, and the time in Unix ms that none of its other IDs is
 * before.  Check them before each swap.
 */
extern bool sf_pending_made_node;
extern uint64 sf_pending_other_ms;

extern void sf_pending_register(void);
extern void sf_pending_require_leader(void);
extern void sf_pending_enter_node(void);
extern void sf_pending_lower_other(uint64 ms);
extern uint64 sf_pending_first_xid(void);

/*
 * Before an ID of a shard, or of a layout other than the node's: lower the
 * low-water mark, so that the ID is not before it.
 */
static inline void
sf_pending_enter_other(uint64 ms)
{
	if (unlikely(ms < sf_pending_other_ms))
		sf_pending_lower_other(ms);
}

#endif							/* SF_PENDING_H */
