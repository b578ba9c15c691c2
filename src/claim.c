/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Choose the slot to claim.
 *
 * A claim begins at what the record has as until, or above; so whoever chose
 * badly waits, and no more.  Best is the slot that this server has had before;
 * then one that was released, the longest ago; then one that was never used;
 * then one whose holder has gone and whose until has passed.
 *
 *-------------------------------------------------------------------------
 */
#include "claim.h"

#include <stdio.h>
#include <string.h>

/* The better, the smaller; what may not be claimed comes last. */
typedef enum Class
{
	HELD_BEFORE,
	RELEASED,
	NEVER_USED,
	EXPIRED,
	AHEAD,						/* begins too far in the future */
	TAKEN						/* somebody is there */
} Class;

/* The search so far. */
typedef struct Search
{
	const SfClaimant *claimant;
	const SfRegistry *registry;
	int64_t		now_tick;
	uint64_t	(*random) (void);

	Class		best;
	SfRecord	record;			/* of the best class, if it may be claimed */
	int64_t		start;
	uint64_t	as_good;		/* slots seen of that class */
	int64_t		soonest;		/* start of the first that is ahead */
	SfRecord	in_the_way;		/* a record that keeps us from its slot */
} Search;

/* Did the life before this write it last?  Then who is there is no more. */
static bool
is_left_over(const SfClaimant *claimant, const SfRecord *record)
{
	return claimant->last_write_id != 0 && record->version != 0 &&
		record->node == claimant->last_held &&
		record->write_id == claimant->last_write_id;
}

static int64_t
find_start(const SfClaimant *claimant, const SfRegistry *registry,
		   const SfRecord *record)
{
	int64_t		until = record->until;

	if (is_left_over(claimant, record) && claimant->last_until < until)
		until = claimant->last_until;
	return until > registry->floor ? until : registry->floor;
}

static Class
classify(const Search *search, const SfRecord *record, int64_t start)
{
	const SfClaimant *claimant = search->claimant;
	int64_t		max_ahead = claimant->max_ahead_ms / claimant->layout->tick_ms;

	if (record->present != 0 && record->present != claimant->owner &&
		!is_left_over(claimant, record))
		return TAKEN;
	if (start > search->now_tick + max_ahead)
		return AHEAD;
	if (record->version == 0)
		return NEVER_USED;
	if (record->server == claimant->server)
		return HELD_BEFORE;
	return record->released ? RELEASED : EXPIRED;
}

static void
look_at(Search *search, const SfRecord *record)
{
	int64_t		start = find_start(search->claimant, search->registry, record);
	Class		class = classify(search, record, start);

	if (class >= AHEAD)
		search->in_the_way = *record;
	if (class == AHEAD && start < search->soonest)
		search->soonest = start;
	if (class > search->best || class >= AHEAD)
		return;
	if (class < search->best)
		search->as_good = 0;
	search->as_good++;

	/* released the longest ago; of others any, each as likely */
	if (search->as_good == 1 ||
		(class == RELEASED ? record->until < search->record.until :
		 search->random() % search->as_good == 0))
	{
		search->record = *record;
		search->start = start;
	}
	search->best = class;
}

/* How many other slots this server keeps others from, and until when. */
static int
count_reservations(const Search *search, uint32_t but, int64_t *first_until)
{
	int			n = 0;

	*first_until = INT64_MAX;
	for (int i = 0; i < search->registry->nrecords; i++)
	{
		const SfRecord *record = &search->registry->records[i];

		if (record->server != search->claimant->server ||
			record->node == but || record->released ||
			record->until <= search->now_tick)
			continue;
		n++;
		if (record->until < *first_until)
			*first_until = record->until;
	}
	return n;
}

static void
print_tick(const SfLayout *layout, int64_t tick, char *text, size_t size)
{
	sf_epoch_print((layout->epoch_tick + tick) * layout->tick_ms, text, size);
}

/* Nothing can be claimed: say why. */
static void
explain(const Search *search, SfClaim *claim)
{
	const SfClaimant *claimant = search->claimant;
	const SfRecord *record = &search->in_the_way;
	char		time[40] = "";

	claim->at_tick = search->soonest;
	if (search->soonest != INT64_MAX)
	{
		claim->at_tick -= claimant->max_ahead_ms / claimant->layout->tick_ms;
		print_tick(claimant->layout, search->soonest, time, sizeof(time));
	}
	if (search->registry->floor >= search->soonest)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "After its recovery the registry lets nobody claim a slot before %s.",
				 time);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "One will be claimed then.");
	}
	else if (claimant->first_node < claimant->last_node)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 search->soonest == INT64_MAX ?
				 "All slots from %u to %u are taken." :
				 "All slots from %u to %u are taken, or reserved until %s and longer.",
				 claimant->first_node, claimant->last_node, time);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Stop a server that is not needed, or choose a layout that has room for more. snowflake_registry_slots() lists the holders.");
	}
	else if (search->soonest == INT64_MAX)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "Slot %u is held by \"%s\".", record->node, record->host);
		snprintf(claim->public_problem, sizeof(claim->public_problem),
				 "Slot %u is held by another server.", record->node);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Stop that server, or choose another snowflake.node_id, or unset it for any that is free.");
	}
	else
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "Slot %u is reserved until %s by \"%.60s\", which has gone.",
				 claimant->first_node, time, record->host);
		snprintf(claim->public_problem, sizeof(claim->public_problem),
				 "Slot %u is reserved until %s by a server that has gone.",
				 claimant->first_node, time);
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "It will be claimed then. Unset snowflake.node_id for any that is free.");
	}
}

/* The slot's record, or NULL if it has never been written. */
const SfRecord *
sf_claim_find(const SfRegistry *registry, uint32_t node)
{
	for (int i = 0; i < registry->nrecords; i++)
	{
		if (registry->records[i].node == node)
			return &registry->records[i];
	}
	return NULL;
}

void
sf_claim_choose(SfClaim *claim, const SfClaimant *claimant,
				const SfRegistry *registry, int64_t now_tick,
				uint64_t (*random) (void))
{
	Search		search = {
		.claimant = claimant, .registry = registry, .now_tick = now_tick,
		.random = random, .best = AHEAD, .soonest = INT64_MAX
	};
	int			i = 0;
	int64_t		first_until;
	char		time[40];

	memset(claim, 0, sizeof(SfClaim));
	claim->at_tick = INT64_MAX;
	for (int64_t node = claimant->first_node; node <= claimant->last_node;
		 node++)
	{
		SfRecord	never = {.node = (uint32_t) node};

		while (i < registry->nrecords && registry->records[i].node < node)
			i++;
		if (i < registry->nrecords && registry->records[i].node == node)
			look_at(&search, &registry->records[i]);
		else
			look_at(&search, &never);
	}
	if (search.best >= AHEAD)
	{
		explain(&search, claim);
		return;
	}
	if (count_reservations(&search, search.record.node, &first_until) >=
		SF_CLAIM_RESERVATIONS)
	{
		snprintf(claim->problem, sizeof(claim->problem),
				 "This server has left %d slots reserved, and may not take another.",
				 SF_CLAIM_RESERVATIONS);
		print_tick(claimant->layout, first_until, time, sizeof(time));
		snprintf(claim->remedy, sizeof(claim->remedy),
				 "Find out why it starts again and again. The first of them expires at %s.",
				 time);
		claim->at_tick = first_until;
		return;
	}
	claim->found = true;
	claim->record = search.record;
	claim->start = search.start;
}

/*
 * Is a clock that is so far ahead of the registry's what most of those who are
 * there have, too?  Then the registry's clock is the one that is wrong.
 */
bool
sf_claim_peers_agree(const SfRegistry *registry, uint64_t owner,
					 int64_t offset_ms, int64_t max_ms)
{
	int			agree = 0;
	int			disagree = 0;

	for (int i = 0; i < registry->nrecords; i++)
	{
		const SfRecord *record = &registry->records[i];
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

/*
 * Of those who are there, how many have a clock that is further than the limit
 * from one which is so far ahead of the registry's, give or take the slack:
 * behind it, less how many are ahead of it.
 */
int
sf_claim_peers_apart(const SfRegistry *registry, uint64_t owner,
					 int64_t offset_ms, int64_t slack_ms, int64_t limit_ms,
					 int *peers)
{
	int			apart = 0;

	*peers = 0;
	for (int i = 0; i < registry->nrecords; i++)
	{
		const SfRecord *record = &registry->records[i];

		if (record->present == 0 || record->present == owner)
			continue;
		(*peers)++;
		if (offset_ms - record->offset_ms - slack_ms > limit_ms)
			apart++;
		else if (record->offset_ms - offset_ms - slack_ms > limit_ms)
			apart--;
	}
	return apart;
}
