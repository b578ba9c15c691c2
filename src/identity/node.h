/*-------------------------------------------------------------------------
 *
 * node.h
 *	  The configured node of this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NODE_H
#define SF_NODE_H

#include "layout/layout.h"

extern bool sf_node_find(uint32 *first, uint32 *last,
						 char *reason, size_t reason_size);
extern void sf_node_take_at_start(void);
extern void sf_node_require_fit(const SfLayout *layout, uint32 node);
extern char *sf_node_remedy(void);
extern void sf_node_take(void);
extern bool sf_node_was_leased(void);
extern void sf_node_accept(void);

#endif							/* SF_NODE_H */
