/*-------------------------------------------------------------------------
 *
 * original.h
 *	  The primary record, which says which server owns the data and which every
 *	  copy has; and whether that server is seen running.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ORIGINAL_H
#define SF_ORIGINAL_H

#include "layout/server_number.h"

/* A leased node id is SF_NO_NUMBER here. */
typedef struct SfOriginal
{
	uint32		magic;
	SfServerNumber node;		/* the last one that it had */
	SfServerNumber node_in_use; /* in the life that wrote the record */
	char		path[MAXPGPATH];	/* of the data directory */
	char		copied_from[MAXPGPATH]; /* of which this is a copy that got
										 * another node id; or empty */
} SfOriginal;

extern bool sf_original_read(SfOriginal *original);
extern bool sf_original_write(SfServerNumber node, SfServerNumber last_node,
							  const char *copied_from, int elevel);
extern bool sf_original_is_us(const SfOriginal *original,
							  SfServerNumber node);
extern SfServerNumber sf_original_running_node(const char *directory);

#endif							/* SF_ORIGINAL_H */
