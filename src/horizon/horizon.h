/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  The horizon: the bound below which transactions bring in no more rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HORIZON_H
#define SF_HORIZON_H

#include "runtime/shmem.h"

extern uint64 sf_horizon_node(void);
extern uint64 sf_horizon_shard(uint32 shard);
extern bool sf_horizon_of_prepared(TransactionId xid, SfPendingRange *range);

#endif							/* SF_HORIZON_H */
