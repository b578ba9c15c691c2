/*-------------------------------------------------------------------------
 *
 * status.c
 *	  snowflake_status(): one row for each thing that is looked at.
 *
 * It is for people who are in trouble, so nothing that is wrong here makes it
 * fail: what throws is caught, and told as what was found.  It changes
 * nothing: no node is taken and no mark is loaded for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "status.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_status);

/* The remedy is NULL where, and only where, all is well. */
void
sf_status_put(ReturnSetInfo *result, const char *check, SfStatusLevel level,
			  const char *found, const char *remedy)
{
	static const char *const levels[] = {"ok", "warning", "error"};
	bool		nulls[4] = {0};
	Datum		values[4] = {0};

	Assert((level == SF_STATUS_OK) == (remedy == NULL));
	values[0] = CStringGetTextDatum(check);
	values[1] = CStringGetTextDatum(levels[level]);
	values[2] = CStringGetTextDatum(found);
	nulls[3] = remedy == NULL;
	if (remedy != NULL)
		values[3] = CStringGetTextDatum(remedy);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

void
sf_status_ok(ReturnSetInfo *result, const char *check, const char *found)
{
	sf_status_put(result, check, SF_STATUS_OK, found, NULL);
}

/* Of what only a primary can have: true, with the row, on a standby. */
bool
sf_status_standby(ReturnSetInfo *result, const char *check)
{
	if (!RecoveryInProgress())
		return false;
	sf_status_ok(result, check, "a standby makes no IDs");
	return true;
}

/*
 * Do this in a subtransaction; returns the message of the error that it threw,
 * or NULL.  Its hint, if it has one, comes to stand in place of *hint, unless
 * hint is NULL.  A cancel is not caught.
 */
char *
sf_status_try(void (*step) (void *), void *arg, char **hint)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		step(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return NULL;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	if (hint != NULL && error->hint != NULL)
		*hint = error->hint;
	return error->message;
}

/*
 * Is this database a registry of node ids?  The table is the extension's own,
 * and read without a query, so that nothing else runs.
 */
static bool
is_registry(Oid function)
{
	Oid			oid = get_relname_relid("snowflake_registry",
										get_func_namespace(function));
	Relation	table;
	SysScanDesc scan;
	bool		found;

	if (!OidIsValid(oid) ||
		!ConditionalLockRelationOid(oid, AccessShareLock))
		return false;
	table = try_relation_open(oid, NoLock);
	if (table == NULL)
		return false;
	if (table->rd_rel->relkind != RELKIND_RELATION)
	{
		relation_close(table, AccessShareLock);
		return false;
	}
	scan = systable_beginscan(table, InvalidOid, false, GetActiveSnapshot(),
							  0, NULL);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	relation_close(table, AccessShareLock);
	return found;
}

static void
put_preload(ReturnSetInfo *result, Oid function)
{
	if (sf_state != NULL)
		sf_status_ok(result, "preload", "the library is preloaded");
	else if (is_registry(function))
		sf_status_ok(result, "preload",
					 "the library is not preloaded, and a registry needs none: this database is one; this server makes no IDs");
	else
		sf_status_put(result, "preload", SF_STATUS_ERROR,
					  "the library is not preloaded: this server makes no IDs",
					  sf_guard_preload_hint());
}

static void
put_role(ReturnSetInfo *result)
{
	sf_status_ok(result, "role", RecoveryInProgress() ?
				 "standby: it makes no IDs before it is promoted" :
				 "primary");
}

/*
 * snowflake_status() returns rows: a check, "ok", "warning" or "error", what
 * was found, and what to do about it
 */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			function = fcinfo->flinfo->fn_oid;

	InitMaterializedSRF(fcinfo, 0);
	put_preload(result, function);
	put_role(result);
	sf_status_kernel_clock(result);
	if (sf_state != NULL)
		sf_status_server(result, function);
	sf_status_rights(result, function);
	sf_status_tables(result, function);
	return (Datum) 0;
}
