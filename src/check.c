/*-------------------------------------------------------------------------
 *
 * check.c
 *	  The SQL functions about what is looked at besides: the clock, and where
 *	  the data directory comes from.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "clock.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "identity.h"
#include "leased.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

SF_FUNCTION(snowflake_clock);
SF_FUNCTION(snowflake_accept_copy);

static Datum
interval_from_us(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/*
 * snowflake_clock() returns a row: the wall clock; whether somebody keeps it
 * right, and how wrong it can be, as the kernel says, NULL where it does not;
 * and how far it is ahead of the registry's, NULL where there is none.
 */
Datum
snowflake_clock(PG_FUNCTION_ARGS)
{
	Datum		values[5] = {0};
	bool		nulls[5] = {false, true, true, true, true};
	TupleDesc	tupdesc;
	SfClockSync sync;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (sf_clock_read_sync(&sync) == 0)
	{
		values[1] = BoolGetDatum(sync.synchronized);
		values[2] = interval_from_us(sync.max_error_us);
		values[3] = interval_from_us(sync.estimated_error_us);
		nulls[1] = nulls[2] = nulls[3] = false;
	}
	if (sf_state != NULL && sf_settings_leases())
	{
		SfLeaseStatus status;

		sf_leased_status(&status);
		values[4] = interval_from_us(status.offset_ms * 1000);
		nulls[4] = !status.clock_known;
	}
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * snowflake_accept_copy() returns void
 *
 * No other server has this data any more.  Throws SQLSTATE 58030 and the like
 * where that cannot be written down.
 */
Datum
snowflake_accept_copy(PG_FUNCTION_ARGS)
{
	sf_guard_writable("snowflake_accept_copy()");
	if (sf_identity_is_copy())
		sf_identity_accept();
	else
		ereport(NOTICE,
				(errmsg("nothing to accept: this data directory is no copy, or one that may do what it does")));
	PG_RETURN_VOID();
}
