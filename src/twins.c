/*-------------------------------------------------------------------------
 *
 * twins.c
 *	  IDs in a table that carry this server's node, and that it cannot have
 *	  issued: another server has the same node id.
 *
 * All that a server knows for certain is the last position that it has issued.
 * So what is found lies above that; what a twin has made before is there as if
 * it were ours.
 *
 * The table is read with the caller's rights, like by any query of his.  Its
 * snapshot is older than the second look at the counter, so whatever of ours
 * is in it lies below that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "twins.h"

#include "access/attnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "clock.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "leased.h"
#include "mark.h"
#include "node.h"
#include "settings.h"
#include "times.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_twins);

/* ---- arguments ---- */

static void
require_not_null(FunctionCallInfo fcinfo)
{
	for (int i = 0; i < 3; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("relation, column and max_rows must not be null")));
	}
	if (PG_GETARG_INT32(2) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must be at least 1")));
}

/* SQLSTATE 42P01 */
static void
refuse_missing(Oid relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relation)));
}

/* SQLSTATE 42P01, 42809 */
static void
require_table(Oid relation)
{
	char		kind = get_rel_relkind(relation);

	if (kind == '\0')
		refuse_missing(relation);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
		kind != RELKIND_MATVIEW && kind != RELKIND_VIEW &&
		kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or view",
						get_rel_name(relation))));
}

/* SQLSTATE 42703, 42804 */
static void
require_column(Oid relation, const char *column)
{
	AttrNumber	number = get_attnum(relation, column);

	if (number == InvalidAttrNumber || number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						column, get_rel_name(relation))));
	if (getBaseType(get_atttype(relation, number)) != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of relation \"%s\" is not of type bigint",
						column, get_rel_name(relation))));
}

/* ---- what is ours ---- */

/* The bits of our node, in place. */
static int64
find_node(void)
{
	uint64		lease;

	while ((lease = pg_atomic_read_u64(&sf_state->lease)) == 0)
	{
		if (sf_settings_leases())
			sf_leased_refuse();
		sf_node_take();
	}
	return (int64) sf_layout_place_node(&sf_node_layout,
										sf_settings_node_of(lease));
}

static uint64
position_of(int64 id)
{
	return ((uint64) sf_layout_tick(&sf_node_layout, id) <<
			sf_node_layout.sequence_bits) |
		sf_layout_field(&sf_node_layout, SF_SEQUENCE, id);
}

/* ---- the table ---- */

/*
 * The highest first, so that what is ours after all comes last.  With nrows,
 * only of so many of the highest rows of whomever.
 */
static void
read_table(Oid relation, const char *column, int64 lowest, int64 node,
		   int32 max_rows, int nrows)
{
	const SfLayout *layout = &sf_node_layout;
	uint64		mask = (UINT64CONST(1) << layout->node_bits) - 1;
	Oid			schema = get_rel_namespace(relation);
	const char *name = quote_identifier(column);
	char	   *table = get_rel_name(relation);
	Oid			types[] = {INT8OID, INT8OID, INT8OID, INT8OID};
	Datum		values[] = {
		Int64GetDatum(lowest),
		Int64GetDatum((int64) sf_layout_place_node(layout, mask)),
		Int64GetDatum(node), Int64GetDatum(max_rows)
	};
	const char *source;
	char	   *query;

	/* who has no lock on it may find it gone */
	if (table == NULL)
		refuse_missing(relation);
	source = quote_qualified_identifier(get_namespace_name(schema), table);
	if (nrows > 0)
		source = psprintf("(SELECT %s FROM %s"
						  " WHERE %s OPERATOR(pg_catalog.>=) $1"
						  " ORDER BY %s DESC LIMIT %d) AS highest",
						  name, source, name, name, nrows);
	query = psprintf("SELECT %s FROM %s"
					 " WHERE %s OPERATOR(pg_catalog.>=) $1"
					 " AND (%s OPERATOR(pg_catalog.&) $2)"
					 " OPERATOR(pg_catalog.=) $3"
					 " ORDER BY %s DESC LIMIT $4",
					 name, source, name, name, name);
	if (SPI_execute_with_args(query, lengthof(types), types, values, NULL,
							  true, 0) != SPI_OK_SELECT)
		elog(ERROR, "table could not be read");
}

/* Likewise; returns the position above which they are not ours. */
static uint64
read_above(Oid relation, const char *column, int64 node, int32 max_rows,
		   int nrows)
{
	const SfLayout *layout = &sf_node_layout;
	int64		tick = (int64) (sf_state_last_position() >>
								layout->sequence_bits);
	int64		lowest = sf_layout_min_id(layout,
										  Max(tick, layout->epoch_tick));

	read_table(relation, column, lowest, node, max_rows, nrows);
	pg_read_barrier();
	return sf_state_last_position();
}

/*
 * The highest ID in the table that this node cannot have issued, if there is
 * one among so many of the highest rows.  For who has seen to it that the
 * mark is loaded, and that the column is a bigint.  Throws what reading the
 * table throws.
 */
bool
sf_twins_find(Oid relation, const char *column, uint32 node, int nrows,
			  int64 *id)
{
	int64		bits = (int64) sf_layout_place_node(&sf_node_layout, node);
	uint64		last;
	bool		found = false;

	SPI_connect();
	last = read_above(relation, column, bits, 1, nrows);
	if (SPI_processed > 0)
	{
		bool		isnull;

		*id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
										  SPI_tuptable->tupdesc, 1, &isnull));
		found = position_of(*id) > last;
	}
	SPI_finish();
	return found;
}

static void
put_row(ReturnSetInfo *result, int64 id, int64 now_ms)
{
	const SfLayout *layout = &sf_node_layout;
	int64		tick = sf_layout_tick(layout, id);
	bool		is_future = tick > sf_layout_ms_to_tick(layout, now_ms) +
		sf_settings_drift_ticks(layout);
	bool		nulls[3] = {0};
	Datum		values[3];

	values[0] = Int64GetDatum(id);
	values[1] = TimestampTzGetDatum(sf_times_from_ms(tick * layout->tick_ms));
	values[2] = CStringGetTextDatum(is_future ?
									"its time has not come yet" :
									"it is above the last one issued here");
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * snowflake_twins(relation regclass, "column" name DEFAULT 'id',
 *				   max_rows integer DEFAULT 100)
 *		returns rows: an ID, its time, why it cannot be ours
 *
 * Throws SQLSTATE 22004, 22023, 42P01, 42703, 42804, 42809, what reading the
 * table throws, and what loading the mark does.
 */
Datum
snowflake_twins(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relation;
	const char *column;
	uint64		last;
	int64		node;

	sf_guard_writable("snowflake_twins()");
	require_not_null(fcinfo);
	relation = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));
	require_table(relation);
	require_column(relation, column);
	/* so that the counter is above all that is ours */
	sf_mark_require(fcinfo->flinfo->fn_oid);
	node = find_node();
	InitMaterializedSRF(fcinfo, 0);

	SPI_connect();
	last = read_above(relation, column, node, PG_GETARG_INT32(2), 0);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		int64		id;

		id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i],
										 SPI_tuptable->tupdesc, 1, &isnull));
		if (position_of(id) > last)
			put_row(result, id, sf_clock_wall_ms());
	}
	SPI_finish();
	return (Datum) 0;
}
