/*-------------------------------------------------------------------------
 *
 * lease_worker.h
 *	  The worker that leases this server's node id.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_WORKER_H
#define SF_LEASE_WORKER_H

#include "lease/backend.h"
#include "lease/lease.h"
#include "runtime/right.h"

/* What the core offers; NULL: this server leases nothing. */
extern const SfRightAccess *sf_core;

extern void sf_lease_worker_register(void);

/* lease_worker.c, used by the other files */
extern SfMoment sf_lease_worker_clocks(void);

/* age_file.c, used at the start, by lease_worker.c, and by sessions */
extern void sf_age_file_request(void);
extern void sf_age_file_create(void);
extern SfAge *sf_age_file_load(void);
extern void sf_age_file_keep(bool now);
extern int64_t sf_age_file_promised_ms(void);
extern int64_t sf_age_file_reserve_ms(void);

/* remains_file.c, used by lease_worker.c */
extern void sf_remains_file_load(SfClaimant *claimant);
extern void sf_remains_file_see_clock(void);
extern void sf_remains_file_keep(const SfClaimant *claimant,
								 const SfRight *right);

/* registry_library.c */
extern const SfBackend *sf_registry_library_load(void);
extern bool sf_registry_library_receive(const SfBackend *backend,
										SfAnswer *answer);
extern void sf_registry_library_wait(const SfBackend *backend, int64 limit_ms);

#endif							/* SF_LEASE_WORKER_H */
