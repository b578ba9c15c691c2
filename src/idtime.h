/*-------------------------------------------------------------------------
 *
 * idtime.h
 *	  The time of an ID, and the IDs on either side of a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IDTIME_H
#define SF_IDTIME_H

#include "fmgr.h"
#include "layout.h"
#include "utils/timestamp.h"

typedef enum SfBound
{
	SF_FROM,					/* the first ID that is not before a time */
	SF_AFTER,					/* the first one after it */
	SF_BEFORE,					/* the last one before it */
	SF_UNTIL					/* the last one that is not after it */
} SfBound;

extern int64 sf_idtime_tick_ms(const SfLayout *layout, int64 tick);
extern TimestampTz sf_idtime_of(const SfLayout *layout, int64 id);
extern bool sf_idtime_bound(const SfLayout *layout, SfBound bound,
							TimestampTz time, int64 *id);

/* what conditions are planned from, and what they become */
extern PGDLLEXPORT Datum snowflake_timestamp(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_id_from(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_id_after(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_id_before(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_id_until(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_id_at(PG_FUNCTION_ARGS);

#endif							/* SF_IDTIME_H */
