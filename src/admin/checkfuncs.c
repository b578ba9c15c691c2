/*-------------------------------------------------------------------------
 *
 * checkfuncs.c
 *	  SQL function that shows the clock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "base/clock.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/lease_wait.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

SF_FUNCTION(snowflake_clock);

static Datum
interval_from_us(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/*
 * snowflake_clock() returns a row: the wall clock; the kernel's opinion
 * whether it is synchronized, and its largest error, NULL if unknown; and how
 * far it is ahead of the registry's, NULL without a registry.
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
	if (sf_shmem != NULL && sf_settings_leases())
	{
		SfLeaseStatus status;

		sf_lease_wait_status(&status);
		values[4] = interval_from_us(status.offset_ms * 1000);
		nulls[4] = !status.clock_known;
	}
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}
