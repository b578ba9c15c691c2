/*-------------------------------------------------------------------------
 *
 * register.h
 *	  Durable registers: 64-bit numbers that follow the database wherever it
 *	  goes.  What they mean is their users' business.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTER_H
#define SF_REGISTER_H

#include "access/generic_xlog.h"
#include "access/xlogdefs.h"
#include "storage/buf.h"
#include "utils/relcache.h"

typedef enum SfRegisterId
{
	SF_REG_MARK,				/* the mark, Unix ms */
	SF_REG_LAYOUT,				/* the node's layout, its code */
	SF_REG_EPOCH,				/* its epoch, Unix ms */
	SF_REG_SHARD_LAYOUT,
	SF_REG_SHARD_EPOCH
} SfRegisterId;

#define SF_NREGISTERS	5

/* Of a mark that was moved too far.  See "A mark in the far future" in doc. */
#define SF_REG_MARK_REMEDY \
	"If a wrong clock was believed before, restart the server with the right one; remove or renumber the rows with id > snowflake_max_id(now()); then run as a superuser, before any other call: SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint);"

/*
 * A register opened for writing.  Beside its value it holds a stamp, which
 * whoever else writes it takes away: setval(), nextval(), ALTER SEQUENCE.
 */
typedef struct SfRegister
{
	Relation	rel;
	Buffer		buffer;
	GenericXLogState *xlog;
	int64		stamp;			/* as found when it was locked; 0: none */
	bool		all;			/* all of them are locked for reading */
	bool		locked;			/* the buffer, exclusively */
	bool		is_new;			/* made in this transaction: may be gone */
} SfRegister;

extern void sf_register_find(Oid function, void (*on_change) (void));
extern void sf_register_hold(Oid function, void (*on_change) (void));
extern bool sf_register_release(void);
extern int64 sf_register_read(SfRegisterId id);
extern bool sf_register_open(SfRegister *reg, SfRegisterId id, bool wait);
extern int64 sf_register_lock(SfRegister *reg, XLogRecPtr *lsn);
extern XLogRecPtr sf_register_store(SfRegister *reg, int64 value,
									int64 stamp);
extern void sf_register_unlock(SfRegister *reg);
extern void sf_register_close(SfRegister *reg);
extern bool sf_register_write(const SfRegisterId *ids, const int64 *values,
							  int n, bool fill, XLogRecPtr *lsn);

#endif							/* SF_REGISTER_H */
