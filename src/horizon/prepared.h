/*-------------------------------------------------------------------------
 *
 * prepared.h
 *	  List of the prepared transactions, as pg_prepared_xacts shows it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PREPARED_H
#define SF_PREPARED_H

#include "datatype/timestamp.h"

typedef struct SfPrepared
{
	TransactionId xid;
	char	   *gid;
	TimestampTz since;
	Oid			database;
} SfPrepared;

extern SfPrepared *sf_prepared_list(int *count);
extern const SfPrepared *sf_prepared_find(const SfPrepared *list, int count,
										  TransactionId xid);

#endif							/* SF_PREPARED_H */
