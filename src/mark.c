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
 *   of this database, so every counter is raised to it first (or to less, if
 *   the note of a clean shutdown knows better).  A backend that read a counter
 *   before it was raised fails its compare-and-swap.
 *
 * - the published mark and the register never fall.  A register found above
 *   what was published (a restore) is loaded, and one found below it (setval,
 *   or again a restore) is written up.  Either way rows below it may have come
 *   along that the counters know nothing of, so they are raised to it.
 *
 * - a published mark lies in the register that others will find.  A register
 *   that was made in a transaction which has not ended may vanish with it; the
 *   session that made it keeps a mark of its own until then.  Whoever creates
 *   the extension again writes the published mark into the new register before
 *   anybody can see it.
 *
 * - a mark that carries this life's stamp raises nothing.  A copy of a
 *   database (CREATE DATABASE ... TEMPLATE) has the mark of its source, up
 *   to a reserve ahead of the clock, and all databases would wait for it.
 *   So who writes a mark stamps it with a random number, which is made
 *   when the shared memory is, and only where the counters have reached
 *   every ID that the database may hold below it.  Each of these was made
 *   by the counters of this life, or was there when the database was
 *   loaded; and then they were raised above it, before that write.
 *   Counters never fall while the shared memory lives, so what the stamp
 *   says stays true, of every copy of the page as well: its rows are as
 *   old.  After a crash, on a promoted standby and from a backup the stamp
 *   is that of another life; setval(), and so any restore, takes it away.
 *   What is written without: a mark that was advanced beyond the clock,
 *   and one that is given up, which the counters were not raised to.
 *
 * The mark is extended early, when half of the reserve is left, by one
 * backend while the others go on.
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
#include "clock.h"
#include "counter.h"
#include "fault.h"
#include "jump.h"
#include "note.h"
#include "record.h"
#include "settings.h"
#include "shard.h"
#include "slot.h"
#include "stats.h"
#include "sync.h"
#include "times.h"

/* No database: its mark is 0. */
static SfDatabase nothing;

SfDatabase *sf_mark_attached = &nothing;

static void
detach(void)
{
	sf_mark_attached = &nothing;
}

/* ---- counters ---- */

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

	sf_counter_raise(&sf_state->node_counter.position,
					 floor_position(&sf_node_layout, floor_ms));
	for (int i = 0; i < sf_state->nshards; i++)
		sf_shard_raise(i, position);
}

/* ---- refusals ---- */

/* What moving a mark has come to. */
typedef struct Outcome
{
	SfClockLook clock;
	int64		found_ms;		/* what all IDs there are below */
	bool		behind;			/* the clock is too far behind that */
	bool		loaded;			/* by nobody before, in this life */
} Outcome;

/*
 * Refuse a mark that the clock will not reach within the time that a call may
 * wait for it.
 */
static void
refuse_mark(const Outcome *outcome)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %s behind the mark of this database",
					sf_times_span(outcome->found_ms - outcome->clock.now_ms)),
			 errdetail("The mark is at %s, and snowflake.max_clock_wait is %s.",
					   sf_times_show(outcome->found_ms),
					   sf_times_span(sf_max_clock_wait)),
			 errhint("Set the server's clock right; generation goes on by itself when it reaches that time. " SF_REG_MARK_REMEDY)));
}

/* ---- the protocol ---- */

/*
 * A register was put below the published mark, but so far ahead of the clock
 * that the counters may not be raised to it.  No ID may come to lie above the
 * register, nor below what a restore may have brought: write it up, and let
 * this database load its mark anew when the clock is there.
 */
static XLogRecPtr
give_up(SfDatabase *slot, SfRegister *reg, int64 published)
{
	XLogRecPtr	lsn = sf_register_store(reg, published, 0);

	pg_atomic_write_u64(&slot->mark, 0);
	sf_note_forget(slot->oid);
	return lsn;
}

/*
 * What all counters have to be raised to, given the mark that was found in the
 * register and what is published.  0: they have reached all IDs there.
 */
static int64
floor_of(const SfDatabase *slot, const SfRegister *reg, int64 found,
		 int64 published)
{
	if (found == published && published != 0)
		return 0;
	if (sf_state->life != 0 && reg->stamp == sf_state->life)
		return 0;
	return published == 0 ? sf_note_floor(slot->oid, found) : found;
}

/*
 * Look at the register, and make it and the published mark one: the heart of
 * the protocol.  With extend, also move both to a reserve beyond the clock;
 * with write, write even if nothing moves.  Where the outcome is a refusal,
 * nothing has changed.  The slot is locked.
 */
static void
reconcile(SfDatabase *slot, SfRegister *reg, bool extend, bool write,
		  Outcome *outcome)
{
	XLogRecPtr	lsn;
	int64		published = (int64) pg_atomic_read_u64(&slot->mark);
	int64		found;
	int64		floor;
	int64		mark;
	instr_time	begun;

	INSTR_TIME_SET_CURRENT(begun);
	sf_jump_look(&outcome->clock);
	outcome->loaded = published == 0;
	found = sf_register_lock(reg, &lsn);
	floor = floor_of(slot, reg, found, published);
	outcome->found_ms = floor;
	outcome->behind = floor > outcome->clock.now_ms + sf_max_clock_wait;
	if (outcome->behind && found < published)
		XLogFlush(give_up(slot, reg, published));
	if (extend || published == 0)
		sf_jump_judge(&outcome->clock, !outcome->behind);
	if (outcome->behind || outcome->clock.jumped)
	{
		sf_register_unlock(reg);
		return;
	}

	/* before it is stamped; 0 raises them to the layout's epoch */
	if (found != published || published == 0)
		raise_counters(floor);
	mark = Max(found, published);
	if (extend)
		mark = Max(mark, outcome->clock.now_ms + sf_settings_reserve_ms());
	if (mark != found || write)
		lsn = sf_register_store(reg, mark, sf_state->life);
	sf_register_unlock(reg);
	SF_FAULT("mark-inserted");

	/* what was found there may be as unsafe as what was stored */
	XLogFlush(lsn);
	SF_FAULT("mark-flushed");
	pg_write_barrier();
	pg_atomic_write_u64(&slot->mark, mark);
	SF_FAULT("mark-published");
	if (extend)
	{
		sf_stats_count(SF_STAT_EXTENSIONS);
		sf_stats_add(SF_STAT_EXTENSION_US, sf_stats_since(&begun));
	}
}

/*
 * Take up what is in the register; with extend, move it ahead as well, unless
 * somebody has published enough_ms meanwhile.
 */
static void
update(SfDatabase *slot, int64 enough_ms, bool extend, bool write)
{
	SfRegister	reg;
	Outcome		outcome = {0};

	(void) sf_register_open(&reg, SF_REG_MARK, true);
	if (sf_slot_lock(slot, enough_ms))
	{
		/* who waited may find it done */
		if (enough_ms == 0 ||
			(int64) pg_atomic_read_u64(&slot->mark) < enough_ms)
			reconcile(slot, &reg, extend, write, &outcome);
		sf_slot_unlock(slot);
	}
	sf_register_close(&reg);
	sf_stats_tell_step();
	if (outcome.behind)
		refuse_mark(&outcome);
	if (outcome.clock.jumped)
		sf_jump_refuse(&outcome.clock);
	if (outcome.loaded)
		sf_jump_tell_far(&outcome.clock, outcome.found_ms);
}

/* Is the mark's register one that may vanish with this transaction? */
static bool
register_is_new(void)
{
	SfRegister	reg;

	(void) sf_register_open(&reg, SF_REG_MARK, true);
	sf_register_close(&reg);
	return reg.is_new;
}

/*
 * Attach to this database: find its registers and its slot, see that the
 * configuration is the recorded one, and load the mark.  With need_ms, which
 * is 0 otherwise, also move it ahead, until that is published; or with less if
 * the clock went back or the extension has changed meanwhile: look again.
 */
void
sf_mark_attach(Oid function, int64 need_ms)
{
	SfDatabase *slot;
	bool		recorded;
	int64		published;
	int64		mark;

	sf_register_hold(function, detach);
	slot = sf_mark_attached;
	sf_mark_attached = &nothing;	/* if this throws */
	if (slot == &nothing)
		slot = register_is_new() ? sf_slot_make_own() : sf_slot_take();
	recorded = sf_record_verify();
	mark = sf_register_read(SF_REG_MARK);
	published = (int64) pg_atomic_read_u64(&slot->mark);

	if (!recorded)
		sf_record_fill();		/* the mark's WAL comes after it */
	if (mark == 0 && published == 0)
		update(slot, 1, true, true);
	else if (need_ms != 0)
		update(slot, need_ms, true, !recorded);
	else if (!recorded || mark != published)
		update(slot, 0, false, !recorded);

	/* not if the extension has changed meanwhile */
	if (sf_register_release())
		sf_mark_attached = slot;
}

/* Move it ahead, if that needs no wait. */
static void
try_extend(SfDatabase *slot, uint64 mark_ms)
{
	SfRegister	reg;
	Outcome		outcome = {0};

	if (!sf_register_open(&reg, SF_REG_MARK, false))
		return;
	SF_FAULT("early-opened");

	/* the extension, or what is recorded, may have changed */
	if (sf_mark_attached == slot && !sf_record_is_other() &&
		LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
	{
		if (pg_atomic_read_u64(&slot->mark) == mark_ms)
			reconcile(slot, &reg, true, false, &outcome);
		sf_slot_unlock(slot);
	}
	sf_register_close(&reg);
	sf_stats_tell_step();
}

/* Leave it to others, unless it has come to something. */
static void
give_back(SfDatabase *slot, uint64 mark_ms)
{
	if (pg_atomic_read_u64(&slot->mark) == mark_ms)
		pg_atomic_write_u64(&slot->early, 0);
}

/*
 * Move on a mark of which half is used up.  One backend does, and it alone
 * pays for it; the call has its ID already, so it neither waits for a lock
 * nor fails for the clock, the record or the extension.  Should it not come to
 * anything, another tries, and whoever needs more than is left finds out why.
 */
void
sf_mark_extend_early(void)
{
	SfDatabase *slot = sf_mark_attached;
	uint64		mark_ms = pg_atomic_read_u64(&slot->mark);
	uint64		claimed = pg_atomic_read_u64(&slot->early);

	if (mark_ms == 0 || claimed >= mark_ms ||
		!pg_atomic_compare_exchange_u64(&slot->early, &claimed, mark_ms))
		return;
	if (!sf_sync_allows())
		return;					/* whoever needs it is told why */
	PG_TRY();
	{
		try_extend(slot, mark_ms);
	}
	PG_CATCH();
	{
		give_back(slot, mark_ms);
		PG_RE_THROW();
	}
	PG_END_TRY();
	give_back(slot, mark_ms);
}

/*
 * Before anybody can see an extension that is being created: its mark begins
 * above all that this life of the server has made.  What this transaction has
 * made, with an extension that it has dropped, the counters alone know.
 */
void
sf_mark_initialize(Oid function)
{
	SfRegisterId id = SF_REG_MARK;
	int64		mark = Max(sf_slot_published_mark(), sf_note_issued_below());
	XLogRecPtr	lsn;

	if (mark == 0)
		return;
	sf_register_find(function, detach);
	(void) sf_register_write(&id, &mark, 1, false, &lsn);
	XLogFlush(lsn);
}

/* ---- administration ---- */

/*
 * Move this database to floor_ms: no ID is made below it any more.  If the
 * clock will not reach it soon, the counters are not raised to it, since other
 * databases share them: this database waits, and the others go on.  The
 * counters are raised to the old mark, which is near, so that a call that has
 * read that and not yet swapped its counter fails to.
 */
void
sf_mark_advance(int64 floor_ms)
{
	SfDatabase *slot = sf_mark_attached;
	SfRegister	reg;
	XLogRecPtr	lsn;
	int64		published;
	int64		found;
	int64		mark;
	bool		is_near;

	(void) sf_register_open(&reg, SF_REG_MARK, true);
	(void) sf_slot_lock(slot, 0);
	published = (int64) pg_atomic_read_u64(&slot->mark);
	found = sf_register_lock(&reg, &lsn);

	/* nothing was raised yet to what somebody else has put there */
	if (found != published)
		floor_ms = Max(floor_ms, found);
	mark = Max(floor_ms, published);
	is_near = floor_ms <= sf_clock_wall_ms() + sf_max_clock_wait;
	raise_counters(is_near ? floor_ms : published);
	if (mark != found || !is_near)
		lsn = sf_register_store(&reg, mark, is_near ? sf_state->life : 0);
	sf_register_unlock(&reg);
	XLogFlush(lsn);

	/* what is not near is loaded when the clock is there */
	pg_write_barrier();
	pg_atomic_write_u64(&slot->mark, is_near ? mark : 0);
	sf_slot_unlock(slot);
	sf_register_close(&reg);
}

/* Record the present configuration, whatever was recorded. */
void
sf_mark_accept_configuration(void)
{
	XLogFlush(sf_record_write());
}
