/*-------------------------------------------------------------------------
 *
 * prepared.c
 *	  List of the prepared transactions, as pg_prepared_xacts shows it.
 *
 * The server exports its list only by the function of that view, which is
 * called here as any caller of a set-returning function may (fmgr/README).  A
 * query through SPI would need the caller's rights, read catalogues and handle
 * invalidations in the middle of a horizon.  And it would cost a plan each
 * time, and be seen by the hooks of other extensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "horizon/horizon.h"

#include "access/twophase.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/* The columns of pg_prepared_xact(). */
enum
{
	COLUMN_XID = 1,
	COLUMN_GID,
	COLUMN_PREPARED,
	COLUMN_OWNER,
	COLUMN_DATABASE
};

static SfPrepared
read_row(HeapTupleHeader row)
{
	SfPrepared	found;
	bool		isnull;

	found.xid =
		DatumGetTransactionId(GetAttributeByNum(row, COLUMN_XID, &isnull));
	found.gid =
		TextDatumGetCString(GetAttributeByNum(row, COLUMN_GID, &isnull));
	found.since = DatumGetTimestampTz(GetAttributeByNum(row, COLUMN_PREPARED,
														&isnull));
	found.database =
		DatumGetObjectId(GetAttributeByNum(row, COLUMN_DATABASE, &isnull));
	return found;
}

/* Return all transactions that are prepared now, in all databases. */
SfPrepared *
sf_prepared_list(int *count)
{
	LOCAL_FCINFO(fcinfo, 0);
	SfPrepared *list;
	FmgrInfo	function;
	ReturnSetInfo result = {.type = T_ReturnSetInfo};

	*count = 0;
	list = palloc(sizeof(SfPrepared) * (max_prepared_xacts + 1));
	if (max_prepared_xacts == 0)
		return list;

	fmgr_info(F_PG_PREPARED_XACT, &function);
	result.econtext = CreateStandaloneExprContext();
	result.allowedModes = SFRM_ValuePerCall;
	InitFunctionCallInfoData(*fcinfo, &function, 0, InvalidOid, NULL,
							 (Node *) &result);
	for (;;)
	{
		Datum		row;

		result.returnMode = SFRM_ValuePerCall;
		result.isDone = ExprSingleResult;
		fcinfo->isnull = false;
		row = FunctionCallInvoke(fcinfo);
		if (result.isDone != ExprMultipleResult)
			break;
		Assert(*count < max_prepared_xacts);
		list[(*count)++] = read_row(DatumGetHeapTupleHeader(row));
	}
	FreeExprContext(result.econtext, true);
	return list;
}

const SfPrepared *
sf_prepared_find(const SfPrepared *list, int count, TransactionId xid)
{
	for (int i = 0; i < count; i++)
	{
		if (list[i].xid == xid)
			return &list[i];
	}
	return NULL;
}
