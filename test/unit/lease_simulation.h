/*-------------------------------------------------------------------------
 *
 * lease_simulation.h
 *	  The machinery of the simulation of leases: time, messages on their way,
 *	  what goes wrong, and the runs of a world.
 *
 * test_lease.c includes this after it has defined the types World, Holder,
 * Message and Registry, init_registry(), and the numbers START_MS, EPOCH_MS,
 * MAX_HOLDERS and nruns.  The functions declared below without a body are its.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_SIMULATION_H
#define SF_LEASE_SIMULATION_H

#include "lease/lease.h"
#include "harness.h"

#define MAX_FLYING	200
#define DRIFT_MS	5
#define STEP_MS		10
#define FAULTY_MS	45000
#define HEAL_MS		60000
#define MAX_MS		(START_MS + FAULTY_MS + HEAL_MS + 120000)
#define MAX_OFFSET_MS	20000	/* of a clock that jumps */
#define KEEP_MS			3000	/* how often the memory goes to disk */

static const World *world;
static Holder holders[MAX_HOLDERS];
static int	nholders;
static Message flying[MAX_FLYING];
static int64_t true_ms;
static bool faulty;				/* may anything still go wrong? */
static uint16_t lives;
static int64_t registry_cut_ms;
static Registry backup;
static bool have_backup;
static Registry old_primary;
static Registry other;			/* another registry, made on its own */
static Registry lost;			/* before it went back */
static int64_t recover_ms;		/* when an administrator recovers it */
static int64_t ahead_ms;		/* all clocks are so far ahead */
static int64_t right_ms;		/* from then on they are right; 0: not yet
								 * wrong */
static bool is_cloned;
static int64_t cloned_until;	/* both clones own timestamps below this */

/* Sums over all runs of a world. */
static int64_t issued;
static int64_t duplicates;
static int64_t late_duplicates; /* of clones, beyond what they share */
static int64_t events;
static int64_t handed_on;		/* node ids withdrawn */
static int64_t went_back;

/* ---- of test_lease.c ---- */

static SfLease *lease_of(Holder *holder);

/* Prepare the registry for a run. */
static void start_registry(void);
static void configure(Holder *holder, int number);

/* Start a holder; call its lease, if it is time; issue timestamps. */
static void start_holder(Holder *holder);
static void step_holder(Holder *holder);
static void generate(Holder *holder);

/* Let the registry carry out the request, and copy it into the reply. */
static void carry_out(Message *reply);
static void add_registry(Message *reply);
static void take_answer(Holder *holder, Message *message);

/* Return true if this is a memory of what came well after the backup. */
static bool is_past_backup(const SfKnown *known);

/* Return a time: both clones may own timestamps below it. */
static int64_t shared_until(const Holder *original);
static void recover(uint64_t former);
static void go_wrong(Holder *holder);
static void go_wrong_at_all(void);
static void check_that_it_heals(void);

/* ---- time ---- */

static bool
chance(int one_in)
{
	return rnd_below(one_in) == 0;
}

static SfMoment
moment_of(const Holder *holder)
{
	SfMoment	moment;

	moment.monotonic_ms = (int64_t) (true_ms * holder->rate);
	moment.wall_ms = EPOCH_MS + moment.monotonic_ms + holder->offset_ms +
		ahead_ms;
	return moment;
}

/*
 * Issue the next timestamp of a counter if it is below "until" and not too far
 * ahead of the clock.  "issued_by" says which life issued each timestamp.
 */
static void
issue_next(const Holder *holder, int64_t *counter, int64_t until,
		   int64_t clock, uint16_t *issued_by)
{
	int64_t		tick = *counter + 1;
	uint16_t   *by;

	if (tick < clock)
		tick = clock;
	if (tick >= until || tick > clock + DRIFT_MS || tick >= MAX_MS || tick < 0)
		return;
	*counter = tick;
	by = &issued_by[tick];
	issued++;
	if (*by != 0 && *by != holder->life)
	{
		duplicates++;
		if (tick >= cloned_until)
			late_duplicates++;
	}
	*by = holder->life;
}

/* ---- messages ---- */

static void
send_message(const Message *message)
{
	int64_t		delay = 1 + rnd_below(40);

	if (faulty && chance(50))
		return;
	if (faulty && world->slow > 0 && chance(world->slow))
		delay = rnd_below(world->slow_ms);
	for (int i = 0; i < MAX_FLYING; i++)
	{
		if (flying[i].used)
			continue;
		flying[i] = *message;
		flying[i].used = true;
		flying[i].at_ms = true_ms + delay;
		return;
	}
}

static void
swap_registry(Registry *with)
{
	Registry	keep = registry;

	registry = *with;
	*with = keep;
}

/*
 * Deliver a request.  An old primary waits in vain for its synchronous
 * standby: it makes the write and shows it to readers, but never acknowledges
 * it.
 */
static void
deliver_request(const Message *message)
{
	static Message reply;
	bool		stranded = true_ms < holders[message->holder].stranded_ms;
	Registry   *reached = stranded ? &old_primary :
		holders[message->holder].is_elsewhere ? &other : &registry;

	if (true_ms < registry_cut_ms)
		return;
	events++;
	swap_registry(reached);
	reply = *message;
	reply.is_answer = true;
	memset(&reply.answer, 0, sizeof(reply.answer));
	reply.answer.number = message->ask.number;
	reply.answer.message = "No.";
	reply.answer.result = SF_RESULT_REFUSED;
	if (!faulty || !chance(40))
		carry_out(&reply);
	if (reply.answer.result == SF_RESULT_DONE &&
		message->ask.kind != SF_ASK_READ &&
		(stranded || (faulty && chance(40))))
		reply.answer.result = SF_RESULT_UNKNOWN;
	reply.answer.clock_ms = EPOCH_MS + true_ms + ahead_ms;
	add_registry(&reply);
	swap_registry(reached);
	send_message(&reply);
}

/* Deliver a message.  A request arrives, whatever became of its sender. */
static void
deliver(Message *message)
{
	Holder	   *holder = &holders[message->holder];

	if (!message->is_answer)
		deliver_request(message);
	else if (holder->fate == FROZEN)
		message->used = true;	/* until it goes on */
	else if (holder->fate == ALIVE && holder->worker == message->worker &&
			 true_ms >= holder->cut_off_ms)
		take_answer(holder, message);
}

/* Write to disk what may not be known a little later. */
static void
keep(Holder *holder)
{
	const SfKnown *known = &holder->age.known;

	if (known->generation == holder->kept.generation &&
		known->node == holder->kept.node &&
		known->node_owner == holder->kept.node_owner &&
		known->lost == holder->kept.lost &&
		true_ms - holder->kept_ms < KEEP_MS)
		return;
	holder->kept = *known;
	holder->kept_ms = true_ms;
}

/* Variant: believe any registry. */
static void
forget(SfAge *age, const SfAsk *ask)
{
	memset(&age->known, 0, sizeof(SfKnown));
	if (ask->kind != SF_ASK_READ)
		age->known.generation = ask->generation;
}

/* ---- what goes wrong ---- */

/* Freeze a holder, or only its worker. */
static void
freeze(Holder *holder)
{
	holder->fate = FROZEN;
	holder->worker_only = chance(2);
	holder->thaw_ms = true_ms + rnd_below(8000);
}

/*
 * Cut a holder off, let its clock jump, or let it reach another registry: not
 * before it knows the present one, or it could take a former one for its
 * successor.
 */
static void
disturb(Holder *holder)
{
	if (world->moves && holder->kept.generation == registry.generation &&
		chance(1000))
		holder->is_elsewhere = !holder->is_elsewhere;
	else if (chance(1000))
		holder->cut_off_ms = true_ms + rnd_below(world->outages ? 15000 : 1500);
	else if (world->jumps && chance(700))
		holder->offset_ms = (int64_t) rnd_below(2 * MAX_OFFSET_MS) -
			MAX_OFFSET_MS;
	else if (world->jumps && chance(700))
		holder->offset_ms = (int64_t) rnd_below(8000) - 4000;
}

/* Copy a holder that goes on too, with the same name and the same memory. */
static void
clone_holder(void)
{
	Holder	   *original = &holders[0];
	Holder	   *copy = &holders[nholders];

	if (original->fate != ALIVE || is_cloned || nholders == MAX_HOLDERS)
		return;
	*copy = *original;
	lease_of(copy)->config.age = &copy->age;
	is_cloned = true;
	copy->life = copy->worker = ++lives;
	copy->offset_ms += rnd_below(50);
	nholders++;
	cloned_until = shared_until(original);
	if (world->clone == 1)
		return;
	original->fate = copy->fate = FROZEN;
	original->worker_only = copy->worker_only = false;
	original->thaw_ms = true_ms + 900 + rnd_below(5000);
	copy->thaw_ms = true_ms + 900 + rnd_below(5000);
}

static void
keep_backup(void)
{
	backup = registry;
	have_backup = true;
}

static void
lose_registry(void)
{
	int64_t		floor = true_ms + 9000 + MAX_OFFSET_MS;
	int64_t		revision = registry.revision;

	lost = registry;
	if (world->no_floor)
		floor = registry.floor;
	if (have_backup && chance(2))
		registry = backup;
	else
		init_registry(0);
	have_backup = false;
	registry.generation = lost.generation;
	strcpy(registry.former, lost.former);
	renew(0, floor);
	if (world->no_floor)
		registry.generation = backup.generation;
	if (registry.revision > revision)
		registry.revision = revision;
}

/*
 * Promote a standby that has all acknowledged writes, and recover the
 * registry. Some servers do not know this, and still use the old primary.
 */
static void
fail_over(void)
{
	old_primary = registry;
	renew(0, true_ms + 9000 + 4000);
	for (int i = 0; i < nholders; i++)
		holders[i].stranded_ms = chance(2) ? true_ms + rnd_below(40000) : 0;
}

/*
 * Stop the registry, and let another one succeed it.  All servers reach that
 * one then, and some of them the former one again, later.
 */
static void
move(void)
{
	uint64_t	former = registry.generation;

	swap_registry(&other);
	/* the administrator knows how far ahead clocks were */
	renew(former, true_ms + 9000 + (world->ahead ? 30000 : MAX_OFFSET_MS));
	went_back++;
	for (int i = 0; i < nholders; i++)
		holders[i].is_elsewhere = false;
}

/*
 * Return true if this holder would notice, whenever it starts.  A few writes
 * that it requested before may still arrive.
 */
static bool
knows_better(const Holder *holder)
{
	const SfKnown *kept = &holder->kept;

	if (world->no_memory)
		return true;
	if (kept->generation != backup.generation)
		return kept->generation == registry.generation;
	return is_past_backup(kept);
}

/* Replace the registry by an older state, or by nothing at all. */
static void
go_back(void)
{
	for (int i = 0; i < nholders; i++)
	{
		if (!knows_better(&holders[i]))
			return;
	}
	lost = registry;
	registry = backup;
	if (!world->ahead && chance(4))
		memset(&registry, 0, sizeof(registry));
	went_back++;
	recover_ms = true_ms + rnd_below(15000);
}

/* Let all clocks be ahead for a while, once in a run. */
static void
mislead(void)
{
	if (right_ms == 0 && chance(300))
	{
		ahead_ms = 20000 +
			rnd_below(world->lost_ahead || world->moves ? 5000 : 80000);
		right_ms = true_ms + rnd_below(8000);
	}
	else if (true_ms >= right_ms)
		ahead_ms = 0;
}

/* Return true if a backup has what was written while all clocks were ahead. */
static bool
backup_is_good(void)
{
	return !world->ahead || world->lost_ahead ||
		(right_ms != 0 && true_ms > right_ms + 1000);
}

static void
go_wrong_with_registry(void)
{
	if (world->ahead)
		mislead();
	if (world->ahead && backup_is_good() && chance(1500))
		recover(0);				/* it has lost nothing */
	if (world->outages && chance(2000))
		registry_cut_ms = true_ms + rnd_below(15000);
	if (world->losses && chance(800))
		keep_backup();
	if (world->losses && chance(1500))
		lose_registry();
	if (world->failovers && chance(2000))
		fail_over();
	if (world->goes_back && recover_ms == 0 && backup_is_good() &&
		chance(have_backup ? 4000 : 300))
		keep_backup();
	if (world->goes_back && have_backup && recover_ms == 0 && chance(200))
		go_back();
	if (recover_ms != 0 && true_ms >= recover_ms)
		recover(0);
	if (world->moves && chance(1500))
		move();
	if (world->clone != 0 && true_ms > START_MS + 5000 && chance(300))
		clone_holder();
}

/* ---- a run ---- */

static void
live_on(Holder *holder)
{
	if (holder->fate == FROZEN && true_ms >= holder->thaw_ms)
		holder->fate = ALIVE;
	if (holder->fate == DEAD && true_ms >= holder->born_ms)
		start_holder(holder);
	if (holder->fate == ALIVE)
		step_holder(holder);
	if (holder->fate == ALIVE ||
		(holder->fate == FROZEN && holder->worker_only))
		generate(holder);
}

static void
run_until(int64_t end_ms)
{
	for (; true_ms < end_ms; true_ms += STEP_MS)
	{
		for (int i = 0; i < MAX_FLYING; i++)
		{
			if (!flying[i].used || true_ms < flying[i].at_ms)
				continue;
			flying[i].used = false;
			deliver(&flying[i]);
		}
		for (int i = 0; i < nholders; i++)
		{
			if (faulty)
				go_wrong(&holders[i]);
			live_on(&holders[i]);
		}
		if (faulty)
			go_wrong_at_all();
	}
}

static void
start_run(void)
{
	for (int i = 0; i < MAX_FLYING; i++)
		flying[i].used = false;
	nholders = 2 + rnd_below(3);
	true_ms = START_MS;
	registry_cut_ms = 0;
	have_backup = false;
	recover_ms = 0;
	ahead_ms = 0;
	right_ms = 0;
	is_cloned = false;
	cloned_until = 0;
	lives = 0;
	faulty = true;
	start_registry();
	backup = registry;
	init_registry(0);
	other = registry;
	registry = backup;
	for (int i = 0; i < nholders; i++)
	{
		Holder	   *holder = &holders[i];

		memset(holder, 0, sizeof(Holder));
		configure(holder, i + 1);
		if (chance(2))			/* these runs take longer, so they are half of
								 * all */
			holder->config.claimant.max_ahead_ms = 9000;
		holder->offset_ms = (int64_t) rnd_below(6000) - 3000;
		holder->rate = 1 + ((int) rnd_below(200) - 100) / 1e6;
		holder->born_ms = true_ms + rnd_below(2000);
	}
}

/* Let everything be well for a while. */
static void
heal(void)
{
	faulty = false;
	ahead_ms = 0;
	registry_cut_ms = 0;
	if (recover_ms != 0)
		recover(0);
	for (int i = 0; i < nholders; i++)
	{
		holders[i].offset_ms = 0;
		holders[i].cut_off_ms = 0;
		holders[i].stranded_ms = 0;
		holders[i].is_elsewhere = false;
	}
	run_until(true_ms + HEAL_MS);
}

/* Run one world several times; if it is to fail, until one run has failed. */
static void
run_world(const World *w, int runs, bool is_to_fail)
{
	int			bad_runs = 0;
	int			run;

	world = w;
	issued = duplicates = late_duplicates = events = 0;
	handed_on = went_back = 0;
	for (run = 0; run < runs && !(is_to_fail && late_duplicates > 0); run++)
	{
		int64_t		before = duplicates;

		start_run();
		run_until(true_ms + FAULTY_MS);
		if (!is_to_fail)
			check_that_it_heals();
		bad_runs += duplicates > before;
	}
	printf("%s: %d runs, %" PRId64 " events, %" PRId64 " timestamps, %"
		   PRId64 " handed on, %" PRId64 " duplicates in %d runs",
		   w->name, run, events, issued, handed_on, duplicates, bad_runs);
	if (w->goes_back || w->moves)
		printf(", the registry went back, or moved, %" PRId64 " times",
			   went_back);
	if (w->clone != 0)
		printf(", %" PRId64 " of them beyond what the clones shared",
			   late_duplicates);
	printf("\n");
	fflush(stdout);
}

/* Check that no world repeats a timestamp, and that much happens in each. */
static void
check_worlds(const World *worlds, int n, int64_t least_issued,
			 int64_t least_handed_on)
{
	for (int i = 0; i < n; i++)
	{
		snprintf(context, sizeof(context), "%s", worlds[i].name);
		run_world(&worlds[i], nruns, false);
		CHECK_EQ(duplicates, 0);
		CHECK(issued > least_issued);
		CHECK(handed_on > least_handed_on);
		CHECK(!(worlds[i].goes_back || worlds[i].moves) || went_back > 0);
	}
}

/* Check that variants that are known to fail do fail. */
static void
check_variants(const World *worlds, int n)
{
	for (int i = 0; i < n; i++)
	{
		snprintf(context, sizeof(context), "%s", worlds[i].name);
		run_world(&worlds[i], 60000, true);
		CHECK(late_duplicates > 0);
	}
}

#endif							/* SF_LEASE_SIMULATION_H */
