/*-------------------------------------------------------------------------
 *
 * lease_state.c
 *	  State of a lease: problems, the back-off, and the right.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"

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

/* Return the layout's end, beyond which there is nothing to reserve. */
int64_t
sf_lease_last_until(const SfLease *lease)
{
	const SfLayout *layout = lease->config.claimant.layout;

	return layout->end_tick - layout->epoch_tick;
}

/* Return the until for a write of now, which never lowers one ("least"). */
int64_t
sf_lease_reserve(const SfLease *lease, SfMoment now, int64_t least)
{
	int64_t		until = sf_lease_tick(lease, now) + lease->config.reserve_ms /
		lease->config.claimant.layout->tick_ms;

	if (until > sf_lease_last_until(lease))
		until = sf_lease_last_until(lease);
	return until > least ? until : least;
}

/*
 * Return how far ahead of our clock this until is, or the next may be.  A
 * recovery of a registry that has lost this record needs it: a reserve made
 * with a larger reserve_ms outlasts the reload that made it smaller.
 */
int64_t
sf_lease_reserved_ms(const SfLease *lease, SfMoment now, int64_t until)
{
	int64_t		ahead = (until - sf_lease_tick(lease, now)) *
		lease->config.claimant.layout->tick_ms;

	return ahead > lease->config.reserve_ms ? ahead :
		lease->config.reserve_ms;
}

/* ---- problems ---- */

/* Hash a problem, ignoring its digits, so that times do not count; not 0. */
static uint32_t
kind_of(const char *problem)
{
	uint32_t	kind = UINT32_C(2166136261);	/* FNV-1a */

	for (const char *p = problem; *p != '\0'; p++)
	{
		if (*p < '0' || *p > '9')
			kind = (kind ^ (unsigned char) *p) * UINT32_C(16777619);
	}
	return kind | 1;
}

/*
 * Return true if this problem shall be logged: at once if it is new, and once
 * a minute if it lasts.  So two problems that alternate do not flood the log.
 * If there are too many to tell apart, log only so many in a minute.
 */
static bool
is_to_be_logged(SfLease *lease, SfMoment now, const char *problem)
{
	uint32_t	kind = kind_of(problem);
	int			place = 0;

	if (lease->problem[0] == '\0')
		memset(lease->logged, 0, sizeof(lease->logged));
	for (int i = 0; i < SF_LEASE_LOGGED; i++)
	{
		if (lease->logged[i].kind == kind)
		{
			place = i;
			break;
		}
		if (lease->logged[i].at_ms < lease->logged[place].at_ms)
			place = i;
	}
	if (lease->logged[place].kind != 0 &&
		now.monotonic_ms - lease->logged[place].at_ms < LOG_EVERY_MS)
		return false;
	lease->logged[place].kind = kind;
	lease->logged[place].at_ms = now.monotonic_ms;
	return true;
}

static void
say_problem(SfLease *lease, SfMoment now, SfLeaseEvent what,
			const char *problem,
			const char *public_problem, const char *remedy)
{
	bool		log = is_to_be_logged(lease, now, problem);

	snprintf(lease->problem, sizeof(lease->problem), "%s", problem);
	snprintf(lease->public_problem, sizeof(lease->public_problem), "%s",
			 public_problem);
	snprintf(lease->remedy, sizeof(lease->remedy), "%s", remedy);
	if (log || what == SF_LEASE_EVENT_LOST)
		lease->config.say(what, problem);
}

/*
 * Report a problem, which is logged when it begins or changes, and then once a
 * minute.  The public text is for roles that may not see names.
 */
void
sf_lease_set_private_problem(SfLease *lease, SfMoment now,
							 const char *problem, const char *public_problem,
							 const char *remedy)
{
	say_problem(lease, now, SF_LEASE_EVENT_PROBLEM, problem, public_problem,
				remedy);
}

/* Report why nothing can be claimed. */
void
sf_lease_set_claim_problem(SfLease *lease, SfMoment now,
						   const SfSlotChoice *claim)
{
	sf_lease_set_private_problem(lease, now, claim->problem,
								 claim->public_problem[0] != '\0' ?
								 claim->public_problem : claim->problem,
								 claim->remedy);
}

/* Report a problem that every role may see. */
void
sf_lease_set_problem(SfLease *lease, SfMoment now, const char *problem,
					 const char *remedy)
{
	sf_lease_set_private_problem(lease, now, problem, problem, remedy);
}

/* Report that the registry has lost data, logged like a problem. */
void
sf_lease_set_behind(SfLease *lease, SfMoment now, const char *problem,
					const char *remedy)
{
	say_problem(lease, now, SF_LEASE_EVENT_BEHIND, problem, problem, remedy);
}

/* Report the loss of a lease, which is always logged. */
void
sf_lease_lose(SfLease *lease, SfMoment now, const char *problem,
			  const char *remedy)
{
	say_problem(lease, now, SF_LEASE_EVENT_LOST, problem, problem, remedy);
}

void
sf_lease_clear_problem(SfLease *lease)
{
	if (lease->problem[0] != '\0')
		lease->config.say(SF_LEASE_EVENT_SOLVED, "The problem with the registry is over.");
	lease->problem[0] = '\0';
	lease->remedy[0] = '\0';
	lease->backoff_ms = 0;
}

/* Try again later; wait longer after each failure. */
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

/* Report that the registry did not do what it was asked. */
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
	sf_lease_fail(lease, now, kind, SF_FAILURE_TIMEOUT,
				  "The registry did not answer in time.");
}

/* ---- the right ---- */

/* Continue from a record of ours that the registry has. */
void
sf_lease_adopt(SfLease *lease, const SfSlotRecord *record)
{
	/* the other pending writes required the replaced version: they failed */
	lease->npending = 0;
	lease->record = *record;
}

/* Hold the slot: the adopted record is that of a claim. */
void
sf_lease_take(SfLease *lease, SfMoment now)
{
	lease->state = SF_LEASE_HELD;
	lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
}

/* Publish the adopted record's right: the registry has acknowledged it. */
void
sf_lease_confirm(SfLease *lease)
{
	bool		is_new = lease->right.until == 0;
	char		text[SF_REASON_SIZE];

	sf_lease_clear_problem(lease);
	lease->right.valid = true;
	lease->right.node = lease->record.node;
	lease->right.until = lease->record.until;
	lease->right.write_id = lease->record.write_id;
	if (!is_new)
		return;
	snprintf(text, sizeof(text), "Node id %u is leased.", lease->record.node);
	lease->config.say(SF_LEASE_EVENT_LEASED, text);
}

/*
 * Log once that a right has expired by our clock: calls are refused until the
 * registry extends it.  At the layout's end there is nothing to extend, and
 * calls say so.
 */
void
sf_lease_watch_until(SfLease *lease, SfMoment now, bool valid, int64_t until,
					 const char *whose)
{
	bool		expired = valid && until < sf_lease_last_until(lease) &&
		sf_lease_tick(lease, now) >= until;
	char		text[SF_REASON_SIZE + 150];

	if (expired && !lease->expired)
	{
		snprintf(text, sizeof(text),
				 "The lease of %s has expired: no ID is made before the registry extends it. %s",
				 whose, lease->problem);
		lease->config.say(SF_LEASE_EVENT_EXPIRED, text);
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

/* Fence: the slot is no longer ours, so issue nothing under it. */
void
sf_lease_fence(SfLease *lease, SfMoment now, const char *why)
{
	const SfClaimant *claimant = &lease->config.claimant;
	char		text[SF_REASON_SIZE];

	snprintf(text, sizeof(text), "The lease of node id %u is lost: %s",
			 lease->record.node, why);
	memset(&lease->right, 0, sizeof(SfRight));
	memset(&lease->record, 0, sizeof(SfSlotRecord));
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

/* Return the index of our pending write that made the record; or -1. */
int
sf_lease_find_pending(const SfLease *lease, const SfSlotRecord *record)
{
	for (int i = 0; record != NULL && i < lease->npending; i++)
	{
		if (record->write_id == lease->pending[i].write_id)
			return i;
	}
	return -1;
}

/*
 * Return true if the registry is initialized for our layout.  A server that
 * has not leased from an empty one does not know whether it is new.
 */
bool
sf_lease_registry_is_good(SfLease *lease, SfMoment now,
						  const SfRegistry *registry)
{
	char		text[SF_REMEDY_SIZE];

	if (!registry->initialized)
	{
		snprintf(text, sizeof(text),
				 "If it is the right one, and new, have an administrator %s If it has lost its data, or replaces a registry that is lost, %s('90 s')%s In place of 90 s give the largest snowflake.lease_reserve of all servers.",
				 lease->config.initialize, lease->config.recreate,
				 lease->config.recreated);
		sf_lease_set_problem(lease, now, "The registry was never initialized.",
							 text);
		return false;
	}
	if (strcmp(registry->layout, lease->layout) == 0)
		return true;
	snprintf(text, sizeof(text), "The registry is for the layout \"%.80s\".",
			 registry->layout);
	sf_lease_set_problem(lease, now, text,
						 "Set snowflake.layout to that, or use another registry.");
	return false;
}
