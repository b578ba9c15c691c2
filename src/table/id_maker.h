/*-------------------------------------------------------------------------
 *
 * id_maker.h
 *	  The functions that make IDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ID_MAKER_H
#define SF_ID_MAKER_H

#include "nodes/pg_list.h"

typedef enum SfIdMaker
{
	SF_MAKES_NO_IDS,
	SF_MAKES_NODE_IDS,
	SF_MAKES_SHARD_IDS
} SfIdMaker;

extern SfIdMaker sf_id_maker(Oid function);
extern List *sf_id_makers(void);

#endif							/* SF_ID_MAKER_H */
