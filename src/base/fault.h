/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Fault points: places where a test makes a process die, stop or fail.
 *
 * They exist only in a library built with "make FAULTS=1".  The setting
 * snowflake.fault names a place and an action:
 *
 *	SET snowflake.fault = 'mark-flushed kill'
 *
 * "kill" ends the process with SIGKILL, "stop" freezes it with SIGSTOP until
 * SIGCONT, "fail" throws an error.  The action happens whenever the session
 * that has the setting reaches the place.
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
