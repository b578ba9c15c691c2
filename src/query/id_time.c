/*-------------------------------------------------------------------------
 *
 * id_time.c
 *	  The time of an ID, and the IDs on either side of a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/message.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "query/query.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"

SF_FUNCTION(snowflake_timestamp);
SF_FUNCTION(snowflake_min_id);
SF_FUNCTION(snowflake_max_id);
SF_FUNCTION(snowflake_bound);
SF_FUNCTION(snowflake_is_at);

/* The operator of a condition on the time that each bound replaces. */
static const char *const sides[] = {
	[SF_FROM] = ">=",
	[SF_AFTER] = ">",
	[SF_BEFORE] = "<",
	[SF_UNTIL] = "<="
};

/* Convert a tick to Unix ms, limited to what int64 can hold. */
int64
sf_id_time_tick_ms(const SfLayout *layout, int64 tick)
{
	int64		ms;

	if (!pg_mul_s64_overflow(tick, layout->tick_ms, &ms))
		return ms;
	return tick < 0 ? PG_INT64_MIN : PG_INT64_MAX;
}

/*
 * Return the start of an ID's tick.  Every bigint has one, and a larger bigint
 * has no earlier one: beyond the range of timestamps it is infinite.
 */
TimestampTz
sf_id_time_of(const SfLayout *layout, int64 id)
{
	int64		tick = sf_layout_tick(layout, id);

	return sf_timefmt_from_ms(sf_id_time_tick_ms(layout, tick));
}

/*
 * snowflake_timestamp(id bigint [, layout text]) returns timestamptz
 *
 * Return the start of an ID's tick, for every bigint: beyond the range of
 * timestamps it is infinite.
 */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);

	PG_RETURN_TIMESTAMPTZ(sf_id_time_of(layout, PG_GETARG_INT64(0)));
}

/* Throw SQLSTATE 22008: a time is outside the layout's life. */
void
sf_id_time_refuse(const SfLayout *layout, const char *hint)
{
	int64		end_ms = sf_id_time_tick_ms(layout, layout->end_tick);

	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp is out of the layout's range"),
			 errdetail("The layout's IDs lie from %s up to, not including, %s.",
					   sf_timefmt_show(layout->epoch_ms),
					   sf_timefmt_show(end_ms)),
			 errhint("%s", hint)));
}

/* Return the tick of a time.  Throws 22008 outside the layout's life. */
int64
sf_id_time_require_tick(const SfLayout *layout, TimestampTz time,
						const char *hint)
{
	int64		tick = 0;

	if (!TIMESTAMP_NOT_FINITE(time))
		tick = sf_layout_ms_to_tick(layout, sf_timefmt_to_ms(time));
	if (TIMESTAMP_NOT_FINITE(time) ||
		tick < layout->epoch_tick || tick >= layout->end_tick)
		sf_id_time_refuse(layout, hint);
	return tick;
}

static int64
bound_tick(const SfLayout *layout, TimestampTz time)
{
	return sf_id_time_require_tick(layout, time,
								   "Leave the bound out, or use one within that range.");
}

/*
 * snowflake_min_id(timestamptz [, layout text]) returns bigint
 *
 * Return the first ID of the tick that holds this time.  Throws SQLSTATE 22008
 * before the epoch and from the layout's end on.
 */
Datum
snowflake_min_id(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	int64		tick = bound_tick(layout, PG_GETARG_TIMESTAMPTZ(0));

	PG_RETURN_INT64(sf_layout_min_id(layout, tick));
}

/* snowflake_max_id(timestamptz [, layout text]): the last ID of that tick */
Datum
snowflake_max_id(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	int64		tick = bound_tick(layout, PG_GETARG_TIMESTAMPTZ(0));

	PG_RETURN_INT64(sf_layout_max_id(layout, tick));
}

/*
 * Find the first ID that is not before a time; return false if there is none.
 * The time may be any value, also one between the last finite timestamp and
 * infinity, as a date can have.
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
		ms = sf_timefmt_to_ms(time - 1) + 1;
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

/* Find the last ID before *id, or the last of all if no *id was found. */
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
 * Find the first or the last bigint whose snowflake_timestamp() is on one side
 * of a time; return false if there is none.
 */
bool
sf_id_time_bound(const SfLayout *layout, SfBound bound, TimestampTz time,
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
 * Convert a date or a timestamp without time zone as the server compares it
 * with a timestamptz: beyond the finite values, it still lies between the
 * infinite ones.
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

/* Return an argument of one of the types that stand for a time. */
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

const char *
sf_id_time_side(SfBound bound)
{
	return sides[bound];
}

/* Return the bound that argument n names by operator.  SQLSTATE 22023. */
static SfBound
bound_arg(FunctionCallInfo fcinfo, int n)
{
	text	   *side = PG_GETARG_TEXT_PP(n);

	for (size_t i = 0; i < lengthof(sides); i++)
	{
		if (VARSIZE_ANY_EXHDR(side) == strlen(sides[i]) &&
			memcmp(VARDATA_ANY(side), sides[i], strlen(sides[i])) == 0)
			return (SfBound) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a bound has no such side"),
			 errhint("Sides are >=, >, < and <=.")));
}

/*
 * snowflake_internal.bound(side text, at "any" [, layout text]) returns bigint
 *
 * Return the first or the last bigint whose snowflake_timestamp() is on this
 * side ('>=', '>', '<', '<=') of a timestamptz, timestamp or date; NULL if
 * there is none.  Throws SQLSTATE 42804 for other types.  Unlike
 * snowflake_min_id() it throws no error for any time: conditions on
 * snowflake_timestamp() are planned with it.
 */
Datum
snowflake_bound(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 2);
	TimestampTz time = time_arg(fcinfo, 1);
	int64		id;

	if (!sf_id_time_bound(layout, bound_arg(fcinfo, 0), time, &id))
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}

/*
 * snowflake_internal.is_at(id bigint, at "any" [, layout text]) returns boolean:
 * whether snowflake_timestamp(id) equals this time
 */
Datum
snowflake_is_at(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 2);

	PG_RETURN_BOOL(sf_id_time_of(layout, PG_GETARG_INT64(0)) ==
				   time_arg(fcinfo, 1));
}
