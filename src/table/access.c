/*-------------------------------------------------------------------------
 *
 * access.c
 *	  Access to another user's table without giving its owner's code the
 *	  rights of the caller: a reader for a column, names that stay, and the
 *	  switch to the owner.
 *
 * Planning a query runs code of the table's owner: the planner evaluates
 * functions in its indexes, statistics and partition constraints if they are
 * labelled IMMUTABLE.  An administrator who looks at another user's tables
 * must not run that code.  So the reader uses no query.  It reads a table and
 * its partitions through an index with the order of integers, or from
 * one end to the other.  Neither evaluates an expression.
 *
 * Changing a table runs code of its owner: CHECK constraints, generated
 * columns, the functions of indexes.  So statements on another user's table
 * run as its owner, in an operation that cannot switch to any other role, like
 * those of VACUUM, ANALYZE and REINDEX.  If an error ends it, the server
 * itself restores the previous role.
 *
 * Such a statement is a text with names, and the owner of the table need not
 * be that of its schema, or of a function in an index.  Those could rename or
 * move what is theirs, and put a trap with the old name in its place, which
 * would get the rights of the table's owner.  ALTER SCHEMA ... RENAME waits
 * for no lock on the schema.  So names are kept first, and then read: a lock
 * on the row in the catalogue, like that of a foreign key's check, stops
 * whoever would rename, move or drop the object, and nobody else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "table/table.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "query/query.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* ---- rights ---- */

/*
 * Check the rights that a query of the caller would need.  Policies of row
 * security are the owner's code, so a caller that is subject to them is
 * refused.  SQLSTATE 42501
 */
void
sf_column_require_select(Oid relation, const char *name)
{
	Oid			schema = get_rel_namespace(relation);
	AclResult	result = sf_schema_aclcheck(schema, GetUserId(), ACL_USAGE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_SCHEMA, get_namespace_name(schema));
	result = pg_class_aclcheck(relation, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		result = pg_attribute_aclcheck(relation, get_attnum(relation, name),
									   GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, get_rel_name(relation));
	if (check_enable_rls(relation, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security of table \"%s\" applies to the current user",
						get_rel_name(relation)),
				 errhint("Call it as a role with BYPASSRLS, or as a superuser.")));
}

/* ---- one table, or partition ---- */

static int64
get_integer(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			Assert(IsBinaryCoercible(type, INT8OID));
			return DatumGetInt64(value);
	}
}

/* Return true if the index has all values of this column, in order. */
static bool
is_usable(Relation index, AttrNumber number, Oid type)
{
	HeapTuple	tuple = index->rd_indextuple;
	Form_pg_index form = index->rd_index;

	return form->indisvalid && form->indkey.values[0] == number &&
		index->rd_rel->relam == BTREE_AM_OID &&
		sf_key_type_is_order(index->rd_opfamily[0]) &&
		index->rd_opcintype[0] == type &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		(!form->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(tuple->t_data),
							   TransactionXmin));
}

/* Lock and open; NULL if it is gone, or its lock is not free in passing. */
static Relation
lock_and_open(const SfColumn *column, Oid relation)
{
	Relation	opened;

	if (!column->in_passing)
		LockRelationOid(relation, AccessShareLock);
	else if (!ConditionalLockRelationOid(relation, AccessShareLock))
		return NULL;
	opened = try_relation_open(relation, NoLock);
	if (opened == NULL)
		UnlockRelationOid(relation, AccessShareLock);
	return opened;
}

/* Open a usable index; return NULL if there is none. */
static Relation
open_index(const SfColumn *column, Relation table, AttrNumber number, Oid type)
{
	List	   *indexes = RelationGetIndexList(table);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = lock_and_open(column, lfirst_oid(cell));

		if (index == NULL)
			continue;
		if (is_usable(index, number, type))
			return index;
		relation_close(index, AccessShareLock);
	}
	return NULL;
}

/* Return the snapshot to read with, perhaps in *dirty. */
static Snapshot
snapshot_of(const SfColumn *column, SnapshotData *dirty)
{
	InitDirtySnapshot(*dirty);
	return column->in_progress ? dirty : GetActiveSnapshot();
}

static void
read_by_index(const SfColumn *column, Relation table, Relation index,
			  AttrNumber number, Oid type)
{
	bool		forward = column->ascending ==
		((index->rd_indoption[0] & INDOPTION_DESC) == 0);
	Oid			operator = get_opfamily_member(index->rd_opfamily[0],
											   type, INT8OID,
											   BTGreaterEqualStrategyNumber);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	SnapshotData dirty;
	ScanKeyData key;
	IndexScanDesc scan;
	bool		goes_on = true;
	uint64		nth = 0;

	ScanKeyEntryInitialize(&key, 0, 1, BTGreaterEqualStrategyNumber, INT8OID,
						   InvalidOid, get_opcode(operator),
						   Int64GetDatum(column->lowest));
	scan = sf_index_beginscan(table, index, snapshot_of(column, &dirty), 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (goes_on &&
		   index_getnext_slot(scan, forward ? ForwardScanDirection :
							  BackwardScanDirection, slot))
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, number, &isnull);

		CHECK_FOR_INTERRUPTS();
		goes_on = column->visit(get_integer(value, type), nth++, column->arg);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

static void
read_whole(const SfColumn *column, Relation table, AttrNumber number, Oid type)
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	SnapshotData dirty;
	TableScanDesc scan = table_beginscan_strat(table,
											   snapshot_of(column, &dirty), 0,
											   NULL, true, true);
	uint64		nth = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, number, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!isnull && get_integer(value, type) >= column->lowest)
			(void) column->visit(get_integer(value, type), nth++, column->arg);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* Refuse a relation without rows of its own.  SQLSTATE 42809, 55000 */
static void
require_storage(Relation table)
{
	if (!RELKIND_HAS_TABLE_AM(table->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table",
						RelationGetRelationName(table)),
				 errhint("For a view, name the table that it reads. Ask about a foreign table on the server that has it.")));
	if (!RelationIsScannable(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("materialized view \"%s\" has not been populated",
						RelationGetRelationName(table)),
				 errhint("Use the REFRESH MATERIALIZED VIEW command.")));
}

/*
 * Find the column's number and type.  Return false if the column is gone:
 * another session may have detached and altered the table before it was locked
 * here.
 */
static bool
find_column(const SfColumn *column, Relation table, AttrNumber *number,
			Oid *type)
{
	*number = get_attnum(RelationGetRelid(table), column->name);
	if (*number == InvalidAttrNumber)
		return false;
	*type = getBaseType(get_atttype(RelationGetRelid(table), *number));
	return *type == INT2OID || *type == INT4OID ||
		IsBinaryCoercible(*type, INT8OID);
}

static bool
read_table(const SfColumn *column, Relation table)
{
	AttrNumber	number;
	Oid			type;
	Relation	index;

	require_storage(table);
	if (!find_column(column, table, &number, &type))
		return true;
	index = open_index(column, table, number, type);
	if (index != NULL)
	{
		read_by_index(column, table, index, number, type);
		relation_close(index, AccessShareLock);
	}
	else if (!column->in_passing)
		read_whole(column, table, number, type);
	return index != NULL || !column->in_passing;
}

/* Read one table or partition; false if that was impossible in passing. */
static bool
read_part(const SfColumn *column, Oid relation)
{
	Relation	table = lock_and_open(column, relation);
	bool		was_read = true;

	if (table == NULL)
		return !column->in_passing; /* it was dropped */
	/* like the server, skip temporary tables of other sessions */
	if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		!RELATION_IS_OTHER_TEMP(table))
		was_read = read_table(column, table);
	relation_close(table, AccessShareLock);
	return was_read;
}

/*
 * Show the visitor the column's values, from the lowest on, in this table and
 * all that inherit from it.  Values of a table with a usable index come in
 * order, others as they are found.  The caller has checked the column's type,
 * and the rights.
 *
 * Return false if a part could not be read in passing.  No lock is kept.
 * Throws SQLSTATE 42809 (not a table), 55000 (materialized view without data).
 */
bool
sf_column_read(const SfColumn *column)
{
	List	   *parts = find_all_inheritors(column->relation, NoLock, NULL);
	bool		were_read = true;
	ListCell   *cell;

	foreach(cell, parts)
		were_read = read_part(column, lfirst_oid(cell)) && were_read;
	list_free(parts);
	return were_read;
}

/* ---- names ---- */

/*
 * Lock an object's row in its catalogue until the transaction ends: the values
 * of unique indexes stay, and these have the name and the schema.  Return
 * false if the object is gone.
 */
static bool
lock_name(Oid class, Oid object)
{
	Relation	catalog = table_open(class, RowShareLock);
	TM_Result	result = TM_Updated;

	while (result == TM_Updated)
	{
		HeapTuple	tuple;
		Buffer		buffer;
		TM_FailureData failure;

		CHECK_FOR_INTERRUPTS();
		AcceptInvalidationMessages();
		tuple = SearchSysCacheCopy1(get_object_catcache_oid(class),
									ObjectIdGetDatum(object));
		if (!HeapTupleIsValid(tuple))
			break;
		result = heap_lock_tuple(catalog, tuple, GetCurrentCommandId(true),
								 LockTupleKeyShare, LockWaitBlock, true,
								 &buffer, &failure);
		ReleaseBuffer(buffer);
	}
	table_close(catalog, NoLock);
	return result == TM_Ok;
}

/* Do so with an object, or lock a relation; and with the schema. */
static bool
keep_name(const ObjectAddress *object)
{
	Oid			schema;

	if (object->classId == RelationRelationId)
	{
		LockRelationOid(object->objectId, AccessShareLock);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(object->objectId)))
			return false;
	}
	else if (!lock_name(object->classId, object->objectId))
		return false;
	schema = get_object_namespace(object);
	return !OidIsValid(schema) || lock_name(NamespaceRelationId, schema);
}

/*
 * Keep the names of these objects, and those of their schemas, until the
 * transaction ends.  The caller reads them afterwards.  What this session
 * knows of other names may be of a moment ago, and is forgotten.  SQLSTATE
 * 40001 if an object is gone.
 */
void
sf_names_keep(const ObjectAddress *objects, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
	{
		if (!keep_name(&objects[i]))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("an object has been dropped meanwhile"),
					 errhint("Call it again.")));
	}
	InvalidateSystemCaches();
}

/* ---- acting as the owner ---- */

Oid
sf_owner_of_relation(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relation);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Become the owner; settings that its code changes are restored later.  A role
 * that was taken by SET ROLE or SET SESSION AUTHORIZATION does not suffice:
 * the owner's code could leave it by RESET.
 */
void
sf_owner_become(SfOwner *before, Oid owner)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	before->guc_level = NewGUCNestLevel();
	if (owner != before->user || owner != GetAuthenticatedUserId())
		sf_owner_switch(owner);
}

/* Become another role.  SET ROLE is not possible during such an operation. */
void
sf_owner_switch(Oid role)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(role, context | SECURITY_RESTRICTED_OPERATION |
						   SECURITY_LOCAL_USERID_CHANGE);
}

void
sf_owner_leave(const SfOwner *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->context);
}
