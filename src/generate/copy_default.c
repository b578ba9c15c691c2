/*-------------------------------------------------------------------------
 *
 * copy_default.c
 *	  Lets COPY FROM insert many rows at a time, where a default makes IDs.
 *
 * COPY collects rows, and writes those of a page with one WAL record.  It does
 * not collect them if a default calls a volatile function: that function might
 * look for rows that are not in the table yet.  Only nextval() is exempt.  Our
 * functions do not look at tables either.  So COPY is given another function,
 * which runs the same C function and is declared STABLE:
 *
 *		snowflake_nextval()				copy_nextval(NULL)
 *		snowflake_nextval('discord')	copy_nextval('discord', NULL)
 *		snowflake_shard_nextval(5)		copy_shard_nextval(5, NULL)
 *
 * snowflake_generate() is another name of snowflake_nextval().
 *
 * Only COPY may see this.  ALTER TABLE ... ADD COLUMN evaluates a stable
 * default once, and gives one ID to all rows.  Citus sends expressions to
 * other servers.  COPY is recognized by two things: it plans an expression and
 * no query, so there is no PlannerInfo, and it does so in a memory context
 * that BeginCopyFrom() has named.  If one of them is missing, the default
 * stays as it is: then COPY is slower, and as correct.  The result lives as
 * long as the COPY, so no dump, view or dependency has it.
 *
 * COPY (SELECT ...) TO has a context of the same name.  What is planned there
 * without a PlannerInfo is for estimates, and thrown away.  A domain's CHECK
 * that is planned in a COPY is kept for the session; it makes IDs as before.
 *
 * COPY's function takes an argument of type internal, so SQL cannot call it.
 * A role gets it only if it may execute the function that the default calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "runtime/function.h"
#include "utils/acl.h"
#include "utils/memutils.h"

SF_FUNCTION(snowflake_copy_support);

/* Return true if COPY is planning a default. */
static bool
is_copy(SupportRequestSimplify *request)
{
	return request->root == NULL &&
		strcmp(CurrentMemoryContext->name, SF_COPY_CONTEXT) == 0;
}

/* Return the function that COPY gets in place of this call. */
static Oid
copy_function(FuncExpr *call)
{
	int			nargs = 0;
	Oid			types[2];
	ListCell   *lc;

	if (list_length(call->args) >= (int) lengthof(types))
		return InvalidOid;		/* not a function of ours */
	foreach(lc, call->args)
		types[nargs++] = exprType(lfirst(lc));
	types[nargs++] = INTERNALOID;
	return sf_function_find(get_namespace_oid(SF_SCHEMA, true),
							types[0] == INT8OID ? "copy_shard_nextval" :
							"copy_nextval", nargs, types);
}

/* Return true if the user may call both, and both run the same C function. */
static bool
runs_the_same(Oid oid, Oid called)
{
	PGFunction	code = sf_function_direct(oid);

	return code != NULL && code == sf_function_direct(called) &&
		sf_function_aclcheck(oid, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK &&
		sf_function_aclcheck(called, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

/*
 * snowflake_copy_support(internal) returns internal
 *
 * Support the planner for snowflake_nextval(), without and with a layout, and
 * for snowflake_shard_nextval().
 */
Datum
snowflake_copy_support(PG_FUNCTION_ARGS)
{
	SupportRequestSimplify *request = (void *) PG_GETARG_POINTER(0);
	FuncExpr   *call;
	Oid			oid;

	if (!IsA(request, SupportRequestSimplify) || !is_copy(request))
		PG_RETURN_POINTER(NULL);
	call = request->fcall;
	oid = copy_function(call);
	if (!runs_the_same(oid, call->funcid))
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(makeFuncExpr(oid, INT8OID,
								   lappend(list_copy(call->args),
										   makeNullConst(INTERNALOID, -1,
														 InvalidOid)),
								   InvalidOid, InvalidOid,
								   COERCE_EXPLICIT_CALL));
}
