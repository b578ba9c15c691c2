/*-------------------------------------------------------------------------
 *
 * statfuncs.c
 *	  SQL functions that show and reset the counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "base/clock.h"
#include "base/message.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mark/mark.h"
#include "runtime/layout_slot.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_stat_get);
SF_FUNCTION(snowflake_stat_layouts);
SF_FUNCTION(snowflake_stat_reset);

#define PRESENT_COLUMNS	6		/* after the sums and peaks */

/* Return true if a sum is in microseconds. */
static bool
is_time(SfStat stat)
{
	return stat == SF_STAT_SEQUENCE_WAIT_US || stat == SF_STAT_CLOCK_WAIT_US ||
		stat == SF_STAT_MARK_WAIT_US || stat == SF_STAT_LEASE_WAIT_US ||
		stat == SF_STAT_EXTENSION_US;
}

static void
put_time(Datum *value, bool *is_null, int64 unix_ms)
{
	*is_null = unix_ms == 0;
	*value = TimestampTzGetDatum(sf_timefmt_from_ms(unix_ms));
}

/* Set the values of now: drift, mark, last timestamp, layout ends, reset. */
static void
put_present(Datum *values, bool *nulls)
{
	const SfLayout *layout = &sf_node_layout;
	int64		tick = (int64) (sf_shmem_last_position() >>
								layout->sequence_bits);
	int64		last_ms = tick * layout->tick_ms;

	values[0] = Float8GetDatum((double) Max(last_ms - sf_clock_wall_ms(), 0));
	put_time(&values[1], &nulls[1], sf_db_slot_published_mark());
	put_time(&values[2], &nulls[2], last_ms);
	put_time(&values[3], &nulls[3], layout->end_tick * layout->tick_ms);
	put_time(&values[4], &nulls[4],
			 sf_shard_layout.end_tick * sf_shard_layout.tick_ms);
	put_time(&values[5], &nulls[5],
			 (int64) pg_atomic_read_u64(&sf_shmem->stats.reset_ms));
}

/*
 * snowflake_internal.stat_get() returns a row: see pg_stat_snowflake.  Throws
 * SQLSTATE 55000 (not preloaded).
 */
Datum
snowflake_stat_get(PG_FUNCTION_ARGS)
{
	Datum		values[SF_STATS + SF_PEAKS + PRESENT_COLUMNS];
	bool		nulls[SF_STATS + SF_PEAKS + PRESENT_COLUMNS] = {0};
	SfStats    *stats;
	TupleDesc	tupdesc;
	int			n = 0;

	sf_require_loaded();
	stats = &sf_shmem->stats;
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(tupdesc->natts == lengthof(values));
	for (int i = 0; i < SF_STATS; i++, n++)
	{
		int64		sum = (int64) pg_atomic_read_u64(&stats->sum[i]);

		values[n] = is_time(i) ? Float8GetDatum(sum / 1000.0) :
			Int64GetDatum(sum);
	}
	for (int i = 0; i < SF_PEAKS; i++, n++)
	{
		int64		peak = (int64) pg_atomic_read_u64(&stats->peak[i]);

		values[n] = Float8GetDatum((double) peak);
		if (i == SF_PEAK_STEP_AT_MS)
			put_time(&values[n], &nulls[n], peak);
	}
	put_present(&values[n], &nulls[n]);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/* Return how many IDs were made in the layout of a slot. */
static int64
ids_of(int slot)
{
	int64		ids;

	if (slot > 0)
		return (int64) pg_atomic_read_u64(&sf_layout_slots[slot].layout.ids);
	ids = (int64) pg_atomic_read_u64(&sf_shmem->stats.sum[SF_STAT_NODE_IDS]);
	for (int i = 1; i < sf_layout_slots_used(); i++)
		ids -= ids_of(i);
	return Max(ids, 0);			/* a transaction may be adding its counts */
}

/*
 * snowflake_internal.stat_layouts() returns setof record
 *
 * One row for each layout in use: see pg_stat_snowflake_layouts.  Throws
 * SQLSTATE 55000 (not preloaded).
 */
Datum
snowflake_stat_layouts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfLayout	layout;

	sf_require_loaded();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		pg_atomic_uint64 *counter = sf_layout_slot_counter(i);
		uint64		position = sf_counter_position(counter);
		int64		tick = (int64) (position >> layout.sequence_bits);
		char		spelled[SF_LAYOUT_TEXT_SIZE];
		Datum		values[4];
		bool		nulls[4] = {0};

		sf_layout_print(&layout, spelled, sizeof(spelled));
		values[0] = CStringGetTextDatum(spelled);
		values[1] = Int64GetDatum(ids_of(i));
		put_time(&values[2], &nulls[2],
				 tick < layout.epoch_tick ? 0 : tick * layout.tick_ms);
		put_time(&values[3], &nulls[3], layout.end_tick * layout.tick_ms);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}

/*
 * snowflake_stat_reset() returns void
 *
 * Set the counts to zero.  Running transactions add their counts at their end.
 */
Datum
snowflake_stat_reset(PG_FUNCTION_ARGS)
{
	SfStats    *stats;

	sf_require_loaded();
	stats = &sf_shmem->stats;
	for (int i = 0; i < SF_STATS; i++)
		pg_atomic_write_u64(&stats->sum[i], 0);
	for (int i = 0; i < SF_PEAKS; i++)
		pg_atomic_write_u64(&stats->peak[i], 0);
	for (int i = 1; i < sf_layout_slots_used(); i++)
		pg_atomic_write_u64(&sf_layout_slots[i].layout.ids, 0);
	pg_atomic_write_u64(&stats->reset_ms, sf_clock_wall_ms());
	pg_atomic_write_u64(&stats->since_ms, sf_clock_monotonic_ms());
	pg_atomic_write_u64(&stats->refused_ms, 0);
	PG_RETURN_VOID();
}
