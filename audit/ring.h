/*-------------------------------------------------------------------------
 *
 * ring.h
 *	  Records of transactions, on their way from sessions to the log: a ring in
 *	  shared memory for each audited database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RING_H
#define SF_RING_H

#include "access/xact.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "runtime/made.h"
#include "storage/latch.h"
#include "storage/spin.h"

/* An IPv6 address with a scope. */
#define SF_ADDRESS_SIZE	64

/* A line of snowflake_audit.status(). */
#define SF_PROBLEM_SIZE	200

/* The texts of a record; each may be empty. */
typedef enum SfText
{
	SF_TEXT_LAYOUT,				/* empty: the configured one */
	SF_TEXT_APPLICATION,
	SF_TEXT_ADDRESS,			/* of the client; empty: a local one */
	SF_TEXTS
} SfText;

#define SF_TEXTS_SIZE	(SF_LAYOUT_TEXT_SIZE + NAMEDATALEN + SF_ADDRESS_SIZE)

/* What one transaction has made from one source. */
typedef struct SfRecord
{
	/* its position + 1 when it is complete; 0 while it is written */
	pg_atomic_uint64 ready;

	uint64		dropped;		/* records that were dropped before this one */
	TimestampTz ended_at;
	uint64		xid;			/* with the epoch; 0: none */
	int64		first;			/* as in SfMade */
	int64		last;
	uint64		count;
	int			shard;			/* or SF_NO_SHARD */
	XactEvent	event;			/* COMMIT, ABORT or PREPARE */
	Oid			database;
	Oid			role;
	int			pid;

	/* one behind the other, each with its end: few lines of the cache */
	char		texts[SF_TEXTS_SIZE];
} SfRecord;

/*
 * The records of one database.  Sessions write records at "head", and the
 * worker of that database reads them at "tail".
 */
typedef struct SfRing
{
	NameData	name;			/* as in snowflake_audit.databases */
	uint64		life;			/* random: no other ring has it */
	pg_atomic_uint32 database;	/* its oid; 0: the worker has not begun */
	pg_atomic_uint32 pid;		/* the worker's; 0: none */
	Latch	   *worker;			/* its latch, or that of an ended one */
	TimestampTz maintained_at;	/* by a worker; 0: not yet */
	bool		hurries;		/* a reload or a full disk asks for a look */
	int64		clock_offset_us;	/* wall clock - monotonic one */
	int64		steady_us;		/* monotonic: since then; 0: not known yet */
	int			kept;			/* snowflake_audit.keep, then */
	uint64		reported;		/* how many dropped records the log has told */
	int			failures;		/* workers in a row that wrote nothing */

	slock_t		problem_lock;
	char		problem[SF_PROBLEM_SIZE];	/* why records wait; or empty */

	pg_atomic_uint64 head;		/* next position to write */
	pg_atomic_uint64 tail;		/* next position to read; the worker's */
	pg_atomic_uint64 dropped;	/* since the last record */
	pg_atomic_uint64 dropped_ever;	/* with those that were skipped */
	pg_atomic_uint64 skipped;	/* of a database that had this name */

	SfRecord	record[FLEXIBLE_ARRAY_MEMBER];
} SfRing;

/* Settings */
extern char *sf_audit_databases;
extern int	sf_audit_ring_size;
extern int	sf_audit_keep;

extern int	sf_ring_count;		/* rings, one for each database */

extern void sf_ring_install(List *databases);
extern SfRing *sf_ring_get(int i);
extern SfRing *sf_ring_of_database(void);
extern uint64 sf_ring_tail(SfRing *ring);
extern const SfRecord *sf_ring_read(SfRing *ring, uint64 position);
extern bool sf_ring_copy(SfRing *ring, uint64 position, SfRecord *record);
extern const char *sf_ring_text(const SfRecord *record, SfText which);
extern void sf_ring_release(SfRing *ring, uint64 position);
extern void sf_ring_set_problem(SfRing *ring, const char *problem);
extern void sf_ring_get_problem(SfRing *ring, char *problem);

/* Fault points of this library: see src/base/fault.h. */
#ifdef SF_FAULTS
extern void sf_ring_fault(const char *place);
#define SF_AUDIT_FAULT(place)	sf_ring_fault(place)
#else
#define SF_AUDIT_FAULT(place)	((void) 0)
#endif

/* worker.c */
extern void sf_audit_worker_register(int i, const char *database);

#endif							/* SF_RING_H */
