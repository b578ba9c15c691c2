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

extern bool sf_twins_find(Oid relation, const char *column, uint32 node,
						  int nrows, int64 *id);

#endif							/* SF_TWINS_H */
