/*-------------------------------------------------------------------------
 *
 * slot_choice.c
 *	  Choice of the slot to claim.
 *
 * A claim begins at the until of the slot's record or above.  So a bad choice
 * only makes the server wait.  The best slot is the one that this server has
 * had before; then the one released the longest ago; then one that was never
 * used; then one whose holder has gone and whose until has passed.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/slot_choice.h"

#include <stdio.h>
#include <string.h>

/* Classes of slots, best first.  The last two may not be claimed. */
typedef enum Class
{
	HELD_BEFORE,
	RELEASED,
	NEVER_USED,
	EXPIRED,
	AHEAD,						/* would begin too far in the future */
	TAKEN						/* another owner is present */
} Class;

/* State of the search. */
typedef struct Search
{
	const SfClaimant *claimant;
	const SfRegistry *registry;
	int64_t		now_tick;
	uint64_t	seed;			/* of draw(); not 0 */

	Class		best;
	SfSlotRecord record;		/* best slot so far, if one may be claimed */
	int64_t		start;
	uint64_t	as_good;		/* number of slots of that class so far */
	int			free;			/* number of slots that may be claimed */
	int64_t		soonest;		/* earliest start of the class AHEAD */
} Search;

/* Return true if this server's previous life wrote this record last. */
static bool
is_left_over(const SfClaimant *claimant, const SfSlotRecord *record)
{
	return claimant->last_write_id != 0 && record->version != 0 &&
		record->node == claimant->last_held &&
		record->write_id == claimant->last_write_id;
}

static int64_t
find_start(const SfClaimant *claimant, const SfRegistry *registry,
		   const SfSlotRecord *record)
{
	int64_t		until = record->until;

	if (is_left_over(claimant, record) && claimant->last_until < until)
		until = claimant->last_until;
	return until > registry->floor ? until : registry->floor;
}

/*
 * Return how many ticks ahead a claim may begin: the time's, rounded up, and
 * one more, which a resumed lease needs.
 */
static int64_t
get_max_ahead(const SfClaimant *claimant)
{
	return claimant->max_ahead_ms / claimant->layout->tick_ms + 2;
}

static Class
classify(const Search *search, const SfSlotRecord *record, int64_t start)
{
	const SfClaimant *claimant = search->claimant;

	if (record->present != 0 && record->present != claimant->owner &&
		!is_left_over(claimant, record))
		return TAKEN;
	if (start > search->now_tick + get_max_ahead(claimant))
		return AHEAD;
	if (record->version == 0)
		return NEVER_USED;
	if (record->server == claimant->server)
		return HELD_BEFORE;
	return record->released ? RELEASED : EXPIRED;
}

/*
 * Return the next number of a sequence that begins at random (xorshift64,
 * https://doi.org/10.18637/jss.v008.i14).  A good random number for each of
 * the slots, of which there may be millions, would take seconds.
 */
static uint64_t
draw(Search *search)
{
	search->seed ^= search->seed << 13;
	search->seed ^= search->seed >> 7;
	search->seed ^= search->seed << 17;
	return search->seed;
}

static void
consider(Search *search, const SfSlotRecord *record)
{
	int64_t		start = find_start(search->claimant, search->registry, record);
	Class		class = classify(search, record, start);

	if (class == AHEAD && start < search->soonest)
		search->soonest = start;
	if (class < AHEAD)
		search->free++;
	if (class > search->best || class >= AHEAD)
		return;
	if (class < search->best)
		search->as_good = 0;
	search->as_good++;

	/*
	 * Of those released, or held before, the one that is free the longest: a
	 * claim may begin ahead of now.  Of other classes, a random one.
	 */
	if (search->as_good == 1 ||
		(class <= RELEASED ? record->until < search->record.until :
		 draw(search) % search->as_good == 0))
	{
		search->record = *record;
		search->start = start;
	}
	search->best = class;
}

/*
 * Count the slots of the claimant's range that this server's crashes have left
 * reserved, but for the one to claim, and find the one that is free first.
 * One that an administrator has freed is still reserved, but lets the server
 * take another.
 */
static int
count_reservations(const Search *search, const SfSlotRecord **first)
{
	int			n = 0;

	*first = NULL;
	for (int i = 0; i < search->registry->nrecords; i++)
	{
		const SfSlotRecord *record = &search->registry->records[i];

		if (record->server != search->claimant->server ||
			record->node == search->record.node ||
			record->node < search->claimant->first_node ||
			record->node > search->claimant->last_node ||
			record->until <= search->now_tick)
			continue;
		if (record->released)
		{
			n--;
			continue;
		}
		n++;
		if (*first == NULL || record->until < (*first)->until)
			*first = record;
	}
	return n;
}

static void
print_tick(const SfLayout *layout, int64_t tick, char *text, size_t size)
{
	sf_epoch_print(sf_layout_after_epoch_ms(layout, tick), text, size);
}

/* Say what has to come before a line in the file counts. */
static const char *
say_reset(const SfClaimant *claimant)
{
	return claimant->is_altered ?
		"run ALTER SYSTEM RESET snowflake.node_id; and " : "";
}

static void
wait_for_slot(SfSlotChoice *claim, const SfClaimant *claimant,
			  const char *time)
{
	snprintf(claim->remedy, sizeof(claim->remedy),
			 "This server will claim it %s. For any free number, as in a clone of a server that runs, %sset snowflake.node_id = '' here, and restart this server.",
			 time, say_reset(claimant));
}

/*
 * Explain that another server is present in the only slot that will do.  In a
 * copy of a server, that is often the original, which must go on.
 */
static void
explain_holder(const SfClaimant *claimant, const SfSlotRecord *holder,
			   SfSlotChoice *claim)
{
	bool		is_ours = holder->server == claimant->server;

	snprintf(claim->public_problem, sizeof(claim->public_problem),
			 is_ours ?
			 "Slot %u is still held by the last run of this server." :
			 "Slot %u is held by another server.", holder->node);
	snprintf(claim->problem, sizeof(claim->problem),
			 is_ours ?
			 "Slot %u is still held by the last run of this server, \"%s\"." :
			 "Slot %u is held by another server, \"%s\".",
			 holder->node, holder->host);
	if (is_ours)
		wait_for_slot(claim, claimant, "when snowflake.lease_presence is over, and then its reservation");
	else
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Leave that one running. For any free number, %sset snowflake.node_id = '' here, and restart this server. Only if this server replaces that one for good, stop that one.",
				 say_reset(claimant));
}

/* Explain why no slot can be claimed. */
static void
explain(const Search *search, SfSlotChoice *claim)
{
	const SfClaimant *claimant = search->claimant;
	char		time[40] = "";

	claim->at_tick = search->soonest;
	if (search->soonest != INT64_MAX)
	{
		claim->at_tick -= get_max_ahead(claimant);
		print_tick(claimant->layout, search->soonest, time, sizeof(time));
	}
	if (search->registry->floor >= search->soonest)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "After its recovery the registry lets no server claim a slot before %s.",
				 time);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "This server will claim one then.");
	}
	else if (claimant->first_node < claimant->last_node)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 search->soonest == INT64_MAX ?
				 "All slots from %u to %u are taken." :
				 "All slots from %u to %u are taken, or reserved until %s and longer.",
				 claimant->first_node, claimant->last_node, time);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Stop a server that is not needed: its slot is free at once. If one is gone for good, which SELECT * FROM @extschema@.snowflake_registry_slots(); lists, run here: SELECT @extschema@.snowflake_registry_release(SLOT::bigint); Its slot is free at the time in the column \"until\".");
	}
	else if (search->soonest == INT64_MAX)
		explain_holder(claimant, sf_slot_record_find(search->registry,
													 claimant->first_node),
					   claim);
	else
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "Slot %u is reserved until %s by a server that has gone.",
				 claimant->first_node, time);
		wait_for_slot(claim, claimant, "then");
	}
}

/* Return the slot's record, or NULL if it was never written. */
const SfSlotRecord *
sf_slot_record_find(const SfRegistry *registry, uint32_t node)
{
	for (int i = 0; i < registry->nrecords; i++)
	{
		if (registry->records[i].node == node)
			return &registry->records[i];
	}
	return NULL;
}

void
sf_slot_choose(SfSlotChoice *claim, const SfClaimant *claimant,
			   const SfRegistry *registry, int64_t now_tick,
			   uint64_t (*random) (void))
{
	Search		search = {
		.claimant = claimant, .registry = registry, .now_tick = now_tick,
		.seed = random() | 1, .best = AHEAD, .soonest = INT64_MAX
	};
	int			i = 0;
	const SfSlotRecord *first;
	int			reserved;
	char		time[40];

	memset(claim, 0, sizeof(SfSlotChoice));
	claim->at_tick = INT64_MAX;
	for (int64_t node = claimant->first_node; node <= claimant->last_node;
		 node++)
	{
		SfSlotRecord never = {.node = (uint32_t) node};

		while (i < registry->nrecords && registry->records[i].node < node)
			i++;
		if (i < registry->nrecords && registry->records[i].node == node)
			consider(&search, &registry->records[i]);
		else
			consider(&search, &never);
	}
	if (search.best >= AHEAD)
	{
		explain(&search, claim);
		return;
	}
	reserved = count_reservations(&search, &first);
	if (reserved >= SF_CLAIM_RESERVATIONS && reserved >= search.free)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "This server has left %d slots reserved, and only %d are free.",
				 reserved, search.free);
		print_tick(claimant->layout, first->until, time, sizeof(time));
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Find out why this server starts again and again. It leases again at %s. To let it take another slot before, run here: SELECT @extschema@.snowflake_registry_release(%u::bigint);",
				 time, first->node);
		claim->at_tick = first->until;
		return;
	}
	claim->found = true;
	claim->record = search.record;
	claim->start = search.start;
}

/*
 * Return true if most present owners have a clock that is as far ahead of the
 * registry's as offset_ms.  Then the registry's clock is wrong.
 */
bool
sf_peers_agree(const SfRegistry *registry, uint64_t owner,
			   int64_t offset_ms, int64_t max_ms)
{
	int			agree = 0;
	int			disagree = 0;

	for (int i = 0; i < registry->nrecords; i++)
	{
		const SfSlotRecord *record = &registry->records[i];
		int64_t		apart = record->offset_ms - offset_ms;

		if (record->present == 0 || record->present == owner)
			continue;
		if (apart <= max_ms && apart >= -max_ms)
			agree++;
		else
			disagree++;
	}
	return agree > disagree;
}
