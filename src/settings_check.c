/*-------------------------------------------------------------------------
 *
 * settings_check.c
 *	  The settings of what is looked at besides, and what comes of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "settings.h"

#include "utils/guc.h"

int			sf_copy_check = SF_CHECK_WARN;
int			sf_clock_check = SF_CHECK_OFF;

static const struct config_enum_entry checks[] = {
	{"off", SF_CHECK_OFF, false},
	{"warn", SF_CHECK_WARN, false},
	{"error", SF_CHECK_ERROR, false},
	{NULL, 0, false}
};

void
sf_settings_define_checks(void)
{
	DefineCustomEnumVariable("snowflake.copy_check",
							 "What happens where a copy of a data directory starts as a server of its own.",
							 "\"error\" refuses the IDs that the original may issue, too, until snowflake_accept_copy() is called. A standby that is promoted is no copy.",
							 &sf_copy_check, SF_CHECK_WARN, checks,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("snowflake.clock_check",
							 "What happens while the kernel says that its clock is not synchronized.",
							 "\"error\" refuses IDs when the mark has to be moved; \"warn\" writes a line into the log each hour.",
							 &sf_clock_check, SF_CHECK_OFF, checks,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}
