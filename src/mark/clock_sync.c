/*-------------------------------------------------------------------------
 *
 * clock_sync.c
 *	  The kernel's opinion of its clock as a condition: snowflake.clock_check.
 *
 * No guarantee depends on it.  The kernel is asked when a mark is loaded or
 * moved, about once a second, and in no other call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "base/clock.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"

#define UNKNOWN \
	"could not find out whether the wall clock is synchronized: %m"
#define UNKNOWN_HINT \
	SF_LET_ASK_KERNEL "; or set snowflake.clock_check to \"off\"."
#define UNSYNCHRONIZED		"wall clock is not synchronized"
#define UNSYNCHRONIZED_DETAIL \
	"The kernel says so; snowflake_clock() shows more."
#define UNSYNCHRONIZED_HINT(off) \
	SF_START_TIMEKEEPER "; or set snowflake.clock_check to \"" off "\"."

/* Throw SQLSTATE 55000.  "unknown" is 0, or the errno of the query. */
static void
refuse_unsynchronized(int unknown)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	errno = unknown;
	if (unknown != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(UNKNOWN), errhint(UNKNOWN_HINT)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(UNSYNCHRONIZED), errdetail(UNSYNCHRONIZED_DETAIL),
			 errhint(UNSYNCHRONIZED_HINT("warn"))));
}

static void
warn_unsynchronized(int unknown)
{
	errno = unknown;
	if (unknown != 0)
		sf_log_event(SF_EVENT_CLOCK_UNSYNCHRONIZED, NULL, UNKNOWN_HINT,
					 UNKNOWN);
	else
		sf_log_event(SF_EVENT_CLOCK_UNSYNCHRONIZED, UNSYNCHRONIZED_DETAIL,
					 UNSYNCHRONIZED_HINT("off"), UNSYNCHRONIZED);
}

/* Ask the kernel, and throw or warn as the setting says. */
static bool
check_clock_sync(bool may_throw)
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

/* Check before a mark is loaded or moved.  Throws SQLSTATE 55000. */
void
sf_clock_sync_require(void)
{
	(void) check_clock_sync(true);
}

/* Return true if snowflake.clock_check permits to extend a mark now. */
bool
sf_clock_sync_allows(void)
{
	return check_clock_sync(false);
}
