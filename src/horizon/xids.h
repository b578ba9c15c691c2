/*-------------------------------------------------------------------------
 *
 * xids.h
 *	  Transaction IDs with their epoch, as numbers that only grow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_XIDS_H
#define SF_XIDS_H

#include "access/transam.h"
#include "access/xact.h"

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

#endif							/* SF_XIDS_H */
