/*-------------------------------------------------------------------------
 *
 * time_index.h
 *	  Does an index on the time of an ID, or partitions by it, serve a
 *	  condition on that time as it stands?
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIME_INDEX_H
#define SF_TIME_INDEX_H

#include "nodes/pathnodes.h"

extern bool sf_time_index_serves(PlannerInfo *root, FuncExpr *call);
extern bool sf_time_index_has_column(PlannerInfo *root, Node *node);

#endif							/* SF_TIME_INDEX_H */
