/*-------------------------------------------------------------------------
 *
 * node_conflicts.c
 *	  Search for IDs in a table that carry this server's node, although it
 *	  cannot have issued them: another server has the same node id.
 *
 * A server knows for certain only the last position that it has issued.  So it
 * finds IDs above that; earlier IDs of the other server look like its own.
 *
 * The table is read with the caller's rights, and without running its owner's
 * code: see access.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/attnum.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "mark/mark.h"
#include "parser/parse_coerce.h"
#include "runtime/shmem.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* No right clock is so far ahead of another. */
#define FAR_MS	(INT64CONST(24) * 3600 * 1000)

SF_FUNCTION(snowflake_node_conflicts);

/* ---- arguments ---- */

static void
require_not_null(FunctionCallInfo fcinfo)
{
	for (int i = 0; i < 3; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("relation, key and max_rows must not be null"),
					 errhint("Give each of them a value.")));
	}
	if (PG_GETARG_INT32(2) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be at least 1"),
				 errhint("Leave it out for 100 rows.")));
}

/* Throw SQLSTATE 42P01, 42809 unless it is a table. */
static void
require_table(Oid relation)
{
	char		kind = get_rel_relkind(relation);

	if (kind == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation),
				 errhint("Name a table that is there.")));
	if (kind != RELKIND_PARTITIONED_TABLE && !RELKIND_HAS_TABLE_AM(kind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", get_rel_name(relation)),
				 errhint("For a view, name the table that it reads. Ask about a foreign table on the server that has it.")));
}

/* Throw SQLSTATE 42703, 42804 unless it is a column that can hold IDs. */
static void
require_column(Oid relation, const char *column)
{
	AttrNumber	number = get_attnum(relation, column);

	if (number == InvalidAttrNumber || number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						column, get_rel_name(relation)),
				 errhint("Name the column of the key with key => ...; the default is \"id\".")));
	if (!IsBinaryCoercible(get_atttype(relation, number), INT8OID))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of relation \"%s\" is not of type bigint or snowflake",
						column, get_rel_name(relation)),
				 errhint("Name the column of the key with key => ...; the default is \"id\".")));
}

/* ---- our IDs ---- */

static uint32
find_node(void)
{
	uint64		lease;

	while ((lease = sf_shmem_right()) == 0)
	{
		if (sf_settings_leases())
			sf_lease_wait_refuse();
		sf_node_take();
	}
	return sf_settings_node_of(lease);
}

static uint64
position_of(const SfLayout *layout, int64 id)
{
	return ((uint64) sf_layout_tick(layout, id) << layout->sequence_bits) |
		sf_layout_field(layout, SF_SEQUENCE, id);
}

/*
 * Return the last position issued here in a layout.  If it is not in use yet,
 * it is where its counter will begin: all our IDs in it are of an earlier
 * life.
 */
static uint64
last_issued(const SfLayout *layout)
{
	SfLayout	used;
	uint64		raised;

	for (int i = 0; sf_layout_slot_read(i, &used); i++)
	{
		if (sf_layout_is_same(&used, layout))
			return sf_counter_position(sf_layout_slot_counter(i));
	}
	raised = pg_atomic_read_u64(&sf_shmem->raised_ms) & ~SF_CLOSED;
	return sf_layout_floor_position(layout, (int64) raised);
}

/* ---- the table ---- */

/* The highest IDs that carry our node, or lie far ahead. */
typedef struct Reading
{
	const SfLayout *layout;
	int64		mask;			/* the node's bits */
	int64		node;
	int64		far_id;			/* those above it count for any node */
	uint64		nrows;			/* how many rows of each part to look at */
	int			max_ids;
	int64		nids;			/* may exceed max_ids until they are cut */
	int			nids_of_part;
	int64		room;
	int64	   *ids;
} Reading;

static int
compare_descending(const void *a, const void *b)
{
	int64		first = *(const int64 *) a;
	int64		second = *(const int64 *) b;

	return first == second ? 0 : first < second ? 1 : -1;
}

/* Sort the IDs found, and keep the wanted number. */
static void
keep_highest(Reading *reading)
{
	qsort(reading->ids, reading->nids, sizeof(int64), compare_descending);
	reading->nids = Min(reading->nids, reading->max_ids);
}

static bool
collect(int64 id, uint64 nth, void *arg)
{
	Reading    *reading = arg;

	if (nth == 0)
		reading->nids_of_part = 0;
	if (((id & reading->mask) == reading->node || id > reading->far_id) &&
		sf_layout_fits(reading->layout, id))
	{
		if (reading->nids == reading->room &&
			reading->nids / 2 >= reading->max_ids)
			keep_highest(reading);
		if (reading->nids == reading->room)
		{
			reading->room *= 2;
			reading->ids = repalloc_huge(reading->ids,
										 reading->room * sizeof(int64));
		}
		reading->ids[reading->nids++] = id;
		reading->nids_of_part++;
	}
	return nth + 1 < reading->nrows &&
		reading->nids_of_part < reading->max_ids;
}

/*
 * Read the highest IDs of this node in the table, and return the position
 * above which they are not ours.  The snapshot is older than this look at the
 * counter, so all our IDs in it lie below.  The mark counts if it is not
 * loaded.
 */
static uint64
read_above(SfColumn *column, Reading *reading, uint32 node, int64 mark_ms,
		   bool *complete)
{
	const SfLayout *layout = reading->layout;
	uint64		mask = (UINT64CONST(1) << layout->node_bits) - 1;
	int64		mark_tick = sf_layout_ms_to_tick(layout, mark_ms);
	uint64		last = Max(last_issued(layout),
						   (uint64) mark_tick << layout->sequence_bits);
	int64		tick = (int64) (last >> layout->sequence_bits);

	*complete = true;
	reading->nids = 0;
	/* this server makes no such IDs, or none above */
	if ((node & mask) != node || tick >= layout->end_tick)
		return last;
	reading->mask = (int64) sf_layout_place_node(layout, mask);
	reading->node = (int64) sf_layout_place_node(layout, node);
	reading->room = 64;
	reading->ids = palloc(reading->room * sizeof(int64));
	column->lowest = sf_layout_min_id(layout, Max(tick, layout->epoch_tick));
	column->visit = collect;
	column->arg = reading;
	*complete = sf_column_read(column);
	keep_highest(reading);
	return last;
}

/*
 * Return the last ID that a clock explains, be it another server's: those
 * above it lie more than a day ahead.
 */
static int64
far_id(const SfLayout *layout)
{
	int64		tick = sf_layout_ms_to_tick(layout,
											sf_clock_wall_ms() + FAR_MS) + 1;

	if (tick >= layout->end_tick)
		return PG_INT64_MAX;
	return sf_layout_min_id(layout, Max(tick, layout->epoch_tick)) - 1;
}

/*
 * Find the highest ID in the table that this node cannot have issued, or that
 * lies far ahead, among so many of the highest rows of each partition.  If the
 * default had another layout before, its IDs may lie ahead in this one, and
 * will be made again.
 *
 * The argument is an SfNodeSearch.  The caller has checked that the column is
 * a bigint, and that it may be read.  If the mark is loaded, it is left out,
 * because then the counter tells more.
 */
void
sf_node_conflicts_find(void *arg)
{
	SfNodeSearch *search = arg;
	const SfLayout *layout = search->layout;
	SfColumn	column = {.relation = search->relation, .name = search->name,
	.in_passing = true};
	Reading		reading = {
		.layout = layout, .far_id = far_id(layout), .nrows = search->nrows,
		.max_ids = 1
	};
	uint64		last = read_above(&column, &reading, search->node,
								  search->mark_ms, &search->looked);

	search->found = reading.nids > 0 &&
		position_of(layout, reading.ids[0]) > last;
	if (!search->found)
		return;
	search->id = reading.ids[0];
	search->is_ours = (search->id & reading.mask) == reading.node;
}

/*
 * Return the layout of the column's default, or else the configured one.
 * Throws SQLSTATE 22023 if the default has a layout that cannot be told.
 */
static const SfLayout *
find_layout(SfKeyLayout *key, const SfColumn *column)
{
	AttrNumber	number = get_attnum(column->relation, column->name);

	if (sf_key_layout_find(key, column->relation, number) &&
		!key->is_shard)
		return &key->layout;
	sf_key_layout_require_shown(key);
	return &sf_node_layout;
}

static void
put_row(ReturnSetInfo *result, const SfLayout *layout, int64 id, int64 now_ms)
{
	int64		tick = sf_layout_tick(layout, id);
	bool		is_future = tick > sf_layout_ms_to_tick(layout, now_ms) +
		sf_settings_drift_ticks(layout);
	bool		nulls[3] = {0};
	Datum		values[3];

	values[0] = Int64GetDatum(id);
	values[1] =
		TimestampTzGetDatum(sf_timefmt_from_ms(tick * layout->tick_ms));
	values[2] = CStringGetTextDatum(is_future ?
									"its time has not come yet" :
									"it is above the last one issued here");
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * snowflake_node_conflicts(relation regclass, key name DEFAULT 'id',
 *							max_rows integer DEFAULT 100)
 *		returns rows: an ID, its time, why it cannot be ours
 *
 * Throws SQLSTATE 22004, 22023, 42P01, 42703, 42804, 42809, and the errors of
 * reading the table and of loading the mark.
 */
Datum
snowflake_node_conflicts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SfColumn	column = {0};
	Reading		reading = {.far_id = PG_INT64_MAX, .nrows = PG_UINT64_MAX};
	SfKeyLayout key;
	bool		complete;
	uint64		last;

	sf_require_writable("snowflake_node_conflicts()");
	require_not_null(fcinfo);
	column.relation = PG_GETARG_OID(0);
	column.name = NameStr(*PG_GETARG_NAME(1));
	reading.max_ids = PG_GETARG_INT32(2);
	require_table(column.relation);
	require_column(column.relation, column.name);
	sf_column_require_select(column.relation, column.name);
	/* so that the counter is above all our IDs */
	sf_mark_require();
	reading.layout = find_layout(&key, &column);
	InitMaterializedSRF(fcinfo, 0);

	last = read_above(&column, &reading, find_node(), 0, &complete);
	for (int64 i = 0; i < reading.nids; i++)
	{
		if (position_of(reading.layout, reading.ids[i]) > last)
			put_row(result, reading.layout, reading.ids[i],
					sf_clock_wall_ms());
	}
	return (Datum) 0;
}
