/*-------------------------------------------------------------------------
 *
 * lease_state.c
 *	  What lease.c's steps do to a lease: problems, the clock, the right.
 *
 *-------------------------------------------------------------------------
 */
#include "lease.h"

#include "clock.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_MIN_MS	200
#define BACKOFF_MAX_MS	5000
#define LOG_EVERY_MS	60000

int64_t
sf_lease_tick(const SfLease *lease, SfMoment now)
{
	const SfLayout *layout = lease->config.claimant.layout;

	return sf_layout_ms_to_tick(layout, now.wall_ms) - layout->epoch_tick;
}

/* There is nothing to reserve beyond the layout's end. */
int64_t
sf_lease_last_until(const SfLease *lease)
{
	const SfLayout *layout = lease->config.claimant.layout;

	return layout->end_tick - layout->epoch_tick;
}

/* Up to where a write of now may reserve: never below what is there. */
int64_t
sf_lease_reserve(const SfLease *lease, SfMoment now, int64_t least)
{
	int64_t		until = sf_lease_tick(lease, now) + lease->config.reserve_ms /
		lease->config.claimant.layout->tick_ms;

	if (until > sf_lease_last_until(lease))
		until = sf_lease_last_until(lease);
	return until > least ? until : least;
}

/* ---- what is said ---- */

static void
say_problem(SfLease *lease, SfMoment now, SfSaid what, const char *problem,
			const char *public_problem, const char *remedy, bool log)
{
	snprintf(lease->problem, sizeof(lease->problem), "%s", problem);
	snprintf(lease->public_problem, sizeof(lease->public_problem), "%s",
			 public_problem);
	snprintf(lease->remedy, sizeof(lease->remedy), "%s", remedy);
	if (log)
	{
		lease->logged_ms = now.monotonic_ms;
		lease->config.say(what, problem);
	}
}

/*
 * A problem is logged when it begins, and then every minute.  Where it names
 * roles, hosts or paths, everybody else is told the public one.
 */
void
sf_lease_set_private_problem(SfLease *lease, SfMoment now,
							 const char *problem, const char *public_problem,
							 const char *remedy)
{
	say_problem(lease, now, SF_SAID_PROBLEM, problem, public_problem, remedy,
				lease->problem[0] == '\0' ||
				now.monotonic_ms - lease->logged_ms >= LOG_EVERY_MS);
}

/* Nothing can be claimed. */
void
sf_lease_set_claim_problem(SfLease *lease, SfMoment now, const SfClaim *claim)
{
	sf_lease_set_private_problem(lease, now, claim->problem,
								 claim->public_problem[0] != '\0' ?
								 claim->public_problem : claim->problem,
								 claim->remedy);
}

/* One that everybody may be told. */
void
sf_lease_set_problem(SfLease *lease, SfMoment now, const char *problem,
					 const char *remedy)
{
	sf_lease_set_private_problem(lease, now, problem, problem, remedy);
}

/* A loss is logged, whatever was before. */
void
sf_lease_lose(SfLease *lease, SfMoment now, const char *problem,
			  const char *remedy)
{
	say_problem(lease, now, SF_SAID_LOST, problem, problem, remedy, true);
}

void
sf_lease_clear_problem(SfLease *lease)
{
	if (lease->problem[0] != '\0')
		lease->config.say(SF_SAID_SOLVED, "The registry does what it is asked again.");
	lease->problem[0] = '\0';
	lease->remedy[0] = '\0';
	lease->backoff_ms = 0;
}

/* Try again later: the longer, the more often this has been said. */
void
sf_lease_back_off(SfLease *lease, SfMoment now)
{
	int64_t		wait = lease->backoff_ms * 2;

	if (wait < BACKOFF_MIN_MS)
		wait = BACKOFF_MIN_MS;
	if (wait > BACKOFF_MAX_MS)
		wait = BACKOFF_MAX_MS;
	lease->backoff_ms = wait;
	lease->retry_ms = now.monotonic_ms + wait / 2 +
		(int64_t) (lease->config.random() % (uint64_t) (wait / 2 + 1));
}

/* The registry has not done what it was asked. */
void
sf_lease_fail(SfLease *lease, SfMoment now, SfAskKind kind,
			  SfFailure failure, const char *problem)
{
	const char *registry_kind = lease->config.registry_kind;

	lease->failed = kind;
	sf_lease_set_private_problem(lease, now, problem,
								 sf_registry_failure(failure),
								 sf_registry_remedy(registry_kind, failure));
	sf_lease_back_off(lease, now);
}

void
sf_lease_time_out(SfLease *lease, SfMoment now, SfAskKind kind)
{
	sf_lease_fail(lease, now, kind, SF_FAILURE_UNREACHABLE,
				  "The registry did not answer in time.");
}

/* ---- the clock ---- */

/* How far our clock is ahead of the registry's at the least, or behind. */
int64_t
sf_lease_clock_offset(const SfLease *lease, SfMoment now)
{
	int64_t		most = now.wall_ms - now.monotonic_ms - lease->clock_ahead_ms;

	if (!lease->clock_known)
		return 0;
	if (most > lease->clock_slack_ms)
		return most - lease->clock_slack_ms;
	return most < 0 ? most : 0;
}

static bool
is_off(int64_t offset, int64_t limit)
{
	return offset > limit || offset < -limit;
}

/*
 * The clocks of those who are there, as they were when they last wrote.  Ours
 * and theirs are known to within the time that an answer takes.
 */
static void
note_peers(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	int64_t		limit = lease->config.warn_offset_ms;
	int			peers;
	int			apart;
	bool		warn;
	char		text[SF_REASON_SIZE];

	if (!registry->initialized)
		return;
	apart = sf_claim_peers_apart(registry, lease->config.claimant.owner,
								 sf_lease_clock_offset(lease, now),
								 lease->clock_slack_ms, limit, &peers);
	warn = apart * 2 > peers || apart * 2 < -peers;
	if (warn && !lease->peers_warned)
	{
		snprintf(text, sizeof(text),
				 "The wall clock is more than %lld ms %s those of most other servers.",
				 (long long) limit, apart < 0 ? "behind" : "ahead of");
		lease->config.say(SF_SAID_CLOCK, text);
	}
	lease->peers_warned = warn;
}

/* The registry's clock, read between the request and its answer. */
void
sf_lease_note_clock(SfLease *lease, SfMoment now, const SfAnswer *answer)
{
	int64_t		offset;
	char		span[40];
	char		text[SF_REASON_SIZE];

	if (lease->ask.kind == SF_ASK_READ)
		lease->peers_due_ms = now.monotonic_ms + lease->config.peers_ms;
	if (answer->clock_ms == 0)
		return;
	lease->clock_known = true;
	lease->clock_ahead_ms = answer->clock_ms - now.monotonic_ms;
	lease->clock_slack_ms = now.monotonic_ms - lease->asked_ms +
		answer->clock_step_ms;
	offset = sf_lease_clock_offset(lease, now);
	if (!is_off(offset, lease->config.warn_offset_ms))
		lease->clock_warned = false;
	else if (!lease->clock_warned)
	{
		lease->clock_warned = true;
		sf_clock_print_span(offset < 0 ? -offset : offset, span, sizeof(span));
		snprintf(text, sizeof(text),
				 "The wall clock is %s %s that of the registry.", span,
				 offset < 0 ? "behind" : "ahead of");
		lease->config.say(SF_SAID_CLOCK, text);
	}
	if (lease->ask.kind == SF_ASK_READ && answer->result == SF_RESULT_DONE)
		note_peers(lease, now, answer->registry);
}

/*
 * May a write of ours be let near the slots with this clock?  If not, that is
 * a problem until it is right.
 */
bool
sf_lease_clock_is_good(SfLease *lease, SfMoment now)
{
	int64_t		offset = sf_lease_clock_offset(lease, now);
	char		span[40];
	char		text[SF_REASON_SIZE];

	if (lease->peers_agree || !is_off(offset, lease->config.max_offset_ms))
		return true;
	sf_clock_print_span(offset < 0 ? -offset : offset, span, sizeof(span));
	snprintf(text, sizeof(text),
			 "The wall clock is %s %s that of the registry, and of the servers there.",
			 span, offset < 0 ? "behind" : "ahead of");
	sf_lease_set_problem(lease, now, text,
						 "Set the server's clock right, or that of the registry.");
	return false;
}

/* ---- the right ---- */

/* Was this process frozen, or the clock moved, since the last look? */
bool
sf_lease_was_interrupted(SfLease *lease, SfMoment now)
{
	int64_t		slept = now.monotonic_ms - lease->looked.monotonic_ms;
	int64_t		moved = now.wall_ms - lease->looked.wall_ms - slept;

	lease->looked = now;
	return slept > lease->config.frozen_ms ||
		is_off(moved, lease->config.frozen_ms);
}

/* The registry has this record, which we wrote. */
void
sf_lease_adopt(SfLease *lease, const SfRecord *record, int64_t start)
{
	/* the other writes were conditional on what it has replaced */
	lease->npending = 0;
	lease->record = *record;
	lease->right.node = record->node;
	lease->right.start = start;
	lease->right.until = record->until;
	lease->right.write_id = record->write_id;
}

/* The record that was adopted is a claim's. */
void
sf_lease_take(SfLease *lease, SfMoment now)
{
	char		text[SF_REASON_SIZE];

	sf_lease_clear_problem(lease);
	lease->state = SF_LEASE_HELD;
	lease->right.valid = !lease->halted;
	lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
	snprintf(text, sizeof(text), "Node id %u is leased.", lease->record.node);
	lease->config.say(SF_SAID_LEASED, text);
}

/*
 * Say once that a right has run out, by our clock: until the registry extends
 * it, calls are refused.  At the layout's end there is nothing to extend, and
 * calls say so.
 */
void
sf_lease_watch_until(SfLease *lease, SfMoment now, bool valid, int64_t until,
					 const char *whose)
{
	bool		expired = valid && until < sf_lease_last_until(lease) &&
		sf_lease_tick(lease, now) >= until;
	char		text[SF_REASON_SIZE];

	if (expired && !lease->expired)
	{
		snprintf(text, sizeof(text),
				 "The lease of %s has expired: no ID is made before the registry extends it. %.100s",
				 whose, lease->problem);
		lease->config.say(SF_SAID_EXPIRED, text);
	}
	lease->expired = expired;
}

void
sf_lease_watch_right(SfLease *lease, SfMoment now)
{
	char		whose[30];

	snprintf(whose, sizeof(whose), "node id %u", lease->right.node);
	sf_lease_watch_until(lease, now, lease->right.valid &&
						 lease->state == SF_LEASE_HELD,
						 lease->right.until, whose);
}

/* The slot is not ours any more: issue nothing under it. */
void
sf_lease_fence(SfLease *lease, SfMoment now, const char *why)
{
	const SfClaimant *claimant = &lease->config.claimant;
	char		text[SF_REASON_SIZE];

	snprintf(text, sizeof(text), "The lease of node id %u is lost: %s",
			 lease->record.node, why);
	memset(&lease->right, 0, sizeof(SfRight));
	memset(&lease->record, 0, sizeof(SfRecord));
	lease->npending = 0;
	lease->unsure = false;
	lease->halted = false;
	lease->absent = false;
	lease->state = lease->state == SF_LEASE_RELEASING ?
		SF_LEASE_ENDED : SF_LEASE_SEARCHING;
	lease->retry_ms = now.monotonic_ms;
	sf_lease_lose(lease, now, text,
				  claimant->first_node == claimant->last_node ?
				  "It will be claimed again when it is free." :
				  "Another one will be claimed.");
}

/* The number of the write of ours that made the record, if any; or -1. */
int
sf_lease_find_pending(const SfLease *lease, const SfRecord *record)
{
	for (int i = 0; record != NULL && i < lease->npending; i++)
	{
		if (record->write_id == lease->pending[i].write_id)
			return i;
	}
	return -1;
}

/* Is this a registry to work with? */
bool
sf_lease_registry_is_good(SfLease *lease, SfMoment now,
						  const SfRegistry *registry)
{
	char		text[SF_REMEDY_SIZE];

	if (!registry->initialized)
	{
		snprintf(text, sizeof(text),
				 "If it is the right one, and has not lost its data, have an administrator %s",
				 lease->config.initialize);
		sf_lease_set_problem(lease, now, "The registry was never initialized.",
							 text);
		return false;
	}
	if (strcmp(registry->layout, lease->layout) == 0)
		return true;
	snprintf(text, sizeof(text), "The registry is for the layout \"%.80s\".",
			 registry->layout);
	sf_lease_set_problem(lease, now, text,
						 "Set snowflake.layout and snowflake.epoch to that, or use another registry.");
	return false;
}
