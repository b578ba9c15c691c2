/*-------------------------------------------------------------------------
 *
 * lease_wait.h
 *	  The lease as sessions see it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_WAIT_H
#define SF_LEASE_WAIT_H

#include "runtime/shmem.h"

extern void sf_lease_wait_explain(int64 begun_ms);
extern void sf_lease_wait_sleep(uint64 right, int64 *begun_ms);
extern void sf_lease_wait_refuse(void);
extern void sf_lease_wait_settle(int slot, const SfLayout *layout);
extern uint32 sf_lease_wait_lowest(const SfLayout *layout, uint64 position,
								   bool unleased, uint32 node);
extern bool sf_lease_wait_may_see_registry(void);
extern void sf_lease_wait_registry_name(char *name, size_t size);
extern bool sf_lease_wait_has_expired(void);
extern void sf_lease_wait_status(SfLeaseStatus *status);

#endif							/* SF_LEASE_WAIT_H */
