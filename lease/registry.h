/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  The data of a registry of node ids, requests to it, and its answers.
 *
 * A registry keeps one record per node id, for ever, changed only by
 * compare-and-swap.  It also knows which owners are present, and drops a
 * presence that was not kept alive for its TTL.  Presence helps to choose a
 * slot; it never decides which server may issue.
 *
 * Times in records are ticks since the layout's epoch, as in the IDs.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRY_H
#define SF_REGISTRY_H

#include "layout/layout.h"

#define SF_HOST_SIZE	64
#define SF_ADDRESS_SIZE	64

/* 32 generations of 16 hexadecimal digits, with a space between. */
#define SF_FORMER_SIZE	(32 * 17)

/* The record of one slot. */
typedef struct SfSlotRecord
{
	uint32_t	node;
	int64_t		version;		/* the registry's; 0: never written */
	int64_t		epoch;			/* number of claims so far */
	uint64_t	owner;			/* random, new for each claim */
	uint64_t	server;			/* random, kept by a server over restarts */
	uint64_t	write_id;		/* random, new for each write */
	int64_t		until;			/* no timestamp from here on is issued */
	int64_t		offset_ms;		/* the owner's clock was so far ahead */
	int64_t		reserve_ms;		/* and until at most this far ahead of that
								 * clock; 0: unknown */
	bool		released;

	/* For people: the process that claimed the slot, and when. */
	char		host[SF_HOST_SIZE];
	int32_t		process;		/* the postmaster's PID; 0: none */
	int64_t		since_ms;		/* Unix ms */

	/*
	 * Not part of a write.  The address from which the owner last wrote, as
	 * the library sees it, or empty.  It stays when there is no owner.
	 */
	char		address[SF_ADDRESS_SIZE];
	uint64_t	present;		/* owner that is present; 0: none */
} SfSlotRecord;

/* The whole registry, read at one moment, and from no member that lags. */
typedef struct SfRegistry
{
	bool		initialized;
	uint64_t	generation;		/* random, new after each recovery: the name
								 * of this registry */
	char		former[SF_FORMER_SIZE]; /* those that it succeeds, the latest
										 * first */
	int64_t		floor;			/* no claim begins before it */
	char		layout[SF_LAYOUT_TEXT_SIZE];
	const SfSlotRecord *records;	/* by node, ascending */
	int			nrecords;
	int64_t		version;		/* grows with each write of a slot */
	uint32_t	newest;			/* the node written last */
} SfRegistry;

/*
 * The kinds of failure, as far as a library can tell them apart.  Each has a
 * remedy of its own.
 */
typedef enum SfFailure
{
	SF_FAILURE_OTHER,
	SF_FAILURE_UNREACHABLE,		/* no connection */
	SF_FAILURE_TIMEOUT,			/* no answer in time */
	SF_FAILURE_CERTIFICATE,		/* TLS: one side does not trust the other */
	SF_FAILURE_LOGIN,			/* it rejects our login */
	SF_FAILURE_DATABASE,		/* the database does not exist */
	SF_FAILURE_EXTENSION,		/* the extension is missing, or another
								 * version */
	SF_FAILURE_PERMISSION,		/* it denies this request */
	SF_FAILURE_READ_ONLY,		/* set to read-only, or perhaps a standby */
	SF_FAILURE_STANDBY,
	SF_FAILURE_FULL,			/* no space left for a write */
	SF_FAILURE_TOO_LONG,		/* there is too much for one answer */
	SF_FAILURE_LOST,			/* it may have lost data */
	SF_FAILURE_ANOTHER,			/* it is empty, or another one than before */
	SF_FAILURES
} SfFailure;

typedef enum SfAskKind
{
	SF_ASK_NOTHING,
	SF_ASK_READ,				/* read the registry */
	SF_ASK_CLAIM,				/* write, and become present */
	SF_ASK_EXTEND,				/* write; become present if "presence" is set */
	SF_ASK_RELEASE,				/* write, and end presence */
	SF_ASK_KEEPALIVE,			/* keep presence alive */
	SF_ASK_INITIALIZE,			/* make it a registry, unless it is one */
	SF_ASK_RECOVER				/* begin another generation, with a floor */
} SfAskKind;

/*
 * A request.  A write takes effect in one step with the check of its
 * conditions: the registry has this generation, the record this version (0:
 * there is none), and no owner is present except record.owner and "displaced".
 * It replaces the whole record.  The registry assigns the new version.
 *
 * Initializing requires that there is no registry.
 *
 * The next request ends this one, which may still take effect later, at any
 * time.  Callers expect that.
 */
typedef struct SfAsk
{
	SfAskKind	kind;
	uint64_t	number;			/* grows with each request */
	int64_t		deadline_ms;	/* of the caller, which then gives up; a
								 * library counts its time-out from send() */
	uint64_t	generation;
	int64_t		version;
	SfSlotRecord record;
	uint64_t	displaced;
	bool		presence;
	int			avoid;			/* use another endpoint than this; 0: any */

	/* For initializing and recovering: the registry's new data. */
	uint64_t	new_generation;
	const char *new_former;		/* what it succeeds, as in SfRegistry */
	int64_t		new_floor;		/* a recovery never lowers the floor */
	const SfLayout *new_layout; /* for initializing */
	const char *new_layout_text;	/* its canonical text */
} SfAsk;

typedef enum SfResult
{
	SF_RESULT_DONE,
	SF_RESULT_CONFLICT,			/* a condition failed: not written */
	SF_RESULT_ABSENT,			/* keepalive: the presence is gone */
	SF_RESULT_REFUSED,			/* not done */
	SF_RESULT_UNKNOWN			/* done or not, now or later */
} SfResult;

/*
 * An answer.  A registry that knows that it has lost data refuses to be read,
 * but still returns its data: recovering needs the generation.
 */
typedef struct SfAnswer
{
	uint64_t	number;			/* of the request */
	SfResult	result;
	int64_t		version;		/* new version of the written record */
	int64_t		registry_version;	/* the registry's after that write */
	const SfRegistry *registry; /* if it was read */

	const char *message;		/* the failure as a sentence; may name roles,
								 * hosts and paths */
	SfFailure	failure;		/* the kind of failure */

	/* The registry's clock when it answered, in Unix ms; its resolution. */
	int64_t		clock_ms;		/* 0: unknown */
	int64_t		clock_step_ms;

	/*
	 * The endpoint that answered, counted from 1 as in the setting, if each
	 * endpoint has a clock of its own; 0 if all share one.
	 */
	int			endpoint;
} SfAnswer;

/*
 * Print a part of the setting snowflake.registry, such as "role", for a
 * remedy; NULL if the setting does not have it.  There is no password in it.
 */
typedef const char *(*SfPartFunction) (const char *part);

/* slot_choice.c */
extern const SfSlotRecord *sf_slot_record_find(const SfRegistry *registry,
											   uint32_t node);

#endif							/* SF_REGISTRY_H */
