/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  The horizon: the bound below which transactions bring in no more rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HORIZON_H
#define SF_HORIZON_H

#include "datatype/timestamp.h"
#include "generate/pending.h"
#include "layout/layout.h"

extern uint64 sf_horizon_node(int slot, const SfLayout *layout);
extern uint64 sf_horizon_shard(uint32 shard);
extern bool sf_horizon_of_prepared(TransactionId xid, SfPendingRange *range);

/* A prepared transaction. */
typedef struct SfPrepared
{
	TransactionId xid;
	char	   *gid;
	TimestampTz since;
	Oid			database;
} SfPrepared;

extern SfPrepared *sf_prepared_list(int *count);

#endif							/* SF_HORIZON_H */
