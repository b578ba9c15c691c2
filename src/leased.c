/*-------------------------------------------------------------------------
 *
 * leased.c
 *	  A leased node id and leased shards, as sessions see them: the wait for
 *	  one, the refusal, and what a change of the node means for who has made
 *	  IDs under another.
 *
 * The worker publishes node and until as one word.  What a session has read
 * there stays right however long it sleeps after it, since it is a right to a
 * range of timestamps; so for a while two sessions may issue under two nodes,
 * and both are in order.
 *
 * A shard may change hands while the server lives.  So that there is no right
 * to it can be said by its counter, too, which then is closed (shard.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "leased.h"

#include "catalog/pg_authid.h"
#include "clock.h"
#include "counter.h"
#include "miscadmin.h"
#include "settings.h"
#include "shard.h"
#include "stats.h"
#include "storage/proc.h"
#include "utils/acl.h"

/* Look again as often, for what nobody tells. */
#define LOOK_MS		1000

static uint32 wait_event_lease = 0;

/*
 * In new shared memory: who leases nothing may issue for its shards as long as
 * there are IDs; where they are leased, all are closed until the worker opens
 * them.
 */
void
sf_leased_close_shards(void)
{
	if (!sf_settings_leases())
		pg_atomic_write_u64(&sf_state->shard_end, sf_shard_layout.end_tick);
	else
	{
		for (int i = 0; i < sf_state->nshards; i++)
			(void) sf_shard_close(i);
	}
}

/* ---- what people are told ---- */

/*
 * May this role see the setting snowflake.registry, and what the registry's
 * client says, which names roles, hosts and paths of it?
 */
bool
sf_leased_may_see_registry(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* The registry, without what may be secret; for others, its scheme only. */
void
sf_leased_registry_name(char *name, size_t size)
{
	const SfRegistryKind *kind = sf_settings_registry_kind(sf_registry);

	if (kind == NULL || sf_leased_may_see_registry())
		sf_settings_registry_name(name, size);
	else
		snprintf(name, size, "%s://...", kind->scheme);
}

/*
 * Is the right to the node id over for the next ID?  Then a call waits for the
 * worker to extend it, and is refused.
 */
bool
sf_leased_has_expired(void)
{
	const SfLayout *layout = &sf_node_layout;
	int64		end_tick = layout->epoch_tick +
		(int64) (pg_atomic_read_u64(&sf_state->lease) >> layout->node_bits);
	int64		next_tick = (int64) ((sf_state_last_position() + 1) >>
									 layout->sequence_bits);

	return Max(next_tick, sf_layout_ms_to_tick(layout, sf_clock_wall_ms())) >=
		end_tick;
}

/* The same of the shards, by the clock alone. */
static bool
shards_have_expired(void)
{
	return sf_layout_ms_to_tick(&sf_shard_layout, sf_clock_wall_ms()) >=
		(int64) pg_atomic_read_u64(&sf_state->shard_end);
}

/*
 * What the worker says.  That a right has run out, it may be too late to say,
 * or gone.
 */
static void
read_status(const SfLeaseStatus *shared, bool has_expired,
			SfLeaseStatus *status)
{
	LWLockAcquire(sf_state->lock, LW_SHARED);
	*status = *shared;
	LWLockRelease(sf_state->lock);
	if (status->problem[0] != '\0' && !sf_leased_may_see_registry())
		strlcpy(status->problem, status->public_problem,
				sizeof(status->problem));
	if (status->stage == SF_STAGE_HELD && has_expired)
	{
		status->stage = SF_STAGE_EXPIRED;
		status->next_ms = 0;
	}
}

/*
 * What the worker says of the node id, as far as this role may be told: held,
 * if a call is answered now.
 */
void
sf_leased_status(SfLeaseStatus *status)
{
	read_status(&sf_state->leasing.status, sf_leased_has_expired(), status);
}

/* The same of the shards. */
void
sf_leased_shards_status(SfLeaseStatus *status)
{
	read_status(&sf_state->leasing.shards_status, shards_have_expired(),
				status);
}

/* There is no lease, of this shard or (-1) of a node id. */
static void
refuse(int shard)
{
	SfLeaseStatus status;
	char		name[200];

	sf_stats_count(SF_STAT_REFUSED_LEASE);
	if (shard < 0)
		sf_leased_status(&status);
	else
		sf_leased_shards_status(&status);
	sf_leased_registry_name(name, sizeof(name));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 shard < 0 ? errmsg("this server has no lease of a node id") :
			 errmsg("this server has no lease of shard %d", shard),
			 errdetail("The registry is \"%s\". %s", name,
					   status.problem[0] != '\0' ? status.problem :
					   status.stage == SF_STAGE_ENDED ? "The lease has been given back, since the server stops." :
					   shard < 0 ? "It has not answered yet." :
					   "It has not confirmed the lease yet."),
			 errhint("%s", status.remedy[0] != '\0' ? status.remedy :
					 shard < 0 ? "See the server's log, and snowflake_lease()." :
					 "See the server's log, and snowflake_shard_lease().")));
}

/* There is no lease of a node id: SQLSTATE 55000. */
void
sf_leased_refuse(void)
{
	refuse(-1);
}

/* The word in which a call finds its right, or 0. */
static uint64
read_right(int shard)
{
	return shard < 0 ? pg_atomic_read_u64(&sf_state->lease) :
		sf_shard_end(shard);
}

/* Since when there has been none for the one who has read this. */
static int64
missing_since_ms(int shard, uint64 lease, int64 now_ms)
{
	SfLeasing  *leasing = &sf_state->leasing;
	const SfLayout *layout = shard < 0 ? &sf_node_layout : &sf_shard_layout;
	int64		since_ms =
		(int64) pg_atomic_read_u64(shard < 0 ? &leasing->since_ms :
								   &leasing->shards_since_ms);
	int64		end_tick = (int64) lease;
	int64		past_ms;

	if (lease == 0)
		return since_ms == 0 ? now_ms : since_ms;
	if (shard < 0)
		end_tick = layout->epoch_tick + (int64) (lease >> layout->node_bits);
	past_ms = sf_clock_wall_ms() - end_tick * layout->tick_ms;
	return now_ms - Max(past_ms, 0);
}

/*
 * Wait until the word in which the caller has found no right is another one,
 * for snowflake.lease_wait from when there was no right at the most; then
 * throw SQLSTATE 55000.  It is that of a shard, or (-1) of the node id.
 * begun_ms is the call's own, and begins as 0.
 */
void
sf_leased_wait(int shard, uint64 lease, int64 *begun_ms)
{
	SfLeasing  *leasing = &sf_state->leasing;
	int64		now_ms = sf_clock_monotonic_ms();

	if (*begun_ms == 0)
		*begun_ms = missing_since_ms(shard, lease, now_ms);
	ConditionVariablePrepareToSleep(&leasing->changed);
	while (read_right(shard) == lease &&
		   (shard < 0 || sf_state_may_issue_for(shard)))
	{
		int64		left = *begun_ms + sf_leasing_wait -
			sf_clock_monotonic_ms();

		if (left <= 0)
		{
			ConditionVariableCancelSleep();
			refuse(shard);
		}
		(void) ConditionVariableTimedSleep(&leasing->changed,
										   Min(left, LOOK_MS),
										   sf_wait_event(&wait_event_lease,
														 "SnowflakeLease"));
	}
	ConditionVariableCancelSleep();
}

/* Nothing in the tick that the counter is in will be given away any more. */
static void
end_tick(void)
{
	pg_atomic_uint64 *counter = &sf_state->node_counter.position;

	sf_counter_raise(counter, pg_atomic_read_u64(counter) |
					 sf_node_layout.sequence_mask);
}

/*
 * This session will issue under this lease, and has under the old one.  Where
 * the node is another one, its next ID must be of a later tick than its last,
 * or it might not ascend.
 */
void
sf_leased_change(uint64 old, uint64 lease)
{

	if (old != 0 && sf_settings_node_of(old ^ lease) != 0)
		end_tick();
}

/* May there be IDs of other nodes at this position or after it? */
static bool
is_mixed(uint64 position)
{
	int64		tick = (int64) (position >> sf_node_layout.sequence_bits);
	uint64		until = pg_atomic_read_u64(&sf_state->leasing.other_until);

	return until != 0 && tick < sf_node_layout.epoch_tick + (int64) until;
}

/*
 * The node to compose a bound of IDs with, given the present one, or that it
 * has none now: no ID at this position, or after it, is of a lower one.
 */
uint32
sf_leased_lowest(uint64 position, bool unleased, uint32 node)
{
	uint32		lowest;
	uint32		last;

	pg_read_barrier();			/* the lease was read before these */
	lowest = pg_atomic_read_u32(&sf_state->leasing.lowest_node);
	last = pg_atomic_read_u32(&sf_state->leasing.node);
	if (unleased && last > 0)
		node = last - 1;
	if (!is_mixed(position) || lowest == 0)
		return node;
	return Min(node, lowest - 1);
}

/*
 * Before a bound is looked for: where it will be composed with a lower node
 * than the last ID has, that ID must be of an earlier tick, or it would not
 * come to lie below the bound while nobody makes another one.
 */
void
sf_leased_settle(void)
{
	pg_atomic_uint64 *counter = &sf_state->node_counter.position;
	uint64		position = pg_atomic_read_u64(counter);
	int64		now = sf_layout_ms_to_tick(&sf_node_layout,
										   sf_clock_wall_ms());

	if (is_mixed(position) &&
		(int64) (position >> sf_node_layout.sequence_bits) < now)
		end_tick();
}
