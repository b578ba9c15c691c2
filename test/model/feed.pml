/*
 * One feed for two servers, as a model for spin: transactions that take an ID
 * and commit later, a publisher on each server, replication, and a reader with
 * one cursor. test/model/README.md says how to read the model, and
 * test/model/run checks it.
 *
 * Each step has the name of the function in src that it models. An access to a
 * word that other processes access too is a step of its own. On the other
 * server than STEPS, a call is one step, since nothing that one server does
 * within a call depends on the steps of the other.
 *
 * Each server has a counter of its own, and its clock says anything at any
 * time. WAL has a record for each commit of a row or of a published horizon.
 * Replication shows the commits of one server in the order of its WAL. A
 * snapshot is the list of the transactions that have ended. Pending ranges stay
 * for ever, since they count only if the snapshot does not see the end of their
 * transaction.
 *
 * The observer watches one transaction on each server, which makes one ID. Any
 * number of other transactions may run. They raise the counter, as the
 * publisher does before it reads it; they lower a horizon, which loses nothing;
 * and they may have a row at each ID that the reader reads.
 *
 * The reader's statement has one snapshot, so it is one step. It reads all rows
 * above the cursor and below the least horizon, and moves the cursor to the
 * last of them. So it reads no row twice, or out of order. Errors are: a row
 * that appears at or below the cursor; and a row that is never read, although
 * all transactions have ended and each server has published once more.
 *
 * Bounds: TICKS (the last position), WAL (commits on their way). What else may happen:
 *
 *	HERE		the reader is on server 0, and not on a third one
 *	PREPARE		transactions are prepared
 *	CRASH		server 0 crashes once; its mark is anywhere above its IDs
 *	JOIN		server 1 joins. When its row is at the reader, its counter is
 *				raised above all horizons there. Then its clients begin
 *	LEAVE		server 1 leaves. Its clients make no more IDs, and then it waits
 *				until no transaction with IDs runs
 *
 * With each of these a step is missing or wrong, and spin must find an error:
 *
 *	GREATEST	the reader stops at the greatest horizon
 *	NO_MARKS	low-water marks do not count
 *	NO_RANGES	pending ranges do not count (with PREPARE)
 *	MARKS_FIRST	a publisher reads the marks before the counter
 *	TWO_SUBSCRIPTIONS	horizons arrive by another subscription than rows
 *	NO_RAISE	a publisher does not raise the counter of an idle server
 *	PAST_MARK	a publisher raises the counter above the mark (with CRASH)
 *	JOIN_AT_ONCE	clients begin as soon as the row is at the reader
 *	JOIN_AT_HOME	the same, but before that, server 1 compares its horizon
 *				with that of server 0, as far as it has arrived at server 1
 *	LEAVE_AT_ONCE	server 1 leaves while transactions run
 *
 * Names that are no functions in src: ProcArrayEndTransaction is the server's.
 * The model's own are apply, arrive, commit, crash, home, joiner, leaver, make_id,
 * postmaster, publisher, reader, way_of_horizons and writer.
 */

#ifndef TICKS
#define TICKS	3
#endif
#ifndef STEPS
#define STEPS	0
#endif

#ifndef WAL
#define WAL		2				/* records on their way from each server */
#endif

#define SERVERS	2
#define HORIZON	0				/* in WAL; an ID is a row */
#define NONE	255
#define GONE	254				/* the horizon of a server that has left */
#define MIN(a, b)	((a) < (b) -> (a) : (b))
#define MAX(a, b)	((a) > (b) -> (a) : (b))

/* The time, then the server. */
#define ID(s, position)	((position) * SERVERS + (s))

#ifdef HERE
#define IS_HERE(s)	((s) == 0)
#else
#define IS_HERE(s)	false
#endif

/* ---- the servers; an element for each ---- */

byte counter[SERVERS];		/* the last position issued */
byte low[SERVERS];			/* the observed transaction's low-water mark */
byte range[SERVERS];		/* ... and pending range */
byte id[SERVERS];			/* ... and ID */
bool committed[SERVERS];	/* it is in WAL */
bool ended[SERVERS];		/* snapshots see its end */
bool over[SERVERS];			/* nothing of it follows */
bool calling[SERVERS];		/* a client makes an ID */
bool stopped[SERVERS];		/* clients may make none */
byte published[SERVERS];

chan wal[SERVERS] = [WAL] of { byte, byte };	/* not yet at the reader */
#ifdef TWO_SUBSCRIPTIONS
chan horizons[SERVERS] = [WAL] of { byte, byte };
#define way_of_horizons	horizons
#else
#define way_of_horizons	wal
#endif

byte mark = TICKS + 1;		/* of server 0: above all its IDs */
#ifdef CRASH
bool down[SERVERS];			/* a crash ends these processes */
bool publisher_down;
#endif
#ifdef JOIN_AT_HOME
byte at_home;				/* server 0's horizon, on server 1 */
#endif

/* ---- the reader's server ---- */

byte row[SERVERS];			/* snowflake_feed */
bool visible[SERVERS];
bool got[SERVERS];
bool changed;				/* since the reader looked */
byte cursor;

inline arrive(what, value)
{
	if
	:: what == HORIZON ->
		row[s] = value;
		printf("    reader: the horizon of server %d is %d\n", s, value)
	:: else ->
		printf("    reader: the row of ID %d appears, the cursor is %d\n", what, cursor);
		assert(what > cursor);
		visible[s] = true
	fi;
	changed = true
}

/* ---- transactions ---- */

/* The clock is private, and shows any time. */
inline sf_counter_take()
{
	select (position : 1 .. TICKS);
	if
	:: position > counter[s] && (s != 0 || position < mark) ->
		counter[s] = position;
		id[s] = ID(s, position);
		printf("    server %d: makes the ID %d\n", s, id[s])
	:: else				/* the call fails */
	fi;
	position = 0;
	calling[s] = false
}

inline make_id()
{
	seen = counter[s];
	atomic { low[s] = seen; seen = 0 }		/* sf_pending_enter_node() */
	atomic { sf_counter_take() }
}

/* From now on other sessions see the end. */
inline ProcArrayEndTransaction()
{
	atomic {
		ended[s] = true;
		if
		:: IS_HERE(s) -> arrive(id[s], 0)
		:: else
		fi
	}
}

inline commit()
{
	atomic {
		IS_HERE(s) || nfull(wal[s]) ->
		committed[s] = true;
		printf("    server %d: commits the row of ID %d\n", s, id[s]);
		if
		:: IS_HERE(s)
		:: else -> wal[s] ! id[s], 0
		fi
	}
	ProcArrayEndTransaction()
}

inline end_pending()
{
	range[s] = low[s];		/* leave_range() */
	low[s] = NONE
}

proctype writer(byte s)
{
	byte seen, position;

	if
	:: atomic { !stopped[s] -> calling[s] = true }
	:: stopped[s] && published[s] == GONE -> goto done
	fi;
	{
		if
		:: s == STEPS -> make_id()
		:: atomic { s != STEPS -> make_id() }
		fi;
		if
		:: s == STEPS && id[s] != 0 -> commit(); end_pending()
		:: atomic { s != STEPS && id[s] != 0 -> commit(); end_pending() }
#ifdef PREPARE
		:: id[s] != 0 -> end_pending(); commit()	/* COMMIT PREPARED */
#endif
		:: low[s] = NONE	/* an error: it leaves nothing */
		fi
	}
#ifdef CRASH
	unless
	{
		atomic { down[s] -> seen = 0; position = 0 }
	}
#endif
	;
done:
	over[s] = true
}

/* ---- a publisher ---- */

/* As if an ID were made, and thrown away. */
inline sf_generator_pass_time()
{
#ifdef NO_RAISE
	skip
#else
	if
	:: !last -> select (position : 1 .. TICKS)
	:: last ->				/* the clock goes on, and the mark too */
		position = TICKS;
		mark = MAX(mark, TICKS + 1)
	fi;
#ifndef PAST_MARK
	position = (s == 0 -> MIN(position, mark - 1) : position);
#endif
	counter[s] = MAX(counter[s], position);
	position = 0
#endif
}

/* First the low-water mark, then the pending range. */
inline lower_by_writer()
{
#ifndef NO_MARKS
	position = MIN(position, low[s]);
#endif
#ifndef NO_RANGES
	if
	:: saw_end
	:: !saw_end -> position = MIN(position, range[s])
	fi
#endif
}

inline compute_bound()
{
#ifdef MARKS_FIRST
	position = NONE;
	lower_by_writer();
	position = MIN(position, counter[s])
#else
	position = counter[s];
	lower_by_writer()
#endif
}

#ifdef JOIN_AT_HOME
#define MAY_JOIN	(s == 0 || published[s] != 0 || ID(s, position + 1) > at_home)
#else
#define MAY_JOIN	true
#endif

/* Write and commit the row, unless it has left or is there already. */
inline snowflake_publish_horizon()
{
	atomic {
		saw_end = ended[s];		/* the snapshot */
		last = over[0] && over[1];
		sf_generator_pass_time()
	}
	compute_bound();
	atomic {
		if
		:: ID(s, position + 1) > published[s] && MAY_JOIN &&
			(IS_HERE(s) || nfull(way_of_horizons[s])) ->
			published[s] = ID(s, position + 1);
			printf("    server %d: publishes the horizon %d\n", s, published[s]);
			if
			:: IS_HERE(s) -> arrive(HORIZON, published[s])
			:: else -> way_of_horizons[s] ! HORIZON, published[s]
			fi
		:: ID(s, position + 1) <= published[s] || !MAY_JOIN
		fi;
		saw_end = false; position = 0
	}
}

proctype publisher(byte s)
{
	byte position;
	bool saw_end, last;

#ifdef CRASH
start:
#endif
	{
		do
		:: last -> break
		:: !last && s == STEPS -> snowflake_publish_horizon()
		:: atomic { !last && s != STEPS -> snowflake_publish_horizon() }
		od
	}
#ifdef CRASH
	unless
	{
		atomic {
			s == 0 && publisher_down ->
			publisher_down = false;
			saw_end = false; position = 0; last = false
		}
		goto start
	}
#endif
}

/* ---- replication, and the reader ---- */

proctype apply(byte s)
{
	byte what, value;

end:
	do
	:: atomic { wal[s] ? what, value -> arrive(what, value); what = 0; value = 0 }
#ifdef TWO_SUBSCRIPTIONS
	:: atomic { horizons[s] ? what, value -> arrive(what, value); what = 0; value = 0 }
#endif
	od
}

/* The least horizon of the servers that have not left. */
inline snowflake_feed_horizon()
{
#ifdef GREATEST
	horizon = MAX(row[0], row[1])
#else
	horizon = MIN(row[0], row[1])
#endif
}

#define WAITS(s)	(committed[s] && !got[s])

proctype reader()
{
	byte horizon, s;

	do
	:: atomic {
			changed ->
			changed = false;
			snowflake_feed_horizon();
			do
			:: s == SERVERS -> break
			:: s < SERVERS ->
				got[s] = got[s] || (visible[s] && id[s] < horizon);
				s++
			od;
			if
			:: horizon > cursor + 1 ->
				cursor = horizon - 1;
				printf("    reader: reads up to the ID %d\n", cursor)
			:: else
			fi;
			horizon = 0; s = 0
		}
	:: !changed && over[0] && over[1] && !WAITS(0) && !WAITS(1) -> break
	od
}

/* ---- what administrators do ---- */

/* Never make an ID at or below the highest horizon that the reader may see. */
inline snowflake_advance()
{
	counter[1] = MAX(counter[1], at_reader / SERVERS)
}

proctype joiner()
{
	byte at_reader;

	atomic { row[1] != GONE -> at_reader = MAX(row[0], row[1]) }
	atomic {
#if !defined(JOIN_AT_ONCE) && !defined(JOIN_AT_HOME)
		snowflake_advance();
#endif
		at_reader = 0;
		stopped[1] = false
	}
}

#ifdef JOIN_AT_HOME
proctype home()
{
end:
	do
	:: atomic { at_home != published[0] -> at_home = published[0] }
	od
}
#endif

/* Wait for a running or prepared transaction. */
inline snowflake_leave_feed()
{
#ifndef LEAVE_AT_ONCE
	low[1] == NONE;
	range[1] == NONE || ended[1];
#endif
	atomic {
		nfull(wal[1]) ->
		published[1] = GONE;
		printf("    server 1: leaves, which the horizon tells\n");
		wal[1] ! HORIZON, GONE
	}
}

proctype leaver()
{
	atomic { !calling[1] -> stopped[1] = true }
	snowflake_leave_feed()
}

#ifdef CRASH
/* After it, the counter begins at the mark. */
proctype crash()
{
	atomic {
		printf("    server 0: crashes, its mark is %d\n", mark);
		down[0] = calling[0] || low[0] != NONE || range[0] != NONE;
		publisher_down = true;
		calling[0] = false;
		low[0] = NONE;
		range[0] = NONE;
		ended[0] = committed[0];
		counter[0] = mark - 1;
		mark = TICKS + 2
	}
}
#endif

active proctype postmaster()
{
	byte i;

	atomic {
		do
		:: i < SERVERS ->
			low[i] = NONE;
			range[i] = NONE;
			run writer(i);
			run publisher(i);
			run apply(i);
			i++
		:: else -> break
		od;
		run reader();
		i = 0
#ifdef JOIN
		;
		row[1] = GONE;
		stopped[1] = true;
		run joiner()
#endif
#ifdef JOIN_AT_HOME
		;
		run home()
#endif
#ifdef LEAVE
		;
		run leaver()
#endif
#ifdef CRASH
		;
		select (i : 1 .. TICKS);
		mark = i;
		i = 0;
		run crash()
#endif
	}
}
