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

/* One that is in use was given less than 2^31 before the next. */
static inline uint64
sf_xids_widen(TransactionId xid, uint64 next)
{
	return next - (uint32) ((uint32) next - xid);
}

/* That of the transaction that runs, subtransactions apart; 0: none yet. */
static inline uint64
sf_xids_top(void)
{
	return U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
}

#endif							/* SF_XIDS_H */
