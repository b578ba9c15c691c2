/*-------------------------------------------------------------------------
 *
 * convertfuncs.c
 *	  SQL function that turns the key of a table into a Snowflake key.
 *
 * It makes a script, and runs it only on request.  Existing rows stay as they
 * are; it must be certain that the next ID is above all of them.  Both ways
 * set search_path = pg_catalog, pg_temp, so that the server prints each name
 * with its schema, and finds no foreign function or operator.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/pg_type.h"
#include "convert/convertfuncs.sql.inc"
#include "convert/script.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "partition/id_span.h"
#include "query/query.h"
#include "runtime/function.h"
#include "runtime/settings.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/*
 * Keys in the last sixteenth of the bigints are random, or like those of
 * TiDB's AUTO_RANDOM.  A layout whose IDs of now lie there is near its end.
 */
#define NO_LAYOUT_ABOVE	(PG_INT64_MAX / 16 * 15)

/* How far the clock of the server that made a key may be ahead. */
#define AHEAD_MS	(60 * 1000)

SF_FUNCTION(snowflake_convert);

/* What makes the new IDs. */
typedef struct Target
{
	const char *function;		/* its name, with its schema */
	const char *call;			/* the default, as the server prints it */
	Oid			oid;			/* of the function */
	int			nargs;			/* 0 or 1 */
	Datum		argument;
	const char *name;			/* of the layout, as a literal; or NULL */
	const SfLayout *layout;
} Target;

/* Return a text about the column, from a query that also takes a text. */
static char *
ask_about(const SfConversion *conversion, const char *query, const char *text)
{
	Oid			types[] = {OIDOID, INT2OID, TEXTOID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
		Int16GetDatum(conversion->number),
	CStringGetTextDatum(text)};

	return sf_conversion_value(query, 3, types, values);
}

/* Throw SQLSTATE 42501 unless the table's owner can call the function. */
static void
require_callable(const SfConversion *conversion, const char *function)
{
	const char *grants = ask_about(conversion, SQL_GRANTS_FOR_OWNER, function);

	if (grants != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner of %s cannot call %s",
						conversion->table, function),
				 errhint("%s", grants)));
}

/*
 * Return the first ID that can come.  Make one, which is the best proof that
 * it is possible; if that is impossible, use the clock.  In a dry run nothing
 * keeps names, so the function is called by its number.
 */
static int64
next_id(const Target *to)
{
	if (RecoveryInProgress() || XactReadOnly)
		return sf_id_span_first_id(to->layout, GetCurrentTimestamp());
	return DatumGetInt64(to->nargs == 0 ? OidFunctionCall0(to->oid) :
						 OidFunctionCall1(to->oid, to->argument));
}

/*
 * Return what to do about an ID above the next one.  The call that moves the
 * mark above it would stop all IDs until its time has come: do not advise that
 * of a time ahead.  It must be forced, since no default names the layout yet.
 */
static const char *
remedy_of_larger(int64 id, const Target *to)
{
	const SfLayout *layout = to->layout;

	if (!sf_layout_fits(layout, id) ||
		sf_layout_tick(layout, id) * layout->tick_ms >
		sf_clock_wall_ms() + AHEAD_MS)
		return "Name a layout whose IDs are larger.";
	return psprintf("If these IDs were made in this layout, run as a superuser: %s Otherwise name a layout whose IDs are larger.",
					sf_conversion_advance(id, to->name, true));
}

/* Throw SQLSTATE 55000 unless all IDs are below the next one. */
static void
require_below(const SfConversion *conversion, int64 next, const Target *to)
{
	int64		largest;

	if (sf_conversion_outermost(conversion, PG_INT64_MIN, false, &largest) &&
		largest >= next)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("an ID in column %s of %s is not below the next one",
						conversion->column, conversion->table),
				 errdetail("The largest one is %lld, and the next one would be %lld.",
						   (long long) largest, (long long) next),
				 largest >= NO_LAYOUT_ABOVE ?
				 errhint("No layout that lasts has IDs above such keys. To make IDs in a new column, which rewrites and locks the table, run as its owner: ALTER TABLE %s ADD COLUMN NAME bigint DEFAULT %s;",
						 conversion->table, to->call) :
				 errhint("%s", remedy_of_larger(largest, to))));
}

/* Note how the IDs that are there read in the new layout. */
static const char *
note_on_rows(const SfConversion *conversion, const Target *to)
{
	SfKeyLayout old;
	char		kind = get_rel_relkind(conversion->relation);

	if (sf_key_layout_find(&old, conversion->relation, conversion->number) &&
		!sf_layout_is_same(&old.layout, to->layout))
		return kind != RELKIND_PARTITIONED_TABLE ?
			"existing IDs have another layout: this one reads wrong times from them" :
			"existing IDs have another layout: this one reads wrong times from them, so drop their partitions with that one named";
	return psprintf("existing IDs read as if made at %s or soon after, by any node",
					sf_timefmt_show(to->layout->epoch_ms));
}

static void
set_default(SfConversion *conversion, const Target *to)
{
	const char *note = note_on_rows(conversion, to);
	const char *was = sf_conversion_ask(conversion, SQL_DEFAULTS);
	const char *grants = ask_about(conversion, SQL_GRANTS_FOR_INSERTERS,
								   to->function);

	if (was != NULL)
		note = psprintf("%s; %s", was, note);
	if (grants != NULL)
		note = psprintf("roles that insert need EXECUTE on it: %s; %s",
						grants, note);
	sf_conversion_alter(conversion, psprintf("SET DEFAULT %s", to->call), note);
}

/* Return true if all defaults make the IDs that are asked for. */
static bool
has_defaults(const SfConversion *conversion, const char *call)
{
	return ask_about(conversion, SQL_OTHER_DEFAULTS, call) == NULL;
}

/* Throw SQLSTATE 55000: the column is converted already. */
static void
refuse_converted(SfConversion *conversion, const char *call)
{
	if (!sf_conversion_widens(conversion) && has_defaults(conversion, call))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column %s of %s has been converted",
						conversion->column, conversion->table),
				 errdetail("Its default makes such IDs, and all that refers to it is %s.",
						   format_type_be(conversion->type)),
				 errhint("There is nothing to do; snowflake_revert() goes back.")));
}

/*
 * Return true if the type asked for is snowflake.  The argument is a text, and
 * no regtype: so "snowflake" is the extension's type, whatever the path finds
 * by this name, and the path need not have the extension's schema.
 * SQLSTATE 22023
 */
static bool
is_snowflake_wanted(FunctionCallInfo fcinfo)
{
	const char *type = PG_ARGISNULL(5) ? "" :
		text_to_cstring(PG_GETARG_TEXT_PP(5));

	if (strcmp(type, "snowflake") == 0)
		return true;
	if (strcmp(type, "bigint") == 0)
		return false;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("type must be \"bigint\" or \"snowflake\""),
			 errhint("Use type => 'snowflake', or leave type out to get bigint.")));
}

/*
 * Return the name by which the default calls the function: some tools take
 * what follows "nextval" for a sequence.  A shard's function has one name.
 * SQLSTATE 22023
 */
static const char *
name_of_function(FunctionCallInfo fcinfo)
{
	const char *function = PG_ARGISNULL(6) ? "" :
		text_to_cstring(PG_GETARG_TEXT_PP(6));

	if (strcmp(function, "snowflake_nextval") != 0 &&
		(strcmp(function, "snowflake_generate") != 0 || !PG_ARGISNULL(2)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("function must be \"snowflake_nextval\" or, without a shard, \"snowflake_generate\""),
				 errhint("Leave function out.")));
	return function;
}

/*
 * Find what the arguments ask for.  The function is in the schema of the one
 * that is called.  SQLSTATE 22023
 */
static void
find_target(FunctionCallInfo fcinfo, const char *schema, Target *to)
{
	Oid			type = TEXTOID;
	char	   *name = PG_ARGISNULL(4) ? NULL :
		text_to_cstring(PG_GETARG_TEXT_PP(4));
	const char *function = name_of_function(fcinfo);

	if (!PG_ARGISNULL(2) && name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard and layout exclude each other"),
				 errhint("The keys of a shard have the layout snowflake.shard_layout: leave one of the two out.")));
	if (!PG_ARGISNULL(2))
	{
		to->function = psprintf("%s.snowflake_shard_nextval(bigint)", schema);
		to->call = psprintf("%s.snowflake_shard_nextval((%d)::bigint)",
							schema, PG_GETARG_INT32(2));
		function = "snowflake_shard_nextval";
		type = INT8OID;
		to->nargs = 1;
		to->argument = Int64GetDatum(PG_GETARG_INT32(2));
		to->name = "'shard'";
		to->layout = &sf_shard_layout;
	}
	else if (name == NULL || strcmp(name, "node") == 0)
	{
		to->function = psprintf("%s.%s()", schema, function);
		to->call = to->function;
		to->nargs = 0;
		to->name = NULL;
		to->layout = &sf_node_layout;
	}
	else
	{
		to->function = psprintf("%s.%s(text)", schema, function);
		to->name = quote_literal_cstr(name);
		to->call = psprintf("%s.%s(%s::text)", schema, function, to->name);
		to->nargs = 1;
		to->argument = PG_GETARG_DATUM(4);
		to->layout = sf_layout_arg(fcinfo, 4);
	}
	to->oid = sf_function_find(get_func_namespace(fcinfo->flinfo->fn_oid),
							   function, to->nargs, &type);
}

/*
 * snowflake_convert(relation regclass, key name DEFAULT 'id',
 *					 shard integer DEFAULT NULL, dry_run boolean DEFAULT true,
 *					 layout text DEFAULT NULL, type text DEFAULT 'bigint',
 *					 function text DEFAULT 'snowflake_nextval')
 *
 * Return one row for each statement.  The key, and all columns that share its
 * values, get the type: bigint, or snowflake.  Throws SQLSTATE 22004, 22023
 * (no layout; a shard and a layout; another type or function), 25006 and
 * 25000 (to be run in a read-only transaction, or above READ COMMITTED),
 * 42P01, 42703, 42704,
 * 42809 (no table; IDs in a foreign one; a column that is inherited, or
 * generated), 42804 (no integers, here or in what refers to it), 42501 (not
 * the owner, or an owner that lacks rights), 0A000 (cannot get the type in
 * place), 2BP01 (an object depends on it that cannot be made anew), 55000
 * (converted; refers to another table; IDs that are not below the next one;
 * standard_conforming_strings is off), 40001 (changed meanwhile), and the
 * errors of making an ID and of the statements.
 */
Datum
snowflake_convert(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfConversion *conversion;
	Target		to;
	bool		to_snowflake;
	bool		dry_run;
	bool		widens;

	sf_conversion_arguments(fcinfo, 3, "snowflake_convert()");
	dry_run = PG_GETARG_BOOL(3);
	to_snowflake = is_snowflake_wanted(fcinfo);
	SPI_connect();
	conversion = sf_conversion_open(fcinfo, to_snowflake, dry_run);
	find_target(fcinfo, conversion->schema, &to);
	sf_conversion_refuse_foreign_key(conversion);
	refuse_converted(conversion, to.call);
	sf_conversion_keep_meaning();
	sf_conversion_require(conversion);
	require_callable(conversion, to.function);
	sf_conversion_start(conversion, dry_run);
	require_below(conversion, next_id(&to), &to);
	widens = sf_conversion_widens(conversion);
	if (widens)
		sf_conversion_take_away(conversion);
	sf_conversion_query_column(conversion, SQL_DROP_IDENTITIES);
	if (widens)
		sf_conversion_widen(conversion);
	if (!has_defaults(conversion, to.call))
		set_default(conversion, &to);
	sf_conversion_query_column(conversion, SQL_KEEP_SEQUENCES);
	if (widens)
		sf_conversion_put_back(conversion);
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
