/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  What a registry of node ids keeps, is asked, and answers.
 *
 * A registry keeps one record per node id, for ever, changed only by
 * compare-and-swap.  Besides, who is there is known by its presence, which
 * the registry drops when nobody has kept it alive for its TTL.  Presence is
 * a matter of choosing a slot well, never of who may issue.
 *
 * Times in records are ticks since the layout's epoch, as in the IDs.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRY_H
#define SF_REGISTRY_H

#include "layout.h"

#define SF_HOST_SIZE	64
#define SF_ADDRESS_SIZE	64

/* One slot. */
typedef struct SfRecord
{
	uint32_t	node;
	int64_t		version;		/* the registry's; 0: never written */
	int64_t		epoch;			/* claims so far */
	uint64_t	owner;			/* random, another one for each claim */
	uint64_t	server;			/* which server: stays over restarts */
	uint64_t	write_id;		/* random, another one for each write */
	int64_t		until;			/* no timestamp from here on is taken */
	int64_t		offset_ms;		/* the owner's clock was so far ahead */
	bool		released;

	/* For people: who has claimed it, and when. */
	char		host[SF_HOST_SIZE];
	int32_t		process;		/* the postmaster's; 0: nobody's */
	int64_t		since_ms;		/* Unix ms */

	/*
	 * Not part of a write.  The address is whence the owner has last written,
	 * as the library finds it, or empty; it stays where there is no owner.
	 */
	char		address[SF_ADDRESS_SIZE];
	uint64_t	present;		/* the owner that is there; 0: nobody */
} SfRecord;

/* All that there is, read at one moment, and not from a member that lags. */
typedef struct SfRegistry
{
	bool		initialized;
	uint64_t	generation;		/* random; another one after each recovery */
	int64_t		floor;			/* no claim begins before it */
	char		layout[SF_LAYOUT_TEXT_SIZE];
	const SfRecord *records;	/* by node, ascending */
	int			nrecords;

	/* Who may issue for which shards, one record for all, as text. */
	const char *shards;
	int64_t		shards_version; /* 0: never written; then the text is "" */
} SfRegistry;

/*
 * Why a registry has not done what it was asked, as far as its library can
 * tell: each has a remedy of its own.
 */
typedef enum SfFailure
{
	SF_FAILURE_OTHER,
	SF_FAILURE_UNREACHABLE,		/* no connection, or no answer in time */
	SF_FAILURE_LOGIN,			/* it does not let us in */
	SF_FAILURE_DATABASE,		/* there is no such database */
	SF_FAILURE_EXTENSION,		/* the database has none, or another version */
	SF_FAILURE_PERMISSION,		/* we are in, and may not do that */
	SF_FAILURE_READ_ONLY,		/* it is a standby, or only to be read */
	SF_FAILURE_LOST,			/* it may have lost data */
	SF_FAILURES
} SfFailure;

typedef enum SfAskKind
{
	SF_ASK_NOTHING,
	SF_ASK_READ,				/* the registry */
	SF_ASK_CLAIM,				/* write, and be present */
	SF_ASK_EXTEND,				/* write, and be present if presence is set */
	SF_ASK_RELEASE,				/* write, and be present no more */
	SF_ASK_KEEPALIVE,			/* stay present */
	SF_ASK_SHARDS,				/* write the record of the shards */
	SF_ASK_INITIALIZE,			/* make it a registry, if it is none */
	SF_ASK_RECOVER				/* another generation and floor */
} SfAskKind;

/*
 * One request.  A write is made in one step with its conditions: that the
 * registry is of this generation, the record of this version (0: there is
 * none), and nobody present but record.owner and displaced.  It replaces all
 * of the record; its version is what the registry makes it.
 *
 * The record of the shards has a version in the same way, and no presence.
 * To initialize has as its condition that there is no registry.
 *
 * A request is over when the next one is asked.  That it may have an effect
 * all the same, and whenever, is expected.
 */
typedef struct SfAsk
{
	SfAskKind	kind;
	uint64_t	number;			/* grows with each */
	int64_t		deadline_ms;	/* monotonic */
	uint64_t	generation;
	int64_t		version;
	SfRecord	record;
	uint64_t	displaced;
	bool		presence;
	const char *shards;			/* to be written; lives until the next one */

	/* To initialize or recover: what the registry is to have. */
	uint64_t	new_generation;
	int64_t		new_floor;		/* a recovery never lowers it */
	const SfLayout *new_layout; /* to initialize */
	const char *new_layout_text;	/* as it is printed */
} SfAsk;

typedef enum SfResult
{
	SF_RESULT_DONE,
	SF_RESULT_CONFLICT,			/* a condition did not hold: not written */
	SF_RESULT_ABSENT,			/* keepalive: the presence is gone */
	SF_RESULT_REFUSED,			/* not done */
	SF_RESULT_UNKNOWN			/* done or not, now or later */
} SfResult;

/*
 * A registry that is known to have lost data refuses to be read, and says what
 * it has all the same: of that generation it is to be recovered.
 */
typedef struct SfAnswer
{
	uint64_t	number;			/* of the request */
	SfResult	result;
	int64_t		version;		/* of a record that was written */
	const SfRegistry *registry; /* that was read */
	const char *message;		/* what went wrong, as a sentence; it may name
								 * roles, hosts and paths */
	SfFailure	failure;		/* and of which kind that is */

	/* The registry's clock as it answered, in Unix ms, and to how many. */
	int64_t		clock_ms;		/* 0: it does not say */
	int64_t		clock_step_ms;
} SfAnswer;

/* registry.c */
extern const char *sf_registry_failure(SfFailure failure);
extern const char *sf_registry_remedy(const char *kind, SfFailure failure);

#endif							/* SF_REGISTRY_H */
