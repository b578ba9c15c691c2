/*
 * The lease of a node id, as a model for spin. Servers with clocks of their
 * own claim a slot of one registry, extend it, lose it and give it back. The
 * network loses and delays messages. Servers crash, the registry loses its
 * data, and a copy of a server runs beside it. test/model/README.md says how
 * to read the model, and test/model/run checks it.
 *
 * Each step has the name of the function in src that it models. The worker is
 * lease.c and slot_choice.c; right.c publishes; the session is
 * generator.c. Whatever another process can see, or can change, is a step of
 * its own. One exception: a reading of the registry and the decision
 * after it are one step. Anything between them would only delay the decision,
 * and each step can be delayed anyway.
 *
 * The observer watches one timestamp of node 0. The timestamp can be any, so
 * the result holds for all of them. Clocks show any time at any moment. Times
 * are only compared, and the earlier or the later one is taken. So one bit is
 * enough for each time: is it past the observed timestamp? Clocks need no
 * bound. A session makes the observed ID if it may: another ID would only
 * raise the counter.
 *
 * A process that makes no step is a frozen one.
 *
 * The model has no presence: any server may claim a slot that another one
 * holds. The protocol must be right without that protection.
 *
 * The version of a record is the write_id of the write that made it. If a
 * registry is wiped, its versions may come again. Generations protect from
 * that, and they are in the model.
 *
 * Bounds:
 *
 *	SERVERS, SLOTS
 *	WRITES		the number of all writes
 *	LATE		writes under way at one time, for which no server waits any
 *				more
 *	RESTARTS	of servers, or of workers alone
 *	LOSSES		of the registry's data
 *	FAILOVERS	how often a primary waits in vain for its synchronous standby:
 *				a reading shows the write, no server gets an acknowledgement,
 *				and the failover may forget it
 *	BACK		how often the registry goes back to an older state, perhaps of
 *				an earlier generation, and is then recovered. Each server has
 *				read something younger before, or was acknowledged it
 *	CLONE		there is a copy of the first server, with all its memory, at
 *				any time
 *	FROZEN		a worker may take itself for frozen, at any time (handle_interruption())
 *	HALTED		... and so do both the copy and the original, before any other
 *				step
 *
 * The model checks that no ID is made twice. There is an exception below the
 * highest until that a server had requested when it was copied. There an ID
 * may be made by one of the two and by another server: by the other of the two
 * (STRICT), or by a server that claims the slot after one of the two gave it
 * back (not with NO_RELEASE). With HALTED there is no exception.
 *
 * With each of these, spin must find an error:
 *
 *	TTL			a slot is held until a deadline that its holder measures
 *	REPORT		the record says what was issued, not what is reserved
 *	NO_COMPARE, OWNER_ONLY	writes without their condition, or with a part of
 *				it
 *	NO_GENERATION	a write reaches a registry that was wiped meanwhile
 *	NO_WRITE_ID	a record with our name counts as ours
 *	NO_FENCE	a record that another server has written counts as ours
 *	START_BELOW	a claim begins at the claimer's clock
 *	EARLY		a right is published when it is requested
 *	NO_LEAST	an extension may end before the reservation
 *	NO_FLOOR	a wiped registry begins without a floor
 *	NO_MEMORY	servers do not remember how young the registry was
 *	NO_RAISE	the counter is not raised to the start, or too late
 *	NO_CLOSE	the counter goes on while the slot is given back
 *	NO_HALT		a frozen server goes on after a reading
 *	TWO_WORDS	node and until are read one after the other
 *	BELIEVE		a claim of unknown outcome is published when a reading shows it
 *
 * Names that are no functions in src, but the model's own: all_memory, apply,
 * condition_holds, confirm_held, copy_record, forget_if_ended, forget_write,
 * fork, idle, is_prepared, is_published, leave_in_flight, learn, may_share,
 * network, observe_issue, read_word, right_until, server, shows_younger, waits,
 * wait_for_recovery and all_know.
 */

#ifndef SERVERS
#define SERVERS		2
#endif
#ifndef SLOTS
#define SLOTS		1
#endif
#ifndef WRITES
#define WRITES		4
#endif
#ifndef LATE
#define LATE		1
#endif
#ifndef RESTARTS
#define RESTARTS	1
#endif
#ifndef LOSSES
#define LOSSES		0
#endif
#ifndef FAILOVERS
#define FAILOVERS	0
#endif
#ifndef BACK
#define BACK		0
#endif

#ifdef NO_FENCE
#define ADOPTS_ANY	true
#else
#define ADOPTS_ANY	false
#endif

#define MAX(a, b)	((a) || (b))	/* of times */
#define MIN(a, b)	((a) && (b))
#define END			1			/* of the layout */

#if defined(OWNER_ONLY) || defined(NO_WRITE_ID)
#define NAMES					/* the record's names matter only then */
#endif

/* ---- the registry ---- */

typedef Record {
	byte version;				/* 0: never written */
	bool limit;					/* the until; "until" is a word of spin's */
	bool released;
	byte owner
};

Record record[SLOTS];
byte registry_generation = 1;
bool registry_floor;

byte writes;					/* the last write_id */
byte losses;
byte restarts;
bool highest;					/* the highest until that ever was */

#if FAILOVERS > 0
bool waits;						/* for the standby, which has this state */
Record standby[SLOTS];
byte failovers;

#define copy_record(to, from) \
	to.version = from.version; \
	to.limit = from.limit; \
	to.released = from.released; \
	to.owner = from.owner
#else
#define waits	false
#endif

#if BACK > 0
Record saved[SLOTS];			/* an older state */
byte saved_generation;			/* 0: there is none */
bool has_grown;					/* the registry has changed since */
bool knows[SERVERS];			/* has this server seen the change? */
bool is_back;					/* to the saved state */

bool tells_younger[SERVERS];	/* by a write that was made */
byte backs;
byte generations = 1;

#if SERVERS == 1
#define all_know	knows[0]
#else
#define all_know	(knows[0] && knows[1])
#endif
#endif

/* SfAskKind of writes */
#define NOTHING		0
#define CLAIM		1
#define EXTEND		2
#define RELEASE		3

/*
 * Writes that no server waits for: write_id, and the server's view of the
 * record.
 */
chan late = [LATE] of { byte, byte, byte, byte, byte, byte, byte };

#if defined(NO_COMPARE)
#define condition_holds	true
#elif defined(OWNER_ONLY)
#define condition_holds \
	(registry_generation == generation && \
	(ask == CLAIM -> record[node].version == version : \
		record[node].owner == owner))
#elif defined(NO_GENERATION)
#define condition_holds	(record[node].version == version)
#elif defined(TTL)
bool present;					/* a server is present */
byte holding;					/* how many servers believe to be */
#define condition_holds \
	(record[node].version == version && (ask != CLAIM || !present))
#else
#define condition_holds \
	(registry_generation == generation && record[node].version == version)
#endif

/* Let the registry carry out a write: all of it or nothing. */
inline apply(id)
{
	if
	:: condition_holds ->
		record[node].version = id;
		record[node].limit = upto;
		record[node].released = (ask == RELEASE);
#ifdef NAMES
		record[node].owner = owner;
#endif
#if LOSSES > 0 || BACK > 0
		highest = MAX(highest, upto);
#endif
#if BACK > 0
		has_grown = !is_back;
#endif
#ifdef TTL
		present = (ask != RELEASE);
#endif
		printf("    registry: write %d of node %d: until %d\n", id, node, upto);
		done = !waits
	:: else
	fi
}

/* ---- the observer ---- */

#define BY_ONE		1
#define BY_FAMILY	2			/* by a copied server, or by its copy */

byte issued;					/* who has issued it; 0: no server yet */
#ifdef CLONE
bool is_cloned;
#endif
bool shared_until;				/* that of clone and original */

#if defined(HALTED)
#define may_share	false
#elif defined(STRICT)
#define may_share	(shared_until && issued == BY_FAMILY && copied)
#else
#define may_share	(shared_until && (issued == BY_FAMILY || copied))
#endif

inline observe_issue()
{
	printf("    server %d: makes the ID\n", me);
	assert(!issued || may_share);
	issued = (copied -> BY_FAMILY : BY_ONE)
}

/* ---- a lease (lease.c) ---- */

#define CLOSED		1			/* all positions are above any cap */

/* SfLeaseState */
#define SEARCHING	0			/* or claiming, if that is the request */
#define HALT		1			/* SF_LEASE_HALTED; -DHALTED is a variant */
#define HELD		2
#define RELEASING	3
#define ENDED		4

#define holds_slot	(state == HALT || state == HELD)

/* Nothing needs the memory of an ended lease. */
inline forget_if_ended()
{
	if
	:: state == ENDED ->
		generation = 0; node = 0; version = 0; known = 0; limit = 0; start = 0;
		pending = 0; owner = 0; last_issued = 0;
		unsure = false; had = false
	:: else
	fi
}

/* The end of the right: only what was acknowledged. */
#if defined(TTL) || defined(REPORT)
#define right_until	END
#elif defined(EARLY)
#define right_until	(ask == EXTEND -> upto : limit)
#else
#define right_until	limit
#endif

/* The end that a write may reserve: not below the present one. */
inline reserve()
{
#if defined(REPORT)
	upto = MAX(known, counter)
#elif defined(NO_LEAST)
	select (upto : 0 .. END)
#else
	select (upto : known .. END)
#endif
}

/* The number of our write that made the record. */
#ifdef NO_WRITE_ID
#define sf_client_find_pending	(pending != 0 && record[node].owner == owner)
#else
#define sf_client_find_pending	(pending & (1 << record[node].version))
#endif

inline adopt(id, to)
{
	pending = 0;
	version = id;
	known = to
}

inline hold_slot()
{
	state = HALT
#ifdef TTL
	;
	holding++
#endif
}

inline confirm()
{
	limit = known;
	state = HELD;
	had = true;
	printf("    server %d: has the lease of node %d from %d until %d\n", me,
		node, start, right_until)
}

inline fence()
{
	printf("    server %d: lost the lease of node %d\n", me, node);
	state = (state == RELEASING -> ENDED : SEARCHING);
	unsure = false;
	node = 0; version = 0; known = 0; limit = 0; start = 0; pending = 0;
	owner = 0;
	forget_if_ended()
}

/* ---- the registry's age (registry_age.c) ---- */

/*
 * A registry that went back shows less than each server knows, and this does
 * not change: the model leaves out that it is written more often than it had
 * forgotten.
 */
#if BACK > 0 && !defined(NO_MEMORY)
#define sf_age_take_reading		(!is_back || !knows[me])
#else
#define sf_age_take_reading		true
#endif

/* A server that has seen the change remembers it, also after a restart. */
inline learn(younger)
{
#if BACK > 0
	knows[me] = knows[me] || (younger)
#else
	skip
#endif
}

#if BACK > 0
#define shows_younger	(has_grown && !is_back)
#else
#define shows_younger	false
#endif

inline forget_write()
{
#if BACK > 0
	tells_younger[me] = false
#else
	skip
#endif
}

/* The registry has lost data: a held lease lasts, and nothing is written. */
inline wait_for_recovery()
{
	printf("    server %d: finds that the registry has lost data, lease: %d\n", me, state);
	unsure = holds_slot;
	if
	:: state == RELEASING -> state = ENDED; forget_if_ended()
	:: else
	fi
}

/* ---- a lease: requests (lease.c) ---- */

inline ask_write(kind)
{
	ask = kind;
	writes++;
	write_id = writes;
	pending = pending | (1 << write_id);
#ifdef CLONE
	asked_until = MAX(asked_until, upto);
#endif
	printf("    server %d: asks for write %d of node %d\n", me, write_id, node)
}

inline ask_claim()
{
	known = MAX(record[node].limit, start);
	reserve();
	known = 0;
	ask_write(CLAIM)
}

inline ask_extension()
{
	reserve();
	ask_write(EXTEND)
}

inline ask_release()
{
	upto = MIN(MAX(last_issued, start), known);
	ask_write(RELEASE)
}

/* The request in flight is lost if it has not arrived, or arrives later. */
inline leave_in_flight()
{
	if
	:: ask != NOTHING && !done && nfull(late) ->
		late !! write_id, ask, generation, node, version, owner, upto
	:: true
	fi
}

/* Give up the request. */
inline abandon()
{
	if
	:: ask > CLAIM -> unsure = true
	:: else
	fi;
	ask = NOTHING; write_id = 0; upto = 0; done = false;
	forget_write()
}

inline confirm_held()
{
	unsure = false;
#ifdef NO_HALT
	state = (state == HALT -> HELD : state);
#endif
	if
	:: record[node].released -> state = ENDED; forget_if_ended()
	:: else
	fi
}

/*
 * A right may be used up after a recovery, unless it goes beyond the floor. Until
 * then the server only reads.
 */
#define finish_right	(state == HELD && registry_generation != generation && \
	(registry_floor || !right_until))

/* Check the slot that we hold in a reading. */
inline check_held()
{
	if
	:: finish_right ->
		unsure = true
	:: registry_generation != generation || record[node].version == 0 ->
		fence()
	:: else ->
		if
#ifndef NO_FENCE
		:: !sf_client_find_pending && record[node].version != version ->
			fence()
#endif
		:: sf_client_find_pending || ADOPTS_ANY ->
			adopt(record[node].version, record[node].limit);
#ifdef BELIEVE
			limit = known;
#endif
			confirm_held()
		:: !sf_client_find_pending && record[node].version == version ->
			confirm_held()
		fi
	fi
}

/* The start of a claim (slot_choice.c). */
#if defined(TTL) || defined(START_BELOW)
#define find_start	0
#else
#define find_start	MAX(record[node].limit, registry_floor)
#endif

inline sf_slot_choose()
{
#if SLOTS > 1
	if
	:: pending == 0 -> select (node : 0 .. SLOTS - 1)
	:: else						/* of unknown outcome: no other slot */
	fi;
#endif
	version = record[node].version;
	start = find_start
}

inline search()
{
	if
	:: registry_generation != generation ||
		(!sf_client_find_pending && record[node].version != version) ->
		pending = 0
	:: else
	fi;
	if
	:: sf_client_find_pending ->
		adopt(record[node].version, record[node].limit);
		hold_slot()
#ifdef BELIEVE
		;
		confirm()
#endif
	:: else ->
		generation = registry_generation;
		sf_slot_choose();
		if
		:: writes < WRITES ->
#ifdef NAMES
			owner = (pending == 0 -> writes + 1 : owner);
#endif
			ask_claim()
		:: else
		fi
	fi
}

inline write_done()
{
	adopt(write_id, upto);
	if
	:: ask == CLAIM -> hold_slot(); confirm()
	:: ask == EXTEND -> confirm()
	:: ask == RELEASE -> state = ENDED
	fi;
	ask = NOTHING; write_id = 0; upto = 0; done = false;
	forget_if_ended()
}

/* The process notices that it was frozen. */
inline handle_interruption()
{
	leave_in_flight();
	abandon();
	if
	:: holds_slot -> state = HALT; unsure = true
	:: else
	fi
}

/* ---- what is published (right.c) ---- */

#define is_published \
	(state == HELD -> word == right_until && word_node == node : !had || word == 0)

#ifdef NO_RAISE
#define is_prepared	true
#else
#define is_prepared	(counter || !start)
#endif

/*
 * A session reads the word at once, and sleeps for as long as the word gives
 * it a right. This is the worst that a session can do.
 */
inline read_word()
{
#ifndef TWO_WORDS
	if
	:: word && word_node == 0 && !counter -> seen = true
	:: else
	fi
#else
	skip
#endif
}

/* From now on no session may issue, not even one that read the word before. */
inline close_right()
{
	word = 0; word_node = 0;
	last_issued = counter;
#ifndef NO_CLOSE
	counter = CLOSED;
	seen = false
#endif
}

inline sf_lease_release()
{
	leave_in_flight();
	abandon();
	state = (holds_slot -> RELEASING : ENDED);
	printf("    server %d: gives the lease back, after IDs: %d\n", me, last_issued);
	forget_if_ended()
}

/* ---- a server: its worker, and a session ---- */

#define idle	(ask == NOTHING && is_published)

#ifdef CLONE
chan memory = [0] of { byte, byte, byte, byte, byte, byte, byte, byte, byte,
	byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte };
#define all_memory	state, generation, node, version, known, limit, start, \
	pending, owner, unsure, ask, write_id, upto, done, had, word, \
	word_node, counter, seen, last_issued, asked_until
#endif

inline fork()
{
#ifdef HALTED
	handle_interruption();
	word = 0; word_node = 0; seen = false;
#endif
	copied = true;
	shared_until = asked_until;
	printf("    server %d: is copied\n", me)
}

proctype server(byte me)
{
	/* SfLease: its view of the record, the right, and the request */
	byte state, generation, node, version, pending, owner;
	bool known, limit, start, unsure;
	byte ask, write_id;
	bool done, upto, last_issued;

	/* shared memory, and whether this worker has written it */
	bool had, word, counter;
	byte word_node;

	/* a session: may it make the observed ID, by the word that it read? */
	bool seen;
#ifdef TWO_WORDS
	byte node_read;
#endif

	/* for the observer */
	bool asked_until, copied;

#ifdef CLONE
	if
	:: me == SERVERS ->
end_copy:
		atomic { memory ? all_memory; copied = true }
	:: me < SERVERS
	fi;
#endif
end:
	do
	/* sf_lease_step, sf_lease_answer */
	:: atomic {
			idle && state == SEARCHING && sf_age_take_reading ->
			learn(shows_younger);
			search()
		}
	:: atomic {
			idle && (holds_slot || state == RELEASING) && sf_age_take_reading ->
			learn(shows_younger);
			check_held()
		}
#if BACK > 0
	:: atomic {
			idle && (holds_slot || state == RELEASING) && !sf_age_take_reading ->
			wait_for_recovery()
		}
#endif
	:: atomic {
			idle && holds_slot && !unsure && writes < WRITES ->
			ask_extension()
		}
	:: atomic {
			idle && state == RELEASING && !unsure && writes < WRITES ->
			ask_release()
		}
	:: atomic {					/* it arrives; a conflict is answered */
			ask != NOTHING && !done ->
			apply(write_id);
			if
			:: !done -> abandon()
			:: else ->
#if BACK > 0
				tells_younger[me] = shows_younger
#else
				skip
#endif
			fi
		}
	:: atomic {
			done && is_published ->
#if BACK > 0
			learn(tells_younger[me]);
#endif
			forget_write();
			write_done()
		}
	:: atomic {					/* refused: it is never made */
			ask != NOTHING && !done && is_published ->
			pending = pending & ~(1 << write_id);
			abandon()
		}
	:: atomic {					/* no answer in time, or a useless one */
			ask != NOTHING && is_published ->
			leave_in_flight();
			abandon()
		}
#ifdef FROZEN
	:: atomic {
			is_published && (state == HELD || ask != NOTHING) ->
			handle_interruption()
		}
#endif

	/* publish_right, withdraw_right */
	:: atomic {					/* prepare_counters() */
			state == HELD && !is_published && !counter && start ->
			counter = true;
			seen = false
		}
	:: atomic {
			state == HELD && !is_published && is_prepared ->
			word = right_until;
			word_node = node;
			read_word()
		}
	:: atomic {
			state != HELD && !is_published ->
			word = 0; word_node = 0
		}

#ifndef NO_RELEASE
	/* the server stops */
	:: atomic {
			is_published && state < RELEASING ->
			close_right();
			sf_lease_release()
		}
#endif

	/*
	 * the server crashes, its worker does, or it was stopped; then it starts
	 */
	:: atomic {
			restarts < RESTARTS ->
			restarts++;
			leave_in_flight();
			abandon();
			state = SEARCHING; generation = 0; node = 0; version = 0;
			known = 0; limit = 0; start = 0; pending = 0; owner = 0;
			last_issued = 0;
			unsure = false; had = false;
			if
			:: true ->
				word = 0; word_node = 0; counter = 0; seen = false;
				asked_until = 0; copied = false;
				printf("    server %d: is started without a lease\n", me)
			:: counter != CLOSED ->
				printf("    server %d: has a new worker without a lease\n", me)
			fi
		}
#ifdef CLONE
	:: atomic {
			me == 0 && !is_cloned && state != ENDED ->
			is_cloned = true;
			fork();
			memory ! all_memory
		}
#endif
#ifdef TTL
	:: atomic {					/* its deadline is over, and it stops */
			state == HELD && is_published ->
			holding--;
			fence();
			had = false; word = 0; word_node = 0; seen = false;
			ask = NOTHING; write_id = 0; upto = 0; done = false
		}
#endif

	/* a session: sf_counter_take */
#ifdef TWO_WORDS
	:: atomic { !counter && node_read != word_node -> node_read = word_node }
	:: atomic { word && !counter && !seen && node_read == 0 -> seen = true }
#endif
	:: atomic {
			seen && !counter ->
			counter = true;
			seen = false;
			observe_issue()
		}
	od
}

/* ---- events of the registry ---- */

active proctype network()
{
	byte id, ask, generation, node, version, owner;
	bool upto, done;

	atomic {
		byte i;
		for (i : 0 .. SERVERS - 1) {
			run server(i)
		}
		i = 0;
#ifdef CLONE
		run server(SERVERS)
#endif
	}
end:
	do
	:: atomic {					/* a write that no server waits for */
			nempty(late) ->
			select (id : 1 .. WRITES);
			if
			:: late ?? [eval(id), _, _, _, _, _, _] ->
				late ?? eval(id), ask, generation, node, version, owner, upto;
				apply(id)
			:: else
			fi;
			id = 0; ask = 0; generation = 0; node = 0; version = 0;
			owner = 0; upto = 0; done = false
		}
#if LOSSES > 0
	:: atomic {					/* snowflake_registry_recover() */
			losses < LOSSES ->
			losses++;
			for (id : 0 .. SLOTS - 1) {
				record[id].version = 0;
				record[id].limit = 0;
				record[id].released = false;
				record[id].owner = 0
			}
			id = 0;
			registry_generation++;
#ifndef NO_FLOOR
			registry_floor = highest;
#endif
			printf("    registry: wiped, floor %d\n", registry_floor)
		}
#endif
#if FAILOVERS > 0
	:: atomic {
			!waits && failovers < FAILOVERS ->
			failovers++;
			waits = true;
			for (id : 0 .. SLOTS - 1) {
				copy_record(standby[id], record[id])
			}
			id = 0
		}
	:: atomic {
			waits ->
			if
			:: true ->
				for (id : 0 .. SLOTS - 1) {
					copy_record(record[id], standby[id])
				}
				printf("    registry: write %d of node 0 is its last after a failover\n",
					record[0].version)
			:: true
			fi;
			waits = false;
			for (id : 0 .. SLOTS - 1) {
				standby[id].version = 0;
				standby[id].limit = 0;
				standby[id].released = false;
				standby[id].owner = 0
			}
			id = 0
		}
#endif
#if BACK > 0
	:: atomic {					/* an administrator makes a copy */
			backs < BACK && !is_back && saved_generation == 0 ->
			for (id : 0 .. SLOTS - 1) {
				saved[id].version = record[id].version;
				saved[id].limit = record[id].limit;
				saved[id].released = record[id].released;
				saved[id].owner = record[id].owner
			}
			saved_generation = registry_generation;
			has_grown = false;
			for (id : 0 .. SERVERS - 1) {
				knows[id] = false;
				tells_younger[id] = false
			}
			id = 0;
			printf("    registry: copied, lease of node 0 until %d\n", record[0].limit)
		}
	:: atomic {					/* it takes the registry's place */
			saved_generation != 0 && !is_back && all_know ->
			for (id : 0 .. SLOTS - 1) {
				record[id].version = saved[id].version;
				record[id].limit = saved[id].limit;
				record[id].released = saved[id].released;
				record[id].owner = saved[id].owner;
				saved[id].version = 0; saved[id].limit = 0;
				saved[id].released = false; saved[id].owner = 0
			}
			id = 0;
			registry_generation = saved_generation;
			saved_generation = 0;
			is_back = true;
			backs++;
			printf("    registry: is the copied one, lease of node 0 until %d\n", record[0].limit)
		}
	:: atomic {					/* snowflake_registry_recover() */
			(is_back || backs < BACK) && generations < 1 + 2 * BACK ->
			generations++;
			registry_generation = generations;
			registry_floor = highest;
			is_back = false;
			has_grown = true;
			printf("    registry: recovered, floor of each lease %d\n", registry_floor)
		}
#endif
#ifdef TTL
	:: atomic { present && holding == 0 -> present = false }
#endif
	od
}
