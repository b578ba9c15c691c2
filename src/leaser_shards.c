/*-------------------------------------------------------------------------
 *
 * leaser_shards.c
 *	  The worker leases this server's shards, too: what the state machine
 *	  (shard_lease.c) is told, and what sessions are told of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "leaser.h"

#include "clock.h"
#include "miscadmin.h"
#include "settings.h"
#include "shard_lease.h"
#include "state.h"
#include "tell.h"
#include "utils/memutils.h"

static SfShardLease *shards;

/* What is said of the node id as well is said there. */
static void
say(SfSaid what, const char *text)
{
	bool		is_wrong = what == SF_SAID_LOST || what == SF_SAID_EXPIRED ||
		what == SF_SAID_PROBLEM;
	char		name[200];

	if (is_wrong && strcmp(text, sf_state->leasing.status.problem) == 0)
		return;
	sf_settings_registry_name(name, sizeof(name));
	sf_tell(what == SF_SAID_LEASED ? SF_EVENT_SHARDS_LEASED :
			what == SF_SAID_LOST ? SF_EVENT_SHARDS_LOST :
			what == SF_SAID_EXPIRED ? SF_EVENT_SHARDS_EXPIRED :
			what == SF_SAID_SOLVED ? SF_EVENT_SHARDS_SOLVED :
			SF_EVENT_SHARDS_PROBLEM, NULL,
			is_wrong && shards->lease.remedy[0] != '\0' ?
			shards->lease.remedy : NULL,
			"shards from registry \"%s\": %s", name, text);
}

/* Given the configuration of the node's lease.  Returns what it will ask. */
const SfAsk *
sf_leaser_shards_init(const SfLeaseConfig *config, SfMoment now)
{
	SfLeaseConfig ours = *config;
	int64		highest;

	ours.claimant.layout = &sf_shard_layout;
	ours.warn_offset_ms = PG_INT64_MAX; /* the node's lease does */
	ours.say = say;
	highest = (int64)
		pg_atomic_read_u64(&sf_state->leasing.highest_shard_end);
	if (highest > 0)
		highest -= sf_shard_layout.epoch_tick;
	if (pg_atomic_read_u64(&sf_state->shard_end) == 0)
		pg_atomic_write_u64(&sf_state->leasing.shards_since_ms,
							sf_clock_monotonic_ms());
	shards = MemoryContextAlloc(TopMemoryContext, sizeof(SfShardLease));
	sf_shard_lease_init(shards, &ours, &sf_node_layout, highest, now);
	return &shards->lease.ask;
}

/* A reload may have changed what is wanted.  Let nobody issue for the rest. */
static void
follow_setting(SfMoment now)
{
	SfShardSet	wanted;
	size_t		words = SF_RANGES_WORDS(sf_state->nshards);

	for (size_t i = 0; i < words; i++)
		wanted[i] = pg_atomic_read_u32(&sf_shard_map[i]);
	if (memcmp(wanted, shards->wanted, words * sizeof(uint32)) == 0)
		return;
	pg_atomic_write_u64(&sf_state->leasing.shards_since_ms,
						sf_clock_monotonic_ms());
	sf_shard_lease_want(shards, now, wanted,
						sf_leaser_close_shards_but(wanted));
}

static void
report_status(void)
{
	const SfLease *lease = &shards->lease;
	SfLeaseStatus status;

	memset(&status, 0, sizeof(status));
	status.pid = MyProcPid;
	status.stage = lease->state == SF_LEASE_ENDED ? SF_STAGE_ENDED :
		!sf_shard_lease_is_whole(shards) ? SF_STAGE_SEARCHING :
		lease->state == SF_LEASE_HELD && !shards->right.valid ?
		SF_STAGE_HALTED : SF_STAGE_HELD;
	if (shards->right.valid)
		status.next_ms = (sf_shard_layout.epoch_tick + shards->right.until) *
			sf_shard_layout.tick_ms - lease->config.reserve_ms * 2 / 3;
	strlcpy(status.problem, lease->problem, sizeof(status.problem));
	strlcpy(status.public_problem, lease->public_problem,
			sizeof(status.public_problem));
	strlcpy(status.remedy, lease->remedy, sizeof(status.remedy));

	/* nobody else writes it */
	if (memcmp(&status, &sf_state->leasing.shards_status,
			   sizeof(status)) == 0)
		return;
	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	sf_state->leasing.shards_status = status;
	LWLockRelease(sf_state->lock);
}

/* Time has passed.  Of the node's lease the configuration may have changed. */
void
sf_leaser_shards_step(const SfLeaseConfig *config, SfMoment now)
{
	SfLeaseConfig *ours = &shards->lease.config;

	ours->reserve_ms = config->reserve_ms;
	ours->timeout_ms = config->timeout_ms;
	ours->claimant.owner = config->claimant.owner;
	follow_setting(now);
	sf_shard_lease_step(shards, now);
}

void
sf_leaser_shards_answered(const SfAnswer *answer)
{
	sf_shard_lease_answer(shards, sf_leaser_clocks(), answer);
}

/* Tell sessions. */
void
sf_leaser_shards_publish(void)
{
	sf_leaser_publish_shards(&shards->right);
	report_status();
}

/* The server stops: give the shards back.  Nobody issues any more. */
void
sf_leaser_shards_release(SfMoment now)
{
	SfShardSet	none = {0};

	pg_atomic_write_u64(&sf_state->shard_end, 0);
	sf_shard_lease_release(shards, now, sf_leaser_close_shards_but(none));
}

bool
sf_leaser_shards_have_ended(void)
{
	return shards->lease.state == SF_LEASE_ENDED;
}

int64
sf_leaser_shards_wake_ms(void)
{
	return shards->lease.wake_ms;
}
