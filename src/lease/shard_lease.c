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

/* ---- requests ---- */

static SfAsk *
ask(SfShardLease *shards, SfMoment now, SfAskKind kind)
{
	SfLease    *lease = &shards->lease;
	SfAsk	   *a = &lease->ask;
	uint64_t	number = a->number + 1;

	memset(a, 0, sizeof(SfAsk));
	a->kind = kind;
	a->number = number;
	a->deadline_ms = now.monotonic_ms + lease->config.timeout_ms;
	a->generation = lease->generation;
	a->avoid = lease->avoid;
	lease->asked_ms = now.monotonic_ms;
	return a;
}

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
	a = ask(shards, now, SF_ASK_SHARDS);
	a->version = lease->record.version;
	a->shards = shards->text;

	/* if the list is full, drop the oldest: if it succeeded, we fence */
	if (lease->npending == SF_LEASE_PENDING)
		memmove(&lease->pending[0], &lease->pending[1],
				sizeof(lease->pending[0]) * --lease->npending);
	lease->pending[lease->npending].write_id = write_id;
	lease->pending[lease->npending++].start = plan->start;
	lease->peers_agree = false;
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
go_on(SfShardLease *shards, SfMoment now, const SfRegistry *registry)
{
	SfLease    *lease = &shards->lease;
	SfShardPlan plan;

	if (lease->state != SF_LEASE_RELEASING &&
		!sf_lease_clock_is_good(lease, now))
	{
		sf_lease_back_off(lease, now);
		return;
	}
	sf_shard_lease_plan(shards, now, registry, &plan);
	if (plan.blocked)
		sf_shard_lease_report(shards, now, &plan, spare_ms(shards, now));
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
			sf_shard_lease_fence(shards, now, "the registry is another one, which may give them to another server.");
		else
			sf_shard_lease_lose_claimed(shards, registry);
		sf_lease_back_off(lease, now);
		return;
	}
	if (!registry->initialized || registry->generation != lease->generation)
	{
		lease->npending = 0;
		if (lease->state == SF_LEASE_HELD ||
			lease->state == SF_LEASE_RELEASING)
			sf_shard_lease_fence(shards, now, "the registry is not the one that it was.");
	}
	if (lease->state == SF_LEASE_ENDED)
		return;
	if (!sf_lease_registry_is_good(lease, now, registry) ||
		!sf_shard_lease_read_map(shards, now, registry))
	{
		sf_lease_back_off(lease, now);
		return;
	}
	lease->generation = registry->generation;
	sf_shard_lease_settle(shards, now, registry->shards_version);
	if (lease->state != SF_LEASE_ENDED)
		go_on(shards, now, registry);
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
		sf_shard_lease_adopt(shards, line, write_id,
							 lease->pending[last].start);
		sf_shard_lease_confirm(shards, line);
	}
	else
	{
		lease->npending = 0;
		sf_shard_lease_hold_nothing(shards);
	}
	after = count(shards, shards->right.shards);
	if (after > before)
	{
		snprintf(text, sizeof(text), "%d of %d configured shards are leased.",
				 after, count(shards, shards->wanted));
		lease->config.say(SF_LEASE_EVENT_LEASED, text);
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
	return sf_shard_lease_any(shards, shards->wanted);
}

/* Choose the next request, and the time of the next call. */
static void
decide(SfShardLease *shards, SfMoment now)
{
	SfLease    *lease = &shards->lease;
	int64_t		look = now.monotonic_ms + lease->config.look_ms;

	sf_lease_watch_until(lease, now, shards->right.valid &&
						 sf_shard_lease_any(shards, shards->right.shards),
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
		(void) ask(shards, now, SF_ASK_READ);
	if (lease->ask.kind != SF_ASK_NOTHING)
		lease->wake_ms = lease->ask.deadline_ms;
	else if (lease->retry_ms > now.monotonic_ms)
		lease->wake_ms = lease->retry_ms;
	if (lease->wake_ms > look)
		lease->wake_ms = look;
}

/* Give up the request in flight.  It may have succeeded, or may still. */
static void
abandon(SfShardLease *shards)
{
	SfLease    *lease = &shards->lease;

	if (lease->ask.kind == SF_ASK_SHARDS)
		lease->unsure = true;
	lease->ask.kind = SF_ASK_NOTHING;
}

/* As in lease.c, which also logs it. */
static void
watch(SfShardLease *shards, SfMoment now)
{
	SfLease    *lease = &shards->lease;

	if (!sf_lease_was_interrupted(lease, now) ||
		lease->state == SF_LEASE_ENDED)
		return;
	abandon(shards);
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

	watch(shards, now);
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
	SfLease    *lease = &shards->lease;

	watch(shards, now);
	if (lease->ask.kind != SF_ASK_NOTHING &&
		now.monotonic_ms >= lease->ask.deadline_ms)
	{
		SfAskKind	kind = lease->ask.kind;

		abandon(shards);
		sf_lease_time_out(lease, now, kind);
	}
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

	abandon(shards);
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

	watch(shards, now);
	if (lease->ask.kind == SF_ASK_NOTHING ||
		answer->number != lease->ask.number)
	{
		decide(shards, now);
		return;
	}
	sf_lease_take_clock(lease, now, answer);
	switch (sf_shard_lease_result(shards, answer))
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
	abandon(shards);
	if (shards->left_until < last_issued + 1)
		shards->left_until = last_issued + 1;
	lease->state = lease->state == SF_LEASE_HELD ?
		SF_LEASE_RELEASING : SF_LEASE_ENDED;
	lease->retry_ms = now.monotonic_ms;
	lease->backoff_ms = 0;
	decide(shards, now);
}
