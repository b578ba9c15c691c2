/*-------------------------------------------------------------------------
 *
 * conversion_script.c
 *	  What both ways of a conversion share: the column, and the script's
 *	  beginning and end.
 *
 * Where the script is run, its tables are locked first, and only then looked
 * at; so nobody adds a row in between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "conversion.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "guard.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

/* ---- the column ---- */

/* It stays until the transaction ends.  SQLSTATE 42P01, 42809, 42501 */
static void
require_table(Oid relation)
{
	Relation	opened = try_relation_open(relation, AccessShareLock);
	char		kind;

	if (opened == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation),
				 errhint("Name a table that is there.")));
	kind = opened->rd_rel->relkind;
	relation_close(opened, NoLock);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", get_rel_name(relation)),
				 errhint("Name a table, or a partitioned one.")));
	if (!object_ownercheck(RelationRelationId, relation, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
					   get_rel_name(relation));
}

/* SQLSTATE 42703, 42804, 42809, 55000 */
static AttrNumber
require_column(Oid relation, const char *column)
{
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
				 errhint("Name the column; without a name it is \"id\".")));
	attribute = (Form_pg_attribute) GETSTRUCT(tuple);
	number = attribute->attnum;
	type = getBaseType(attribute->atttypid);
	if (type != INT8OID && attribute->atttypid != INT4OID &&
		attribute->atttypid != INT2OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of relation \"%s\" is of type %s",
						column, get_rel_name(relation),
						format_type_be(attribute->atttypid)),
				 errhint("It must be bigint, integer or smallint.")));
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

/* Within SPI. */
SfConversion *
sf_conversion_open(Oid relation, const char *column)
{
	SfConversion *conversion = palloc0(sizeof(SfConversion));
	const char *schema;

	require_table(relation);
	conversion->relation = relation;
	conversion->number = require_column(relation, column);
	conversion->column = quote_identifier(column);
	schema = get_namespace_name(get_rel_namespace(relation));
	conversion->table =
		quote_qualified_identifier(schema, get_rel_name(relation));
	sf_conversion_find(conversion);
	return conversion;
}

/* A text about the column; queries have it as $1 and $2. */
char *
sf_conversion_ask(const SfConversion *conversion, const char *query)
{
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
	Int16GetDatum(conversion->number)};

	return sf_conversion_value(query, 2, types, values);
}

/* What serial has made, and a conversion leaves; or NULL. */
const char *
sf_conversion_own_sequence(const SfConversion *conversion)
{
	return sf_conversion_ask(conversion,
							 "SELECT s.oid::regclass::text FROM pg_depend d"
							 " JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'"
							 " WHERE d.classid = 'pg_class'::regclass"
							 " AND d.refclassid = 'pg_class'::regclass"
							 " AND d.refobjid = $1 AND d.refobjsubid = $2"
							 " AND d.deptype = 'a' ORDER BY s.oid LIMIT 1");
}

/* False if there is none. */
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

const char *
sf_conversion_of(const SfConversion *conversion, const char *format)
{
	return psprintf(format, conversion->column, conversion->table);
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

/* ---- the script ---- */

/*
 * Where it is run, lock first what it is about, and see that it still is.
 * SQLSTATE 40001
 */
void
sf_conversion_start(SfConversion *conversion, bool dry_run)
{
	SfStatement *lock;
	SfStatement *again;

	if (dry_run)
		sf_conversion_add(conversion, "BEGIN", NULL, NULL);
	sf_conversion_add(conversion,
					  "SET LOCAL search_path = pg_catalog, pg_temp", NULL,
					  NULL);
	sf_conversion_lock(conversion);
	if (dry_run)
		return;
	lock = llast(conversion->steps);
	if (SPI_execute(lock->text, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", lock->text);
	sf_conversion_find(conversion);
	sf_conversion_lock(conversion);
	again = llast(conversion->steps);
	if (strcmp(lock->text, again->text) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("foreign keys or inheritance have changed meanwhile"),
				 errhint("Call it again.")));
	conversion->steps = list_delete_last(conversion->steps);
}

/* Return the script, and run it, if that is what is asked for. */
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

		if (!dry_run && SPI_execute(statement->text, false, 0) < 0)
			elog(ERROR, "could not execute \"%s\"", statement->text);
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
}

/* ---- arguments ---- */

/*
 * What both functions begin with; dry_run is the argument of that name.
 * SQLSTATE 22004, 25000, 25006
 */
void
sf_conversion_arguments(FunctionCallInfo fcinfo, int dry_run,
						const char *name)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(dry_run))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation, column and dry_run must not be null"),
				 errhint("Leave out what is to have its default.")));
	if (!PG_GETARG_BOOL(dry_run) && XactReadOnly)
		sf_guard_refuse_read_only(name);
	if (!PG_GETARG_BOOL(dry_run) && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot execute %s at this isolation level", name),
				 errdetail("The snapshot may be older than the lock on the table, and miss its last rows."),
				 errhint("Use READ COMMITTED.")));
	InitMaterializedSRF(fcinfo, 0);
}
