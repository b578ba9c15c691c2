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
 * same once more and gives an index scan the two bounds.
 *
 * A comparison stays as it is, and is right, where no bound can be computed
 * beforehand (volatile expressions, columns of the same table), where the
 * configured layout may not be read, and where the user has an index on, or
 * has partitioned by, the very expression.
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

/* Columns of one relation and of no other, and nothing volatile? */
static bool
is_of(PlannerInfo *root, Node *node, int relid)
{
	int			member;

	return bms_get_singleton_member(pull_varnos(root, node), &member) &&
		member == relid && !contain_volatile_functions(node);
}

static bool
is_free_of(PlannerInfo *root, Node *node, int relid)
{
	return !bms_is_member(relid, pull_varnos(root, node)) &&
		!contain_volatile_functions(node);
}

/* Has the user an index on this expression, or partitions by it? */
static bool
is_indexed(RelOptInfo *rel, FuncExpr *call)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (list_member(((IndexOptInfo *) lfirst(lc))->indexprs, call))
			return true;
	}
	for (int i = 0; rel->part_scheme && i < rel->part_scheme->partnatts; i++)
	{
		if (list_member(rel->partexprs[i], call))
			return true;
	}
	return false;
}

static void
split_call(Comparison *c)
{
	List	   *args = c->call->args;

	c->id = linitial(args);
	c->layout = list_length(args) == 2 ? lsecond(args) : NULL;
}

/* Is the ID of this relation, and can its bound be known without it? */
static bool
is_usable(PlannerInfo *root, Comparison *c, int relid)
{
	return is_of(root, c->id, relid) && is_free_of(root, c->time, relid) &&
		(c->layout == NULL ?
		 sf_layout_arg_readable(c->call->funcid) :
		 is_free_of(root, c->layout, relid));
}

/* Is one side of an operator the time of an ID in this relation? */
static bool
recognize(PlannerInfo *root, RelOptInfo *rel, OpExpr *op, int side,
		  Comparison *c)
{
	Node	   *node = list_nth(op->args, side);

	if (!is_call(node))
		return false;
	c->call = (FuncExpr *) node;
	split_call(c);
	c->time = list_nth(op->args, 1 - side);
	c->strategy = time_strategy(op->opno);
	if (c->strategy == 0)
		return false;
	if (side == 1)
		c->strategy = BTMaxStrategyNumber + 1 - c->strategy;
	return is_usable(root, c, rel->relid) && !is_indexed(rel, c->call);
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

/* The comparison of an ID with its bound, by this family; NULL if none. */
static Expr *
compare_id(Oid opfamily, Node *id, SfBound bound, Node *value)
{
	bool		below = bound == SF_BEFORE || bound == SF_UNTIL;
	Oid			opno = get_opfamily_member(opfamily, INT8OID, INT8OID, below ?
										   BTLessEqualStrategyNumber :
										   BTGreaterEqualStrategyNumber);
	Expr	   *result;

	if (!OidIsValid(opno) || value == NULL)
		return NULL;
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
	return (Node *) compare_id(INTEGER_BTREE_FAM_OID, c->id, bound, (Node *)
							   makeConst(INT8OID, -1, InvalidOid,
										 sizeof(int64), Int64GetDatum(id),
										 false, FLOAT8PASSBYVAL));
}

/* Comparisons of the ID with these bounds; NIL if they cannot be made. */
static List *
make_comparisons(PlannerInfo *root, Comparison *c, const SfBound *wanted,
				 int n)
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
						 (Node *) compare_id(INTEGER_BTREE_FAM_OID, c->id,
											 wanted[i], value));
	}

	/* of a constant's function nothing is left in the plan */
	record_plan_function_dependency(root, c->call->funcid);
	return result;
}

/* Is there such a time on the other side, too?  Then turn it round. */
static bool
turn_round(PlannerInfo *root, Comparison *c, Comparison *other)
{
	int			relid;

	if (!is_call(c->time))
		return false;
	other->call = (FuncExpr *) c->time;
	split_call(other);
	other->time = (Node *) c->call;
	other->strategy = BTMaxStrategyNumber + 1 - c->strategy;
	return bms_get_singleton_member(pull_varnos(root, other->id), &relid) &&
		is_usable(root, other, relid);
}

/* What a comparison becomes: a list, joined by AND; NIL if it stays. */
static List *
replace_comparison(PlannerInfo *root, OpExpr *op, Comparison *c)
{
	static const SfBound wanted[][2] = {
		[BTLessStrategyNumber] = {SF_BEFORE},
		[BTLessEqualStrategyNumber] = {SF_UNTIL},
		[BTEqualStrategyNumber] = {SF_FROM, SF_UNTIL},
		[BTGreaterEqualStrategyNumber] = {SF_FROM},
		[BTGreaterStrategyNumber] = {SF_AFTER}
	};
	bool		equal = c->strategy == BTEqualStrategyNumber;
	Comparison	other;
	List	   *result;

	if (equal && !bms_is_empty(pull_varnos(root, c->time)))
	{
		Node	   *at = make_call(c, "snowflake_id_at", snowflake_id_at,
								   BOOLOID, c->id);

		return at == NULL ? NIL : list_make2(op, at);
	}
	result = make_comparisons(root, c, wanted[c->strategy], equal ? 2 : 1);

	/* either table may be the one that is looked up by the other's IDs */
	if (result != NIL && turn_round(root, c, &other))
		result = list_concat(result,
							 make_comparisons(root, &other,
											  wanted[other.strategy], 1));
	return result;
}

/*
 * What a clause becomes, if it is such a comparison with a column of this
 * relation: a list, joined by AND.  Else NIL.
 */
List *
sf_timecmp_replace(PlannerInfo *root, RelOptInfo *rel, Node *clause)
{
	OpExpr	   *op = (OpExpr *) clause;
	Comparison	c;

	if (!sf_timecmp_may_be(clause) ||
		(!recognize(root, rel, op, 0, &c) && !recognize(root, rel, op, 1, &c)))
		return NIL;
	return replace_comparison(root, op, &c);
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
		from = compare_id(index->opfamily, c.id, SF_FROM,
						  make_bound(&c, SF_FROM));
		until = compare_id(index->opfamily, c.id, SF_UNTIL,
						   make_bound(&c, SF_UNTIL));
	}
	if (from == NULL || until == NULL)
		PG_RETURN_POINTER(NULL);
	index->lossy = false;
	PG_RETURN_POINTER(list_make2(from, until));
}
