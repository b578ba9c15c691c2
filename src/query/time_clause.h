/*-------------------------------------------------------------------------
 *
 * time_clause.h
 *	  Replacement of a comparison of an ID's time by one of the ID itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIME_CLAUSE_H
#define SF_TIME_CLAUSE_H

#include "nodes/pathnodes.h"

extern bool sf_time_clause_may_be(Node *clause);
extern List *sf_time_clause_replace(PlannerInfo *root, Node *clause);

#endif							/* SF_TIME_CLAUSE_H */
