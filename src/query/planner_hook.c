/*-------------------------------------------------------------------------
 *
 * planner_hook.c
 *	  Planning of conditions on the time of an ID as conditions on the ID.
 *
 * The planner has no callback between the pull-up of subqueries and the
 * distribution of conditions to relations.  Support functions do not help: the
 * planner asks that of the operator, and never that of a function which is an
 * argument of the operator.  So we use the callback that runs while a
 * RelOptInfo is built: get_relation_info_hook up to 18 (tables only), and
 * build_simple_rel_hook from 19 on (all base relations).  It changes four
 * things, all in the planner's own copy of the query:
 *
 * 1. root->parse->jointree, when the first relation of a query level is built.
 *	  By then subqueries and views are pulled up, constants are folded, and NOT
 *	  is pushed down.  Conditions are read first by deconstruct_jointree().
 *	  Before that query_planner() runs add_base_rels_to_query(), which calls us
 *	  and reads only the jointree's relations.  This holds in 15 to 19.
 *
 * 2. securityQuals of the range table's entries, at the same moment.  They are
 *	  read first by deconstruct_jointree(), and those of branches of UNION ALL
 *	  later, by apply_child_basequals().
 *
 * 3. rel->indexlist of the relation that is built.  We add a copy of each
 *	  partial index whose predicate is about the time, and change the copy's
 *	  predicate as we change conditions.  The callback exists to add indexes to
 *	  this list.  The original stays, for conditions that do not change.
 *
 * 4. Up to 18 only: the clauses in baserestrictinfo of a view of UNION ALL.
 *	  If a query level has no table of its own, the first call is for a branch,
 *	  after the distribution and right before apply_child_basequals() gives the
 *	  view's conditions to that branch.  From then on the planner reads nothing
 *	  of these RestrictInfos but their clause: apply_child_basequals() builds
 *	  new ones for each branch, is_parallel_safe() walks the expression, and
 *	  the view itself is not scanned.
 *
 * If an index of the user serves a condition as it stands, the condition does
 * not change.
 *
 * A second hook, ExecutorStart_hook, looks again at what a plan
 * assumes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "query/query.h"
#include "runtime/function.h"
#include "runtime/settings.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* ---- does an index or a partition key serve it as it stands? ---- */

/*
 * If one does, the condition must not change.  All scanned tables count: the
 * one that the query names, its children and partitions, and the branches of
 * UNION ALL.  When conditions can be changed, the planner has neither opened
 * nor locked these, and it never locks the partitions that it prunes.  So
 * pg_depend tells which indexes and partition keys use the function, or a
 * portable function that calls it.  Most databases have none, and that look-up
 * is the whole cost.
 */

/* Return true if an expression of a valid index is a call of one of these. */
static bool
has_call(HeapTuple index, const List *functions)
{
	bool		isnull;
	Datum		exprs = SysCacheGetAttr(INDEXRELID, index,
										Anum_pg_index_indexprs, &isnull);
	ListCell   *lc;

	if (isnull || !((Form_pg_index) GETSTRUCT(index))->indisvalid)
		return false;			/* without one the predicate has the call */
	foreach(lc, (List *) stringToNode(TextDatumGetCString(exprs)))
	{
		if (IsA(lfirst(lc), FuncExpr) &&
			list_member_oid(functions, ((FuncExpr *) lfirst(lc))->funcid))
			return true;
	}
	return false;
}

/* Return true if this column is a key of the index by itself. */
static bool
has_column(Oid oid, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(oid));
	Form_pg_index index;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	index = (Form_pg_index) GETSTRUCT(tuple);
	for (int i = 0; i < index->indnkeyatts; i++)
		found = found || index->indkey.values[i] == attno;
	ReleaseSysCache(tuple);
	return found;
}

/* Add the indexes and tables whose definitions use a function. */
static List *
add_users(List *users, Relation depend, Oid function)
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

		if (form->classid == RelationRelationId)
			users = list_append_unique_oid(users, form->objid);
	}
	systable_endscan(scan);
	return users;
}

/*
 * Return the indexes and tables that use one of these functions: they may call
 * a portable function that the planner has replaced by ours.
 */
static List *
users_of(const List *functions)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	List	   *users = NIL;
	ListCell   *lc;

	foreach(lc, functions)
		users = add_users(users, depend, lfirst_oid(lc));
	table_close(depend, AccessShareLock);
	return users;
}

/*
 * Return true if one of these tables is partitioned by a call of one of these
 * functions, or has this index on one.  Other tables' indexes are not read:
 * their owners may have made many, and large ones.
 */
static bool
serves(Oid user, const List *functions, const List *tables)
{
	HeapTuple	index;
	bool		found;

	if (get_rel_relkind(user) == RELKIND_PARTITIONED_TABLE)
		return list_member_oid(tables, user);
	index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(user));
	if (!HeapTupleIsValid(index))
		return false;
	found = list_member_oid(tables,
							((Form_pg_index) GETSTRUCT(index))->indrelid) &&
		has_call(index, functions);
	ReleaseSysCache(index);
	return found;
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
static bool
is_served(PlannerInfo *root, FuncExpr *call)
{
	List	   *functions;
	List	   *users;
	List	   *tables = NIL;
	Relids		relids;
	int			relid = -1;
	ListCell   *lc;

	/* without a layout the function is stable, so no index can have it */
	if (list_length(call->args) == 1)
		return false;
	functions = sf_function_callers(call->funcid);
	users = users_of(functions);
	if (users == NIL)
		return false;
	relids = pull_varnos(root, (Node *) call);
	while ((relid = bms_next_member(relids, relid)) >= 0)
		tables = list_concat(tables, tables_of_relation(root, relid));
	foreach(lc, users)
	{
		if (serves(lfirst_oid(lc), functions, tables))
			return true;
	}
	return false;
}

/*
 * Return true if this node is a column on which its table has an index.  Look
 * only at the indexes of a parent, not at those of its children.
 */
static bool
has_index(PlannerInfo *root, Node *node)
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
		found = found || has_column(lfirst_oid(lc), var->varattno);
	table_close(table, NoLock);
	return found;
}

/* ---- the replacement of one comparison ---- */

/*
 * snowflake_timestamp() never falls while its argument rises.  So each
 * comparison of it with a time is one of the ID with a bound:
 *
 *		snowflake_timestamp(id) >= t	id >= bound('>=', t)
 *		snowflake_timestamp(id) >  t	id >= bound('>', t)
 *		snowflake_timestamp(id) <  t	id <= bound('<', t)
 *		snowflake_timestamp(id) <= t	id <= bound('<=', t)
 *		snowflake_timestamp(id) =  t	both the first and the last of these
 *
 * Indexes, partitions and statistics understand these.  If no ID is on that
 * side of the time, the bound is NULL, which WHERE and ON treat as false.  If
 * the time is a constant, so is the bound; a comparison that no ID meets is
 * then FALSE, and one that every ID meets "id IS NOT NULL" (fold()).
 * bound() and is_at() below are functions of the schema snowflake_internal,
 * which EXPLAIN shows.
 *
 * An equation with a column of another table stays, so that tables can be
 * joined by hashing.  Beside it stands is_at(id, t), which says the same and
 * gives an index scan the two bounds.  Any other comparison with such a column
 * stays beside its bound if that column has an index.
 *
 * A comparison stays unchanged, and right, in three cases: no bound can be
 * computed beforehand (volatile expressions, columns of the same table); the
 * configured layout must not be read; the user has an index on the same
 * expression, or partitions by it.
 *
 * The executor checks EXECUTE on the functions in a plan, as the role that
 * runs it.  We put other functions, or a constant, in the place of the user's.
 * So we do that only for a role that may call both the user's function and
 * ours, and mark the plan as this role's own (dependsOnRole).  If another role
 * runs a cached plan, the server then plans again.
 *
 * A constant bound in a configured layout is right only while the database's
 * record has that layout.  A restore, setval(), or a standby's replay may
 * change the record, and no plan is made again then.  So such a plan is marked
 * by a dependency on layout(), and the record is read whenever a marked plan
 * begins to run.
 */

/* A comparison of an ID's time, which is on the left: "id's time < time". */
typedef struct Comparison
{
	FuncExpr   *call;			/* snowflake_timestamp(id [, layout]) */
	Node	   *id;
	Node	   *layout;			/* NULL: the configured one */
	Node	   *time;
	int			strategy;		/* the operator, as a strategy of a btree */
} Comparison;

/*
 * The function that marks this session's plans; its hash is that of the item
 * in PlannedStmt.invalItems.
 */
static struct
{
	Oid			function;
	uint32		hash;
}			marker = {InvalidOid, 0};

SF_FUNCTION(snowflake_is_at_support);

static bool
may_be_call(Node *node)
{
	FuncExpr   *f = (FuncExpr *) node;

	return IsA(node, FuncExpr) &&
		f->funcresulttype == TIMESTAMPTZOID &&
		f->funcid >= FirstNormalObjectId &&
		(list_length(f->args) == 1 || list_length(f->args) == 2);
}

/* Return true if the clause may compare an ID's time.  This is cheap. */
static bool
may_be_comparison(Node *clause)
{
	List	   *args = is_opclause(clause) ? ((OpExpr *) clause)->args : NIL;

	return list_length(args) == 2 &&
		(may_be_call(linitial(args)) || may_be_call(lsecond(args)));
}

/*
 * Return true if this SQL function runs that C function directly, and the user
 * may call it.  If the user may not, the executor refuses the plain condition.
 */
static bool
runs_function(Oid oid, PGFunction function)
{
	return sf_function_direct(oid) == function &&
		sf_function_aclcheck(oid, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

static bool
is_call(Node *node)
{
	FuncExpr   *f = (FuncExpr *) node;

	return may_be_call(node) && exprType(linitial(f->args)) == INT8OID &&
		runs_function(f->funcid, snowflake_timestamp);
}

/* Return the btree strategy of a comparison of times, or 0. */
static int
time_strategy(Oid opno)
{
	TypeCacheEntry *type = lookup_type_cache(TIMESTAMPTZOID,
											 TYPECACHE_BTREE_OPFAMILY);

	return get_op_opfamily_strategy(opno, type->btree_opf);
}

static bool
is_free_of(PlannerInfo *root, Node *node, int relid)
{
	return !bms_is_member(relid, pull_varnos(root, node)) &&
		!contain_volatile_functions(node);
}

/*
 * Return true if the ID is of one table, or of one view of UNION ALL, and the
 * bound can be computed without a row of it.  Conditions on other subqueries
 * are replaced inside of them.
 */
static bool
is_usable(PlannerInfo *root, Comparison *c)
{
	Oid			type = exprType(c->time);
	RangeTblEntry *rte;
	int			relid;

	if (!bms_get_singleton_member(pull_varnos(root, c->id), &relid) ||
		contain_volatile_functions(c->id) ||
		!is_free_of(root, c->time, relid) ||
		(type != TIMESTAMPTZOID && type != TIMESTAMPOID && type != DATEOID))
		return false;
	rte = root->simple_rte_array[relid];
	if (rte->rtekind != RTE_RELATION &&
		!(rte->rtekind == RTE_SUBQUERY && rte->inh))
		return false;
	return c->layout == NULL ? sf_layout_arg_readable() :
		is_free_of(root, c->layout, relid);
}

/* Return true if this side of an operator is the time of an ID. */
static bool
recognize(OpExpr *op, int side, Comparison *c)
{
	Node	   *node = list_nth(op->args, side);

	if (!is_call(node))
		return false;
	c->call = (FuncExpr *) node;
	c->id = linitial(c->call->args);
	c->layout = list_length(c->call->args) == 2 ? lsecond(c->call->args) :
		NULL;
	c->time = list_nth(op->args, 1 - side);
	c->strategy = time_strategy(op->opno);
	if (side == 1 && c->strategy != 0)
		c->strategy = BTMaxStrategyNumber + 1 - c->strategy;
	return c->strategy != 0;
}

/*
 * Return a call of a function in our schema, with the first argument, the
 * time, and the layout if there is one; NULL if it must not be called.
 */
static Node *
make_call(Comparison *c, const char *name, PGFunction function, Oid result,
		  Node *first)
{
	const Oid	types[] = {exprType(first), ANYOID, TEXTOID};
	List	   *args = list_make2(first, c->time);
	Oid			oid;

	if (c->layout != NULL)
		args = lappend(args, c->layout);
	oid = sf_function_find(get_namespace_oid(SF_SCHEMA, true), name,
						   list_length(args), types);
	if (!runs_function(oid, function))
		return NULL;
	return (Node *) makeFuncExpr(oid, result, copyObject(args), InvalidOid,
								 c->call->inputcollid, COERCE_EXPLICIT_CALL);
}

static Node *
make_bound(Comparison *c, SfBound bound)
{
	Const	   *side = makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
								 CStringGetTextDatum(sf_id_time_side(bound)),
								 false, false);

	return make_call(c, "bound", snowflake_bound, INT8OID, (Node *) side);
}

/* Mark the plan; return false if that is impossible. */
static bool
mark_plan(PlannerInfo *root)
{
	Oid			function = sf_layout_arg_function();

	if (!OidIsValid(function))
		return false;
	marker.function = function;
	marker.hash = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(function));
	record_plan_function_dependency(root, function);
	return true;
}

/* Throw SQLSTATE 55000 if a marked plan is no longer right. */
static void
verify_record(const PlannedStmt *plan)
{
	ListCell   *lc;

	if (!OidIsValid(marker.function))
		return;
	foreach(lc, plan->invalItems)
	{
		PlanInvalItem *item = lfirst(lc);

		if (item->cacheId == PROCOID && item->hashValue == marker.hash)
		{
			sf_config_record_require();
			return;
		}
	}
}

/*
 * Return true if the bound is a constant as long as the plan lives.  The
 * configuration cannot change before a restart, but the time zone can, and it
 * affects other types than timestamptz.
 */
static bool
is_constant(PlannerInfo *root, Comparison *c, SfLayout *layout)
{
	Const	   *time = (Const *) c->time;
	Const	   *name = (Const *) c->layout;
	const SfLayout *named;

	if (!IsA(time, Const) || time->constisnull ||
		time->consttype != TIMESTAMPTZOID)
		return false;
	if (name == NULL)
	{
		*layout = sf_node_layout;
		return mark_plan(root);
	}
	named = sf_layout_arg_named(c->layout);
	if (named != NULL)
	{
		*layout = *named;
		return sf_layout_arg_readable() && mark_plan(root);
	}
	return IsA(name, Const) && !name->constisnull &&
		sf_layout_arg_parse(layout, DatumGetTextPP(name->constvalue));
}

/*
 * Return the comparison of an ID with its bound.  The operator is that of the
 * server's own operator family, not of an index's: in a family that sorts the
 * other way, the same strategy has another operator.
 */
static Expr *
compare_id(Node *id, SfBound bound, Node *value)
{
	bool		below = bound == SF_BEFORE || bound == SF_UNTIL;
	Oid			opno = get_opfamily_member(INTEGER_BTREE_FAM_OID,
										   INT8OID, INT8OID, below ?
										   BTLessEqualStrategyNumber :
										   BTGreaterEqualStrategyNumber);
	Expr	   *result;

	result = make_opclause(opno, BOOLOID, false, copyObject((Expr *) id),
						   (Expr *) value, InvalidOid, InvalidOid);
	set_opfuncid((OpExpr *) result);
	return result;
}

static Node *
is_not_null(Node *id)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = copyObject((Expr *) id);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Node *) test;
}

/* Return the replacement of a comparison with a constant. */
static Node *
fold(Comparison *c, const SfLayout *layout, SfBound bound)
{
	TimestampTz time = DatumGetTimestampTz(((Const *) c->time)->constvalue);
	int64		id;

	if (!sf_id_time_bound(layout, bound, time, &id))
		return makeBoolConst(false, false);
	if (id == (bound == SF_BEFORE || bound == SF_UNTIL ?
			   PG_INT64_MAX : PG_INT64_MIN))
		return is_not_null(c->id);
	return (Node *) compare_id(c->id, bound, (Node *)
							   makeConst(INT8OID, -1, InvalidOid,
										 sizeof(int64), Int64GetDatum(id),
										 false, FLOAT8PASSBYVAL));
}

/* Return comparisons of the ID with these bounds; NIL if one is forbidden. */
static List *
make_comparisons(PlannerInfo *root, Comparison *c, const SfBound *wanted,
				 int n)
{
	SfLayout	layout;
	bool		constant = is_constant(root, c, &layout);
	List	   *result = NIL;

	for (int i = 0; i < n; i++)
	{
		Node	   *value = make_bound(c, wanted[i]);

		if (value == NULL)
			return NIL;
		result = lappend(result, constant ? fold(c, &layout, wanted[i]) :
						 (Node *) compare_id(c->id, wanted[i], value));
	}
	return result;
}

static bool
is_join(PlannerInfo *root, Comparison *c)
{
	return !bms_is_empty(pull_varnos(root, c->time));
}

/* Return conditions on the ID, joined by AND; NIL if there is none. */
static List *
make_replacement(PlannerInfo *root, Comparison *c)
{
	static const SfBound wanted[][2] = {
		[BTLessStrategyNumber] = {SF_BEFORE},
		[BTLessEqualStrategyNumber] = {SF_UNTIL},
		[BTEqualStrategyNumber] = {SF_FROM, SF_UNTIL},
		[BTGreaterEqualStrategyNumber] = {SF_FROM},
		[BTGreaterStrategyNumber] = {SF_AFTER}
	};
	bool		equal = c->strategy == BTEqualStrategyNumber;
	Node	   *at;

	if (!equal || !is_join(root, c))
		return make_comparisons(root, c, wanted[c->strategy], equal ? 2 : 1);
	at = make_call(c, "is_at", snowflake_is_at, BOOLOID, c->id);
	return at == NULL ? NIL : list_make1(at);
}

/* Return true if the comparison is useful beside its replacement. */
static bool
must_stay(PlannerInfo *root, Comparison *c)
{
	return is_join(root, c) &&
		(c->strategy == BTEqualStrategyNumber ||
		 has_index(root, c->time));
}

/*
 * Return the replacement of a comparison of an ID's time, a list joined by
 * AND; NIL for any other clause.  If both sides are times of IDs, the planner
 * may look up either ID.
 */
static List *
replace_comparison(PlannerInfo *root, Node *clause)
{
	OpExpr	   *op = (OpExpr *) clause;
	List	   *result = NIL;
	bool		keep = false;
	Comparison	c;

	if (!may_be_comparison(clause))
		return NIL;
	for (int side = 0; side < 2; side++)
	{
		if (!recognize(op, side, &c))
			continue;
		if (is_served(root, c.call))
			return NIL;
		if (!is_usable(root, &c))
			continue;
		result = list_concat(result, make_replacement(root, &c));
		keep = keep || must_stay(root, &c);

		/* a constant does not show that the plan depends on the function */
		record_plan_function_dependency(root, c.call->funcid);
	}
	if (result == NIL)
		return NIL;
	root->glob->dependsOnRole = true;
	return keep ? lcons(op, result) : result;
}

/* Return one comparison for an index; NULL if the index cannot use it. */
static Expr *
compare_in_index(Comparison *c, SfBound bound, Oid opfamily)
{
	Node	   *value = make_bound(c, bound);
	Expr	   *result = value ? compare_id(c->id, bound, value) : NULL;

	if (result && op_in_opfamily(((OpExpr *) result)->opno, opfamily))
		return result;
	return NULL;
}

/*
 * is_at_support(internal) returns internal
 *
 * Support the planner for is_at(id, time [, layout]).  It stands beside an
 * equation and removes no further row, so its selectivity is 1.  For an index
 * on the ID it is two comparisons.
 */
Datum
snowflake_is_at_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	SupportRequestIndexCondition *index;
	FuncExpr   *at;
	Comparison	c;
	Expr	   *from = NULL;
	Expr	   *until = NULL;

	if (IsA(request, SupportRequestSelectivity))
	{
		((SupportRequestSelectivity *) request)->selectivity = 1.0;
		PG_RETURN_POINTER(request);
	}
	if (!IsA(request, SupportRequestIndexCondition))
		PG_RETURN_POINTER(NULL);
	index = (SupportRequestIndexCondition *) request;
	at = (FuncExpr *) index->node;
	if (!IsA(at, FuncExpr) || index->indexarg != 0)
		PG_RETURN_POINTER(NULL);
	c.call = at;
	c.id = linitial(at->args);
	c.time = lsecond(at->args);
	c.layout = list_length(at->args) == 3 ? lthird(at->args) : NULL;
	if (is_pseudo_constant_for_index(index->root, c.time, index->index) &&
		(c.layout == NULL ||
		 is_pseudo_constant_for_index(index->root, c.layout, index->index)))
	{
		from = compare_in_index(&c, SF_FROM, index->opfamily);
		until = compare_in_index(&c, SF_UNTIL, index->opfamily);
	}
	if (from == NULL || until == NULL)
		PG_RETURN_POINTER(NULL);
	index->lossy = false;
	PG_RETURN_POINTER(list_make2(from, until));
}

/* ---- the hooks ---- */

static sf_rel_hook_type prev_rel_hook = NULL;
static ExecutorStart_hook_type prev_executor_start = NULL;

static List *replace_clause(PlannerInfo *root, Node *clause);

static bool
mentions_time(List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);

		if (may_be_comparison(clause) ||
			((is_andclause(clause) || is_orclause(clause)) &&
			 mentions_time(((BoolExpr *) clause)->args)))
			return true;
	}
	return false;
}

static bool
is_false(Node *clause)
{
	return IsA(clause, Const) && !((Const *) clause)->constisnull &&
		!DatumGetBool(((Const *) clause)->constvalue);
}

/* Return a list of conditions joined by AND, with replacements in it. */
static List *
replace_clauses(PlannerInfo *root, List *clauses)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);
		List	   *parts = replace_clause(root, clause);
		ListCell   *part;

		if (parts == NIL)
			result = lappend(result, clause);
		foreach(part, parts)
		{
			if (is_false(lfirst(part)))
				return list_make1(lfirst(part));
			result = lappend(result, lfirst(part));
		}
	}
	return result;
}

/* Replace in an OR.  Leave out arms that became false, as the planner does. */
static List *
replace_or(PlannerInfo *root, BoolExpr *or)
{
	List	   *arms = NIL;
	ListCell   *lc;

	foreach(lc, or->args)
	{
		Node	   *arm = lfirst(lc);
		List	   *parts = is_andclause(arm) ?
			((BoolExpr *) arm)->args : list_make1(arm);

		parts = replace_clauses(root, parts);
		if (!is_false(linitial(parts)))
			arms = lappend(arms, make_ands_explicit(parts));
	}
	if (arms == NIL)
		return list_make1(makeBoolConst(false, false));
	if (list_length(arms) > 1)
		return list_make1(make_orclause(arms));
	return make_ands_implicit(linitial(arms));
}

/*
 * Return the replacement of a clause: a list joined by AND; NIL if the clause
 * stays.  Look only inside AND and OR: a bound may be NULL in place of false,
 * and elsewhere these differ.
 */
static List *
replace_clause(PlannerInfo *root, Node *clause)
{
	if (is_orclause(clause) && mentions_time(((BoolExpr *) clause)->args))
		return replace_or(root, (BoolExpr *) clause);
	return replace_comparison(root, clause);
}

static List *
replace_quals(PlannerInfo *root, List *quals)
{
	return mentions_time(quals) ? replace_clauses(root, quals) : quals;
}

static void
replace_in_jointree(PlannerInfo *root, Node *node)
{
	if (node == NULL)
		return;					/* the plan of an index build has none */
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;
		ListCell   *lc;

		from->quals = (Node *) replace_quals(root, (List *) from->quals);
		foreach(lc, from->fromlist)
			replace_in_jointree(root, lfirst(lc));
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		/* a full join needs conditions that can be hashed or merged */
		if (join->jointype != JOIN_FULL)
			join->quals = (Node *) replace_quals(root, (List *) join->quals);
		replace_in_jointree(root, join->larg);
		replace_in_jointree(root, join->rarg);
	}
}

/* Return true if this is the first call for the query level. */
static bool
is_first(PlannerInfo *root)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && SF_REL_HOOK_SEES(rel->rtekind))
			return false;
	}
	return true;
}

/* Make the changes 1 and 2 of the file's head. */
static void
replace_in_query(PlannerInfo *root)
{
	replace_in_jointree(root, (Node *) root->parse->jointree);
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RangeTblEntry *rte = root->simple_rte_array[i];
		ListCell   *lc;

		if (rte == NULL)
			continue;
		foreach(lc, rte->securityQuals)
			lfirst(lc) = replace_quals(root, lfirst(lc));
	}
}

/* Make the change 4 of the file's head. */
static void
replace_in_parent(PlannerInfo *root, RelOptInfo *rel)
{
	Index		relid = root->append_rel_array[rel->relid]->parent_relid;
	RelOptInfo *parent = root->simple_rel_array[relid];
	ListCell   *lc;

	if (SF_REL_HOOK_SEES(parent->rtekind))
		return;
	foreach(lc, parent->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst(lc);
		List	   *clauses = list_make1(rinfo->clause);

		rinfo->clause = make_ands_explicit(replace_quals(root, clauses));
	}
}

/* Make the change 3 of the file's head. */
static void
add_partial_indexes(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *added = NIL;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst(lc);
		List	   *predicate = replace_quals(root, index->indpred);
		IndexOptInfo *copy;

		if (equal(predicate, index->indpred))
			continue;
		copy = makeNode(IndexOptInfo);
		*copy = *index;
		copy->indpred = predicate;
		added = lappend(added, copy);
	}
	rel->indexlist = list_concat(rel->indexlist, added);
}

static void
plan_times(PlannerInfo *root, RelOptInfo *rel)
{
	if (!sf_time_ranges)
		return;
	add_partial_indexes(root, rel);
	if (rel->reloptkind != RELOPT_BASEREL)
		replace_in_parent(root, rel);
	else if (is_first(root))
		replace_in_query(root);
}

#ifdef SF_REL_HOOK_HAS_RTE
static void
on_rel(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	if (prev_rel_hook)
		prev_rel_hook(root, rel, rte);
	plan_times(root, rel);
}
#else
static void
on_rel(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	if (prev_rel_hook)
		prev_rel_hook(root, relation, inhparent, rel);
	plan_times(root, rel);
}
#endif

/* EXPLAIN without ANALYZE reads no row, and may show the plan. */
static void
on_executor_start(QueryDesc *query, int eflags)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		verify_record(query->plannedstmt);
	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sf_planner_hook_install(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = on_executor_start;
	prev_rel_hook = sf_rel_hook;
	sf_rel_hook = on_rel;
	sf_key_type_install();
}
