/*-------------------------------------------------------------------------
 *
 * original.h
 *	  The record of whose data these are, which all copies have; and whether
 *	  that server is seen running.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ORIGINAL_H
#define SF_ORIGINAL_H

/* Node ids are + 1 here: 0 is none, or a leased one. */
typedef struct SfOriginal
{
	uint32		magic;
	uint32		node;			/* the last that it had */
	uint32		node_in_use;	/* in the life that wrote it */
	char		path[MAXPGPATH];	/* of the data directory */
} SfOriginal;

extern bool sf_original_read(SfOriginal *original);
extern bool sf_original_write(uint32 node, uint32 last_node, int elevel);
extern bool sf_original_is_us(const SfOriginal *original, uint32 node);
extern uint32 sf_original_running_node(const SfOriginal *original);

#endif							/* SF_ORIGINAL_H */
