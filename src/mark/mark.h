/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The durable mark of this database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MARK_H
#define SF_MARK_H

#include "access/generic_xlog.h"
#include "access/xlogdefs.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "runtime/shmem.h"
#include "storage/buf.h"
#include "utils/relcache.h"

/*
 * The slot of a database in which IDs are made.  It belongs to that database
 * until the database is gone.
 */
typedef struct SfDatabase
{
	/* Written under SfShmem.lock, exclusive. */
	Oid			oid;			/* InvalidOid: the slot is free */
	uint32		attached;		/* how many times a backend has attached */

	/*
	 * Held by the one backend that changes the mark, until the mark's WAL is
	 * flushed.  Always acquired conditionally: a process that must wait
	 * sleeps on the condition variable, so that it can be cancelled.
	 */
	LWLock		lock;
	ConditionVariable changed;

	/*
	 * The published mark, in Unix ms.  It was flushed to disk, and all
	 * counters were raised to the mark found there. 0: not loaded yet.
	 * Written under the lock above; every call reads it without a lock.
	 */
	pg_atomic_uint64 mark;

	/* The mark for which a backend has begun the early extension. */
	pg_atomic_uint64 early;
} SfDatabase;

typedef union SfDatabaseSlot
{
	SfDatabase	database;
	char		pad[PG_CACHE_LINE_SIZE];
} SfDatabaseSlot;

extern SfDatabaseSlot *sf_databases;	/* sf_max_databases of them */

/*
 * The slot of this backend's database.  Before sf_mark_load(), and after a
 * change of the extension's sequences, an empty slot, whose mark is 0.
 */
extern SfDatabase *sf_mark_attached;
extern SfDatabase sf_no_database;

extern void sf_mark_load(void);
extern void sf_mark_extend(int64 need_ms);
extern void sf_mark_extend_early(void);
extern void sf_mark_initialize(void);
extern int64 sf_mark_advance(int64 floor_ms);
extern void sf_mark_mend(bool *mended, int64 floor_ms);
extern void sf_mark_write_up(int64 floor_ms);
extern int64 sf_mark_reset(int64 *mark_ms);

/* Load the mark, so that the counters are above all IDs of this database. */
static inline void
sf_mark_require(void)
{
	while (pg_atomic_read_u64(&sf_mark_attached->mark) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		sf_mark_load();
	}
}

/*
 * durable_number.c: 64-bit values that stay with the database wherever it is
 * copied.  Their users define their meaning.
 */

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

/* The remedy of a number that is missing, or cannot be read. */
#define SF_RECOVER_REMEDY \
	"Run on the primary, as a superuser: SELECT * FROM %s.snowflake_recover();"

extern bool sf_durable_numbers_exist(void);
extern void sf_durable_numbers_find(void (*on_change) (void));
extern void sf_durable_numbers_hold(void (*on_change) (void));
extern bool sf_durable_numbers_release(void);
extern bool sf_durable_numbers_read(SfDurableNumbers *numbers,
									SfDurableWait wait);
extern void sf_durable_record_read(SfDurableNumbers *numbers);
extern bool sf_durable_mark_open(SfDurableMark *mark, SfDurableWait wait);
extern int64 sf_durable_mark_lock(SfDurableMark *mark, XLogRecPtr *lsn);
extern XLogRecPtr sf_durable_mark_store(SfDurableMark *mark, int64 value,
										int64 stamp);
extern void sf_durable_mark_unlock(SfDurableMark *mark);
extern void sf_durable_mark_close(SfDurableMark *mark);
extern bool sf_durable_record_write(const SfDurableNumbers *numbers, bool fill,
									XLogRecPtr *lsn);
extern const char *sf_durable_number_gone(SfDurableNumberId id,
										  bool *is_there);
extern bool sf_durable_number_mend(SfDurableNumberId id, int64 value,
								   int64 floor_ms);

/* sequence_sync.c */
extern void sf_sequence_sync_install(void);

/* shutdown_file.c */
extern int64 sf_shutdown_file_issued_below(void);
extern void sf_shutdown_file_at_start(void);

/* db_slot.c */

extern Size sf_db_slots_size(void);
extern void sf_db_slots_create(void);
extern int64 sf_db_slots_highest_mark(void);
extern bool sf_db_slots_others_issue(void);
extern char *sf_db_slots_remedy(void);
extern SfDatabase *sf_db_slot_take(void);
extern SfDatabase *sf_db_slot_make_own(void);
extern SfDatabase *sf_db_slot_find(void);
extern int64 sf_db_slot_published_mark(void);
extern bool sf_db_slot_lock(SfDatabase *slot, uint64 need_ms);
extern void sf_db_slot_unlock(SfDatabase *slot);

/* clock_trust.c */

/* For a clock that is not synchronized; the argument may go on. */
#define SF_LET_ASK_KERNEL \
	"Let this server call adjtimex(), which some containers forbid%s."
#define SF_START_TIMEKEEPER \
	"Start chrony, ntpd or systemd-timesyncd on this machine, or on the host of this container%s."

/* How to lower a mark that is too far ahead. */
#define SF_RESET_MARK \
	"stop all clients, and run as a superuser, with the time that date -u prints on another machine: SELECT * FROM %s.snowflake_reset_mark(timestamp with time zone 'TIME');"

/* The first step, if the clock was set back: a restart clears the counters. */
#define SF_COUNTER_REMEDY \
	"If the clock is right now, and was wrong before, stop all clients, restart this server, and %s"

/* The remedy of a jump, and the first step if the clock is far past a mark. */
#define SF_CLOCK_JUMP_REMEDY \
	"If the clock is wrong, correct it: IDs resume by themselves. If the clock is right, run as a superuser: SELECT %s.snowflake_accept('clock'::pg_catalog.text);"
#define SF_CLOCK_FAR_REMEDY \
	"If the clock is wrong, correct it now: IDs made before the correction lie in the future, and after it calls are refused until that time comes. If the clock is right, and no ID was made for so long, run as a superuser: SELECT %s.snowflake_accept('clock'::pg_catalog.text);"

/* A reading of the wall clock. */
typedef struct SfClockLook
{
	int64		now_ms;			/* the wall clock, in Unix ms */
	int64		offset_ms;		/* its distance from the time since boot */
	int64		jump_ms;		/* the distance above the baseline */
	bool		jumped;			/* jump_ms is over the limit */
} SfClockLook;

extern void sf_clock_jump_look(SfClockLook *look);
extern void sf_clock_jump_judge(SfClockLook *look, bool believe);
extern void sf_clock_jump_refuse(const SfClockLook *look);
extern void sf_clock_jump_warn_far(const SfClockLook *look, int64 found_ms);
extern int64 sf_clock_jump_past_ms(void);
extern void sf_clock_jump_check(void);
extern bool sf_clock_jump_accept(void);
extern const char *sf_clock_jump_mark_remedy(void);
extern char *sf_clock_behind_remedy(int64 next_ms, const char *more);
extern char *sf_clock_wait_remedy(int64 next_ms);
extern bool sf_clock_sync_check(bool may_throw);

/* mark.c, for a server that takes over another one's numbers */
extern void sf_mark_raise_counters(int64 floor_ms);
extern int64 sf_mark_floor(const SfDurableMark *number, int64 found,
						   int64 published);

/* config_record.c */
extern bool sf_config_record_exists(const SfDurableNumbers *numbers);
extern bool sf_config_record_is_other(const SfDurableNumbers *numbers);
extern bool sf_config_record_differs(const SfDurableNumbers *numbers,
									 StringInfo detail);
extern const char *sf_config_record_remedy(const SfDurableNumbers *numbers);
extern bool sf_config_record_endangers(const SfDurableNumbers *numbers);
extern bool sf_config_record_verify(const SfDurableNumbers *numbers);
extern void sf_config_record_require(void);
extern void sf_config_record_fill(void);
extern void sf_config_record_replace(void);

#endif							/* SF_MARK_H */
