/*-------------------------------------------------------------------------
 *
 * planner_hook.h
 *	  Planning of conditions on the time of an ID as conditions on the ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PLANNER_HOOK_H
#define SF_PLANNER_HOOK_H

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

extern void sf_planner_hook_install(void);

/* key_type.c */
extern bool sf_key_type_is_order(Oid opfamily);
extern void sf_key_type_install(void);

/* time_clause.c */
extern bool sf_time_clause_may_be(Node *clause);
extern List *sf_time_clause_replace(PlannerInfo *root, Node *clause);
extern void sf_time_clause_verify(const PlannedStmt *plan);

/* time_index.c */
extern bool sf_time_index_serves(PlannerInfo *root, FuncExpr *call);
extern bool sf_time_index_has_column(PlannerInfo *root, Node *node);

#endif							/* SF_PLANNER_HOOK_H */
