/*
 * The lease of a node id, as a model for spin: servers with clocks of their own
 * that claim a slot of one registry, extend it, lose it and give it back; a
 * network that loses and delays; servers that crash, a registry that loses its
 * data, and a copy of a server that goes on beside it. test/model/README.md
 * tells how to read it; test/model/run checks it.
 *
 * A step bears the name of the function in src that it stands for. The worker
 * is lease.c, lease_state.c and slot_choice.c, what it publishes publish_node.c,
 * and the session generator.c. What another process can see or be seen by is a
 * step of its own. Not so a reading of the registry and what is made of it:
 * what happens between the two would only make the latter late, and each step
 * can be late.
 *
 * The observer looks at one timestamp of node 0: any of them, so what holds for
 * it holds for all. Clocks say anything at any time, and all that is done with
 * times is to compare them, and to take the earlier or the later one. So of any
 * time only this matters: does it lie past the observed timestamp? Times are
 * bits that say so, and there is no bound for clocks. A session makes the
 * observed ID if it may: others would only raise the counter.
 *
 * A frozen process is one that makes no step.
 *
 * Presence is not there: whoever holds a slot, another may claim it. So it
 * protects from nothing here, as it must not.
 *
 * A record's version is the write_id of the write that made it. That versions
 * of a registry may come again when it was wiped, is what generations are for,
 * and they are there.
 *
 * Bounds:
 *
 *	SERVERS, SLOTS
 *	WRITES		asked for in all, of whatever kind
 *	LATE		that are under way at a time, and that nobody waits for
 *	RESTARTS	of servers, or of workers alone
 *	LOSSES		of the registry's data
 *	FAILOVERS	of a primary that waits for its synchronous standby in vain: what is
 *				written meanwhile is shown to readers, never acknowledged, and then
 *				forgotten, or not
 *	BACK		how often the registry goes back to an older state of itself, which
 *				may be of an earlier generation, and is recovered then: each server
 *				has read, or was acknowledged, something younger before
 *	CLONE		a copy of the first server, with all its memory, at any time
 *	FROZEN		a worker may take itself for frozen, at any time (watch())
 *	HALTED		... as both do before they make anything else, the copy and the
 *				copied
 *
 * Checked is that no ID is made twice. Below the highest until that a server had
 * asked for when it was copied, it may be made by one of the two and by another:
 * by the other of the two (STRICT), or by whoever claims the slot that the other
 * has given back, which is what NO_RELEASE leaves out. With HALTED not even that.
 *
 * What must make spin find an error:
 *
 *	TTL			a slot is held until a deadline, which its holder keeps
 *	REPORT		the record says what was issued, and not what is reserved
 *	NO_COMPARE, OWNER_ONLY	writes without their condition, or with less of it
 *	NO_GENERATION	a write to a registry that was wiped meanwhile
 *	NO_WRITE_ID	a record with our name is ours
 *	NO_FENCE	a record that somebody else has written is ours
 *	START_BELOW	a claim begins where the clock is
 *	EARLY		a right is published when it is asked for
 *	NO_LEAST	an extension may end before the reservation
 *	NO_FLOOR	a registry that was wiped begins with nothing
 *	NO_MEMORY	servers do not remember how young the registry was
 *	NO_RAISE	the counter is not raised to the start, or too late
 *	NO_CLOSE	the counter goes on while the slot is given back
 *	NO_HALT		who was frozen goes on when he has read that all is well
 *	TWO_WORDS	node and until are read one after the other
 *	BELIEVE		what a reading shows of a write of unknown outcome is published
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
#define NAMES					/* which are of no use otherwise */
#endif

/* ---- the registry ---- */

typedef Record {
	byte version;				/* 0: never written */
	bool limit;					/* until, which is a word of spin's */
	bool released;
	byte owner
};

Record record[SLOTS];
byte registry_generation = 1;
bool registry_floor;

byte writes;					/* the last write_id */
byte losses;
byte restarts;
bool highest;					/* until that there ever was */

#if FAILOVERS > 0
bool waits;						/* for the standby, which has this */
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
bool has_grown;					/* the registry, since then */
bool knows[SERVERS];			/* has a server seen that? */
bool is_back;					/* to what was saved */

bool tells_younger[SERVERS];	/* of a write that is done: what it shows */
byte backs;
byte generations = 1;

#if SERVERS == 1
#define all_know	knows[0]
#else
#define all_know	(knows[0] && knows[1])
#endif
#endif

/* SfAskKind, of writes */
#define NOTHING		0
#define CLAIM		1
#define EXTEND		2
#define RELEASE		3

/* Writes that nobody waits for: write_id, and what the server had there. */
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
bool present;					/* somebody */
byte holding;					/* how many servers take themselves for that */
#define condition_holds \
	(record[node].version == version && (ask != CLAIM || !present))
#else
#define condition_holds \
	(registry_generation == generation && record[node].version == version)
#endif

/* What the registry does about a write: all or nothing. */
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
#define BY_FAMILY	2			/* by a server that was copied, or its copy */

byte issued;					/* who has issued it; 0: nobody yet */
#ifdef CLONE
bool is_cloned;
#endif
bool shared_until;				/* the clone's, and the other's */

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

/* ---- a lease (lease_state.c) ---- */

#define CLOSED		1			/* the counter: nothing is below any cap */

/* SfLeaseState */
#define SEARCHING	0			/* or claiming, if that is asked for */
#define HELD		1
#define RELEASING	2
#define ENDED		3

/* What an ended one has in memory is of no use to anybody. */
inline forget_if_ended()
{
	if
	:: state == ENDED ->
		generation = 0; node = 0; version = 0; known = 0; limit = 0; start = 0;
		pending = 0; owner = 0; last_issued = 0;
		halted = false; unsure = false; had = false
	:: else
	fi
}

/* Up to where the right is: what was acknowledged, and no more. */
#if defined(TTL) || defined(REPORT)
#define right_until	END
#elif defined(EARLY)
#define right_until	(ask == EXTEND -> upto : limit)
#else
#define right_until	limit
#endif

/* Up to where a write may reserve: not below what there is. */
inline sf_lease_reserve()
{
#if defined(REPORT)
	upto = MAX(known, counter)
#elif defined(NO_LEAST)
	select (upto : 0 .. END)
#else
	select (upto : known .. END)
#endif
}

/* The number of the write of ours that made the record. */
#ifdef NO_WRITE_ID
#define sf_lease_find_pending	(pending != 0 && record[node].owner == owner)
#else
#define sf_lease_find_pending	(pending & (1 << record[node].version))
#endif

inline sf_lease_adopt(id, to)
{
	pending = 0;
	version = id;
	known = to
}

inline sf_lease_take()
{
	state = HELD
#ifdef TTL
	;
	holding++
#endif
}

inline sf_lease_confirm()
{
	limit = known;
	valid = true;
	had = true;
	printf("    server %d: has the lease of node %d from %d until %d\n", me,
		node, start, right_until)
}

inline sf_lease_fence()
{
	printf("    server %d: lost the lease of node %d\n", me, node);
	state = (state == RELEASING -> ENDED : SEARCHING);
	valid = false; halted = false; unsure = false;
	node = 0; version = 0; known = 0; limit = 0; start = 0; pending = 0;
	owner = 0;
	forget_if_ended()
}

/* ---- the registry's age (registry_age.c) ---- */

/*
 * A registry that went back shows less than each server knows, and goes on to:
 * that it is written more often then than it had forgotten is left out.
 */
#if BACK > 0 && !defined(NO_MEMORY)
#define sf_age_read		(!is_back || !knows[me])
#else
#define sf_age_read		true
#endif

/* What is seen, is known over restarts. */
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

/* It has lost data: what is held lasts, and nothing is written. */
inline wait_for_recovery()
{
	printf("    server %d: finds that the registry has lost data, lease: %d\n", me, state);
	unsure = (state == HELD);
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
	sf_lease_reserve();
	known = 0;
	ask_write(CLAIM)
}

inline ask_extension()
{
	sf_lease_reserve();
	ask_write(EXTEND)
}

inline ask_release()
{
	upto = MIN(MAX(last_issued, start), known);
	ask_write(RELEASE)
}

/* The request in flight is lost, if it has not arrived, or comes later. */
inline leave_in_flight()
{
	if
	:: ask != NOTHING && !done && nfull(late) ->
		late !! write_id, ask, generation, node, version, owner, upto
	:: true
	fi
}

/* Give up on it. */
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
	valid = (state == HELD);
	halted = false;
#endif
	if
	:: record[node].released -> state = ENDED; forget_if_ended()
	:: else
	fi
}

/* What a read says of the slot that we hold. */
inline check_held()
{
	if
	:: registry_generation != generation || record[node].version == 0 ->
		sf_lease_fence()
	:: else ->
		if
#ifndef NO_FENCE
		:: !sf_lease_find_pending && record[node].version != version ->
			sf_lease_fence()
#endif
		:: sf_lease_find_pending || ADOPTS_ANY ->
			sf_lease_adopt(record[node].version, record[node].limit);
#ifdef BELIEVE
			limit = known;
#endif
			confirm_held()
		:: !sf_lease_find_pending && record[node].version == version ->
			confirm_held()
		fi
	fi
}

/* Where a claim begins (slot_choice.c). */
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
	:: else						/* of unknown outcome: no other */
	fi;
#endif
	version = record[node].version;
	start = find_start
}

inline search()
{
	if
	:: registry_generation != generation ||
		(!sf_lease_find_pending && record[node].version != version) ->
		pending = 0
	:: else
	fi;
	if
	:: sf_lease_find_pending ->
		sf_lease_adopt(record[node].version, record[node].limit);
		sf_lease_take()
#ifdef BELIEVE
		;
		sf_lease_confirm()
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
	halted = false;
	sf_lease_adopt(write_id, upto);
	if
	:: ask == CLAIM -> sf_lease_take(); sf_lease_confirm()
	:: ask == EXTEND -> sf_lease_confirm()
	:: ask == RELEASE -> state = ENDED
	fi;
	ask = NOTHING; write_id = 0; upto = 0; done = false;
	forget_if_ended()
}

/* The process notices that it was frozen. */
inline watch()
{
	leave_in_flight();
	abandon();
	halted = (state == HELD || pending != 0);
	if
	:: state == HELD -> unsure = true; valid = false
	:: else
	fi
}

/* ---- what is published (publish_node.c) ---- */

#define is_published \
	(valid -> word == right_until && word_node == node : !had || word == 0)

#ifdef NO_RAISE
#define is_prepared	true
#else
#define is_prepared	(counter || !start)
#endif

/*
 * There is a session that reads the word at once, and sleeps for as long as it
 * has a right by it: nobody can do more harm.
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

/* Nobody may issue any more, also not who has read the word before. */
inline sf_publish_close_node()
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
	valid = false;
	state = (state == HELD -> RELEASING : ENDED);
	printf("    server %d: gives the lease back, after IDs: %d\n", me, last_issued);
	forget_if_ended()
}

/* ---- a server: its worker, and a session ---- */

#define idle	(ask == NOTHING && is_published)

#ifdef CLONE
chan memory = [0] of { byte, byte, byte, byte, byte, byte, byte, byte, byte,
	byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte,
	byte, byte };
#define all_memory	state, generation, node, version, known, limit, start, \
	pending, owner, valid, halted, unsure, ask, write_id, upto, done, had, word, \
	word_node, counter, seen, last_issued, asked_until
#endif

inline fork()
{
#ifdef HALTED
	watch();
	word = 0; word_node = 0; seen = false;
#endif
	copied = true;
	shared_until = asked_until;
	printf("    server %d: is copied\n", me)
}

proctype server(byte me)
{
	/* SfLease: what it knows of the record, the right, the request */
	byte state, generation, node, version, pending, owner;
	bool known, limit, start, valid, halted, unsure;
	byte ask, write_id;
	bool done, upto, last_issued;

	/* shared memory, and whether this worker has written there */
	bool had, word, counter;
	byte word_node;

	/* a session: may it make the observed ID, by the word that it has read? */
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
			idle && state == SEARCHING && sf_age_read ->
			learn(shows_younger);
			search()
		}
	:: atomic {
			idle && (state == HELD || state == RELEASING) && sf_age_read ->
			learn(shows_younger);
			check_held()
		}
#if BACK > 0
	:: atomic {
			idle && (state == HELD || state == RELEASING) && !sf_age_read ->
			wait_for_recovery()
		}
#endif
	:: atomic {
			idle && state == HELD && !unsure && writes < WRITES ->
			ask_extension()
		}
	:: atomic {
			idle && state == RELEASING && !unsure && writes < WRITES ->
			ask_release()
		}
	:: atomic {					/* the request arrives; a conflict is told at once */
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
	:: atomic {					/* refused: it is never done */
			ask != NOTHING && !done && is_published ->
			pending = pending & ~(1 << write_id);
			abandon()
		}
	:: atomic {					/* no answer in time, or one of no use */
			ask != NOTHING && is_published ->
			leave_in_flight();
			abandon()
		}
#ifdef FROZEN
	:: atomic {
			is_published && state != ENDED && !halted -> watch()
		}
#endif

	/* sf_publish_node */
	:: atomic {					/* prepare_counter() */
			valid && !is_published && !counter && start ->
			counter = true;
			seen = false
		}
	:: atomic {
			valid && !is_published && is_prepared ->
			word = right_until;
			word_node = node;
			read_word()
		}
	:: atomic {
			!valid && !is_published ->
			word = 0; word_node = 0
		}

#ifndef NO_RELEASE
	/* the server stops */
	:: atomic {
			is_published && state < RELEASING ->
			sf_publish_close_node();
			sf_lease_release()
		}
#endif

	/* it crashes, or its worker does, or it was stopped; and starts */
	:: atomic {
			restarts < RESTARTS ->
			restarts++;
			leave_in_flight();
			abandon();
			state = SEARCHING; generation = 0; node = 0; version = 0;
			known = 0; limit = 0; start = 0; pending = 0; owner = 0;
			last_issued = 0;
			valid = false; halted = false; unsure = false; had = false;
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
	:: atomic {					/* its deadline is past, and it stops */
			valid && is_published ->
			holding--;
			sf_lease_fence();
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

/* ---- what happens to the registry ---- */

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
	:: atomic {					/* a write that nobody waits for */
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
	:: atomic {					/* somebody makes a copy */
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
	:: atomic {					/* and puts it in the registry's place */
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
