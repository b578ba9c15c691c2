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

extern bool sf_node_conflicts_find(Oid relation, const char *name, uint32 node,
								   int64 mark_ms, int nrows, bool *found,
								   int64 *id);

#endif							/* SF_NODE_CONFLICTS_H */
