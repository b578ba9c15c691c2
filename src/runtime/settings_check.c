/*-------------------------------------------------------------------------
 *
 * settings_check.c
 *	  Settings of the checks for copies and clocks, and of the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"

#include "miscadmin.h"
#include "runtime/shmem.h"
#include "utils/guc.h"

int			sf_copy_check = SF_CHECK_WARN;
int			sf_clock_check = SF_CHECK_OFF;
bool		sf_audit = false;
int			sf_log_interval = 60 * 1000;

static const struct config_enum_entry checks[] = {
	{"off", SF_CHECK_OFF, false},
	{"warn", SF_CHECK_WARN, false},
	{"error", SF_CHECK_ERROR, false},
	{NULL, 0, false}
};

/* Publish the postmaster's interval, because all processes share one limit. */
void
sf_settings_publish_log_interval(int newval, void *extra)
{
	if (sf_shmem != NULL && !IsUnderPostmaster)
		pg_atomic_write_u32(&sf_shmem->log_interval_ms, newval);
}

void
sf_settings_define_checks(void)
{
	DefineCustomEnumVariable("snowflake.copy_check",
							 "What happens where a copy of a data directory starts as a server of its own.",
							 "\"warn\" refuses IDs if the original is seen running on this machine with the same node id; else it writes a line into the log. \"error\" refuses, on any copy, the IDs that the original may issue, too. snowflake_accept('copy') ends the refusal. A standby that is promoted is no copy.",
							 &sf_copy_check, SF_CHECK_WARN, checks,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("snowflake.clock_check",
							 "What happens while the kernel says that its clock is not synchronized.",
							 "\"error\" refuses IDs when the mark has to be moved; \"warn\" writes a line into the log each hour.",
							 &sf_clock_check, SF_CHECK_OFF, checks,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("snowflake.audit",
							 "Writes a line into the server's log for each transaction that makes IDs.",
							 "The line says how many, the first and the last one, their layout or shard, and who made them. What counts is the value when the transaction asks for its first ID.",
							 &sf_audit, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.log_interval",
							"Least time between two lines in the log about one kind of event.",
							"With 0 each event has a line. Some kinds have longer intervals, and some may log several lines at once.",
							&sf_log_interval, 60 * 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL,
							sf_settings_publish_log_interval, NULL);
}
