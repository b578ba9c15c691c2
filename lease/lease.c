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
 * The states, and what changes them:
 *
 *		SEARCHING ---- ask_claim() ----> CLAIMING
 *			^  |							|
 *			|  | resolve_claim()			| acknowledged
 *			|  v							v
 *			| HALTED -- acknowledged ----> HELD ----> RELEASING --> ENDED
 *			|	^							| |		  sf_lease_release()
 *			|	+-- handle_interruption() --+ |
 *			+---------- fence() --------------+
 *
 * CLAIMING returns to SEARCHING if the claim fails, or has no answer; fence()
 * applies to HALTED, too.  sf_lease_release() leads from HALTED to RELEASING,
 * and from the first two states to ENDED.  RELEASING ends when the registry
 * acknowledges the release, has another server's record, or has lost data.
 *
 * state		request in flight				flags that may be set
 * SEARCHING	none, a reading
 * CLAIMING		a claim
 * HALTED, HELD	none, a reading, an extension,	unsure, absent
 *				a keepalive
 * RELEASING	none, a reading, a release		unsure, absent
 * ENDED		none							without effect
 *
 * Only in HELD is there a right to issue, and only confirm(), after an
 * acknowledged write, leads there.  "unsure" says that the next request is a
 * reading, "absent" that the next write makes this server present again.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"

#include <stdio.h>
#include <string.h>

#define FINISH_MS		1000	/* how often to read when a right ends */

/* Return true if we hold a slot, and may extend it. */
static bool
holds_slot(const SfLease *lease)
{
	return lease->state == SF_LEASE_HALTED || lease->state == SF_LEASE_HELD;
}

static int64_t
get_tick(const SfLease *lease, SfMoment now)
{
	const SfLayout *layout = lease->config.claimant.layout;

	return sf_layout_ms_to_tick(layout, now.wall_ms) - layout->epoch_tick;
}

/* Return the layout's end, beyond which there is nothing to reserve. */
static int64_t
get_last_until(const SfLease *lease)
{
	const SfLayout *layout = lease->config.claimant.layout;

	return layout->end_tick - layout->epoch_tick;
}

/* Print the time of a tick in our layout. */
static const char *
print_tick(const SfLease *lease, int64_t tick, char *text, size_t size)
{
	const SfLayout *layout = lease->config.claimant.layout;

	sf_epoch_print(sf_layout_after_epoch_ms(layout, tick), text, size);
	return text;
}

/* Return the until for a write of now, which never lowers one ("least"). */
static int64_t
reserve(const SfLease *lease, SfMoment now, int64_t least)
{
	int64_t		until = get_tick(lease, now) + lease->config.reserve_ms /
		lease->config.claimant.layout->tick_ms;

	if (until > get_last_until(lease))
		until = get_last_until(lease);
	return until > least ? until : least;
}

/*
 * Return how far ahead of a right clock this until is, or the next may be.  A
 * recovery of a registry that has lost this record needs it: a reserve made
 * with a larger reserve_ms outlasts the reload that made it smaller.  An until
 * that is farther ahead than any reserve was made while the clock was wrong.
 */
static int64_t
get_reserved_ms(const SfLease *lease, SfMoment now, const SfSlotRecord *old,
				int64_t until)
{
	int64_t		ahead = (until - get_tick(lease, now)) *
		lease->config.claimant.layout->tick_ms;

	if (ahead > old->reserve_ms)
		ahead = old->reserve_ms;
	return ahead > lease->config.reserve_ms ? ahead :
		lease->config.reserve_ms;
}

/* Room for an advice to stay. */
#define SF_STAY_SIZE	150

/* and for a remedy behind it */
#define SF_ADVICE_SIZE	(SF_STAY_SIZE + SF_REMEDY_SIZE)

/* How the advice to stay ends. */
#define SF_STAY_END		": until then it goes on making IDs. "

/*
 * Advise not to restart a server that would lose its right before "until"; or
 * return "".
 */
static const char *
advise_to_stay(const SfLease *lease, SfMoment now, int64_t until,
			   const char *unless, char *text)
{
	char		time[40];

	text[0] = '\0';
	if (lease->state == SF_LEASE_HELD && get_tick(lease, now) < until)
		snprintf(text, SF_STAY_SIZE,
				 "Do not restart this server before %s%s" SF_STAY_END,
				 print_tick(lease, until, time, sizeof(time)), unless);
	return text;
}

/* Print what to do after a failure.  The registry may be NULL. */
static const char *
print_remedy(const SfLease *lease, SfMoment now, const SfRegistry *registry,
			 SfFailure failure, const char *unless, char *remedy)
{
	char		stay[SF_STAY_SIZE];
	char		recovery[SF_RECOVERY_SIZE];
	char		cure[SF_REMEDY_SIZE];

	sf_registry_remedy(cure, sizeof(cure), lease->config.registry_kind,
					   failure, lease->config.part,
					   sf_age_print_recovery(lease->config.age, registry,
											 lease->config.reserve_ms,
											 now.wall_ms, recovery));
	snprintf(remedy, SF_ADVICE_SIZE, "%s%s",
			 advise_to_stay(lease, now, lease->right.until, unless, stay),
			 cure);
	return remedy;
}

/*
 * Report that the registry did not do what it was asked.  Without an answer, a
 * restart is harmless once there is one.  What has answered with an error may
 * do so after the restart, too.
 */
static void
report_failure(SfLease *lease, SfMoment now, SfAskKind kind, SfFailure failure,
			   const char *problem)
{
	char		remedy[SF_ADVICE_SIZE];
	bool		answers = failure != SF_FAILURE_UNREACHABLE &&
		failure != SF_FAILURE_TIMEOUT;

	lease->client.failed = kind;
	sf_client_report(&lease->client, now, SF_LEASE_EVENT_PROBLEM, problem,
					 sf_registry_failure(failure),
					 print_remedy(lease, now, NULL, failure, answers ? "" :
								  ", unless the registry answers", remedy));
	sf_client_back_off(&lease->client, now);
}

/* ---- requests ---- */

/*
 * Begin a request about our slot; the caller adds the rest.  It has a new
 * number, by which tell_changes() sees that it is to be sent, and a deadline,
 * for time_out().
 */
static SfAsk *
begin_request(SfLease *lease, SfMoment now, SfAskKind kind)
{
	SfAsk	   *ask = sf_client_ask(&lease->client, now, kind);

	ask->generation = lease->generation;
	ask->record.owner = lease->config.claimant.owner;
	ask->record.node = lease->record.node;
	return ask;
}

/* Give up the request in flight.  It may have succeeded, or may still. */
static void
abandon(SfLease *lease)
{
	if (lease->client.ask.kind == SF_ASK_CLAIM)
		lease->state = SF_LEASE_SEARCHING;
	else if (lease->client.ask.kind == SF_ASK_EXTEND ||
			 lease->client.ask.kind == SF_ASK_RELEASE)
		lease->unsure = true;
	lease->client.ask.kind = SF_ASK_NOTHING;
}

/* Give up the request in flight if its deadline is over. */
static void
time_out(SfLease *lease, SfMoment now)
{
	SfAskKind	kind = lease->client.ask.kind;

	if (kind == SF_ASK_NOTHING ||
		now.monotonic_ms < lease->client.ask.deadline_ms)
		return;
	abandon(lease);
	report_failure(lease, now, kind, SF_FAILURE_TIMEOUT,
				   "The registry did not answer in time.");
}

/*
 * Explain that the registry is for another layout.  Who may write into it is
 * not trusted: the remedy has a layout in our own spelling, or none.
 */
static void
report_layout(SfLease *lease, SfMoment now, const char *theirs)
{
	SfLayout	layout;
	char		problem[SF_REASON_SIZE];
	char		text[SF_REMEDY_SIZE];
	char		canonical[SF_LAYOUT_TEXT_SIZE];

	if (sf_layout_parse(&layout, theirs, text, sizeof(text)))
	{
		sf_layout_print(&layout, canonical, sizeof(canonical));
		snprintf(problem, sizeof(problem),
				 "The registry is for the layout \"%s\".", canonical);
		snprintf(text, sizeof(text),
				 "If the other servers have that layout, set snowflake.layout = '%s' here, and restart. If they lease from another registry, set snowflake.registry to that (SHOW snowflake.registry; there).",
				 canonical);
	}
	else
	{
		snprintf(problem, sizeof(problem),
				 "The registry is for a layout that this version cannot read.");
		snprintf(text, sizeof(text),
				 "Set snowflake.registry to that of the other servers (SHOW snowflake.registry; there), and restart. If it is the same, install their version of the extension here.");
	}
	sf_client_set_problem(&lease->client, now, problem, text);
}

/*
 * Return true if the registry is initialized for our layout.  A server that
 * has not leased from an empty one does not know whether it is new.
 */
static bool
registry_is_good(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	char		text[SF_REMEDY_SIZE];

	if (!registry->initialized)
	{
		snprintf(text, sizeof(text),
				 "If other servers lease, set snowflake.registry to what SHOW snowflake.registry; says there, and restart this server. If it says the same, see \"A registry that goes back\" in doc/leases.md. If the registry is new, have an administrator %s",
				 lease->config.initialize);
		sf_client_set_problem(&lease->client, now, "The registry was never initialized.",
							  text);
		return false;
	}
	if (strcmp(registry->layout, lease->layout) == 0)
		return true;
	report_layout(lease, now, registry->layout);
	return false;
}

/* ---- the right of a node ---- */

/* Continue from a record of ours that the registry has. */
static void
adopt(SfLease *lease, const SfSlotRecord *record)
{
	/* the other pending writes required the replaced version: they failed */
	lease->client.npending = 0;
	lease->record = *record;
}

/* Hold the slot: the adopted record is that of a claim. */
static void
hold_slot(SfLease *lease, SfMoment now)
{
	lease->state = SF_LEASE_HALTED;
	lease->config.claimant.last_write_id = 0;	/* of the previous life */
	lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
}

/* The adopted record gives the right: the registry has acknowledged it. */
static void
confirm(SfLease *lease)
{
	bool		is_new = lease->right.until == 0;
	char		text[SF_REASON_SIZE];

	sf_client_clear_problem(&lease->client);
	lease->state = SF_LEASE_HELD;
	lease->right.node = lease->record.node;
	lease->right.until = lease->record.until;
	lease->right.write_id = lease->record.write_id;
	if (!is_new)
		return;
	snprintf(text, sizeof(text), "Node id %u is leased.", lease->record.node);
	lease->client.config.log_event(SF_LEASE_EVENT_LEASED, text);
}

/* The registry has the slot back. */
static void
end_returned(SfLease *lease)
{
	char		text[SF_REASON_SIZE];

	lease->state = SF_LEASE_ENDED;
	snprintf(text, sizeof(text), "Node id %u is given back.",
			 lease->record.node);
	lease->client.config.log_event(SF_LEASE_EVENT_RETURNED, text);
}

/*
 * Log once that the right has expired by our clock: calls are refused until
 * the registry extends it.  At the layout's end there is nothing to extend,
 * and calls say so.
 */
static void
log_expiry(SfLease *lease, SfMoment now)
{
	const SfRight *right = &lease->right;
	bool		expired = lease->state == SF_LEASE_HELD &&
		right->until < get_last_until(lease) &&
		get_tick(lease, now) >= right->until;
	char		text[SF_REASON_SIZE + 150];

	if (expired && !lease->expired)
	{
		char	   *remedy = lease->client.remedy;
		char	   *stay = strstr(remedy, SF_STAY_END);

		/* the advice to stay has ended */
		if (stay != NULL)
			memmove(remedy, stay + strlen(SF_STAY_END),
					strlen(stay + strlen(SF_STAY_END)) + 1);
		snprintf(text, sizeof(text),
				 "The lease of node id %u has expired: no ID is made before the registry extends it. %s",
				 right->node, lease->client.problem);
		lease->client.config.log_event(SF_LEASE_EVENT_EXPIRED, text);
	}
	lease->expired = expired;
}

/* Fence: the slot is no longer ours, so issue nothing under it. */
static void
fence(SfLease *lease, SfMoment now, const char *why)
{
	const SfClaimant *claimant = &lease->config.claimant;
	bool		ends = lease->state == SF_LEASE_RELEASING;
	char		text[SF_REASON_SIZE];

	snprintf(text, sizeof(text), "The lease of node id %u is lost: %s",
			 lease->record.node, why);
	memset(&lease->right, 0, sizeof(SfRight));
	memset(&lease->record, 0, sizeof(SfSlotRecord));
	lease->client.npending = 0;
	lease->unsure = false;
	lease->absent = false;
	lease->state = ends ? SF_LEASE_ENDED : SF_LEASE_SEARCHING;
	lease->client.retry_ms = now.monotonic_ms;
	sf_client_report(&lease->client, now, SF_LEASE_EVENT_LOST, text, text,
					 ends ? "" :
					 claimant->first_node == claimant->last_node ?
					 "It will be claimed again when it is free." :
					 "Another one will be claimed.");
}

/* ---- requests about a slot ---- */

/* Request a write that replaces this record, and remember it as pending. */
static void
ask_write(SfLease *lease, SfMoment now, SfAskKind kind,
		  const SfSlotRecord *old, int64_t start, int64_t until)
{
	const SfClaimant *claimant = &lease->config.claimant;
	SfAsk	   *ask = begin_request(lease, now, kind);
	SfSlotRecord *record = &ask->record;

	ask->version = old->version;
	*record = *old;
	record->owner = claimant->owner;
	record->server = claimant->server;
	record->write_id = lease->client.config.random();
	record->until = until;
	record->offset_ms = sf_client_clock_offset(&lease->client, now);
	if (kind != SF_ASK_RELEASE)
		record->reserve_ms = get_reserved_ms(lease, now, old, until);
	record->released = kind == SF_ASK_RELEASE;
	snprintf(record->host, sizeof(record->host), "%s", claimant->host);
	record->process = claimant->process;
	if (kind == SF_ASK_CLAIM)
		record->since_ms = now.wall_ms;
	sf_client_add_pending(&lease->client, record->write_id, start);
	lease->client.peers_agree = false;	/* it counts for one write */
}

static void
ask_claim(SfLease *lease, SfMoment now, const SfSlotChoice *claim)
{
	SfSlotRecord old = claim->record;

	old.epoch++;
	ask_write(lease, now, SF_ASK_CLAIM, &old, claim->start,
			  reserve(lease, now,
					  claim->record.until > claim->start ?
					  claim->record.until : claim->start));
	lease->client.ask.displaced = claim->record.present;
	lease->client.ask.presence = true;
	lease->state = SF_LEASE_CLAIMING;
}

static void
ask_extension(SfLease *lease, SfMoment now)
{
	ask_write(lease, now, SF_ASK_EXTEND, &lease->record, lease->right.start,
			  reserve(lease, now, lease->record.until));
	lease->client.ask.presence = lease->absent;
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

/*
 * ---- a registry that has lost data, or is another one (registry_age.h) ----
 *
 * It may give to others what this server holds, and the other way round.  So
 * the server claims, extends and releases nothing until an administrator has
 * recovered the registry; until then it only reads, again and again.  An
 * acknowledged right lasts until it expires, but not under another generation
 * that has lost its record, and whose floor is below its until: there another
 * server may begin earlier.  A recovery names another registry that it
 * succeeds by its last generation.
 */

/*
 * Return true if another server has claimed our slot since, or an
 * administrator has freed it.  If several claims are lost, their number does
 * not tell that, but the time does.  In doubt, stop.
 */
static bool
is_claimed_since(const SfLease *lease, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);

	return record != NULL && record->owner != lease->record.owner &&
		((registry->generation == lease->generation &&
		  record->epoch >= lease->record.epoch) ||
		 record->since_ms > lease->record.since_ms);
}

static void
report_loss(SfLease *lease, SfMoment now, const SfRegistry *registry,
			SfLoss loss)
{
	static const char *const problems[] = {
		[SF_LOSS_ALL] = "The registry is empty, and this server has leased from one: it has lost its data, or is another one.",
		[SF_LOSS_SOME] = "The registry has lost data: it is older than when this server last asked it.",
		[SF_LOSS_FLOOR] = "The registry has lost data: it would give away what it has confirmed to this server.",
		[SF_LOSS_OTHER] = "The registry is another one than that from which this server has leased."
	};
	SfFailure	failure = loss == SF_LOSS_OTHER || loss == SF_LOSS_ALL ?
		SF_FAILURE_ANOTHER : SF_FAILURE_LOST;
	char		remedy[SF_ADVICE_SIZE];

	sf_client_report(&lease->client, now, SF_LEASE_EVENT_BEHIND,
					 problems[loss], problems[loss],
					 print_remedy(lease, now, registry, failure, "", remedy));
}

/*
 * Check whether a reading is of another registry, or shows a loss of data.
 * Then do nothing but read again.  Stop using the right only if the registry
 * has since given the slot to another server, or another generation gives it
 * away below our until.
 */
static SfLoss
find_loss(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	SfLoss		loss = sf_age_take_reading(lease->config.age, registry);

	lease->loss = loss;
	if (loss == SF_LOSS_NONE)
		return SF_LOSS_NONE;
	lease->unsure = holds_slot(lease);
	if (lease->state == SF_LEASE_RELEASING)
		lease->state = SF_LEASE_ENDED;	/* the slot expires by itself */
	if (lease->state == SF_LEASE_HELD && loss >= SF_LOSS_FLOOR &&
		registry->floor < lease->right.until)
		fence(lease, now, "the registry is another one, which may give it to another server.");
	else if (lease->state == SF_LEASE_HELD &&
			 is_claimed_since(lease, registry))
		fence(lease, now, "the registry has lost data, and has given it to another server.");
	report_loss(lease, now, registry, loss);
	return loss;
}

/*
 * Remember an acknowledged write in the registry's age, and return the result
 * of the request.  If the registry has lost data, that is a conflict: do not
 * rely on the write, and read again.
 */
static SfResult
remember_write(SfLease *lease, const SfAnswer *answer)
{
	const SfAsk *ask = &lease->client.ask;
	SfSlotRecord record = ask->record;

	if (answer->result != SF_RESULT_DONE || ask->kind == SF_ASK_READ ||
		ask->kind == SF_ASK_KEEPALIVE)
		return answer->result;
	record.version = answer->version;

	/* false: of another generation, or of no later version */
	return sf_age_take_write(lease->config.age, ask->generation, &record,
							 answer->registry_version) ?
		SF_RESULT_DONE : SF_RESULT_CONFLICT;
}

/* ---- readings ---- */

/*
 * Return true if this server may use up its right, although the registry was
 * recovered, and does not extend it before the floor: no claim of our slot
 * begins below our until (find_loss()).  End a little before the right does,
 * since the end takes another reading.
 */
static bool
finish_right(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	const SfRight *right = &lease->right;
	char		floor[40];
	char		stay[SF_STAY_SIZE];
	char		remedy[SF_REMEDY_SIZE];

	if (lease->state != SF_LEASE_HELD ||
		strcmp(registry->layout, lease->layout) != 0 ||
		(right->until - get_tick(lease, now)) *
		lease->config.claimant.layout->tick_ms <= 2 * FINISH_MS)
		return false;
	snprintf(remedy, sizeof(remedy),
			 "%sIt leases a node id again at %s.",
			 advise_to_stay(lease, now, right->until < registry->floor ?
							right->until : registry->floor, "", stay),
			 print_tick(lease, registry->floor, floor, sizeof(floor)));
	sf_client_set_problem(&lease->client, now, "The registry was recovered, and extends no lease from before.",
						  remedy);
	lease->unsure = true;
	lease->client.retry_ms = now.monotonic_ms + FINISH_MS;
	return true;
}

/* Compare a reading with the slot that we hold. */
static void
check_held(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);
	int			i = sf_client_find_pending(&lease->client, record);

	/*
	 * An until that lies beyond the floor of a recovery was reserved while
	 * all clocks were ahead.  Where our record is still there, nobody has
	 * claimed the slot, and after the floor it counts as any other.
	 */
	if (registry->floor < lease->right.until &&
		registry->floor <= get_tick(lease, now) && record != NULL &&
		record->write_id == lease->record.write_id &&
		strcmp(registry->layout, lease->layout) == 0)
		lease->generation = registry->generation;
	if (!registry->initialized || registry->generation != lease->generation)
	{
		if (!finish_right(lease, now, registry))
			fence(lease, now, "the registry is not the one that it was.");
	}
	else if (record == NULL ||
			 (i < 0 && record->write_id != lease->record.write_id))
		fence(lease, now, "another server has claimed it, or is a copy of this server.");
	else
	{
		if (i >= 0)
			adopt(lease, record);
		lease->absent = record->present != record->owner;
		lease->unsure = false;
		if (record->released)
			end_returned(lease);
		else if (holds_slot(lease) &&
				 !sf_client_clock_is_good(&lease->client, now, true))
			sf_client_back_off(&lease->client, now);
	}
}

/*
 * Resolve an earlier claim of unknown outcome.  Return true if it was made.
 * Otherwise it still may be, or its record has changed.
 */
static bool
resolve_claim(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 lease->record.node);
	int			i = sf_client_find_pending(&lease->client, record);

	if (registry->generation != lease->generation ||
		(i < 0 && (record == NULL ? 0 : record->version) !=
		 lease->record.version))
		lease->client.npending = 0;
	else if (i >= 0)
	{
		lease->right.start = lease->client.pending[i].start;
		adopt(lease, record);
		lease->absent = record->present != record->owner;
		hold_slot(lease, now);
		return true;
	}
	return false;
}

/* Find a slot to claim, unless an earlier claim was made. */
static void
search(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	SfClaimant	claimant;
	SfSlotChoice claim;

	if (resolve_claim(lease, now, registry))
		return;

	/* with a new name for each claim, we differ from our copies */
	if (lease->client.npending == 0)
		lease->config.claimant.owner = lease->client.config.random() | 1;
	claimant = lease->config.claimant;
	if (lease->client.npending > 0)
		claimant.first_node = claimant.last_node = lease->record.node;

	lease->generation = registry->generation;
	if (!sf_client_clock_is_good(&lease->client, now, false))
	{
		sf_client_back_off(&lease->client, now);
		return;
	}
	sf_slot_choose(&claim, &claimant, registry, get_tick(lease, now),
				   lease->client.config.random);
	if (!claim.found)
	{
		int64_t		ahead = claim.at_tick - get_tick(lease, now);

		sf_client_report(&lease->client, now, SF_LEASE_EVENT_PROBLEM,
						 claim.problem, claim.public_problem[0] != '\0' ?
						 claim.public_problem : claim.problem, claim.remedy);
		sf_client_back_off(&lease->client, now);
		if (ahead < SF_LEASE_RETRY_MS / claimant.layout->tick_ms)
			lease->client.retry_ms = now.monotonic_ms + 1 +
				(ahead > 0 ? ahead * claimant.layout->tick_ms : 0);
		return;
	}
	lease->record = claim.record;
	ask_claim(lease, now, &claim);
}

/* ---- the next step ---- */

/*
 * Return when the right is to be extended, in Unix ms: after a third of the
 * reserve.
 */
int64_t
sf_lease_next_write_ms(const SfLease *lease)
{
	return sf_layout_after_epoch_ms(lease->config.claimant.layout,
									lease->right.until) -
		lease->config.reserve_ms * 2 / 3;
}

/*
 * Return in how many ms the right is to be extended; below 0, that is overdue.
 * At the end of the layout nothing can be extended: look again later.
 */
static int64_t
get_spare_ms(const SfLease *lease, SfMoment now)
{
	if (lease->right.until >= get_last_until(lease))
		return lease->config.reserve_ms / 3;
	return sf_lease_next_write_ms(lease) -
		sf_layout_after_epoch_ms(lease->config.claimant.layout,
								 get_tick(lease, now));
}

static void
decide_held(SfLease *lease, SfMoment now)
{
	const SfLeaseConfig *config = &lease->config;
	int64_t		spare = get_spare_ms(lease, now);

	if (lease->unsure)
		begin_request(lease, now, SF_ASK_READ);
	else if (now.monotonic_ms >= lease->keepalive_ms)
	{
		/* a failure of the keepalive must not prevent an extension */
		begin_request(lease, now, SF_ASK_KEEPALIVE);
		lease->keepalive_ms = now.monotonic_ms + config->keepalive_ms / 3;
	}
	else if (lease->state == SF_LEASE_HALTED || lease->absent || spare < 0)
	{
		/* within 5 s of the registry's clock, so that IDs sort */
		if (sf_client_clock_is_good(&lease->client, now, true))
			ask_extension(lease, now);
		else
			begin_request(lease, now, SF_ASK_READ); /* and back off */
	}
	else if (lease->client.config.peers_ms > 0 &&
			 now.monotonic_ms >= lease->client.peers_due_ms)
		begin_request(lease, now, SF_ASK_READ);
	else
	{
		lease->wake_ms = lease->keepalive_ms;
		if (lease->wake_ms > now.monotonic_ms + spare + 1)
			lease->wake_ms = now.monotonic_ms + spare + 1;
	}
}

/* Choose the next request, and the time of the next call. */
static void
choose_next(SfLease *lease, SfMoment now)
{
	int64_t		look = now.monotonic_ms + lease->config.look_ms;

	lease->wake_ms = lease->client.retry_ms;
	if (lease->state == SF_LEASE_ENDED)
	{
		lease->client.ask.kind = SF_ASK_NOTHING;
		lease->wake_ms = INT64_MAX;
		return;
	}
	if (lease->client.ask.kind == SF_ASK_NOTHING &&
		now.monotonic_ms >= lease->client.retry_ms)
	{
		if (holds_slot(lease))
			decide_held(lease, now);
		else if (lease->state == SF_LEASE_RELEASING && !lease->unsure)
			ask_release(lease, now);
		else
			begin_request(lease, now, SF_ASK_READ);
	}
	if (lease->client.ask.kind != SF_ASK_NOTHING)
		lease->wake_ms = lease->client.ask.deadline_ms;
	if (lease->wake_ms > look)
		lease->wake_ms = look;
}

/*
 * Return what has changed since the caller was told last.  A write_id names a
 * right with its until, since no two writes have the same.
 */
static int
tell_changes(SfLease *lease)
{
	uint64_t	write_id = lease->right.write_id;
	uint64_t	valid = lease->state == SF_LEASE_HELD ? write_id : 0;
	int			changes = 0;

	if (valid != lease->published)
		changes |= SF_CHANGED_RIGHT;
	if (write_id != lease->kept)
		changes |= SF_CHANGED_REMAINS;
	if (lease->client.ask.kind != SF_ASK_NOTHING &&
		lease->client.ask.number != lease->sent)
	{
		changes |= SF_CHANGED_ASK;
		lease->sent = lease->client.ask.number;
	}
	lease->published = valid;
	lease->kept = write_id;
	return changes;
}

/* The end of each call: choose what comes next, and return what changed. */
static int
decide(SfLease *lease, SfMoment now)
{
	log_expiry(lease, now);
	choose_next(lease, now);
	return tell_changes(lease);
}

/*
 * If this process was frozen, or the clock moved, forget the request in
 * flight: the machine of which this is a copy may have sent it.
 */
static void
handle_interruption(SfLease *lease, SfMoment now)
{
	if (!sf_client_look(&lease->client, now) ||
		lease->state == SF_LEASE_ENDED)
		return;
	abandon(lease);
	if (!holds_slot(lease))
		return;
	lease->state = SF_LEASE_HALTED;
	lease->unsure = true;
	lease->client.retry_ms = now.monotonic_ms;
	lease->client.config.log_event(SF_LEASE_EVENT_FROZEN, "The process was frozen, or the wall clock was set: nothing is issued before the registry has confirmed the lease.");
}

/* ---- entry points ---- */

int
sf_lease_init(SfLease *lease, const SfLeaseConfig *config,
			  const SfClientConfig *client, SfMoment now)
{
	memset(lease, 0, sizeof(SfLease));
	lease->config = *config;
	lease->client.config = *client;
	sf_layout_print(config->claimant.layout, lease->layout,
					sizeof(lease->layout));
	lease->client.looked = now;
	lease->client.retry_ms = now.monotonic_ms;
	return decide(lease, now);
}

/*
 * Go on with the lease of a process that has ended, as that process would
 * after a pause.  Its last request may be made or not, and what its last call
 * has changed may be published or not.
 */
int
sf_lease_resume(SfLease *lease, const SfLeaseConfig *config,
				const SfClientConfig *client, SfMoment now)
{
	SfClaimant	claimant = lease->config.claimant;

	/* records have its owner */
	claimant.server = config->claimant.server;
	lease->config = *config;
	lease->config.claimant = claimant;
	lease->client.config = *client;
	abandon(lease);
	lease->unsure = holds_slot(lease);
	lease->client.retry_ms = now.monotonic_ms;
	lease->published = SF_RIGHT_UNKNOWN;
	if (lease->right.write_id != 0)
		lease->kept = SF_RIGHT_UNKNOWN;
	return sf_lease_step(lease, now);
}

/* Handle the passing of time. */
int
sf_lease_step(SfLease *lease, SfMoment now)
{
	handle_interruption(lease, now);
	time_out(lease, now);
	return decide(lease, now);
}

static void
read_done(SfLease *lease, SfMoment now, const SfRegistry *registry)
{
	if (find_loss(lease, now, registry) != SF_LOSS_NONE)
		sf_client_back_off(&lease->client, now);
	else if (lease->state >= SF_LEASE_HALTED)
		check_held(lease, now, registry);
	else if (!registry_is_good(lease, now, registry))
		sf_client_back_off(&lease->client, now);
	else
		search(lease, now, registry);
}

static void
write_done(SfLease *lease, SfMoment now, const SfAsk *asked,
		   const SfAnswer *answer)
{
	SfSlotRecord record = asked->record;

	record.version = answer->version;

	/* the write that was answered is the last one added */
	lease->right.start =
		lease->client.pending[lease->client.npending - 1].start;
	adopt(lease, &record);
	lease->absent = false;
	if (asked->kind == SF_ASK_CLAIM)
		hold_slot(lease, now);
	else if (asked->kind == SF_ASK_RELEASE)
	{
		end_returned(lease);
		return;
	}
	else if (asked->presence)
		lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
	confirm(lease);
}

/* Handle a request that was carried out. */
static void
handle_success(SfLease *lease, SfMoment now, const SfAsk *asked,
			   const SfAnswer *answer)
{
	lease->client.ask.kind = SF_ASK_NOTHING;
	if (asked->kind == SF_ASK_READ)
		read_done(lease, now, answer->registry);
	else if (asked->kind != SF_ASK_KEEPALIVE)
		write_done(lease, now, asked, answer);
	else
	{
		lease->keepalive_ms = now.monotonic_ms + lease->config.keepalive_ms;
		if (lease->client.failed == SF_ASK_KEEPALIVE)
			sf_client_clear_problem(&lease->client);
	}
}

/* Handle a request that was refused, or whose outcome is unknown. */
static void
handle_failure(SfLease *lease, SfMoment now, SfAskKind kind,
			   const SfAnswer *answer)
{
	char		text[SF_REASON_SIZE];

	if (answer->result == SF_RESULT_REFUSED &&
		(kind == SF_ASK_CLAIM || kind == SF_ASK_EXTEND))
		lease->client.npending--;
	abandon(lease);
	snprintf(text, sizeof(text), "The registry answered: %.150s",
			 answer->message);
	report_failure(lease, now, kind, answer->failure, text);
}

/* Handle an answer of the registry. */
int
sf_lease_answer(SfLease *lease, SfMoment now, const SfAnswer *answer)
{
	SfAsk		asked = lease->client.ask;

	handle_interruption(lease, now);
	if (lease->client.ask.kind == SF_ASK_NOTHING ||
		answer->number != asked.number)
		return decide(lease, now);

	/* for sf_client_clock_is_good() and the log */
	sf_client_take_clock(&lease->client, now, answer);
	switch (remember_write(lease, answer))
	{
		case SF_RESULT_DONE:
			handle_success(lease, now, &asked, answer);
			break;
		case SF_RESULT_ABSENT:
			lease->client.ask.kind = SF_ASK_NOTHING;
			lease->absent = true;
			break;
		case SF_RESULT_CONFLICT:
			/* perhaps with an earlier write of ours: read before judging */
			abandon(lease);
			if (lease->state == SF_LEASE_SEARCHING ||
				lease->client.backoff_ms > 0)
				sf_client_back_off(&lease->client, now);
			else
				lease->client.backoff_ms = 1;
			break;
		case SF_RESULT_REFUSED:
		case SF_RESULT_UNKNOWN:
			handle_failure(lease, now, asked.kind, answer);
			break;
	}
	return decide(lease, now);
}

/*
 * Release the slot: the server stops, and no process issues any more.
 * last_issued is the last timestamp.  A slot that was not claimed yet, or
 * cannot be released in time, expires by itself.
 */
int
sf_lease_release(SfLease *lease, SfMoment now, int64_t last_issued)
{
	abandon(lease);
	lease->last_issued = last_issued;
	lease->state = holds_slot(lease) ?
		SF_LEASE_RELEASING : SF_LEASE_ENDED;
	lease->client.retry_ms = now.monotonic_ms;
	lease->client.backoff_ms = 0;
	return decide(lease, now);
}
