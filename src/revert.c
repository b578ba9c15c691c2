/*-------------------------------------------------------------------------
 *
 * revert.c
 *	  The SQL function that gives a column back its sequence, or an identity.
 *
 * Rows keep their IDs, and the column stays bigint: Snowflake IDs fit into
 * nothing less.  What the sequence gives next lies above all of them, or where
 * the caller says; then the sequence ends before the next row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "conversion.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_revert);

/* SQLSTATE 55000 */
static void
require_converted(const SfConversion *conversion, FunctionCallInfo fcinfo)
{
	Oid			types[] = {OIDOID, INT2OID, OIDOID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
		Int16GetDatum(conversion->number),
	ObjectIdGetDatum(fcinfo->flinfo->fn_oid)};

	if (sf_conversion_value("SELECT 'is' FROM pg_attrdef f"
							" JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid"
							"  AND d.refclassid = 'pg_proc'::regclass"
							" JOIN pg_proc p ON p.oid = d.refobjid"
							" JOIN pg_proc o ON o.oid = $3 AND o.pronamespace = p.pronamespace"
							" WHERE f.adrelid = $1 AND f.adnum = $2"
							"  AND p.proname IN ('snowflake_nextval', 'snowflake_shard_nextval')",
							3, types, values) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("default of column %s of %s makes no Snowflake IDs",
						conversion->column, conversion->table),
				 errhint("Name a column that snowflake_convert() has converted.")));
}

/*
 * Where to begin again, and up to where nothing is in the way: above all rows,
 * or where the caller says.  SQLSTATE 22023, 2200H
 */
static int64
find_restart(const SfConversion *conversion, FunctionCallInfo fcinfo,
			 int64 *last)
{
	int64		restart = 0;
	int64		above;

	*last = PG_INT64_MAX;
	if (PG_ARGISNULL(3))
	{
		sf_conversion_number(conversion,
							 sf_conversion_of(conversion, "SELECT greatest(max(%s), 0)::int8 FROM %s"),
							 &restart);
		if (restart == PG_INT64_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
					 errmsg("there is no number above the largest ID"),
					 errhint("Say where to begin: snowflake_revert(..., restart => ...).")));
		return restart + 1;
	}
	restart = PG_GETARG_INT64(3);
	if (restart < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("restart must be at least 1"),
				 errhint("Use a number above the largest of the old IDs.")));
	if (sf_conversion_number(conversion,
							 psprintf("SELECT min(%s)::int8 FROM %s WHERE %s >= " INT64_FORMAT,
									  conversion->column, conversion->table,
									  conversion->column, restart), &above))
	{
		if (above == restart)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("restart is an ID that is there already"),
					 errhint("Use a number above the largest of the old IDs.")));
		*last = above - 1;
	}
	return restart;
}

static void
add_sequence(SfConversion *conversion, const char *identity, int64 start,
			 int64 last)
{
	const char *sequence = sf_conversion_own_sequence(conversion);
	const char *note = last == PG_INT64_MAX ? NULL :
		psprintf("the next row is at " INT64_FORMAT, last + 1);
	const char *limit = last == PG_INT64_MAX ? "NO MAXVALUE" :
		psprintf("MAXVALUE " INT64_FORMAT, last);

	if (identity != NULL)
	{
		sf_conversion_alter(conversion, "DROP DEFAULT", NULL);
		sf_conversion_alter(conversion,
							psprintf("ADD GENERATED %s AS IDENTITY (START WITH " INT64_FORMAT " %s)",
									 identity, start, limit), note);
	}
	else if (sequence != NULL)
	{
		sf_conversion_add(conversion,
						  psprintf("ALTER SEQUENCE %s AS bigint %s RESTART WITH " INT64_FORMAT,
								   sequence, limit, start),
						  psprintf("SHARE ROW EXCLUSIVE on %s", sequence),
						  note);
		sf_conversion_alter(conversion,
							psprintf("SET DEFAULT nextval(%s::regclass)",
									 quote_literal_cstr(sequence)), NULL);
	}
	else
		sf_conversion_alter(conversion, "DROP DEFAULT",
							"the column has no sequence: rows have to come with an ID");
}

/* SQLSTATE 22023 */
static const char *
get_identity(FunctionCallInfo fcinfo)
{
	const char *identity;

	if (PG_ARGISNULL(2))
		return NULL;
	identity = text_to_cstring(PG_GETARG_TEXT_PP(2));
	if (pg_strcasecmp(identity, "always") == 0)
		return "ALWAYS";
	if (pg_strcasecmp(identity, "by default") == 0)
		return "BY DEFAULT";
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("identity must be \"always\" or \"by default\", or null"),
			 errhint("With null the column gets its old sequence, or no default.")));
}

/*
 * snowflake_revert(relation regclass, "column" name DEFAULT 'id',
 *					identity text DEFAULT NULL, restart bigint DEFAULT NULL,
 *					dry_run boolean DEFAULT true)
 *
 * One row for each statement.  The column stays bigint.  Throws SQLSTATE
 * 22004, 22023 (not a kind of identity; an ID is there already), 2200H, 25000,
 * 25006, 42P01, 42703, 42804, 42809, 42501, 40001, 55000 (not converted), and
 * what a statement throws.
 */
Datum
snowflake_revert(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *identity = get_identity(fcinfo);
	SfConversion *conversion;
	bool		dry_run;
	int64		start;
	int64		last;

	sf_conversion_arguments(fcinfo, 4, "snowflake_revert()");
	dry_run = PG_GETARG_BOOL(4);
	SPI_connect();
	conversion = sf_conversion_open(PG_GETARG_OID(0),
									NameStr(*PG_GETARG_NAME(1)));
	require_converted(conversion, fcinfo);
	sf_conversion_start(conversion, dry_run);
	start = find_restart(conversion, fcinfo, &last);
	add_sequence(conversion, identity, start, last);
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
