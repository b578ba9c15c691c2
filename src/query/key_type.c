/*-------------------------------------------------------------------------
 *
 * key_type.c
 *	  The type snowflake: its hash, and what the planner is told of its
 *	  comparisons.
 *
 * The type is a bigint that JSON has as a string.  Its functions are those of
 * bigint, except for the hash (layout/id_hash.h), which integers have too,
 * since they can equal a key.
 *
 * The server's estimates of an inequality read the values of a histogram, and
 * know how for types of the server alone.  So the planner replaces each
 * inequality of the type by the same one of bigint.  It does so while it folds
 * constants, in conditions, predicates of indexes and constraints alike.
 *
 * An equality stays as it is, for its hash.  Where an index's operator family
 * has the server's operators alone (on a column of bigint, or of the
 * extensions btree_gist and btree_gin), the planner asks here for a condition
 * that the index serves, and gets the equality of bigint.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "layout/id_hash.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "utils/lsyscache.h"

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

/* Return an argument as an integer of the server's. */
static Node *
as_integer(Node *arg)
{
	Oid			type = exprType(arg);

	if (type == INT8OID || type == INT4OID || type == INT2OID)
		return arg;
	return applyRelabelType(copyObject(arg), INT8OID, -1, InvalidOid,
							COERCE_IMPLICIT_CAST, -1, false);
}

/* Return the comparison of the server's that means the same. */
static OpExpr *
compare_integers(StrategyNumber strategy, List *args)
{
	Node	   *left = as_integer(linitial(args));
	Node	   *right = as_integer(lsecond(args));
	Oid			operator = get_opfamily_member(INTEGER_BTREE_FAM_OID,
											   exprType(left), exprType(right),
											   strategy);
	OpExpr	   *result = (OpExpr *) make_opclause(operator, BOOLOID, false,
												  (Expr *) left,
												  (Expr *) right,
												  InvalidOid, InvalidOid);

	set_opfuncid(result);
	return result;
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
		if (strategy != BTEqualStrategyNumber && strategy != InvalidStrategy)
			PG_RETURN_POINTER(compare_integers(strategy, call->args));
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
