/*-------------------------------------------------------------------------
 *
 * planner_hook.h
 *	  Planning of conditions on the time of an ID as conditions on the ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PLANNER_HOOK_H
#define SF_PLANNER_HOOK_H

extern void sf_planner_hook_install(void);

#endif							/* SF_PLANNER_HOOK_H */
