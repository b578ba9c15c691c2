/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The durable mark: load, extend, publish.
 *
 * The mark of a database is a time, in Unix milliseconds: every ID in this
 * state of the database is below it.  An ID is returned only if the end of
 * its tick is at or below the published mark, and the published mark has been
 * flushed to disk.  WAL is one sequence, so whatever prefix of it a recovery,
 * a standby or a backup ends with: if it holds an ID, it holds the mark that
 * covers it, because that was flushed before the ID existed.  No clock takes
 * part in this argument.
 *
 * What makes it true:
 *
 * - flush, then publish.  A reader of the published mark needs no barrier for
 *   that: that it is on disk is a fact about the disk.
 *
 * - raise, then publish.  What a start finds in the register is above all IDs
 *   of this database, so every counter is raised to it first.  A backend that
 *   read a counter before it was raised fails its compare-and-swap.
 *
 * - the published mark and the register never fall.  A register found below
 *   what was published (the extension was created again, or somebody called
 *   setval) is written up, and one found above it (a restore) is loaded.
 *
 * The mark is extended early, when half of the reserve is left, by one
 * backend while the others go on.  The lock of a database's slot is held
 * across the flush, but never waited for: who must wait sleeps on the slot's
 * condition variable.
 *
 * Two databases share the counters.  So that a bad mark of one does not stop
 * the others, a mark too far ahead of the clock is refused for its database
 * before anything is raised.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark.h"

#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "clock.h"
#include "miscadmin.h"
#include "record.h"
#include "settings.h"
#include "times.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Wake up as often to see whether the slot's lock was lost to an error. */
#define LOCK_RETRY_MS	100

SfDatabase *sf_mark_attached = NULL;

static void
detach(void)
{
	sf_mark_attached = NULL;
}

static uint32 wait_event_mark = 0;

/* ---- slots ---- */

static SfDatabase *
find_slot(Oid oid)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		if (sf_databases[i].database.oid == oid)
			return &sf_databases[i].database;
	}
	return NULL;
}

/* A slot of a database that is gone, as its OID and its count; or false. */
static bool
find_gone(Oid *oid, uint32 *attached)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;

		LWLockAcquire(sf_state->lock, LW_SHARED);
		*oid = database->oid;
		*attached = database->attached;
		LWLockRelease(sf_state->lock);
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(*oid)))
			return true;
	}
	return false;
}

/*
 * Find this database's slot, or take one: a free one, or that of a database
 * that is gone.  Nobody is connected to such a database, so nobody uses the
 * slot; should a new database have got its OID meanwhile and have attached,
 * the count tells.
 */
static SfDatabase *
take_slot(void)
{
	SfDatabase *slot;
	Oid			gone = InvalidOid;
	uint32		attached = 0;

	for (;;)
	{
		LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
		slot = find_slot(MyDatabaseId);
		if (slot == NULL)
		{
			slot = find_slot(gone);
			if (slot != NULL && gone != InvalidOid && slot->attached != attached)
				slot = NULL;
			if (slot != NULL)
			{
				slot->oid = MyDatabaseId;
				pg_atomic_write_u64(&slot->mark, 0);
				pg_atomic_write_u64(&slot->early, 0);
			}
		}
		if (slot != NULL)
			slot->attached++;
		LWLockRelease(sf_state->lock);
		if (slot != NULL)
			return slot;

		CHECK_FOR_INTERRUPTS();
		if (!find_gone(&gone, &attached))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many databases generate IDs on this server"),
					 errdetail("snowflake.max_databases is %d.",
							   sf_max_databases),
					 errhint("Increase snowflake.max_databases, and restart the server.")));
	}
}

/*
 * Take the slot's lock.  Returns false instead if meanwhile the mark was
 * published at need_ms or above; 0 waits for the lock whatever happens.
 */
static bool
lock_slot(SfDatabase *slot, uint64 need_ms)
{
	bool		locked;

	if (LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return true;
	ConditionVariablePrepareToSleep(&slot->changed);
	for (;;)
	{
		locked = false;
		if (need_ms > 0 && pg_atomic_read_u64(&slot->mark) >= need_ms)
			break;
		locked = LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE);
		if (locked)
			break;
		(void) ConditionVariableTimedSleep(&slot->changed, LOCK_RETRY_MS,
										   sf_wait_event(&wait_event_mark,
														 "SnowflakeMark"));
	}
	ConditionVariableCancelSleep();
	return locked;
}

static void
unlock_slot(SfDatabase *slot)
{
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->changed);
}

/* ---- counters ---- */

static void
raise_counter(pg_atomic_uint64 *counter, uint64 position)
{
	uint64		old = pg_atomic_read_u64(counter);

	while (old < position &&
		   !pg_atomic_compare_exchange_u64(counter, &old, position))
		;
}

/*
 * The position that the next ID must be above, so that its tick begins at
 * floor_ms or later, and not before the layout's epoch.
 */
static uint64
floor_position(const SfLayout *layout, int64 floor_ms)
{
	int64		tick = sf_layout_ms_to_tick(layout, floor_ms +
											layout->tick_ms - 1);

	tick = Max(tick, layout->epoch_tick);
	return tick == 0 ? 0 : ((uint64) tick << layout->sequence_bits) - 1;
}

/* Raise every counter, so that no ID is made below this time. */
static void
raise_counters(int64 floor_ms)
{
	uint64		position = floor_position(&sf_shard_layout, floor_ms);

	raise_counter(&sf_state->node_counter.position,
				  floor_position(&sf_node_layout, floor_ms));
	for (int i = 0; i < sf_state->nshards; i++)
		raise_counter(&sf_shard_counters[i], position);
}

/* ---- the clock, as the mark sees it ---- */

/*
 * Read the wall clock, and refuse if it has jumped forward further than is
 * believed.  A jump past the mark cannot bypass this: until the mark is
 * extended, nothing is issued beyond it.  The baseline is one for the server,
 * and is the highest under which a mark was extended.
 */
static int64
check_jump(int64 *offset)
{
	int64		baseline = (int64) pg_atomic_read_u64(&sf_state->boot_offset);
	int64		now_ms;
	int64		jump;

	*offset = sf_clock_boot_offset_ms(&now_ms);
	jump = *offset - baseline;
	if (baseline != 0 && jump > sf_max_clock_jump * INT64CONST(1000))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("wall clock jumped forward by %lld s",
						(long long) (jump / 1000)),
				 errdetail("It now says %s; snowflake.max_clock_jump is %d s.",
						   sf_times_show(now_ms), sf_max_clock_jump),
				 errhint("If the clock is wrong, set it right, and generation goes on. If it is right, have an administrator call snowflake_accept_clock().")));
	return now_ms;
}

void
sf_mark_check_jump(void)
{
	int64		offset;

	(void) check_jump(&offset);
}

/* Take the present clock for right, whatever it was before. */
void
sf_mark_accept_clock(void)
{
	int64		now_ms;
	int64		offset = sf_clock_boot_offset_ms(&now_ms);

	pg_atomic_write_u64(&sf_state->boot_offset, Max(offset, 0));
}

/*
 * Refuse a mark that the clock will not reach within the time that a call may
 * wait for it.  The slot must not be locked.
 */
static void
refuse_mark(int64 mark_ms, int64 now_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %lld ms behind the mark of this database",
					(long long) (mark_ms - now_ms)),
			 errdetail("IDs were issued here for times up to %s, and snowflake.max_clock_wait is %d ms.",
					   sf_times_show(mark_ms), sf_max_clock_wait),
			 errhint("Set the server's clock right; generation goes on by itself when it reaches that time. If the mark is what is wrong, see \"A mark in the far future\" in the documentation.")));
}

/* ---- the protocol ---- */

/*
 * Look at the register, and make it and the published mark one: the heart of
 * the protocol.  With extend, also move both to at least need_ms and a
 * reserve beyond the clock; with write, write even if nothing moves.  Returns
 * false, and has changed nothing, if the register is too far ahead of the
 * clock; *found is what it says.
 */
static bool
reconcile(SfDatabase *slot, SfRegister *reg, int64 now_ms, int64 need_ms,
		  bool extend, bool write, int64 *found)
{
	XLogRecPtr	lsn;
	int64		published = pg_atomic_read_u64(&slot->mark);
	int64		mark;

	*found = sf_register_lock(reg, &lsn);
	if (*found > published && *found > now_ms + sf_max_clock_wait)
		return false;
	mark = Max(*found, published);
	if (extend)
		mark = Max(mark, Max(now_ms, need_ms) + sf_settings_reserve_ms());
	if (mark != *found || write)
		lsn = sf_register_store(reg, mark);
	sf_register_unlock(reg);

	/* what was found there may be as unsafe as what was stored */
	XLogFlush(lsn);
	if (*found > published || published == 0)
		raise_counters(*found);
	pg_write_barrier();
	pg_atomic_write_u64(&slot->mark, mark);
	return true;
}

/* Take up what is in the register; with extend, move it ahead as well. */
static void
update(SfDatabase *slot, int64 need_ms, bool extend, bool write)
{
	SfRegister	reg;
	int64		found;
	int64		offset = 0;
	int64		now_ms = extend ? check_jump(&offset) : sf_clock_wall_ms();
	bool		done = true;

	sf_register_open(&reg, SF_REG_MARK);
	if (lock_slot(slot, need_ms))
	{
		/* who waited may find it done */
		if (need_ms == 0 || pg_atomic_read_u64(&slot->mark) < need_ms)
			done = reconcile(slot, &reg, now_ms, need_ms, extend, write, &found);
		unlock_slot(slot);
	}
	sf_register_close(&reg);
	if (!done)
		refuse_mark(found, now_ms);
	if (extend && offset > 0)
		raise_counter(&sf_state->boot_offset, offset);
}

/*
 * Attach to this database: find its registers and its slot, see that the
 * configuration is the recorded one, and load the mark.
 */
void
sf_mark_attach(Oid function)
{
	SfDatabase *slot;
	bool		recorded;
	uint64		published;
	int64		mark;

	sf_mark_attached = NULL;
	sf_register_find(function, detach);
	recorded = sf_record_verify();
	mark = sf_register_read(SF_REG_MARK);
	slot = take_slot();
	published = pg_atomic_read_u64(&slot->mark);

	if (!recorded)
		(void) sf_record_write();	/* the mark's WAL comes after it */
	if (mark == 0 && published == 0)
		update(slot, 1, true, true);
	else if (!recorded || (uint64) mark != published)
		update(slot, 0, false, !recorded);

	/* not if the extension has changed meanwhile */
	if (sf_register_known())
		sf_mark_attached = slot;
}

/* Move the mark to at least need_ms; returns when that is published. */
void
sf_mark_extend(int64 need_ms)
{
	update(sf_mark_attached, need_ms, true, false);
}

/*
 * Move on a mark of which half is used up.  One backend does, and it alone
 * pays for it.  Should it fail, who needs more will try again.
 */
void
sf_mark_extend_early(void)
{
	SfDatabase *slot = sf_mark_attached;
	uint64		mark_ms = pg_atomic_read_u64(&slot->mark);
	uint64		claimed = pg_atomic_read_u64(&slot->early);

	if (claimed >= mark_ms ||
		!pg_atomic_compare_exchange_u64(&slot->early, &claimed, mark_ms))
		return;
	update(slot, mark_ms + 1, true, false);
}

/* ---- administration ---- */

/*
 * Move this database to floor_ms: no ID is made below it any more.  If the
 * clock will not reach it soon, the counters are left alone, since other
 * databases share them: this database waits, and the others go on.
 */
void
sf_mark_advance(int64 floor_ms, bool far)
{
	SfDatabase *slot = sf_mark_attached;
	SfRegister	reg;
	XLogRecPtr	lsn;
	int64		mark;

	sf_register_open(&reg, SF_REG_MARK);
	(void) lock_slot(slot, 0);
	mark = Max(sf_register_lock(&reg, &lsn),
			   (int64) pg_atomic_read_u64(&slot->mark));
	mark = Max(mark, floor_ms);
	XLogFlush(sf_register_store(&reg, mark));
	if (far)
		pg_atomic_write_u64(&slot->mark, 0);	/* to be loaded when due */
	else
	{
		raise_counters(floor_ms);
		pg_write_barrier();
		pg_atomic_write_u64(&slot->mark, mark);
	}
	unlock_slot(slot);
	sf_register_close(&reg);
}

/* Record the present configuration, whatever was recorded. */
void
sf_mark_accept_configuration(void)
{
	XLogFlush(sf_record_write());
}
