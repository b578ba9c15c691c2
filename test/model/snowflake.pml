/*
 * The protocol that keeps IDs unique, as a model for spin: two databases of
 * one server, backends that make IDs in them, restarts, and a clock that shows
 * any time. test/model/README.md says how to read the model, and
 * test/model/run checks it.
 *
 * Each step has the name of the function in src that it models. An access to a
 * word that other processes access too is a step of its own. Anything between
 * two such steps belongs to one of them. No other process accesses what the
 * lock of a page or a slot protects, so all of that is one step.
 *
 * The observer watches one position, chosen at the start. It can be any, so
 * the result holds for all positions.
 *
 * Bounds:
 *
 *	BACKENDS, RESTARTS
 *	TICKS		the clock shows 1 to TICKS
 *	SEQUENCE	positions in a tick
 *	DRIFT, RESERVE, WAIT	the settings, in ticks
 *
 * In every run no ID is made twice in a database, and two databases share
 * none. Some runs check more:
 *
 *	PROMOTE		a restart may lose flushed WAL; no state of a database has rows
 *				with the same ID
 *	GOES_ON		at the end the clock is right, and each backend gets an ID
 *
 * With each of these a step is missing or too late, and spin must find an
 * error: LATE_RAISE (raises the counter after the publishing), RAISE_TO_LESS,
 * NO_MAX_ON_LOAD, NO_UNLOCK; SHUTDOWN_EARLY (writes the file while backends
 * go on). LITERALLY asks for more than what holds. Steps whose lack a mutant
 * of the code shows (test/mutants) have no such variant.
 *
 * Names that are no functions in src: XLogFlush is the server's, and
 * reconcile_number and reconcile_publish are the halves of reconcile().
 * The model's own are backend, cap_of, choose_database, crash, fall_behind,
 * insert, insert_row, mark_of, next_of, observe_clock, observe_issue,
 * observe_restart, postmaster, promote, recover, shut_down, stop_immediately
 * and write_out.
 */

#ifdef NO_UNLOCK
#define STAYS_LOCKED	true
#else
#define STAYS_LOCKED	false
#endif

#ifndef BACKENDS
#define BACKENDS	2
#endif
#ifndef RESTARTS
#define RESTARTS	2
#endif
#ifndef TICKS
#define TICKS		2
#endif
#ifndef SEQUENCE
#define SEQUENCE	1
#endif
#ifndef DRIFT
#define DRIFT		1
#endif
#ifndef RESERVE
#define RESERVE		2
#endif
#ifndef WAIT
#define WAIT		1
#endif

#define DATABASES	2
#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/* ---- shared memory: lost at a restart ---- */

byte counter;				/* the last position issued */
byte mark[DATABASES];		/* published; 0: not loaded */
bool locked[DATABASES];		/* is the slot locked? */
byte shutdown_ms;				/* the file at the start of this life */
byte shutdown_life;			/* 0: none */
byte restarts;				/* this life is restarts + 1 */

/* ---- the disk, and WAL on its way there ---- */

#define ROW	DATABASES		/* ROW + database: a row with the observed ID */

/* A durable number has a value, and beside it the stamp of a life. */
#define LIVES		(RESTARTS + 1)
#define VALUE(number)	((number) / (LIVES + 1))
#define STAMP(number)	((number) % (LIVES + 1))
#define STAMPED(value)	((value) * (LIVES + 1) + restarts + 1)

chan wal = [4] of { byte, byte };	/* unflushed: whose number, its value */
byte reg[DATABASES];		/* the durable numbers in the buffers */
byte disk[DATABASES];		/* ... and in the flushed WAL */

byte file_life;				/* the file stays: an administrator may keep it */
byte file_ms;

/* ---- the observer ---- */

#define IN_THIS_LIFE	1
#define IN_EARLIER_LIFE	2

byte observed;				/* a position */
byte issued[DATABASES];		/* 0: not yet */
bool set_back;				/* the clock, in this life: see observe_clock */
#ifdef LITERALLY
byte highest;				/* the highest time that the clock has shown */
byte highest_before;		/* ... in earlier lives */
#endif
#ifdef PROMOTE
bool row[DATABASES];		/* is there a row with the ID? */
bool disk_row[DATABASES];
bool fallen_behind;			/* the standby lags, and gets no more WAL */
byte standby[DATABASES];
bool standby_row[DATABASES];
bool lost;					/* flushed WAL */
#endif

/* ---- processes ---- */

byte down;					/* backends that a restart is about to end */
byte busy;					/* backends in a call */
bool right_at_last;			/* from now on the clock is right */
byte served;				/* the backends that got an ID since */

#define ME			(1 << me)
#define EVERYBODY	((1 << BACKENDS) - 1)

/* All positions; or ONLY one of them, to find an error. */
#ifdef GOES_ON
#define ONLY	0				/* none */
#endif
#ifdef ONLY
#define OBSERVED	ONLY .. ONLY
#else
#define OBSERVED	SEQUENCE .. (TICKS + DRIFT + 1) * SEQUENCE - 1
#endif

/* ---- the clock ---- */

/*
 * Two databases may share an ID only if, after a restart, the clock has shown
 * a time that is not later than the ID's own.
 */
inline observe_clock(now)
{
#ifdef LITERALLY
	/* a clock is set back if it shows less than before the restart */
	if
	:: now < highest_before -> set_back = true
	:: else
	fi;
	highest = MAX(highest, now)
#else
	if
	:: (issued[0] == IN_EARLIER_LIFE || issued[1] == IN_EARLIER_LIFE) &&
			now <= observed / SEQUENCE -> set_back = true
	:: else
	fi
#endif
}

/* Return any time. At the end the clock goes on, and is past all marks. */
inline sf_clock_wall_ms(now)
{
	if
	:: right_at_last -> now = TICKS + RESERVE + (served != 0)
	:: else -> select (now : 1 .. TICKS)
	fi;
	observe_clock(now)
}

/* ---- WAL ---- */

#ifdef PROMOTE
/* From now on the standby gets no more WAL. */
inline fall_behind()
{
	fallen_behind = true;
	standby[0] = disk[0];
	standby[1] = disk[1];
	standby_row[0] = disk_row[0];
	standby_row[1] = disk_row[1]
}
#endif

/* Write the next record to the disk. */
inline write_out()
{
	wal ? whose, value;
	if
	:: whose < DATABASES -> disk[whose] = value
#ifdef PROMOTE
	:: whose >= ROW -> disk_row[whose - ROW] = true
#endif
	fi;
	whose = 0;
	value = 0;
#ifdef PROMOTE
	if
	:: true
	:: !fallen_behind -> fall_behind()
	fi
#endif
}

/* Write the buffers out when they are full. */
inline insert(what, number)
{
	if
	:: full(wal) -> write_out()
	:: nfull(wal)
	fi;
	wal ! what, number
}

/* Flush up to the last change of this database's number. */
inline XLogFlush(database)
{
	atomic {
		do
		:: wal ?? [eval(database), _] -> write_out()
		:: else -> break
		od
	}
}

inline sf_durable_mark_store(database, number)
{
	reg[database] = STAMPED(number);
	if
	:: restarts < RESTARTS -> insert(database, reg[database])
	:: else					/* the disk is not read again */
	fi
}

/* ---- counters ---- */

/* The first tick that the call may not use. */
#define cap_of(mark)	MIN(now + DRIFT + 1, mark)

/* The position after the counter's, or the first of the clock's tick. */
#define next_of(position) \
	MAX((position) + 1, now * SEQUENCE)

inline observe_issue(position)
{
	printf("    backend %d: database %d: ID %d\n", me, d, position);
	if
	:: position == observed ->
#ifdef PROMOTE
		assert(!issued[d] || lost);
		has = true;
#else
		assert(!issued[d]);
#endif
		assert(!issued[1 - d] ||
			(issued[1 - d] == IN_EARLIER_LIFE && set_back));
		issued[d] = IN_THIS_LIFE
	:: else
	fi
#ifdef GOES_ON
	;
	if
	:: right_at_last -> served = served | ME
	:: else
	fi
#endif
}

/*
 * Read the counter and swap it, until there is an ID, which ends the call, or
 * until no position is left below the cap.
 */
inline sf_counter_take()
{
	atomic {
		sf_clock_wall_ms(now);	/* private, so it may be read here too */
		below = cap_of(below) * SEQUENCE;
		old = counter;
		if
		:: next_of(old) >= below -> now = 0; below = 0; old = 0
		:: else
		fi
	}
	do
	:: below == 0 -> break
	:: atomic {
			below != 0 && counter == old ->
			counter = next_of(old);
			observe_issue(counter);
			now = 0; below = 0; old = 0
		}
		goto done
	:: atomic {
			below != 0 && counter != old ->
			old = counter;
			if
			:: next_of(old) >= below -> now = 0; below = 0; old = 0
			:: else
			fi
		}
	od
}

/* The last position of the tick before this time. */
#define sf_layout_floor_position(ms) \
	((ms) == 0 -> 0 : (ms) * SEQUENCE - 1)

inline sf_counter_raise(position)
{
	old = counter;
	do
	:: atomic { old >= position -> old = 0 }
		break
	:: atomic {
			old < position && counter == old ->
			counter = position; old = 0
		}
		break
	:: atomic { old < position && counter != old -> old = counter }
	od
}

inline sf_mark_raise_counters(position)
{
#ifdef RAISE_TO_LESS
	/* a plain write, without the maximum */
	if
	:: position != 0 -> counter = position
	:: else
	fi
#else
	sf_counter_raise(position)
#endif
}

/* ---- the mark (mark.c) ---- */

/*
 * The time from which IDs of a database may begin when its mark is loaded: the
 * mark itself, or the shutdown file's time if the file names the life of the
 * stamp.
 */
#define sf_mark_floor(stamp, found) \
	(stamp != 0 && stamp == shutdown_life -> MIN(found, shutdown_ms) : found)

#ifdef NO_MAX_ON_LOAD
#define mark_of(d)	(extend -> now + RESERVE : VALUE(reg[d]))
#else
#define mark_of(d) \
	MAX(MAX(VALUE(reg[d]), mark[d]), \
		(extend -> now + RESERVE : 0))
#endif

/*
 * Make the durable mark and the published one equal. With "extend", also move
 * both ahead. The slot is locked.
 */
inline reconcile_number()
{
	sf_clock_wall_ms(now);
	found = VALUE(reg[d]);
	floor = (mark[d] == 0 -> sf_mark_floor(STAMP(reg[d]), found) : found);
	if
	:: found > mark[d] && floor > now + WAIT ->
		floor = 0;
		refused = true
	:: else ->
		to = mark_of(d);
		stores = (to != found || floor < found);
		if
		:: found > mark[d] || mark[d] == 0 ->
			floor = sf_layout_floor_position(floor)
		:: else ->
			floor = 0
		fi
	fi;
	found = 0;
	now = 0; enough = 0; extend = false
}

inline reconcile_publish()
{
#ifndef LATE_RAISE
	if
	:: floor != 0 -> sf_mark_raise_counters(floor)
	:: floor == 0
	fi;
#endif
	atomic {				/* no other process writes it meanwhile */
		if
		:: stores -> sf_durable_mark_store(d, to); stores = false
		:: else
		fi
	}
	XLogFlush(d);
	atomic {
		mark[d] = to;
		printf("    backend %d: database %d: publishes the mark %d\n", me, d, to);
#ifndef LATE_RAISE
		floor = 0;
#endif
		to = 0;
		locked[d] = false		/* sf_db_slot_unlock */
	}
#ifdef LATE_RAISE
	if
	:: floor != 0 -> sf_mark_raise_counters(floor); floor = 0
	:: floor == 0
	fi;
#endif
}

/*
 * Move the mark, unless "enough" was published meanwhile; 0: always move it.
 */
inline update()
{
	if
	:: atomic {				/* sf_db_slot_lock */
			!locked[d] && (enough == 0 || mark[d] < enough) ->
			locked[d] = true;
			reconcile_number()
		}
		if
		:: atomic {
				refused ->
				locked[d] = STAYS_LOCKED
			}
			goto done
		:: !refused ->
			reconcile_publish()
		fi
	:: atomic {
			enough > 0 && mark[d] >= enough ->
			enough = 0; extend = false
		}
	fi
}

/* Attach: at a session's first call, and when its sequences have changed. */
inline attach()
{
	atomic {
		found = VALUE(reg[d]);	/* sf_durable_numbers_read */
		busy = busy | ME
	}
	if
	:: atomic {
			mark[d] == 0 && found == 0 ->
			enough = 1; extend = true
		}
		goto move
	:: atomic {
			mark[d] != found ->
			found = 0
		}
		goto move
	:: atomic {
			mark[d] == found && found != 0 ->
			found = 0
		}
	fi
}

/* ---- a call (generator.c) ---- */

inline try_take()
{
	below = mark[d];
	sf_counter_take()
}

/*
 * Find out why there is no position. A call that must wait for the clock would
 * sleep and look again. Here it ends, and the next call looks.
 */
inline diagnose()
{
	atomic {				/* the counter first, then the clock */
		sf_clock_wall_ms(now);
		enough = MAX((counter + 1) / SEQUENCE, now) + 1;
		if
		:: enough > now + DRIFT + 1 -> enough = 0
		:: else -> extend = true
		fi;
		now = 0
	}
	if
	:: enough == 0 -> goto done
	:: atomic {
			enough > 0 && mark[d] >= enough ->
			enough = 0; extend = false
		}
		goto take
	:: enough > 0 && mark[d] < enough
	fi
}

#ifdef PROMOTE
/* A session that has the ID may write a row with it, or forget it. */
inline insert_row()
{
	atomic {
		has = false;
		if
		:: true
		:: true ->
			assert(!row[d]);
			row[d] = true;
			if
			:: restarts < RESTARTS -> insert(ROW + d, 0)
			:: else
			fi;
			do				/* a commit flushes */
			:: nempty(wal) -> write_out()
			:: true -> break
			od
		fi
	}
}
#endif

inline choose_database()
{
	if
	:: d = 0
	:: d = 1
	fi
}

proctype backend(byte me)
{
	byte d, now, below, old, found, enough, floor, to, whose, value;
	bool extend, refused, stores;
#ifdef PROMOTE
	bool has;				/* it has the observed ID, for a row */
#endif

start:
	{
		atomic {
			down == 0;
			choose_database()
		}
call:
		if
		:: attach()		/* if this session has not done so */
		:: atomic {
				/* sf_mark_extend_early, after the call before */
				mark[d] != 0 && !locked[d] ->
				enough = mark[d] + 1;
				extend = true;
				busy = busy | ME
			}
			goto move
		:: atomic {
				mark[d] != 0 ->
				busy = busy | ME
			}
		fi;
take:
		try_take();
		diagnose();
move:
		update();
		goto take;
done:
#ifdef PROMOTE
		if
		:: has -> insert_row()
		:: !has
		fi;
#endif
#ifdef GOES_ON
		if
		:: served & ME -> goto finished
		:: else
		fi;
#endif
		atomic {
			busy = busy & ~ME;
			refused = false;
			choose_database()
		}
		goto call
	}
	unless
	{
		atomic {
			down & ME ->
			d = 0; now = 0; below = 0; old = 0; found = 0; enough = 0;
			floor = 0; to = 0; whose = 0; value = 0;
			extend = false; refused = false; stores = false;
#ifdef PROMOTE
			has = false;
#endif
			down = down & ~ME
		}
		goto start
	}
#ifdef GOES_ON
finished:
	skip
#endif
}

/* ---- the end of a life, and the start of the next ---- */

/* Write the file when all backends have ended. The writing may fail. */
inline write_shutdown_file()
{
	if
	:: true
	:: counter != 0 ->
		file_life = restarts;	/* the number of the last life */
		file_ms = counter / SEQUENCE + 1
	fi
}

/* An administrator may have put the file back, or have removed it. */
inline sf_shutdown_file_at_start()
{
	if
	:: shutdown_life = 0; shutdown_ms = 0
	:: file_life != 0 -> shutdown_life = file_life; shutdown_ms = file_ms
	fi
}

inline sf_shmem_create()
{
	counter = 0;
	mark[0] = 0;
	mark[1] = 0;
	if
	:: restarts == RESTARTS ->	/* values that are not read again */
		disk[0] = 0;
		disk[1] = 0;
		file_life = 0;
		file_ms = 0
	:: else
	fi;
	locked[0] = false;
	locked[1] = false;
	busy = 0;
	down = EVERYBODY
}

inline observe_restart()
{
	issued[0] = (issued[0] -> IN_EARLIER_LIFE : 0);
	issued[1] = (issued[1] -> IN_EARLIER_LIFE : 0);
	set_back = false;
#ifdef LITERALLY
	highest_before = highest
#endif
}

/* The durable numbers are what the disk has, and no write is under way. */
inline recover()
{
	do
	:: nempty(wal) -> wal ? whose, value
	:: empty(wal) -> break
	od;
	whose = 0;
	value = 0;
	reg[0] = disk[0];
	reg[1] = disk[1];
#ifdef PROMOTE
	row[0] = disk_row[0];
	row[1] = disk_row[1]
#endif
}

/* All flushed WAL survives, and any part of the WAL after it. */
inline crash()
{
	do
	:: nempty(wal) -> write_out()
	:: true -> break
	od;
	recover();
	printf("crash: marks %d and %d are recovered\n", VALUE(reg[0]), VALUE(reg[1]));
	sf_shutdown_file_at_start()
}

/* The same, but the postmaster survives the others, and leaves a file. */
inline stop_immediately()
{
	write_shutdown_file();
	crash()
}

inline shut_down()
{
	do
	:: nempty(wal) -> write_out()
	:: empty(wal) -> break
	od;
	recover();
	write_shutdown_file();
	printf("clean restart with marks %d and %d\n", VALUE(reg[0]), VALUE(reg[1]));
	sf_shutdown_file_at_start()
}

#ifdef PROMOTE
/* Promote a standby that lags, with any shutdown file of the past. */
inline promote()
{
	lost = true;
	disk[0] = standby[0];
	disk[1] = standby[1];
	disk_row[0] = standby_row[0];
	disk_row[1] = standby_row[1];
	recover();
	printf("promoted with marks %d and %d\n", VALUE(reg[0]), VALUE(reg[1]));
	sf_shutdown_file_at_start()
}
#endif

active proctype postmaster()
{
	byte whose, value;

	atomic {
		select (observed : OBSERVED);
#ifdef PROMOTE
		if
		:: true
		:: fall_behind()
		fi;
#endif
		run backend(0);
#if BACKENDS == 2
		run backend(1)
#endif
	}
end:
	do
#ifdef SHUTDOWN_EARLY
	:: atomic {
			restarts < RESTARTS && counter != 0 ->
			file_life = restarts + 1;
			file_ms = counter / SEQUENCE + 1
		}
#endif
	:: atomic {
			restarts < RESTARTS ->
			restarts++;
			if				/* never blocks: a crash is always possible */
			:: crash()
			:: stop_immediately()
			:: busy == 0 -> shut_down()
#ifdef PROMOTE
			:: fallen_behind && !lost -> promote()
#endif
			fi;
			observe_restart();
			sf_shmem_create();
			down == 0
		}
#ifdef GOES_ON
	:: right_at_last = true; break
#endif
	od
}

#ifdef GOES_ON
ltl goes_on { [] (right_at_last -> <> (served == EVERYBODY)) }
#endif
