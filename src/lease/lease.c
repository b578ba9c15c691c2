/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  The lease of a node id: claim, extend, fence, release.
 *
 * A lease covers timestamps, not time.  The record of a slot has an until.
 * Its holder issues only timestamps below an until that the registry has
 * acknowledged, and the next holder begins at the recorded until or above.
 * The record changes only by compare-and-swap, each write chained to the one
 * before, and until never goes down below what was issued.  So the intervals
 * of timestamps never overlap, and no clock, no TTL, and no assumption that
 * "the old holder has surely stopped" is part of the argument.  Clocks only
 * say when to ask.
 *
 * Each write carries a random write_id.  After a write of unknown outcome, the
 * server reads.  A record with one of our write_ids is ours, and we continue
 * from it.  Any other record is not ours, whatever its owner, because a copy
 * of this machine has our name too.  Then this slot is fenced: nothing more is
 * issued under it, and another slot is claimed.
 *
 * A reading acknowledges nothing.  A PostgreSQL that waits in vain for its
 * synchronous standby shows a write that the standby does not have, and that a
 * failover forgets.  So the right stays as it was, and the record that was
 * read is extended at once.  If that is acknowledged, so is the write below
 * it.
 *
 * A claim of unknown outcome may succeed at any later time.  So until its
 * record has changed, no other slot is tried.
 *
 * A process that was frozen, or whose clock was moved, may be a copy of a
 * machine that runs elsewhere.  Then nothing is issued before a write begun
 * afterwards is acknowledged: one of two copies fails there.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"

#include <stdio.h>
#include <string.h>

/* ---- requests ---- */

static SfAsk *
ask(SfLease *lease, SfMoment now, SfAskKind kind)
{
	SfAsk	   *a = &lease->ask;
	uint64_t	number = a->number + 1;

	memset(a, 0, sizeof(SfAsk));
	a->kind = kind;
	a->number = number;
	a->deadline_ms = now.monotonic_ms + lease->config.timeout_ms;
	a->generation = lease->generation;
	a->avoid = lease->avoid;
	a->record.owner = lease->config.claimant.owner;
	a->record.node = lease->record.node;
	lease->asked_ms = now.monotonic_ms;
	return a;
}

/* Request a write that replaces this record, and remember it as pending. */
static void
ask_write(SfLease *lease, SfMoment now, SfAskKind kind,
		  const SfSlotRecord *old, int64_t start, int64_t until)
{
	const SfClaimant *claimant = &lease->config.claimant;
	SfAsk	   *a = ask(lease, now, kind);
	SfSlotRecord *record = &a->record;

	a->version = old->version;
	*record = *old;
	record->owner = claimant->owner;
	record->server = claimant->server;
	record->write_id = lease->config.random();
	record->until = until;
	record->offset_ms = sf_lease_clock_offset(lease, now);
	if (kind != SF_ASK_RELEASE)
		record->reserve_ms = sf_lease_reserved_ms(lease, now, until);
	record->released = kind == SF_ASK_RELEASE;
	snprintf(record->host, sizeof(record->host), "%s", claimant->host);
	record->process = claimant->process;
	if (kind == SF_ASK_CLAIM)
		record->since_ms = now.wall_ms;

	/* if the list is full, drop the oldest: if it succeeded, we fence */
	if (lease->npending == SF_LEASE_PENDING)
		memmove(&lease->pending[0], &lease->pending[1],
				sizeof(lease->pending[0]) * --lease->npending);
	lease->pending[lease->npending].write_id = record->write_id;
	lease->pending[lease->npending++].start = start;
	lease->peers_agree = false;
}

static void
ask_claim(SfLease *lease, SfMoment now, const SfSlotChoice *claim)
{
	SfSlotRecord old = claim->record;

	old.epoch++;
	ask_write(lease, now, SF_ASK_CLAIM, &old, claim->start,
			  sf_lease_reserve(lease, now,
							   claim->record.until > claim->start ?
							   claim->record.until : claim->start));
	lease->ask.displaced = claim->record.present;
	lease->ask.presence = true;
	lease->state = SF_LEASE_CLAIMING;
}

static void
ask_extension(SfLease *lease, SfMoment now)
{
	ask_write(lease, now, SF_ASK_EXTEND, &lease->record, lease->right.start,
			  sf_lease_reserve(lease, now, lease->record.until));
	lease->ask.presence = lease->absent;
}

static void
ask_release(SfLease *lease, SfMoment now)
{
	int64_t		until = lease->last_issued + 1;

	if (until < lease->right.start)
		until = lease->right.start;
	if (until > lease->record.until)
		until = lease->record.until;
	ask_write(lease, now, SF_ASK_RELEASE, &lease->record, lease->right.start,
			  until);
}

/* ---- readings ---- */

/* Compare a reading with the slot that we hold. */
static void
check_held(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);
	int			i = sf_lease_find_pending(lease, record);

	if (!registry->initialized || registry->generation != lease->generation)
		sf_lease_fence(lease, now, "the registry is not the one that it was.");
	else if (record == NULL ||
			 (i < 0 && record->write_id != lease->record.write_id))
		sf_lease_fence(lease, now, "another server has claimed it, or is a copy of this server.");
	else
	{
		if (i >= 0)
			sf_lease_adopt(lease, record);
		lease->absent = record->present != record->owner;
		lease->unsure = false;
		if (record->released)
			lease->state = SF_LEASE_ENDED;
		else if (lease->state == SF_LEASE_HELD &&
				 !sf_lease_clock_is_good(lease, now))
			sf_lease_back_off(lease, now);
	}
}

/*
 * Find a slot to claim.  If an earlier claim has an unknown outcome, resolve
 * that first: it was made, or still may be, or its record has changed.
 */
static void
search(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);
	int			i = sf_lease_find_pending(lease, record);
	SfClaimant	claimant;
	SfSlotChoice claim;

	if (registry->generation != lease->generation ||
		(i < 0 && (record == NULL ? 0 : record->version) !=
		 lease->record.version))
		lease->npending = 0;
	else if (i >= 0)
	{
		lease->right.start = lease->pending[i].start;
		sf_lease_adopt(lease, record);
		lease->absent = record->present != record->owner;
		sf_lease_take(lease, now);
		return;
	}

	/* with a new name for each claim, we differ from our copies */
	if (lease->npending == 0)
		lease->config.claimant.owner = lease->config.random() | 1;
	claimant = lease->config.claimant;
	if (lease->npending > 0)
		claimant.first_node = claimant.last_node = lease->record.node;

	lease->generation = registry->generation;
	if (!sf_lease_clock_is_good(lease, now))
	{
		sf_lease_back_off(lease, now);
		return;
	}
	sf_slot_choose(&claim, &claimant, registry, sf_lease_tick(lease, now),
				   lease->config.random);
	if (!claim.found)
	{
		int64_t		ahead = claim.at_tick - sf_lease_tick(lease, now);

		sf_lease_set_claim_problem(lease, now, &claim);
		sf_lease_back_off(lease, now);
		if (ahead < SF_LEASE_RETRY_MS / claimant.layout->tick_ms)
			lease->retry_ms = now.monotonic_ms + 1 +
				(ahead > 0 ? ahead * claimant.layout->tick_ms : 0);
		return;
	}
	lease->record = claim.record;
	ask_claim(lease, now, &claim);
}

/* ---- the next step ---- */

static void
decide_held(SfLease *lease, SfMoment now)
{
	const SfLeaseConfig *config = &lease->config;
	int64_t		spare = config->reserve_ms / 3;

	if (lease->right.until < sf_lease_last_until(lease))
		spare = (lease->right.until - sf_lease_tick(lease, now)) *
			config->claimant.layout->tick_ms - config->reserve_ms * 2 / 3;
	if (lease->unsure)
		ask(lease, now, SF_ASK_READ);
	else if (now.monotonic_ms >= lease->keepalive_ms)
	{
		/* a failure of the keepalive must not prevent an extension */
		ask(lease, now, SF_ASK_KEEPALIVE);
		lease->keepalive_ms = now.monotonic_ms + config->keepalive_ms / 3;
	}
	else if (lease->halted || lease->absent || spare < 0)
	{
		if (sf_lease_clock_is_good(lease, now))
			ask_extension(lease, now);
		else
			ask(lease, now, SF_ASK_READ);
	}
	else if (config->peers_ms > 0 && now.monotonic_ms >= lease->peers_due_ms)
		ask(lease, now, SF_ASK_READ);
	else
	{
		lease->wake_ms = lease->keepalive_ms;
		if (lease->wake_ms > now.monotonic_ms + spare + 1)
			lease->wake_ms = now.monotonic_ms + spare + 1;
	}
}

/* Choose the next request, and the time of the next call. */
static void
decide(SfLease *lease, SfMoment now)
{
	int64_t		look = now.monotonic_ms + lease->config.look_ms;

	sf_lease_watch_right(lease, now);
	lease->wake_ms = lease->retry_ms;
	if (lease->state == SF_LEASE_ENDED)
	{
		lease->ask.kind = SF_ASK_NOTHING;
		lease->wake_ms = INT64_MAX;
		return;
	}
	if (lease->ask.kind == SF_ASK_NOTHING &&
		now.monotonic_ms >= lease->retry_ms)
	{
		if (lease->state == SF_LEASE_HELD)
			decide_held(lease, now);
		else if (lease->state == SF_LEASE_RELEASING && !lease->unsure)
			ask_release(lease, now);
		else
			ask(lease, now, SF_ASK_READ);
	}
	if (lease->ask.kind != SF_ASK_NOTHING)
		lease->wake_ms = lease->ask.deadline_ms;
	if (lease->wake_ms > look)
		lease->wake_ms = look;
}

/* Give up the request in flight.  It may have succeeded, or may still. */
static void
abandon(SfLease *lease)
{
	if (lease->ask.kind == SF_ASK_CLAIM)
		lease->state = SF_LEASE_SEARCHING;
	else if (lease->ask.kind == SF_ASK_EXTEND ||
			 lease->ask.kind == SF_ASK_RELEASE)
		lease->unsure = true;
	lease->ask.kind = SF_ASK_NOTHING;
}

/*
 * If this process was frozen, or the clock moved, forget the request in
 * flight: the machine of which this is a copy may have sent it.
 */
static void
watch(SfLease *lease, SfMoment now)
{
	if (!sf_lease_was_interrupted(lease, now) ||
		lease->state == SF_LEASE_ENDED)
		return;
	abandon(lease);
	lease->halted = lease->state == SF_LEASE_HELD || lease->npending > 0;
	if (lease->state != SF_LEASE_HELD)
		return;
	lease->unsure = true;
	lease->right.valid = false;
	lease->retry_ms = now.monotonic_ms;
	lease->config.say(SF_LEASE_EVENT_FROZEN, "The process was frozen, or the wall clock was set: nothing is issued before the registry has confirmed the lease.");
}

/* ---- entry points ---- */

void
sf_lease_init(SfLease *lease, const SfLeaseConfig *config, SfMoment now)
{
	memset(lease, 0, sizeof(SfLease));
	lease->config = *config;
	sf_layout_print(config->claimant.layout, lease->layout,
					sizeof(lease->layout));
	lease->looked = now;
	lease->retry_ms = now.monotonic_ms;
	decide(lease, now);
}

/* Handle the passing of time. */
void
sf_lease_step(SfLease *lease, SfMoment now)
{
	watch(lease, now);
	if (lease->ask.kind != SF_ASK_NOTHING &&
		now.monotonic_ms >= lease->ask.deadline_ms)
	{
		SfAskKind	kind = lease->ask.kind;

		abandon(lease);
		sf_lease_time_out(lease, now, kind);
	}
	decide(lease, now);
}

static void
read_done(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	if (sf_lease_find_loss(lease, now, registry) != SF_LOSS_NONE)
		sf_lease_back_off(lease, now);
	else if (lease->state >= SF_LEASE_HELD)
		check_held(lease, now, registry);
	else if (!sf_lease_registry_is_good(lease, now, registry))
		sf_lease_back_off(lease, now);
	else
		search(lease, now, registry);
}

static void
write_done(SfLease *lease, SfMoment now, const SfAsk *asked,
		   const SfAnswer *answer)
{
	SfSlotRecord record = asked->record;

	record.version = answer->version;
	lease->right.start = lease->pending[lease->npending - 1].start;
	sf_lease_adopt(lease, &record);
	lease->absent = false;
	lease->halted = false;
	if (asked->kind == SF_ASK_CLAIM)
		sf_lease_take(lease, now);
	else if (asked->kind == SF_ASK_RELEASE)
	{
		lease->state = SF_LEASE_ENDED;
		return;
	}
	else if (asked->presence)
		lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
	sf_lease_confirm(lease);
}

/* Handle an answer of the registry. */
void
sf_lease_answer(SfLease *lease, SfMoment now, const SfAnswer *answer)
{
	SfAsk		asked = lease->ask;
	char		text[SF_REASON_SIZE];

	watch(lease, now);
	if (lease->ask.kind == SF_ASK_NOTHING || answer->number != asked.number)
	{
		decide(lease, now);
		return;
	}
	sf_lease_take_clock(lease, now, answer);
	switch (sf_lease_result(lease, answer))
	{
		case SF_RESULT_DONE:
			lease->ask.kind = SF_ASK_NOTHING;
			if (asked.kind == SF_ASK_READ)
				read_done(lease, now, answer->registry);
			else if (asked.kind != SF_ASK_KEEPALIVE)
				write_done(lease, now, &asked, answer);
			else
			{
				lease->keepalive_ms = now.monotonic_ms +
					lease->config.keepalive_ms;
				if (lease->failed == SF_ASK_KEEPALIVE)
					sf_lease_clear_problem(lease);
			}
			break;
		case SF_RESULT_ABSENT:
			lease->ask.kind = SF_ASK_NOTHING;
			lease->absent = true;
			break;
		case SF_RESULT_CONFLICT:
			/* perhaps with an earlier write of ours: read before judging */
			abandon(lease);
			if (lease->state == SF_LEASE_SEARCHING || lease->backoff_ms > 0)
				sf_lease_back_off(lease, now);
			else
				lease->backoff_ms = 1;
			break;
		case SF_RESULT_REFUSED:
		case SF_RESULT_UNKNOWN:
			if (answer->result == SF_RESULT_REFUSED &&
				(asked.kind == SF_ASK_CLAIM || asked.kind == SF_ASK_EXTEND))
				lease->npending--;
			abandon(lease);
			snprintf(text, sizeof(text), "The registry answered: %.150s",
					 answer->message);
			sf_lease_fail(lease, now, asked.kind, answer->failure, text);
			break;
	}
	decide(lease, now);
}

/*
 * Release the slot: the server stops, and no process issues any more.
 * last_issued is the last timestamp.  A slot that was not claimed yet, or
 * cannot be released in time, expires by itself.
 */
void
sf_lease_release(SfLease *lease, SfMoment now, int64_t last_issued)
{
	lease->right.valid = false;
	abandon(lease);
	lease->last_issued = last_issued;
	lease->state = lease->state == SF_LEASE_HELD ?
		SF_LEASE_RELEASING : SF_LEASE_ENDED;
	lease->retry_ms = now.monotonic_ms;
	lease->backoff_ms = 0;
	decide(lease, now);
}
