/*-------------------------------------------------------------------------
 *
 * renumberfuncs.c
 *	  SQL function that gives rows new IDs, also where foreign keys refer to
 *	  them.
 *
 * One statement changes the key and all columns that share its values: the
 * server checks foreign keys at its end, and finds no row that ON UPDATE would
 * change.  The new IDs come from the column's own default, which must be a
 * call of this extension.  The statement runs as the owner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/clock.h"
#include "catalog/pg_type.h"
#include "convert/renumber.sql.inc"
#include "convert/script.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "mark/mark.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

SF_FUNCTION(snowflake_renumber);

/* The rows to renumber, and how. */
typedef struct Renumbering
{
	SfConversion *conversion;
	int64		first;			/* of the old IDs */
	int64		last;
} Renumbering;

/* Return the command that gives the column a default that makes IDs. */
static const char *
remedy_of_default(const SfConversion *conversion, bool converts)
{
	const char *column = get_attname(conversion->relation, conversion->number,
									 false);

	if (converts)
		return psprintf("SELECT * FROM %s.snowflake_convert(%s::pg_catalog.regclass, %s::pg_catalog.name, NULL::integer, false, NULL, 'bigint');",
						conversion->schema,
						quote_literal_cstr(conversion->table),
						quote_literal_cstr(column));
	return psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s.snowflake_nextval();",
					conversion->table, conversion->column, conversion->schema);
}

/*
 * Throw SQLSTATE 55000 if the default is not a call of this extension: other
 * IDs could be equal to those of other rows.
 */
static void
require_default(const SfConversion *conversion)
{
	Oid			type = getBaseType(get_atttype(conversion->relation,
											   conversion->number));
	bool		converts = type == INT2OID || type == INT4OID ||
		sf_conversion_ask(conversion, SQL_IS_IDENTITY) != NULL;
	SfKeyLayout key;

	if (!converts && sf_key_layout_find(&key, conversion->relation,
										conversion->number) && key.is_direct)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column %s of %s does not get its IDs from this extension",
					conversion->column, conversion->table),
			 errdetail("New IDs come from its default, which must be nothing but a call of snowflake_nextval() or snowflake_shard_nextval(), for a column that has room for them."),
			 errhint("Run as the owner of the table: %s",
					 remedy_of_default(conversion, converts))));
}

/* What cannot be renumbered.  The queries return a DETAIL, and commands. */
static const struct
{
	const char *query;
	int			sqlstate;
	const char *message;		/* %s is the column, with its table */
	const char *hint;			/* %s are the commands */
}			obstacles[] = {

	{SQL_KEYS_TO_GENERATED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		"foreign keys refer to columns that are generated from %s, or from what refers to it",
	"Let them refer to the column itself."},
	{SQL_NOT_REFERRING, ERRCODE_FEATURE_NOT_SUPPORTED,
		"tables that share the values of %s are joined by inheritance, not by foreign keys",
	"As their owner, run first, and take it back afterwards: %s"},
	{SQL_REFERENCE_KEEPERS, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		"triggers could keep references to %s as they are, and foreign keys would change them ON UPDATE",
	"As the owner of the tables, run first, and with ENABLE afterwards: %s"}
};

/* Throw SQLSTATE 0A000, 55000 if what changes could be no reference. */
static void
refuse_obstacles(const SfConversion *conversion)
{
	Oid			types[] = {OIDARRAYOID, INT2ARRAYOID};
	Datum		values[] = {conversion->given[0], conversion->given[1]};

	for (int i = 0; i < (int) lengthof(obstacles); i++)
	{
		char	   *why = sf_conversion_value(obstacles[i].query,
											  lengthof(types), types, values);

		if (why != NULL)
			ereport(ERROR,
					(errcode(obstacles[i].sqlstate),
					 errmsg(obstacles[i].message,
							psprintf("%s.%s", conversion->table,
									 conversion->column)),
					 errdetail_internal("%s", why),
					 errhint(obstacles[i].hint,
							 SPI_getvalue(SPI_tuptable->vals[0],
										  SPI_tuptable->tupdesc, 2))));
	}
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
										  quote_literal_cstr(key.name),
										  false));
}

/* Find a number in the answer of a statement; return false if it is null. */
static bool
answer(int column, int64 *number)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, column, &isnull);

	*number = isnull ? 0 : DatumGetInt64(value);
	return !isnull;
}

/* Return the call for the rows beside those with an ID. */
static const char *
call_beside(const Renumbering *renumbering, int64 id)
{
	const SfConversion *conversion = renumbering->conversion;
	bool		below = id > renumbering->first;

	if (!below && id == renumbering->last)
		return "";
	return psprintf(" For the rows %s: SELECT * FROM %s.snowflake_renumber(%s::pg_catalog.regclass, %s::pg_catalog.name, '%lld'::bigint, '%lld'::bigint, false);",
					below ? "below" : "above", conversion->schema,
					quote_literal_cstr(conversion->table),
					quote_literal_cstr(get_attname(conversion->relation,
												   conversion->number, false)),
					(long long) (below ? renumbering->first : id + 1),
					(long long) (below ? id - 1 : renumbering->last));
}

/*
 * Throw SQLSTATE 55000 for equal IDs: a column that refers to the key cannot
 * tell two rows with one ID apart.
 */
static void
refuse_equal(const void *arg)
{
	const Renumbering *renumbering = arg;
	int64		id;

	if (answer(1, &id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of %s have the same ID, and foreign keys refer to it",
						renumbering->conversion->table),
				 errdetail("The lowest such ID is %lld.", (long long) id),
				 errhint("Leave these rows as they are.%s",
						 call_beside(renumbering, id))));
}

/*
 * Check what the statement has done, whose answer are the number of rows, the
 * lowest and highest new ID, and how many of them other rows had.  A trigger
 * can keep a row as it was.  SQLSTATE 55000
 */
static void
check_result(const void *arg)
{
	const Renumbering *renumbering = arg;
	const SfConversion *conversion = renumbering->conversion;
	int64		lowest;
	int64		highest;
	int64		taken;
	int64		kept;

	if (answer(2, &lowest) && answer(3, &highest) &&
		lowest <= renumbering->last && highest >= renumbering->first)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("new IDs of column %s of %s would lie among the old ones",
						conversion->column, conversion->table),
				 errdetail("The new ones begin at %lld, and the old ones are from %lld to %lld.",
						   (long long) lowest, (long long) renumbering->first,
						   (long long) renumbering->last),
				 errhint("%s", remedy_of_range(renumbering))));
	if (answer(4, &taken) && taken > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("other rows of %s have %lld of the new IDs already",
						conversion->table, (long long) taken),
				 errhint(SF_RECOVER_REMEDY, conversion->schema)));
	if (sf_conversion_outermost(conversion, renumbering->first, true,
								&kept) && kept <= renumbering->last)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a row of %s still has the ID %lld",
						conversion->table, (long long) kept),
				 errdetail("A trigger of the table has kept it, or has made it again."),
				 errhint("As the owner of the table, run first, and with ENABLE afterwards: ALTER TABLE %s DISABLE TRIGGER USER;",
						 conversion->table)));
}

/* Add a statement whose answer is checked. */
static void
add_checked(Renumbering *renumbering, const char *text, const char *note,
			void (*check) (const void *arg))
{
	SfStatement *statement;

	sf_conversion_add(renumbering->conversion, text, NULL, note);
	statement = llast(renumbering->conversion->steps);
	statement->check = check;
	statement->arg = renumbering;
}

/* Add the statement, what it needs, and what must be true before. */
static void
add_statement(Renumbering *renumbering)
{
	SfConversion *conversion = renumbering->conversion;
	Oid			types[] = {OIDARRAYOID, INT2ARRAYOID, OIDOID, INT2OID,
	INT8OID, INT8OID};
	Datum		values[] = {conversion->given[0], conversion->given[1],
		ObjectIdGetDatum(conversion->relation),
		Int16GetDatum(conversion->number),
		Int64GetDatum(renumbering->first), Int64GetDatum(renumbering->last)
	};
	char	   *text = sf_conversion_value(SQL_RENUMBER, lengthof(types),
										   types, values);
	char	   *others = SPI_getvalue(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, 2);
	char	   *equal = SPI_getvalue(SPI_tuptable->vals[0],
									 SPI_tuptable->tupdesc, 3);
	const char *note = "fires triggers; ROLLBACK if taken is not 0, or if the old range and that from lowest to highest overlap";

	sf_conversion_add(conversion, "SET LOCAL row_security = off", NULL, NULL);
	sf_conversion_add(conversion, "SET CONSTRAINTS ALL IMMEDIATE", NULL, NULL);
	sf_conversion_path_begin(conversion);
	if (others != NULL)
	{
		add_checked(renumbering, equal, "ROLLBACK if it finds an ID",
					refuse_equal);
		note = psprintf("%s; also changes %s", note, others);
	}
	add_checked(renumbering, text, note, check_result);
	((SfStatement *) llast(conversion->steps))->if_unique =
		psprintf("Perhaps another row has a new ID. " SF_RECOVER_REMEDY,
				 conversion->schema);
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
 * snowflake_convert() does, 0A000 (inheritance), 55000 (the default makes no
 * IDs; new IDs among the old ones, or in other rows; equal IDs to which rows
 * refer; refers to another table; foreign keys to generated columns; a trigger
 * has kept a row, or could keep a reference; standard_conforming_strings is
 * off), and the errors of making an ID and of the statement.
 */
Datum
snowflake_renumber(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Renumbering renumbering = {0};
	SfConversion *conversion;
	int64		lowest;
	bool		dry_run;

	sf_conversion_arguments(fcinfo, 4, "snowflake_renumber()");
	require_range(fcinfo);
	dry_run = PG_GETARG_BOOL(4);
	SPI_connect();
	conversion = sf_conversion_open(fcinfo,
									sf_conversion_is_snowflake(fcinfo),
									dry_run);
	conversion->lock = ShareRowExclusiveLock;
	conversion->lock_tables = SQL_RENUMBER_LOCK;
	conversion->other_owners = SQL_RENUMBER_OTHER_OWNERS;
	conversion->not_one_owner = SQL_RENUMBER_NOT_ONE_OWNER;
	conversion->overloads = NULL;
	sf_conversion_refuse_foreign_key(conversion);
	renumbering.conversion = conversion;
	renumbering.first = PG_GETARG_INT64(2);
	renumbering.last = PG_GETARG_INT64(3);
	sf_conversion_start(conversion, dry_run);
	require_default(conversion);
	refuse_obstacles(conversion);
	if (!sf_conversion_outermost(conversion, renumbering.first, true,
								 &lowest) || lowest > renumbering.last)
		ereport(NOTICE,
				(errmsg("no row of %s has such an ID", conversion->table)));
	else
		add_statement(&renumbering);
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
