/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The durable mark: load, extend, publish.
 *
 * The mark of a database is a time, in Unix milliseconds: every ID in this
 * state of the database is below it.  An ID is returned only if the end of its
 * tick is at or below the published mark, and the published mark has been
 * flushed to disk.  WAL is one sequence.  A recovery, a standby or a backup
 * has all WAL up to some point.  If that WAL holds an ID, it also holds the
 * mark that covers the ID, because that mark was flushed before the ID
 * existed.  No clock takes part in this argument.
 *
 * These rules make it true:
 *
 * - flush, then publish.  So whoever reads a published mark knows that it is
 *   on disk, without a barrier.
 *
 * - raise, then publish.  The durable mark found at a start is above all IDs
 *   of this database, so every counter is raised to it first (or to less, if
 *   the shutdown file names the life of its stamp).  A backend that read a
 *   counter before it was raised fails its compare-and-swap.
 *
 * - the published mark and the durable mark never fall.  A durable mark found
 *   above the published one (a restore) is loaded; one found below it (setval,
 *   or again a restore) is written up.  In both cases rows below it may have
 *   been added that the counters do not cover, so they are raised to it.
 *
 * - the published mark is in the durable number that others will find.  If a
 *   transaction has created the durable number, a rollback removes it; so
 *   until the transaction ends, the session keeps a private mark.  A session
 *   that creates the extension again writes the published mark into the new
 *   number before any other session can see it.
 *
 * - a mark with this life's stamp raises nothing.  A copy of a database
 *   (CREATE DATABASE ... TEMPLATE) has the mark of its source, up to a lead
 *   ahead of the clock, and all databases would wait for it.  So a backend
 *   that writes a mark adds the stamp, a random number drawn with the shared
 *   memory, but only if the counters have reached every ID that the database
 *   may hold below the mark.  Each such ID was made by the counters of this
 *   life, or was there when the database was loaded; and then the counters
 *   were raised above it before that write.  Counters never fall while the
 *   shared memory lives, so the stamp stays true, also in every copy of the
 *   page: the rows that are copied with it are as old.  After a crash, on a
 *   promoted standby and from a backup, the stamp is that of another life;
 *   setval(), and so any restore, removes it.  Two kinds of marks are written
 *   without a stamp, because the counters were not raised to them: one
 *   advanced beyond the clock, and one given up.
 *
 * - no life makes an ID while the mark has the stamp of another life.  A mark
 *   that is loaded keeps its stamp: IDs then begin at the mark, so they need a
 *   later mark, and that is written with the new stamp.  But a life that
 *   begins below the mark writes its stamp first.  Otherwise the shutdown file
 *   of the life before would seem to cover these IDs, too.
 *
 * The mark is extended early, when half of the reserve is left, by one backend
 * while the others go on.
 *
 * All databases share the counters.  To keep a bad mark of one from stopping
 * the others, a mark too far ahead of the clock is refused for its database
 * before anything is raised.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "access/xlog.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/message.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/shmem.h"
#include "runtime/settings.h"
#include "storage/pmsignal.h"

SfDatabase *sf_mark_attached = &sf_no_database;

static void
detach_mark(void)
{
	sf_mark_attached = &sf_no_database;
}

/* What to do besides making the two marks equal. */
#define EXTEND	0x01			/* move both to a lead beyond the clock */
#define REWRITE	0x02			/* write even if nothing moves */

/* Any published mark is enough for the caller: marks are larger. */
#define ANY_MARK	1

/*
 * No call needs a mark that is farther ahead of the clock than the drift and
 * the tick of an ID, each rounded up to whole ticks.
 */
#define FARTHEST_MS		(sf_max_clock_drift + 2 * SF_MAX_TICK_MS)

/* No floor: the counters have reached all IDs of the database. */
#define REACHED		0

/* The outcome of an attempt to move a mark. */
typedef struct Outcome
{
	SfClockLook clock;
	int64		found_ms;		/* all IDs of the database are below this */
	bool		behind;			/* the clock is too far behind found_ms */
	bool		loaded;			/* loaded for the first time in this life */
} Outcome;

static void attach(int64 need_ms);
static void update(SfDatabase *slot, int64 need_ms, int flags);
static void reconcile(SfDatabase *slot, SfDurableMark *number, int64 need_ms,
					  int flags, Outcome *outcome);
static XLogRecPtr give_up(SfDatabase *slot, SfDurableMark *number,
						  int64 published);
static void refuse_mark(const Outcome *outcome);

/* ---- the first call of a session, and the next mark ---- */

/*
 * Attach to this database, and load its mark.  A first call after a start
 * comes back for sf_mark_extend() if the clock has passed the mark.
 */
void
sf_mark_load(void)
{
	attach(0);
}

/*
 * Move the mark ahead until need_ms is published.  On return it may still be
 * lower, if the clock went back or the extension has changed: the caller looks
 * again.
 */
void
sf_mark_extend(int64 need_ms)
{
	attach(need_ms);
}

/*
 * Read the durable numbers, find this database's slot, check the config
 * record, and load the mark; if need_ms is not 0, also move it ahead.  A
 * session that has attached before does it again, since the extension may have
 * changed.
 *
 * A deadlock with a transaction that alters the sequences is harmless: a
 * session that waits here has no lightweight lock, and nothing half written.
 */
static void
attach(int64 need_ms)
{
	SfDurableNumbers numbers;
	SfDatabase *slot;
	int			rewrite;
	int64		published;
	int64		mark;

	/* nobody drops them before release() */
	sf_durable_numbers_hold(detach_mark);
	slot = sf_mark_attached;
	sf_mark_attached = &sf_no_database; /* in case of an error */
	(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
	if (slot == &sf_no_database)
		slot = numbers.is_new ? sf_db_slot_make_own() : sf_db_slot_take();

	/* another configuration is refused; false: none is recorded yet */
	rewrite = sf_config_record_verify(&numbers) ? 0 : REWRITE;
	mark = numbers.value[SF_DURABLE_MARK];

	/* read it after the durable mark: it may have been moved meanwhile */
	published = (int64) pg_atomic_read_u64(&slot->mark);

	if (rewrite)
		sf_config_record_fill();	/* the mark's WAL comes after it */

	if (mark == 0 && published == 0)	/* a database without IDs */
		update(slot, ANY_MARK, EXTEND | REWRITE);
	else if (need_ms != 0)
		update(slot, need_ms, EXTEND | rewrite);
	else if (rewrite || mark != published)	/* as in a new life */
		update(slot, 0, rewrite);

	/* stay detached if the extension has changed meanwhile */
	if (sf_durable_numbers_release())
		sf_mark_attached = slot;
}

/*
 * Load the durable mark, and see reconcile().  If need_ms is not 0, do nothing
 * if another backend has published that much meanwhile.
 */
static void
update(SfDatabase *slot, int64 need_ms, int flags)
{
	SfDurableMark number;
	Outcome		outcome = {0};

	(void) sf_durable_mark_open(&number, SF_DURABLE_WAIT);
	if (sf_db_slot_lock(slot, need_ms)) /* false: enough is published */
	{
		/* another backend may have done it while we waited */
		if (need_ms == 0 ||
			(int64) pg_atomic_read_u64(&slot->mark) < need_ms)
			reconcile(slot, &number, need_ms, flags, &outcome);
		sf_db_slot_unlock(slot);
	}
	sf_durable_mark_close(&number);
	sf_stats_log_step();
	if (outcome.behind)
		refuse_mark(&outcome);
	if (outcome.clock.jumped)
		sf_clock_jump_refuse(&outcome.clock);
	if (outcome.loaded)
		sf_clock_jump_warn_far(&outcome.clock, outcome.found_ms);
}

/* ---- the protocol ---- */

/*
 * End this session if the postmaster was killed.  The next one, here or in a
 * copy of the data directory, begins at the mark that it finds.  Nobody else
 * tells this session, which may be busy with one statement for long.
 */
static void
require_postmaster(void)
{
	if (IsUnderPostmaster && !PostmasterIsAlive())
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to unexpected postmaster exit")));
}

/*
 * Make the durable mark and the published one equal: the heart of the
 * protocol.  With EXTEND, also move both to a lead beyond the clock, and to
 * need_ms, which a layout with long ticks may need.  The caller has computed
 * need_ms from an earlier reading of the clock, which nobody has judged: if
 * the clock was wrong then, need_ms is far ahead of the clock here.  So take
 * no more of it than a call may need; the caller looks again.  If the outcome
 * is an error, no counter was raised and no mark was moved ahead.
 */
static void
reconcile(SfDatabase *slot, SfDurableMark *number, int64 need_ms,
		  int flags, Outcome *outcome)
{
	bool		extend = (flags & EXTEND) != 0;
	XLogRecPtr	lsn;
	int64		published = (int64) pg_atomic_read_u64(&slot->mark);
	int64		found;
	int64		floor;
	int64		mark;
	int64		epoch_ms =
		sf_node_layout.epoch_tick * sf_node_layout.tick_ms;
	instr_time	begun;

	Assert(LWLockHeldByMeInMode(&slot->lock, LW_EXCLUSIVE));
	INSTR_TIME_SET_CURRENT(begun);
	sf_clock_jump_look(&outcome->clock);
	require_postmaster();		/* before this writes into its directory */
	outcome->loaded = published == 0;
	found = sf_durable_mark_lock(number, &lsn);
	floor = sf_mark_floor(number, found, published);
	outcome->found_ms = floor;
	outcome->behind = floor > outcome->clock.now_ms + sf_max_clock_wait;
	if (outcome->behind && found < published)
		XLogFlush(give_up(slot, number, published));

	/*
	 * A clock that has not jumped is the one to compare later ones with, but
	 * for one before the layout's epoch, which is wrong.  By one that has
	 * jumped, a mark that was restored may seem to be near.
	 */
	if (extend || found != published || published == 0)
		sf_clock_jump_judge(&outcome->clock, !outcome->behind &&
							(extend || published == 0) &&
							outcome->clock.now_ms >= epoch_ms);
	if (outcome->behind || outcome->clock.jumped)
	{
		sf_durable_mark_unlock(number);
		return;
	}

	/* raise before stamping; REACHED lifts new counters to the epoch */
	if (found != published || published == 0)
		sf_mark_raise_counters(floor);
	mark = Max(found, published);
	if (extend)
		mark = Max(mark, outcome->clock.now_ms +
				   Max(sf_settings_lead_ms(),
					   Min(need_ms - outcome->clock.now_ms, FARTHEST_MS)));

	/* a life that begins below the mark writes its stamp first */
	if (mark != found || (flags & REWRITE) ||
		(floor != REACHED && floor < found))
		lsn = sf_durable_mark_store(number, mark, sf_shmem->life);
	sf_durable_mark_unlock(number);
	SF_FAULT("mark-inserted");

	/* a mark that was found may not be on disk either */
	XLogFlush(lsn);
	require_postmaster();		/* the next one finds what was flushed */
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
 * Return the time to which all counters must be raised, given the durable mark
 * that was found and the published one, or REACHED.  If the shutdown file
 * names the life of the mark's stamp, no ID reached the file's time.
 */
int64
sf_mark_floor(const SfDurableMark *number, int64 found, int64 published)
{
	if (found == published && published != 0)
		return REACHED;
	if (sf_shmem->life != 0 && number->stamp == sf_shmem->life)
		return REACHED;
	if (number->stamp != 0 && number->stamp == sf_shmem->shutdown_life)
		return Min(found, sf_shmem->shutdown_ms);
	return found;
}

/*
 * Give up: setval() has put the durable mark below the published one, but so
 * far ahead of the clock that the counters must not be raised to it.  No new
 * ID may lie above the durable mark, nor among the rows that a restore may
 * have brought, which are below it.  So write the published mark back, and let
 * this database load its mark again when the clock has come near.
 */
static XLogRecPtr
give_up(SfDatabase *slot, SfDurableMark *number, int64 published)
{
	XLogRecPtr	lsn = sf_durable_mark_store(number, published, 0);

	Assert(LWLockHeldByMeInMode(&slot->lock, LW_EXCLUSIVE));
	pg_atomic_write_u64(&slot->mark, 0);
	return lsn;
}

/* Raise every counter, so that no ID is made below this time. */
void
sf_mark_raise_counters(int64 floor_ms)
{
	uint64		position = sf_layout_floor_position(&sf_shard_layout,
													floor_ms);

	sf_layout_slots_raise(floor_ms);
	for (int i = 0; i < sf_shmem->nshards; i++)
		sf_shard_raise(i, position);
}

/*
 * Refuse a mark that the clock will not reach within the time that a call may
 * wait.
 */
static void
refuse_mark(const Outcome *outcome)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %s behind the mark of this database",
					sf_timefmt_span(outcome->found_ms -
									outcome->clock.now_ms)),
			 errdetail("The mark is at %s, and snowflake.max_clock_wait is %s.",
					   sf_timefmt_show(outcome->found_ms),
					   sf_timefmt_span(sf_max_clock_wait)),
			 errhint("%s", outcome->found_ms - outcome->clock.now_ms <=
					 sf_settings_lead_ms() ?
					 sf_clock_wait_remedy(outcome->found_ms) :
					 sf_clock_behind_remedy(outcome->found_ms,
											sf_clock_jump_mark_remedy()))));
}

/* ---- extending early ---- */

/* Extend the mark if that needs no wait. */
static void
try_extend(SfDatabase *slot, uint64 mark_ms)
{
	SfDurableNumbers numbers;
	SfDurableMark number;
	Outcome		outcome = {0};

	if (!sf_durable_mark_open(&number, SF_DURABLE_TRY))
		return;
	SF_FAULT("early-opened");

	/* the extension, or the config record, may have changed */
	if (sf_durable_numbers_read(&numbers, SF_DURABLE_TRY) &&
		!sf_config_record_is_other(&numbers) && sf_mark_attached == slot &&
		LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
	{
		if (pg_atomic_read_u64(&slot->mark) == mark_ms)
			reconcile(slot, &number, 0, EXTEND, &outcome);
		sf_db_slot_unlock(slot);
	}
	sf_durable_mark_close(&number);
	sf_stats_log_step();
}

/* Let other backends try, unless the mark was extended. */
static void
give_back(SfDatabase *slot, uint64 mark_ms)
{
	if (pg_atomic_read_u64(&slot->mark) == mark_ms)
		pg_atomic_write_u64(&slot->early, 0);
}

/*
 * Extend a mark of which half is used.  One backend does this, and it alone
 * pays for it.  Its call has the ID already, so it neither waits for a lock
 * nor fails because of the clock, the record or the extension.  If it does not
 * succeed, another one tries, and a call that needs a later mark gets the
 * error.
 *
 * The call does fail by what may end any statement: a cancel, no memory, a
 * full lock table, a page that cannot be read.  This function cannot catch
 * such an error: only an abort gives back the locks and the pins, and before
 * 17 a parallel query cannot have a subtransaction.  The ID is lost, as with
 * any transaction that fails.
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
	if (!sf_clock_sync_check(false))
		return;					/* a call that needs the mark gets the error */
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

/* ---- administration ---- */

/*
 * Write the durable mark up to floor_ms, if it is lower, where no mark is
 * published: of a sequence that this transaction has created, or before the
 * mark is loaded.
 */
void
sf_mark_write_up(int64 floor_ms)
{
	SfDurableMark number;
	XLogRecPtr	lsn;

	sf_durable_numbers_find(detach_mark);
	(void) sf_durable_mark_open(&number, SF_DURABLE_WAIT);
	if (sf_durable_mark_lock(&number, &lsn) < floor_ms)
		lsn = sf_durable_mark_store(&number, floor_ms, 0);
	sf_durable_mark_close(&number);
	XLogFlush(lsn);
}

/*
 * Write the first mark of an extension that is being created, before any other
 * session can see the extension.  The mark is above all IDs of this life.  If
 * this transaction has dropped the extension before, only the counters know
 * the IDs that it made.
 */
void
sf_mark_initialize(void)
{
	int64		mark = Max(sf_db_slot_published_mark(),
						   sf_shutdown_file_issued_below());

	if (mark != 0)
		sf_mark_write_up(mark);
}

/*
 * Write what the durable numbers must hold whose sequence this transaction has
 * made anew ("mended" says which), and give each one whose page cannot be read
 * a new page; then "mended" says that, too.
 *
 * A mark that was published in this life is above all IDs that this server has
 * made.  If none was, IDs were at most as far ahead of the clock as the new
 * mark is, if that clock was right.  The caller has looked into the tables:
 * their IDs are below floor_ms, and so the new mark never is below them.
 */
void
sf_mark_mend(bool *mended, int64 floor_ms)
{
	int64		issued = sf_shutdown_file_issued_below();
	int64		published = sf_db_slot_published_mark();
	int64		least = Max(issued, sf_clock_wall_ms() + FARTHEST_MS);
	const int64 configured[] = {
		Max(least, floor_ms),
		sf_layout_code(&sf_node_layout), sf_node_layout.epoch_ms,
		sf_layout_code(&sf_shard_layout), sf_shard_layout.epoch_ms
	};
	SfDurableNumbers numbers;
	bool		is_new[SF_DURABLE_NUMBERS];
	bool		rewrite = false;
	XLogRecPtr	lsn;

	sf_clock_jump_check();
	memcpy(is_new, mended, sizeof(is_new));
	sf_durable_numbers_find(detach_mark);

	/* the mark last: a record precedes it */
	for (int i = SF_DURABLE_NUMBERS - 1; i >= 0; i--)
		mended[i] = sf_durable_number_mend(i, configured[i], floor_ms) ||
			is_new[i];
	(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		rewrite = rewrite || is_new[i];
		if (is_new[i])
			numbers.value[i] = configured[i];
	}
	if (rewrite)
	{
		(void) sf_durable_record_write(&numbers, false, &lsn);
		XLogFlush(lsn);
	}
	if (is_new[SF_DURABLE_MARK])
		sf_mark_write_up(published == 0 ? configured[SF_DURABLE_MARK] :
						 Max(Max(published, issued), floor_ms));
}

/*
 * Lower a durable mark that lies in the future to the present.  Set *mark_ms
 * to the new mark, and return the old one; or 0 if it is not farther ahead
 * than a mark may be.  The new mark is above all that this life has issued or
 * published, so this is refused while that lies in the future, too.
 * It is also above what an earlier life made with this clock.  SQLSTATE 55000
 */
int64
sf_mark_reset(int64 *mark_ms)
{
	int64		now_ms = sf_clock_wall_ms();
	int64		limit = now_ms + Max(sf_settings_lead_ms(), FARTHEST_MS);
	SfDatabase *slot;
	SfDurableMark number;
	XLogRecPtr	lsn;
	int64		issued;
	int64		found;

	sf_durable_numbers_find(detach_mark);
	slot = sf_db_slot_take();
	(void) sf_durable_mark_open(&number, SF_DURABLE_WAIT);
	(void) sf_db_slot_lock(slot, 0);	/* nobody publishes one meanwhile */
	found = sf_durable_mark_lock(&number, &lsn);
	issued = Max((int64) pg_atomic_read_u64(&slot->mark),
				 sf_shutdown_file_issued_below());
	*mark_ms = Max(now_ms + FARTHEST_MS, issued);
	if (issued <= limit && found > limit)
		XLogFlush(sf_durable_mark_store(&number, *mark_ms, 0));
	sf_durable_mark_unlock(&number);
	sf_db_slot_unlock(slot);
	sf_durable_mark_close(&number);
	if (issued > limit)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server can still make IDs of the future"),
				 errdetail("Its counters, or the mark that it has published, are at %s.",
						   sf_timefmt_show(issued)),
				 errhint("Stop all clients, restart this server, and before you start them again, call snowflake_reset_mark() once more. If that says the same, set another snowflake.node_id first.")));
	return found > limit ? found : 0;
}

/*
 * Advance this database to floor_ms: no ID is made below it any more.  If the
 * clock will not reach floor_ms soon, the counters are not raised to it,
 * because other databases share them: this database waits, and the others go
 * on.  The counters are raised to the old mark, which is near.  So a call that
 * has read the old mark and has not swapped its counter yet fails to swap.
 * Return the published mark; 0 if the database waits.  Throws SQLSTATE 58000
 * if the clock has jumped: what is near is not known.
 */
int64
sf_mark_advance(int64 floor_ms)
{
	SfDatabase *slot;
	SfDurableMark number;
	XLogRecPtr	lsn;
	int64		published;
	int64		found;
	int64		mark;
	bool		is_near;
	SfClockLook clock;

	/* an invalidation may have detached us since the caller's checks began */
	sf_mark_require();
	slot = sf_mark_attached;
	Assert(slot != &sf_no_database);
	(void) sf_durable_mark_open(&number, SF_DURABLE_WAIT);
	(void) sf_db_slot_lock(slot, 0);
	sf_clock_jump_look(&clock);
	sf_clock_jump_judge(&clock, false);
	if (clock.jumped)
	{
		sf_db_slot_unlock(slot);
		sf_durable_mark_close(&number);
		sf_clock_jump_refuse(&clock);
	}
	published = (int64) pg_atomic_read_u64(&slot->mark);
	found = sf_durable_mark_lock(&number, &lsn);

	/* the counters were not raised to a mark that setval() has put there */
	if (found != published)
		floor_ms = Max(floor_ms, found);
	mark = Max(floor_ms, published);
	is_near = floor_ms <= clock.now_ms + sf_max_clock_wait;
	sf_mark_raise_counters(is_near ? floor_ms : published);
	if (mark != found || !is_near)
		lsn = sf_durable_mark_store(&number, mark,
									is_near ? sf_shmem->life : 0);
	sf_durable_mark_unlock(&number);
	XLogFlush(lsn);

	/* a mark that is not near is loaded when the clock has come near */
	published = is_near ? mark : 0;
	pg_write_barrier();
	pg_atomic_write_u64(&slot->mark, published);
	sf_db_slot_unlock(slot);
	sf_durable_mark_close(&number);
	return published;
}
