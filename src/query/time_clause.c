/*-------------------------------------------------------------------------
 *
 * time_clause.c
 *	  Replacement of a comparison of an ID's time by one of the ID itself.
 *
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
 * expression, or partitions by it (time_index.c).
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
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "query/planner_hook.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "query/id_time.h"
#include "query/layout_arg.h"
#include "runtime/function.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

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
bool
sf_time_clause_may_be(Node *clause)
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
void
sf_time_clause_verify(const PlannedStmt *plan)
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
		*layout = *sf_layout_arg_configured();
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
		 sf_time_index_has_column(root, c->time));
}

/*
 * Return the replacement of a comparison of an ID's time, a list joined by
 * AND; NIL for any other clause.  If both sides are times of IDs, the planner
 * may look up either ID.
 */
List *
sf_time_clause_replace(PlannerInfo *root, Node *clause)
{
	OpExpr	   *op = (OpExpr *) clause;
	List	   *result = NIL;
	bool		keep = false;
	Comparison	c;

	if (!sf_time_clause_may_be(clause))
		return NIL;
	for (int side = 0; side < 2; side++)
	{
		if (!recognize(op, side, &c))
			continue;
		if (sf_time_index_serves(root, c.call))
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
