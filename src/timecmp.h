/*-------------------------------------------------------------------------
 *
 * timecmp.h
 *	  A comparison of the time of an ID with another, and what it is as a
 *	  comparison of the ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIMECMP_H
#define SF_TIMECMP_H

#include "nodes/pathnodes.h"

extern bool sf_timecmp_may_be(Node *clause);
extern List *sf_timecmp_replace(PlannerInfo *root, Node *clause);

#endif							/* SF_TIMECMP_H */
