/*-------------------------------------------------------------------------
 *
 * idtime.c
 *	  The time of an ID, and the IDs on either side of a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "idtime.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "layout_arg.h"
#include "times.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"

SF_FUNCTION(snowflake_timestamp);
SF_FUNCTION(snowflake_min_id);
SF_FUNCTION(snowflake_max_id);
SF_FUNCTION(snowflake_id_from);
SF_FUNCTION(snowflake_id_after);
SF_FUNCTION(snowflake_id_before);
SF_FUNCTION(snowflake_id_until);
SF_FUNCTION(snowflake_id_at);

/* The layout's milliseconds may exceed int64: saturate. */
int64
sf_idtime_tick_ms(const SfLayout *layout, int64 tick)
{
	int64		ms;

	if (!pg_mul_s64_overflow(tick, layout->tick_ms, &ms))
		return ms;
	return tick < 0 ? PG_INT64_MIN : PG_INT64_MAX;
}

/*
 * When the tick of an ID began.  Total and monotone over all of bigint: beyond
 * what a timestamp can hold it is infinite.
 */
TimestampTz
sf_idtime_of(const SfLayout *layout, int64 id)
{
	int64		tick = sf_layout_tick(layout, id);

	return sf_times_from_ms(sf_idtime_tick_ms(layout, tick));
}

/*
 * snowflake_timestamp(id bigint [, layout text]) returns timestamptz
 *
 * When an ID's tick began.  Total and monotone over all of bigint: beyond
 * what a timestamp can hold it is infinite.
 */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);

	PG_RETURN_TIMESTAMPTZ(sf_idtime_of(layout, PG_GETARG_INT64(0)));
}

/* The tick that holds a time, which must be within the layout's life. */
static int64
require_tick(const SfLayout *layout, TimestampTz time)
{
	int64		end_ms = sf_idtime_tick_ms(layout, layout->end_tick);
	int64		tick = 0;

	if (!TIMESTAMP_NOT_FINITE(time))
		tick = sf_layout_ms_to_tick(layout, sf_times_to_ms(time));
	if (TIMESTAMP_NOT_FINITE(time) ||
		tick < layout->epoch_tick || tick >= layout->end_tick)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp is out of the layout's range"),
				 errdetail("The layout's IDs lie from %s up to, not including, %s.",
						   sf_times_show(layout->epoch_ms),
						   sf_times_show(end_ms)),
				 errhint("Leave the bound out, or use one within that range.")));
	return tick;
}

/*
 * snowflake_min_id(timestamptz [, layout text]) returns bigint
 *
 * The first ID of the tick that holds this time.  Throws SQLSTATE 22008
 * before the epoch and from the layout's end on.
 */
Datum
snowflake_min_id(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	int64		tick = require_tick(layout, PG_GETARG_TIMESTAMPTZ(0));

	PG_RETURN_INT64(sf_layout_min_id(layout, tick));
}

/* snowflake_max_id(timestamptz [, layout text]): the last ID of that tick */
Datum
snowflake_max_id(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	int64		tick = require_tick(layout, PG_GETARG_TIMESTAMPTZ(0));

	PG_RETURN_INT64(sf_layout_max_id(layout, tick));
}

/*
 * The first ID that is not before a time; false if there is none.  Any value
 * is a time, also one between the last finite timestamp and infinity.
 */
static bool
first_from(const SfLayout *layout, TimestampTz time, int64 *id)
{
	int64		first = PG_INT64_MIN >> layout->low_bits;
	int64		last = PG_INT64_MAX >> layout->low_bits;
	int64		ms;
	int64		tick;

	if (time != DT_NOBEGIN)
	{
		/* round up, to a millisecond and to a tick */
		time = Max(MIN_TIMESTAMP, Min(time, END_TIMESTAMP));
		ms = sf_times_to_ms(time - 1) + 1;
		tick = sf_layout_ms_to_tick(layout, ms - 1) + 1;
		if (tick - layout->epoch_tick > last)
			return false;
		first = Max(first, tick - layout->epoch_tick);
	}
	*id = (int64) ((uint64) first << layout->low_bits);
	return true;
}

static bool
first_after(const SfLayout *layout, TimestampTz time, int64 *id)
{
	return time != DT_NOEND && first_from(layout, time + 1, id);
}

/* The last ID before another, which may be none: then of all. */
static bool
last_before(bool found, int64 *id)
{
	if (!found)
		*id = PG_INT64_MAX;
	else if (*id == PG_INT64_MIN)
		return false;
	else
		(*id)--;
	return true;
}

/*
 * The bound of all bigints whose snowflake_timestamp() is at or after, after,
 * before, or at or before a time; false if there are none.
 */
bool
sf_idtime_bound(const SfLayout *layout, SfBound bound, TimestampTz time,
				int64 *id)
{
	switch (bound)
	{
		case SF_FROM:
			return first_from(layout, time, id);
		case SF_AFTER:
			return first_after(layout, time, id);
		case SF_BEFORE:
			return last_before(first_from(layout, time, id), id);
		case SF_UNTIL:
			return last_before(first_after(layout, time, id), id);
	}
	pg_unreachable();
}

/*
 * Dates and timestamps without time zone, as the server compares them with a
 * timestamptz: beyond the finite ones they still lie within the infinite ones.
 */
static TimestampTz
date_to_time(DateADT date)
{
	Datum		time;

	if (DATE_IS_NOEND(date))
		return DT_NOEND;
	if (DATE_IS_NOBEGIN(date))
		return DT_NOBEGIN;
	if (date_cmp_timestamptz_internal(date, END_TIMESTAMP - 1) > 0)
		return END_TIMESTAMP;
	if (date_cmp_timestamptz_internal(date, MIN_TIMESTAMP) < 0)
		return MIN_TIMESTAMP - 1;
	time = DirectFunctionCall1(date_timestamptz, DateADTGetDatum(date));
	return DatumGetTimestampTz(time);
}

static TimestampTz
timestamp_to_time(Timestamp timestamp)
{
	Datum		time;

	if (TIMESTAMP_NOT_FINITE(timestamp))
		return timestamp;
	if (timestamp_cmp_timestamptz_internal(timestamp, END_TIMESTAMP - 1) > 0)
		return END_TIMESTAMP;
	if (timestamp_cmp_timestamptz_internal(timestamp, MIN_TIMESTAMP) < 0)
		return MIN_TIMESTAMP - 1;
	time = DirectFunctionCall1(timestamp_timestamptz,
							   TimestampGetDatum(timestamp));
	return DatumGetTimestampTz(time);
}

/* An argument of these types, all of which stand for a time. */
static TimestampTz
time_arg(FunctionCallInfo fcinfo, int n)
{
	switch (get_fn_expr_argtype(fcinfo->flinfo, n))
	{
		case TIMESTAMPTZOID:
			return PG_GETARG_TIMESTAMPTZ(n);
		case TIMESTAMPOID:
			return timestamp_to_time(PG_GETARG_TIMESTAMP(n));
		case DATEOID:
			return date_to_time(PG_GETARG_DATEADT(n));
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("this argument must be a time"),
			 errhint("Cast it to timestamptz, timestamp or date.")));
}

static Datum
return_bound(FunctionCallInfo fcinfo, SfBound bound)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	TimestampTz time = time_arg(fcinfo, 0);
	int64		id;

	if (!sf_idtime_bound(layout, bound, time, &id))
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}

/*
 * snowflake_id_from("any" [, layout text]) returns bigint: the first bigint
 * whose snowflake_timestamp() is at or after a timestamptz, timestamp or date;
 * NULL if there is none.  Throws SQLSTATE 42804 for other types.  Total, other
 * than snowflake_min_id(): conditions on snowflake_timestamp() are planned
 * with these four.
 */
Datum
snowflake_id_from(PG_FUNCTION_ARGS)
{
	return return_bound(fcinfo, SF_FROM);
}

/* the first one that is after it */
Datum
snowflake_id_after(PG_FUNCTION_ARGS)
{
	return return_bound(fcinfo, SF_AFTER);
}

/* the last one that is before it */
Datum
snowflake_id_before(PG_FUNCTION_ARGS)
{
	return return_bound(fcinfo, SF_BEFORE);
}

/* the last one that is at it or before */
Datum
snowflake_id_until(PG_FUNCTION_ARGS)
{
	return return_bound(fcinfo, SF_UNTIL);
}

/*
 * snowflake_id_at(id bigint, "any" [, layout text]) returns boolean: is
 * snowflake_timestamp(id) equal to this time?
 */
Datum
snowflake_id_at(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 2);

	PG_RETURN_BOOL(sf_idtime_of(layout, PG_GETARG_INT64(0)) ==
				   time_arg(fcinfo, 1));
}
