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

#include "access/transam.h"
#include "access/xact.h"
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

/* ---- transaction IDs with their epoch, as numbers that only grow ---- */

static inline uint64
sf_xids_next(void)
{
	return U64FromFullTransactionId(ReadNextFullTransactionId());
}

/*
 * Add the epoch to a transaction ID.  "next" was the next transaction ID a
 * moment ago.  An ID in use may lie on either side of it, since the server has
 * assigned more IDs meanwhile, but less than 2^31 away.
 */
static inline uint64
sf_xids_widen(TransactionId xid, uint64 next)
{
	return next + (int32) (xid - (uint32) next);
}

/* Return the ID of the running top transaction; 0: it has none yet. */
static inline uint64
sf_xids_top(void)
{
	return U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
}

#endif							/* SF_PENDING_H */
