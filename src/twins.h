/*-------------------------------------------------------------------------
 *
 * twins.h
 *	  IDs in a table that carry this server's node, and that it cannot have
 *	  issued.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TWINS_H
#define SF_TWINS_H

extern bool sf_twins_look(Oid relation, const char *name, uint32 node,
						  int64 mark_ms, int nrows, bool *found, int64 *id);

#endif							/* SF_TWINS_H */
