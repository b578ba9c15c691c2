/*-------------------------------------------------------------------------
 *
 * jump.c
 *	  Whether the wall clock has jumped forward further than is believed.
 *
 * What is believed is a distance between the wall clock and the time since
 * boot, the baseline.  It is one for the server, since all databases share
 * the counters, and is the largest under which a mark was loaded or extended.
 * A jump past the mark cannot bypass this: until the mark is extended, nothing
 * is issued beyond it.
 *
 * A process may lose the processor between any two lines.  So the baseline is
 * read after the clock, or a jump that others were refused for could be taken
 * for the first look; and it is raised before a mark is published, or others
 * could issue while there is none yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "jump.h"

#include "clock.h"
#include "fault.h"
#include "settings.h"
#include "state.h"
#include "stats.h"
#include "tell.h"
#include "times.h"

/* Read the wall clock. */
void
sf_jump_look(SfClockLook *look)
{
	SF_FAULT("clock-look");
	look->offset_ms = sf_clock_boot_offset_ms(&look->now_ms);
	look->jump_ms = 0;
	look->jumped = false;
	sf_stats_see_clock(look->now_ms, look->offset_ms);
}

/* Has it jumped?  If not, and it is to be believed, that is the baseline. */
void
sf_jump_judge(SfClockLook *look, bool believe)
{
	int64		limit_ms = sf_max_clock_jump * INT64CONST(1000);
	uint64		baseline = pg_atomic_read_u64(&sf_state->boot_offset);

	do
	{
		look->jump_ms = baseline == 0 ? 0 :
			look->offset_ms - (int64) baseline;
		look->jumped = look->jump_ms > limit_ms;
	} while (believe && !look->jumped &&
			 look->offset_ms > (int64) baseline &&
			 !pg_atomic_compare_exchange_u64(&sf_state->boot_offset, &baseline,
											 look->offset_ms));
}

/* SQLSTATE 58000 */
void
sf_jump_refuse(const SfClockLook *look)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock jumped forward by %s",
					sf_times_span(look->jump_ms)),
			 errdetail("It now says %s; snowflake.max_clock_jump is %s.",
					   sf_times_show(look->now_ms),
					   sf_times_span(sf_max_clock_jump * INT64CONST(1000))),
			 errhint("If the clock is wrong, set it right, and generation goes on. If it is right, have an administrator call snowflake_accept_clock().")));
}

/*
 * Warn if the clock, which was believed, is further past the mark that a life
 * of the server begins with than it may jump: it is wrong, or no ID was made
 * for so long.  There is nothing else to compare it with.
 */
void
sf_jump_tell_far(const SfClockLook *look, int64 found_ms)
{
	int64		limit_ms = sf_max_clock_jump * INT64CONST(1000);

	if (found_ms == 0 || look->now_ms - found_ms <= limit_ms)
		return;
	sf_tell(SF_EVENT_CLOCK_FAR,
			psprintf("The clock says %s. All IDs of this database lie before %s.",
					 sf_times_show(look->now_ms), sf_times_show(found_ms)),
			"If no ID was made for so long, all is well. If the clock is wrong, set it right now: IDs made until then lie in the future, and after that no call gets one before that time comes.",
			"the wall clock is %s past the last mark of this database",
			sf_times_span(look->now_ms - found_ms));
}

/* Throw if no mark could be extended for a jump of the clock. */
void
sf_jump_check(void)
{
	SfClockLook look;

	sf_jump_look(&look);
	sf_jump_judge(&look, false);
	sf_stats_tell_step();
	if (look.jumped)
		sf_jump_refuse(&look);
}

/* Take the present clock for right.  Returns whether it had been refused. */
bool
sf_jump_accept(void)
{
	SfClockLook look;

	sf_jump_look(&look);
	sf_jump_judge(&look, false);
	pg_atomic_write_u64(&sf_state->boot_offset, Max(look.offset_ms, 0));
	return look.jumped;
}
