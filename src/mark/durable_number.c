/*-------------------------------------------------------------------------
 *
 * durable_number.c
 *	  Durable numbers, kept in sequences that the extension owns.
 *
 * A sequence is one page that vacuum never touches, that pg_dump, pg_upgrade
 * and CREATE DATABASE copy, and that SELECT can read.  This file writes it as
 * a full page image through generic WAL, whose redo is in core: a standby
 * replays it without this library.  Such a write needs no transaction id, is
 * not undone by a rollback, and is durable as soon as the WAL is flushed,
 * whatever synchronous_commit says.
 *
 * A number that was never written reads as 0.
 *
 * The stamp lies in log_cnt.  Only nextval() uses that field, and nextval()
 * fails on these sequences once they are written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "base/message.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define EXTENSION	"snowflake"

/* Only the owners of the extension and the database may name its objects. */
#define SCHEMA	"snowflake_state"

/* The magic number in the special space of a sequence's page. */
#define SEQUENCE_MAGIC	0x1717

static const char *const number_names[SF_DURABLE_NUMBERS] = {
	"snowflake_mark",
	"snowflake_recorded_layout",
	"snowflake_recorded_epoch",
	"snowflake_recorded_shard_layout",
	"snowflake_recorded_shard_epoch"
};

/* What this backend has found, and whether it is still right. */
typedef struct NumberCache
{
	bool		valid;			/* the OIDs are still right */
	char		schema[2 * NAMEDATALEN + 3];	/* sf_extschema() */
	Oid			oid[SF_DURABLE_NUMBERS];
	uint32		hash[SF_DURABLE_NUMBERS];	/* syscache hashes of the OIDs */
	uint64		forgotten;		/* how often an OID became, or may have
								 * become, invalid */
	uint64		changed;		/* how often a sequence has changed */
	Oid			held;			/* the mark's OID while it is locked, */
	uint64		changed_before; /* and "changed" at that moment */
	void		(*on_forget) (void);	/* called when OIDs become invalid */
} NumberCache;

static NumberCache cache;

static void
forget_numbers(void)
{
	cache.valid = false;
	cache.forgotten++;
	if (cache.on_forget != NULL)
		cache.on_forget();
}

/*
 * Forget the OIDs when a sequence is changed or dropped.  A hash value of 0
 * means that any object may have changed.
 */
static void
forget_on_change(Datum arg, int cacheid, uint32 hashvalue)
{
	for (int i = 0; i < SF_DURABLE_NUMBERS; i++)
	{
		if (hashvalue == cache.hash[i])
			cache.changed++;
		if (hashvalue == 0 || hashvalue == cache.hash[i])
			forget_numbers();
	}
}

/*
 * Return true if this database has the extension.  Another extension may have
 * its name, but not its schema.
 */
bool
sf_durable_numbers_exist(void)
{
	Oid			extension = get_extension_oid(EXTENSION, true);
	Oid			schema = get_namespace_oid(SCHEMA, true);

	return OidIsValid(extension) && OidIsValid(schema) &&
		getExtensionOfObject(NamespaceRelationId, schema) == extension;
}

/* Return the sequence of a number, if it belongs to the extension. */
static Oid
look_up_number(int id)
{
	Oid			schema = get_namespace_oid(SCHEMA, true);
	Oid			extension = get_extension_oid(EXTENSION, true);
	Oid			oid = OidIsValid(schema) ?
		get_relname_relid(number_names[id], schema) : InvalidOid;

	if (!OidIsValid(oid) || !OidIsValid(extension) ||
		getExtensionOfObject(RelationRelationId, oid) != extension)
		return InvalidOid;
	return oid;
}

/*
 * Return the name of a number whose sequence does not belong to the extension,
 * or NULL.  Set *is_there if it only has left the extension.
 */
const char *
sf_durable_number_gone(SfDurableNumberId id, bool *is_there)
{
	Oid			schema = get_namespace_oid(SCHEMA, true);

	*is_there = OidIsValid(get_relname_relid(number_names[id], schema));
	return OidIsValid(look_up_number(id)) ? NULL : number_names[id];
}

/* Look up the sequences; see sf_durable_numbers_find(). */
static void
look_up_sequence(void)
{
	strlcpy(cache.schema, sf_extschema(), sizeof(cache.schema));
	for (int i = 0; i < SF_DURABLE_NUMBERS; i++)
	{
		Oid			oid = look_up_number(i);

		if (!OidIsValid(oid))
		{
			forget_numbers();
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("sequence \"%s\" of the extension \"snowflake\" does not exist",
							number_names[i]),
					 errhint(SF_RECOVER_REMEDY, cache.schema)));
		}
		cache.oid[i] = oid;
		cache.hash[i] = GetSysCacheHashValue1(RELOID,
											  ObjectIdGetDatum(oid));
	}
}

/*
 * Find the sequences: they lie in the extension's schema and belong to the
 * extension.  So no other sequence of such a name is mistaken for ours.
 * Whenever the search must be repeated, on_change is called, if it is given.
 */
void
sf_durable_numbers_find(void (*on_change) (void))
{
	static bool registered = false;
	uint64		before = cache.forgotten;

	if (on_change != NULL)
		cache.on_forget = on_change;
	if (cache.valid)
		return;
	if (!registered)
	{
		CacheRegisterSyscacheCallback(RELOID, forget_on_change, (Datum) 0);
		registered = true;
	}
	look_up_sequence();

	/* the OIDs are not right if a sequence has changed meanwhile */
	cache.valid = cache.forgotten == before;
}

/*
 * Find the sequences, and lock that of the mark, so that nobody drops it
 * before the lock is released.  If the caches were forgotten meanwhile, look
 * the sequence up again, and accept the lock if it is on the right one: with
 * debug_discard_caches every lock forgets all caches.
 */
void
sf_durable_numbers_hold(void (*on_change) (void))
{
	for (;;)
	{
		sf_durable_numbers_find(on_change);
		cache.held = cache.oid[SF_DURABLE_MARK];
		LockRelationOid(cache.held, AccessShareLock);
		cache.changed_before = cache.changed;
		if (cache.valid)
			return;
		look_up_sequence();
		if (cache.oid[SF_DURABLE_MARK] == cache.held)
			return;
		UnlockRelationOid(cache.held, AccessShareLock);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Release the lock.  Return true if the OIDs found are still right. */
bool
sf_durable_numbers_release(void)
{
	Assert(OidIsValid(cache.held));
	cache.valid = cache.changed == cache.changed_before;
	UnlockRelationOid(cache.held, AccessShareLock);
	return cache.valid;
}

/* Return the kind of what has a sequence's name, as ALTER EXTENSION does. */
static const char *
kind_of(Relation rel)
{
	ObjectAddress object;

	ObjectAddressSet(object, RelationRelationId, RelationGetRelid(rel));
	return getObjectTypeDescription(&object, false);
}

/* Open a number's sequence, and check that it is usable; or return NULL. */
static Relation
open_sequence(int id, LOCKMODE mode, SfDurableWait wait)
{
	Oid			oid = cache.oid[id];
	Relation	rel;

	Assert(OidIsValid(oid));	/* found before */
	if (wait == SF_DURABLE_WAIT)
		LockRelationOid(oid, mode);
	else if (!ConditionalLockRelationOid(oid, mode))
		return NULL;

	rel = try_relation_open(oid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(oid, mode);
		forget_numbers();
		if (wait == SF_DURABLE_TRY)
			return NULL;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("sequence \"%s\" of the extension \"snowflake\" has been replaced",
						number_names[id]),
				 errhint("Repeat the command; the extension was dropped or changed meanwhile.")));
	}
	if (rel->rd_rel->relkind != RELKIND_SEQUENCE ||
		rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
	{
		if (wait == SF_DURABLE_TRY)
		{
			relation_close(rel, mode);
			return NULL;
		}
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a logged sequence",
						RelationGetRelationName(rel)),
				 rel->rd_rel->relkind == RELKIND_SEQUENCE ?
				 errhint("Run as a superuser: ALTER SEQUENCE %s.%s SET LOGGED;",
						 SCHEMA, RelationGetRelationName(rel)) :
				 errhint("Run on the primary, as a superuser: ALTER EXTENSION snowflake DROP %s %s.%s; ALTER TABLE %s.%s RENAME TO %s_old; SELECT * FROM %s.snowflake_recover();",
						 kind_of(rel), SCHEMA, RelationGetRelationName(rel),
						 SCHEMA, RelationGetRelationName(rel),
						 RelationGetRelationName(rel), cache.schema)));
	}
	return rel;
}

/*
 * Add the remedy to the server's error about a page that it cannot read.  The
 * catalog cannot be read here.
 */
static void
advise(void *schema)
{
	int			code = geterrcode();

	if (code == ERRCODE_DATA_CORRUPTED || code == ERRCODE_UNDEFINED_FILE)
		errhint(SF_RECOVER_REMEDY, (const char *) schema);
}

static Buffer
read_page(Relation rel)
{
	ErrorContextCallback context = {error_context_stack, advise,
	cache.schema};
	Buffer		buffer;

	error_context_stack = &context;
	buffer = ReadBuffer(rel, 0);
	error_context_stack = context.previous;
	return buffer;
}

/* Return true if this is not the page of a sequence. */
static bool
is_damaged(Page page)
{
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	uint32		special = BLCKSZ - MAXALIGN(sizeof(uint32));
	uint32		header = MAXALIGN(SizeofHeapTupleHeader);

	/* without checksums, nothing else keeps us from reading beyond the page */
	return PageIsNew(page) || PageGetPageSize(page) != BLCKSZ ||
		((PageHeader) page)->pd_special != special ||
		*(uint32 *) PageGetSpecialPointer(page) != SEQUENCE_MAGIC ||
		PageGetMaxOffsetNumber(page) < FirstOffsetNumber ||
		!ItemIdIsNormal(item) ||
		ItemIdGetOffset(item) != MAXALIGN(ItemIdGetOffset(item)) ||
		ItemIdGetOffset(item) < SizeOfPageHeaderData + sizeof(ItemIdData) ||
		(uint32) ItemIdGetOffset(item) + ItemIdGetLength(item) > special ||
		ItemIdGetLength(item) < header +
		offsetof(FormData_pg_sequence_data, is_called) + sizeof(bool) ||
		((HeapTupleHeader) PageGetItem(page, item))->t_hoff != header;
}

/* Return the data of a sequence's only tuple, in its page or in a copy. */
static Form_pg_sequence_data
sequence_data(Relation rel, Page page)
{
	ItemId		item;
	HeapTupleHeader tuple;

	if (is_damaged(page))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page of sequence \"%s\" is damaged",
						RelationGetRelationName(rel)),
				 errhint(SF_RECOVER_REMEDY, cache.schema)));
	item = PageGetItemId(page, FirstOffsetNumber);
	tuple = (HeapTupleHeader) PageGetItem(page, item);
	return (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
}

static int64
data_value(Form_pg_sequence_data data)
{
	return data->is_called ? data->last_value : 0;
}

/* Read the numbers from this one on. */
static bool
read_from(int first, SfDurableNumbers *numbers, SfDurableWait wait)
{
	for (int i = first; i < SF_DURABLE_NUMBERS; i++)
	{
		Relation	rel = open_sequence(i, AccessShareLock, wait);
		Buffer		buffer;

		if (rel == NULL)
			return false;
		if (i == SF_DURABLE_MARK)
			numbers->is_new = sf_relation_is_new(rel);
		buffer = read_page(rel);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		numbers->value[i] = data_value(sequence_data(rel,
													 BufferGetPage(buffer)));
		UnlockReleaseBuffer(buffer);
		relation_close(rel, AccessShareLock);
	}
	return true;
}

/*
 * Read all numbers.  What is read need not be on disk yet.
 *
 * The mark is read first.  The extension writes the config record before the
 * first mark, so if there is a mark, the record that precedes it is read too.
 * Any number may be written between two reads.  A restore writes them one by
 * one, so the config record that is read may be one that never was in force.
 * That is refused, unless it is the configuration.
 */
bool
sf_durable_numbers_read(SfDurableNumbers *numbers, SfDurableWait wait)
{
	StaticAssertStmt(SF_DURABLE_MARK == 0, "the mark is read first");
	return read_from(SF_DURABLE_MARK, numbers, wait);
}

/* Read the config record alone, also if the mark cannot be read. */
void
sf_durable_record_read(SfDurableNumbers *numbers)
{
	(void) read_from(SF_DURABLE_RECORD, numbers, SF_DURABLE_WAIT);
}

/*
 * Open the mark for writing.  All catalogue look-ups and allocations happen
 * here, so that the caller may take a lightweight lock afterwards.
 */
bool
sf_durable_mark_open(SfDurableMark *mark, SfDurableWait wait)
{
	mark->rel = open_sequence(SF_DURABLE_MARK, RowExclusiveLock, wait);
	if (mark->rel == NULL)
		return false;
	mark->buffer = read_page(mark->rel);
	mark->xlog = GenericXLogStart(mark->rel);
	mark->locked = false;
	return true;
}

/* Lock the page.  Return its value; *lsn is the end of the WAL to flush. */
int64
sf_durable_mark_lock(SfDurableMark *mark, XLogRecPtr *lsn)
{
	Page		page = BufferGetPage(mark->buffer);
	Form_pg_sequence_data data;

	Assert(!mark->locked);
	LockBuffer(mark->buffer, BUFFER_LOCK_EXCLUSIVE);
	mark->locked = true;
	*lsn = PageGetLSN(page);
	data = sequence_data(mark->rel, page);
	mark->stamp = data->log_cnt;
	return data_value(data);
}

/* Write a value and a stamp into a page that will be logged. */
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

	/* before 15.5 and 16.1 the server does this too late for a checkpoint */
	MarkBufferDirty(buffer);
}

/*
 * Write the value with a stamp, or with 0, and unlock.  Return the end of the
 * WAL that must be flushed before any process relies on the value.
 */
XLogRecPtr
sf_durable_mark_store(SfDurableMark *mark, int64 value, int64 stamp)
{
	XLogRecPtr	lsn;

	Assert(mark->locked && mark->xlog != NULL);
	set_value(mark->rel, mark->xlog, mark->buffer, value, stamp);
	lsn = GenericXLogFinish(mark->xlog);
	mark->xlog = NULL;
	sf_durable_mark_unlock(mark);
	return lsn;
}

/* Unlock the page, if it is locked. */
void
sf_durable_mark_unlock(SfDurableMark *mark)
{
	if (mark->locked)
		LockBuffer(mark->buffer, BUFFER_LOCK_UNLOCK);
	mark->locked = false;
}

void
sf_durable_mark_close(SfDurableMark *mark)
{
	sf_durable_mark_unlock(mark);
	if (mark->xlog != NULL)
		GenericXLogAbort(mark->xlog);
	ReleaseBuffer(mark->buffer);
	relation_close(mark->rel, RowExclusiveLock);
}

/* Return true if each of these locked pages holds its value, or 0. */
static bool
hold_no_other(const Relation *rels, const Buffer *buffers,
			  const int64 *values)
{
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		Page		page = BufferGetPage(buffers[i]);
		int64		value = data_value(sequence_data(rels[i], page));

		if (value != 0 && value != values[i])
			return false;
	}
	return true;
}

/*
 * Write the config record, in one WAL record.  The caller flushes WAL up to
 * *lsn.  *lsn is InvalidXLogRecPtr if there is no WAL record: with wal_level =
 * minimal, a sequence that this transaction has created is written to disk at
 * commit.  With "fill", do not replace other values if there is a mark; return
 * false instead.
 */
bool
sf_durable_record_write(const SfDurableNumbers *numbers, bool fill,
						XLogRecPtr *lsn)
{
	Relation	rels[SF_DURABLE_NUMBERS];
	Buffer		buffers[SF_DURABLE_NUMBERS];
	SfDurableMark mark = {0};
	GenericXLogState *xlog;
	bool		written;

	StaticAssertStmt(SF_DURABLE_NUMBERS - SF_DURABLE_RECORD <=
					 MAX_GENERIC_XLOG_PAGES, "one WAL record");
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		rels[i] = open_sequence(i, RowExclusiveLock, SF_DURABLE_WAIT);
		buffers[i] = read_page(rels[i]);
	}
	if (fill)
		(void) sf_durable_mark_open(&mark, SF_DURABLE_WAIT);
	xlog = GenericXLogStart(rels[SF_DURABLE_RECORD]);
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
		LockBuffer(buffers[i], BUFFER_LOCK_EXCLUSIVE);

	/* without a mark, no session relies on these numbers yet */
	written = !fill || sf_durable_mark_lock(&mark, lsn) == 0 ||
		hold_no_other(rels, buffers, numbers->value);
	if (written)
	{
		for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
			set_value(rels[i], xlog, buffers[i], numbers->value[i], 0);
		*lsn = GenericXLogFinish(xlog);
	}
	else
		GenericXLogAbort(xlog);
	if (fill)
		sf_durable_mark_close(&mark);
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		UnlockReleaseBuffer(buffers[i]);
		relation_close(rels[i], RowExclusiveLock);
	}
	return written;
}

/* ---- new storage ---- */

/*
 * Make the file of a sequence, or its first page, if that is missing.  Return
 * true if so: then the page must be written, even if the buffer has it.
 */
static bool
make_file(Relation rel)
{
	static const PGIOAlignedBlock zero;
	SMgrRelation file = RelationGetSmgr(rel);
	bool		missing;

	LockRelationForExtension(rel, ExclusiveLock);
	if (!smgrexists(file, MAIN_FORKNUM))
		smgrcreate(file, MAIN_FORKNUM, false);
	missing = smgrnblocks(file, MAIN_FORKNUM) == 0;
	if (missing)
		smgrextend(file, MAIN_FORKNUM, 0, (char *) zero.data, false);
	UnlockRelationForExtension(rel, ExclusiveLock);
	return missing;
}

/* Write the page of a sequence as the server does, with its only tuple. */
static void
init_page(Page page, HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;

	HeapTupleHeaderSetXmin(header, FrozenTransactionId);
	HeapTupleHeaderSetXminFrozen(header);
	HeapTupleHeaderSetCmin(header, FirstCommandId);
	HeapTupleHeaderSetXmax(header, InvalidTransactionId);
	header->t_infomask |= HEAP_XMAX_INVALID;
	ItemPointerSet(&header->t_ctid, 0, FirstOffsetNumber);
	PageInit(page, BLCKSZ, sizeof(uint32));
	*(uint32 *) PageGetSpecialPointer(page) = SEQUENCE_MAGIC;
	if (PageAddItem(page, (void *) header, tuple->t_len, InvalidOffsetNumber,
					false, false) != FirstOffsetNumber)
		elog(ERROR, "page of a sequence could not be made");
}

/*
 * If a number's page cannot be read, write a new one in its place, as a full
 * page image, and flush it; return true if so.  Like every write of a number,
 * it is not undone by a rollback.  The value is the one given; that of the
 * mark is the published mark, if there is one, but not below floor_ms.  Nobody
 * moves a mark that cannot be read: whether the page is damaged is decided
 * while it is locked.
 */
bool
sf_durable_number_mend(SfDurableNumberId id, int64 value, int64 floor_ms)
{
	Relation	rel = open_sequence(id, RowExclusiveLock, SF_DURABLE_WAIT);
	Datum		values[] = {
		Int64GetDatum(0), Int64GetDatum(0), BoolGetDatum(true)
	};
	bool		nulls[] = {false, false, false};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	GenericXLogState *xlog = GenericXLogStart(rel);
	bool		missing = make_file(rel);
	Buffer		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, 0,
											RBM_ZERO_ON_ERROR, NULL);
	bool		damaged;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	damaged = is_damaged(BufferGetPage(buffer));
	if (damaged || missing)
	{
		int64		published = sf_db_slot_published_mark();
		Page		page = GenericXLogRegisterBuffer(xlog, buffer,
													 GENERIC_XLOG_FULL_IMAGE);

		if (damaged)
		{
			init_page(page, tuple);
			sequence_data(rel, page)->last_value =
				id == SF_DURABLE_MARK && published != 0 ?
				Max(published, floor_ms) : value;
		}
		MarkBufferDirty(buffer);	/* as in set_value() */
		XLogFlush(GenericXLogFinish(xlog));
	}
	else
		GenericXLogAbort(xlog);
	UnlockReleaseBuffer(buffer);
	relation_close(rel, RowExclusiveLock);
	heap_freetuple(tuple);
	return damaged || missing;
}
