/*-------------------------------------------------------------------------
 *
 * node.h
 *	  The node that the configuration gives this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NODE_H
#define SF_NODE_H

extern void sf_node_take_at_start(void);
extern void sf_node_take(void);

#endif							/* SF_NODE_H */
