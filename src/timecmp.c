/*-------------------------------------------------------------------------
 *
 * timecmp.c
 *	  A comparison of the time of an ID with another, and what it is as a
 *	  comparison of the ID.
 *
 * snowflake_timestamp() never falls where its argument rises, so that each
 * comparison of it with a time is one of the ID with a bound:
 *
 *		snowflake_timestamp(id) >= t	id >= snowflake_id_from(t)
 *		snowflake_timestamp(id) >  t	id >= snowflake_id_after(t)
 *		snowflake_timestamp(id) <  t	id <= snowflake_id_before(t)
 *		snowflake_timestamp(id) <= t	id <= snowflake_id_until(t)
 *		snowflake_timestamp(id) =  t	both the first and the last of these
 *
 * That is what indexes, partitions and statistics know about.  Where no ID is
 * on that side of the time the bound is NULL, which WHERE and ON take for
 * false.
 *
 * An equation with a column of another table stays, so that tables can be
 * joined by hashing; beside it stands snowflake_id_at(id, t), which says the
 * same once more and gives an index scan the two bounds.  Another comparison
 * with such a column stays beside its bound where that column has an index.
 *
 * A comparison stays as it is, and is right, where no bound can be computed
 * beforehand (volatile expressions, columns of the same table), where the
 * configured layout may not be read, and where the user has an index on, or
 * has partitioned by, the very expression (timeindex.c).
 *
 * The executor checks EXECUTE on the functions in a plan, as the role that
 * runs it.  We put other functions there than the user wrote, or a constant.
 * So we do that only for a role that may call both the user's function and
 * ours, and mark the plan as this role's own (dependsOnRole).  If another role
 * runs a cached plan, the server then plans again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "timecmp.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "idtime.h"
#include "layout_arg.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "timeindex.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* A comparison of an ID's time with another, as if that stood on the right. */
typedef struct Comparison
{
	FuncExpr   *call;			/* snowflake_timestamp(id [, layout]) */
	Node	   *id;
	Node	   *layout;			/* NULL: the configured one */
	Node	   *time;
	int			strategy;		/* of a btree */
} Comparison;

static const struct
{
	const char *name;
	PGFunction	function;
}			bounds[] = {
	[SF_FROM] = {"snowflake_id_from", snowflake_id_from},
	[SF_AFTER] = {"snowflake_id_after", snowflake_id_after},
	[SF_BEFORE] = {"snowflake_id_before", snowflake_id_before},
	[SF_UNTIL] = {"snowflake_id_until", snowflake_id_until},
};

SF_FUNCTION(snowflake_id_at_support);

static bool
may_be_call(Node *node)
{
	FuncExpr   *f = (FuncExpr *) node;

	return IsA(node, FuncExpr) &&
		f->funcresulttype == TIMESTAMPTZOID &&
		f->funcid >= FirstNormalObjectId &&
		(list_length(f->args) == 1 || list_length(f->args) == 2);
}

/* Is it worth a closer look?  This costs next to nothing. */
bool
sf_timecmp_may_be(Node *clause)
{
	List	   *args = is_opclause(clause) ? ((OpExpr *) clause)->args : NIL;

	return list_length(args) == 2 &&
		(may_be_call(linitial(args)) || may_be_call(lsecond(args)));
}

/*
 * Does this SQL function run that C function, and nothing around it?  And may
 * the user call it?  If not, the executor tells him.
 */
static bool
runs(Oid oid, PGFunction function)
{
	FmgrInfo	finfo;

	if (object_aclcheck(ProcedureRelationId, oid, GetUserId(),
						ACL_EXECUTE) != ACLCHECK_OK)
		return false;
	fmgr_info(oid, &finfo);
	return finfo.fn_addr == function;
}

static bool
is_call(Node *node)
{
	FuncExpr   *f = (FuncExpr *) node;
	char	   *name;

	if (!may_be_call(node) || exprType(linitial(f->args)) != INT8OID)
		return false;
	/* fmgr_info() loads libraries: not for functions of others */
	name = get_func_name(f->funcid);
	return name != NULL && strcmp(name, "snowflake_timestamp") == 0 &&
		runs(f->funcid, snowflake_timestamp);
}

/* The btree strategy of a comparison of times, or 0. */
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
 * Is the ID of one table, or view of UNION ALL, and can its bound be known
 * without that?  Conditions on other subqueries are looked at inside of them.
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
	return c->layout == NULL ? sf_layout_arg_readable(c->call->funcid) :
		is_free_of(root, c->layout, relid);
}

/* Is this side of an operator the time of an ID? */
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
 * A call of another function of ours, with the ID if that is not NULL, the
 * time, and the layout if there is one.  NULL if it may not be called.
 */
static Node *
make_call(Comparison *c, const char *name, PGFunction function, Oid result,
		  Node *id)
{
	static const Oid types[] = {INT8OID, ANYOID, TEXTOID};
	List	   *args = id ? list_make2(id, c->time) : list_make1(c->time);
	Oid			namespace = get_func_namespace(c->call->funcid);
	oidvector  *vector;
	Oid			oid;

	if (c->layout != NULL)
		args = lappend(args, c->layout);
	vector = buildoidvector(id ? types : types + 1, list_length(args));
	oid = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						  CStringGetDatum(name), PointerGetDatum(vector),
						  ObjectIdGetDatum(namespace));
	if (!OidIsValid(oid) || !runs(oid, function))
		return NULL;
	return (Node *) makeFuncExpr(oid, result, copyObject(args), InvalidOid,
								 c->call->inputcollid, COERCE_EXPLICIT_CALL);
}

static Node *
make_bound(Comparison *c, SfBound bound)
{
	return make_call(c, bounds[bound].name, bounds[bound].function, INT8OID,
					 NULL);
}

/*
 * The bound as a constant, where it is one now and as long as the plan lives:
 * what is configured cannot change before a restart, but the time zone can,
 * in which other types than timestamptz are read.
 */
static bool
is_constant(Comparison *c, SfLayout *layout)
{
	Const	   *time = (Const *) c->time;
	Const	   *name = (Const *) c->layout;

	if (!IsA(time, Const) || time->constisnull ||
		time->consttype != TIMESTAMPTZOID)
		return false;
	if (name == NULL)
		*layout = *sf_layout_arg_configured();
	return name == NULL ||
		(IsA(name, Const) && !name->constisnull &&
		 sf_layout_arg_parse(layout, DatumGetTextPP(name->constvalue)));
}

/*
 * Return the comparison of an ID with its bound.  The operator comes from the
 * family of the integers, not from an index's: there strategies have other
 * operators if the family sorts the other way.
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

/* What a comparison with a constant becomes. */
static Node *
fold(Comparison *c, const SfLayout *layout, SfBound bound)
{
	TimestampTz time = DatumGetTimestampTz(((Const *) c->time)->constvalue);
	int64		id;

	if (!sf_idtime_bound(layout, bound, time, &id))
		return makeBoolConst(false, false);
	if (id == (bound == SF_BEFORE || bound == SF_UNTIL ?
			   PG_INT64_MAX : PG_INT64_MIN))
		return is_not_null(c->id);
	return (Node *) compare_id(c->id, bound, (Node *)
							   makeConst(INT8OID, -1, InvalidOid,
										 sizeof(int64), Int64GetDatum(id),
										 false, FLOAT8PASSBYVAL));
}

/* Comparisons of the ID with these bounds; NIL if they cannot be made. */
static List *
make_comparisons(Comparison *c, const SfBound *wanted, int n)
{
	SfLayout	layout;
	bool		constant = is_constant(c, &layout);
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

/* Return what a comparison says of the ID, joined by AND; NIL: nothing. */
static List *
derive(PlannerInfo *root, Comparison *c)
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
		return make_comparisons(c, wanted[c->strategy], equal ? 2 : 1);
	at = make_call(c, "snowflake_id_at", snowflake_id_at, BOOLOID, c->id);
	return at == NULL ? NIL : list_make1(at);
}

/* Return true if the comparison is of use beside what it says of the ID. */
static bool
stays(PlannerInfo *root, Comparison *c)
{
	return is_join(root, c) &&
		(c->strategy == BTEqualStrategyNumber ||
		 sf_timeindex_has_column(root, c->time));
}

/*
 * What a clause becomes, if it is such a comparison: a list, joined by AND.
 * Else NIL.  Of two times of IDs either may be the one that is looked up.
 */
List *
sf_timecmp_replace(PlannerInfo *root, Node *clause)
{
	OpExpr	   *op = (OpExpr *) clause;
	List	   *result = NIL;
	bool		keep = false;
	Comparison	c;

	if (!sf_timecmp_may_be(clause))
		return NIL;
	for (int side = 0; side < 2; side++)
	{
		if (!recognize(op, side, &c))
			continue;
		if (sf_timeindex_serves(root, c.call))
			return NIL;
		if (!is_usable(root, &c))
			continue;
		result = list_concat(result, derive(root, &c));
		keep = keep || stays(root, &c);

		/* of a constant's function nothing is left in the plan */
		record_plan_function_dependency(root, c.call->funcid);
	}
	if (result == NIL)
		return NIL;
	root->glob->dependsOnRole = true;
	return keep ? lcons(op, result) : result;
}

/* Return one comparison for an index; NULL if the index has no use for it. */
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
 * snowflake_id_at_support(internal) returns internal
 *
 * What the planner asks about snowflake_id_at(id, time [, layout]): it takes
 * no row away that the equation beside it leaves, and is two comparisons for
 * an index on the ID.
 */
Datum
snowflake_id_at_support(PG_FUNCTION_ARGS)
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
