/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  The horizon, for what src/feed publishes of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HORIZON_H
#define SF_HORIZON_H

#include "layout/layout.h"
#include "utils/snapshot.h"

/* In place of a shard: all shards. */
#define SF_ALL_SHARDS	(-2)

extern uint64 sf_horizon_hash_running(Snapshot snapshot);
extern int64 sf_horizon_to_publish(int shard, int slot,
								   const SfLayout *layout, int64 *highest);
extern const char *sf_horizon_end_holders(void);

#endif							/* SF_HORIZON_H */
