/*-------------------------------------------------------------------------
 *
 * status_server.c
 *	  Checks of snowflake_status() about the server: its node id and lease, its
 *	  clock, its mark, and its counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"
#include "admin/status_lock.sql.inc"

#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "layout/ranges.h"
#include "lib/stringinfo.h"
#include "mark/mark.h"
#include "runtime/counts.h"
#include "runtime/preconditions.h"
#include "runtime/shmem.h"
#include "runtime/settings.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#define OFFSET_WARNS_MS		200
#define CAPACITY_WARNS		0.01	/* of the time */
#define DATABASES_WARN		0.8 /* of snowflake.max_databases */

#define STOP_STEPS \
	"See what sets the clock of this machine, such as a suspended virtual machine or an ntpdate job, and let chrony or ntpd slew the clock instead."

/* ---- the node id ---- */

/* Return how to keep the number that is in force, and not in the files. */
static char *
keep_remedy(SfApply apply)
{
	SfSettingLine line = {
		"snowflake.node_id", sf_settings_print_numbers(sf_settings_numbers())
	};

	return psprintf("To keep the old one, %s",
					sf_settings_step(&line, 1, apply));
}

/*
 * Return the remedy for a number that waits for a restart, or is to be unset
 * by one.  A restart reads the files again, so say what they must say then.
 */
static char *
pending_remedy(const char *pending)
{
	bool		is_altered;
	char	   *keep;

	(void) sf_settings_read_file("snowflake.node_id", &is_altered);
	keep = keep_remedy(*pending == '\0' && !is_altered ?
					   SF_APPLY_RELOAD : SF_APPLY_RESET);
	if (*pending != '\0')
		return psprintf("To take the number %s, leave it in the files, and restart the server. %s",
						pending, keep);
	return psprintf("After a restart this server %s. %s",
					sf_settings_leases() ? "leases any free number" :
					"makes no IDs", keep);
}

/*
 * Report a number that is refused in the files, or waits there for a restart;
 * or else, that all is well.
 */
static void
put_settled_node(SfStatus *status, uint32 node, const char *found)
{
	char	   *pending = sf_settings_pending();
	char	   *refused = sf_settings_refused();

	if (refused != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u; in the configuration files %s", node,
							   refused),
					  keep_remedy(SF_APPLY_RESET));
	else if (pending != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u; in the configuration files snowflake.node_id is %s, which waits for a restart",
							   node, *pending == '\0' ? "unset" : pending),
					  pending_remedy(pending));
	else
		sf_status_ok(status, found);
}

/* ALTER SYSTEM may have set what is in the files. */
static char *
registry_remedy(bool is_there, const char *more)
{
	return psprintf("Put snowflake.registry back into %s, and run: %sSELECT pg_catalog.pg_reload_conf();%s",
					sf_settings_file(),
					is_there ? "ALTER SYSTEM RESET snowflake.registry; " : "",
					more);
}

/* Report that a restart loses the registry, or changes it. */
static void
put_pending_registry(SfStatus *status, uint32 node)
{
	const char *value = sf_settings_read_file("snowflake.registry", NULL);

	if (value != NULL && value[0] != '\0')
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is leased; the configuration files name another registry, which waits for a restart",
							   node),
					  registry_remedy(true, " If the other one is another registry, this server makes no IDs after a restart, before you do what the check \"lease\" then says."));
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is leased; snowflake.registry is %s the configuration files: after a restart, calls are refused",
							   node, value == NULL ? "gone from" : "empty in"),
					  registry_remedy(value != NULL, ""));
}

/* Report, and return true, if a restart will replace the number by a lease. */
static bool
put_future_lease(SfStatus *status, uint32 node)
{
	SfSettingLine line = {"snowflake.registry", ""};
	bool		is_altered;
	const char *value;

	if (!sf_settings_awaits_restart("snowflake.registry"))
		return false;
	value = sf_settings_read_file("snowflake.registry", &is_altered);
	if (value == NULL || value[0] == '\0')
		return false;
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf("%u is configured; the configuration files name a registry, from which this server leases a node id after a restart",
						   node),
				  psprintf("To lease node ids, restart the server. To keep the number, %s",
						   is_altered ?
						   "run: ALTER SYSTEM RESET snowflake.registry; SELECT pg_catalog.pg_reload_conf();" :
						   sf_settings_step(&line, 1, SF_APPLY_RELOAD)));
	return true;
}

/* Report the node of a standby after its promotion. */
static void
put_standby_node(SfStatus *status, uint64 lease)
{
	uint32		node = sf_settings_node_of(lease);
	uint32		last;
	char		reason[SF_REASON_SIZE] = "";

	if (sf_settings_leases())
		sf_status_ok(status, "a standby makes no IDs; once it is promoted, it leases a node id");
	else if (lease == 0 && !sf_node_find(&node, &last, reason, sizeof(reason)))
	{
		if (reason[0] == '\0' && sf_settings_has_shards())
			sf_status_ok(status, "a standby makes no IDs; once it is promoted, it makes those of shards only, since no number is configured");
		else
			sf_status_put(status, SF_STATUS_WARNING,
						  psprintf("once this standby is promoted, calls are refused: %s",
								   reason[0] != '\0' ? reason :
								   "snowflake.node_id is not set"),
						  sf_node_remedy());
	}
	else if (sf_node_layout.node_bits == 0)
		sf_status_ok(status, "the layout has no field for one");
	else if (sf_identity_primary() == sf_server_number_of(node))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("once this standby is promoted, it issues as %u, which a server that it was copied from has, too",
							   node),
					  sf_node_change_remedy());
	else
		put_settled_node(status, node,
						 psprintf("a standby makes no IDs; once it is promoted, it issues as %u",
								  node));
}

/* Report a configured node that is not published yet, or wrong; or none. */
static void
put_untaken_node(SfStatus *status)
{
	uint32		first;
	uint32		last;
	char		reason[SF_REASON_SIZE];
	char	   *refused = sf_settings_refused();

	if (sf_node_find(&first, &last, reason, sizeof(reason)))
		put_settled_node(status, first,
						 psprintf("%u is configured; the first call takes it",
								  first));
	else if (reason[0] == '\0' && refused != NULL)
		sf_status_put(status, sf_settings_has_shards() ?
					  SF_STATUS_WARNING : SF_STATUS_ERROR,
					  psprintf("snowflake.node_id is not set; in the configuration files %s",
							   refused),
					  sf_node_change_remedy());
	else if (reason[0] == '\0' && sf_settings_has_shards())
		sf_status_ok(status, "none is configured: this server makes IDs for shards only");
	else
		sf_status_put(status, SF_STATUS_ERROR,
					  reason[0] != '\0' ? reason :
					  "snowflake.node_id is not set",
					  sf_node_remedy());
}

/* Report a configured node that this server has taken. */
static void
put_configured_node(SfStatus *status, uint32 node)
{
	SfServerNumber before = sf_shmem->identity.original;
	SfServerNumber primary = sf_identity_primary();
	bool		changed = before != SF_NO_NUMBER &&
		before != sf_server_number_of(node) && primary == SF_NO_NUMBER;

	if (primary == sf_server_number_of(node) && sf_identity_runs_twice())
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%u is configured, and a server that this one was copied from, which was seen running, has it, too",
							   node),
					  sf_identity_promoted_remedy());
	else if (sf_identity_refuses_node())
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%u is configured, and IDs of it are refused: see \"copied data directory\"",
							   node),
					  sf_identity_copy_remedy());
	else if (primary == sf_server_number_of(node))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is configured, and a server that this one was copied from had it, too",
							   node),
					  sf_identity_promoted_remedy());
	else if (!put_future_lease(status, node))
		put_settled_node(status, node, changed ?
						 psprintf("%u is configured; before it was %u",
								  node, sf_server_number_value(before)) :
						 psprintf("%u is configured", node));
}

/* Report a node that is leased, or was until a moment ago. */
static void
put_leased_node(SfStatus *status, uint32 node)
{
	char		name[200];

	sf_lease_wait_registry_name(name, sizeof(name));
	if (sf_lease_wait_has_expired())
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("the lease of %u from \"%s\" has expired: calls are refused",
							   node, name),
					  SF_SEE_LEASE);
	else if (sf_settings_awaits_restart("snowflake.registry"))
		put_pending_registry(status, node);
	else
		put_settled_node(status, node,
						 psprintf("%u is leased from \"%s\"", node, name));
}

/* Report that no leased node may be used now. */
static void
put_unleased_node(SfStatus *status)
{
	char		name[200];
	SfLeaseStatus worker;

	sf_lease_wait_registry_name(name, sizeof(name));
	sf_lease_wait_status(&worker);
	sf_status_put(status, SF_STATUS_ERROR,
				  psprintf(worker.stage == SF_STAGE_HALTED ?
						   "one is leased from \"%s\", but cannot be used at present" :
						   "none is leased from \"%s\"", name),
				  SF_SEE_LEASE);
}

/* Report which node id this server issues as, or why it issues as none. */
void
sf_status_node(SfStatus *status)
{
	uint64		lease = sf_shmem_right();
	uint32		node = sf_settings_node_of(lease);

	/* for the rows of the shards and of the copy, too */
	status->waits = !sf_identity_look();
	if (RecoveryInProgress())
		put_standby_node(status, lease);
	else if (lease == 0 && sf_settings_leases())
		put_unleased_node(status);
	else if (lease == 0)
		put_untaken_node(status);
	else if (sf_node_layout.node_bits == 0)
		sf_status_ok(status, "the layout has no field for one");
	else if (sf_settings_leases())
		put_leased_node(status, node);
	else
		put_configured_node(status, node);
}

/* ---- its lease ---- */

/* Return the worker's remedy, or what to do if the worker says nothing. */
static const char *
worker_remedy(const SfLeaseStatus *worker)
{
	if (worker->remedy[0] != '\0')
		return worker->remedy;
	if (worker->pid == 0)
		return "See the server's log for the background worker \"snowflake lease\". If the log says \"too many background workers\", increase max_worker_processes, and restart the server.";
	return psprintf("See the server's log. If it says nothing, run on this machine: ps -o pid,state,cmd %d; If the state of that process is T, somebody has stopped it: kill -CONT %d;",
					worker->pid, worker->pid);
}

/* Report the lease, and what the worker says of it. */
void
sf_status_lease(SfStatus *status)
{
	static const char *const stages[] = {
		"the background worker that extends it is not running", "searching", "held",
		"expired, so that calls are refused",
		"held, but cannot be used at present", "given back, since the server stops"
	};
	uint64		lease = sf_shmem_right();
	int64		until_ms = lease == 0 ? 0 :
		sf_settings_end_tick_of(lease) * sf_node_layout.tick_ms;
	SfLeaseStatus worker;
	bool		is_held;
	bool		is_late;
	StringInfoData found;

	if (!sf_settings_leases())
	{
		sf_status_ok(status, "snowflake.registry is not set");
		return;
	}
	sf_lease_wait_status(&worker);
	is_held = worker.stage == SF_STAGE_HELD;
	is_late = worker.next_ms != 0 &&
		worker.next_ms + sf_lease_timeout < sf_clock_wall_ms();
	initStringInfo(&found);
	appendStringInfoString(&found, stages[worker.stage]);
	if (until_ms != 0)
		appendStringInfo(&found, "%s until %s",
						 worker.stage == SF_STAGE_EXPIRED ? ": it lasted" : "",
						 sf_timefmt_show(until_ms));
	if (is_held && worker.next_ms != 0)
		appendStringInfo(&found, ", %s at %s",
						 worker.next_ms < sf_clock_wall_ms() ?
						 "which was to be extended" : "to be extended",
						 sf_timefmt_show(worker.next_ms));
	if (worker.problem[0] != '\0')
		appendStringInfo(&found, ": %s", worker.problem);
	if (is_held && !is_late && worker.problem[0] == '\0')
		sf_status_ok(status, found.data);
	else
		sf_status_put(status, is_held ? SF_STATUS_WARNING : SF_STATUS_ERROR,
					  found.data, worker_remedy(&worker));
}

/* ---- the wall clock ---- */

/*
 * Report what the kernel says of its clock.  In a container it may never say
 * that all is well, so this is a problem only where clock_check says so.
 */
void
sf_status_clock_sync(SfStatus *status)
{
	SfClockSync sync;
	int			error = sf_clock_read_sync(&sync);
	char	   *found = psprintf("not known to be right: %s", error == 0 ?
								 "the kernel says that no program keeps the wall clock right" :
								 psprintf("the kernel does not say (%s)",
										  strerror(error)));

	if (error == 0 && sync.synchronized)
		sf_status_ok(status, psprintf("synchronized; the kernel says that it is wrong by at most %lld us",
									  (long long) sync.max_error_us));
	else if (sf_clock_check == SF_CHECK_OFF)
		sf_status_ok(status, psprintf("%s; snowflake.clock_check = 'warn' makes this a warning",
									  found));
	else
		sf_status_put(status,
					  sf_clock_check == SF_CHECK_WARN || RecoveryInProgress() ?
					  SF_STATUS_WARNING : SF_STATUS_ERROR, found,
					  psprintf(error == 0 ? SF_START_TIMEKEEPER :
							   SF_LET_ASK_KERNEL, ""));
}

/* Report how far the clock is from the registry's. */
void
sf_status_clock_offset(SfStatus *status)
{
	SfLeaseStatus worker;

	sf_lease_wait_status(&worker);
	if (!sf_settings_leases())
		sf_status_ok(status, "there is no registry to compare with");
	else if (!worker.clock_known)
		sf_status_ok(status, "the registry has not told its time");
	else if (llabs(worker.offset_ms) <= OFFSET_WARNS_MS)
		sf_status_ok(status, psprintf("%lld ms %s the registry's",
									  llabs(worker.offset_ms),
									  worker.offset_ms < 0 ? "behind" : "ahead of"));
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%s %s the registry's%s",
							   sf_timefmt_span(llabs(worker.offset_ms)),
							   worker.offset_ms < 0 ? "behind" : "ahead of",
							   worker.registry_moved ?
							   ", which has moved: this server's has not" :
							   ""),
					  "Set the registry's clock right; or this server's, also if its machine was suspended.");
}

static uint64
get_sum(SfStat stat)
{
	return pg_atomic_read_u64(&sf_shmem->stats.sum[stat]);
}

static uint64
get_peak(SfPeak peak)
{
	return pg_atomic_read_u64(&sf_shmem->stats.peak[peak]);
}

static char *
show_steps(int64 last_ms)
{
	return psprintf("%llu back, by up to %s; %llu forward, by up to %s; the last one was seen at %s",
					(unsigned long long) get_sum(SF_STAT_STEPS_BACK),
					sf_timefmt_span(get_peak(SF_PEAK_STEP_BACK_MS)),
					(unsigned long long) get_sum(SF_STAT_STEPS_FORWARD),
					sf_timefmt_span(get_peak(SF_PEAK_STEP_FORWARD_MS)),
					sf_timefmt_show(last_ms));
}

/*
 * Report a jump that is refused, a clock far past the first mark of this
 * life, a step that no call has met yet, and steps seen today.
 */
void
sf_status_clock_steps(SfStatus *status)
{
	int64		now_ms;
	int64		offset = sf_clock_boot_offset_ms(&now_ms);
	int64		baseline = (int64) pg_atomic_read_u64(&sf_shmem->boot_offset);
	int64		last_ms = (int64) get_peak(SF_PEAK_STEP_AT_MS);
	int64		step = sf_stats_find_step(now_ms, offset);
	int64		past = sf_clock_jump_past_ms();

	if (baseline != 0 &&
		offset - baseline > sf_max_clock_jump * INT64CONST(1000))
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("the clock jumped forward by %s: calls are refused",
							   sf_timefmt_span(offset - baseline)),
					  psprintf(SF_CLOCK_JUMP_REMEDY, sf_extschema()));
	else if (past > 0)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("the clock is %s past the newest mark that was found since the start: the clock is wrong, or no ID was made in that time",
							   sf_timefmt_span(past)),
					  psprintf(SF_CLOCK_FAR_REMEDY, sf_extschema()));
	else if (step != 0)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("the clock was set %s by %s, which no call has met yet",
							   step < 0 ? "back" : "forward",
							   sf_timefmt_span(llabs(step))),
					  STOP_STEPS);
	else if (last_ms == 0 || llabs(now_ms - last_ms) > DAY_MS)
		sf_status_ok(status, "none was seen within a day");
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  show_steps(last_ms),
					  psprintf("%s To forget these, run as a superuser: SELECT %s.snowflake_stat_reset();",
							   STOP_STEPS, sf_extschema()));
}

/* Report how far the last ID is ahead of the clock. */
void
sf_status_drift(SfStatus *status)
{
	const SfLayout *layout = &sf_node_layout;
	int64		tick = (int64) (sf_shmem_last_position() >>
								layout->sequence_bits);
	int64		drift = tick * layout->tick_ms - sf_clock_wall_ms();
	int64		allowed = sf_settings_drift_ticks(layout) * layout->tick_ms;
	bool		waits = drift <= allowed + sf_max_clock_wait;
	int64		next_ms = tick * layout->tick_ms - allowed;

	if (drift <= allowed)
		sf_status_ok(status,
					 psprintf("the last timestamp is %lld ms ahead of the clock",
							  (long long) Max(drift, 0)));
	else
		sf_status_put(status, waits ? SF_STATUS_WARNING : SF_STATUS_ERROR,
					  psprintf("the last timestamp is %s ahead of the clock: calls %s until %s",
							   sf_timefmt_span(drift),
							   waits ? "wait" : "are refused",
							   sf_timefmt_show(next_ms)),
					  waits ? sf_clock_wait_remedy(next_ms) :
					  sf_clock_behind_remedy(next_ms,
											 psprintf(SF_COUNTER_REMEDY,
													  sf_check_step("mark"))));
}

/* ---- capacity ---- */

/* Report how long sessions have waited for a full sequence. */
void
sf_status_capacity(SfStatus *status)
{
	SfStats    *stats = &sf_shmem->stats;
	double		waited = (double)
		pg_atomic_read_u64(&stats->sum[SF_STAT_SEQUENCE_WAIT_US]) / 1000;
	int64		since = sf_clock_monotonic_ms() -
		(int64) pg_atomic_read_u64(&stats->since_ms);
	double		share = waited / (double) Max(since, 1);
	char	   *found;

	found = psprintf("in the last %s all sessions together have waited %s for a full sequence",
					 sf_timefmt_span(since), sf_timefmt_span((int64) waited));
	if (share <= CAPACITY_WARNS)
		sf_status_ok(status, found);
	else
		sf_status_put(status, SF_STATUS_WARNING, found,
					  "Ask for IDs only where they are needed; let other servers make some; or choose a layout with more bits for the sequence.");
}

/* Report when a layout ends, or that it has not begun. */
static void
put_life(SfStatus *status, const SfLayout *layout)
{
	int64		end_ms = layout->end_tick * layout->tick_ms;
	int64		now_ms = sf_clock_wall_ms();
	int64		left = end_ms - now_ms;
	char	   *found = psprintf("%.1f years are left, until %s",
								 (double) Max(left, 0) / (double) YEAR_MS,
								 sf_timefmt_show(end_ms));

	if (now_ms < layout->epoch_ms)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("it begins at %s: calls are refused",
							   sf_timefmt_show(layout->epoch_ms)),
					  sf_layout_start_remedy(layout));
	else if (left >= YEAR_MS)
		sf_status_ok(status, found);
	else
		sf_status_put(status, left < 30 * DAY_MS ?
					  SF_STATUS_ERROR : SF_STATUS_WARNING, found,
					  sf_layout_end_remedy(layout));
}

/*
 * Report a layout that a restart would change: its databases refuse calls
 * then.  Return false if none waits.
 */
static bool
put_pending_layout(SfStatus *status, bool shards)
{
	const char *setting = sf_settings_pending_layout(shards);
	SfSettingLine line = {setting};
	bool		is_there;
	SfApply		apply;

	if (setting == NULL)
		return false;
	is_there = sf_settings_is_in_file(setting);
	apply = is_there ? SF_APPLY_RESET : SF_APPLY_RELOAD;
	line[1] = GetConfigOption(setting, false, false);
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf(is_there ?
						   "the configuration files have another %s: after a restart, calls are refused in databases of the present one" :
						   "%s is gone from the configuration files: after a restart, calls are refused in databases of the present one",
						   setting),
				  psprintf("To keep the present one, %s",
						   sf_settings_step(&line, 1, apply)));
	return true;
}

void
sf_status_layout(SfStatus *status)
{
	if (!put_pending_layout(status, false))
		put_life(status, &sf_node_layout);
}

void
sf_status_shard_layout(SfStatus *status)
{
	if (put_pending_layout(status, true))
		return;
	if (sf_settings_has_shards())
		put_life(status, &sf_shard_layout);
	else
		sf_status_ok(status, "snowflake.shards is empty");
}

/* Print those shards for which this is true, as in snowflake.shards. */
static char *
list_shards(bool (*is_one) (uint32 shard))
{
	Size		size = SF_RANGES_TEXT_SIZE(sf_shmem->nshards);
	uint32	   *set = palloc0(SF_RANGES_WORDS(sf_shmem->nshards) *
							  sizeof(uint32));
	char	   *text = palloc(size);

	for (uint32 i = 0; i < (uint32) sf_shmem->nshards; i++)
	{
		if (is_one(i))
			sf_ranges_add(set, i);
	}
	(void) sf_ranges_print(set, sf_shmem->nshards, text, size);
	return text;
}

/*
 * Return the largest ID that any shard that a reload has removed may have in
 * this database; -1 if there is none.  The counters are at or above it once
 * they were raised to the mark of the database.  A mark that is not loaded
 * yet, as after a restart or a restore, counts too.
 */
static int64
find_last_id(int64 mark)
{
	const SfLayout *layout = &sf_shard_layout;
	uint64		last = 0;

	if (mark > sf_db_slot_published_mark())
		last = sf_layout_floor_position(layout, mark);
	pg_read_barrier();			/* read the mark before the counters */
	for (uint32 i = 0; i < (uint32) sf_shmem->nshards; i++)
	{
		if (sf_shard_is_removed(i))
			last = Max(last, sf_shard_position(i));
	}
	return sf_layout_end_of_position(layout, last) == 0 ? -1 :
		sf_layout_max_id(layout, last >> layout->sequence_bits);
}

/*
 * Report which shards this server has, and those that a reload has removed.
 * Another server may have these when the mark of its database is above their
 * IDs.
 */
void
sf_status_shards(SfStatus *status)
{
	const SfStatusNumbers *numbers = sf_status_numbers(status);
	char	   *open = list_shards(sf_shard_is_open);
	char	   *removed = list_shards(sf_shard_is_removed);
	bool		is_standby = RecoveryInProgress();
	int64		last_id;
	StringInfoData found;

	initStringInfo(&found);
	if (open[0] == '\0')
		appendStringInfoString(&found, "snowflake.shards is empty");
	else
		appendStringInfo(&found, is_standby ?
						 "once this standby is promoted, it makes IDs of %s" :
						 "this server makes IDs of %s", open);
	if (removed[0] != '\0' && !is_standby)
	{
		appendStringInfo(&found, "; no longer of %s: ", removed);
		last_id = find_last_id(numbers->read.value[SF_DURABLE_MARK]);
		if (numbers->problem != NULL)
			appendStringInfo(&found, "their last ID depends on the mark: %s",
							 numbers->problem);
		else if (last_id < 0)
			appendStringInfoString(&found, "they have no ID in this database");
		else
			appendStringInfo(&found, "none of their IDs in this database is above " INT64_FORMAT,
							 last_id);
	}
	if (!is_standby && sf_identity_refuses_shards())
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%s, but some are refused: see \"copied data directory\"",
							   found.data),
					  sf_identity_copy_remedy());
	else if (removed[0] == '\0' || is_standby || numbers->problem == NULL)
		sf_status_ok(status, found.data);
	else
		sf_status_put(status, numbers->locked ?
					  SF_STATUS_WARNING : SF_STATUS_ERROR, found.data,
					  numbers->remedy);
}

/*
 * Report how many layouts are in use, and if calls for one more may soon be
 * refused, also which.
 */
void
sf_status_other_layouts(SfStatus *status)
{
	int			used = sf_layout_slots_counted();
	char	   *remedy = sf_layout_slots_remedy(NULL);
	StringInfoData found;
	SfLayout	layout;

	initStringInfo(&found);
	appendStringInfo(&found, "%d of %d (snowflake.max_layouts) are in use",
					 used, sf_max_layouts);
	if (used * 5 <= sf_max_layouts * 4)
	{
		sf_status_ok(status, found.data);
		return;
	}
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		char		text[SF_LAYOUT_TEXT_SIZE];

		if (i > 0 && sf_layout_has_place(&layout))
			continue;
		sf_layout_print(&layout, text, sizeof(text));
		appendStringInfo(&found, "%s \"%s\"", i == 0 ? ":" : ",", text);
	}
	if (remedy == NULL)
		sf_status_ok(status, found.data);
	else
		sf_status_put(status, SF_STATUS_WARNING, found.data, remedy);
}

/* Report how many databases make IDs: one more may be refused. */
void
sf_status_databases(SfStatus *status)
{
	int			used = 0;
	int			all = sf_max_databases;
	char	   *found;

	for (int i = 0; i < all; i++)
	{
		Oid			oid;

		LWLockAcquire(sf_shmem->lock, LW_SHARED);
		oid = sf_databases[i].database.oid;
		LWLockRelease(sf_shmem->lock);
		/* the slot of a dropped database can be reused */
		if (OidIsValid(oid) &&
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(oid)))
			used++;
	}
	found = psprintf("%d of %d places for databases that make IDs are in use",
					 used, all);
	if (used <= all * DATABASES_WARN)
		sf_status_ok(status, found);
	else if (used == all && sf_db_slot_find() == NULL)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%s: calls are refused in this one", found),
					  sf_db_slots_remedy());
	else
		sf_status_put(status, SF_STATUS_WARNING, found,
					  sf_db_slots_remedy());
}

/* ---- the mark ---- */

/* A search for who has locked a table, or else the numbers. */
typedef struct Locked
{
	Oid			table;			/* 0: the numbers */
	char	   *remedy;
} Locked;

/* Ask who keeps others from it; set the remedy. */
static void
find_lock(void *arg)
{
	Locked	   *locked = arg;
	Oid			type = OIDOID;
	Datum		table = ObjectIdGetDatum(locked->table);
	MemoryContext context = CurrentMemoryContext;
	HeapTuple	row;
	char	   *pid;
	char	   *gid;

	SPI_connect();
	if (SPI_execute_with_args(SQL_LOCK, 1, &type, &table, NULL, true,
							  1) == SPI_OK_SELECT && SPI_processed == 1)
	{
		row = SPI_tuptable->vals[0];
		pid = SPI_getvalue(row, SPI_tuptable->tupdesc, 1);
		gid = SPI_getvalue(row, SPI_tuptable->tupdesc, 2);
		locked->remedy = MemoryContextStrdup(context, pid != NULL ?
											 psprintf("Wait until process %s has ended its transaction, or end that process: SELECT pg_catalog.pg_terminate_backend(%s);",
													  pid, pid) :
											 psprintf("The transaction is prepared. End it as its coordinator has decided: COMMIT PREPARED %s; or ROLLBACK PREPARED %s;",
													  sf_text_quote(gid),
													  sf_text_quote(gid)));
	}
	SPI_finish();
}

/*
 * Return how to end the transaction that has locked a table, or with 0 a
 * durable number; or the one for which such a lock waits before all others.
 */
const char *
sf_status_lock_remedy(Oid table)
{
	Locked		locked = {
		.table = table,
		.remedy = psprintf("That transaction has just ended. Run again: SELECT * FROM %s.snowflake_status();",
						   sf_extschema())
	};
	ErrorData  *error = sf_status_try(find_lock, &locked);

	return error == NULL ? locked.remedy : sf_status_log_error(error);
}

static void
read_numbers(void *arg)
{
	SfStatusNumbers *numbers = arg;
	SfDurableMark mark;
	XLogRecPtr	lsn;
	int64		found;

	sf_durable_numbers_find(NULL);
	numbers->locked = !sf_durable_numbers_read(&numbers->read,
											   SF_DURABLE_PASS) ||
		!sf_durable_mark_open(&mark, SF_DURABLE_PASS);
	if (numbers->locked)
		return;
	if (sf_shmem != NULL)
	{
		found = sf_durable_mark_lock(&mark, &lsn);
		numbers->floor_ms = sf_mark_floor(&mark, found,
										  sf_db_slot_published_mark());
		sf_durable_mark_unlock(&mark);
	}
	sf_durable_mark_close(&mark);
}

/*
 * Return the durable numbers, which the first check that needs them reads.
 * Waits for no lock, and loads nothing.
 */
const SfStatusNumbers *
sf_status_numbers(SfStatus *status)
{
	SfStatusNumbers *numbers = status->numbers;
	ErrorData  *error;

	if (numbers != NULL)
		return numbers;
	numbers = status->numbers = palloc0(sizeof(SfStatusNumbers));
	error = sf_status_try(read_numbers, numbers);
	if (error != NULL)
	{
		numbers->problem = psprintf("it cannot be read: %s", error->message);
		numbers->remedy = error->hint != NULL ?
			error->hint : sf_status_log_error(error);
	}
	else if (numbers->locked)
	{
		numbers->problem = "not looked at: another session has locked its sequence";
		numbers->remedy = sf_status_lock_remedy(InvalidOid);
	}
	return numbers;
}

/* Report that the numbers could not be read. */
static void
put_problem(SfStatus *status, const SfStatusNumbers *numbers)
{
	sf_status_put(status, numbers->locked ?
				  SF_STATUS_WARNING : SF_STATUS_ERROR,
				  numbers->problem, numbers->remedy);
}

/*
 * Report a sequence without a mark.  If there is a config record, the two were
 * written one after the other.  So either the mark is lost, for example by
 * setval(), or the server crashed in between, before the first ID.  Nothing
 * tells which.
 */
static void
put_no_mark(SfStatus *status, bool recorded)
{
	if (recorded)
		sf_status_put(status, SF_STATUS_WARNING,
					  "not set, though a configuration is recorded: it was lost, or the server crashed before the first ID",
					  psprintf(SF_RECOVER_REMEDY, sf_extschema()));
	else
		sf_status_ok(status, "not loaded: no ID was made in this database");
}

/* Report the mark, published and in its sequence. */
static void
put_known_mark(SfStatus *status, const SfStatusNumbers *numbers,
			   int64 published)
{
	const SfDurableNumbers *read = &numbers->read;
	int64		value = read->value[SF_DURABLE_MARK];
	int64		reserve = sf_settings_lead_ms();
	int64		mark_ms = Max(value, published);
	int64		ahead = mark_ms - sf_clock_wall_ms();
	char	   *found;

	found = psprintf("%s at %s, which is %s %s the clock",
					 published == 0 ? "not loaded;" : "loaded,",
					 sf_timefmt_show(mark_ms),
					 sf_timefmt_span(llabs(ahead)),
					 ahead < 0 ? "behind" : "ahead of");
	if (mark_ms < sf_node_layout.epoch_ms && !sf_config_record_is_other(read))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%s, and before all IDs: it was lost, for example by setval()",
							   found),
					  psprintf(SF_RECOVER_REMEDY, sf_extschema()));
	else if (published == 0 && ahead <= reserve &&
			 numbers->floor_ms - sf_clock_wall_ms() > sf_max_clock_wait)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%s: calls are refused until %s", found,
							   sf_timefmt_show(numbers->floor_ms)),
					  sf_clock_wait_remedy(numbers->floor_ms));
	else if (ahead > reserve && ahead <= reserve + sf_max_clock_wait)
		sf_status_put(status, SF_STATUS_WARNING, found,
					  sf_clock_wait_remedy(mark_ms));
	else if (ahead > reserve)
		sf_status_put(status, SF_STATUS_ERROR, found,
					  sf_clock_behind_remedy(mark_ms, published >= value ?
											 psprintf(SF_COUNTER_REMEDY,
													  sf_check_step("mark")) :
											 sf_clock_jump_mark_remedy()));
	else if (value < published)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%s, and lost from its sequence: a crash would forget it",
							   found),
					  psprintf("Make an ID in a new session, which writes it again: SELECT %s.snowflake_nextval();",
							   sf_extschema()));
	else
		sf_status_ok(status, found);
}

/* Report the mark of this database. */
void
sf_status_mark(SfStatus *status)
{
	const SfStatusNumbers *numbers = sf_status_numbers(status);
	int64		published = sf_db_slot_published_mark();
	const int64 *value = numbers->read.value;

	if (numbers->problem != NULL)
		put_problem(status, numbers);
	else if (value[SF_DURABLE_MARK] == 0 && published == 0)
		put_no_mark(status, value[SF_DURABLE_LAYOUT] != 0);
	else
		put_known_mark(status, numbers, published);
}

/* ---- the config record ---- */

/* Report a record without a mark: the first call writes it anew. */
static void
put_idle_record(SfStatus *status, const char *differs)
{
	if (*differs == '\0')
		sf_status_put(status, SF_STATUS_WARNING,
					  "the layouts are the recorded ones, but the record is not in force: there is no mark",
					  psprintf(SF_RECOVER_REMEDY, sf_extschema()));
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("not in force, since there is no mark, and the first call writes over it: %s",
							   differs),
					  psprintf(SF_RECOVER_REMEDY, sf_extschema()));
}

/*
 * Report whether the layouts are the recorded ones; also on a standby, which
 * decodes by its own layouts.
 */
void
sf_status_record(SfStatus *status)
{
	const SfStatusNumbers *numbers = sf_status_numbers(status);
	const SfDurableNumbers *read = &numbers->read;
	bool		in_force = read->value[SF_DURABLE_MARK] != 0 ||
		sf_db_slot_published_mark() != 0;
	StringInfoData differs;

	initStringInfo(&differs);
	if (numbers->problem != NULL)
		put_problem(status, numbers);
	else if (read->value[SF_DURABLE_LAYOUT] == 0 &&
			 !sf_config_record_is_other(read))
		sf_status_ok(status, "none: no ID was made in this database");
	else if (!sf_config_record_differs(read, &differs) && in_force)
		sf_status_ok(status, "the layouts are those that are recorded in this database");
	else if (in_force)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("IDs are refused here: %s", differs.data),
					  sf_config_record_remedy(read));
	else
		put_idle_record(status, differs.data);
}

/* ---- refusals, and the owner of the data ---- */

/* Report how many calls were refused, and when the last one was. */
void
sf_status_refusals(SfStatus *status)
{
	static const struct
	{
		SfStat		stat;
		const char *name;
	}			kinds[] = {
		{SF_STAT_REFUSED_CLOCK, "for the clock"},
		{SF_STAT_REFUSED_LEASE, "without a lease"},
		{SF_STAT_REFUSED_CONFIGURATION, "for the configuration"},
		{SF_STAT_REFUSED_READ_ONLY, "read-only"},
		{SF_STAT_REFUSED_END, "at the layout's end"},
		{SF_STAT_REFUSED_WAIT, "cancelled while they waited"}
	};
	SfStats    *stats = &sf_shmem->stats;
	int64		last_ms = (int64) pg_atomic_read_u64(&stats->refused_ms);
	int64		ago = Max(sf_clock_monotonic_ms() - last_ms, 0);
	StringInfoData found;

	initStringInfo(&found);
	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		uint64		n = pg_atomic_read_u64(&stats->sum[kinds[i].stat]);

		if (n > 0)
			appendStringInfo(&found, "%s%llu %s", found.len > 0 ? ", " : "",
							 (unsigned long long) n, kinds[i].name);
	}
	if (found.len == 0)
		sf_status_ok(status, "none since the counts began");
	else if (last_ms == 0 || ago > DAY_MS)
		sf_status_ok(status, psprintf("none within a day but for read-only transactions; since the counts began %s",
									  found.data));
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%s; the last one that was not read-only %s ago",
							   found.data, sf_timefmt_span(ago)),
					  psprintf("See the errors of these calls in the server's log. When their cause is gone, run as a superuser: SELECT %s.snowflake_stat_reset();",
							   sf_extschema()));
}

void
sf_status_copy(SfStatus *status)
{
	sf_identity_retry();
	if (status->waits)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("calls wait, since another process has file \"%s\" locked",
							   sf_lock_name()),
					  psprintf("See which process that is (\"lslocks | grep %s\"), and end it, or let it go on.",
							   sf_lock_name()));
	else if (!sf_identity_is_copy() && sf_lock_file() == 0)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("file \"%s\" cannot be used: a copy of this data directory on this machine may not be noticed",
							   sf_lock_name()),
					  psprintf("Look at \"ls -ld %s; df /dev/shm\", and do what the HINT of SF403 in the server's log says.",
							   sf_lock_name()));
	else if (!sf_identity_is_copy())
		sf_status_ok(status, "this data directory is no copy, or one that need not be accepted");
	else if (!sf_identity_refuses_node() && !sf_identity_refuses_shards())
		sf_status_put(status, SF_STATUS_WARNING,
					  "another server with these data may have the same node id or shards",
					  sf_identity_copy_remedy());
	else
		sf_status_put(status, SF_STATUS_ERROR,
					  sf_copy_check == SF_CHECK_ERROR ?
					  "another server with these data may have the same node id or shards" :
					  "another server with these data was seen running on this machine, and has taken the node id or shards of this one",
					  sf_identity_copy_remedy());
}
