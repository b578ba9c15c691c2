/*-------------------------------------------------------------------------
 *
 * id_time.h
 *	  The time of an ID, and the IDs on either side of a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ID_TIME_H
#define SF_ID_TIME_H

#include "fmgr.h"
#include "layout/layout.h"
#include "utils/timestamp.h"

typedef enum SfBound
{
	SF_FROM,					/* first ID not before a time */
	SF_AFTER,					/* first ID after a time */
	SF_BEFORE,					/* last ID before a time */
	SF_UNTIL					/* last ID not after a time */
} SfBound;

extern int64 sf_id_time_tick_ms(const SfLayout *layout, int64 tick);
extern TimestampTz sf_id_time_of(const SfLayout *layout, int64 id);
extern void sf_id_time_refuse(const SfLayout *layout, const char *hint);
extern int64 sf_id_time_require_tick(const SfLayout *layout, TimestampTz time,
									 const char *hint);
extern bool sf_id_time_bound(const SfLayout *layout, SfBound bound,
							 TimestampTz time, int64 *id);
extern const char *sf_id_time_side(SfBound bound);

/* functions in conditions, and those that replace them in plans */
extern PGDLLEXPORT Datum snowflake_timestamp(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_bound(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_is_at(PG_FUNCTION_ARGS);

#endif							/* SF_ID_TIME_H */
