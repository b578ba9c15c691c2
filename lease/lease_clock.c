/*-------------------------------------------------------------------------
 *
 * lease_clock.c
 *	  Judgement about the registry's clock and the other servers' clocks.
 *
 * Clocks are no part of the argument that no ID is issued twice (lease.c).
 * But a wrong clock makes IDs that do not sort, or reserves a slot for years.
 * So a server whose clock is more than 5 s from the registry's neither claims
 * nor extends.
 *
 * If the registry's clock is the wrong one, that would stop all servers.
 * Three observations tell which clock is wrong:
 *
 * - Our wall clock was near the registry's, and has kept pace with the time
 *   since boot.  Then the registry's clock has moved.  That suffices to extend
 *   a lease, but not to claim one: in a virtual machine that was suspended the
 *   time since boot may have stood still, and its lease is often lost.
 *
 * - Endpoints of a registry may have clocks of their own, as in etcd, where an
 *   answer names its endpoint.  After a wrong clock, the next request goes to
 *   another endpoint.  If that one says the same, our clock is wrong.
 *
 * - Most other servers may have written that they find the registry's clock as
 *   far off as we do: each record has that offset.  Then the registry's clock
 *   is wrong, and a new server may claim.  The records are compared at each
 *   reading: at a claim, after an unclear outcome, and every five minutes.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"

#include "base/clock.h"

#include <stdio.h>

/* Which message about a wrong clock was logged last. */
enum
{
	LOGGED_NOTHING, LOGGED_OFF, LOGGED_MOVED
};

/* Return by how much at least our clock is ahead of this one, or behind. */
static int64_t
find_offset(const SfRegistryClock *clock, SfMoment now)
{
	int64_t		most = now.wall_ms - now.monotonic_ms - clock->ahead_ms;

	if (!clock->known)
		return 0;
	if (most > clock->slack_ms)
		return most - clock->slack_ms;
	return most < 0 ? most : 0;
}

/* Return the same for the registry's clock, as it was read last. */
int64_t
sf_lease_clock_offset(const SfLease *lease, SfMoment now)
{
	return find_offset(&lease->clock, now);
}

static bool
is_off(int64_t offset, int64_t limit)
{
	return offset > limit || offset < -limit;
}

/* Return true if this process was frozen since last time, or the clock set. */
bool
sf_lease_was_interrupted(SfLease *lease, SfMoment now)
{
	int64_t		slept = now.monotonic_ms - lease->looked.monotonic_ms;
	int64_t		moved = now.wall_ms - lease->looked.wall_ms - slept;

	lease->looked = now;
	return slept > lease->config.frozen_ms ||
		is_off(moved, lease->config.frozen_ms);
}

/*
 * Return true if we are too far from the registry's clock only because that
 * has moved against the time since boot, and ours has not.
 */
bool
sf_lease_registry_moved(const SfLease *lease, SfMoment now)
{
	int64_t		limit = lease->config.max_offset_ms;

	return lease->near_clock.known &&
		is_off(find_offset(&lease->clock, now), limit) &&
		!is_off(find_offset(&lease->near_clock, now), limit);
}

/* Print how far our clock is off, and which clock seems to be wrong. */
static void
describe(const SfLease *lease, SfMoment now, char *text, size_t size)
{
	int64_t		offset = sf_lease_clock_offset(lease, now);
	int			endpoint = lease->clock.endpoint;
	char		span[40];
	char		whose[40] = "the registry";
	char		known[100] = "";

	sf_clock_print_span(offset < 0 ? -offset : offset, span, sizeof(span));
	if (endpoint != 0)
		snprintf(whose, sizeof(whose), "endpoint %d of the registry",
				 endpoint);
	if (lease->confirmed_by != 0)
		snprintf(known, sizeof(known), ", and that of endpoint %d",
				 lease->confirmed_by);
	else if (!sf_lease_registry_moved(lease, now))
		snprintf(known, sizeof(known), "%s", lease->peers_right &&
				 is_off(offset, lease->config.max_offset_ms) ?
				 "; most other servers agreed with that clock when they last wrote" :
				 "");
	else if (lease->near_clock.endpoint == endpoint)
		snprintf(known, sizeof(known), ", which has moved against the time since boot: this server's has not");
	else
		snprintf(known, sizeof(known), ", but not that of endpoint %d",
				 lease->near_clock.endpoint);
	snprintf(text, size, "The wall clock is %s %s that of %s%s.", span,
			 offset < 0 ? "behind" : "ahead of", whose, known);
}

/* Log once that our clock is off, and once that the registry's has moved. */
static void
log_clock(SfLease *lease, SfMoment now)
{
	int			level = LOGGED_NOTHING;
	char		text[SF_REASON_SIZE];

	if (is_off(sf_lease_clock_offset(lease, now),
			   lease->config.warn_offset_ms))
		level = sf_lease_registry_moved(lease, now) ?
			LOGGED_MOVED : LOGGED_OFF;
	if (level > lease->clock_logged)
	{
		describe(lease, now, text, sizeof(text));
		lease->config.log_event(SF_LEASE_EVENT_CLOCK, text);
	}
	lease->clock_logged = level;
}

/*
 * Compare our clock, and the registry's, with those of the present owners when
 * they last wrote.  The error is at most the time that an answer takes.
 */
static void
compare_peers(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	uint64_t	owner = lease->config.claimant.owner;
	int64_t		max_offset = lease->config.max_offset_ms;

	if (!registry->initialized)
		return;
	lease->peers_agree = sf_peers_agree(registry, owner,
										sf_lease_clock_offset(lease, now),
										max_offset);
	lease->peers_right = sf_peers_agree(registry, owner, 0, max_offset);
}

/* Return true if two endpoints in a row say the same about our clock. */
static bool
is_confirmed(const SfLease *lease, SfMoment now, const SfRegistryClock *before)
{
	int64_t		limit = lease->config.max_offset_ms;
	int64_t		offset = find_offset(&lease->clock, now);
	int64_t		offset_before = find_offset(before, now);

	return before->endpoint != lease->clock.endpoint &&
		((offset > limit && offset_before > limit) ||
		 (offset < -limit && offset_before < -limit));
}

/* Store the registry's clock, read between the request and its answer. */
static void
take_time(SfLease *lease, SfMoment now, const SfAnswer *answer)
{
	SfRegistryClock before = lease->clock;

	lease->clock.known = true;
	lease->clock.ahead_ms = answer->clock_ms - now.monotonic_ms;
	lease->clock.slack_ms = now.monotonic_ms - lease->asked_ms +
		answer->clock_step_ms;
	lease->clock.endpoint = answer->endpoint;
	lease->confirmed_by = 0;
	lease->avoid = 0;
	if (!is_off(sf_lease_clock_offset(lease, now),
				lease->config.max_offset_ms))
		lease->near_clock = lease->clock;
	else
	{
		lease->avoid = answer->endpoint;
		if (is_confirmed(lease, now, &before))
		{
			lease->confirmed_by = before.endpoint;
			lease->near_clock.known = false;
		}
	}
	log_clock(lease, now);
}

/* Evaluate what an answer says of clocks. */
void
sf_lease_take_clock(SfLease *lease, SfMoment now, const SfAnswer *answer)
{
	if (lease->ask.kind == SF_ASK_READ)
		lease->peers_due_ms = now.monotonic_ms + lease->config.peers_ms;
	if (answer->clock_ms != 0)
		take_time(lease, now, answer);
	if (lease->ask.kind == SF_ASK_READ && answer->result == SF_RESULT_DONE)
		compare_peers(lease, now, answer->registry);
}

/*
 * Return true if this clock may be used to write slots.  If not, and if
 * another endpoint was asked too, report a problem.
 */
bool
sf_lease_clock_is_good(SfLease *lease, SfMoment now)
{
	char		text[SF_REASON_SIZE];

	if (lease->peers_agree ||
		!is_off(sf_lease_clock_offset(lease, now),
				lease->config.max_offset_ms) ||
		(lease->state == SF_LEASE_HELD && sf_lease_registry_moved(lease, now)))
		return true;
	if (lease->clock.endpoint != 0 && lease->ask.avoid == 0)
		return false;
	describe(lease, now, text, sizeof(text));
	sf_lease_set_problem(lease, now, text,
						 "Set the server's clock right, or that of the registry.");
	return false;
}
