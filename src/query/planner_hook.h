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

/* key_type.c */
extern bool sf_key_type_is_order(Oid opfamily);
extern void sf_key_type_install(void);

#endif							/* SF_PLANNER_HOOK_H */
