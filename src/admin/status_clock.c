/*-------------------------------------------------------------------------
 *
 * status_clock.c
 *	  Checks of snowflake_status() about the wall clock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "identity/identity.h"
#include "mark/mark.h"
#include "runtime/counts.h"
#include "runtime/settings.h"

#define OFFSET_WARNS_MS		200

#define STOP_STEPS \
	"See what sets the clock of this machine, such as a suspended virtual machine or an ntpdate job, and let chrony or ntpd slew the clock instead."

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
					  error == 0 ? SF_START_TIMEKEEPER "." :
					  SF_LET_ASK_KERNEL ".");
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
					  worker.registry_moved ?
					  "Set the registry's clock right; or this server's, if its machine was suspended." :
					  "Set the server's clock right, or that of the registry.");
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
					  SF_CLOCK_JUMP_REMEDY);
	else if (past > 0)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("the clock is %s past the newest mark that was found since the start: the clock is wrong, or no ID was made in that time",
							   sf_timefmt_span(past)),
					  SF_CLOCK_FAR_REMEDY " If the clock is right, run as a superuser: SELECT snowflake_accept('clock');");
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
					  STOP_STEPS " snowflake_stat_reset() forgets these.");
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

	if (drift <= allowed)
		sf_status_ok(status,
					 psprintf("the last timestamp is %lld ms ahead of the clock",
							  (long long) Max(drift, 0)));
	else
		sf_status_put(status, waits ? SF_STATUS_WARNING : SF_STATUS_ERROR,
					  psprintf("the last timestamp is %s ahead of the clock: calls %s until %s",
							   sf_timefmt_span(drift),
							   waits ? "wait" : "are refused",
							   sf_timefmt_show(tick * layout->tick_ms -
											   allowed)),
					  waits ? SF_STATUS_WAIT :
					  SF_STATUS_SET_CLOCK " " SF_COUNTER_REMEDY);
}
