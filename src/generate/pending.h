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
#include "datatype/timestamp.h"
#include "runtime/shmem.h"

/* No position, or no time, holds anything back. */
#define SF_NONE PG_UINT64_MAX

/* A pending range, or an overflow range: IDs above these bounds. */
typedef struct SfPendingRange
{
	uint64		first_xid;		/* with the epoch; 0: none */
	uint64		last_xid;		/* inclusive */
	uint64		node;			/* their IDs of the node are above this */
	uint64		other_ms;		/* their other IDs are not before this time */
	Oid			database;		/* InvalidOid: more than one */
	bool		prepared;		/* they may be prepared, and not ended */
} SfPendingRange;

#define SF_PENDING_RANGES		16
#define SF_OVERFLOW_RANGES		2

/*
 * What one backend's transactions may still bring in: see horizon.c.  It
 * belongs to the process with that number, and only that process writes it.
 */
typedef struct SfPending
{
	/*
	 * Low-water marks of the running transaction; SF_NONE: it has no such
	 * IDs.  No lock protects them.  The other IDs are those of shards, and of
	 * layouts other than the node's; the time is in Unix ms.
	 */
	pg_atomic_uint64 node;		/* its IDs of the node are above this */
	pg_atomic_uint64 other_ms;	/* its other IDs are not before this time */
	pg_atomic_uint32 database;	/* written first; 0: never used */
	TimestampTz since;			/* start of the transaction */

	/* The last transaction below first_xid that was prepared in this life. */
	pg_atomic_uint64 prepared_early;

	/* Pending ranges of ended transactions.  Readers must check "changes". */
	pg_atomic_uint32 changes;	/* odd while the owner writes what follows */
	SfPendingRange range[SF_PENDING_RANGES];
	SfPendingRange overflow[SF_OVERFLOW_RANGES];
} SfPending;

typedef union SfPendingSlot
{
	SfPending	writer;
	char		pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SfPending))];
} SfPendingSlot;

extern SfPendingSlot *sf_pending_writers;	/* MaxBackends of them */

/*
 * The low-water marks of this transaction: whether it has made an ID above
 * that of the node, and the time in Unix ms that none of its other IDs is
 * before.  Check them before each swap.
 */
extern bool sf_pending_made_node;
extern uint64 sf_pending_other_ms;

extern void sf_pending_register(void);
extern Size sf_pending_size(void);
extern void sf_pending_create(void);
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
