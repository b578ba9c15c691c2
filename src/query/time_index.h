/*-------------------------------------------------------------------------
 *
 * time_index.h
 *	  Whether a condition on the time of an ID serves an index on that
 *	  expression, or partitions by it, as it stands.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIME_INDEX_H
#define SF_TIME_INDEX_H

#include "nodes/pathnodes.h"

extern bool sf_time_index_serves(PlannerInfo *root, FuncExpr *call);
extern bool sf_time_index_has_column(PlannerInfo *root, Node *node);

#endif							/* SF_TIME_INDEX_H */
