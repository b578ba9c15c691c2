/*-------------------------------------------------------------------------
 *
 * leased.h
 *	  A leased node id and leased shards, as sessions see them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASED_H
#define SF_LEASED_H

#include "state.h"

extern void sf_leased_close_shards(void);
extern void sf_leased_wait(int shard, uint64 lease, int64 *begun_ms);
extern void sf_leased_refuse(void);
extern void sf_leased_change(uint64 old, uint64 lease);
extern void sf_leased_settle(void);
extern uint32 sf_leased_lowest(uint64 position, bool unleased, uint32 node);
extern bool sf_leased_may_see_registry(void);
extern void sf_leased_registry_name(char *name, size_t size);
extern bool sf_leased_has_expired(void);
extern void sf_leased_status(SfLeaseStatus *status);
extern void sf_leased_shards_status(SfLeaseStatus *status);

#endif							/* SF_LEASED_H */
