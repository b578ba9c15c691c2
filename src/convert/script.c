/*-------------------------------------------------------------------------
 *
 * script.c
 *	  Parts that both ways of a conversion share: its queries, the dependents
 *	  of the column, obstacles, the column, the steps of its widening, and the
 *	  script's beginning and end.
 *
 * Columns share their values through foreign keys and inheritance: those that
 * refer to the column, those that refer to these, and the same column of
 * partitions and children.  All of them get the same type, bigint or
 * snowflake.  ALTER TABLE itself makes indexes, constraints and statistics
 * anew.  The dependents that it refuses to alter are found here: views, rules,
 * triggers, policies, publications, functions with an SQL body, generated
 * columns.
 *
 * The queries run with search_path = pg_catalog, pg_temp, and with the rights
 * of the caller, or, if the script is run, of the table's owner.
 *
 * If the script is run, its tables are locked first, and only then looked at;
 * so no session adds a row in between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "convert/script.h"

#include "access/relation.h"
#include "access/xact.h"
#include "base/message.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "convert/plan.sql.inc"
#include "convert/rights.sql.inc"
#include "convert/script.sql.inc"
#include "convert/steps.sql.inc"
#include "convert/widen.sql.inc"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "runtime/preconditions.h"
#include "storage/lmgr.h"
#include "table/table.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"

/* ---- queries ---- */

/*
 * Run a query without JIT: the planner overestimates these queries, and
 * compiling one takes seconds.
 */
static void
select_rows(const char *query, int nargs, Oid *types, Datum *values)
{
	int			guc_level = NewGUCNestLevel();

	(void) set_config_option("jit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_execute_with_args(query, nargs, types, values, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
	AtEOXact_GUC(true, guc_level);
}

/* Return a text; NULL if there is no row, or no value. */
char *
sf_conversion_value(const char *query, int nargs, Oid *types, Datum *values)
{
	select_rows(query, nargs, types, values);
	if (SPI_processed == 0)
		return NULL;
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/* Return an array, whose contents live until SPI_finish(). */
static Datum
get_array(int number)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, number, &isnull);

	Assert(!isnull);
	return value;
}

static Oid	given_types[] = {OIDARRAYOID, INT2ARRAYOID, OIDOID, OIDOID,
OIDARRAYOID};

/*
 * Return a text, from a query that begins with the given arrays; NULL if there
 * is no query.
 */
static char *
ask_given(SfConversion *conversion, const char *query)
{
	if (query == NULL)
		return NULL;
	return sf_conversion_value(query, lengthof(given_types), given_types,
							   conversion->given);
}

void
sf_conversion_add(SfConversion *conversion, const char *text,
				  const char *locks, const char *note)
{
	SfStatement *statement = palloc(sizeof(SfStatement));

	statement->text = text;
	statement->locks = locks;
	statement->note = note;
	statement->role = InvalidOid;
	statement->target = NULL;
	statement->check = NULL;
	statement->if_unique = NULL;
	conversion->steps = lappend(conversion->steps, statement);
}

/* Add the statements found: text, locks, note, a role to become, a target. */
static void
add_found(SfConversion *conversion)
{
	SPITupleTable *table = SPI_tuptable;

	for (uint64 i = 0; i < table->numvals; i++)
	{
		SfStatement *statement;
		bool		isnull = true;
		Datum		role = (Datum) 0;

		sf_conversion_add(conversion,
						  SPI_getvalue(table->vals[i], table->tupdesc, 1),
						  SPI_getvalue(table->vals[i], table->tupdesc, 2),
						  SPI_getvalue(table->vals[i], table->tupdesc, 3));
		if (table->tupdesc->natts > 3)
			role = SPI_getbinval(table->vals[i], table->tupdesc, 4, &isnull);
		statement = llast(conversion->steps);
		if (!isnull)
			statement->role = DatumGetObjectId(role);
		/* the fifth is for lock_and_look_again() */
		if (table->tupdesc->natts > 5)
			statement->target = SPI_getvalue(table->vals[i], table->tupdesc,
											 6);
	}
}

/* Add the statements of a query that begins with the given arrays. */
static void
add_query(SfConversion *conversion, const char *query)
{
	select_rows(query, lengthof(given_types), given_types, conversion->given);
	add_found(conversion);
}

/* Add the statements of a query about the column, which is $1 and $2. */
void
sf_conversion_query_column(SfConversion *conversion, const char *query)
{
	(void) sf_conversion_ask(conversion, query);
	add_found(conversion);
}

static void
add_queries(SfConversion *conversion, const char *const *queries,
			int n)
{
	for (int i = 0; i < n; i++)
		add_query(conversion, queries[i]);
}

/*
 * Add a SET of the path.  A path as it was set may not be valid for SET: $user
 * stands without quotes in many, and any other text, even a semicolon, may
 * come from a user that set it for the database.  SET takes no name without
 * letters.
 */
static void
set_path(SfConversion *conversion, const char *path, const char *note)
{
	StringInfoData list;
	List	   *names;
	ListCell   *cell;
	bool		can_set = SplitIdentifierString(pstrdup(path), ',', &names) &&
		names != NIL;
	const char *text;

	initStringInfo(&list);
	foreach(cell, names)
	{
		const char *name = lfirst(cell);

		can_set = can_set && name[0] != '\0';
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
						 quote_identifier(name));
	}
	text = psprintf("SET LOCAL search_path = %s", list.data);
	if (!can_set)
		text = psprintf("SELECT pg_catalog.set_config('search_path', %s, true)",
						quote_literal_cstr(path));
	sf_conversion_add(conversion, text, NULL, note);
}

/* Set the session's path for statements that run functions, if it differs. */
void
sf_conversion_path_begin(SfConversion *conversion)
{
	if (strcmp(conversion->path, SF_CONVERSION_PATH) != 0)
		set_path(conversion, conversion->path,
				 "functions see the session's path, as without this script");
}

void
sf_conversion_path_end(SfConversion *conversion)
{
	if (strcmp(conversion->path, SF_CONVERSION_PATH) != 0)
		set_path(conversion, SF_CONVERSION_PATH, NULL);
}

/* Add statements that run functions with the session's path. */
static void
add_query_with_path(SfConversion *conversion, const char *query)
{
	int			before = list_length(conversion->steps);
	int			begins;

	sf_conversion_path_begin(conversion);
	begins = list_length(conversion->steps);
	add_query(conversion, query);
	if (list_length(conversion->steps) == begins)
		conversion->steps = list_truncate(conversion->steps, before);
	else
		sf_conversion_path_end(conversion);
}

/* ---- dependents ---- */

/* Find the arrays that the queries of a conversion take. */
static void
find_given(SfConversion *conversion)
{
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
	Int16GetDatum(conversion->number)};

	select_rows(SQL_FIND_COLUMNS, 2, types, values);
	conversion->given[0] = get_array(1);
	conversion->given[1] = get_array(2);
	conversion->given[2] = ObjectIdGetDatum(conversion->type);
	conversion->given[3] = ObjectIdGetDatum(conversion->other);
	select_rows(SQL_FIND_VIEWS, 4, given_types, conversion->given);
	conversion->given[4] = get_array(1);
}

/* Return true if any column must be altered. */
bool
sf_conversion_widens(SfConversion *conversion)
{
	return ask_given(conversion, SQL_ANY_ALTERED) != NULL;
}

/* ---- obstacles ---- */

static const struct
{
	const char *query;			/* returns texts for the DETAIL */
	int			sqlstate;
	const char *message;		/* %s is the type */
	const char *hint;			/* %s is the query's second text, which may be
								 * NULL, or else the type */
}			obstacles[] = {

	{SQL_NOT_OWNED, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"must be owner of all objects that change with the column",
	"Call it as the owner of these, or as a superuser."},
	{SQL_OWNER_MAY_NOT, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"the table's owner cannot make the objects again that depend on the column",
	"The owners of these schemas, functions and types decide whether to grant that. Without it, first drop what needs it."},
	{SQL_OTHER_TYPES, ERRCODE_DATATYPE_MISMATCH,
		"columns that refer to this one, or inherit it, cannot become %s",
	"As the owner of the table, run first: %s"},
	{SQL_NOT_IN_PLACE, ERRCODE_FEATURE_NOT_SUPPORTED,
		"the column cannot become %s in place",
	"First drop what computes with the column, and add it again afterwards. For a table that is partitioned by the column, make a new one with the type %s, and copy the rows."},
	{SQL_DEPENDENT_OBJECTS, ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
		"other objects depend on views or generated columns that have to be made again",
	"Drop them, convert the column, and make them again."}
};

/*
 * Throw an error, also in a dry run, if rights are missing or the conversion
 * is impossible: SQLSTATE 42501, 42804, 0A000, 2BP01.
 */
void
sf_conversion_require(SfConversion *conversion)
{
	const char *type = format_type_be(conversion->type);

	for (int i = 0; i < (int) lengthof(obstacles); i++)
	{
		char	   *why = ask_given(conversion, obstacles[i].query);
		const char *run = type;

		if (why == NULL)
			continue;
		if (SPI_tuptable->tupdesc->natts > 1)
			run = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
							   2);
		ereport(ERROR,
				(errcode(obstacles[i].sqlstate),
				 errmsg(obstacles[i].message, type),
				 errdetail_internal("%s", why),
				 run == NULL ?
				 errhint("The owner of each of these tables must log in, and change the type: changing a table runs its owner's code.") :
				 errhint(obstacles[i].hint, run)));
	}
}

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

/* Keep the names of the table and the function, and of their schemas. */
static void
keep_first_names(FunctionCallInfo fcinfo, Oid relation)
{
	ObjectAddress objects[2];

	ObjectAddressSet(objects[0], RelationRelationId, relation);
	ObjectAddressSet(objects[1], ProcedureRelationId, fcinfo->flinfo->fn_oid);
	sf_names_keep(objects, lengthof(objects));
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

/* Return true if the type of the column asked for is no integer's. */
bool
sf_conversion_is_snowflake(FunctionCallInfo fcinfo)
{
	Oid			relation = PG_GETARG_OID(0);
	AttrNumber	number = get_attnum(relation, NameStr(*PG_GETARG_NAME(1)));
	Oid			type = InvalidOid;

	if (number > 0)
		type = getBaseType(get_atttype(relation, number));
	return OidIsValid(type) && type != INT8OID && type != INT4OID &&
		type != INT2OID;
}

/* Set something until sf_conversion_finish(). */
static void
set_for_script(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Print definitions, and read them, so that they mean the same, whatever the
 * database has set.  A script that is printed is read with other settings.
 */
void
sf_conversion_keep_meaning(void)
{
	set_for_script("check_function_bodies", "off");
	set_for_script("default_tablespace", "");
	set_for_script("datestyle", "ISO");
	set_for_script("intervalstyle", "postgres");
	set_for_script("extra_float_digits", "1");
	set_for_script("array_nulls", "on");
}

/*
 * Open a conversion to a type, within SPI.  The first two arguments of the
 * call are the table and the column.  The path is set here, not where the
 * functions are declared: the session's path must be known, because ALTER
 * TABLE runs with that.  For a script that is run, the names of the table and
 * of the schemas are kept before they are read.
 */
SfConversion *
sf_conversion_open(FunctionCallInfo fcinfo, bool to_snowflake, bool dry_run)
{
	SfConversion *conversion = palloc0(sizeof(SfConversion));
	Oid			relation = PG_GETARG_OID(0);
	const char *column = NameStr(*PG_GETARG_NAME(1));
	const char *schema;
	const char *name;

	require_standard_strings();
	conversion->lock = AccessExclusiveLock;
	conversion->lock_tables = SQL_LOCK_TABLES;
	conversion->other_owners = SQL_OTHER_OWNERS;
	conversion->not_one_owner = SQL_NOT_ONE_OWNER;
	conversion->overloads = SQL_OVERLOADS;
	conversion->guc_level = NewGUCNestLevel();
	conversion->path = pstrdup(GetConfigOption("search_path", false, false));
	set_for_script("search_path", SF_CONVERSION_PATH);
	/* what is printed is compared with what we print, in any session */
	set_for_script("quote_all_identifiers", "off");
	require_table(relation);
	if (!dry_run)
		keep_first_names(fcinfo, relation);
	find_types(fcinfo, conversion, to_snowflake);
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
	find_given(conversion);
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

/* Throw an error if a query about the column finds what the hint names. */
static void
refuse_found(const SfConversion *conversion, const char *query, int sqlstate,
			 const char *message, const char *hint)
{
	char	   *found = sf_conversion_ask(conversion, query);

	if (found != NULL)
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg(message, conversion->column, conversion->table),
				 errhint(hint, found)));
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

	/* only their server knows their IDs, and only their users may ask it */
	refuse_found(conversion, SQL_FOREIGN_TABLES, ERRCODE_WRONG_OBJECT_TYPE,
				 "column %s of %s has IDs in foreign tables, which are not read here",
				 "Take them out: %s; Put them back afterwards, if all of their IDs are below the new ones.");
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

	add_queries(conversion, queries, lengthof(queries));
}

void
sf_conversion_widen(SfConversion *conversion)
{
	const char *const queries[] = {
		SQL_ALTER_READERS, SQL_ADD_GENERATED, SQL_RESTORE_PARTS
	};

	add_query(conversion, SQL_DROP_GENERATED);
	add_query_with_path(conversion, SQL_ALTER_OTHERS);
	add_queries(conversion, queries, lengthof(queries));
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

	add_queries(conversion, definitions, lengthof(definitions));
	add_query_with_path(conversion, SQL_REFRESH);
	add_queries(conversion, rest, lengthof(rest));
}

/* Throw SQLSTATE 55000: the column refers to another table. */
void
sf_conversion_refuse_foreign_key(const SfConversion *conversion)
{
	refuse_found(conversion, SQL_REFERRED_TABLES,
				 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				 "column %s of %s has its values from another table",
				 "Name the column that it refers to, in %s.");
}

/*
 * Return the call that moves the mark above an ID.  Layout is a literal; if it
 * is NULL, there is nothing to force.
 */
char *
sf_conversion_advance(int64 id, const char *layout, bool force)
{
	if (layout == NULL)
		layout = "";
	return psprintf("SELECT %s.snowflake_advance('%lld'::bigint%s%s%s);",
					sf_extschema(), (long long) id, *layout == '\0' ? "" : ", ",
					layout, *layout != '\0' && force ? ", true" : "");
}

/* ---- the script ---- */

/* Note, for a printed script, whose code it runs. */
static const char *
note_owners(SfConversion *conversion)
{
	const char *owners = ask_given(conversion, conversion->other_owners);
	const char *why = ask_given(conversion, conversion->not_one_owner);
	const char *also = ask_given(conversion, conversion->overloads);
	const char *note = "dry_run => false does so as the table's owner";

	if (why == NULL)
		why = also;
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
 * Only those could grant others a right to add code who may do it themselves.
 */
static void
require_one_owner(SfConversion *conversion)
{
	char	   *why = ask_given(conversion, conversion->not_one_owner);

	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("objects that change with the column, refer to it, or are read for that, have other owners than its table"),
				 errdetail("%s The script of a dry run would run their code with your rights.",
						   why)));
	why = ask_given(conversion, conversion->overloads);
	if (why != NULL)
	{
		char	   *commands = SPI_getvalue(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 2);

		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("other roles could choose what definitions with the column call"),
				 errdetail_internal("%s", why),
				 commands == NULL ? 0 :
				 errhint("Run as a superuser: %s", commands)));
	}
}

/* Return the objects that statements name, and their number. */
static ObjectAddress *
find_named(SfConversion *conversion, uint64 *n)
{
	ObjectAddress *named;

	select_rows(SQL_NAMED, lengthof(given_types), given_types,
				conversion->given);
	named = palloc0((SPI_processed + 1) * sizeof(ObjectAddress));
	*n = 0;
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Oid			class =
			DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i],
										   SPI_tuptable->tupdesc, 1, &isnull));
		Oid			object =
			DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i],
										   SPI_tuptable->tupdesc, 2, &isnull));

		/* a rule, say, is named together with its table */
		if (is_objectclass_supported(class) &&
			get_object_catcache_oid(class) >= 0)
		{
			ObjectAddressSet(named[*n], class, object);
			(*n)++;
		}
	}
	return named;
}

static void
refuse_changed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("%s have changed meanwhile", what),
			 errhint("Call it again.")));
}

/* Keep the names of all that statements name.  SQLSTATE 40001 */
static void
keep_names(SfConversion *conversion)
{
	uint64		n;
	uint64		n_again;
	ObjectAddress *named = find_named(conversion, &n);
	ObjectAddress *again;

	sf_names_keep(named, n);
	again = find_named(conversion, &n_again);
	if (n != n_again || memcmp(named, again, n * sizeof(*named)) != 0)
		refuse_changed("objects that depend on the column");
}

/* Lock tables by number, with all that inherit from them. */
static void
lock_tables(Datum tables, LOCKMODE mode)
{
	Datum	   *oids;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(tables), OIDOID, sizeof(Oid), true,
					  TYPALIGN_INT, &oids, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		LockRelationOid(DatumGetObjectId(oids[i]), mode);
		(void) find_all_inheritors(DatumGetObjectId(oids[i]), mode, NULL);
	}
}

/* Lock, and check that nothing has changed.  SQLSTATE 40001 */
static void
lock_and_look_again(SfConversion *conversion)
{
	SfStatement *lock = llast(conversion->steps);
	SfStatement *again;

	lock_tables(get_array(5), conversion->lock);
	find_given(conversion);
	add_query(conversion, conversion->lock_tables);
	again = llast(conversion->steps);
	if (strcmp(lock->text, again->text) != 0)
		refuse_changed("foreign keys or inheritance");
	conversion->steps = list_delete_last(conversion->steps);
	keep_names(conversion);
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
	add_query(conversion, conversion->lock_tables);
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
		refuse_changed("owners or grants");
	sf_owner_switch(role);
}

/*
 * Check that a name leads to a relation of the table's owner, before a
 * statement that another role runs on it.  The locks of this transaction keep
 * all names from others, but not from code of the owner that it has run, which
 * may have renamed schemas.  SQLSTATE 40001
 */
static void
require_target(const SfConversion *conversion, const char *target)
{
	List	   *names = textToQualifiedNameList(cstring_to_text(target));
	Oid			found = RangeVarGetRelid(makeRangeVarFromNameList(names),
										 NoLock, true);

	if (!OidIsValid(found) || sf_owner_of_relation(found) !=
		sf_owner_of_relation(conversion->relation))
		refuse_changed("names of tables and views");
}

/* Give the server's error for a key that is there already our HINT. */
static void
add_hint(void *arg)
{
	const SfStatement *statement = arg;

	if (statement->if_unique != NULL &&
		geterrcode() == ERRCODE_UNIQUE_VIOLATION)
		errhint("%s", statement->if_unique);
}

static void
execute(const SfConversion *conversion, SfStatement *statement)
{
	ErrorContextCallback callback = {error_context_stack, add_hint, statement};

	error_context_stack = &callback;
	if (statement->target != NULL)
		require_target(conversion, statement->target);
	if (OidIsValid(statement->role))
		become(conversion, statement->role);
	else if (SPI_execute(statement->text, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", statement->text);
	error_context_stack = callback.previous;
	if (statement->check != NULL)
		statement->check(statement->arg);
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
				 errhint("Give each of them a value.")));
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
