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
#include "port/atomics.h"
#include "runtime/right.h"

/* In shared memory, written by the worker. */
typedef struct SfLeaseShared
{
	/*
	 * For all processes: the registry gives nothing away below this time, in
	 * Unix ms.  0: nothing is known of it yet.
	 */
	pg_atomic_uint64 promised_ms;

	/*
	 * For a worker that goes on after this one has ended: its lease, and all
	 * that it remembers of the registry, which the file may not have yet.
	 */
	bool		begun;
	bool		has_problem;	/* logged (SF203), and not solved yet */
	SfLease		lease;
	SfKnown		known;
} SfLeaseShared;

/* lease_worker.c, used by the other files */
extern const SfRightAccess *sf_core;	/* what the core offers; NULL: this
										 * server leases nothing */
extern SfLeaseShared *sf_lease_shared;

extern SfMoment sf_lease_worker_clocks(void);

#define SF_INSTALL_AGAIN \
	"Install the extension again, all of it from one package or build. Then restart the server."

extern const SfBackend *sf_registry_library_load(void);
extern bool sf_registry_library_receive(const SfBackend *backend,
										SfAnswer *answer);
extern void sf_registry_library_wait(const SfBackend *backend, int64 limit_ms);

/* age_file.c, used by lease_worker.c, and by sessions */
extern SfAge *sf_age_file_load(void);
extern void sf_age_file_keep(bool now);
extern int64_t sf_age_file_promised_ms(void);
extern int64_t sf_age_file_reserve_ms(void);

/* remains_file.c, used by lease_worker.c */
extern void sf_remains_file_load(SfClaimant *claimant);
extern void sf_remains_file_see_clock(void);
extern void sf_remains_file_keep(const SfClaimant *claimant,
								 const SfRight *right);

/* registry_session.c: calls of administrators */

/* The longest wait that a recovery imposes. */
#define SF_RECOVERY_MAX_MS	(INT64CONST(31) * 24 * 3600 * 1000)

/* A change of the registry. */
typedef struct SfRegistryChange
{
	SfAskKind	kind;			/* SF_ASK_INITIALIZE, _RECOVER or _RELEASE */
	SfLayout	layout;			/* for a new registry */
	int64_t		reserve_ms;		/* for a recovery: the first argument */
	int64_t		ahead_ms;		/* both arguments together, from the
								 * registry's clock on */
	uint32_t	node;			/* for a release */

	/* Set by a recovery. */
	int64_t		floor;			/* in ticks of the registry's layout */
	SfLayout	floor_layout;
} SfRegistryChange;

extern void sf_registry_session_require(const char *name);
extern bool sf_registry_session_change(SfRegistryChange *change);
extern SfSlotRecord *sf_registry_session_slots(SfLayout *layout, int *n);

#endif							/* SF_LEASE_WORKER_H */
