/*
 * The counters of several layouts, as a model for spin: one life of one
 * server, sessions in two databases, the configured layout in slot 0, and
 * another layout that calls name. test/model/README.md says how to read the
 * model, and test/model/run checks it.
 *
 * Each step has the name of the function in src that it models. Slots are
 * those of layout_slot.c. A raise and a swap are one step each, because only
 * the moment of the swap counts; snowflake.pml has their loops, the WAL, and
 * all that mark.c does. Here a session loads its mark once, and publishes a
 * later one.
 *
 * There is no restart in the model. A life begins with any times that the
 * databases load: marks, or the times of a shutdown file. All IDs of earlier
 * lives are below the time of their database, whatever they are. At any
 * moment the life may end, and then the same is true of its IDs: they are below
 * the mark, since a session takes no other ID, and below what the shutdown file
 * says, the latest of all counters. So what holds for one life holds for any
 * number.
 *
 * A session may stop at any step, for as long as it likes: so this covers a
 * backend that ends between two steps. The worker closes the counters at any
 * moment. Only the counters hold a session up: it has found its right to issue
 * before.
 *
 * The sessions are in one database, or in two. A session finds its slot before
 * or after the mark is loaded, and keeps it.
 *
 * The observer watches one position of one layout. If it lies below the time
 * that database 0 loads, an earlier life may have made it there. Errors are: an
 * ID that is made twice in this life; an ID in database 0 that is not above
 * all IDs of its layout from earlier lives; an ID at or above the time that the
 * closing returns; an ID after the closing.
 *
 * Bounds: TICKS (the clock shows 1 to TICKS), TICK (of the other layout; it is
 * 1 in the configured one), FLOORS (the latest time that a database loads),
 * ONLY (the one position that is observed, in the other layout). CLOSING: there
 * is a worker that closes the counters.
 *
 * With each of these two steps have changed places, as they may without the
 * barrier between them, and spin must find an error:
 *
 *	LATE_RAISED	the raise writes raised_ms last
 *	EARLY_LOOK	a session reads raised_ms before it takes a slot
 *	LATE_CLOSE	the closing closes raised_ms last
 *
 * Names that are no functions in src, but the model's own: floor_position,
 * next_of, observe_issue, postmaster, raise_time, session, tick_of and worker.
 */

#ifndef TICKS
#define TICKS	2
#endif
#ifndef TICK
#define TICK	1
#endif
#ifndef FLOORS
#define FLOORS	(TICKS + RESERVE)
#endif
#define RESERVE	1
#define CLOSED	128				/* SF_CLOSED */
#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/* ---- shared memory ---- */

byte used;					/* slots */
byte counter[2];			/* the last position issued; with CLOSED, closed */
byte raised_ms;				/* may be closed, too */
byte mark[2];				/* of each database, published; 0: not loaded */
bool loading[2];			/* SfDatabase.lock is held */

/* ---- the disk ---- */

byte floor_of[2];			/* the times that the databases load; 0: none */

/* ---- the observer ---- */

bool observed_other;		/* the layout */
byte observed;				/* a position */
bool made_earlier;			/* in an earlier life, in database 0 */
bool made;					/* in this life */
bool all_closed;

/* ---- counters; a layout has one position in each tick ---- */

#define sf_counter_position(word)	((word) & ~CLOSED)
#define tick_of(slot)	((slot) != 0 -> TICK : 1)
#define floor_position(slot, ms) \
	(MAX(((ms) + tick_of(slot) - 1) / tick_of(slot), 1) - 1)
#define sf_layout_end_of_position(slot, position) \
	((position) == 0 -> 0 : ((position) + 1) * tick_of(slot))
#define next_of(word)	MAX((word) + 1, now)

inline raise_slot(which, ms)
{
	counter[which] = (counter[which] & CLOSED) |
		MAX(sf_counter_position(counter[which]), floor_position(which, ms))
}

inline raise_time(ms)
{
	raised_ms = (raised_ms & CLOSED) | MAX(sf_counter_position(raised_ms), ms)
}

inline observe_issue()
{
	printf("    session %d: slot %d: ID %d\n", me, slot, counter[slot]);
	assert(!all_closed);
	if
	:: (slot != 0) == observed_other ->
		assert(db != 0 || !made_earlier || counter[slot] > observed);
		if
		:: counter[slot] == observed ->
			assert(!made);
			made = true
		:: else
		fi
	:: else
	fi
}

/* The clock is private, and shows any time. */
inline sf_counter_take()
{
	select (now : 1 .. TICKS);
	now = now / tick_of(slot);
	if
	:: next_of(counter[slot]) < MIN(now + 1, mark[db] / tick_of(slot)) ->
		counter[slot] = next_of(counter[slot]);
		observe_issue()
	:: else
	fi;
	now = 0
}

/* ---- slots ---- */

/* With the lock of the slots. */
inline take_layout_slot()
{
	slot = (used > 1);			/* find_slot() */
	if
	:: slot == 0 ->
		slot = used;
		used++;
		printf("    session %d: takes slot %d\n", me, slot)
	:: else
	fi
}

inline sf_layout_slot_of()
{
#ifdef EARLY_LOOK
	raised = raised_ms;
#endif
	slot = (used > 1);			/* find_slot() */
	if
	:: atomic { slot == 0 -> take_layout_slot() }
	:: slot != 0
	fi;
#ifndef EARLY_LOOK
	raised = raised_ms;
#endif
	raise_slot(slot, sf_counter_position(raised));
	atomic { counter[slot] = counter[slot] | (raised & CLOSED); raised = 0 }
}

inline sf_layout_slots_raise(ms)
{
#ifndef LATE_RAISED
	raise_time(ms);
#endif
	do
	:: atomic { i < used -> raise_slot(i, ms); i++ }
	:: atomic { i >= used -> i = 0; break }
	od
#ifdef LATE_RAISED
	;
	raise_time(ms)
#endif
}

inline sf_layout_slots_close()
{
#ifndef LATE_CLOSE
	raised_ms = raised_ms | CLOSED;
#endif
	do
	:: atomic {
			i < used ->
			end_ms = MAX(end_ms, sf_layout_end_of_position(i, sf_counter_position(counter[i])));
			counter[i] = counter[i] | CLOSED;
			i++
		}
	:: i >= used -> break
	od
#ifdef LATE_CLOSE
	;
	raised_ms = raised_ms | CLOSED
#endif
}

/* ---- processes ---- */

/* Load the mark, and move it ahead. */
inline update()
{
	sf_layout_slots_raise(floor_of[db]);
	atomic {
		select (now : 1 .. TICKS);
		mark[db] = MAX(floor_of[db], now + RESERVE);
		now = 0;
		loading[db] = false;
		printf("    session %d: publishes the mark %d\n", me, mark[db])
	}
}

proctype session(byte me, db)
{
	byte slot, kept, raised, now, i;

	do
	:: atomic { mark[db] == 0 && !loading[db] -> loading[db] = true };
		update()
	:: atomic {
			mark[db] != 0 ->
			if
			:: slot = kept			/* of an earlier call; at first 0 */
			:: slot = 0
			fi;
			sf_counter_take();		/* try_take() */
			slot = 0
		}
	:: atomic { kept == 0 -> skip };
		sf_layout_slot_of();
		atomic { kept = slot; slot = 0 }
	od
}

proctype worker()
{
	byte i, end_ms;

	sf_layout_slots_close();
	atomic {
		printf("    worker: closes all: no ID from %d on\n", end_ms);
		assert(!made ||
			sf_layout_end_of_position(observed_other, observed) <= end_ms);
		i = 0; end_ms = 0;
		all_closed = true
	}
}

active proctype postmaster()
{
	byte i;

	atomic {
#ifdef ONLY
		observed_other = 1;
		observed = ONLY;
#else
		select (i : 0 .. 1);
		observed_other = i;
		select (i : 1 .. TICKS);
		observed = i;
#endif
		select (i : 0 .. FLOORS);
		floor_of[0] = i;
		select (i : 0 .. FLOORS);
		floor_of[1] = i;
		i = 0;
		made_earlier = floor_of[0] >=
			sf_layout_end_of_position(observed_other, observed);
		printf("the marks %d and %d\n", floor_of[0], floor_of[1]);
		used = 1;				/* sf_layout_slots_begin() */
		run session(0, 0);
		select (i : 0 .. 1);
		run session(1, i);
		i = 0
#ifdef CLOSING
		;
		run worker()
#endif
	}
}
