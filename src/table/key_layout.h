/*-------------------------------------------------------------------------
 *
 * key_layout.h
 *	  The layout of the IDs that a column's default makes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_KEY_LAYOUT_H
#define SF_KEY_LAYOUT_H

#include "access/attnum.h"
#include "layout/layout.h"
#include "nodes/pg_list.h"

typedef struct SfKeyLayout
{
	SfLayout	layout;			/* unset without shared memory, unless it has
								 * a name */
	bool		is_shard;
	bool		is_hidden;		/* no literal, or two layouts */
	const char *name;			/* as in the default; NULL: configured */
} SfKeyLayout;

extern bool sf_key_layout_find(SfKeyLayout *key, Oid relation,
							   AttrNumber number);
extern void sf_key_layout_require_shown(const SfKeyLayout *key, Oid relation);
extern bool sf_key_layout_is_used(const SfLayout *layout);

/* id_maker.c */

typedef enum SfIdMaker
{
	SF_MAKES_NO_IDS,
	SF_MAKES_NODE_IDS,
	SF_MAKES_SHARD_IDS
} SfIdMaker;

extern SfIdMaker sf_id_maker(Oid function);
extern List *sf_id_makers(void);

#endif							/* SF_KEY_LAYOUT_H */
