/*-------------------------------------------------------------------------
 *
 * made.c
 *	  What a transaction has made, for a library that wants to know it.
 *
 * The generator notes each ID but those that the usual path makes for the
 * node.  They are counted for the statistics anyway, and the session knows its
 * last ID.  If that has changed since the node's last note, it is the node's:
 * no other source comes between without a note.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/made.h"

#include "fmgr.h"
#include "runtime/counts.h"

SfMadeHook	sf_made_hook = NULL;
int64		sf_made_last_id;

/* What the running transaction has made, by source. */
static SfMade sources[SF_MADE_SOURCES];
static int	nsources = 0;
static bool more = false;		/* than that */

/* The node's entry, if it made the last ID; and the session's last ID then. */
static SfMade *node = NULL;
static int64 last_id_then;

/* Find the hook, when all libraries are loaded. */
void
sf_made_find_hook(void)
{
	sf_made_hook = (SfMadeHook) *find_rendezvous_variable(SF_MADE_HOOK);
}

static SfMade *
find(const SfMade *made)
{
	for (int i = 0; i < nsources; i++)
	{
		if (sources[i].slot == made->slot &&
			sources[i].shard == made->shard &&
			strcmp(sources[i].layout, made->layout) == 0)
			return &sources[i];
	}
	if (nsources == SF_MADE_SOURCES)
		return NULL;
	sources[nsources] = *made;
	sources[nsources].count = 0;
	return &sources[nsources++];
}

/* Complete the node's entry by the IDs of the usual path. */
static void
settle(void)
{
	if (node != NULL && sf_made_last_id != last_id_then)
		node->last = sf_made_last_id;
	node = NULL;
}

/* Note IDs, before the session learns them. */
void
sf_made_note(const SfMade *made)
{
	SfMade	   *source;

	settle();
	source = find(made);
	if (source == NULL)
	{
		more = true;
		return;
	}
	source->last = made->last;
	source->count += made->count;
	if (made->slot == 0 && made->shard == SF_NO_SHARD)
	{
		node = source;
		last_id_then = sf_made_last_id;
	}
}

/* Return how many IDs of snowflake.layout the transaction has made. */
static uint64
count_of_node(void)
{
	uint64		count = sf_stats_pending[SF_STAT_NODE_IDS];

	for (int i = 1; i < SF_MAX_LAYOUTS; i++)
		count -= sf_stats_layout_pending[i];
	return count;
}

/* Call the hook, before the counts are added up. */
void
sf_made_report(XactEvent event)
{
	if (nsources == 0)
		return;
	settle();
	for (int i = 0; i < nsources; i++)
	{
		if (sources[i].slot == 0 && sources[i].shard == SF_NO_SHARD)
			sources[i].count = count_of_node();
	}
	sf_made_hook(event, sources, nsources, more);
	nsources = 0;
	more = false;
}
