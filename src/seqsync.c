/*-------------------------------------------------------------------------
 *
 * seqsync.c
 *	  Keeps the registers when logical replication writes sequences.
 *
 * From 19 on, CREATE SUBSCRIPTION and ALTER SUBSCRIPTION ... REFRESH
 * SEQUENCES copy all sequences that the publisher publishes, and FOR ALL
 * SEQUENCES publishes ours as well: the publisher's mark and recorded layouts
 * are written over those of this database.  A mark that is higher is welcome,
 * since it covers the rows that are replicated with it.  But a lower one would
 * forget IDs of this database, and another layout would stop a server that is
 * not configured for it.
 *
 * The server has no hook there.  But its worker ends a transaction before it
 * writes the first sequence, and one after each batch: at the end of each
 * transaction, and when the worker ends, remember the registers, and before
 * that raise a mark that has fallen, and write back a record that has been
 * replaced.  A database that has no record yet takes the publisher's, as it
 * takes that of a dump.
 *
 * Meanwhile sessions go on.  They move the mark while the worker waits, for
 * the publisher or for a lock, so what is kept is what is published, too.  And
 * none may load what the worker has written for what all IDs of this database
 * are below: so the worker loads the mark before it writes.
 *
 * What the worker wrote is undone within milliseconds, in a WAL record of its
 * own.  A crash between the two leaves the publisher's values.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "seqsync.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "mark.h"
#include "record.h"
#include "register.h"
#include "replication/worker_internal.h"
#include "slot.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

/* The layouts and epochs that are recorded. */
static const SfRegisterId record[] = {
	SF_REG_LAYOUT, SF_REG_EPOCH, SF_REG_SHARD_LAYOUT, SF_REG_SHARD_EPOCH
};

/* What the registers held when a transaction ended, if one has. */
static int64 before[SF_NREGISTERS];
static bool known = false;

/* Find the registers of this database, by a function beside; or InvalidOid. */
static Oid
find_registers(void)
{
	Oid			extension = get_extension_oid("snowflake", true);
	Oid			schema;
	Oid			function;

	if (!OidIsValid(extension))
		return InvalidOid;
	schema = get_extension_schema(extension);
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum("snowflake_nextval"),
							   PointerGetDatum(buildoidvector(NULL, 0)),
							   ObjectIdGetDatum(schema));
	if (OidIsValid(function))	/* or another extension of that name */
		sf_register_find(function, NULL);
	return function;
}

/*
 * A worker that is stopped in the middle, by another REFRESH SEQUENCES say,
 * has written what its transaction does not undo.  So it gets one more.
 */
static void
end_transaction(int code, Datum arg)
{
	AbortOutOfAnyTransaction();
	StartTransactionCommand();
	CommitTransactionCommand();
}

/*
 * Throws what loading the mark throws, where there is one and a record: then
 * the worker has written nothing yet, and is started anew.
 */
static void
remember(Oid function)
{
	if (!known && sf_record_exists())
		sf_mark_require(function);
	if (!known)
		before_shmem_exit(end_transaction, (Datum) 0);
	for (int i = 0; i < SF_NREGISTERS; i++)
		before[i] = sf_register_read((SfRegisterId) i);
	known = true;
}

/* Raise the mark to what it was, and to what is published, if it is below. */
static void
keep_mark(void)
{
	SfDatabase *slot = sf_slot_find();
	int64		mark = before[SF_REG_MARK];
	SfRegister	reg;
	XLogRecPtr	lsn;

	(void) sf_register_open(&reg, SF_REG_MARK, true);
	if (slot != NULL)
	{
		(void) sf_slot_lock(slot, 0);
		mark = Max(mark, (int64) pg_atomic_read_u64(&slot->mark));
	}
	if (sf_register_lock(&reg, &lsn) < mark)
		lsn = sf_register_store(&reg, mark, 0);
	sf_register_unlock(&reg);
	XLogFlush(lsn);
	if (slot != NULL)
		sf_slot_unlock(slot);
	sf_register_close(&reg);
}

/* Write the record back, if there was one and it has been replaced. */
static void
keep_record(void)
{
	int64		values[lengthof(record)];
	bool		replaced = false;
	XLogRecPtr	lsn;

	if (before[SF_REG_MARK] == 0 || before[SF_REG_LAYOUT] == 0)
		return;
	for (size_t i = 0; i < lengthof(record); i++)
	{
		values[i] = before[record[i]];
		replaced = replaced || sf_register_read(record[i]) != values[i];
	}
	if (!replaced)
		return;
	(void) sf_register_write(record, values, lengthof(record), false, &lsn);
	XLogFlush(lsn);
}

static void
on_transaction(XactEvent event, void *arg)
{
	Oid			function;

	if (event != XACT_EVENT_PRE_COMMIT || !sf_syncs_sequences())
		return;
	function = find_registers();
	if (!OidIsValid(function))
		return;
	if (known)
	{
		keep_record();
		keep_mark();
	}
	remember(function);
}

/* To be called when the library is loaded: all processes inherit it. */
void
sf_seqsync_register(void)
{
	RegisterXactCallback(on_transaction, NULL);
}
