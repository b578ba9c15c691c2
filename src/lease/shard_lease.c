/*-------------------------------------------------------------------------
 *
 * shard_lease.c
 *	  The lease of the configured shards: claim, extend, fence, release.
 *
 * IDs of shards carry no node, so no two servers may issue for one shard at
 * one timestamp.  The argument is that of lease.c: a lease covers timestamps;
 * no server issues at or above an until that was not acknowledged, nor below
 * the until of the shard's holder before; and each write is a
 * compare-and-swap, with a random write_id by which we recognise ours.
 *
 * The differences:
 *
 * - There is one record for all shards and servers (shard_map.h), in which a
 *   server has one line, with one until for all of its shards.  Other servers
 *   write it too, so each write is based on a reading just before it.
 *
 * - There is no presence.  A shard is free when the until of its line has
 *   passed; a living holder extends it.  Of the configured shards, the free
 *   ones are claimed, and the rest are tried again and again: until then the
 *   problem names the holder.
 *
 * - A server may give shards back while it runs, when a reload removes them,
 *   up to what was issued for them.  A right that a session has read before is
 *   no longer valid then.  So the caller must have closed their counters: a
 *   late swap fails.  If the server gets the shards again, the swap could
 *   succeed, under the until read before.  Therefore no until of ours is ever
 *   below one that was published.
 *
 * - If nothing was left to issue for, a missing line is no loss: this is how
 *   the release of all shards is found to be done.
 *
 * After a freeze, or a step of the clock, nothing is issued before a write
 * begun afterwards is acknowledged.  Nothing is issued for shards that were
 * only read to be ours.  With a wrong clock nothing is written.  All this is
 * as in lease.c, but independent of it: a server may have its shards without a
 * node id, and the other way round.
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
static bool
has_any(const SfShardLease *shards, const uint32_t *set)
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
static void
make_plan(SfShardLease *shards, SfMoment now,
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
static void
report_blocked(SfShardLease *shards, SfMoment now,
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
				 "%s not free before %s: IDs up to that time were issued.", range, time);
	else
		snprintf(text, sizeof(text), "%s reserved until %s by \"%.63s\"%s.",
				 range, time, holder->host,
				 comes ? ", which was this server before its last start" : "");
	snprintf(public_text, sizeof(public_text), "%s reserved until %s%s.",
			 range, time, comes ? " by this server before its last start" :
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
	bool		keeps = has_any(shards, plan->next);
	int64_t		since_ms = now.wall_ms;
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
	if (old >= 0 && memcmp(plan->next, shards->held, sizeof(SfShardSet)) == 0)
		since_ms = map->line[old].since_ms;
	if (old >= 0 && plan->leaves)
	{
		line = &map->line[old];
		line->until = find_left_until(shards, line->until);
		line->reserve_ms = 0;
		line->since_ms = 0;
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
		line->since_ms = since_ms;
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

/*
 * Continue from this line of the map, our last write.  The start also holds
 * for later writes that are based on it.
 */
static void
adopt(SfShardLease *shards, int line, uint64_t write_id,
	  int64_t start)
{
	SfLease    *lease = &shards->lease;

	/* the other pending writes required the replaced version: they failed */
	lease->npending = 0;
	lease->record.write_id = write_id;
	sf_shard_map_shards(&shards->map, line, shards->held);
	shards->right.start = start;
	if (lease->state == SF_LEASE_SEARCHING)
		lease->state = SF_LEASE_HELD;
}

/* Publish the line's right: the registry has acknowledged it. */
static void
confirm(SfShardLease *shards, int line)
{
	SfShardRight *right = &shards->right;

	right->valid = shards->lease.state == SF_LEASE_HELD;
	right->until = shards->map.line[line].until;
	right->write_id = shards->lease.record.write_id;
	if (shards->least_until < right->until)
		shards->least_until = right->until;
	memcpy(right->shards, shards->held, sizeof(SfShardSet));
	sf_ranges_restrict(right->shards, shards->wanted, shards->nshards);
}

/* Hold nothing: no line is ours. */
static void
hold_nothing(SfShardLease *shards)
{
	SfLease    *lease = &shards->lease;

	lease->record.write_id = 0;
	memset(shards->held, 0, sizeof(SfShardSet));
	memset(shards->right.shards, 0, sizeof(SfShardSet));
	shards->right.valid = false;
	shards->right.write_id = 0;
	lease->state = lease->state == SF_LEASE_RELEASING ?
		SF_LEASE_ENDED : SF_LEASE_SEARCHING;
}

/* Fence: the shards no longer belong to us, so issue for none of them. */
static void
fence(SfShardLease *shards, SfMoment now, const char *why)
{
	SfLease    *lease = &shards->lease;
	bool		had = has_any(shards, shards->right.shards);
	char		text[SF_REASON_SIZE];

	hold_nothing(shards);
	lease->npending = 0;
	lease->unsure = false;
	lease->halted = false;
	if (!had)
		return;
	snprintf(text, sizeof(text),
			 "The lease of this server's shards is lost: %s", why);
	sf_lease_report_lost(lease, now, text, "They will be claimed again.");
}

/*
 * Find our line in a reading.  A pending write that is not in it may still be
 * made if it was requested for this version.
 */
static void
find_our_line(SfShardLease *shards, SfMoment now, int64_t version)
{
	SfLease    *lease = &shards->lease;
	int			line = sf_shard_map_find(&shards->map,
										 lease->record.write_id);

	for (int i = lease->npending - 1; i >= 0; i--)
	{
		uint64_t	write_id = lease->pending[i].write_id;
		int			found = sf_shard_map_find(&shards->map, write_id);

		if (found < 0)
			continue;
		line = found;
		adopt(shards, line, write_id, lease->pending[i].start);
		break;
	}
	if (version != lease->record.version)
		lease->npending = 0;
	lease->record.version = version;
	lease->unsure = false;
	if (line < 0)
	{
		if (lease->state == SF_LEASE_HELD)
			fence(shards, now, "another server has claimed them, or is a copy of this server.");
		else
			hold_nothing(shards);
		return;
	}

	/* others may have claimed expired shards since */
	sf_shard_map_shards(&shards->map, line, shards->held);
	if (!sf_ranges_exceed(shards->right.shards, shards->held,
						  shards->nshards))
		return;
	sf_ranges_restrict(shards->right.shards, shards->held, shards->nshards);
	lease->config.log_event(SF_LEASE_EVENT_LOST, "The lease of some of this server's shards is lost: another server has claimed them.");
}

/*
 * Issue no more for shards that another server has claimed in a registry which
 * has lost data: its line reaches beyond where we began.  A line of before our
 * claim may do so, too, where its holder gave back what it had reserved; when
 * in doubt, we stop.
 */
static void
drop_claimed(SfShardLease *shards,
			 const SfRegistry *registry)
{
	const SfClaimant *claimant = &shards->lease.config.claimant;
	SfShardMap *map = &shards->map;
	SfShardSet	kept = {0};
	char		ours[SF_LAYOUT_TEXT_SIZE];
	char		reason[SF_REASON_SIZE];

	sf_layout_print(claimant->layout, ours, sizeof(ours));
	if (registry->shards_version == 0 ||
		!sf_shard_map_parse(map, registry->shards, reason, sizeof(reason)) ||
		strcmp(map->layout, ours) != 0)
		return;
	for (uint32_t i = 0; i < shards->nshards; i++)
	{
		const SfShardLine *line = map->line_of[i] == 0 ? NULL :
			&map->line[map->line_of[i] - 1];

		if (line == NULL || line->until <= shards->right.start ||
			(line->server == claimant->server && claimant->server != 0))
			sf_ranges_add(kept, i);
	}
	if (!sf_ranges_exceed(shards->right.shards, kept, shards->nshards))
		return;
	sf_ranges_restrict(shards->right.shards, kept, shards->nshards);
	shards->lease.config.log_event(SF_LEASE_EVENT_LOST, "The lease of some of this server's shards is lost: the registry has lost data, and has given them to another server.");
}

/* As sf_lease_result(): after a loss of data, nothing is acknowledged. */
static SfResult
result_of(const SfShardLease *shards, const SfAnswer *answer)
{
	const SfLease *lease = &shards->lease;
	const SfLayout *layout = lease->config.claimant.layout;
	int64_t		until_ms = 0;
	int			line;

	if (answer->result != SF_RESULT_DONE ||
		lease->ask.kind != SF_ASK_SHARDS)
		return answer->result;
	line = sf_shard_map_find(&shards->map,
							 lease->pending[lease->npending - 1].write_id);
	if (line >= 0)
		until_ms = (layout->epoch_tick + shards->map.line[line].until) *
			layout->tick_ms;
	return sf_age_write_shards(lease->config.age, lease->ask.generation,
							   answer->version, until_ms) ?
		SF_RESULT_DONE : SF_RESULT_CONFLICT;
}

/* Parse the record; if it is unusable, report a problem, return false. */
static bool
read_map(SfShardLease *shards, SfMoment now,
		 const SfRegistry *registry)
{
	SfLease    *lease = &shards->lease;
	const SfLayout *layout = lease->config.claimant.layout;
	char		ours[SF_LAYOUT_TEXT_SIZE];
	char		reason[SF_REASON_SIZE];
	char		text[SF_REASON_SIZE];

	if (registry->shards_version == 0)
		sf_shard_map_init(&shards->map, layout);
	else if (!sf_shard_map_parse(&shards->map, registry->shards,
								 reason, sizeof(reason)))
	{
		snprintf(text, sizeof(text),
				 "The registry's record of shards cannot be read. %.120s",
				 reason);
		sf_lease_set_problem(lease, now, text,
							 "If no newer version of the extension has written it, it is damaged: recover the registry first, and then remove it.");
		return false;
	}
	sf_layout_print(layout, ours, sizeof(ours));
	if (strcmp(shards->map.layout, ours) == 0)
	{
		sf_age_read_shards(lease->config.age, registry->shards_version);
		return true;
	}
	snprintf(text, sizeof(text),
			 "The registry's shards have the layout \"%.80s\".",
			 shards->map.layout);
	sf_lease_set_problem(lease, now, text,
						 "Set snowflake.shard_layout to that, or use another registry.");
	return false;
}

/* ---- requests ---- */

/* Request the planned write, and remember it as pending. */
static void
ask_write(SfShardLease *shards, SfMoment now, const SfShardPlan *plan)
{
	SfLease    *lease = &shards->lease;
	uint64_t	write_id = lease->config.random() | 1;
	SfAsk	   *a;

	if (!sf_shard_lease_carry_out(shards, now, plan, write_id))
	{
		sf_lease_set_problem(lease, now,
							 "The registry's record of shards has no room for another server.",
							 "Use another registry for some of the servers.");
		sf_lease_back_off(lease, now);
		return;
	}
	sf_shard_map_print(&shards->map, shards->text, sizeof(shards->text));
	a = sf_lease_ask(lease, now, SF_ASK_SHARDS);
	a->version = lease->record.version;
	a->shards = shards->text;
	sf_lease_add_pending(lease, write_id, plan->start);
}

/* ---- what to write ---- */

/* Return how long the next extension can wait, in ms. */
static int64_t
spare_ms(const SfShardLease *shards, SfMoment now)
{
	const SfLeaseConfig *config = &shards->lease.config;

	if (shards->right.until >= sf_lease_last_until(&shards->lease))
		return config->reserve_ms / 3;
	return (shards->right.until - sf_lease_tick(&shards->lease, now)) *
		config->claimant.layout->tick_ms - config->reserve_ms * 2 / 3;
}

/* Write what the reading requires. */
static void
write_if_needed(SfShardLease *shards, SfMoment now, const SfRegistry *registry)
{
	SfLease    *lease = &shards->lease;
	SfShardPlan plan;

	if (lease->state != SF_LEASE_RELEASING &&
		!sf_lease_clock_is_good(lease, now))
	{
		sf_lease_back_off(lease, now);
		return;
	}
	make_plan(shards, now, registry, &plan);
	if (plan.blocked)
		report_blocked(shards, now, &plan, spare_ms(shards, now));
	if (plan.adds || plan.leaves ||
		(lease->state == SF_LEASE_HELD &&
		 (lease->halted || spare_ms(shards, now) < 0)))
	{
		ask_write(shards, now, &plan);
		return;
	}
	shards->failures = 0;
	if (!plan.blocked)
		sf_lease_clear_problem(lease);
}

static void
read_done(SfShardLease *shards, SfMoment now, const SfRegistry *registry)
{
	SfLease    *lease = &shards->lease;
	SfLoss		loss = sf_lease_find_loss(lease, now, registry);

	if (loss != SF_LOSS_NONE)
	{
		if (loss == SF_LOSS_FLOOR && lease->state == SF_LEASE_HELD)
			fence(shards, now, "the registry is another one, which may give them to another server.");
		else
			drop_claimed(shards, registry);
		sf_lease_back_off(lease, now);
		return;
	}
	if (!registry->initialized || registry->generation != lease->generation)
	{
		lease->npending = 0;
		if (lease->state == SF_LEASE_HELD ||
			lease->state == SF_LEASE_RELEASING)
			fence(shards, now, "the registry is not the one that it was.");
	}
	if (lease->state == SF_LEASE_ENDED)
		return;
	if (!sf_lease_registry_is_good(lease, now, registry) ||
		!read_map(shards, now, registry))
	{
		sf_lease_back_off(lease, now);
		return;
	}
	lease->generation = registry->generation;
	find_our_line(shards, now, registry->shards_version);
	if (lease->state != SF_LEASE_ENDED)
		write_if_needed(shards, now, registry);
}

static int
count(const SfShardLease *shards, const uint32_t *set)
{
	int			n = 0;

	for (uint32_t i = 0; i < shards->nshards; i++)
		n += sf_ranges_has(set, i);
	return n;
}

static void
write_done(SfShardLease *shards, int64_t version)
{
	SfLease    *lease = &shards->lease;
	int			last = lease->npending - 1;
	uint64_t	write_id = lease->pending[last].write_id;
	int			line = sf_shard_map_find(&shards->map, write_id);
	int			before = count(shards, shards->right.shards);
	int			after;
	char		text[SF_REASON_SIZE];

	lease->record.version = version;
	lease->halted = false;
	shards->failures = 0;
	if (line >= 0)
	{
		adopt(shards, line, write_id,
			  lease->pending[last].start);
		confirm(shards, line);
	}
	else
	{
		lease->npending = 0;
		hold_nothing(shards);
	}
	after = count(shards, shards->right.shards);
	if (after > before)
	{
		snprintf(text, sizeof(text), "%d of %d configured shards are leased.",
				 after, count(shards, shards->wanted));
		lease->config.log_event(SF_LEASE_EVENT_LEASED, text);
	}
	if (sf_shard_lease_is_whole(shards))
		sf_lease_clear_problem(lease);
}

/* ---- what to do next ---- */

static bool
is_due(const SfShardLease *shards, SfMoment now)
{
	const SfLease *lease = &shards->lease;

	if (lease->state == SF_LEASE_RELEASING)
		return true;
	if (lease->state == SF_LEASE_HELD)
		return lease->unsure || lease->halted ||
			!sf_shard_lease_is_whole(shards) ||
			sf_ranges_exceed(shards->held, shards->wanted, shards->nshards) ||
			spare_ms(shards, now) < 0;
	return has_any(shards, shards->wanted);
}

/* Choose the next request, and the time of the next call. */
static void
decide(SfShardLease *shards, SfMoment now)
{
	SfLease    *lease = &shards->lease;
	int64_t		look = now.monotonic_ms + lease->config.look_ms;

	sf_lease_log_expiry(lease, now, shards->right.valid &&
						has_any(shards, shards->right.shards),
						shards->right.until, "this server's shards");
	lease->wake_ms = look;
	if (lease->state == SF_LEASE_ENDED)
	{
		lease->ask.kind = SF_ASK_NOTHING;
		lease->wake_ms = INT64_MAX;
		return;
	}
	if (lease->ask.kind == SF_ASK_NOTHING &&
		now.monotonic_ms >= lease->retry_ms && is_due(shards, now))
		(void) sf_lease_ask(lease, now, SF_ASK_READ);
	if (lease->ask.kind != SF_ASK_NOTHING)
		lease->wake_ms = lease->ask.deadline_ms;
	else if (lease->retry_ms > now.monotonic_ms)
		lease->wake_ms = lease->retry_ms;
	if (lease->wake_ms > look)
		lease->wake_ms = look;
}

/* As in lease.c, which also logs it. */
static void
handle_interruption(SfShardLease *shards, SfMoment now)
{
	SfLease    *lease = &shards->lease;

	if (!sf_lease_was_interrupted(lease, now) ||
		lease->state == SF_LEASE_ENDED)
		return;
	sf_lease_abandon(lease);
	lease->halted = lease->state == SF_LEASE_HELD || lease->npending > 0;
	shards->right.valid = false;
	lease->retry_ms = now.monotonic_ms;
}

/* ---- entry points ---- */

/*
 * Initialize; no shards are wanted yet.  The configuration's layout is the
 * shards'.  Its owner is that of the node's record, which says nothing of
 * other servers' clocks.  No until above least_until was published in this
 * life of the server.
 */
void
sf_shard_lease_init(SfShardLease *shards, const SfLeaseConfig *config,
					const SfLayout *node_layout, int64_t least_until,
					SfMoment now)
{
	SfLease    *lease = &shards->lease;
	const SfLayout *layout = config->claimant.layout;

	memset(shards, 0, sizeof(SfShardLease));
	lease->config = *config;
	sf_layout_print(node_layout, lease->layout, sizeof(lease->layout));
	lease->looked = now;
	lease->retry_ms = now.monotonic_ms;
	shards->node_layout = node_layout;
	shards->nshards = UINT32_C(1) << layout->field[SF_SHARD].width;
	shards->least_until = least_until;
	decide(shards, now);
}

/*
 * Want these shards from now on.  Before, the caller has closed the counters
 * of all other shards in the right. last_issued is the last timestamp issued
 * for any of them, in ticks since the epoch.
 */
void
sf_shard_lease_want(SfShardLease *shards, SfMoment now,
					const uint32_t *wanted, int64_t last_issued)
{
	SfLease    *lease = &shards->lease;

	handle_interruption(shards, now);
	memcpy(shards->wanted, wanted,
		   SF_RANGES_WORDS(shards->nshards) * sizeof(uint32_t));
	sf_ranges_restrict(shards->right.shards, wanted, shards->nshards);
	if (shards->left_until < last_issued + 1)
		shards->left_until = last_issued + 1;
	lease->problem[0] = '\0';
	lease->remedy[0] = '\0';
	lease->backoff_ms = 0;
	lease->retry_ms = now.monotonic_ms;
	decide(shards, now);
}

/* Handle the passing of time. */
void
sf_shard_lease_step(SfShardLease *shards, SfMoment now)
{
	handle_interruption(shards, now);
	sf_lease_time_out(&shards->lease, now);
	decide(shards, now);
}

/* Handle a failure.  One alone is none: others write the record too. */
static void
fail(SfShardLease *shards, SfMoment now, const SfAnswer *answer)
{
	const char *message = answer == NULL ? NULL : answer->message;
	SfLease    *lease = &shards->lease;
	SfAskKind	kind = lease->ask.kind;
	char		text[SF_REASON_SIZE];

	sf_lease_abandon(lease);
	if (shards->failures++ == 0)
		return;
	if (message == NULL)
	{
		sf_lease_back_off(lease, now);
		return;
	}
	snprintf(text, sizeof(text), "The registry answered: %.150s", message);
	sf_lease_fail(lease, now, kind, answer->failure, text);
}

/* Handle an answer of the registry. */
void
sf_shard_lease_answer(SfShardLease *shards, SfMoment now,
					  const SfAnswer *answer)
{
	SfLease    *lease = &shards->lease;
	SfAskKind	asked = lease->ask.kind;

	handle_interruption(shards, now);
	if (lease->ask.kind == SF_ASK_NOTHING ||
		answer->number != lease->ask.number)
	{
		decide(shards, now);
		return;
	}
	sf_lease_take_clock(lease, now, answer);
	switch (result_of(shards, answer))
	{
		case SF_RESULT_DONE:
			lease->ask.kind = SF_ASK_NOTHING;
			if (asked == SF_ASK_READ)
				read_done(shards, now, answer->registry);
			else
				write_done(shards, answer->version);
			break;
		case SF_RESULT_CONFLICT:
			/* perhaps with an earlier write of ours: read before judging */
			fail(shards, now, NULL);
			break;
		case SF_RESULT_ABSENT:
		case SF_RESULT_REFUSED:
		case SF_RESULT_UNKNOWN:
			if (answer->result == SF_RESULT_REFUSED &&
				asked == SF_ASK_SHARDS)
				lease->npending--;
			fail(shards, now, answer);
			break;
	}
	decide(shards, now);
}

/*
 * Release all shards: the server stops, and no process issues for any shard.
 * last_issued is the last timestamp.  Shards that cannot be released in time
 * expire by themselves.
 */
void
sf_shard_lease_release(SfShardLease *shards, SfMoment now,
					   int64_t last_issued)
{
	SfLease    *lease = &shards->lease;

	shards->right.valid = false;
	memset(shards->right.shards, 0, sizeof(SfShardSet));
	sf_lease_abandon(lease);
	if (shards->left_until < last_issued + 1)
		shards->left_until = last_issued + 1;
	lease->state = lease->state == SF_LEASE_HELD ?
		SF_LEASE_RELEASING : SF_LEASE_ENDED;
	lease->retry_ms = now.monotonic_ms;
	lease->backoff_ms = 0;
	decide(shards, now);
}
