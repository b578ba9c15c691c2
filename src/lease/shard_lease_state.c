/*-------------------------------------------------------------------------
 *
 * shard_lease_state.c
 *	  State of the lease of shards: our line in the shard record, and the
 *	  right.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_lease.h"

#include <stdio.h>
#include <string.h>

/*
 * Continue from this line of the map, our last write.  The start also holds
 * for later writes that are based on it.
 */
void
sf_shard_lease_adopt(SfShardLease *shards, int line, uint64_t write_id,
					 int64_t start)
{
	SfLease    *lease = &shards->lease;

	/* the other pending writes required the replaced version: they failed */
	lease->npending = 0;
	lease->record.write_id = write_id;
	sf_shard_map_shards(&shards->map, line, shards->held);
	shards->right.start = start;
	if (lease->state == SF_LEASE_SEARCHING)
		lease->state = SF_LEASE_HELD;
}

/* Publish the line's right: the registry has acknowledged it. */
void
sf_shard_lease_confirm(SfShardLease *shards, int line)
{
	SfShardRight *right = &shards->right;

	right->valid = shards->lease.state == SF_LEASE_HELD;
	right->until = shards->map.line[line].until;
	right->write_id = shards->lease.record.write_id;
	if (shards->least_until < right->until)
		shards->least_until = right->until;
	memcpy(right->shards, shards->held, sizeof(SfShardSet));
	sf_ranges_restrict(right->shards, shards->wanted, shards->nshards);
}

/* Hold nothing: no line is ours. */
void
sf_shard_lease_hold_nothing(SfShardLease *shards)
{
	SfLease    *lease = &shards->lease;

	lease->record.write_id = 0;
	memset(shards->held, 0, sizeof(SfShardSet));
	memset(shards->right.shards, 0, sizeof(SfShardSet));
	shards->right.valid = false;
	shards->right.write_id = 0;
	lease->state = lease->state == SF_LEASE_RELEASING ?
		SF_LEASE_ENDED : SF_LEASE_SEARCHING;
}

/* Fence: the shards no longer belong to us, so issue for none of them. */
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
 * Find our line in a reading.  A pending write that is not in it may still be
 * made if it was requested for this version.
 */
void
sf_shard_lease_settle(SfShardLease *shards, SfMoment now, int64_t version)
{
	SfLease    *lease = &shards->lease;
	int			line = sf_shard_map_find(&shards->map,
										 lease->record.write_id);

	for (int i = lease->npending - 1; i >= 0; i--)
	{
		uint64_t	write_id = lease->pending[i].write_id;
		int			found = sf_shard_map_find(&shards->map, write_id);

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
			sf_shard_lease_fence(shards, now, "another server has claimed them, or is a copy of this server.");
		else
			sf_shard_lease_hold_nothing(shards);
		return;
	}

	/* others may have claimed expired shards since */
	sf_shard_map_shards(&shards->map, line, shards->held);
	if (!sf_ranges_exceed(shards->right.shards, shards->held,
						  shards->nshards))
		return;
	sf_ranges_restrict(shards->right.shards, shards->held, shards->nshards);
	lease->config.say(SF_LEASE_EVENT_LOST, "The lease of some of this server's shards is lost: another server has claimed them.");
}

/*
 * Issue no more for shards that another server has claimed in a registry which
 * has lost data: its line reaches beyond where we began.  A line of before our
 * claim may do so, too, where its holder gave back what it had reserved; when
 * in doubt, we stop.
 */
void
sf_shard_lease_lose_claimed(SfShardLease *shards,
							const SfRegistry *registry)
{
	const SfClaimant *claimant = &shards->lease.config.claimant;
	SfShardMap *map = &shards->map;
	SfShardSet	kept = {0};
	char		ours[SF_LAYOUT_TEXT_SIZE];
	char		reason[SF_REASON_SIZE];

	sf_layout_print(claimant->layout, ours, sizeof(ours));
	if (registry->shards_version == 0 ||
		!sf_shard_map_parse(map, registry->shards, reason, sizeof(reason)) ||
		strcmp(map->layout, ours) != 0)
		return;
	for (uint32_t i = 0; i < shards->nshards; i++)
	{
		const SfShardLine *line = map->line_of[i] == 0 ? NULL :
			&map->line[map->line_of[i] - 1];

		if (line == NULL || line->until <= shards->right.start ||
			(line->server == claimant->server && claimant->server != 0))
			sf_ranges_add(kept, i);
	}
	if (!sf_ranges_exceed(shards->right.shards, kept, shards->nshards))
		return;
	sf_ranges_restrict(shards->right.shards, kept, shards->nshards);
	shards->lease.config.say(SF_LEASE_EVENT_LOST, "The lease of some of this server's shards is lost: the registry has lost data, and has given them to another server.");
}

/* As sf_lease_result(): after a loss of data, nothing is acknowledged. */
SfResult
sf_shard_lease_result(const SfShardLease *shards, const SfAnswer *answer)
{
	const SfLease *lease = &shards->lease;
	const SfLayout *layout = lease->config.claimant.layout;
	int64_t		until_ms = 0;
	int			line;

	if (answer->result != SF_RESULT_DONE ||
		lease->ask.kind != SF_ASK_SHARDS)
		return answer->result;
	line = sf_shard_map_find(&shards->map,
							 lease->pending[lease->npending - 1].write_id);
	if (line >= 0)
		until_ms = (layout->epoch_tick + shards->map.line[line].until) *
			layout->tick_ms;
	return sf_age_write_shards(lease->config.age, lease->ask.generation,
							   answer->version, until_ms) ?
		SF_RESULT_DONE : SF_RESULT_CONFLICT;
}

/* Parse the record; if it is unusable, report a problem, return false. */
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
		sf_shard_map_init(&shards->map, layout);
	else if (!sf_shard_map_parse(&shards->map, registry->shards,
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
	{
		sf_age_read_shards(lease->config.age, registry->shards_version);
		return true;
	}
	snprintf(text, sizeof(text),
			 "The registry's shards have the layout \"%.80s\".",
			 shards->map.layout);
	sf_lease_set_problem(lease, now, text,
						 "Set snowflake.shard_layout to that, or use another registry.");
	return false;
}
