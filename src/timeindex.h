/*-------------------------------------------------------------------------
 *
 * timeindex.h
 *	  Whether a condition on the time of an ID is of use as it stands: to an
 *	  index on that expression, or to partitions by it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIMEINDEX_H
#define SF_TIMEINDEX_H

#include "nodes/pathnodes.h"

extern bool sf_timeindex_serves(PlannerInfo *root, FuncExpr *call);
extern bool sf_timeindex_has_column(PlannerInfo *root, Node *node);

#endif							/* SF_TIMEINDEX_H */
