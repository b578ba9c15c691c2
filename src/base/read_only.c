/*-------------------------------------------------------------------------
 *
 * read_only.c
 *	  The refusal of a call that writes, where nothing may be written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/read_only.h"

#include "access/xlog.h"

/* SQLSTATE 25006 */
void
sf_read_only_refuse(const char *function)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", function),
				 errhint("Connect to the primary, or promote this server.")));
	ereport(ERROR,
			(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
			 errmsg("cannot execute %s in a read-only transaction", function),
			 errhint("Begin the transaction with READ WRITE, or see default_transaction_read_only.")));
}
