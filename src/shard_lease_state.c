/*-------------------------------------------------------------------------
 *
 * shard_lease_state.c
 *	  What shard_lease.c's steps find in the registry's record, and what that
 *	  does to the right.
 *
 *-------------------------------------------------------------------------
 */
#include "shard_lease.h"

#include <stdio.h>
#include <string.h>

/* This line of the map is what we have written last. */
void
sf_shard_lease_adopt(SfShardLease *shards, int line, uint64_t write_id,
					 int64_t start)
{
	SfLease    *lease = &shards->lease;
	SfShardRight *right = &shards->right;

	/* the other writes were conditional on what it has replaced */
	lease->npending = 0;
	lease->record.write_id = write_id;
	sf_shardmap_shards(&shards->map, line, shards->held);
	right->start = start;
	right->until = shards->map.line[line].until;
	if (shards->least_until < right->until)
		shards->least_until = right->until;
	memcpy(right->shards, shards->held, sizeof(SfShardSet));
	sf_ranges_restrict(right->shards, shards->wanted, shards->nshards);
	if (lease->state == SF_LEASE_SEARCHING)
	{
		lease->state = SF_LEASE_HELD;
		right->valid = !lease->halted;
	}
}

/* No line is ours. */
void
sf_shard_lease_hold_nothing(SfShardLease *shards)
{
	SfLease    *lease = &shards->lease;

	lease->record.write_id = 0;
	memset(shards->held, 0, sizeof(SfShardSet));
	memset(shards->right.shards, 0, sizeof(SfShardSet));
	shards->right.valid = false;
	lease->state = lease->state == SF_LEASE_RELEASING ?
		SF_LEASE_ENDED : SF_LEASE_SEARCHING;
}

/* The shards are not ours any more: issue for none of them. */
void
sf_shard_lease_fence(SfShardLease *shards, SfMoment now, const char *why)
{
	SfLease    *lease = &shards->lease;
	bool		had = sf_shard_lease_any(shards, shards->right.shards);
	char		text[SF_REASON_SIZE];

	sf_shard_lease_hold_nothing(shards);
	lease->npending = 0;
	lease->unsure = false;
	lease->halted = false;
	if (!had)
		return;
	snprintf(text, sizeof(text),
			 "The lease of this server's shards is lost: %s", why);
	sf_lease_lose(lease, now, text, "They will be claimed again.");
}

/*
 * Find ourselves in the map that was read.  Of writes that are not there,
 * those may still be made that were asked for on this version.
 */
void
sf_shard_lease_settle(SfShardLease *shards, SfMoment now, int64_t version)
{
	SfLease    *lease = &shards->lease;
	int			line = sf_shardmap_find(&shards->map,
										lease->record.write_id);

	for (int i = lease->npending - 1; i >= 0; i--)
	{
		uint64_t	write_id = lease->pending[i].write_id;
		int			found = sf_shardmap_find(&shards->map, write_id);

		if (found < 0)
			continue;
		line = found;
		sf_shard_lease_adopt(shards, line, write_id, lease->pending[i].start);
		break;
	}
	if (version != lease->record.version)
		lease->npending = 0;
	lease->record.version = version;
	lease->unsure = false;
	if (line < 0)
	{
		if (lease->state == SF_LEASE_HELD)
			sf_shard_lease_fence(shards, now, "somebody else has claimed them, or is a copy of this server.");
		else
			sf_shard_lease_hold_nothing(shards);
		return;
	}

	/* what had run out, others may have claimed since */
	sf_shardmap_shards(&shards->map, line, shards->held);
	if (!sf_ranges_exceed(shards->right.shards, shards->held,
						  shards->nshards))
		return;
	sf_ranges_restrict(shards->right.shards, shards->held, shards->nshards);
	lease->config.say(SF_SAID_LOST, "The lease of some of this server's shards is lost: somebody else has claimed them.");
}

/* False if it is not to be worked with; then that is a problem. */
bool
sf_shard_lease_read_map(SfShardLease *shards, SfMoment now,
						const SfRegistry *registry)
{
	SfLease    *lease = &shards->lease;
	const SfLayout *layout = lease->config.claimant.layout;
	char		ours[SF_LAYOUT_TEXT_SIZE];
	char		reason[SF_REASON_SIZE];
	char		text[SF_REASON_SIZE];

	if (registry->shards_version == 0)
		sf_shardmap_init(&shards->map, layout);
	else if (!sf_shardmap_parse(&shards->map, registry->shards,
								reason, sizeof(reason)))
	{
		snprintf(text, sizeof(text),
				 "The registry's record of shards cannot be read. %.120s",
				 reason);
		sf_lease_set_problem(lease, now, text,
							 "If no newer version of the extension has written it, it is damaged: recover the registry first, and then remove it.");
		return false;
	}
	sf_layout_print(layout, ours, sizeof(ours));
	if (strcmp(shards->map.layout, ours) == 0)
		return true;
	snprintf(text, sizeof(text),
			 "The registry's shards have the layout \"%.80s\".",
			 shards->map.layout);
	sf_lease_set_problem(lease, now, text,
						 "Set snowflake.shard_layout to that, or use another registry.");
	return false;
}
