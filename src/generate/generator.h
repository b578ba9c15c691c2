/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Makes positions and IDs, one by one and in ranges.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_GENERATOR_H
#define SF_GENERATOR_H

#include "fmgr.h"
#include "layout/layout.h"

/* IDs that a caller has taken and not used yet. */
typedef struct SfIdRange
{
	const SfLayout *layout;
	int64		next;			/* the next position */
	int64		last;			/* the last, inclusive */
	int64		maker;			/* bits of the node or shard, as in an ID */
} SfIdRange;

extern int	sf_generator_slot_of(const SfLayout *layout);
extern int64 sf_generator_next_node(void);
extern int64 sf_generator_next(int slot);
extern int64 sf_generator_next_shard(uint32 shard);
extern void sf_generator_take(SfIdRange *range, int shard, int slot,
							  int64 want);
extern void sf_generator_probe(int slot);

/* functions that the default of a column may call */
extern PGDLLEXPORT Datum snowflake_next_id(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_nextval_layout(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_shard_nextval(PG_FUNCTION_ARGS);

#endif							/* SF_GENERATOR_H */
