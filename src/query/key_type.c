/*-------------------------------------------------------------------------
 *
 * key_type.c
 *	  The type snowflake: its hash, and the hooks by which the planner treats
 *	  it as a number.
 *
 * The type is a bigint that JSON has as a string.  Its functions are those of
 * bigint, except for the hash (layout/id_hash.h), which integers have too,
 * since they can equal a key.
 *
 * Four things make the planner take a key for a number:
 *
 * 1. Estimates of an inequality read the values of a histogram, and know how
 *	  for the server's types alone.  A hook tells them that a column of the
 *	  type is a bigint.
 *
 * 2. For the same reason, a constant of the type beside an inequality becomes
 *	  a bigint.
 *
 * 3. A comparison of a key with a column of integers becomes one of bigint.
 *	  Otherwise a join could not use an index on that column: the operator
 *	  families of the server have no operator of the type, since pg_upgrade
 *	  would lose it.  Such a join hashes as bigint.  With a constant beside
 *	  a key, the operator stays.  It belongs to one family with that of two
 *	  keys, so the planner carries the constant over to other keys.
 *
 * 4. An index whose operator family has the server's operators alone, as those
 *	  of btree_gist and btree_gin, serves the comparison of bigint.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "layout/id_hash.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "query/query.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

SF_FUNCTION(snowflake_hash8);
SF_FUNCTION(snowflake_hash4);
SF_FUNCTION(snowflake_hash2);
SF_FUNCTION(snowflake_hash8_extended);
SF_FUNCTION(snowflake_hash4_extended);
SF_FUNCTION(snowflake_hash2_extended);
SF_FUNCTION(snowflake_compare_support);

/* snowflake_internal.hash(snowflake) returns integer; also of bigint */
Datum
snowflake_hash8(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash(PG_GETARG_INT64(0), 0));
}

/* snowflake_internal.hash(integer) returns integer */
Datum
snowflake_hash4(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash((int64) PG_GETARG_INT32(0), 0));
}

/* snowflake_internal.hash(smallint) returns integer */
Datum
snowflake_hash2(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash((int64) PG_GETARG_INT16(0), 0));
}

/* snowflake_internal.hash(id snowflake, seed bigint) returns bigint */
Datum
snowflake_hash8_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash(PG_GETARG_INT64(0), PG_GETARG_INT64(1)));
}

/* snowflake_internal.hash(id integer, seed bigint) returns bigint */
Datum
snowflake_hash4_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash((int64) PG_GETARG_INT32(0),
							   PG_GETARG_INT64(1)));
}

/* snowflake_internal.hash(id smallint, seed bigint) returns bigint */
Datum
snowflake_hash2_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash((int64) PG_GETARG_INT16(0),
							   PG_GETARG_INT64(1)));
}

static get_relation_stats_hook_type prev_relation_stats_hook = NULL;

/*
 * Return true if an operator family of btree has the order of integers: the
 * server's family, or that of the type snowflake.
 */
bool
sf_key_type_is_order(Oid opfamily)
{
	return get_op_opfamily_strategy(Int8LessOperator, opfamily) ==
		BTLessStrategyNumber;
}

/*
 * Return the operator family of a type that has the representation and the
 * order of bigint, or of a domain over it; InvalidOid for other types.
 */
static Oid
find_family(Oid type)
{
	Oid			family;

	if (type < FirstNormalObjectId)
		return InvalidOid;
	type = getBaseType(type);
	if (type < FirstNormalObjectId || !IsBinaryCoercible(type, INT8OID))
		return InvalidOid;
	family = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	return OidIsValid(family) && sf_key_type_is_order(family) ?
		family : InvalidOid;
}

/*
 * Let an estimate read the statistics of a key as those of a bigint.  Some
 * callers leave the type unset: it is that of the column, or of a cast.
 */
static bool
on_relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber number,
				  VariableStatData *data)
{
	bool		found = prev_relation_stats_hook != NULL &&
		prev_relation_stats_hook(root, rte, number, data);

	if (rte->rtekind == RTE_RELATION && number > 0 &&
		OidIsValid(find_family(get_atttype(rte->relid, number))))
		data->vartype = INT8OID;
	return found;
}

void
sf_key_type_install(void)
{
	prev_relation_stats_hook = get_relation_stats_hook;
	get_relation_stats_hook = on_relation_stats;
}

/* Return the strategy of a btree that a comparison of the type stands for. */
static StrategyNumber
find_strategy(Oid function)
{
	static const char *const names[] = {"lt", "le", "eq", "ge", "gt"};
	char	   *name = get_func_name(function);

	for (size_t i = 0; name != NULL && i < lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return BTLessStrategyNumber + i;
	}
	return InvalidStrategy;
}

static bool
is_integer(Node *arg)
{
	Oid			type = exprType(arg);

	return type == INT8OID || type == INT4OID || type == INT2OID;
}

/* Return an argument as an integer of the server's. */
static Node *
as_integer(Node *arg)
{
	return is_integer(arg) ? arg :
		applyRelabelType(copyObject(arg), INT8OID, -1, InvalidOid,
						 COERCE_IMPLICIT_CAST, -1, false);
}

/* Return a comparison by an operator of this family; NULL if it has none. */
static OpExpr *
compare(Oid family, StrategyNumber strategy, Node *left, Node *right)
{
	Oid			operator = get_opfamily_member(family, exprType(left),
											   exprType(right), strategy);
	OpExpr	   *result;

	if (!OidIsValid(operator))
		return NULL;
	result = (OpExpr *) make_opclause(operator, BOOLOID, false,
									  (Expr *) left, (Expr *) right,
									  InvalidOid, InvalidOid);
	set_opfuncid(result);
	return result;
}

/* Return the comparison of the server's that means the same. */
static OpExpr *
compare_integers(StrategyNumber strategy, List *args)
{
	return compare(INTEGER_BTREE_FAM_OID, strategy,
				   as_integer(linitial(args)), as_integer(lsecond(args)));
}

/* Return a comparison that the planner knows more about, or NULL. */
static OpExpr *
simplify(StrategyNumber strategy, List *args)
{
	Node	   *left = linitial(args);
	Node	   *right = lsecond(args);

	/* with a column of integers */
	if (is_integer(left) != is_integer(right))
		return contain_var_clause(is_integer(left) ? left : right) ?
			compare_integers(strategy, args) : NULL;

	/* an inequality with a constant of the type */
	if (strategy == BTEqualStrategyNumber)
		return NULL;
	if (IsA(right, Const))
		return compare(find_family(exprType(left)), strategy,
					   left, as_integer(right));
	if (IsA(left, Const))
		return compare(find_family(exprType(right)), strategy,
					   as_integer(left), right);
	return NULL;
}

/* Return the condition that an index serves, or NIL. */
static List *
serve_index(SupportRequestIndexCondition *request, StrategyNumber strategy)
{
	OpExpr	   *clause = (OpExpr *) request->node;
	OpExpr	   *result;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return NIL;
	result = compare_integers(strategy, clause->args);
	if (request->indexarg == 1)
		CommuteOpExpr(result);
	if (!op_in_opfamily(result->opno, request->opfamily))
		return NIL;
	request->lossy = false;
	return list_make1(result);
}

/*
 * snowflake_internal.compare_support(internal) returns internal
 *
 * Planner support for the functions lt, le, eq, ge and gt of the operators.
 */
Datum
snowflake_compare_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	StrategyNumber strategy;

	if (IsA(request, SupportRequestSimplify))
	{
		FuncExpr   *call = ((SupportRequestSimplify *) request)->fcall;

		strategy = find_strategy(call->funcid);
		if (strategy != InvalidStrategy)
			PG_RETURN_POINTER(simplify(strategy, call->args));
	}
	if (IsA(request, SupportRequestIndexCondition))
	{
		SupportRequestIndexCondition *index = (void *) request;

		strategy = find_strategy(index->funcid);
		if (strategy != InvalidStrategy)
			PG_RETURN_POINTER(serve_index(index, strategy));
	}
	PG_RETURN_POINTER(NULL);
}
