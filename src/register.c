/*-------------------------------------------------------------------------
 *
 * register.c
 *	  Durable registers, kept in sequences that the extension owns.
 *
 * A sequence is one page that vacuum never touches, that pg_dump, pg_upgrade
 * and CREATE DATABASE carry along, and that everybody can read with SELECT.
 * We write it as a full page image through generic WAL, whose redo is in
 * core: a standby replays it without this library.  That needs no
 * transaction id, is not undone by a rollback, and is durable as soon as the
 * WAL is flushed, whatever synchronous_commit says.
 *
 * A register that was never written reads as 0.
 *
 * The stamp lies in log_cnt, which means something to nextval() only, and that
 * fails on these sequences.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "register.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* What the special space of a sequence's page begins with. */
#define SEQUENCE_MAGIC	0x1717

/* The registers' schema, where no grant to an application reaches them. */
#define SCHEMA	"snowflake_state"

static const char *const register_names[SF_NREGISTERS] = {
	"snowflake_mark",
	"snowflake_recorded_layout",
	"snowflake_recorded_epoch",
	"snowflake_recorded_shard_layout",
	"snowflake_recorded_shard_epoch"
};

/* Are the OIDs that this backend has found still right? */
static bool found = false;

/* How often they, or some of them, were not, or perhaps not. */
static uint64 forgotten = 0;

/* How often one of them has changed. */
static uint64 changed = 0;

/* The mark's, while it is held, and what the latter was then. */
static Oid	held = InvalidOid;
static uint64 changed_before;

/* Whom to tell when they are not. */
static void (*tell) (void) = NULL;

static Oid	register_oids[SF_NREGISTERS];
static uint32 register_hashes[SF_NREGISTERS];

static void
forget(void)
{
	found = false;
	forgotten++;
	if (tell != NULL)
		tell();
}

/* Forget what was found when one of the sequences changes or goes; 0: any. */
static void
forget_on_change(Datum arg, int cacheid, uint32 hashvalue)
{
	for (int i = 0; i < SF_NREGISTERS; i++)
	{
		if (hashvalue == register_hashes[i])
			changed++;
		if (hashvalue == 0 || hashvalue == register_hashes[i])
			forget();
	}
}

/* Look for the registers; see below. */
static void
look_up(Oid function)
{
	Oid			schema = get_namespace_oid(SCHEMA, true);
	Oid			extension = getExtensionOfObject(ProcedureRelationId,
												 function);

	for (int i = 0; i < SF_NREGISTERS; i++)
	{
		Oid			oid = OidIsValid(schema) ?
			get_relname_relid(register_names[i], schema) : InvalidOid;

		if (!OidIsValid(oid) || !OidIsValid(extension) ||
			getExtensionOfObject(RelationRelationId, oid) != extension)
		{
			forget();
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("sequence \"%s\" of the extension \"snowflake\" does not exist",
							register_names[i]),
					 errhint("Restore the sequence, or create the extension again, and have an administrator call snowflake_advance() with the largest ID in use.")));
		}
		register_oids[i] = oid;
		register_hashes[i] = GetSysCacheHashValue1(RELOID,
												   ObjectIdGetDatum(oid));
	}
}

/*
 * Find the registers: the sequences in their schema, of the same extension as
 * the function that was called, so that nobody else's sequence of that name is
 * taken for ours.  Calls on_change, if it is given, whenever that has to be
 * done again.
 */
void
sf_register_find(Oid function, void (*on_change) (void))
{
	static bool registered = false;
	uint64		before = forgotten;

	if (on_change != NULL)
		tell = on_change;
	if (found)
		return;
	if (!registered)
	{
		CacheRegisterSyscacheCallback(RELOID, forget_on_change, (Datum) 0);
		registered = true;
	}
	look_up(function);

	/* not if one has changed meanwhile, or looking for them has failed */
	found = forgotten == before;
}

/*
 * The same, and lock the mark's, so that it stays until it is released.  What
 * was found counts if the lock is on it: with debug_discard_caches all caches
 * are forgotten at each lock.
 */
void
sf_register_hold(Oid function, void (*on_change) (void))
{
	for (;;)
	{
		sf_register_find(function, on_change);
		held = register_oids[SF_REG_MARK];
		LockRelationOid(held, AccessShareLock);
		changed_before = changed;
		if (found)
			return;
		look_up(function);
		if (register_oids[SF_REG_MARK] == held)
			return;
		UnlockRelationOid(held, AccessShareLock);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Let go of it.  Returns whether what was found then is still right. */
bool
sf_register_release(void)
{
	found = changed == changed_before;
	UnlockRelationOid(held, AccessShareLock);
	return found;
}

/*
 * Open a register's sequence, and see that it is one we can use.  Where we are
 * not to wait, returns NULL if its lock cannot be had at once, or it is gone.
 */
static Relation
open_sequence(SfRegisterId id, LOCKMODE mode, bool wait)
{
	Oid			oid = register_oids[id];
	Relation	rel;

	if (wait)
		LockRelationOid(oid, mode);
	else if (!ConditionalLockRelationOid(oid, mode))
		return NULL;

	rel = try_relation_open(oid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(oid, mode);
		forget();
		if (!wait)
			return NULL;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("sequence \"%s\" of the extension \"snowflake\" has been replaced",
						register_names[id]),
				 errhint("Repeat the command; the extension was dropped or changed meanwhile.")));
	}
	if (rel->rd_rel->relkind != RELKIND_SEQUENCE ||
		rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a logged sequence",
						RelationGetRelationName(rel)),
				 errhint("Make it one again: ALTER SEQUENCE %s.%s SET LOGGED;",
						 SCHEMA, RelationGetRelationName(rel))));
	return rel;
}

/* The data of a sequence's only tuple, in its page or in a copy of it. */
static Form_pg_sequence_data
sequence_data(Relation rel, Page page)
{
	ItemId		item;
	HeapTupleHeader tuple;

	if (PageIsNew(page) ||
		PageGetSpecialSize(page) < sizeof(uint32) ||
		*(uint32 *) PageGetSpecialPointer(page) != SEQUENCE_MAGIC ||
		PageGetMaxOffsetNumber(page) < FirstOffsetNumber ||
		!ItemIdIsNormal(PageGetItemId(page, FirstOffsetNumber)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page of sequence \"%s\" is damaged",
						RelationGetRelationName(rel)),
				 errhint("Restore the database from a backup, or create the extension again and have an administrator call snowflake_advance() with the largest ID in use.")));
	item = PageGetItemId(page, FirstOffsetNumber);
	tuple = (HeapTupleHeader) PageGetItem(page, item);
	return (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
}

static int64
data_value(Form_pg_sequence_data data)
{
	return data->is_called ? data->last_value : 0;
}

/* Read a register.  What is read need not be on disk yet. */
int64
sf_register_read(SfRegisterId id)
{
	Relation	rel = open_sequence(id, AccessShareLock, true);
	Buffer		buffer = ReadBuffer(rel, 0);
	int64		value;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	value = data_value(sequence_data(rel, BufferGetPage(buffer)));
	UnlockReleaseBuffer(buffer);
	relation_close(rel, AccessShareLock);
	return value;
}

/* Let go of the locks of that many registers. */
static void
unlock(int n)
{
	while (n-- > 0)
		UnlockRelationOid(register_oids[n], AccessShareLock);
}

/* Lock all registers for reading; false if that would have to wait. */
static bool
lock_at_once(void)
{
	for (int i = 0; i < SF_NREGISTERS; i++)
	{
		if (!ConditionalLockRelationOid(register_oids[i], AccessShareLock))
		{
			unlock(i);
			return false;
		}
	}
	return true;
}

/*
 * Open a register for writing.  All that looks into catalogues or allocates
 * happens here, so that the caller may take a lightweight lock after it.
 * False where that would have to wait for a lock, and is not to; otherwise, in
 * that case, reading any register until this one is closed does not wait.
 */
bool
sf_register_open(SfRegister *reg, SfRegisterId id, bool wait)
{
	reg->all = !wait;
	if (reg->all && !lock_at_once())
		return false;
	reg->rel = open_sequence(id, RowExclusiveLock, wait);
	if (reg->rel == NULL)
	{
		unlock(SF_NREGISTERS);
		return false;
	}
	reg->buffer = ReadBuffer(reg->rel, 0);
	reg->xlog = GenericXLogStart(reg->rel);
	reg->locked = false;
	reg->is_new = sf_relation_is_new(reg->rel);
	return true;
}

/* Lock the page; returns its value, and up to where to flush its WAL. */
int64
sf_register_lock(SfRegister *reg, XLogRecPtr *lsn)
{
	Page		page = BufferGetPage(reg->buffer);
	Form_pg_sequence_data data;

	LockBuffer(reg->buffer, BUFFER_LOCK_EXCLUSIVE);
	reg->locked = true;
	*lsn = PageGetLSN(page);
	data = sequence_data(reg->rel, page);
	reg->stamp = data->log_cnt;
	return data_value(data);
}

/* Put a value and a stamp into a page that is to be logged. */
static void
set_value(Relation rel, GenericXLogState *xlog, Buffer buffer, int64 value,
		  int64 stamp)
{
	Page		page = GenericXLogRegisterBuffer(xlog, buffer,
												 GENERIC_XLOG_FULL_IMAGE);
	Form_pg_sequence_data data = sequence_data(rel, page);

	data->last_value = value;
	data->is_called = true;
	data->log_cnt = stamp;

	/* minors before 15.5 and 16.1 mark it too late for a checkpoint */
	MarkBufferDirty(buffer);
}

/*
 * Write the value with a stamp, or 0, and unlock.  Returns up to where the WAL
 * must be flushed before anybody may rely on it.
 */
XLogRecPtr
sf_register_store(SfRegister *reg, int64 value, int64 stamp)
{
	XLogRecPtr	lsn;

	Assert(reg->locked);
	set_value(reg->rel, reg->xlog, reg->buffer, value, stamp);
	lsn = GenericXLogFinish(reg->xlog);
	reg->xlog = NULL;
	sf_register_unlock(reg);
	return lsn;
}

/* Let go of the page; no harm if it is not locked. */
void
sf_register_unlock(SfRegister *reg)
{
	if (reg->locked)
		LockBuffer(reg->buffer, BUFFER_LOCK_UNLOCK);
	reg->locked = false;
}

void
sf_register_close(SfRegister *reg)
{
	sf_register_unlock(reg);
	if (reg->xlog != NULL)
		GenericXLogAbort(reg->xlog);
	ReleaseBuffer(reg->buffer);
	relation_close(reg->rel, RowExclusiveLock);
	if (reg->all)
		unlock(SF_NREGISTERS);
}

/* Do these, whose pages are locked, hold nothing but these values, or 0? */
static bool
hold_no_other(const Relation *rels, const Buffer *buffers,
			  const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		Page		page = BufferGetPage(buffers[i]);
		int64		value = data_value(sequence_data(rels[i], page));

		if (value != 0 && value != values[i])
			return false;
	}
	return true;
}

/*
 * Write registers in one WAL record, which has room for four.  It has to be
 * flushed up to *lsn, which is InvalidXLogRecPtr where there is none: with
 * wal_level = minimal, a sequence that this transaction has made is written
 * to disk when it commits.  With fill, nothing is written over other values,
 * unless the mark is 0: then the result is false.
 */
bool
sf_register_write(const SfRegisterId *ids, const int64 *values, int n,
				  bool fill, XLogRecPtr *lsn)
{
	Relation	rels[MAX_GENERIC_XLOG_PAGES] = {NULL};
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	SfRegister	mark = {0};
	GenericXLogState *xlog;
	bool		written;

	Assert(n > 0 && n <= MAX_GENERIC_XLOG_PAGES);
	for (int i = 0; i < n; i++)
	{
		rels[i] = open_sequence(ids[i], RowExclusiveLock, true);
		buffers[i] = ReadBuffer(rels[i], 0);
	}
	if (fill)
		(void) sf_register_open(&mark, SF_REG_MARK, true);
	xlog = GenericXLogStart(rels[0]);
	for (int i = 0; i < n; i++)
		LockBuffer(buffers[i], BUFFER_LOCK_EXCLUSIVE);

	/* whoever writes the mark before them has not come to them yet */
	written = !fill || sf_register_lock(&mark, lsn) == 0 ||
		hold_no_other(rels, buffers, values, n);
	if (written)
	{
		for (int i = 0; i < n; i++)
			set_value(rels[i], xlog, buffers[i], values[i], 0);
		*lsn = GenericXLogFinish(xlog);
	}
	else
		GenericXLogAbort(xlog);
	if (fill)
		sf_register_close(&mark);
	for (int i = 0; i < n; i++)
	{
		UnlockReleaseBuffer(buffers[i]);
		relation_close(rels[i], RowExclusiveLock);
	}
	return written;
}
