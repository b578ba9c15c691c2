/*-------------------------------------------------------------------------
 *
 * client_clock.c
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
#include "lease/client.h"

#include "base/clock.h"
#include "lease/slot_choice.h"

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
sf_client_clock_offset(const SfRegistryClient *client, SfMoment now)
{
	return find_offset(&client->clock, now);
}

static bool
is_off(int64_t offset, int64_t limit)
{
	return offset > limit || offset < -limit;
}

/*
 * Look at the clocks.  Return true if this process was frozen since last time,
 * or the clock set.
 */
bool
sf_client_look(SfRegistryClient *client, SfMoment now)
{
	int64_t		slept = now.monotonic_ms - client->looked.monotonic_ms;
	int64_t		moved = now.wall_ms - client->looked.wall_ms - slept;

	client->looked = now;
	return slept > client->config.frozen_ms ||
		is_off(moved, client->config.frozen_ms);
}

/*
 * Return true if we are too far from the registry's clock only because that
 * has moved against the time since boot, and ours has not.
 */
bool
sf_client_registry_moved(const SfRegistryClient *client, SfMoment now)
{
	int64_t		limit = client->config.max_offset_ms;

	return client->near_clock.known &&
		is_off(find_offset(&client->clock, now), limit) &&
		!is_off(find_offset(&client->near_clock, now), limit);
}

/* Print how far our clock is off, and which clock seems to be wrong. */
static void
describe(const SfRegistryClient *client, SfMoment now, char *text, size_t size)
{
	int64_t		offset = sf_client_clock_offset(client, now);
	int			endpoint = client->clock.endpoint;
	char		span[40];
	char		whose[40] = "the registry";
	char		known[100] = "";

	sf_clock_print_span(offset < 0 ? -offset : offset, span, sizeof(span));
	if (endpoint != 0)
		snprintf(whose, sizeof(whose), "endpoint %d of the registry",
				 endpoint);
	if (client->confirmed_by != 0)
		snprintf(known, sizeof(known), ", and that of endpoint %d",
				 client->confirmed_by);
	else if (!sf_client_registry_moved(client, now))
		snprintf(known, sizeof(known), "%s", client->peers_right &&
				 is_off(offset, client->config.max_offset_ms) ?
				 "; most other servers agreed with that clock when they last wrote" :
				 "");
	else if (client->near_clock.endpoint == endpoint)
		snprintf(known, sizeof(known), ", which has moved against the time since boot: this server's has not");
	else
		snprintf(known, sizeof(known), ", but not that of endpoint %d",
				 client->near_clock.endpoint);
	snprintf(text, size, "The wall clock is %s %s that of %s%s.", span,
			 offset < 0 ? "behind" : "ahead of", whose, known);
}

/* Log once that our clock is off, and once that the registry's has moved. */
static void
log_clock(SfRegistryClient *client, SfMoment now)
{
	int			level = LOGGED_NOTHING;
	char		text[SF_REASON_SIZE];

	if (is_off(sf_client_clock_offset(client, now),
			   client->config.warn_offset_ms))
		level = sf_client_registry_moved(client, now) ?
			LOGGED_MOVED : LOGGED_OFF;
	if (level > client->clock_logged)
	{
		describe(client, now, text, sizeof(text));
		client->config.log_event(SF_LEASE_EVENT_CLOCK, text);
	}
	client->clock_logged = level;
}

/*
 * Compare our clock, and the registry's, with those of the present owners when
 * they last wrote.  The error is at most the time that an answer takes.
 */
static void
compare_peers(SfRegistryClient *client, SfMoment now,
			  const SfRegistry *registry)
{
	uint64_t	owner = client->ask.record.owner;
	int64_t		max_offset = client->config.max_offset_ms;

	if (!registry->initialized)
		return;
	client->peers_agree = sf_peers_agree(registry, owner,
										 sf_client_clock_offset(client, now),
										 max_offset);
	client->peers_right = sf_peers_agree(registry, owner, 0, max_offset);
}

/* Return true if two endpoints in a row say the same about our clock. */
static bool
is_confirmed(const SfRegistryClient *client, SfMoment now,
			 const SfRegistryClock *before)
{
	int64_t		limit = client->config.max_offset_ms;
	int64_t		offset = find_offset(&client->clock, now);
	int64_t		offset_before = find_offset(before, now);

	return before->endpoint != client->clock.endpoint &&
		((offset > limit && offset_before > limit) ||
		 (offset < -limit && offset_before < -limit));
}

/* Store the registry's clock, read between the request and its answer. */
static void
take_time(SfRegistryClient *client, SfMoment now, const SfAnswer *answer)
{
	SfRegistryClock before = client->clock;

	client->clock.known = true;
	client->clock.ahead_ms = answer->clock_ms - now.monotonic_ms;
	client->clock.slack_ms = now.monotonic_ms - client->asked_ms +
		answer->clock_step_ms;
	client->clock.endpoint = answer->endpoint;
	client->confirmed_by = 0;
	client->avoid = 0;
	if (!is_off(sf_client_clock_offset(client, now),
				client->config.max_offset_ms))
		client->near_clock = client->clock;
	else
	{
		client->avoid = answer->endpoint;
		if (is_confirmed(client, now, &before))
		{
			client->confirmed_by = before.endpoint;
			client->near_clock.known = false;
		}
	}
	log_clock(client, now);
}

/* Evaluate what an answer says of clocks. */
void
sf_client_take_clock(SfRegistryClient *client, SfMoment now,
					 const SfAnswer *answer)
{
	if (client->ask.kind == SF_ASK_READ)
		client->peers_due_ms = now.monotonic_ms + client->config.peers_ms;
	if (answer->clock_ms != 0)
		take_time(client, now, answer);
	if (client->ask.kind == SF_ASK_READ && answer->result == SF_RESULT_DONE)
		compare_peers(client, now, answer->registry);
}

/*
 * Return true if this clock may be used to write slots: to claim one, or to
 * extend the one that is held.  If not, and if another endpoint was asked too,
 * report a problem.
 */
bool
sf_client_clock_is_good(SfRegistryClient *client, SfMoment now, bool is_held)
{
	char		text[SF_REASON_SIZE];

	if (client->peers_agree ||
		!is_off(sf_client_clock_offset(client, now),
				client->config.max_offset_ms) ||
		(is_held && sf_client_registry_moved(client, now)))
		return true;
	if (client->clock.endpoint != 0 && client->ask.avoid == 0)
		return false;
	describe(client, now, text, sizeof(text));
	sf_client_set_problem(client, now, text,
						  client->peers_right ? "Set this server's clock right." :
						  "Set the server's clock right, or that of the registry.");
	return false;
}
