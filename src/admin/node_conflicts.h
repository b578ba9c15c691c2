/*-------------------------------------------------------------------------
 *
 * node_conflicts.h
 *	  Search for IDs in a table that carry this server's node, although it
 *	  cannot have issued them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NODE_CONFLICTS_H
#define SF_NODE_CONFLICTS_H

#include "layout/layout.h"

typedef struct SfNodeConflict
{
	bool		found;
	bool		is_ours;		/* it carries our node; else it is far ahead */
	int64		id;
} SfNodeConflict;

extern bool sf_node_conflicts_find(Oid relation, const char *name,
								   const SfLayout *layout, uint32 node,
								   int64 mark_ms, int nrows,
								   SfNodeConflict *conflict);

#endif							/* SF_NODE_CONFLICTS_H */
