/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  What transactions may still bring in: the bound.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HORIZON_H
#define SF_HORIZON_H

#include "state.h"

extern uint64 sf_horizon_node(void);
extern uint64 sf_horizon_shard(uint32 shard);
extern bool sf_horizon_of_prepared(TransactionId xid, SfBrought *brought);

#endif							/* SF_HORIZON_H */
