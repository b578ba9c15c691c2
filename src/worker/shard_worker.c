/*-------------------------------------------------------------------------
 *
 * shard_worker.c
 *	  The worker's part for shards: configures the state machine
 *	  (shard_lease.c), and publishes its result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "worker/lease_worker.h"

#include "base/clock.h"
#include "lease/shard_lease.h"
#include "miscadmin.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "utils/memutils.h"

static SfShardLease *shards;

/*
 * Log an event, unless the node's lease logs the same.  The end of a problem
 * is logged only if the problem was.
 */
static void
log_lease_event(SfLeaseEvent what, const char *text)
{
	static bool logged = false;
	bool		is_wrong = what == SF_LEASE_EVENT_LOST ||
		what == SF_LEASE_EVENT_EXPIRED ||
		what == SF_LEASE_EVENT_PROBLEM || what == SF_LEASE_EVENT_BEHIND;
	char		name[200];

	if (is_wrong && strcmp(text, sf_shmem->leasing.status.problem) == 0)
		return;
	if (what == SF_LEASE_EVENT_SOLVED && !logged)
		return;
	if (what == SF_LEASE_EVENT_PROBLEM || what == SF_LEASE_EVENT_SOLVED)
		logged = what == SF_LEASE_EVENT_PROBLEM;
	sf_settings_registry_name(name, sizeof(name));
	sf_log_event(what == SF_LEASE_EVENT_LEASED ? SF_EVENT_SHARDS_LEASED :
				 what == SF_LEASE_EVENT_LOST ? SF_EVENT_SHARDS_LOST :
				 what == SF_LEASE_EVENT_EXPIRED ? SF_EVENT_SHARDS_EXPIRED :
				 what == SF_LEASE_EVENT_BEHIND ? SF_EVENT_REGISTRY_LOST :
				 what == SF_LEASE_EVENT_SOLVED ? SF_EVENT_SHARDS_SOLVED :
				 SF_EVENT_SHARDS_PROBLEM, NULL,
				 is_wrong && shards->lease.remedy[0] != '\0' ?
				 shards->lease.remedy : NULL,
				 "shards from registry \"%s\": %s", name, text);
}

/* Initialize from the node's configuration.  Return our request. */
const SfAsk *
sf_shard_worker_init(const SfLeaseConfig *config, SfMoment now)
{
	SfLeaseConfig ours = *config;
	int64		highest;

	ours.claimant.layout = &sf_shard_layout;
	ours.warn_offset_ms = PG_INT64_MAX; /* the node's lease warns */
	ours.log_event = log_lease_event;
	sf_remains_file_load(SF_REMAINS_SHARDS, &ours.claimant);
	highest = (int64)
		pg_atomic_read_u64(&sf_shmem->leasing.highest_shard_end);
	if (highest > 0)
		highest -= sf_shard_layout.epoch_tick;
	if (pg_atomic_read_u64(&sf_shmem->shard_end) == 0)
		pg_atomic_write_u64(&sf_shmem->leasing.shards_since_ms,
							sf_clock_monotonic_ms());
	shards = MemoryContextAlloc(TopMemoryContext, sizeof(SfShardLease));
	sf_shard_lease_init(shards, &ours, &sf_node_layout, highest, now);
	return &shards->lease.ask;
}

/* Follow a reload: close the counters of shards that are no longer wanted. */
static void
follow_setting(SfMoment now)
{
	SfShardSet	wanted;
	size_t		words = SF_RANGES_WORDS(sf_shmem->nshards);

	for (size_t i = 0; i < words; i++)
		wanted[i] = pg_atomic_read_u32(&sf_shard_map[i]);
	if (memcmp(wanted, shards->wanted, words * sizeof(uint32)) == 0)
		return;
	pg_atomic_write_u64(&sf_shmem->leasing.shards_since_ms,
						sf_clock_monotonic_ms());
	sf_shard_lease_want(shards, now, wanted,
						sf_publish_close_shards_but(wanted));
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
	if (shards->right.valid && lease->loss == SF_LOSS_NONE)
		status.next_ms = (sf_shard_layout.epoch_tick + shards->right.until) *
			sf_shard_layout.tick_ms - lease->config.reserve_ms * 2 / 3;
	strlcpy(status.problem, lease->problem, sizeof(status.problem));
	strlcpy(status.public_problem, lease->public_problem,
			sizeof(status.public_problem));
	strlcpy(status.remedy, lease->remedy, sizeof(status.remedy));

	/* only this process writes it */
	if (memcmp(&status, &sf_shmem->leasing.shards_status,
			   sizeof(status)) == 0)
		return;
	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	sf_shmem->leasing.shards_status = status;
	LWLockRelease(sf_shmem->lock);
}

/* Do the next step.  The node's configuration may have changed. */
void
sf_shard_worker_step(const SfLeaseConfig *config, SfMoment now)
{
	SfLeaseConfig *ours = &shards->lease.config;

	ours->reserve_ms = config->reserve_ms;
	ours->timeout_ms = config->timeout_ms;
	ours->claimant.owner = config->claimant.owner;
	follow_setting(now);
	sf_shard_lease_step(shards, now);
}

void
sf_shard_worker_answered(const SfAnswer *answer)
{
	sf_shard_lease_answer(shards, sf_lease_worker_clocks(), answer);
}

const SfShardRight *
sf_shard_worker_right(void)
{
	return &shards->right;
}

/* Publish right and status to sessions. */
void
sf_shard_worker_publish(void)
{
	sf_publish_shards(&shards->right);
	report_status();
}

/* Give the shards back when the server stops; no session issues any more. */
void
sf_shard_worker_release(SfMoment now)
{
	SfShardSet	none = {0};

	pg_atomic_write_u64(&sf_shmem->shard_end, 0);
	sf_shard_lease_release(shards, now, sf_publish_close_shards_but(none));
}

bool
sf_shard_worker_have_ended(void)
{
	return shards->lease.state == SF_LEASE_ENDED;
}

int64
sf_shard_worker_wake_ms(void)
{
	return shards->lease.wake_ms;
}
