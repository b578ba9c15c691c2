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

/* The config record is all of them but the mark. */
#define SF_DURABLE_RECORD	SF_DURABLE_LAYOUT

/* What to do if a lock is not free, or a sequence is gone or not usable. */
typedef enum SfDurableWait
{
	SF_DURABLE_WAIT,			/* wait; throw an error */
	SF_DURABLE_PASS,			/* return false; throw an error */
	SF_DURABLE_TRY				/* return false in both cases */
} SfDurableWait;

/* All durable numbers, as they were read. */
typedef struct SfDurableNumbers
{
	int64		value[SF_DURABLE_NUMBERS];
	bool		is_new;			/* created in this transaction: may vanish */
} SfDurableNumbers;

/*
 * The mark's sequence, open for writing.  It has a value and a stamp.  Every
 * other way of writing removes the stamp: setval(), nextval(), ALTER SEQUENCE.
 */
typedef struct SfDurableMark
{
	Relation	rel;
	Buffer		buffer;
	GenericXLogState *xlog;
	int64		stamp;			/* as found when it was locked; 0: none */
	bool		locked;			/* the buffer is locked exclusively */
} SfDurableMark;

extern bool sf_durable_numbers_exist(void);
extern void sf_durable_numbers_find(void (*on_change) (void));
extern void sf_durable_numbers_hold(void (*on_change) (void));
extern bool sf_durable_numbers_release(void);
extern bool sf_durable_numbers_read(SfDurableNumbers *numbers,
									SfDurableWait wait);
extern bool sf_durable_mark_open(SfDurableMark *mark, SfDurableWait wait);
extern int64 sf_durable_mark_lock(SfDurableMark *mark, XLogRecPtr *lsn);
extern XLogRecPtr sf_durable_mark_store(SfDurableMark *mark, int64 value,
										int64 stamp);
extern void sf_durable_mark_unlock(SfDurableMark *mark);
extern void sf_durable_mark_close(SfDurableMark *mark);
extern bool sf_durable_record_write(const SfDurableNumbers *numbers, bool fill,
									XLogRecPtr *lsn);

#endif							/* SF_DURABLE_NUMBER_H */
