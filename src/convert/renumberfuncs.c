/*-------------------------------------------------------------------------
 *
 * renumberfuncs.c
 *	  SQL function that gives rows new IDs, also where foreign keys refer to
 *	  them.
 *
 * One statement changes the key and all columns that share its values: the
 * server checks foreign keys at its end, and finds no row that ON UPDATE would
 * change.  The new IDs come from the column's own default, which is code of
 * the owner.  So it runs as the owner, also in a dry run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "catalog/pg_type.h"
#include "convert/renumber.sql.inc"
#include "convert/script.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

SF_FUNCTION(snowflake_renumber);

/* The rows to renumber, and how. */
typedef struct Renumbering
{
	SfConversion *conversion;
	const char *expression;		/* the column's default */
	int64		lowest;			/* of the old IDs */
	int64		last;
	const char *others;			/* columns that change too, or NULL */
} Renumbering;

/* Throw SQLSTATE 55000: the default makes no new IDs. */
static void
refuse_default(const SfConversion *conversion, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("default of column %s of %s %s",
					conversion->column, conversion->table, problem),
			 errhint("As the owner of the table, run: ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s.snowflake_nextval();",
					 conversion->table, conversion->column,
					 conversion->schema)));
}

/* Make an ID, as the table's owner.  SQLSTATE 55000 */
static int64
next_id(const Renumbering *renumbering)
{
	const SfConversion *conversion = renumbering->conversion;
	SfOwner		caller;
	int64		id;

	sf_owner_become(&caller, sf_owner_of_relation(conversion->relation));
	(void) set_config_option("search_path", conversion->path, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (!sf_conversion_number(conversion,
							  psprintf("SELECT CAST((%s) AS bigint)",
									   renumbering->expression), &id))
		refuse_default(conversion, "is null");
	sf_owner_leave(&caller);
	return id;
}

/*
 * Return what to type if new IDs lie among the old ones.  If the time of the
 * old ones has come, new ones can begin above them.
 */
static const char *
remedy_of_range(const Renumbering *renumbering)
{
	const SfConversion *conversion = renumbering->conversion;
	int64		last = renumbering->last;
	SfKeyLayout key;

	if (!sf_key_layout_find(&key, conversion->relation, conversion->number) ||
		!sf_layout_fits(&key.layout, last) ||
		sf_layout_tick(&key.layout, last) * key.layout.tick_ms >
		sf_clock_wall_ms())
		return "Name a range that ends below the next ID, or one that begins above it.";
	return psprintf("Run as a superuser, and call it again: %s",
					sf_conversion_advance(last, key.is_shard ? "'shard'" :
										  key.name == NULL ? NULL :
										  quote_literal_cstr(key.name)));
}

/* Throw SQLSTATE 55000 if a new ID could be one of those to be replaced. */
static void
require_outside(const Renumbering *renumbering)
{
	int64		next;

	if (RecoveryInProgress() || XactReadOnly)
		return;
	next = next_id(renumbering);
	if (next >= renumbering->lowest && next <= renumbering->last)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("new IDs of column %s of %s would lie among the old ones",
						renumbering->conversion->column,
						renumbering->conversion->table),
				 errdetail("The next one is %lld, and the old ones are from %lld to %lld.",
						   (long long) next, (long long) renumbering->lowest,
						   (long long) renumbering->last),
				 errhint("%s", remedy_of_range(renumbering))));
}

/*
 * Check what the statement has done, whose answer are the numbers of rows, old
 * IDs and new IDs.  A column that refers to the key cannot tell two rows with
 * one ID apart.  A trigger can keep a row as it was.  SQLSTATE 55000
 */
static void
check_result(const void *arg)
{
	const Renumbering *renumbering = arg;
	const SfConversion *conversion = renumbering->conversion;
	char	   *count[3];
	int64		kept;

	for (int i = 0; i < 3; i++)
		count[i] = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
								i + 1);
	if (strcmp(count[0], count[2]) != 0)
		refuse_default(conversion, "makes one ID more than once");
	if (renumbering->others != NULL && strcmp(count[0], count[1]) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of %s have equal IDs, and foreign keys refer to them",
						conversion->table),
				 errdetail("%s rows have %s IDs.", count[0], count[1]),
				 errhint("Drop the foreign keys of %s first.",
						 renumbering->others)));
	if (sf_conversion_outermost(conversion, renumbering->lowest, true,
								&kept) && kept <= renumbering->last)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a row of %s still has the ID %lld",
						conversion->table, (long long) kept),
				 errdetail("A trigger of the table has kept it, or has made it again."),
				 errhint("As the owner of the table, run first: ALTER TABLE %s DISABLE TRIGGER USER;",
						 conversion->table)));
}

/* Add the statement, and the settings that it needs. */
static void
add_statement(Renumbering *renumbering)
{
	SfConversion *conversion = renumbering->conversion;
	Oid			types[] = {OIDARRAYOID, INT2ARRAYOID, OIDOID, INT2OID,
	TEXTOID, INT8OID, INT8OID};
	Datum		values[] = {conversion->given[0], conversion->given[1],
		ObjectIdGetDatum(conversion->relation),
		Int16GetDatum(conversion->number),
		CStringGetTextDatum(renumbering->expression),
		Int64GetDatum(renumbering->lowest), Int64GetDatum(renumbering->last)
	};
	char	   *text = sf_conversion_value(SQL_RENUMBER, lengthof(types),
										   types, values);
	SfStatement *statement;

	renumbering->others = SPI_getvalue(SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, 2);
	sf_conversion_add(conversion, "SET LOCAL row_security = off", NULL, NULL);
	sf_conversion_path_begin(conversion);
	sf_conversion_add(conversion, text, NULL,
					  renumbering->others == NULL ? "fires triggers" :
					  psprintf("fires triggers; also changes %s",
							   renumbering->others));
	statement = llast(conversion->steps);
	statement->check = check_result;
	statement->arg = renumbering;
	sf_conversion_path_end(conversion);
}

/* Check what the conversion's arguments do not say.  SQLSTATE 22004, 22023 */
static void
require_range(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("first and last must not be null"),
				 errhint("Give each of them a value.")));
	if (PG_GETARG_INT64(2) > PG_GETARG_INT64(3))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first must not be larger than last"),
				 errhint("Exchange the two.")));
}

/*
 * snowflake_renumber(relation regclass, key name, first bigint, last bigint,
 *					  dry_run boolean)
 *
 * Give each row whose key is from first to last a new ID, in the order of the
 * old ones; return one row for each statement.  Throws SQLSTATE 22004, 22023,
 * 25000, 25006, 42P01, 42703, 42704, 42804, 42809, 42501, 40001 as
 * snowflake_convert() does, 55000 (no default, or one that makes no new IDs;
 * new IDs among the old ones; equal IDs to which rows refer; refers to another
 * table; a trigger has kept a row; standard_conforming_strings is off), and
 * the errors of making an ID and of the statement.
 */
Datum
snowflake_renumber(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Renumbering renumbering = {0};
	SfConversion *conversion;
	bool		dry_run;

	sf_conversion_arguments(fcinfo, 4, "snowflake_renumber()");
	require_range(fcinfo);
	dry_run = PG_GETARG_BOOL(4);
	SPI_connect();
	conversion = sf_conversion_open(fcinfo,
									sf_conversion_is_snowflake(fcinfo));
	conversion->lock_tables = SQL_RENUMBER_LOCK;
	conversion->other_owners = SQL_RENUMBER_OTHER_OWNERS;
	conversion->not_one_owner = SQL_RENUMBER_NOT_ONE_OWNER;
	conversion->owners_hint = "If you trust these owners with your rights, run the script of a dry run, as a superuser: its triggers, constraints and indexes are their code.";
	sf_conversion_refuse_foreign_key(conversion);
	renumbering.conversion = conversion;
	renumbering.last = PG_GETARG_INT64(3);
	renumbering.expression = sf_conversion_ask(conversion, SQL_DEFAULT_OF_KEY);
	if (renumbering.expression == NULL)
		refuse_default(conversion, "is missing");
	sf_conversion_start(conversion, dry_run);
	if (!sf_conversion_outermost(conversion, PG_GETARG_INT64(2), true,
								 &renumbering.lowest) ||
		renumbering.lowest > renumbering.last)
		ereport(NOTICE,
				(errmsg("no row of %s has such an ID", conversion->table)));
	else
	{
		require_outside(&renumbering);
		add_statement(&renumbering);
	}
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
