/*-------------------------------------------------------------------------
 *
 * sync.c
 *	  What the kernel says of its clock, as a condition: snowflake.clock_check.
 *
 * Nothing that is promised depends on it.  It is asked when a mark is loaded
 * or moved, which is a matter of once in a second, and in no other call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "sync.h"

#include "clock.h"
#include "settings.h"
#include "stats.h"

#define WARN_EVERY_MS	(INT64CONST(3600) * 1000)

/* SQLSTATE 55000, or a WARNING; unknown is 0, or why nobody knows. */
static void
complain(int elevel, int unknown)
{
	errno = unknown;
	if (unknown != 0)
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not find out whether the wall clock is synchronized: %m"),
				 errhint("Let this server call adjtimex(), which some containers forbid; or set snowflake.clock_check to \"off\".")));
	else
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("wall clock is not synchronized"),
				 errdetail("So says the kernel; snowflake_clock() shows more."),
				 errhint("Start chrony, ntpd or systemd-timesyncd on this machine, or on the host of this container; or set snowflake.clock_check to \"warn\".")));
}

/* As it is set, throw or warn. */
static bool
check(bool may_throw)
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
		{
			sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
			complain(ERROR, error);
		}
		return false;
	}
	if (sf_state_once_per(&sf_state->sync_logged, sf_clock_monotonic_ms(),
						  WARN_EVERY_MS))
		complain(WARNING, error);
	return true;
}

/* Before a mark is loaded or moved: throws SQLSTATE 55000. */
void
sf_sync_require(void)
{
	(void) check(true);
}

/* May a mark be moved early?  If not, whoever needs it is told why. */
bool
sf_sync_allows(void)
{
	return check(false);
}
