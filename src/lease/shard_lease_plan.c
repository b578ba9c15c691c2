/*-------------------------------------------------------------------------
 *
 * shard_lease_plan.c
 *	  Plan for the shards: which to claim, and the claim's first timestamp.
 *
 * A claim begins at the until of each of its shards, or above.  So a bad
 * choice only makes the server wait.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_lease.h"

#include <stdio.h>
#include <string.h>

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Return true if the set is not empty. */
bool
sf_shard_lease_any(const SfShardLease *shards, const uint32_t *set)
{
	static const SfShardSet none;

	return sf_ranges_exceed(set, none, shards->nshards);
}

/* Convert the registry's floor into ticks of our layout. */
static int64_t
find_floor(const SfShardLease *shards, int64_t floor)
{
	const SfLayout *node = shards->node_layout;
	const SfLayout *ours = shards->lease.config.claimant.layout;
	int64_t		ms;

	if (floor <= 0)
		return 0;
	if (floor > SF_END_OF_TICKS)
		floor = SF_END_OF_TICKS;
	ms = (node->epoch_tick + floor) * node->tick_ms + ours->tick_ms - 1;
	return later(sf_layout_ms_to_tick(ours, ms) - ours->epoch_tick, 0);
}

/* Note that a shard is not available before this until. */
static void
block(SfShardPlan *plan, uint32_t shard, int64_t until,
	  const SfShardLine *holder)
{
	if (!plan->blocked || until < plan->soonest)
		plan->soonest = until;
	if (!plan->blocked)
	{
		plan->blocked = true;
		plan->first = plan->last = shard;
		plan->until = until;
		plan->holder = holder;
	}
	else if (shard == plan->last + 1 && holder == plan->holder)
		plan->last = shard;
}

/*
 * Return the until of a line from which on its shards may be claimed: what the
 * previous life of this server has left ends where that life has.
 */
static int64_t
find_until(const SfClaimant *claimant, const SfShardLine *line)
{
	if (claimant->last_write_id != 0 &&
		line->write_id == claimant->last_write_id &&
		claimant->last_until < line->until)
		return claimant->last_until;
	return line->until;
}

/* Plan which wanted shards to keep or to claim. */
void
sf_shard_lease_plan(SfShardLease *shards, SfMoment now,
					const SfRegistry *registry, SfShardPlan *plan)
{
	const SfShardMap *map = &shards->map;
	const SfClaimant *claimant = &shards->lease.config.claimant;
	int64_t		latest = sf_lease_tick(&shards->lease, now) +
		claimant->max_ahead_ms / claimant->layout->tick_ms;
	int64_t		floor = find_floor(shards, registry->floor);

	memset(plan, 0, sizeof(SfShardPlan));
	plan->start = shards->right.start;
	for (uint32_t i = 0; i < shards->nshards; i++)
	{
		bool		ours = sf_ranges_has(shards->held, i);
		const SfShardLine *line = map->line_of[i] == 0 ? NULL :
			&map->line[map->line_of[i] - 1];
		int64_t		left = line == NULL ? 0 : find_until(claimant, line);
		int64_t		until = later(left, floor);

		if (shards->lease.state == SF_LEASE_RELEASING ||
			!sf_ranges_has(shards->wanted, i))
		{
			plan->leaves = plan->leaves || ours;
			continue;
		}
		if (!ours && until > latest)
		{
			block(plan, i, until, left < floor ? NULL : line);
			continue;
		}
		if (!ours)
			plan->start = later(plan->start, until);
		if (!ours && line != NULL)
			plan->least = later(plan->least, line->until);
		sf_ranges_add(plan->next, i);
	}
	plan->adds = sf_ranges_exceed(plan->next, shards->right.shards,
								  shards->nshards);
}

/*
 * Report that some shards are not available, and when to try again: not later
 * than the next extension.
 */
void
sf_shard_lease_report(SfShardLease *shards, SfMoment now,
					  const SfShardPlan *plan, int64_t spare_ms)
{
	SfLease    *lease = &shards->lease;
	const SfClaimant *claimant = &lease->config.claimant;
	const SfLayout *layout = claimant->layout;
	const SfShardLine *holder = plan->holder;
	int64_t		ahead = plan->soonest - sf_lease_tick(lease, now) -
		claimant->max_ahead_ms / layout->tick_ms;
	bool		names = holder != NULL && holder->write_id != 0;
	bool		comes = !names || holder->server == claimant->server;
	char		range[40];
	char		time[40];
	char		text[SF_REASON_SIZE + 40];
	char		public_text[SF_REASON_SIZE];

	snprintf(range, sizeof(range), plan->first == plan->last ?
			 "Shard %u is" : "Shards %u-%u are", plan->first, plan->last);
	sf_epoch_print((layout->epoch_tick + plan->until) * layout->tick_ms,
				   time, sizeof(time));
	if (holder == NULL)
		snprintf(text, sizeof(text),
				 "After its recovery the registry lets no server claim a shard before %s.",
				 time);
	else if (holder->write_id == 0)
		snprintf(text, sizeof(text),
				 "%s not free before %s, for what was issued.", range, time);
	else
		snprintf(text, sizeof(text), "%s reserved until %s by \"%.63s\"%s.",
				 range, time, holder->host,
				 comes ? ", in a life of this server that has ended" : "");
	snprintf(public_text, sizeof(public_text), "%s reserved until %s%s.",
			 range, time, comes ? ", in a life of this server that has ended" :
			 " by another server");
	sf_lease_set_private_problem(lease, now, text,
								 names ? public_text : text, comes ?
								 "Wait until then." :
								 "List a shard in snowflake.shards of one server only. If that server has gone, wait until then.");
	sf_lease_back_off(lease, now);
	if (ahead < SF_LEASE_RETRY_MS / layout->tick_ms)
		lease->retry_ms = now.monotonic_ms + 1 +
			(ahead > 0 ? ahead * layout->tick_ms : 0);
	if (spare_ms < 0)			/* an extension is under way */
		spare_ms = lease->config.reserve_ms / 3;
	if (lease->state == SF_LEASE_HELD &&
		lease->retry_ms > now.monotonic_ms + spare_ms + 1)
		lease->retry_ms = now.monotonic_ms + spare_ms + 1;
}

/* ---- the next record ---- */

/* Return an until above all timestamps issued for returned shards. */
static int64_t
find_left_until(const SfShardLease *shards, int64_t reserved)
{
	int64_t		until = later(shards->left_until, shards->right.start);

	return until < reserved ? until : reserved;
}

/*
 * Apply the plan to the map.  Return false if there is no room.  A server that
 * has a line already needs more room only if it gives back a part of its
 * shards: these stay in its old line, which then has no holder.
 */
bool
sf_shard_lease_carry_out(SfShardLease *shards, SfMoment now,
						 const SfShardPlan *plan, uint64_t write_id)
{
	const SfClaimant *claimant = &shards->lease.config.claimant;
	SfShardMap *map = &shards->map;
	int			old = sf_shard_map_find(map, shards->lease.record.write_id);
	bool		keeps = sf_shard_lease_any(shards, plan->next);
	int			ours = old;
	int64_t		until = later(later(plan->start, plan->least),
							  shards->least_until);
	SfShardLine *line;

	if (keeps && (old < 0 || plan->leaves))
	{
		ours = sf_shard_map_add(map);
		if (ours < 0)
			return false;
	}
	if (old >= 0)
		until = later(until, map->line[old].until);
	if (old >= 0 && plan->leaves)
	{
		line = &map->line[old];
		line->until = find_left_until(shards, line->until);
		line->reserve_ms = 0;
		line->write_id = 0;
		line->server = 0;
		line->host[0] = '\0';
	}
	if (keeps)
	{
		line = &map->line[ours];
		line->until = sf_lease_reserve(&shards->lease, now, until);
		line->reserve_ms = sf_lease_reserved_ms(&shards->lease, now,
												line->until);
		line->write_id = write_id;
		line->server = claimant->server;
		snprintf(line->host, sizeof(line->host), "%s", claimant->host);
	}
	for (uint32_t i = 0; i < shards->nshards; i++)
	{
		if (sf_ranges_has(plan->next, i))
			map->line_of[i] = (uint16_t) (ours + 1);
	}
	sf_shard_map_compact(map, sf_lease_tick(&shards->lease, now));
	return true;
}
