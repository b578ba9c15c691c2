/*-------------------------------------------------------------------------
 *
 * shard_lease.h
 *	  One server's lease of the shards that it is configured for, as a state
 *	  machine without clock, network or memory of its own.
 *
 * Used as that of a node id (lease.h) is, with which it has most in common.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_LEASE_H
#define SF_SHARD_LEASE_H

#include "lease.h"
#include "shardmap.h"

typedef uint32_t SfShardSet[SF_RANGES_WORDS(SF_RANGES_MAX)];

/*
 * The right to issue timestamps for these shards, from start up to until, in
 * ticks since the epoch of the shards' layout.  Their counters must be at
 * start or above before it is published, and those of all others closed.
 * While it is not valid nothing may be issued, but the shards are not lost.
 */
typedef struct SfShardRight
{
	bool		valid;
	int64_t		start;
	int64_t		until;			/* never goes down */
	SfShardSet	shards;
} SfShardRight;

typedef struct SfShardLease
{
	/*
	 * Requests, times, problems, the clock, and writes that may have been
	 * made.  Its layout is the shards', and its record is of them all: the
	 * version that was read last, and what we have written.  Its right is not
	 * used.
	 */
	SfLease		lease;

	/* For the caller. */
	SfShardRight right;

	/* Its own. */
	const SfLayout *node_layout;	/* of the registry's floor */
	uint32_t	nshards;
	SfShardSet	wanted;
	SfShardSet	held;			/* in our line of the record */
	int64_t		least_until;	/* what we write is not below */
	int64_t		left_until;		/* what was issued for others is below */
	int			failures;		/* in a row, of either kind */
	SfShardMap	map;			/* as read, and to be written */
	char		text[SF_SHARDMAP_TEXT_SIZE];	/* as it is written */
} SfShardLease;

/* What is to be done about what was read. */
typedef struct SfShardPlan
{
	SfShardSet	next;			/* what our line is to list */
	bool		adds;			/* some of that may not be issued for yet */
	bool		leaves;			/* some of what it lists is given back */
	int64_t		start;

	/* the first range that is wanted and cannot be had, until when, and why */
	bool		blocked;
	uint32_t	first;
	uint32_t	last;
	int64_t		until;
	const SfShardLine *holder;	/* NULL: the registry's floor */
	int64_t		soonest;		/* when the first of them can be had */
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

/* shard_lease_plan.c, for shard_lease.c */
extern bool sf_shard_lease_any(const SfShardLease *shards,
							   const uint32_t *set);
extern void sf_shard_lease_plan(SfShardLease *shards, SfMoment now,
								const SfRegistry *registry,
								SfShardPlan *plan);
extern void sf_shard_lease_report(SfShardLease *shards, SfMoment now,
								  const SfShardPlan *plan, int64_t spare_ms);
extern bool sf_shard_lease_carry_out(SfShardLease *shards, SfMoment now,
									 const SfShardPlan *plan,
									 uint64_t write_id);

/* shard_lease_state.c, for shard_lease.c */
extern void sf_shard_lease_adopt(SfShardLease *shards, int line,
								 uint64_t write_id, int64_t start);
extern void sf_shard_lease_hold_nothing(SfShardLease *shards);
extern void sf_shard_lease_fence(SfShardLease *shards, SfMoment now,
								 const char *why);
extern void sf_shard_lease_settle(SfShardLease *shards, SfMoment now,
								  int64_t version);
extern bool sf_shard_lease_read_map(SfShardLease *shards, SfMoment now,
									const SfRegistry *registry);

/* May it issue for all that it wants? */
static inline bool
sf_shard_lease_is_whole(const SfShardLease *shards)
{
	return !sf_ranges_exceed(shards->wanted, shards->right.shards,
							 shards->nshards);
}

#endif							/* SF_SHARD_LEASE_H */
