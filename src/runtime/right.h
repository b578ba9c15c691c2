/*-------------------------------------------------------------------------
 *
 * right.h
 *	  The right to issue IDs as a node: all that the core and the library
 *	  snowflake_lease know of each other.
 *
 * Where snowflake.registry is set, the core loads that library at the start,
 * and passes SfRightAccess to it.  The library leases a node id, and publishes
 * its right.  A session reads the published right, and waits for one if there
 * is none (lease_wait.c).  The core calls nothing of the library, except to
 * start it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RIGHT_H
#define SF_RIGHT_H

#include "layout/layout.h"
#include "runtime/log_event.h"

/*
 * The file in which the library remembers the registry.  A server without a
 * registry that finds it in its data directory has leased its node id before.
 */
#define SF_AGE_FILE	"snowflake.age"

/* The largest snowflake.lease_reserve. */
#define SF_MAX_RESERVE_MS	(24 * 3600 * 1000)

/* The states of a leased node id, as users see them. */
typedef enum SfLeaseStage
{
	SF_STAGE_NONE,				/* there is no worker */
	SF_STAGE_SEARCHING,
	SF_STAGE_HELD,
	SF_STAGE_EXPIRED,			/* held, but its time has run out */
	SF_STAGE_HALTED,			/* held, but not usable at present */
	SF_STAGE_ENDED
} SfLeaseStage;

/* The worker's report about itself. */
typedef struct SfLeaseStatus
{
	int			pid;
	SfLeaseStage stage;
	int64		next_ms;		/* time of the next write, Unix ms; or 0 */
	bool		clock_known;	/* the registry has told its time */
	int64		offset_ms;		/* then our clock is ahead by this */
	bool		registry_moved; /* ... because the registry's clock was set */
	char		problem[SF_REASON_SIZE];	/* empty: no problem */
	char		public_problem[SF_REASON_SIZE]; /* without names and places */
	char		remedy[SF_REMEDY_SIZE];
} SfLeaseStatus;

/* A kind of registry, by the scheme of its URL. */
typedef struct SfRegistryKind
{
	const char *scheme;
	const char *name;			/* its client is snowflake_<name> */
	const char *needs;			/* what its client is built with */
	const char *initialize;		/* how an administrator begins it; NULL: in
								 * the registry, see lease/lease_worker.c */
} SfRegistryKind;

struct SfEventLimit;

/* Of whom SfRightAccess is. */
#define SF_RIGHT_VERSION	"snowflake " SF_VERSION

/*
 * What the core offers to the library.  The first two members are the first
 * ones in each version, so that a library of another version can refuse it.
 */
typedef struct SfRightAccess
{
	const char *version;		/* SF_RIGHT_VERSION */
	size_t		size;			/* SF_RIGHT_SIZE */

	/* Settings: of the first three, the values stay. */
	const SfLayout *layout;		/* of the node */
	const char *registry;		/* may hold a password */
	const SfRegistryKind *kind;
	const int  *reserve_ms;
	const int  *presence_ms;
	const int  *timeout_ms;

	/* The registry's name for people; for some roles it is only the scheme. */
	void		(*print_registry) (char *name, size_t size);
	void		(*print_registry_for_role) (char *name, size_t size);

	/* May this role see the messages of the registry's client? */
	bool		(*may_see_registry) (void);

	/*
	 * Who we are: a number that no copy of this server has, 0 in a copy that
	 * nobody has accepted; and the nodes that this server may lease.  If
	 * there is none, the function returns false, with the reason as a
	 * sentence.
	 */
	uint64		(*server) (void);
	bool		(*find_nodes) (uint32 *first, uint32 *last, char *reason,
							   size_t reason_size);

	/* Has ALTER SYSTEM set it?  Then a line in a file has no effect. */
	bool		(*is_altered) (const char *setting);

	/* Return a random number that a copy of this machine does not repeat. */
	uint64_t	(*random) (void);

	/* These are for the worker alone: see right.c. */
	void		(*begin) (void);
	void		(*publish) (uint32 node, int64 start, int64 until);
	void		(*withdraw) (void);
	int64		(*close) (void);
	void		(*report) (const SfLeaseStatus *status);

	/* Log an event.  The limit is NULL; detail and hint may be. */
	void		(*log_event) (struct SfEventLimit *limit, SfEvent event,
							  const char *detail, const char *hint,
							  const char *format, ...)
				pg_attribute_printf(5, 6);

	/* Return "written"; if it is false, log that about this file. */
	bool		(*log_file) (bool written, const char *name,
							 const char *detail);
} SfRightAccess;

/* Libraries that differ in the size of what passes are not of one build. */
#define SF_RIGHT_SIZE \
	(sizeof(SfRightAccess) + sizeof(SfLeaseStatus) + sizeof(SfLayout) + \
	 sizeof(SfRegistryKind) + SF_EVENTS)

/* The library, and the function of it that the core calls at the start. */
#define SF_LEASE_LIBRARY	"snowflake_lease"
#define SF_LEASE_START		"snowflake_lease_start"

typedef void (*SfLeaseStart) (const SfRightAccess *access);

#endif							/* SF_RIGHT_H */
