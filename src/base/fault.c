/*-------------------------------------------------------------------------
 *
 * fault.c
 *	  Fault points: places where a test makes a process die, stop or fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/fault.h"

#ifdef SF_FAULTS

#include <signal.h>
#include <unistd.h>

#include "utils/guc.h"

static char *fault = NULL;

void
sf_fault_define(void)
{
	DefineCustomStringVariable("snowflake.fault",
							   "A place and what is to happen there: kill, stop, or fail.",
							   NULL, &fault, "", PGC_SUSET,
							   GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

void
sf_fault_reach(const char *place)
{
	size_t		length = strlen(place);
	const char *action;

	if (strncmp(fault, place, length) != 0 || fault[length] != ' ')
		return;
	action = fault + length + 1;
	if (strcmp(action, "kill") == 0)
		kill(getpid(), SIGKILL);
	else if (strcmp(action, "stop") == 0)
		kill(getpid(), SIGSTOP);
	else
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("fault at \"%s\"", place)));
}

#endif
