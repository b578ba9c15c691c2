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

/* used by registryfuncs.c, too */
extern const SfRightAccess *sf_core;	/* what the core offers; NULL: this
										 * server leases nothing */
extern SfLeaseShared *sf_lease_shared;

#define SF_INSTALL_AGAIN \
	"Install the extension again, all of it from one package or build. Then restart the server."

extern const SfBackend *sf_registry_library_load(void);
extern bool sf_registry_library_receive(const SfBackend *backend,
										SfAnswer *answer);
extern void sf_registry_library_wait(const SfBackend *backend, int64 limit_ms);
extern SfAge sf_age_load(void);

#endif							/* SF_LEASE_WORKER_H */
