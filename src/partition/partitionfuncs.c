/*-------------------------------------------------------------------------
 *
 * partitionfuncs.c
 *	  SQL functions for tables that are partitioned by ranges of IDs.
 *
 * The start of a partition depends on the step alone, not on the requested
 * range.  So two calls with one step never cut the calendar in different
 * places.
 *
 * Locks: missing partitions are found under ACCESS SHARE, so that a call with
 * nothing to do disturbs nobody.  Only then, and after releasing that lock,
 * the parent is locked as CREATE TABLE ... PARTITION OF does (keeping the weak
 * lock would make two callers wait for each other), and searched again.  If
 * two sessions miss the same partition, the second one finds it.
 *
 * The default of the key is read under the lock, too: the call may have waited
 * for a transaction that sets another one.  It is that of the topmost table,
 * which needs no lock.  All rows that are here were made before the lock on
 * the parent, so a default that made them is in the catalogue, unless another
 * one took its place, which may show as a gap (require_no_gap()).
 *
 * snowflake_drop_partitions() does the same, and drops what it has found under
 * the stronger lock.  It detaches a partition before it drops it: the server
 * never drops a partition of a table that a foreign key refers to, but
 * detaches one that no row refers to.
 *
 * Statements run as the parent's owner, because a partition comes with the
 * owner's code: functions of indexes, and constraints.  Other tables that the
 * statements make the server read must have the same owner, or their owners'
 * code would run with the rights of the parent's.  The statements name
 * everything with its schema, and contain no operators or functions that
 * search_path could find.  sf_names_keep() keeps these names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "base/message.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_partitioned_table.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "partition/id_span.h"
#include "query/query.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/lmgr.h"
#include "table/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* Limits the damage of a typing error to the catalogue and the lock table. */
#define MAX_STEPS		10000

#define PARTITIONS_COLUMNS	7

SF_FUNCTION(snowflake_create_partitions);
SF_FUNCTION(snowflake_drop_partitions);
SF_FUNCTION(snowflake_partitions);

/* The arguments of a call. */
typedef struct Request
{
	const SfLayout *layout;
	const char *given;			/* the argument, quoted: a layout, or NULL */
	bool		is_named;		/* it is a layout */
	bool		is_made;		/* new IDs have this layout */
	SfStep		step;			/* of partitions to create */
	TimestampTz from;			/* of partitions to create */
	TimestampTz until;
} Request;

/* Reads what depends on the default of the key. */
typedef void (*ReadLayout) (FunctionCallInfo fcinfo, Request *request);

/* Returns SfIdSpans: the work of a call, or NIL. */
typedef List *(*FindWork) (Relation parent, const Request *request);

/* Does the work of one span, and returns the result's value. */
typedef Datum (*DoWork) (Oid parent, const SfIdSpan *span);

/* ---- other tables ---- */

/* Name a relation that is locked; what is kept cannot be renamed. */
static char *
qualified_name(Oid relid)
{
	Oid			schema = get_rel_namespace(relid);

	return quote_qualified_identifier(get_namespace_name(schema),
									  get_rel_name(relid));
}

/* Throw SQLSTATE 42501 if a table that is locked has another owner. */
static void
require_same_owner(Oid parent, Oid table, const char *hint)
{
	if (sf_owner_of_relation(table) == sf_owner_of_relation(parent))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("table \"%s\" has another owner than \"%s\"",
					qualified_name(table), get_rel_name(parent)),
			 errdetail("The server would run code of \"%s\" with the rights of \"%s\": functions of constraints and indexes.",
					   GetUserNameFromId(sf_owner_of_relation(table), false),
					   GetUserNameFromId(sf_owner_of_relation(parent), false)),
			 errhint("%s", hint)));
}

/* Do the same for a partition and those below it, and lock them. */
static void
require_same_owner_below(Oid parent, Oid partition, LOCKMODE lockmode,
						 const char *hint)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(partition, lockmode, NULL))
		require_same_owner(parent, lfirst_oid(cell), hint);
}

/*
 * Do the same for the tables that a table is a partition of: their partition
 * keys are part of its constraint.
 */
static void
require_same_owner_above(Oid parent, Oid table, const char *hint)
{
	ListCell   *cell;

	if (!get_rel_relispartition(table))
		return;
	foreach(cell, get_partition_ancestors(table))
		require_same_owner(parent, lfirst_oid(cell), hint);
}

/*
 * Return the tables that refer to the parent, and their partitions, which have
 * foreign keys of their own.  The lock on the parent keeps them there.
 */
static List *
referring_tables(Oid parent)
{
	List	   *tables = NIL;
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_confrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		tables = list_append_unique_oid(tables, form->conrelid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tables;
}

/* ---- missing partitions ---- */

/* Throw SQLSTATE 42P17, as the server does. */
static void
refuse_overlap(const SfLayout *layout, const SfIdSpan *wanted,
			   const SfIdSpan *there)
{
	char	   *name =
		DatumGetCString(DirectFunctionCall1(regclassout,
											ObjectIdGetDatum(there->relid)));

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("partition \"%s\" would overlap partition \"%s\"",
					wanted->name, name),
			 errdetail("\"%s\" would hold the IDs %s; \"%s\" holds those %s.",
					   wanted->name, sf_id_span_show(layout, wanted),
					   name, sf_id_span_show(layout, there)),
			 errhint("Use the step that the partitions were made with, or a range that leaves out the existing one. Or detach the existing one.")));
}

/* Return the requested partitions that are missing. */
static List *
find_missing(Relation parent, const Request *request)
{
	List	   *missing = NIL;
	int			count;
	int			steps = 0;
	Oid			default_relid;
	SfIdSpan   *there = sf_id_span_read(parent, &count, &default_relid);
	SfIdSpan   *last = there + count;
	TimestampTz end;

	for (TimestampTz start = sf_calendar_start(&request->step, request->from);
		 start < request->until; start = end)
	{
		SfIdSpan	wanted = {0};

		CHECK_FOR_INTERRUPTS();
		if (++steps > MAX_STEPS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("more than %d partitions asked for", MAX_STEPS),
					 errhint("Use a longer step, or a shorter range.")));
		end = sf_calendar_end(&request->step, start);
		sf_id_span_of_step(&wanted, request->layout, start, end);
		/* shorten a long name of the parent, at the end of a character */
		strlcpy(wanted.name,
				makeObjectName(RelationGetRelationName(parent), NULL,
							   sf_calendar_label(&request->step, start)),
				NAMEDATALEN);
		while (there < last && there->last < wanted.first)
			there++;
		if (there == last || there->first > wanted.last)
			missing = lappend(missing, memcpy(palloc(sizeof(wanted)),
											  &wanted, sizeof(wanted)));
		else if (there->first != wanted.first || there->last != wanted.last)
			refuse_overlap(request->layout, &wanted, there);
	}
	return missing;
}

/* ---- creating ---- */

static void
execute(const char *statement)
{
	if (SPI_execute(statement, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute \"%s\"", statement);
}

/* Create a partition, which belongs to the parent's owner, as that owner. */
static Datum
create_partition(Oid parent, const SfIdSpan *span)
{
	Oid			schema = get_rel_namespace(parent);
	char	   *schema_name = get_namespace_name(schema);
	const char *name = quote_qualified_identifier(schema_name, span->name);
	const char *parent_name =
		quote_qualified_identifier(schema_name, get_rel_name(parent));
	const char *bounds;
	const char *until = "MAXVALUE";

	if (span->last != PG_INT64_MAX)
		until = psprintf(INT64_FORMAT, span->last + 1);
	bounds = psprintf("FOR VALUES FROM (" INT64_FORMAT ") TO (%s)",
					  span->first, until);
	if (OidIsValid(get_relname_relid(span->name, schema)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation %s already exists", name),
				 errdetail("It does not hold the IDs of the partition that would have this name."),
				 errhint("As the owner of the table, run with another name: CREATE TABLE NAME PARTITION OF %s %s;",
						 parent_name, bounds)));
	execute(psprintf("CREATE TABLE %s PARTITION OF %s %s",
					 name, parent_name, bounds));
	return ObjectIdGetDatum(get_relname_relid(span->name, schema));
}

/*
 * Throw SQLSTATE 42501 if a new partition would run code of the default
 * partition's owner.  The server folds the constraints of that one, which may
 * show that none of its rows belongs into the new one.  It locks it as here.
 */
static void
require_own_default(Oid parent)
{
	Oid			rest = get_default_partition_oid(parent);
	char	   *hint;

	if (!OidIsValid(rest))
		return;
	if (referring_tables(parent) != NIL)
		hint = psprintf("First drop the foreign keys that refer to %s: with them, the server runs code of the default partition's owner when you detach it. Then call this again, to see how.",
						qualified_name(parent));
	else
		hint = psprintf("As the owner of the table, detach the default partition: ALTER TABLE %s DETACH PARTITION %s;",
						qualified_name(parent), qualified_name(rest));
	require_same_owner_below(parent, rest, AccessExclusiveLock, hint);
}

/* Return the owner, which must be able to create.  SQLSTATE 42501 */
static Oid
require_owner(Oid parent)
{
	Oid			owner = sf_owner_of_relation(parent);
	Oid			schema = get_rel_namespace(parent);
	char	   *name = get_namespace_name(schema);
	char	   *role = GetUserNameFromId(owner, false);

	/* who may create in the extension's schema can replace its functions */
	if (sf_schema_aclcheck(schema, owner, ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner of table \"%s\" cannot create partitions in schema \"%s\"",
						get_rel_name(parent), name),
				 errdetail("Partitions are made with the rights of the owner, \"%s\", since they may call the owner's functions.",
						   role),
				 schema == sf_extschema_find() ?
				 errhint("Choose a schema in which the owner may create: ALTER TABLE %s SET SCHEMA NAME;",
						 qualified_name(parent)) :
				 errhint("GRANT CREATE ON SCHEMA %s TO %s;",
						 quote_identifier(name), quote_identifier(role))));
	return owner;
}

/* Find the work; lock the parent, argument 0, no more than necessary. */
static List *
lock_and_find(FunctionCallInfo fcinfo, Request *request, ReadLayout read,
			  FindWork find)
{
	Oid			relid = PG_GETARG_OID(0);
	LOCKMODE	lockmode = AccessShareLock;

	for (;;)
	{
		Relation	parent = sf_id_span_open_parent(relid, lockmode);
		List	   *work;

		if (!sf_relation_ownercheck(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
						   RelationGetRelationName(parent));
		read(fcinfo, request);
		work = find(parent, request);
		if (work == NIL || lockmode == AccessExclusiveLock)
		{
			relation_close(parent, NoLock);
			return work;
		}
		relation_close(parent, lockmode);
		lockmode = AccessExclusiveLock;
	}
}

/* Keep the name of a relation, and of its schema, for statements. */
static void
keep_name(Oid relid)
{
	ObjectAddress address;

	ObjectAddressSet(address, RelationRelationId, relid);
	sf_names_keep(&address, 1);
}

/* Do the work as the parent's owner.  The parent is argument 0. */
static void
do_as_owner(FunctionCallInfo fcinfo, Oid owner, List *work, DoWork act)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;
	SfOwner		caller;

	keep_name(PG_GETARG_OID(0));
	sf_owner_become(&caller, owner);
	SPI_connect();
	foreach(cell, work)
	{
		bool		isnull = false;
		Datum		result;

		CHECK_FOR_INTERRUPTS();
		result = act(PG_GETARG_OID(0), lfirst(cell));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 &result, &isnull);
	}
	SPI_finish();
	sf_owner_leave(&caller);
}

/*
 * Find the layout of the IDs that the default of the parent's key makes.  The
 * parent is argument 0.  If it is a partition itself, its rows come through
 * the topmost table, and have that one's default.
 */
static SfKeyLayout *
find_key_layout(FunctionCallInfo fcinfo)
{
	SfKeyLayout *key = palloc0(sizeof(SfKeyLayout));
	Oid			parent = PG_GETARG_OID(0);
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(parent));
	Form_pg_partitioned_table form;
	List	   *ancestors;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		return key;
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	name = get_attname(parent, form->partattrs.values[0], true);
	ReleaseSysCache(tuple);
	ancestors = get_partition_ancestors(parent);
	if (ancestors != NIL)
		parent = llast_oid(ancestors);
	if (name != NULL)			/* the key may be an expression */
		(void) sf_key_layout_find(key, parent, get_attnum(parent, name));
	return key;
}

/*
 * Return the layout of argument n.  If it is null, return that of the key's
 * default, or else the configured one.  Throws SQLSTATE 22023 if the default
 * has a layout that cannot be told: rows could look older than they are.
 */
static const SfLayout *
layout_or_default(FunctionCallInfo fcinfo, int n, SfKeyLayout *key)
{
	const SfLayout *configured;

	/* a call site's memory of one kind does not fit the other */
	fcinfo->flinfo->fn_extra = NULL;
	if (!PG_ARGISNULL(n))
		return sf_layout_arg(fcinfo, n);
	if (key->is_known && key->name != NULL)
		return &key->layout;
	sf_key_layout_require_shown(key);
	configured = sf_layout_arg(fcinfo, PG_NARGS());
	return key->is_shard ? &sf_shard_layout : configured;
}

static void
read_layout(FunctionCallInfo fcinfo, Request *request)
{
	request->layout = layout_or_default(fcinfo, 4, find_key_layout(fcinfo));
	sf_id_span_require_life(request->layout, request->from, false);
	sf_id_span_require_life(request->layout, request->until, true);
}

/*
 * snowflake_create_partitions(parent regclass, step interval,
 *							   start timestamptz, until timestamptz,
 *							   layout text DEFAULT NULL)
 * returns setof regclass
 *
 * Create the missing partitions for the calendar steps, in UTC, that hold the
 * times from start up to, not including, until; return the new ones.  Throws
 * SQLSTATE 22004, 22023 (not a step or a layout; nothing in the range), 22008
 * (out of the layout's life), 42P01, 42809 (not partitioned by IDs), 42501
 * (not the owner, an owner that cannot create, or another owner of the default
 * partition), 42P17 (overlap), 42P07 (the name is taken), 54000.
 */
Datum
snowflake_create_partitions(PG_FUNCTION_ARGS)
{
	Request		request;
	List	   *missing;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) ||
		PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("parent, step, start and until must not be null"),
				 errhint("Only the layout may be null: that is the one of the key's default.")));
	if (XactReadOnly)
		sf_refuse_read_only("snowflake_create_partitions()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	sf_calendar_step(&request.step, PG_GETARG_INTERVAL_P(1));
	request.from = PG_GETARG_TIMESTAMPTZ(2);
	request.until = PG_GETARG_TIMESTAMPTZ(3);
	if (request.from >= request.until)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("until must be later than start"),
				 errhint("The partitions hold the times from start up to, not including, until.")));

	missing = lock_and_find(fcinfo, &request, read_layout, find_missing);
	if (missing == NIL)
		return (Datum) 0;
	require_own_default(PG_GETARG_OID(0));
	do_as_owner(fcinfo, require_owner(PG_GETARG_OID(0)), missing,
				create_partition);
	return (Datum) 0;
}

/* ---- dropping ---- */

/* Return the remedy where nobody but the caller knows the layout. */
static const char *
name_layout(Oid parent, TimestampTz until)
{
	return psprintf("Name the layout with which the old IDs were made: SELECT %s.snowflake_drop_partitions(%s::pg_catalog.regclass, timestamp with time zone '%s', 'LAYOUT');",
					sf_extschema(),
					quote_literal_cstr(qualified_name(parent)),
					timestamptz_to_str(until));
}

/*
 * Throw SQLSTATE 22023 unless argument 2 names a layout, or the default of the
 * parent's key does, by being nothing but a call that makes IDs.  Nothing is
 * dropped by a guess: of a user's function the layout is not known, and by a
 * wrong one, new rows look old.
 */
static void
require_layout(FunctionCallInfo fcinfo, const SfKeyLayout *key)
{
	Oid			parent = PG_GETARG_OID(0);

	if (!PG_ARGISNULL(2) || (key->is_known && key->is_direct))
		return;
	sf_key_layout_require_shown(key);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("could not determine the layout of the IDs of \"%s\"",
					get_rel_name(parent)),
			 errdetail("The default of its key is not just a call of a function that makes IDs. With a wrong layout, new rows look old."),
			 errhint("%s", name_layout(parent, PG_GETARG_TIMESTAMPTZ(1)))));
}

/*
 * Return true if new IDs of the parent's key have this layout.  If nobody can
 * tell what makes them, believe the caller that they are this server's.
 */
static bool
is_made(const SfKeyLayout *key, const SfLayout *layout)
{
	if (key->is_known && (key->name != NULL || sf_shmem != NULL))
		return sf_layout_is_same(layout, &key->layout);
	return sf_shmem != NULL &&
		(sf_layout_is_same(layout, &sf_node_layout) ||
		 sf_layout_is_same(layout, &sf_shard_layout));
}

/*
 * Throw SQLSTATE 55000 unless some partition reaches the present, because
 * every table has one that is in use.  If none does, the layout is probably
 * not that of the IDs, and new rows look old.  A partition without an end
 * reaches the present in any layout: it counts for one of new IDs only.
 */
static void
require_present(Relation parent, const Request *request,
				const SfIdSpan *spans, int count)
{
	const SfLayout *layout = request->layout;
	const char *name = qualified_name(RelationGetRelid(parent));
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	/* an old one was found, and has an end */
	if (spans[count - 1].last == PG_INT64_MAX && !request->is_made)
		count--;
	if (spans[count - 1].last >=
		sf_id_span_first_id(layout, GetCurrentTimestamp()))
		return;
	sf_layout_print(layout, spelled, sizeof(spelled));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("all partitions of \"%s\" seem to lie in the past",
					RelationGetRelationName(parent)),
			 errdetail("The layout \"%s\" reads the IDs of the last one as %s.",
					   spelled, sf_id_span_show(layout, &spans[count - 1])),
			 errhint("If the IDs have another layout, name that. Otherwise make the partition of the present first: SELECT %s.snowflake_create_partitions(%s::pg_catalog.regclass, interval '1 month', pg_catalog.now(), pg_catalog.now() OPERATOR(pg_catalog.+) interval '1 month', %s);",
					 sf_extschema(), quote_literal_cstr(name),
					 request->given)));
}

/*
 * Throw SQLSTATE 55000 if IDs between an old partition and the present have
 * none.  A layout that was changed may be the cause: its IDs had to be larger
 * than all that were there, and in it, those look older than they are.
 */
static void
require_no_gap(Relation parent, const Request *request,
			   const SfIdSpan *spans, int count, const SfIdSpan *old)
{
	const SfLayout *layout = request->layout;
	int64		now = sf_id_span_first_id(layout, GetCurrentTimestamp());
	SfIdSpan	gap = {0};
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	while (old + 1 < spans + count && old->last < now &&
		   old->last + 1 == old[1].first)
		old++;
	if (old + 1 == spans + count || old->last >= now)
		return;
	gap.first = old->last + 1;
	gap.last = old[1].first - 1;
	sf_layout_print(layout, spelled, sizeof(spelled));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("partitions of \"%s\" are missing between the old ones and the present",
					RelationGetRelationName(parent)),
			 errdetail("The layout \"%s\" reads the gap as %s. If the layout was changed, older IDs seem older than they are.",
					   spelled, sf_id_span_show(layout, &gap)),
			 errhint("%s", name_layout(RelationGetRelid(parent),
									   request->until))));
}

/* Return the first ID that a layout can make when its first day is over. */
static int64
first_id_of_second_day(const SfLayout *layout)
{
	return sf_layout_min_id(layout, layout->epoch_tick +
							USECS_PER_DAY / 1000 / layout->tick_ms);
}

/*
 * Return the partitions whose IDs were all made before a time.  A partition
 * that begins below 0, or with MINVALUE, is for keys that no layout has made,
 * and one that begins within the layout's first day may have keys of a
 * sequence, from before a conversion: their time is unknown.
 */
static List *
find_old(Relation parent, const Request *request)
{
	List	   *old = NIL;
	int			count;
	Oid			default_relid;
	SfIdSpan   *spans = sf_id_span_read(parent, &count, &default_relid);
	int64		end = sf_id_span_first_id(request->layout, request->until);
	int64		first = first_id_of_second_day(request->layout);
	bool		seem_old = false;

	for (int i = 0; i < count; i++)
	{
		if (spans[i].first < 0 || spans[i].last >= end)
			continue;
		seem_old = true;
		if (spans[i].first >= first)
			old = lappend(old, &spans[i]);
	}
	if (seem_old)
		require_present(parent, request, spans, count);
	if (old != NIL && !request->is_named)
		require_no_gap(parent, request, spans, count, linitial(old));
	return old;
}

/*
 * Throw SQLSTATE 42501 if DETACH would run code of anybody else.  It looks in
 * the tables that refer to the parent for rows that refer to the partition, by
 * a query that joins them with it, and locks them as here.
 */
static void
require_own_references(Oid parent, Oid partition)
{
	const char *hint = psprintf("Drop the foreign keys that refer to %s, and detach all partitions of other owners. Then add the keys again, each after logging in as the owner of its table: the server runs that owner's code.",
								qualified_name(parent));
	List	   *referring = referring_tables(parent);
	ListCell   *cell;

	foreach(cell, referring)
	{
		LockRelationOid(lfirst_oid(cell), ShareLock);
		require_same_owner(parent, lfirst_oid(cell), hint);
		require_same_owner_above(parent, lfirst_oid(cell), hint);
	}
	if (referring == NIL)
		return;
	require_same_owner_above(parent, parent, hint);
	require_same_owner_below(parent, partition, AccessExclusiveLock, hint);
}

/* Drop a partition as the parent's owner; return its name. */
static Datum
drop_partition(Oid parent, const SfIdSpan *span)
{
	Oid			partition = span->relid;
	char	   *name;
	bool		is_foreign;

	LockRelationOid(partition, AccessExclusiveLock);
	keep_name(partition);
	require_own_references(parent, partition);
	name = qualified_name(partition);
	is_foreign = get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE;
	execute(psprintf("ALTER TABLE %s DETACH PARTITION %s",
					 qualified_name(parent), name));
	execute(psprintf("DROP %s %s", is_foreign ? "FOREIGN TABLE" : "TABLE",
					 name));
	return CStringGetTextDatum(name);
}

static void
read_layout_to_drop(FunctionCallInfo fcinfo, Request *request)
{
	SfKeyLayout *key = find_key_layout(fcinfo);

	require_layout(fcinfo, key);
	request->layout = layout_or_default(fcinfo, 2, key);
	request->is_made = is_made(key, request->layout);
}

/*
 * snowflake_drop_partitions(parent regclass, before timestamptz,
 *							 layout text DEFAULT NULL)
 * returns setof text
 *
 * Drop the partitions whose IDs were all made before a time that has passed;
 * return their names.  Throws SQLSTATE 22004, 22023 (not a layout, or none
 * that is known; a time in the future), 42P01, 42809 (not partitioned by IDs),
 * 42501 (not the owner, or the parent's owner does not own a partition, or a
 * table that refers to the parent), 55000 (no partition is of the present, or
 * one before it is missing), 23503 (a row of another table refers to one
 * there), 2BP01 (something else depends on a partition).
 */
Datum
snowflake_drop_partitions(PG_FUNCTION_ARGS)
{
	Request		request = {0};
	List	   *old;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("parent and before must not be null"),
				 errhint("Only the layout may be null: that is the one of the key's default.")));
	if (XactReadOnly)
		sf_refuse_read_only("snowflake_drop_partitions()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	request.is_named = !PG_ARGISNULL(2);
	request.given = !request.is_named ? "NULL" :
		quote_literal_cstr(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	request.until = PG_GETARG_TIMESTAMPTZ(1);
	if (request.until > GetCurrentTimestamp())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"before\" must not lie in the future"),
				 errhint("Give the time from which rows are kept, such as timestamp with time zone '2026-01-01'.")));

	old = lock_and_find(fcinfo, &request, read_layout_to_drop, find_old);
	if (old == NIL)
		return (Datum) 0;
	do_as_owner(fcinfo, sf_owner_of_relation(PG_GETARG_OID(0)), old,
				drop_partition);
	return (Datum) 0;
}

/* ---- listing ---- */

/* Sum up the estimates of rows in all leaves; -1 if one is unknown. */
static double
estimate_rows(Oid relid)
{
	double		sum = 0;
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
	{
		Datum		oid = ObjectIdGetDatum(lfirst_oid(cell));
		HeapTuple	tuple = SearchSysCache1(RELOID, oid);
		Form_pg_class class;

		if (!HeapTupleIsValid(tuple))
			continue;			/* dropped meanwhile */
		class = (Form_pg_class) GETSTRUCT(tuple);
		if (class->relkind != RELKIND_PARTITIONED_TABLE && sum >= 0)
			sum = class->reltuples < 0 ? -1 : sum + class->reltuples;
		ReleaseSysCache(tuple);
	}
	return sum;
}

static void
put_partition(ReturnSetInfo *rsinfo, const SfLayout *layout,
			  const SfIdSpan *span, bool is_default)
{
	Datum		values[PARTITIONS_COLUMNS];
	bool		nulls[PARTITIONS_COLUMNS] = {0};
	double		rows = estimate_rows(span->relid);

	values[0] = ObjectIdGetDatum(span->relid);
	nulls[1] = nulls[3] = is_default || span->first == PG_INT64_MIN;
	nulls[2] = nulls[4] = is_default || span->last == PG_INT64_MAX;
	values[1] = values[2] = values[3] = values[4] = (Datum) 0;
	if (!nulls[1])
	{
		values[1] = TimestampTzGetDatum(sf_id_time_of(layout, span->first));
		values[3] = Int64GetDatum(span->first);
	}
	if (!nulls[2])
	{
		values[2] = TimestampTzGetDatum(sf_id_time_of(layout, span->last + 1));
		values[4] = Int64GetDatum(span->last + 1);
	}
	values[5] = BoolGetDatum(is_default);
	values[6] = Int64GetDatum((int64) rows);
	nulls[6] = rows < 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_partitions(parent regclass, layout text DEFAULT NULL)
 *
 * List the direct partitions in the order of their IDs, the default one last.
 * Throws SQLSTATE 22023 (not a layout), 42P01, 42809.
 */
Datum
snowflake_partitions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const SfLayout *layout;
	Relation	parent;
	SfIdSpan   *spans;
	SfIdSpan	rest = {0};
	int			count;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	parent = sf_id_span_open_parent(PG_GETARG_OID(0), AccessShareLock);
	layout = layout_or_default(fcinfo, 1, find_key_layout(fcinfo));
	spans = sf_id_span_read(parent, &count, &rest.relid);
	for (int i = 0; i < count; i++)
		put_partition(rsinfo, layout, &spans[i], false);
	if (OidIsValid(rest.relid))
		put_partition(rsinfo, layout, &rest, true);
	relation_close(parent, AccessShareLock);
	return (Datum) 0;
}
