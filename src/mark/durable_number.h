/*-------------------------------------------------------------------------
 *
 * durable_number.h
 *	  Durable numbers: 64-bit values that stay with the database wherever it is
 *	  copied.  Their users define their meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DURABLE_NUMBER_H
#define SF_DURABLE_NUMBER_H

#include "access/generic_xlog.h"
#include "access/xlogdefs.h"
#include "storage/buf.h"
#include "utils/relcache.h"

typedef enum SfDurableNumberId
{
	SF_DURABLE_MARK,			/* the mark, Unix ms */
	SF_DURABLE_LAYOUT,			/* the node's layout, its code */
	SF_DURABLE_EPOCH,			/* its epoch, Unix ms */
	SF_DURABLE_SHARD_LAYOUT,
	SF_DURABLE_SHARD_EPOCH
} SfDurableNumberId;

#define SF_DURABLE_NUMBERS	5

/* The extension's own schema, where no grant to an application reaches. */
#define SF_SCHEMA	"snowflake_state"

/* Remedy for a mark that is too far ahead; doc/operations.md explains it. */
#define SF_MARK_REMEDY \
	"If the server believed a wrong clock before, restart it with the right clock; remove or renumber the rows with id > snowflake_max_id(now()); then run as a superuser, before any other call: SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint);"

/*
 * A durable number that is open for writing.  It has a value and a stamp.
 * Every other way of writing removes the stamp: setval(), nextval(), ALTER
 * SEQUENCE.
 */
typedef struct SfDurableNumber
{
	Relation	rel;
	Buffer		buffer;
	GenericXLogState *xlog;
	int64		stamp;			/* as found when it was locked; 0: none */
	bool		all;			/* all numbers are locked for reading */
	bool		locked;			/* the buffer is locked exclusively */
	bool		is_new;			/* created in this transaction: may vanish */
} SfDurableNumber;

extern void sf_durable_number_find(Oid function, void (*on_change) (void));
extern void sf_durable_number_hold(Oid function, void (*on_change) (void));
extern bool sf_durable_number_release(void);
extern bool sf_durable_number_lock_all(void);
extern void sf_durable_number_unlock_all(void);
extern int64 sf_durable_number_read(SfDurableNumberId id);
extern void sf_durable_number_open(SfDurableNumber *number,
								   SfDurableNumberId id);
extern bool sf_durable_number_try_open(SfDurableNumber *number,
									   SfDurableNumberId id);
extern int64 sf_durable_number_lock(SfDurableNumber *number, XLogRecPtr *lsn);
extern XLogRecPtr sf_durable_number_store(SfDurableNumber *number, int64 value,
										  int64 stamp);
extern void sf_durable_number_unlock(SfDurableNumber *number);
extern void sf_durable_number_close(SfDurableNumber *number);
extern bool sf_durable_number_write(const SfDurableNumberId *ids,
									const int64 *values,
									int n, bool fill, XLogRecPtr *lsn);

#endif							/* SF_DURABLE_NUMBER_H */
