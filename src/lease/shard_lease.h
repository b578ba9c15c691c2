/*-------------------------------------------------------------------------
 *
 * shard_lease.h
 *	  One server's lease of its configured shards, as a state machine without
 *	  clock, network or memory of its own.
 *
 * Used like the lease of a node id (lease.h), with which it shares most.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_LEASE_H
#define SF_SHARD_LEASE_H

#include "lease/lease.h"
#include "lease/shard_map.h"

typedef uint32_t SfShardSet[SF_RANGES_WORDS(SF_RANGES_MAX)];

/*
 * The right to issue timestamps for these shards, from start up to until, in
 * ticks since the epoch of the shards' layout.  Before it is published, their
 * counters must be at start or above, and all other counters closed.  While it
 * is not valid nothing may be issued, but the shards are not lost.
 *
 * The write_id is as in SfRight.
 */
typedef struct SfShardRight
{
	bool		valid;
	int64_t		start;
	int64_t		until;			/* never goes down */
	uint64_t	write_id;
	SfShardSet	shards;
} SfShardRight;

typedef struct SfShardLease
{
	/*
	 * Requests, times, problems, the clock, and pending writes.  Its layout
	 * is the shards', and its record stands for the shard record: the version
	 * read last, and our last write.  Its right is not used.
	 */
	SfLease		lease;

	/* Read by the caller. */
	SfShardRight right;

	/* Internal. */
	const SfLayout *node_layout;	/* layout of the registry's floor */
	uint32_t	nshards;
	SfShardSet	wanted;
	SfShardSet	held;			/* in our line of the record */
	int64_t		least_until;	/* lower bound of the untils that we write */
	int64_t		left_until;		/* all that was issued for returned shards is
								 * below */
	int			failures;		/* in a row, failures and conflicts */
	SfShardMap	map;			/* as read, and as to be written */
	char		text[SF_SHARDMAP_TEXT_SIZE];	/* the text of a write */
} SfShardLease;

/* The decision about a reading. */
typedef struct SfShardPlan
{
	SfShardSet	next;			/* the shards of our next line */
	bool		adds;			/* some of them are not in the right yet */
	bool		leaves;			/* some of our shards are given back */
	int64_t		start;
	int64_t		least;			/* our next until is not below this */

	/* the first range that cannot be had, until when, and its holder */
	bool		blocked;
	uint32_t	first;
	uint32_t	last;
	int64_t		until;
	const SfShardLine *holder;	/* NULL: the registry's floor */
	int64_t		soonest;		/* when the first of them is available */
} SfShardPlan;

/* shard_lease.c */
extern void sf_shard_lease_init(SfShardLease *shards,
								const SfLeaseConfig *config,
								const SfLayout *node_layout,
								int64_t least_until, SfMoment now);
extern void sf_shard_lease_want(SfShardLease *shards, SfMoment now,
								const uint32_t *wanted, int64_t last_issued);
extern void sf_shard_lease_step(SfShardLease *shards, SfMoment now);
extern void sf_shard_lease_answer(SfShardLease *shards, SfMoment now,
								  const SfAnswer *answer);
extern void sf_shard_lease_release(SfShardLease *shards, SfMoment now,
								   int64_t last_issued);

/* shard_lease.c, for its unit test */
extern bool sf_shard_lease_carry_out(SfShardLease *shards, SfMoment now,
									 const SfShardPlan *plan,
									 uint64_t write_id);

/* Return true if this server may issue for all shards that it wants. */
static inline bool
sf_shard_lease_is_whole(const SfShardLease *shards)
{
	return !sf_ranges_exceed(shards->wanted, shards->right.shards,
							 shards->nshards);
}

#endif							/* SF_SHARD_LEASE_H */
