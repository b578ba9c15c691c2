/*-------------------------------------------------------------------------
 *
 * movefuncs.c
 *	  SQL function that moves rows out of a default partition into new ones.
 *
 * The server makes no partition for rows that are in the default partition.
 * So that one is detached, and attached again without the rows.  For that,
 * foreign keys that refer to the table are dropped and made again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"
#include "convert/move.sql.inc"
#include "convert/script.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

SF_FUNCTION(snowflake_empty_default);

/* Return an argument as a literal of its type. */
static char *
literal(FunctionCallInfo fcinfo, int n, PGFunction out)
{
	Datum		text = DirectFunctionCall1(out, PG_GETARG_DATUM(n));

	return quote_literal_cstr(DatumGetCString(text));
}

/* Throw SQLSTATE 55000 unless the column has a default partition. */
static void
require_default_partition(const SfConversion *conversion)
{
	if (sf_conversion_ask(conversion, SQL_DEFAULT_PARTITION) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s has no default partition, or is not partitioned by %s",
						conversion->table, conversion->column),
				 errhint("See its partitions: SELECT * FROM snowflake_partitions(%s::regclass, NULL);",
						 quote_literal_cstr(conversion->table))));
}

/* Throw SQLSTATE 42501: only their owners can drop foreign keys. */
static void
refuse_foreign_keys_of_others(const SfConversion *conversion)
{
	char	   *drop = sf_conversion_ask(conversion,
										 SQL_FOREIGN_KEYS_OF_OTHERS);

	if (drop != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("tables of other owners refer to %s",
						conversion->table),
				 errhint("As the owners of these tables, first run: %s At the end: %s",
						 drop, SPI_getvalue(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 2))));
}

/* Add the statement that makes the partitions, and the one that moves. */
static void
add_move(SfConversion *conversion, FunctionCallInfo fcinfo)
{
	Oid			types[] = {OIDOID, INT2OID, TEXTOID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
		Int16GetDatum(conversion->number),
	CStringGetTextDatum(conversion->schema)};

	sf_conversion_add(conversion,
					  psprintf("SELECT %s.snowflake_create_partitions(%s::regclass, %s::interval, %s::timestamptz, %s::timestamptz, NULL)",
							   conversion->schema,
							   quote_literal_cstr(conversion->table),
							   literal(fcinfo, 2, interval_out),
							   literal(fcinfo, 3, timestamptz_out),
							   literal(fcinfo, 4, timestamptz_out)),
					  NULL, NULL);
	sf_conversion_add(conversion, "SET LOCAL row_security = off", NULL, NULL);
	sf_conversion_path_begin(conversion);
	sf_conversion_add(conversion,
					  sf_conversion_value(SQL_MOVE_ROWS, lengthof(types),
										  types, values),
					  NULL, "fires triggers");
	sf_conversion_path_end(conversion);
}

/*
 * snowflake_empty_default(parent regclass, key name, step interval,
 *						   start timestamptz, until timestamptz,
 *						   dry_run boolean)
 *
 * Make the partitions that snowflake_create_partitions() would make, and move
 * the rows into them that are in the default partition; return one row for
 * each statement.  Throws SQLSTATE 22004, 25000, 25006, 42P01, 42703, 42704,
 * 42804, 42809, 42501, 40001 as snowflake_convert() does, 55000 (no default
 * partition; standard_conforming_strings is off), and for a run the errors of
 * snowflake_create_partitions() and of the statements.
 */
Datum
snowflake_empty_default(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfConversion *conversion;
	bool		dry_run;

	sf_conversion_arguments(fcinfo, 5, "snowflake_empty_default()");
	if (PG_ARGISNULL(2) || PG_ARGISNULL(3) || PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("step, start and until must not be null"),
				 errhint("Give each of them a value.")));
	dry_run = PG_GETARG_BOOL(5);
	SPI_connect();
	conversion = sf_conversion_open(fcinfo,
									sf_conversion_is_snowflake(fcinfo), true);
	conversion->lock_tables = SQL_MOVE_LOCK;
	conversion->other_owners = SQL_MOVE_OTHER_OWNERS;
	conversion->not_one_owner = SQL_MOVE_NOT_ONE_OWNER;
	require_default_partition(conversion);
	refuse_foreign_keys_of_others(conversion);
	sf_conversion_start(conversion, dry_run);
	sf_conversion_query_column(conversion, SQL_MOVE_BEGIN);
	add_move(conversion, fcinfo);
	sf_conversion_query_column(conversion, SQL_MOVE_END);
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
