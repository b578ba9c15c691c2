/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  The SQL functions for tables that are partitioned by ranges of IDs.
 *
 * Where a partition begins depends on the step alone, not on the range asked
 * for: two calls with one step never cut the calendar in different places.
 *
 * Locks: what is missing is found out under ACCESS SHARE, so that a call with
 * nothing to do disturbs nobody.  Only then, and after that lock is given
 * back, the parent is locked as CREATE TABLE ... PARTITION OF does (keeping
 * the weak lock would make two callers wait for each other), and looked at
 * again: of two sessions that miss the same partition the second finds it.
 *
 * Statements run as the parent's owner, since a partition comes with whatever
 * that one has written: the functions of indexes, and constraints.  They name
 * everything with its schema; there are no operators or functions in them for
 * search_path to find.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "calendar.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "idtime.h"
#include "layout_arg.h"
#include "miscadmin.h"
#include "owner.h"
#include "span.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* A typing error shall not fill the catalogue, or the lock table. */
#define MAX_STEPS		10000

#define PARTITIONS_COLUMNS	7

SF_FUNCTION(snowflake_create_partitions);
SF_FUNCTION(snowflake_partitions);

/* What a call asks for. */
typedef struct Request
{
	const SfLayout *layout;
	SfStep		step;
	TimestampTz from;
	TimestampTz until;
} Request;

/* ---- what is missing ---- */

/* SQLSTATE 42P17, as the server says it */
static void
refuse_overlap(const SfLayout *layout, const SfSpan *wanted,
			   const SfSpan *there)
{
	char	   *name =
		DatumGetCString(DirectFunctionCall1(regclassout,
											ObjectIdGetDatum(there->relid)));

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("partition \"%s\" would overlap partition \"%s\"",
					wanted->name, name),
			 errdetail("\"%s\" would hold the IDs %s; \"%s\" holds those %s.",
					   wanted->name, sf_span_show(layout, wanted),
					   name, sf_span_show(layout, there)),
			 errhint("Use the step that the partitions were made with, or a range without this one; or detach it.")));
}

/* The partitions that a request asks for and that are missing. */
static List *
find_missing(Relation parent, const Request *request)
{
	List	   *missing = NIL;
	int			count;
	int			steps = 0;
	Oid			default_relid;
	SfSpan	   *there = sf_span_read(parent, &count, &default_relid);
	SfSpan	   *last = there + count;
	TimestampTz end;

	for (TimestampTz start = sf_calendar_start(&request->step, request->from);
		 start < request->until; start = end)
	{
		SfSpan		wanted = {0};

		CHECK_FOR_INTERRUPTS();
		if (++steps > MAX_STEPS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("more than %d partitions asked for", MAX_STEPS),
					 errhint("Use a longer step, or a shorter range.")));
		end = sf_calendar_end(&request->step, start);
		sf_span_of_step(&wanted, request->layout, start, end);
		/* a long name of the parent gives way, at a character's end */
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

/* Make one, as the parent's owner, whose it is then. */
static Oid
create_partition(Oid parent, const SfSpan *span)
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
				 errhint("Rename or attach it, or make the partition under another name: CREATE TABLE ... PARTITION OF %s %s",
						 parent_name, bounds)));
	execute(psprintf("CREATE TABLE %s PARTITION OF %s %s",
					 name, parent_name, bounds));
	return get_relname_relid(span->name, schema);
}

/* Its owner, who has to make them.  SQLSTATE 42501 */
static Oid
require_owner(Oid parent)
{
	Oid			owner = sf_owner_of_relation(parent);
	Oid			schema = get_rel_namespace(parent);
	char	   *name = get_namespace_name(schema);
	char	   *role = GetUserNameFromId(owner, false);

	if (sf_schema_aclcheck(schema, owner, ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner of table \"%s\" cannot create partitions in schema \"%s\"",
						get_rel_name(parent), name),
				 errdetail("Partitions are made with the rights of the owner, \"%s\", whose functions they may call.",
						   role),
				 errhint("GRANT CREATE ON SCHEMA %s TO %s;",
						 quote_identifier(name), quote_identifier(role))));
	return owner;
}

/* Lock the parent as strongly as is needed, and no more. */
static List *
lock_and_find_missing(Oid relid, const Request *request)
{
	LOCKMODE	lockmode = AccessShareLock;

	for (;;)
	{
		Relation	parent = sf_span_open_parent(relid, lockmode);
		List	   *missing;

		if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
						   RelationGetRelationName(parent));
		missing = find_missing(parent, request);
		if (missing == NIL || lockmode == AccessExclusiveLock)
		{
			relation_close(parent, NoLock);
			return missing;
		}
		relation_close(parent, lockmode);
		lockmode = AccessExclusiveLock;
	}
}

/* The layout of argument n, which may be null: then the configured one. */
static const SfLayout *
layout_or_configured(FunctionCallInfo fcinfo, int n)
{
	/* what a call site remembers of one kind does not do for the other */
	fcinfo->flinfo->fn_extra = NULL;
	return sf_layout_arg(fcinfo, PG_ARGISNULL(n) ? PG_NARGS() : n);
}

/*
 * snowflake_create_partitions(parent regclass, step interval,
 *							   "from" timestamptz, until timestamptz,
 *							   layout text DEFAULT NULL)
 * returns setof regclass
 *
 * Make the missing partitions for the calendar steps, in UTC, that hold the
 * times from "from" up to, not including, "until"; returns those it made.
 * Throws SQLSTATE 22004, 22023 (not a step or a layout; nothing in the range),
 * 22008 (out of the layout's life), 42P01, 42809 (not partitioned by IDs),
 * 42501 (not the owner, or that one cannot create), 42P17 (overlap), 42P07
 * (the name is taken), 54000.
 */
Datum
snowflake_create_partitions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Request		request;
	List	   *missing;
	ListCell   *cell;
	SfOwner		caller;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) ||
		PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("parent, step, from and until must not be null"),
				 errhint("Only the layout may be null: that is the configured one.")));
	if (XactReadOnly)
		sf_guard_refuse_read_only("snowflake_create_partitions()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	request.layout = layout_or_configured(fcinfo, 4);
	sf_calendar_step(&request.step, PG_GETARG_INTERVAL_P(1));
	request.from = PG_GETARG_TIMESTAMPTZ(2);
	request.until = PG_GETARG_TIMESTAMPTZ(3);
	sf_span_require_life(request.layout, request.from, false);
	sf_span_require_life(request.layout, request.until, true);
	if (request.from >= request.until)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"until\" must be later than \"from\""),
				 errhint("The partitions hold the times from \"from\" up to, not including, \"until\".")));

	missing = lock_and_find_missing(PG_GETARG_OID(0), &request);
	if (missing == NIL)
		return (Datum) 0;
	sf_owner_become(&caller, require_owner(PG_GETARG_OID(0)));
	SPI_connect();
	foreach(cell, missing)
	{
		bool		isnull = false;
		Datum		partition;

		CHECK_FOR_INTERRUPTS();
		partition = ObjectIdGetDatum(create_partition(PG_GETARG_OID(0),
													  lfirst(cell)));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 &partition, &isnull);
	}
	SPI_finish();
	sf_owner_leave(&caller);
	return (Datum) 0;
}

/* ---- listing ---- */

/* Rows as last estimated, in all leaves; -1 where one of these is unknown. */
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
			  const SfSpan *span, bool is_default)
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
		values[1] = TimestampTzGetDatum(sf_idtime_of(layout, span->first));
		values[3] = Int64GetDatum(span->first);
	}
	if (!nulls[2])
	{
		values[2] = TimestampTzGetDatum(sf_idtime_of(layout, span->last + 1));
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
 * One row for each direct partition, in the order of their IDs, the default
 * one last.  Throws SQLSTATE 22023 (not a layout), 42P01, 42809.
 */
Datum
snowflake_partitions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const SfLayout *layout;
	Relation	parent;
	SfSpan	   *spans;
	SfSpan		rest = {0};
	int			count;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	layout = layout_or_configured(fcinfo, 1);
	parent = sf_span_open_parent(PG_GETARG_OID(0), AccessShareLock);
	spans = sf_span_read(parent, &count, &rest.relid);
	for (int i = 0; i < count; i++)
		put_partition(rsinfo, layout, &spans[i], false);
	if (OidIsValid(rest.relid))
		put_partition(rsinfo, layout, &rest, true);
	relation_close(parent, AccessShareLock);
	return (Datum) 0;
}
