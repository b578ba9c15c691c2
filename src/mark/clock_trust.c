/*-------------------------------------------------------------------------
 *
 * clock_trust.c
 *	  May the wall clock be trusted?  Not after it has jumped forward too far;
 *	  and snowflake.clock_check asks for the kernel's opinion, too.
 *
 * The baseline is the wall clock minus the time since boot: the largest such
 * difference at which a mark was loaded or extended, but for a time before the
 * epoch of snowflake.layout, which is wrong.  The server has one baseline,
 * because all databases share the counters.  A jump past the mark cannot
 * bypass this check: until the mark is extended, nothing is issued beyond it.
 *
 * A process may lose the processor between any two lines.  So it reads the
 * baseline after the clock.  Otherwise it could find no baseline yet, and
 * believe a jump for which others were refused meanwhile.  And a process
 * raises the baseline before it publishes a mark.  Otherwise others could
 * issue under that mark while there is no baseline yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/message.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

/* A smaller difference is no step of the clock. */
#define STEP_BACK_MS	100

/* Read the wall clock. */
void
sf_clock_jump_look(SfClockLook *look)
{
	SF_FAULT("clock-look");
	look->offset_ms = sf_clock_boot_offset_ms(&look->now_ms);
	look->jump_ms = 0;
	look->jumped = false;
	sf_stats_see_clock(look->now_ms, look->offset_ms);
}

/* Set look->jumped.  If it is false and "believe" true, raise the baseline. */
void
sf_clock_jump_judge(SfClockLook *look, bool believe)
{
	int64		limit_ms = sf_max_clock_jump * INT64CONST(1000);
	uint64		baseline = pg_atomic_read_u64(&sf_shmem->boot_offset);

	do
	{
		look->jump_ms = baseline == 0 ? 0 :
			look->offset_ms - (int64) baseline;
		look->jumped = look->jump_ms > limit_ms;
	} while (believe && !look->jumped &&
			 look->offset_ms > (int64) baseline &&
			 !pg_atomic_compare_exchange_u64(&sf_shmem->boot_offset, &baseline,
											 look->offset_ms));
}

/* Throw SQLSTATE 58000: the clock has jumped. */
void
sf_clock_jump_refuse(const SfClockLook *look)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock jumped forward by %s",
					sf_timefmt_span(look->jump_ms)),
			 errdetail("It now says %s; snowflake.max_clock_jump is %s.",
					   sf_timefmt_show(look->now_ms),
					   sf_timefmt_span(sf_max_clock_jump * INT64CONST(1000))),
			 errhint(SF_CLOCK_JUMP_REMEDY, sf_extschema())));
}

/*
 * Record how far the clock is past a loaded mark, if no other mark was nearer.
 * The clock may be wrong by this much.  A larger distance shows only that the
 * database was idle.
 */
static void
keep_past(int64 past_ms)
{
	uint64		past = (uint64) Max(past_ms, 0) + 1;
	uint64		least = pg_atomic_read_u64(&sf_shmem->least_past);

	while ((least == 0 || past < least) &&
		   !pg_atomic_compare_exchange_u64(&sf_shmem->least_past, &least,
										   past))
		;
}

/*
 * Return how far the clock is past the newest loaded mark, or 0 if that is not
 * more than the clock may jump.  If the clock was set back after the mark was
 * loaded, subtract that step.
 */
int64
sf_clock_jump_past_ms(void)
{
	uint64		least = pg_atomic_read_u64(&sf_shmem->least_past);
	int64		baseline = (int64) pg_atomic_read_u64(&sf_shmem->boot_offset);
	int64		now_ms;
	int64		past;

	if (least == 0 || baseline == 0)
		return 0;
	past = (int64) least - 1 + sf_clock_boot_offset_ms(&now_ms) - baseline;
	return past > sf_max_clock_jump * INT64CONST(1000) ? past : 0;
}

/*
 * Warn if the clock is further past a mark that is loaded for the first time
 * than it may jump.  Either the clock is wrong, or the database has made no ID
 * for so long: there is nothing else to compare the clock with.
 */
void
sf_clock_jump_warn_far(const SfClockLook *look, int64 found_ms)
{
	int64		limit_ms = sf_max_clock_jump * INT64CONST(1000);

	if (found_ms == 0)
		return;
	keep_past(look->now_ms - found_ms);
	if (look->now_ms - found_ms <= limit_ms)
		return;
	sf_log_event(SF_EVENT_CLOCK_FAR,
				 psprintf("The clock says %s. All IDs of this database lie before %s.",
						  sf_timefmt_show(look->now_ms),
						  sf_timefmt_show(found_ms)),
				 psprintf(SF_CLOCK_FAR_REMEDY, sf_extschema()),
				 "the wall clock is %s past the last mark of this database",
				 sf_timefmt_span(look->now_ms - found_ms));
}

/*
 * Return the remedy for a mark that is too far ahead; doc/operations.md
 * explains it.  If the clock was set back in this life, it was wrong before,
 * or is wrong now.  Nothing tells which, and to set the mark to a wrong clock
 * makes IDs twice: so first let the administrator restart the server.
 */
const char *
sf_clock_jump_mark_remedy(void)
{
	int64		baseline = (int64) pg_atomic_read_u64(&sf_shmem->boot_offset);
	int64		now_ms;

	if (baseline != 0 &&
		sf_clock_boot_offset_ms(&now_ms) < baseline - STEP_BACK_MS)
		return psprintf(SF_COUNTER_REMEDY, sf_check_step("mark"));
	return psprintf("If the clock is right, and a wrong clock or a restore has set the mark, " SF_RESET_MARK,
					sf_extschema());
}

/* Return the remedy for a clock that is behind; IDs resume at next_ms. */
char *
sf_clock_behind_remedy(int64 next_ms, const char *more)
{
	return psprintf("Correct the server's clock. IDs resume when the clock reaches %s. %s",
					sf_timefmt_show(next_ms), more);
}

/* Return the same for a delay that is no longer than a crash makes it. */
char *
sf_clock_wait_remedy(int64 next_ms)
{
	return psprintf("If the clock is right, wait until it reaches %s: after a crash that takes at most snowflake.reserve, or ten ticks of the layout. If it is wrong, correct it.",
					sf_timefmt_show(next_ms));
}

/* Throw an error if a jump of the clock would prevent an extension now. */
void
sf_clock_jump_check(void)
{
	SfClockLook look;

	sf_clock_jump_look(&look);
	sf_clock_jump_judge(&look, false);
	sf_stats_log_step();
	if (look.jumped)
		sf_clock_jump_refuse(&look);
}

/* Trust the present clock.  Return true if it was in question. */
bool
sf_clock_jump_accept(void)
{
	SfClockLook look;
	bool		was_far = sf_clock_jump_past_ms() > 0;

	sf_clock_jump_look(&look);
	sf_clock_jump_judge(&look, false);
	pg_atomic_write_u64(&sf_shmem->boot_offset, Max(look.offset_ms, 0));
	keep_past(0);
	return look.jumped || was_far;
}

/* ---- the kernel's opinion: snowflake.clock_check ---- */

/*
 * No guarantee depends on it.  The kernel is asked when a mark is loaded or
 * moved, about once a second, and in no other call.
 */

#define UNKNOWN \
	"could not find out whether the wall clock is synchronized: %m"
#define UNSYNCHRONIZED		"wall clock is not synchronized"
#define UNSYNCHRONIZED_DETAIL \
	"The kernel says so; snowflake_clock() shows more."
#define OR_SET(value)	"; or set snowflake.clock_check to \"" value "\""

/* Throw SQLSTATE 55000.  "unknown" is 0, or the errno of the query. */
static void
refuse_unsynchronized(int unknown)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	errno = unknown;
	if (unknown != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(UNKNOWN), errhint(SF_LET_ASK_KERNEL, OR_SET("off"))));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(UNSYNCHRONIZED), errdetail(UNSYNCHRONIZED_DETAIL),
			 errhint(SF_START_TIMEKEEPER, OR_SET("warn"))));
}

static void
warn_unsynchronized(int unknown)
{
	char	   *hint = psprintf(unknown != 0 ? SF_LET_ASK_KERNEL :
								SF_START_TIMEKEEPER, OR_SET("off"));

	errno = unknown;
	if (unknown != 0)
		sf_log_event(SF_EVENT_CLOCK_UNSYNCHRONIZED, NULL, hint, UNKNOWN);
	else
		sf_log_event(SF_EVENT_CLOCK_UNSYNCHRONIZED, UNSYNCHRONIZED_DETAIL,
					 hint, UNSYNCHRONIZED);
}

/*
 * Ask the kernel.  Warn, or throw SQLSTATE 55000, as the setting says; return
 * false in place of an error if may_throw is false.
 */
bool
sf_clock_sync_check(bool may_throw)
{
	SfClockSync sync;
	int			error;

	if (sf_clock_check == SF_CHECK_OFF)
		return true;
	error = sf_clock_read_sync(&sync);
	if (error == 0 && sync.synchronized)
		return true;
	if (sf_clock_check == SF_CHECK_ERROR)
	{
		if (may_throw)
			refuse_unsynchronized(error);
		return false;
	}
	warn_unsynchronized(error);
	return true;
}
