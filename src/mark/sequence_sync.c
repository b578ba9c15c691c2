/*-------------------------------------------------------------------------
 *
 * sequence_sync.c
 *	  Protection of the durable numbers when logical replication writes
 *	  sequences.
 *
 * From 19 on, CREATE SUBSCRIPTION and ALTER SUBSCRIPTION ... REFRESH SEQUENCES
 * copy all published sequences, and FOR ALL SEQUENCES publishes ours too: the
 * publisher's mark and config record are written over those of this database.
 * A higher mark is welcome, because it covers the replicated rows.  But a
 * lower one would forget IDs of this database, and another layout would stop a
 * server that is not configured for it.
 *
 * The server has no hook there.  But its worker ends a transaction before it
 * writes the first sequence, and another one after each batch.  At the end of
 * each transaction, and when the worker ends, this file remembers the durable
 * numbers.  Before that, it raises a mark that has fallen, and writes back a
 * config record that was replaced.  A database without a config record takes
 * the publisher's, as it takes that of a dump.
 *
 * Meanwhile sessions go on.  They move the mark while the worker waits for the
 * publisher or for a lock.  So the mark is raised to the published mark, too.
 * And no session may load the publisher's mark as the mark of this database.
 * So the worker loads the mark before it writes.
 *
 * The worker's writes are undone within milliseconds, in a WAL record of their
 * own.  A crash between the two leaves the publisher's values.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "mark/mark.h"
#include "replication/worker_internal.h"
#include "storage/ipc.h"

/* The numbers at the end of the last transaction. */
static SfDurableNumbers before;
static bool values_known = false;

/*
 * Run one more transaction, which repairs the numbers, when the worker ends.
 * A worker may be stopped in the middle, for example by another REFRESH
 * SEQUENCES, and a rollback does not undo what it has written.  If somebody
 * has locked a durable number, the worker waits for that lock before it ends.
 */
static void
end_transaction(int code, Datum arg)
{
	AbortOutOfAnyTransaction();
	StartTransactionCommand();
	CommitTransactionCommand();
}

/*
 * Remember the numbers.  The first time, also load the mark, if there is a
 * config record.  If that throws an error, the worker has written nothing yet,
 * and the server starts it again.
 */
static void
remember(void)
{
	SfDurableNumbers now;

	(void) sf_durable_numbers_read(&now, SF_DURABLE_WAIT);
	if (!values_known && sf_config_record_exists(&now))
	{
		sf_mark_require();
		(void) sf_durable_numbers_read(&now, SF_DURABLE_WAIT);
	}
	if (!values_known)
		before_shmem_exit(end_transaction, (Datum) 0);
	before = now;
	values_known = true;
}

/* Raise the mark to its old value and to the published one, if it is below. */
static void
keep_mark(void)
{
	SfDatabase *slot = sf_db_slot_find();
	int64		mark = before.value[SF_DURABLE_MARK];
	SfDurableMark number;
	XLogRecPtr	lsn;

	(void) sf_durable_mark_open(&number, SF_DURABLE_WAIT);
	if (slot != NULL)
	{
		(void) sf_db_slot_lock(slot, 0);
		mark = Max(mark, (int64) pg_atomic_read_u64(&slot->mark));
	}
	if (sf_durable_mark_lock(&number, &lsn) < mark)
		lsn = sf_durable_mark_store(&number, mark, 0);
	sf_durable_mark_unlock(&number);
	XLogFlush(lsn);
	if (slot != NULL)
		sf_db_slot_unlock(slot);
	sf_durable_mark_close(&number);
}

/* Return true if a number of the config record is not what it was. */
static bool
is_replaced(const SfDurableNumbers *now)
{
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		if (now->value[i] != before.value[i])
			return true;
	}
	return false;
}

/* Write the config record back, if there was one and it was replaced. */
static void
keep_record(void)
{
	SfDurableNumbers now;
	XLogRecPtr	lsn;

	if (!sf_config_record_exists(&before))
		return;
	(void) sf_durable_numbers_read(&now, SF_DURABLE_WAIT);
	if (!is_replaced(&now))
		return;
	(void) sf_durable_record_write(&before, false, &lsn);
	XLogFlush(lsn);
}

static void
end_sync(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT || !sf_syncs_sequences() ||
		!sf_durable_numbers_exist())
		return;
	sf_durable_numbers_find(NULL);
	if (values_known)
	{
		keep_record();
		keep_mark();
	}
	remember();
}

/*
 * Install the callback when the library is loaded; all processes inherit it.
 * Before 19 there is no such worker, and no transaction needs the check.
 */
void
sf_sequence_sync_install(void)
{
	if (SF_SYNCS_SEQUENCES)
		RegisterXactCallback(end_sync, NULL);
}
