/*-------------------------------------------------------------------------
 *
 * script.c
 *	  Parts that both ways of a conversion share: the column, the steps of its
 *	  widening, and the script's beginning and end.
 *
 * If the script is run, its tables are locked first, and only then looked at;
 * so no session adds a row in between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "convert/plan.h"
#include "convert/rights.sql.inc"
#include "convert/script.sql.inc"
#include "convert/steps.sql.inc"
#include "convert/widen.sql.inc"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "runtime/preconditions.h"
#include "table/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

/* ---- the column ---- */

/* Lock a table until the transaction ends.  SQLSTATE 42P01, 42809, 42501 */
static void
require_table(Oid relation)
{
	Relation	opened = try_relation_open(relation, AccessShareLock);
	char		kind;
	bool		is_temporary;

	if (opened == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation),
				 errhint("Name a table that is there.")));
	kind = opened->rd_rel->relkind;
	is_temporary = opened->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
	relation_close(opened, NoLock);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", get_rel_name(relation)),
				 errhint("Name a table, or a partitioned one.")));
	if (is_temporary)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" is temporary", get_rel_name(relation)),
				 errhint("Name a permanent table.")));
	if (!sf_relation_ownercheck(relation, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
					   get_rel_name(relation));
}

/* Return the column's number.  SQLSTATE 42703, 42804, 42809 */
static AttrNumber
require_column(const SfConversion *conversion, const char *column)
{
	Oid			relation = conversion->relation;
	HeapTuple	tuple = SearchSysCacheAttName(relation, column);
	Form_pg_attribute attribute;
	AttrNumber	number;
	Oid			type;

	if (!HeapTupleIsValid(tuple) ||
		((Form_pg_attribute) GETSTRUCT(tuple))->attnum < 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						column, get_rel_name(relation)),
				 errhint("Name the column of the key with key => ...; the default is \"id\".")));
	attribute = (Form_pg_attribute) GETSTRUCT(tuple);
	number = attribute->attnum;
	type = attribute->atttypid;
	if (type != INT4OID && type != INT2OID && type != conversion->other &&
		getBaseType(type) != conversion->type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of relation \"%s\" is of type %s",
						column, get_rel_name(relation), format_type_be(type)),
				 errhint("It must be snowflake, bigint, integer or smallint, or a domain over %s.",
						 format_type_be(conversion->type))));
	if (attribute->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("column \"%s\" of relation \"%s\" is generated from others",
						column, get_rel_name(relation)),
				 errhint("Convert a column that has its values from a default, or drop the expression first: ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION.")));
	if (attribute->attinhcount > 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("column \"%s\" of relation \"%s\" is inherited",
						column, get_rel_name(relation)),
				 errhint("Name the table that it is inherited from, or that this is a partition of.")));
	ReleaseSysCache(tuple);
	return number;
}

/*
 * Throw SQLSTATE 55000 where a backslash in '...' escapes: the queries mean it
 * literally, and so must the session that runs the script.
 */
static void
require_standard_strings(void)
{
	const char *setting = "standard_conforming_strings";

	if (strcmp(GetConfigOption(setting, false, false), "on") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s is off, and the script would mean something else",
						setting),
				 errhint("Run: SET %s = on;", setting)));
}

/*
 * Find the types.  That of the extension is in the schema of its functions,
 * whatever the session's path finds by its name.  SQLSTATE 42704
 */
static void
find_types(FunctionCallInfo fcinfo, SfConversion *conversion,
		   bool to_snowflake)
{
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	char	   *name = get_namespace_name(schema);
	Oid			snowflake = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
											CStringGetDatum("snowflake"),
											ObjectIdGetDatum(schema));

	if (name == NULL || !OidIsValid(snowflake))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the extension has been dropped meanwhile"),
				 errhint("Run CREATE EXTENSION snowflake, and call again.")));
	conversion->schema = quote_identifier(name);
	conversion->type = to_snowflake ? snowflake : INT8OID;
	conversion->other = to_snowflake ? INT8OID : snowflake;
}

/*
 * Open a conversion to a type, within SPI.  The first two arguments of the
 * call are the table and the column.  The path is set here, not where the
 * functions are declared: the session's path must be known, because ALTER
 * TABLE runs with that.
 */
SfConversion *
sf_conversion_open(FunctionCallInfo fcinfo, bool to_snowflake)
{
	SfConversion *conversion = palloc0(sizeof(SfConversion));
	Oid			relation = PG_GETARG_OID(0);
	const char *column = NameStr(*PG_GETARG_NAME(1));
	const char *schema;
	const char *name;

	require_standard_strings();
	conversion->guc_level = NewGUCNestLevel();
	conversion->path = pstrdup(GetConfigOption("search_path", false, false));
	(void) set_config_option("search_path", SF_CONVERSION_PATH, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	find_types(fcinfo, conversion, to_snowflake);
	require_table(relation);
	conversion->relation = relation;
	conversion->number = require_column(conversion, column);
	conversion->column = quote_identifier(column);
	schema = get_namespace_name(get_rel_namespace(relation));
	name = get_rel_name(relation);
	if (schema == NULL || name == NULL) /* it is not locked */
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table has been dropped meanwhile"),
				 errhint("Name a table that is there.")));
	conversion->table = quote_qualified_identifier(schema, name);
	sf_conversion_find(conversion);
	return conversion;
}

/* Return a text about the column, which is $1 and $2 in the query. */
char *
sf_conversion_ask(const SfConversion *conversion, const char *query)
{
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
	Int16GetDatum(conversion->number)};

	return sf_conversion_value(query, 2, types, values);
}

/* Find a number about the column; return false if there is none. */
bool
sf_conversion_number(const SfConversion *conversion, const char *query,
					 int64 *number)
{
	char	   *text = sf_conversion_ask(conversion, query);

	if (text == NULL)
		return false;
	*number = DatumGetInt64(DirectFunctionCall1(int8in,
												CStringGetDatum(text)));
	return true;
}

typedef struct Outermost
{
	bool		ascending;
	bool		is_found;
	int64		id;
} Outermost;

static bool
keep_outermost(int64 value, uint64 nth, void *arg)
{
	Outermost  *outermost = arg;

	if (!outermost->is_found ||
		(outermost->ascending ? value < outermost->id : value > outermost->id))
		outermost->id = value;
	outermost->is_found = true;
	return false;
}

/*
 * Throw SQLSTATE 42809 for foreign tables: only their own server knows their
 * IDs, and only their users may ask it.
 */
static void
refuse_foreign_tables(const SfConversion *conversion)
{
	char	   *statements = sf_conversion_ask(conversion, SQL_FOREIGN_TABLES);

	if (statements != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("column %s of %s has IDs in foreign tables, which are not read here",
						conversion->column, conversion->table),
				 errhint("Take them out: %s. Put them back afterwards, if all of their IDs are below the new ones.",
						 statements)));
}

/*
 * Find the smallest ID from the lowest on, or the largest; return false if
 * there is none.  Uses no query, because planning one runs the owner's
 * functions.  The snapshot is new, so it is not older than the lock.
 */
bool
sf_conversion_outermost(const SfConversion *conversion, int64 lowest,
						bool ascending, int64 *id)
{
	Outermost	outermost = {.ascending = ascending};
	SfColumn	column = {
		.relation = conversion->relation,
		.name = get_attname(conversion->relation, conversion->number, false),
		.lowest = lowest,
		.ascending = ascending,
		.visit = keep_outermost,
		.arg = &outermost
	};

	refuse_foreign_tables(conversion);
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) sf_column_read(&column);
	PopActiveSnapshot();
	*id = outermost.id;
	return outermost.is_found;
}

void
sf_conversion_alter(SfConversion *conversion, const char *action,
					const char *note)
{
	sf_conversion_add(conversion,
					  psprintf("ALTER TABLE %s ALTER COLUMN %s %s",
							   conversion->table, conversion->column, action),
					  psprintf("ACCESS EXCLUSIVE on %s", conversion->table),
					  note);
}

/* ---- the steps ---- */

/*
 * The statements that widen columns, and those before and after: objects that
 * the server refuses to alter are removed, and restored as they were.  Each
 * query returns statements, their locks, and notes.
 *
 * If an object can be changed instead of dropped, it keeps its owner, grants
 * and comment, and its dependents: this is so for policies and functions.
 * Views, rules and triggers are made again, with all that belongs to them.
 * Materialized views may call functions that are not restored yet.  So they
 * are made empty, and filled when everything else is there.
 *
 * ALTER TABLE makes indexes and constraints anew, those of partitions as if
 * they were new: they get their names and settings back.
 */

void
sf_conversion_take_away(SfConversion *conversion)
{
	const char *const queries[] = {
		SQL_WITHOUT_BODIES, SQL_LEAVE_PUBLICATIONS, SQL_EMPTY_FUNCTIONS,
		SQL_BLIND_POLICIES, SQL_DROP_TRIGGERS, SQL_DROP_RULES, SQL_DROP_VIEWS,
		SQL_DROP_INDEXES
	};

	sf_conversion_queries(conversion, queries, lengthof(queries));
}

void
sf_conversion_widen(SfConversion *conversion)
{
	const char *const queries[] = {
		SQL_ALTER_READERS, SQL_ADD_GENERATED, SQL_RESTORE_PARTS
	};

	sf_conversion_query(conversion, SQL_DROP_GENERATED);
	sf_conversion_query_with_path(conversion, SQL_ALTER_OTHERS);
	sf_conversion_queries(conversion, queries, lengthof(queries));
}

void
sf_conversion_put_back(SfConversion *conversion)
{
	const char *const definitions[] = {
		SQL_MAKE_VIEWS, SQL_REVOKE_DEFAULTS, SQL_GRANT, SQL_SET_COLUMNS,
		SQL_MAKE_RULES, SQL_MAKE_TRIGGERS, SQL_OPEN_POLICIES,
		SQL_FILL_FUNCTIONS
	};
	const char *const rest[] = {
		SQL_MAKE_INDEXES, SQL_TARGET_INDEXES, SQL_DEPEND_ON_EXTENSIONS,
		SQL_MAKE_STATISTICS, SQL_COMMENT, SQL_LABEL, SQL_JOIN_PUBLICATIONS
	};

	sf_conversion_queries(conversion, definitions, lengthof(definitions));
	sf_conversion_query_with_path(conversion, SQL_REFRESH);
	sf_conversion_queries(conversion, rest, lengthof(rest));
}

/* ---- the script ---- */

/* Note, for a printed script, whose code it runs. */
static const char *
note_owners(SfConversion *conversion)
{
	const char *owners = sf_conversion_text(conversion, SQL_OTHER_OWNERS);
	const char *why = sf_conversion_text(conversion, SQL_NOT_ONE_OWNER);
	const char *note = "dry_run => false does so as the table's owner";

	if (why != NULL)
		note = psprintf("dry_run => false is refused: %s", why);
	if (owners == NULL)
		return why ? note : NULL;
	return psprintf("runs code of %s, with the rights of whoever runs it; %s",
					owners, note);
}

static const char *
note_path(const SfConversion *conversion)
{
	return sf_conversion_ask(conversion, SQL_EVENT_TRIGGERS);
}

/*
 * Throw SQLSTATE 42501 if the script cannot run as the table's owner: it would
 * run somebody else's code, or could not give statistics back to their owners.
 */
static void
require_one_owner(SfConversion *conversion)
{
	char	   *why = sf_conversion_text(conversion, SQL_NOT_ONE_OWNER);

	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("objects that change with the column, or refer to it, have other owners than its table"),
				 errdetail_internal("%s", why),
				 errhint("Have their owners drop them, or drop the foreign keys of these tables, and make them again afterwards. The script of a dry run, or another owner of these objects, would run their code with other rights.")));
}

/* Lock, and check that nothing has changed.  SQLSTATE 40001 */
static void
lock_and_look_again(SfConversion *conversion)
{
	SfStatement *lock = llast(conversion->steps);
	SfStatement *again;

	if (SPI_execute(lock->text, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", lock->text);
	sf_conversion_find(conversion);
	sf_conversion_query(conversion, SQL_LOCK_TABLES);
	again = llast(conversion->steps);
	if (strcmp(lock->text, again->text) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("foreign keys or inheritance have changed meanwhile"),
				 errhint("Call it again.")));
	conversion->steps = list_delete_last(conversion->steps);
	require_one_owner(conversion);
}

/*
 * Begin the script.  If it is run, become the table's owner, lock the tables
 * first, and check that they are still as found.  SQLSTATE 40001, 42501
 */
void
sf_conversion_start(SfConversion *conversion, bool dry_run)
{
	if (dry_run)
		sf_conversion_add(conversion, "BEGIN", NULL, note_owners(conversion));
	else
	{
		require_one_owner(conversion);
		sf_owner_become(&conversion->caller,
						sf_owner_of_relation(conversion->relation));
	}
	sf_conversion_add(conversion,
					  "SET LOCAL search_path = " SF_CONVERSION_PATH, NULL,
					  note_path(conversion));
	sf_conversion_query(conversion, SQL_LOCK_TABLES);
	if (!dry_run)
		lock_and_look_again(conversion);
}

/*
 * Become a role that the script needs.  Its grants may have changed since
 * sf_conversion_require().  SQLSTATE 40001
 */
static void
become(const SfConversion *conversion, Oid role)
{
	if (role != sf_owner_of_relation(conversion->relation) &&
		!sf_may_become(conversion->caller.user, role))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("owners or grants have changed meanwhile"),
				 errhint("Call it again.")));
	sf_owner_switch(role);
}

static void
execute(const SfConversion *conversion, const SfStatement *statement)
{
	if (OidIsValid(statement->role))
		become(conversion, statement->role);
	else if (SPI_execute(statement->text, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", statement->text);
}

/* Return the script, and run it on request. */
void
sf_conversion_finish(SfConversion *conversion, ReturnSetInfo *rsinfo,
					 bool dry_run)
{
	int			step = 0;
	ListCell   *cell;

	if (dry_run)
		sf_conversion_add(conversion, "COMMIT", NULL, NULL);
	foreach(cell, conversion->steps)
	{
		SfStatement *statement = lfirst(cell);
		Datum		values[4] = {0};
		bool		nulls[4] = {0};

		if (!dry_run)
			execute(conversion, statement);
		values[0] = Int32GetDatum(++step);
		values[1] = CStringGetTextDatum(statement->text);
		nulls[2] = statement->locks == NULL;
		nulls[3] = statement->note == NULL;
		if (!nulls[2])
			values[2] = CStringGetTextDatum(statement->locks);
		if (!nulls[3])
			values[3] = CStringGetTextDatum(statement->note);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	if (!dry_run)
		sf_owner_leave(&conversion->caller);
	AtEOXact_GUC(true, conversion->guc_level);
}

/* ---- arguments ---- */

/*
 * Check the common arguments; "dry_run" is the number of that argument.
 * SQLSTATE 22004, 25000, 25006
 */
void
sf_conversion_arguments(FunctionCallInfo fcinfo, int dry_run,
						const char *name)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(dry_run))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation, key and dry_run must not be null"),
				 errhint("Leave an argument out to get its default.")));
	if (!PG_GETARG_BOOL(dry_run) && XactReadOnly)
		sf_refuse_read_only(name);
	if (!PG_GETARG_BOOL(dry_run) && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot execute %s at this isolation level", name),
				 errdetail("The snapshot may be older than the lock on the table, and miss its last rows."),
				 errhint("Use READ COMMITTED.")));
	InitMaterializedSRF(fcinfo, 0);
}
