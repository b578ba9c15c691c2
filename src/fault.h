/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Places where a test can make a process die, stop or fail.
 *
 * Only in a library built with "make FAULTS=1"; otherwise nothing of it is
 * there.  The setting snowflake.fault names a place and what is to happen:
 *
 *	SET snowflake.fault = 'mark-flushed kill'
 *
 * kill ends the process with SIGKILL, stop freezes it with SIGSTOP until it
 * gets SIGCONT, fail throws an error.  Each happens whenever the place is
 * reached, in the session that has the setting.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FAULT_H
#define SF_FAULT_H

#ifdef SF_FAULTS

extern void sf_fault_define(void);
extern void sf_fault_reach(const char *place);

#define SF_FAULT(place)		sf_fault_reach(place)

#else

#define sf_fault_define()	((void) 0)
#define SF_FAULT(place)		((void) 0)

#endif

#endif							/* SF_FAULT_H */
