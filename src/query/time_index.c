/*-------------------------------------------------------------------------
 *
 * time_index.c
 *	  Does an index on the time of an ID, or partitions by it, serve a
 *	  condition on that time as it stands?
 *
 * If so, the condition must not change.  All scanned tables count: the one
 * that the query names, its children and partitions, and the branches of UNION
 * ALL.  When conditions can be changed, the planner has neither opened nor
 * locked these, and it never locks the partitions that it prunes.  So
 * pg_depend tells which indexes and partition keys use the function, or a
 * portable function that calls it.  Most databases have none, and that look-up
 * is the whole cost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "query/planner_hook.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "optimizer/optimizer.h"
#include "runtime/function.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Return true if an expression of this index is a call of the function. */
static bool
has_call(HeapTuple index, Oid function)
{
	bool		isnull;
	Datum		exprs = SysCacheGetAttr(INDEXRELID, index,
										Anum_pg_index_indexprs, &isnull);
	ListCell   *lc;

	if (isnull)
		return false;			/* the call is in the predicate */
	foreach(lc, (List *) stringToNode(TextDatumGetCString(exprs)))
	{
		if (IsA(lfirst(lc), FuncExpr) &&
			((FuncExpr *) lfirst(lc))->funcid == function)
			return true;
	}
	return false;
}

/*
 * Return the table of an object that depends on the function: the table of an
 * index on a call, or a table that is partitioned by a call.  Return
 * InvalidOid if only the predicate of an index has the call.
 */
static Oid
table_of_user(Oid user, Oid function)
{
	HeapTuple	index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(user));
	Form_pg_index form;
	Oid			table = InvalidOid;

	if (!HeapTupleIsValid(index))
		return user;			/* a table, which is partitioned by a call */
	form = (Form_pg_index) GETSTRUCT(index);
	if (form->indisvalid && has_call(index, function))
		table = form->indrelid;
	ReleaseSysCache(index);
	return table;
}

/* Add the tables with an index on a call, or partitions by one. */
static List *
add_tables(List *tables, Relation depend, Oid function)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ProcedureRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(function));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL,
							  lengthof(key), key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		Oid			table = InvalidOid;

		if (form->classid == RelationRelationId)
			table = table_of_user(form->objid, function);
		if (OidIsValid(table))
			tables = list_append_unique_oid(tables, table);
	}
	systable_endscan(scan);
	return tables;
}

/*
 * Return the tables that use a function: they may call a portable function
 * that the planner has replaced by ours.
 */
static List *
tables_that_use(Oid function)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	List	   *callers = sf_function_callers(function);
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, callers)
		tables = add_tables(tables, depend, lfirst_oid(lc));
	list_free(callers);
	table_close(depend, AccessShareLock);
	return tables;
}

/* Return the tables that are scanned for an entry of a range table. */
static List *
tables_of_entry(RangeTblEntry *rte)
{
	List	   *tables = NIL;
	ListCell   *lc;

	if (rte->rtekind == RTE_RELATION)
		return rte->inh ? find_all_inheritors(rte->relid, NoLock, NULL) :
			list_make1_oid(rte->relid);
	if (rte->rtekind != RTE_SUBQUERY || rte->subquery == NULL)
		return NIL;

	/* a branch of UNION ALL that was not pulled up */
	foreach(lc, rte->subquery->rtable)
		tables = list_concat(tables, tables_of_entry(lfirst(lc)));
	return tables;
}

/* Return the tables of a relation; branches of UNION ALL may be pulled up. */
static List *
tables_of_relation(PlannerInfo *root, Index relid)
{
	RangeTblEntry *rte = root->simple_rte_array[relid];
	List	   *tables = NIL;
	ListCell   *lc;

	if (rte->rtekind != RTE_SUBQUERY || !rte->inh)
		return tables_of_entry(rte);
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *branch = lfirst(lc);

		if (branch->parent_relid == relid)
			tables = list_concat(tables,
								 tables_of_relation(root,
													branch->child_relid));
	}
	return tables;
}

/*
 * Return true if any table that is scanned for this call's relations has an
 * index on such a call, or is partitioned by one.  Do not compare the layouts
 * of the calls, since no column has IDs of two layouts.
 */
bool
sf_time_index_serves(PlannerInfo *root, FuncExpr *call)
{
	List	   *used;
	Relids		relids;
	int			relid = -1;
	ListCell   *lc;

	/* without a layout the function is stable, so no index can have it */
	if (list_length(call->args) == 1)
		return false;
	used = tables_that_use(call->funcid);
	if (used == NIL)
		return false;
	relids = pull_varnos(root, (Node *) call);
	while ((relid = bms_next_member(relids, relid)) >= 0)
	{
		foreach(lc, tables_of_relation(root, relid))
		{
			if (list_member_oid(used, lfirst_oid(lc)))
				return true;
		}
	}
	return false;
}

static bool
index_has_column(Oid index, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	for (int i = 0; i < form->indnkeyatts; i++)
		found = found || form->indkey.values[i] == attno;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Return true if this node is a column on which its table has an index.  Look
 * only at the indexes of a parent, not at those of its children.
 */
bool
sf_time_index_has_column(PlannerInfo *root, Node *node)
{
	Var		   *var = (Var *) node;
	RangeTblEntry *rte;
	Relation	table;
	bool		found = false;
	ListCell   *lc;

	if (!IsA(var, Var) || var->varattno <= 0)
		return false;
	rte = root->simple_rte_array[var->varno];
	if (rte->rtekind != RTE_RELATION)
		return false;
	table = table_open(rte->relid, NoLock);
	foreach(lc, RelationGetIndexList(table))
		found = found || index_has_column(lfirst_oid(lc), var->varattno);
	table_close(table, NoLock);
	return found;
}
