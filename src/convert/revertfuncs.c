/*-------------------------------------------------------------------------
 *
 * revertfuncs.c
 *	  SQL function that gives a column its sequence back, or an identity.
 *
 * Rows keep their IDs, and the column stays bigint, which Snowflake IDs need.
 * An identity cannot have the type snowflake: such a key becomes bigint, with
 * all columns that share its values.
 *
 * The sequence goes on above all IDs, or where the caller says; then the
 * sequence ends before the next row.  It never goes back: others may use it,
 * and rows with its numbers may have been deleted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/int.h"
#include "convert/revertfuncs.sql.inc"
#include "convert/script.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

SF_FUNCTION(snowflake_revert);

/* Throw SQLSTATE 55000 unless the column is converted. */
static void
require_converted(const SfConversion *conversion)
{
	SfKeyLayout key;

	if (!sf_key_layout_find(&key, conversion->relation, conversion->number) &&
		!key.is_hidden)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("default of column %s of %s makes no Snowflake IDs",
						conversion->column, conversion->table),
				 errhint("Name a column that snowflake_convert() has converted.")));
}

/* The column's sequence, by serial or OWNED BY, or kept by a conversion. */
typedef struct Sequence
{
	const char *name;			/* or NULL */
	const char *type;
	int64		last;			/* last one issued; or its start minus one
								 * step */
	int64		step;
	int64		max;			/* as bigint, if it is that of its type */
	const char *comment;		/* of a kept one, before; a literal, or NULL */
} Sequence;

static int64
get_number(int column)
{
	char	   *text = SPI_getvalue(SPI_tuptable->vals[0],
									SPI_tuptable->tupdesc, column);

	return DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(text)));
}

/*
 * Return the last number issued.  If the script is run, no other is issued
 * until its end: the lock is that of ALTER SEQUENCE; another table may use it,
 * too.  Uses no query: before a query has its lock, the owner may
 * have replaced the sequence by a view of this name, whose functions the query
 * would run.  SQLSTATE 40001
 */
static int64
read_last(Oid oid, const Sequence *sequence, bool dry_run)
{
	Relation	rel = try_relation_open(oid, dry_run ? AccessShareLock :
										ShareRowExclusiveLock);
	TupleTableSlot *slot;
	TableScanDesc scan;
	bool		isnull;
	int64		last;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("sequence %s has changed meanwhile", sequence->name),
				 errhint("Call it again.")));
	slot = table_slot_create(rel, NULL);
	scan = table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL,
								 true, true);
	if (!table_scan_getnextslot(scan, ForwardScanDirection, slot))
		elog(ERROR, "sequence %s is empty", sequence->name);
	last = DatumGetInt64(slot_getattr(slot, SEQ_COL_LASTVAL, &isnull));
	if (!DatumGetBool(slot_getattr(slot, SEQ_COL_CALLED, &isnull)))
		last -= sequence->step;
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(rel, NoLock);
	return last;
}

/* Read the sequence.  SQLSTATE 40001, 55000 */
static void
read_sequence(const SfConversion *conversion, Sequence *sequence,
			  bool dry_run)
{
	memset(sequence, 0, sizeof(*sequence));
	sequence->step = 1;
	sequence->name = sf_conversion_ask(conversion, SQL_SEQUENCES);
	if (sequence->name == NULL)
		return;
	if (SPI_processed > 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column %s of %s has more than one sequence",
						conversion->column, conversion->table),
				 errhint("Run for the sequence that it is to use again: ALTER SEQUENCE NAME OWNED BY %s.%s; And for each of the others: ALTER SEQUENCE NAME OWNED BY NONE;",
						 conversion->table, conversion->column)));
	sequence->type = SPI_getvalue(SPI_tuptable->vals[0],
								  SPI_tuptable->tupdesc, 2);
	sequence->step = get_number(3);
	sequence->max = get_number(4);
	sequence->comment = SPI_getvalue(SPI_tuptable->vals[0],
									 SPI_tuptable->tupdesc, 6);
	sequence->last = read_last((Oid) get_number(5), sequence, dry_run);
}

/* Return the statement that makes it a sequence like any other. */
static const char *
detach_sequence(const Sequence *sequence)
{
	if (sequence->comment == NULL)
		return psprintf("ALTER SEQUENCE %s OWNED BY NONE", sequence->name);
	return psprintf("COMMENT ON SEQUENCE %s IS %s", sequence->name,
					sequence->comment);
}

/* Return its first number above the largest ID.  SQLSTATE 2200H */
static int64
restart_above(const SfConversion *conversion, const Sequence *sequence)
{
	int64		largest;
	int64		way;
	int64		restart;

	if (!sf_conversion_outermost(conversion, PG_INT64_MIN, false, &largest) ||
		largest < 0)
		largest = 0;
	if (pg_add_s64_overflow(sequence->last, sequence->step, &restart) ||
		(largest >= restart &&
		 (pg_sub_s64_overflow(largest, restart, &way) ||
		  pg_mul_s64_overflow(way / sequence->step + 1, sequence->step,
							  &way) ||
		  pg_add_s64_overflow(restart, way, &restart))))
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("there is no number above the largest ID"),
				 errhint("Say where to begin: snowflake_revert(..., restart => ...).")));
	return restart;
}

/* Check the caller's restart, and find the row above.  SQLSTATE 22023 */
static void
require_free(const SfConversion *conversion, const Sequence *sequence,
			 int64 restart, int64 *last)
{
	int64		above;

	if (restart < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("restart must be at least 1"),
				 errhint("Use a number above the largest of the old IDs.")));
	if (sequence->name != NULL &&
		(sequence->step < 0 || restart <= sequence->last))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("restart is a number that sequence %s has passed",
						sequence->name),
				 sequence->step < 0 ?
				 errdetail("It counts down.") :
				 errdetail("The numbers up to %lld are behind it.",
						   (long long) sequence->last),
				 sequence->step < 0 ?
				 errhint("Leave restart out: it goes on where it stands.") :
				 errhint("Use a larger number, or detach it first: %s;",
						 detach_sequence(sequence))));
	if (!sf_conversion_outermost(conversion, restart, true, &above))
		return;
	if (above == restart)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("restart is an ID that exists already"),
				 errhint("Use a number above the largest of the old IDs.")));
	*last = above - 1;
}

static void
add_detach(SfConversion *conversion, const Sequence *sequence,
		   const char *note)
{
	sf_conversion_add(conversion, detach_sequence(sequence),
					  psprintf("SHARE %s EXCLUSIVE on %s",
							   sequence->comment == NULL ? "ROW" : "UPDATE",
							   sequence->name), note);
}

static void
add_identity(SfConversion *conversion, const char *identity,
			 const Sequence *sequence, int64 start, int64 last)
{
	const char *note = last == PG_INT64_MAX ? NULL :
		psprintf("the next row is at " INT64_FORMAT, last + 1);
	const char *limit = last == PG_INT64_MAX ? "NO MAXVALUE" :
		psprintf("MAXVALUE " INT64_FORMAT, last);

	sf_conversion_alter(conversion, "DROP DEFAULT", NULL);
	if (sequence->name != NULL)
		add_detach(conversion, sequence,
				   "the sequence stays: drop it if nothing else uses it");
	sf_conversion_alter(conversion,
						psprintf("ADD GENERATED %s AS IDENTITY (START WITH " INT64_FORMAT " %s)",
								 identity, start, limit), note);
}

/* Return a MAXVALUE clause if it must change, and a note on that. */
static const char *
limit_of(const Sequence *sequence, int64 start, int64 last, const char **note)
{
	*note = NULL;
	if (last < PG_INT64_MAX &&
		(last < sequence->max || start > sequence->max))
	{
		*note = psprintf("the next row is at " INT64_FORMAT, last + 1);
		return psprintf(" MAXVALUE " INT64_FORMAT, last);
	}
	if (start <= sequence->max)
		return "";
	*note = psprintf("the MAXVALUE was " INT64_FORMAT, sequence->max);
	return " NO MAXVALUE";
}

/*
 * Add the sequence's statements.  A sequence that counts down stays below all
 * IDs, and is left alone.
 */
static void
add_sequence(SfConversion *conversion, const Sequence *sequence, int64 start,
			 int64 last)
{
	const char *note = "the sequence counts down, and goes on where it stands";
	const char *action = "";

	if (sequence->step > 0)
	{
		action = limit_of(sequence, start, last, &note);
		if ((uint64) start !=
			(uint64) sequence->last + (uint64) sequence->step)
			action = psprintf("%s RESTART WITH " INT64_FORMAT, action, start);
	}
	if (strcmp(sequence->type, "bigint") != 0)
		action = psprintf(" AS bigint%s", action);
	if (sequence->comment != NULL)
	{
		action = psprintf("%s OWNED BY %s.%s", action, conversion->table,
						  conversion->column);
		add_detach(conversion, sequence, NULL);
	}
	if (action[0] != '\0')
		sf_conversion_add(conversion,
						  psprintf("ALTER SEQUENCE %s%s", sequence->name, action),
						  psprintf("SHARE ROW EXCLUSIVE on %s", sequence->name),
						  note);
	sf_conversion_alter(conversion,
						psprintf("SET DEFAULT nextval(%s::regclass)",
								 quote_literal_cstr(sequence->name)), NULL);
}

/* Add all statements.  SQLSTATE 2200H, 22023, 55000 */
static void
add_back(SfConversion *conversion, const char *identity, bool dry_run,
		 FunctionCallInfo fcinfo)
{
	Sequence	sequence;
	int64		start = 1;
	int64		last = PG_INT64_MAX;

	read_sequence(conversion, &sequence, dry_run);
	if (identity != NULL && sequence.step < 0)
	{
		/* the new identity counts up */
		sequence.step = 1;
		sequence.last = 0;
	}
	if (!PG_ARGISNULL(3))
	{
		start = PG_GETARG_INT64(3);
		require_free(conversion, &sequence, start, &last);
	}
	else if (sequence.step > 0)
		start = restart_above(conversion, &sequence);
	if (identity != NULL)
		add_identity(conversion, identity, &sequence, start, last);
	else if (sequence.name != NULL)
		add_sequence(conversion, &sequence, start, last);
	else
		sf_conversion_alter(conversion, "DROP DEFAULT",
							"the column has no sequence: rows have to come with an ID, or call with identity => 'by default'");
}

/* Return the kind of identity.  SQLSTATE 22023 */
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
 * snowflake_revert(relation regclass, key name DEFAULT 'id',
 *					identity text DEFAULT NULL, restart bigint DEFAULT NULL,
 *					dry_run boolean DEFAULT true)
 *
 * Return one row for each statement.  The column stays bigint, or becomes it
 * again.  Throws SQLSTATE 22004, 22023 (not a kind of identity; an ID is there
 * already, or the sequence has been there), 2200H, 25000, 25006, 42P01, 42703,
 * 42704, 42804, 42809, 42501, 40001, 55000 (not converted; more than one
 * sequence; standard_conforming_strings is off), 0A000 and 2BP01 (of the type
 * snowflake, and cannot become bigint), and the errors of the statements.
 */
Datum
snowflake_revert(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *identity = get_identity(fcinfo);
	SfConversion *conversion;
	bool		dry_run;
	bool		is_snowflake;

	sf_conversion_arguments(fcinfo, 4, "snowflake_revert()");
	dry_run = PG_GETARG_BOOL(4);
	SPI_connect();
	conversion = sf_conversion_open(fcinfo, false, dry_run);
	require_converted(conversion);
	is_snowflake = get_atttype(conversion->relation,
							   conversion->number) == conversion->other;
	if (is_snowflake)
	{
		sf_conversion_keep_meaning();
		sf_conversion_require(conversion);
	}
	sf_conversion_start(conversion, dry_run);
	if (is_snowflake)
	{
		sf_conversion_take_away(conversion);
		sf_conversion_widen(conversion);
	}
	add_back(conversion, identity, dry_run, fcinfo);
	if (is_snowflake)
		sf_conversion_put_back(conversion);
	sf_conversion_finish(conversion, rsinfo, dry_run);
	SPI_finish();
	return (Datum) 0;
}
