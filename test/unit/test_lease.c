/*-------------------------------------------------------------------------
 *
 * test_lease.c
 *	  Leases of node ids, against a registry in memory: step by step and
 *	  random.
 *
 * The random part (lease_simulation.h) runs several holders against one
 * registry.  Each holder has a clock of its own, and the network delays and
 * loses messages.  The test checks that no two holders ever issue the same
 * timestamp under one node id.  It also runs variants of the protocol that are
 * known to fail.  If one of them did not fail, the simulation would prove
 * nothing.  They fail because
 *
 * - of writes that compare only the owner, a late one takes back what was
 *	 reserved;
 *
 * - a clone's record has the same name, so the name does not say whose it is;
 *
 * - a registry that was wiped or rolled back, and whose floor was not raised,
 *	 gives an until that is too low;
 *
 * - so does one that lost what was reserved while all clocks were far ahead,
 *	 if the administrator does not say how far;
 *
 * - a failover forgets a write that was only read back, so its right must not
 *	 be published;
 *
 * - if no server remembers what the registry was, it gives away what it has
 *	 forgotten, and so does another registry;
 *
 * - the registry cannot tell a copy of the data from the original: the caller
 *	 that fills in SfClaimant must, before it resumes a lease.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/lease.h"
#include "harness.h"

#define LAYOUT		"timestamp:41 node:10 sequence:12 epoch:2024-01-01"
#define EPOCH_MS	INT64_C(1704067200000)	/* of the layout */
#define START_MS	INT64_C(100000) /* since then; true time begins there */

#define MAX_HOLDERS	8
#define MAX_SLOTS	4
#define TTL_MS		3000

static int	nruns = 60;			/* of each world; RUNS of the environment */

static SfLayout layout;
static char layout_text[SF_LAYOUT_TEXT_SIZE];
static char last_said[300];
static int	nsaid;

static bool
is_warning(SfLeaseEvent what)
{
	return what == SF_LEASE_EVENT_LOST || what == SF_LEASE_EVENT_EXPIRED ||
		what == SF_LEASE_EVENT_PROBLEM || what == SF_LEASE_EVENT_BEHIND ||
		what == SF_LEASE_EVENT_CLOCK;
}

static void
log_event(SfLeaseEvent what, const char *text)
{
	snprintf(last_said, sizeof(last_said), "%s%s",
			 is_warning(what) ? "WARNING: " : "", text);
	nsaid++;
}

/* ---- the registry ---- */

typedef struct Registry
{
	bool		initialized;
	uint64_t	generation;
	char		former[SF_FORMER_SIZE];
	int64_t		floor;
	int64_t		revision;
	SfSlotRecord record[MAX_SLOTS];
	int64_t		present_until[MAX_SLOTS];	/* in true time */
} Registry;

static Registry registry;
static bool owner_only;			/* variant: only claims compare the version */
static int64_t ttl_ms = TTL_MS;
static int64_t clock_ahead_ms;	/* of the registry's clock */
static int64_t clock_step_ms;

/* Each has its own clock.  They are numbered from 1. */
#define MAX_ENDPOINTS	3
static int	nendpoints;			/* 0: there is only one clock */
static int	endpoint;
static int64_t endpoint_ahead_ms[MAX_ENDPOINTS + 1];

static void
init_registry(int64_t floor)
{
	memset(&registry, 0, sizeof(registry));
	registry.initialized = true;
	registry.generation = rnd();
	registry.floor = floor;
	for (int i = 0; i < MAX_SLOTS; i++)
		registry.record[i].node = i;
}

/* Begin another generation, which succeeds "former" too, unless it is 0. */
static void
renew(uint64_t former, int64_t floor)
{
	SfRegistry	old = {.generation = registry.generation};
	char		text[20] = "";

	strcpy(old.former, registry.former);
	if (former != 0)
		sprintf(text, "%016" PRIx64, former);
	sf_registry_succeed(registry.former, &old, text);
	registry.generation = rnd();
	registry.floor = floor;
}

/* Lose all data, and recover. */
static void
recover_empty(int64_t floor)
{
	uint64_t	former = registry.generation;

	init_registry(0);
	renew(former, floor);
}

static void
expire_presence(int64_t now)
{
	for (int i = 0; i < MAX_SLOTS; i++)
	{
		if (registry.record[i].present != 0 &&
			now >= registry.present_until[i])
			registry.record[i].present = 0;
	}
}

static bool
condition_holds(const SfAsk *ask, const SfSlotRecord *record)
{
	if (ask->generation != registry.generation)
		return false;
	if (record->present != 0 && record->present != ask->record.owner &&
		record->present != ask->displaced)
		return false;
	if (owner_only && ask->kind != SF_ASK_CLAIM)
		return record->owner == ask->record.owner;
	return record->version == ask->version;
}

/* Let the registry carry out a request; version is 0 for a read. */
static SfResult
apply(const SfAsk *ask, int64_t now, int64_t *version)
{
	SfSlotRecord *record = &registry.record[ask->record.node];
	int64_t    *present_until = &registry.present_until[ask->record.node];
	uint64_t	present = record->present;

	expire_presence(now);
	present = record->present;
	*version = 0;
	if (ask->kind == SF_ASK_READ)
		return SF_RESULT_DONE;
	if (ask->kind == SF_ASK_KEEPALIVE)
	{
		if (present != ask->record.owner)
			return SF_RESULT_ABSENT;
		*present_until = now + ttl_ms;
		return SF_RESULT_DONE;
	}
	if (!condition_holds(ask, record))
		return SF_RESULT_CONFLICT;
	*record = ask->record;
	record->version = *version = ++registry.revision;
	record->present = present;
	if (ask->presence)
	{
		record->present = ask->record.owner;
		*present_until = now + ttl_ms;
	}
	if (ask->kind == SF_ASK_RELEASE)
		record->present = 0;
	return SF_RESULT_DONE;
}

/* Give a reader the records that were written. */
static void
copy_registry(SfRegistry *copy, SfSlotRecord *records)
{
	memset(copy, 0, sizeof(SfRegistry));
	copy->initialized = registry.initialized;
	copy->generation = registry.generation;
	strcpy(copy->former, registry.former);
	copy->floor = registry.floor;
	snprintf(copy->layout, sizeof(copy->layout), "%s", layout_text);
	copy->records = records;
	for (int i = 0; i < MAX_SLOTS; i++)
	{
		if (registry.record[i].version == 0)
			continue;
		records[copy->nrecords++] = registry.record[i];
		if (copy->version < registry.record[i].version)
		{
			copy->version = registry.record[i].version;
			copy->newest = i;
		}
	}
}

static const SfClientConfig client_config = {
	.timeout_ms = 500, .max_offset_ms = 5000, .warn_offset_ms = 200,
	.peers_ms = 20000, .frozen_ms = 800, .random = rnd,
	.log_event = log_event
};

static SfLeaseConfig
make_config(uint64_t server, uint32_t first, uint32_t last)
{
	SfLeaseConfig config = {
		.claimant = {
			.layout = &layout, .first_node = first, .last_node = last,
			.server = server, .max_ahead_ms = 2000
		},
		.reserve_ms = 9000, .keepalive_ms = TTL_MS / 3, .look_ms = 100,
		.initialize = "run this.", .registry_kind = "etcd"
	};

	snprintf(config.claimant.host, sizeof(config.claimant.host), "host-%d",
			 (int) server);
	config.claimant.process = 4711;
	return config;
}

/* ---- step by step ---- */

static SfLease lease;
static SfAge age;
static SfMoment now;
static SfRegistry answer_registry;
static SfSlotRecord answer_records[MAX_SLOTS];

static int64_t
now_tick(void)
{
	return now.wall_ms - EPOCH_MS;
}

static void
pass(int64_t ms)
{
	now.monotonic_ms += ms;
	now.wall_ms += ms;
}

static bool
may_issue(void)
{
	return lease.state == SF_LEASE_HELD;
}

/* Let time pass in small steps, as for a process that is not frozen. */
static void
live(int64_t ms)
{
	for (; ms > 0; ms -= 100)
	{
		pass(ms < 100 ? ms : 100);
		sf_lease_step(&lease, now);
	}
}

/* Let the registry carry out the request and answer. */
static void
reply_as(SfResult result, const char *message)
{
	SfAnswer	answer = {.number = lease.client.ask.number};

	copy_registry(&answer_registry, answer_records);
	answer.registry = &answer_registry;
	answer.result = result;
	answer.message = message;
	sf_lease_answer(&lease, now, &answer);
}

/* Set the registry's time, and the endpoint that tells it. */
static void
tell_time(SfAnswer *answer)
{
	answer->clock_ms = now.wall_ms + clock_ahead_ms;
	answer->clock_step_ms = clock_step_ms;
	if (nendpoints == 0)
		return;
	if (lease.client.ask.avoid == endpoint)
		endpoint = endpoint % nendpoints + 1;
	answer->endpoint = endpoint;
	answer->clock_ms += endpoint_ahead_ms[endpoint];
}

static SfResult
reply(void)
{
	SfAnswer	answer = {.number = lease.client.ask.number};

	answer.result = apply(&lease.client.ask, now.monotonic_ms, &answer.version);
	answer.registry_version = answer.version;
	copy_registry(&answer_registry, answer_records);
	answer.registry = &answer_registry;
	tell_time(&answer);
	sf_lease_answer(&lease, now, &answer);
	return answer.result;
}

/* Begin as a server that remembers no registry. */
static void
begin(const SfLeaseConfig *config)
{
	SfLeaseConfig with_age = *config;

	sf_age_init(&age, NULL, &layout);
	with_age.age = &age;
	sf_lease_init(&lease, &with_age, &client_config, now);
}

/* Begin, and answer the first reading. */
static void
begin_search(const SfLeaseConfig *config)
{
	begin(config);
	CHECK_EQ(reply(), SF_RESULT_DONE);
}

/* Prepare a registry, a time, and a lease that holds the node. */
static void
prepare(void)
{
	owner_only = false;
	ttl_ms = TTL_MS;
	init_registry(0);
	now.monotonic_ms = 1000000;
	now.wall_ms = EPOCH_MS + START_MS;
	clock_ahead_ms = clock_step_ms = 0;
	nendpoints = 0;
	endpoint = 1;
	memset(endpoint_ahead_ms, 0, sizeof(endpoint_ahead_ms));
	last_said[0] = '\0';
	nsaid = 0;
}

static void
prepare_held(uint32_t node)
{
	SfLeaseConfig config = make_config(1, node, node);

	prepare();
	begin(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
	reply();
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_HELD);
}

/* Answer requests until the lease makes one of this kind. */
static void
reply_until(SfAskKind kind)
{
	for (int i = 0; i < 1000 && lease.client.ask.kind != kind; i++)
	{
		if (lease.client.ask.kind != SF_ASK_NOTHING)
			reply();
		else
			live(100);
	}
	CHECK_EQ(lease.client.ask.kind, kind);
}

/* Answer requests up to the next one of this kind. */
static SfResult
reply_to(SfAskKind kind)
{
	reply_until(kind);
	return reply();
}

/* Another server writes the record of a node. */
static void
write_by_other(uint32_t node, int64_t until, bool present)
{
	SfSlotRecord *record = &registry.record[node];

	record->version = ++registry.revision;
	record->owner = 12345;
	record->server = 99;
	record->write_id = rnd();
	record->until = until;
	record->present = present ? record->owner : 0;
	record->released = false;
	registry.present_until[node] = INT64_MAX;
	strcpy(record->host, "other");
}

static void
test_claim_extend_release(void)
{
	int64_t		until;
	int64_t		since;

	prepare_held(2);
	since = now.wall_ms;
	CHECK_EQ(registry.record[2].since_ms, since);
	CHECK_EQ(registry.record[2].process, 4711);
	CHECK(may_issue());
	CHECK_EQ(lease.right.node, 2);
	CHECK_EQ(lease.right.start, 0);
	CHECK_EQ(lease.right.until, now_tick() + 9000);
	CHECK_EQ(registry.record[2].until, lease.right.until);
	CHECK_EQ(registry.record[2].epoch, 1);
	CHECK_STR(last_said, "Node id 2 is leased.");

	/* kept alive, and extended when less than two thirds are left */
	until = lease.right.until;
	reply_until(SF_ASK_KEEPALIVE);
	CHECK_EQ(now_tick() - START_MS, 1000);
	reply();
	reply_until(SF_ASK_EXTEND);
	CHECK(until - now_tick() < 6000 && until - now_tick() > 5800);
	CHECK_EQ(lease.right.until, until);
	reply();
	CHECK_EQ(lease.right.until, now_tick() + 9000);
	CHECK(may_issue());
	CHECK_EQ(registry.record[2].epoch, 1);
	CHECK_EQ(nsaid, 1);

	sf_lease_release(&lease, now, 100500);
	CHECK(!may_issue());
	CHECK_EQ(lease.client.ask.kind, SF_ASK_RELEASE);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_ENDED);
	CHECK_EQ(lease.wake_ms, INT64_MAX);
	CHECK_EQ(registry.record[2].until, 100501);
	CHECK(registry.record[2].released);
	CHECK_EQ(registry.record[2].present, 0);
	CHECK_EQ(registry.record[2].since_ms, since);
	CHECK_STR(lease.client.problem, "");
	CHECK_STR(last_said, "Node id 2 is given back.");
}

/*
 * The reserve that a recovery must wait for, also after a reload or a
 * release.
 */
static void
test_reserve_is_known(void)
{
	prepare_held(2);
	CHECK_EQ(registry.record[2].reserve_ms, 9000);
	lease.config.reserve_ms = 60000;
	reply_to(SF_ASK_EXTEND);
	CHECK_EQ(registry.record[2].reserve_ms, 60000);
	lease.config.reserve_ms = 6000;
	registry.record[2].present = 0;
	reply_to(SF_ASK_EXTEND);
	CHECK_EQ(registry.record[2].until, lease.right.until);
	CHECK_EQ(registry.record[2].reserve_ms, lease.right.until - now_tick());
	CHECK(registry.record[2].reserve_ms > 55000);
	live(100);
	sf_lease_release(&lease, now, now_tick());
	reply();
	CHECK(registry.record[2].released);
	CHECK(registry.record[2].reserve_ms > 55000);
}

/*
 * The registry's clock and ours were a day ahead, and are right again.  A
 * recovery of a registry that has lost nothing holds nobody up: the until far
 * ahead counts for its slot alone.  One that has lost our record waits for it.
 */
static void
test_clocks_ahead(void)
{
	SfLeaseConfig config;
	Registry	old;
	int64_t		until;
	int64_t		ahead_ms = 20 * 3600 * 1000;

	prepare_held(1);
	live(100);
	now.wall_ms += ahead_ms;
	sf_lease_step(&lease, now);
	CHECK(!may_issue());
	reply_to(SF_ASK_EXTEND);
	CHECK(may_issue());
	now.wall_ms -= ahead_ms;
	sf_lease_step(&lease, now);
	reply_to(SF_ASK_EXTEND);
	CHECK(may_issue());
	until = lease.right.until;
	CHECK(until > now_tick() + ahead_ms);
	CHECK_EQ(registry.record[1].reserve_ms, 9000);
	CHECK_EQ(age.known.reserve_ms, 9000);

	/* recovered, it uses up its right, and then extends it */
	renew(0, now_tick() + 14000);
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	CHECK(may_issue());
	CHECK_CONTAINS(lease.client.problem, "extends no lease from before");
	while (now_tick() < registry.floor + 2000)
	{
		if (lease.client.ask.kind != SF_ASK_NOTHING)
			reply();
		live(100);
		CHECK(may_issue());
		CHECK_EQ(lease.right.node, 1);
	}
	CHECK_EQ(lease.right.until, until);
	CHECK_EQ(lease.generation, registry.generation);
	reply_to(SF_ASK_KEEPALIVE);
	CHECK_STR(lease.client.problem, "");

	/* another server takes another slot, and never begins below the until */
	config = make_config(2, 0, 3);
	begin(&config);
	reply_to(SF_ASK_CLAIM);
	CHECK(may_issue());
	CHECK(lease.right.node != 1);
	CHECK(lease.right.start < now_tick());
	config = make_config(2, 1, 1);
	ttl_ms = 0;
	registry.record[1].present = 0;
	begin_search(&config);
	CHECK_CONTAINS(lease.client.problem, "Slot 1 is reserved until");
	now.wall_ms += ahead_ms;
	begin(&config);
	reply_to(SF_ASK_CLAIM);
	CHECK_EQ(lease.right.start, until);

	/* our record is lost: only a floor can stand for it */
	prepare_held(1);
	old = registry;
	now.wall_ms += ahead_ms;
	sf_lease_step(&lease, now);
	reply_to(SF_ASK_EXTEND);
	now.wall_ms -= ahead_ms;
	sf_lease_step(&lease, now);
	reply_to(SF_ASK_EXTEND);
	registry = old;
	renew(0, now_tick() + 14000);
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	CHECK(!may_issue());
	CHECK_CONTAINS(lease.client.problem, "it would give away what it has confirmed");
	CHECK_CONTAINS(lease.client.remedy, "arguments: interval '720");
}

/* The next holder begins at the until, and waits if it is far away. */
static void
test_until_of_the_one_before(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);

	prepare();
	write_by_other(0, START_MS + 1500, false);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	reply();
	CHECK_EQ(lease.right.start, START_MS + 1500);
	CHECK_EQ(lease.right.until, START_MS + 9000);

	prepare();
	write_by_other(0, START_MS + 30000, false);
	begin_search(&config);
	CHECK_CONTAINS(lease.client.problem, "Slot 0 is reserved until 2024-01-01T00:02:10");
	CHECK_CONTAINS(lease.client.problem, "by a server that has gone.");
	CHECK_CONTAINS(lease.client.remedy, "This server will claim it then.");
	reply_until(SF_ASK_CLAIM);
	CHECK(now_tick() >= START_MS + 28000 && now_tick() < START_MS + 28500);
	reply();
	CHECK_EQ(lease.right.start, START_MS + 30000);
	CHECK_STR(lease.client.problem, "");
}

static void
test_taken_slots(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);

	prepare();
	write_by_other(0, START_MS, true);
	begin_search(&config);
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK_STR(lease.client.problem, "Slot 0 is held by another server, \"other\".");
	CHECK_STR(lease.client.public_problem, "Slot 0 is held by another server.");
	CHECK_CONTAINS(lease.client.remedy, "Leave that one running. For any free number, set snowflake.node_id = '' here");
	config.claimant.is_altered = true;
	begin_search(&config);
	CHECK_CONTAINS(lease.client.remedy, "run ALTER SYSTEM RESET snowflake.node_id; and set snowflake.node_id = '' here");

	prepare();
	for (int i = 0; i < MAX_SLOTS; i++)
		write_by_other(i, START_MS, true);
	config = make_config(1, 1, 2);
	begin_search(&config);
	CHECK_STR(lease.client.problem, "All slots from 1 to 2 are taken.");
	CHECK_EQ(nsaid, 1);
	registry.record[2].present = 0;
	registry.record[3].present = 0;
	reply_until(SF_ASK_CLAIM);
	CHECK_EQ(lease.client.ask.record.node, 2);

	/* another server got the slot: read again, and say who it was */
	write_by_other(2, START_MS, true);
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	reply_to(SF_ASK_READ);
	CHECK_STR(lease.client.problem, "All slots from 1 to 2 are taken.");
}

/* Server 1 has crashed several times, each time with another slot. */
static void
leave_reserved(int n)
{
	prepare();
	for (int i = 0; i < n; i++)
	{
		write_by_other(i, START_MS + 5000 + i, false);
		registry.record[i].server = 1;
	}
}

/*
 * The order of choice: held before, and released, each the oldest first; never
 * used; expired.
 */
static void
test_choice(void)
{
	SfLeaseConfig config = make_config(1, 0, 3);
	static const uint32_t expected[] = {3, 1, 2, 0};

	prepare();
	write_by_other(0, START_MS - 9, false);
	write_by_other(1, START_MS - 5, false);
	registry.record[1].released = true;
	write_by_other(3, START_MS - 1, false);
	registry.record[3].server = 1;
	for (int i = 0; i < 4; i++)
	{
		begin_search(&config);
		CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
		CHECK_EQ(lease.client.ask.record.node, expected[i]);
		write_by_other(expected[i], START_MS, true);
	}

	/* many times: a random choice would also find it now and then */
	for (int round = 0; round < 80; round++)
	{
		bool		held = round % 2 == 0;
		int			oldest = round / 2 % 4;

		prepare();
		for (int i = 0; i < 4; i++)
		{
			write_by_other(i, START_MS - (i == oldest ? 9 : i), false);
			registry.record[i].released = !held;
			registry.record[i].server = held;
		}
		begin_search(&config);
		CHECK_EQ(lease.client.ask.record.node, oldest);
	}

	/* a server that crashes in a loop does not use up the slots */
	leave_reserved(3);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_NOTHING);
	CHECK_STR(lease.client.problem, "This server has left 3 slots reserved, and only 1 are free.");
	CHECK_CONTAINS(lease.client.remedy, "It leases again at 2024-01-01T00:01:45");
	CHECK_CONTAINS(lease.client.remedy, "SELECT @extschema@.snowflake_registry_release(0::bigint);");
	reply_until(SF_ASK_CLAIM);
	CHECK(lease.client.ask.record.node < 3);

	/* but takes another one if an administrator has freed one */
	leave_reserved(3);
	registry.record[0].released = true;
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	CHECK_EQ(lease.client.ask.record.node, 3);

	/* and while more are free */
	leave_reserved(3);
	config = make_config(1, 0, 6);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	CHECK(lease.client.ask.record.node >= 3);
	config = make_config(1, 0, 5);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_NOTHING);

	/* a number outside of its own range counts neither way */
	config = make_config(1, 3, 3);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	CHECK_EQ(lease.client.ask.record.node, 3);
}

/*
 * A claim that a reading finds is held, and is extended at once.  Nothing is
 * issued under it before that extension is acknowledged.
 */
static void
check_unconfirmed_claim(uint32_t node)
{
	CHECK_EQ(lease.state, SF_LEASE_HALTED);
	CHECK(strstr(last_said, "is leased") == NULL);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_EXTEND);
	CHECK_EQ(lease.client.ask.version, registry.record[node].version);
	reply();
	CHECK(may_issue());
	CHECK_EQ(lease.right.node, node);
	CHECK_EQ(lease.right.until, registry.record[node].until);
	CHECK_CONTAINS(last_said, "is leased.");
}

/*
 * An answer is lost.  A reading finds the write, and the write counts when
 * another write on top of it is acknowledged.
 */
static void
test_lost_answers(void)
{
	SfLeaseConfig config = make_config(1, 0, 3);
	SfAsk		first;
	int64_t		version;
	uint32_t	node;

	/* a claim that was made */
	prepare();
	begin_search(&config);
	node = lease.client.ask.record.node;
	CHECK_EQ(apply(&lease.client.ask, now.monotonic_ms, &version), SF_RESULT_DONE);
	live(500);
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK_STR(last_said, "WARNING: The registry did not answer in time.");
	reply_to(SF_ASK_READ);
	check_unconfirmed_claim(node);

	/*
	 * a claim that may still be made: no other slot is tried, and it is made
	 */
	prepare();
	begin_search(&config);
	first = lease.client.ask;
	live(500);
	for (int i = 0; i < 20; i++)
	{
		reply_until(SF_ASK_CLAIM);
		CHECK_EQ(lease.client.ask.record.node, first.record.node);
		CHECK_EQ(lease.client.ask.version, first.version);
		CHECK(lease.client.ask.record.write_id != first.record.write_id);
		if (i < SF_CLIENT_PENDING - 2)
			live(500);
		else
			break;
	}
	CHECK_EQ(apply(&first, now.monotonic_ms, &version), SF_RESULT_DONE);
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	reply_to(SF_ASK_READ);
	check_unconfirmed_claim(first.record.node);

	/* the same with an extension */
	prepare_held(1);
	reply_until(SF_ASK_EXTEND);
	first = lease.client.ask;
	live(500);
	CHECK(may_issue());
	CHECK_EQ(lease.right.until, START_MS + 9000);
	reply_until(SF_ASK_EXTEND);
	CHECK_EQ(apply(&first, now.monotonic_ms, &version), SF_RESULT_DONE);
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	CHECK_EQ(lease.right.until, START_MS + 9000);
	reply_to(SF_ASK_READ);
	CHECK(may_issue());
	CHECK_EQ(lease.right.until, START_MS + 9000);
	reply_until(SF_ASK_EXTEND);
	CHECK(lease.client.ask.record.until >= first.record.until);
	reply();
	CHECK_EQ(lease.right.until, now_tick() + 9000);

	/* or the registry answers that it does not know */
	prepare_held(1);
	reply_until(SF_ASK_EXTEND);
	reply_as(SF_RESULT_UNKNOWN, "Timed out.");
	CHECK_EQ(lease.right.until, START_MS + 9000);
	CHECK_STR(lease.client.problem, "The registry answered: Timed out.");
	reply_to(SF_ASK_READ);
	CHECK_EQ(lease.right.until, START_MS + 9000);
	first = lease.client.ask;

	/* the answer comes after all, and is ignored */
	{
		SfAnswer	late = {.number = first.number - 1, .version = 1};
		SfRight		right = lease.right;

		sf_lease_answer(&lease, now, &late);
		CHECK(memcmp(&right, &lease.right, sizeof(right)) == 0);
	}
}

/*
 * Each kind of failure has a sentence that all may read, and its own remedy.
 */
static const char *
get_part(const char *part)
{
	static char text[100];

	if (strcmp(part, "user") == 0)
		return NULL;
	if (strcmp(part, "export") == 0 || strcmp(part, "root") == 0)
		return "export ETCDCTL_ENDPOINTS=http://a:1 ETCDCTL_USER=u;";
	if (strcmp(part, "psql") == 0)
		return "psql 'postgresql://u@a:1/d'";
	if (strcmp(part, "keeper") == 0)
		return "~/.pgpass of this server's account";
	snprintf(text, sizeof(text), "<%s>", part);
	return text;
}

/* Return the remedy, which has at most 60 words with the advice to stay. */
static const char *
remedy_for(const char *kind, SfFailure failure)
{
	static char text[SF_REMEDY_SIZE];
	int			words = 18;

	sf_registry_remedy(text, sizeof(text), kind, failure, get_part, "interval '3600 s', interval '5 s', '0000000000000007'");
	for (const char *p = text; *p != '\0'; p++)
		words += *p != ' ' && (p[1] == ' ' || p[1] == '\0');
	if (words > 60)
		printf("%s %d: %d words: %s\n", kind, failure, words, text);
	CHECK(words <= 60);
	CHECK(strpbrk(text, "{}") == NULL);
	return text;
}

static void
test_failures(void)
{
	static const char *const kinds[] = {"postgresql", "etcd", "zookeeper"};
	SfAnswer	lost = {
		.result = SF_RESULT_REFUSED, .failure = SF_FAILURE_LOST,
		.message = "It has failed over."
	};
	char		text[300];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		for (int f = 0; f < SF_FAILURES; f++)
		{
			CHECK(sf_registry_failure(f)[0] != '\0');
			CHECK(strlen(sf_registry_failure(f)) < SF_REASON_SIZE);
			CHECK(remedy_for(kinds[i], f)[0] != '\0');
		}
		CHECK_CONTAINS(remedy_for(kinds[i], SF_FAILURE_UNREACHABLE), "start ");
		CHECK_CONTAINS(remedy_for(kinds[i], SF_FAILURE_TIMEOUT), "raise snowflake.lease_timeout");
	}
	CHECK_CONTAINS(remedy_for("postgresql", SF_FAILURE_PERMISSION), "SELECT snowflake_registry.grant(<regrole>, false);");
	CHECK_CONTAINS(remedy_for("etcd", SF_FAILURE_PERMISSION), "etcdctl role grant-permission");
	CHECK_CONTAINS(remedy_for("zookeeper", SF_FAILURE_PERMISSION), "setAcl");
	CHECK_CONTAINS(remedy_for("etcd", SF_FAILURE_DATABASE), "log");
	CHECK_CONTAINS(remedy_for("etcd", SF_FAILURE_FULL), "etcdctl alarm disarm");
	CHECK_CONTAINS(remedy_for("etcd", SF_FAILURE_TOO_LONG), "etcdctl get --prefix --keys-only <prefix>/");
	CHECK_CONTAINS(remedy_for("etcd", SF_FAILURE_LOGIN), "etcdctl user passwd <USER>");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		CHECK_STR(remedy_for(kinds[i], SF_FAILURE_LOST), "Set snowflake.registry to what SHOW snowflake.registry; says on a server that makes IDs, and restart if that differs. Only if no server leases from another, see \"A registry that goes back\" in doc/leases.md; arguments: interval '3600 s', interval '5 s', '0000000000000007'");
		CHECK_STR(remedy_for(kinds[i], SF_FAILURE_ANOTHER), "Set snowflake.registry to what SHOW snowflake.registry; says on a server that makes IDs, and restart if that differs. Only if no server leases from another, see \"Another registry\" in doc/leases.md; arguments: interval '3600 s', interval '5 s', '0000000000000007'");
	}
	CHECK_CONTAINS(remedy_for("postgresql", SF_FAILURE_CERTIFICATE), "openssl s_client -starttls postgres -connect <address> </dev/null | openssl x509 -noout -issuer -dates; Replace an expired certificate there (ssl_cert_file), and reload;");

	/* without room for what the setting says: what it is */
	sf_registry_remedy(text, sizeof(text), "postgresql", SF_FAILURE_PERMISSION, get_part, "");
	CHECK_CONTAINS(text, "In database <database> of");
	sf_registry_remedy(text, strlen(text), "postgresql", SF_FAILURE_PERMISSION, get_part, "");
	CHECK_CONTAINS(text, "In database <DATABASE> of");
	CHECK_CONTAINS(remedy_for("another", SF_FAILURE_LOGIN), "log");

	/* the lease reports what the answer says */
	prepare_held(0);
	reply_until(SF_ASK_EXTEND);
	reply_as(SF_RESULT_REFUSED, "user \"snow\" may not.");
	CHECK_STR(lease.client.problem, "The registry answered: user \"snow\" may not.");
	CHECK_STR(lease.client.public_problem, sf_registry_failure(SF_FAILURE_OTHER));

	/* and how long a recovery must reserve */
	lease.config.registry_kind = "postgresql";
	lease.config.reserve_ms = 3600 * 1000;
	reply_until(SF_ASK_READ);
	lost.number = lease.client.ask.number;
	sf_lease_answer(&lease, now, &lost);
	CHECK_CONTAINS(lease.client.remedy, "Do not restart this server before ");
	CHECK(strstr(lease.client.remedy, "unless the registry answers") == NULL);
	CHECK_CONTAINS(lease.client.remedy, "\"A registry that goes back\" in doc/leases.md; arguments: interval '3600 s', interval '5 s', '");
}

static void
test_fence(void)
{
	SfLeaseConfig config;

	/* another server has claimed the slot */
	prepare_held(1);
	live(900);
	write_by_other(1, lease.right.until, true);
	CHECK_EQ(reply_to(SF_ASK_EXTEND), SF_RESULT_CONFLICT);
	CHECK(may_issue());			/* up to the acknowledged until */
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
	reply();
	CHECK(!may_issue());
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK_CONTAINS(last_said, "WARNING: The lease of node id 1 is lost: another server has claimed it");
	CHECK_EQ(lease.config.claimant.last_node, 1);
	CHECK_STR(lease.client.remedy, "It will be claimed again when it is free.");

	/* another server claimed it under our own name */
	prepare_held(1);
	lease.config.claimant.last_node = 2;
	registry.record[1].version = ++registry.revision;
	registry.record[1].write_id = rnd();
	reply_to(SF_ASK_EXTEND);
	reply();
	CHECK(!may_issue());
	CHECK_CONTAINS(last_said, "or is a copy of this server");
	CHECK_STR(lease.client.remedy, "Another one will be claimed.");

	/* a server that stops will claim nothing */
	prepare_held(1);
	live(100);
	write_by_other(1, lease.right.until, true);
	sf_lease_release(&lease, now, now_tick());
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_ENDED);
	CHECK_CONTAINS(last_said, "another server has claimed it");
	CHECK_STR(lease.client.remedy, "");

	/* the registry is empty, and this server never knew it otherwise */
	prepare();
	memset(&registry, 0, sizeof(registry));
	config = make_config(1, 1, 1);
	begin_search(&config);
	CHECK_STR(lease.client.problem, "The registry was never initialized.");
	CHECK_CONTAINS(lease.client.remedy, "have an administrator run this.");
	CHECK(strstr(lease.client.remedy, "recover") == NULL);
}

/*
 * A recovered registry gives away nothing that a server still has.  The server
 * uses that up, unless it was frozen, or the registry is for another layout.
 */
static void
test_recovery(void)
{
	for (int i = 0; i < 3; i++)
	{
		SfRight		right;

		prepare_held(1);
		right = lease.right;
		recover_empty(START_MS + 20000);
		if (i == 1)
			strcpy(layout_text, "timestamp:41 node:12 sequence:10");
		if (i == 2)
			pass(4000);
		lease.client.peers_due_ms = now.monotonic_ms;
		reply_to(SF_ASK_READ);
		sf_layout_print(&layout, layout_text, sizeof(layout_text));
		if (i == 0)
		{
			CHECK_STR(lease.client.problem, "The registry was recovered, and extends no lease from before.");
			CHECK_CONTAINS(lease.client.remedy, "before 2024-01-01T00:01:49");
			CHECK_CONTAINS(lease.client.remedy, "again at 2024-01-01T00:02:00");
			nsaid = 0;
			while (may_issue() && now_tick() < right.until)
			{
				CHECK_EQ(lease.right.until, right.until);
				live(100);
				if (lease.client.ask.kind == SF_ASK_READ)
					reply();
			}
			CHECK_EQ(nsaid, 1);
			CHECK(right.until - now_tick() < 2200);
		}
		CHECK(!may_issue());
		CHECK_CONTAINS(last_said, "the registry is not the one that it was");
		reply_to(SF_ASK_READ);
		CHECK_CONTAINS(lease.client.problem, "After its recovery the registry lets no server claim a slot before 2024-01-01T00:02:00");
		reply_to(SF_ASK_CLAIM);
		CHECK(may_issue());
		CHECK_EQ(lease.right.start, START_MS + 20000);
	}
}

/*
 * Refuse the next write with this message.  Return how many lines are logged.
 */
static int
refuse_write(const char *message)
{
	int			before = nsaid;

	reply_until(SF_ASK_EXTEND);
	reply_as(SF_RESULT_REFUSED, message);
	return nsaid - before;
}

/* A problem is logged when it begins, and then every minute. */
static void
test_problems(void)
{
	char		text[40];
	int			n = 0;

	/* extend all the time; a long until, since its end would be logged too */
	prepare_held(0);
	lease.config.reserve_ms = 3000 * 1000;
	lease.right.until += 1500 * 1000;
	ttl_ms = 3000 * 1000;
	CHECK_EQ(refuse_write("It is full."), 1);
	CHECK_STR(last_said, "WARNING: The registry answered: It is full.");
	CHECK_EQ(refuse_write("It is full."), 0);
	CHECK_EQ(refuse_write("It is read-only."), 1);
	CHECK_STR(last_said, "WARNING: The registry answered: It is read-only.");

	for (int64_t end = now.monotonic_ms + 600000; now.monotonic_ms < end;)
		n += refuse_write("It is read-only.");
	CHECK(n >= 8 && n <= 11);

	/* another number is the same problem */
	n = 0;
	for (int i = 0; i < 8; i++)
	{
		snprintf(text, sizeof(text), "Only %d bytes are left.", 8 - i);
		n += refuse_write(text);
	}
	CHECK_EQ(n, 1);

	/* a problem that was over is logged again */
	reply_to(SF_ASK_EXTEND);
	CHECK_STR(last_said, "The problem with the registry is over.");
	CHECK_STR(lease.client.problem, "");
	ttl_ms = TTL_MS;
}

/*
 * While the registry is refused, a held lease lasts up to its until, and
 * nothing is written.  After the until nothing is issued.
 */
static void
check_that_it_waits(const char *problem)
{
	SfRight		right = lease.right;

	for (int i = 0; i < 400; i++)
	{
		if (lease.client.ask.kind != SF_ASK_NOTHING)
		{
			CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
			reply();
		}
		live(100);
		CHECK(may_issue());
		CHECK_EQ(lease.right.node, right.node);
		CHECK_EQ(lease.right.until, right.until);
	}
	CHECK_CONTAINS(lease.client.problem, problem);
	CHECK_STR(lease.client.public_problem, lease.client.problem);
	CHECK_CONTAINS(lease.client.remedy, "interval '90 s'");

	/* there is no call, which could be pasted */
	CHECK(strstr(lease.client.remedy, "recover(") == NULL);
	CHECK_CONTAINS(lease.client.remedy, strstr(problem, "has lost data") != NULL ?
				   "see \"A registry that goes back\"" : "see \"Another registry\"");
	CHECK(now_tick() > right.until);
}

/*
 * An administrator recovers the registry, and names the generation that the
 * remedy names, if it is another one.  The slot is claimed after the floor.
 */
static void
check_that_it_recovers(void)
{
	int64_t		floor = now_tick() + 12000;

	char		arguments[100];

	snprintf(arguments, sizeof(arguments), "interval '90 s', interval '5 s', '%016" PRIx64 "'", age.known.generation);
	CHECK_CONTAINS(lease.client.remedy, arguments);
	registry.initialized = true;
	renew(age.known.generation, floor);
	reply_to(SF_ASK_CLAIM);
	CHECK(may_issue());
	CHECK_EQ(lease.right.start, floor);
	CHECK_STR(lease.client.problem, "");
}

/* The next life of the server claims the slot when it is free. */
static void
prepare_held_again(uint32_t node)
{
	SfLeaseConfig config = make_config(1, node, node);

	pass(20000);
	begin(&config);
	reply_to(SF_ASK_CLAIM);
	CHECK_EQ(lease.state, SF_LEASE_HELD);
}

/* A registry has lost data, and the server remembers what it held. */
static void
test_loss(void)
{
	Registry	old;
	SfLeaseConfig config;
	SfKnown		known;
	int			said;

	/* it is empty */
	prepare_held(1);
	memset(&registry, 0, sizeof(registry));
	CHECK_EQ(reply_to(SF_ASK_EXTEND), SF_RESULT_CONFLICT);
	reply();
	CHECK_CONTAINS(last_said, "WARNING: The registry is empty, and this server has leased from one");
	check_that_it_waits("The registry is empty");
	for (int i = 0; i < MAX_SLOTS; i++)
		registry.record[i].node = i;
	check_that_it_recovers();

	/* our extension is lost */
	prepare_held(1);
	old = registry;
	reply_to(SF_ASK_EXTEND);
	registry = old;
	CHECK_EQ(reply_to(SF_ASK_EXTEND), SF_RESULT_CONFLICT);
	said = nsaid;
	reply();
	CHECK_EQ(nsaid, said + 1);
	CHECK_CONTAINS(last_said, "WARNING: The registry has lost data: it is older");
	check_that_it_waits("The registry has lost data: it is older");
	CHECK(nsaid <= said + 3);	/* once a minute, and the expiry */
	check_that_it_recovers();
	CHECK_CONTAINS(last_said, "Node id 1 is leased.");

	/*
	 * our record is as before, but another server's write is lost; ours tells
	 */
	prepare_held(1);
	old = registry;
	write_by_other(2, START_MS, false);
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	registry = old;
	CHECK_EQ(reply_to(SF_ASK_EXTEND), SF_RESULT_DONE);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);

	/* meanwhile the others have written more than was lost */
	registry.revision += 5;
	write_by_other(2, START_MS, false);
	reply();
	check_that_it_waits("The registry has lost data: it is older");
	check_that_it_recovers();

	/* a server that looks for a slot notices the same by a reading */
	prepare_held(1);
	old = registry;
	reply_to(SF_ASK_EXTEND);
	known = age.known;
	registry = old;
	config = make_config(1, 0, 3);
	for (int i = 0; i < 2; i++)
	{
		begin(&config);
		if (i == 1)				/* a restart with the file on disk */
			sf_age_init(&age, &known, &layout);
		reply();
		CHECK_EQ(lease.client.ask.kind, i == 0 ? SF_ASK_CLAIM : SF_ASK_NOTHING);
	}
	CHECK_CONTAINS(lease.client.problem, "it is older");

	/* a server that stops writes nothing to such a registry */
	prepare_held(1);
	old = registry;
	reply_to(SF_ASK_EXTEND);
	registry = old;
	sf_lease_release(&lease, now, now_tick());
	CHECK_EQ(lease.client.ask.kind, SF_ASK_RELEASE);
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_ENDED);
	CHECK(!registry.record[1].released);

	/* the remedy reserves enough time for this server */
	prepare_held(1);
	lease.config.reserve_ms = 600 * 1000;
	reply_to(SF_ASK_EXTEND);
	registry.initialized = false;
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	CHECK_CONTAINS(lease.client.remedy, "interval '600 s', interval '5 s', '");
	lease.config.reserve_ms = 9000; /* the setting has changed since */
	registry.initialized = true;
	registry.record[1].version = 0;
	renew(0, now_tick() + 95000);
	reply_to(SF_ASK_READ);
	CHECK_CONTAINS(lease.client.problem, "it would give away what it has confirmed");
	CHECK_CONTAINS(lease.client.remedy, "arguments: interval '");
	renew(0, now_tick() + 1000 *
		  strtoll(strstr(lease.client.remedy, "interval '") + strlen("interval '"), NULL, 10));
	reply_to(SF_ASK_READ);
	CHECK(strstr(lease.client.problem, "lost") == NULL);

	/* a reading shows that another server has claimed the slot since */
	prepare_held(1);
	old = registry;
	reply_to(SF_ASK_EXTEND);
	registry = old;
	write_by_other(1, START_MS + 1000, true);
	registry.record[1].version = old.record[1].version;
	registry.record[1].epoch++;
	reply_to(SF_ASK_EXTEND);
	said = nsaid;
	reply();
	CHECK(!may_issue());
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK_EQ(nsaid, said + 2);	/* the loss, and its reason */
	CHECK_CONTAINS(lease.client.problem, "it is older");

	/* the same if the registry has lost several claims */
	prepare_held(1);
	sf_lease_release(&lease, now, now_tick());
	reply();
	old = registry;
	prepare_held_again(1);
	prepare_held_again(1);
	reply_to(SF_ASK_EXTEND);
	registry = old;
	write_by_other(1, now_tick() + 9000, true);
	registry.record[1].epoch++;
	registry.record[1].since_ms = now.wall_ms;
	CHECK(registry.record[1].epoch < lease.record.epoch);
	reply_to(SF_ASK_READ);
	CHECK(!may_issue());
	CHECK_CONTAINS(lease.client.problem, "The registry has lost data");
	CHECK_CONTAINS(lease.client.problem, "it is older");

	/* the holder before us has not claimed the slot since */
	prepare_held(1);
	write_by_other(1, START_MS, false);
	registry.record[1].since_ms = now.wall_ms;
	old = registry;
	prepare_held_again(1);
	reply_to(SF_ASK_EXTEND);
	registry = old;
	reply_to(SF_ASK_READ);
	check_that_it_waits("The registry has lost data: it is older");
}

/*
 * The registry was made anew, and its floor is below our until.  From the
 * floor on, others may issue under our slot.
 */
static void
test_low_floor(void)
{
	prepare_held(1);
	recover_empty(now_tick());
	CHECK_EQ(reply_to(SF_ASK_EXTEND), SF_RESULT_CONFLICT);
	reply();
	CHECK(!may_issue());
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK_CONTAINS(lease.client.problem, "it would give away what it has confirmed");
	for (int i = 0; i < 200; i++)
	{
		if (lease.client.ask.kind != SF_ASK_NOTHING)
		{
			CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
			reply();
		}
		live(100);
	}
	check_that_it_recovers();

	/* a server that stops has nothing left to give back */
	prepare_held(1);
	init_registry(now_tick());
	sf_lease_release(&lease, now, now_tick());
	CHECK_EQ(reply(), SF_RESULT_CONFLICT);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_ENDED);
}

/* Go on as another process, with other settings. */
static int
resume(void)
{
	SfLeaseConfig config = make_config(1, 0, 3);

	config.age = &age;
	config.reserve_ms = 12000;
	return sf_lease_resume(&lease, &config, &client_config, now);
}

/* Another process goes on with the lease of one that has ended. */
static void
test_resume(void)
{
	SfLeaseConfig config;
	int64_t		version;
	int64_t		until;

	/* the right stays, and is told anew; it is extended after a reading */
	prepare_held(1);
	until = lease.right.until;
	pass(500);
	CHECK_EQ(resume() & ~SF_CHANGED_ASK, SF_CHANGED_RIGHT | SF_CHANGED_REMAINS);
	CHECK(may_issue());
	CHECK_EQ(lease.right.until, until);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
	reply();
	reply_to(SF_ASK_EXTEND);
	CHECK_EQ(lease.right.until, now_tick() + 12000);
	CHECK_EQ(lease.record.node, 1);

	/* a write in flight was made */
	prepare_held(1);
	reply_until(SF_ASK_EXTEND);
	CHECK_EQ(apply(&lease.client.ask, now.monotonic_ms, &version), SF_RESULT_DONE);
	resume();
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
	reply();
	CHECK(may_issue());
	CHECK_EQ(lease.record.version, version);

	/* so was a claim */
	prepare();
	config = make_config(1, 1, 1);
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	CHECK_EQ(apply(&lease.client.ask, now.monotonic_ms, &version), SF_RESULT_DONE);
	CHECK_EQ(resume() & ~SF_CHANGED_ASK, SF_CHANGED_RIGHT);
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_HALTED);

	/* a fence that was not published */
	prepare_held(1);
	init_registry(now_tick());
	reply_to(SF_ASK_EXTEND);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
	CHECK(resume() & SF_CHANGED_RIGHT);
	CHECK(!may_issue());

	/* too late: it may be a copy */
	prepare_held(1);
	pass(900);
	CHECK(resume() & SF_CHANGED_RIGHT);
	CHECK_EQ(lease.state, SF_LEASE_HALTED);
}

/* Another registry, or an old primary from before a recovery. */
static void
test_other_registry(void)
{
	Registry	old;
	Registry	renewed;

	prepare_held(1);
	old = registry;
	renew(0, START_MS + 12000);
	reply_to(SF_ASK_CLAIM);
	CHECK(may_issue());
	renewed = registry;
	registry = old;
	registry.floor = lease.right.until;
	reply_to(SF_ASK_READ);
	CHECK_CONTAINS(last_said, "WARNING: The registry is another one than that from which this server has leased.");
	check_that_it_waits("The registry is another one");
	check_that_it_recovers();

	/* which is then the only one for this server */
	registry = renewed;
	reply_to(SF_ASK_READ);
	CHECK(!may_issue());
	CHECK_CONTAINS(lease.client.problem, "The registry is another one");

	/* the recovered registry is there again */
	prepare_held(1);
	renewed = registry;
	init_registry(lease.right.until);
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	check_that_it_waits("The registry is another one");
	registry = renewed;
	reply_to(SF_ASK_EXTEND);
	CHECK(lease.right.until > now_tick());
	CHECK_STR(lease.client.problem, "");

	/* another one gives away what this server holds: it stops at once */
	prepare_held(1);
	init_registry(lease.right.until - 1);
	lease.client.peers_due_ms = now.monotonic_ms;
	reply_to(SF_ASK_READ);
	CHECK(!may_issue());
	CHECK_CONTAINS(last_said, "The registry is another one");
}

/* An expiry is logged once each time, and not if the lease is released. */
static void
test_expiry(void)
{
	int64_t		end_tick = layout.end_tick;

	for (int i = 0; i < 2; i++)
	{
		if (i == 0)
			prepare_held(3);
		else
		{
			reply_to(SF_ASK_EXTEND);
			CHECK_STR(last_said, "The problem with the registry is over.");
		}
		while (now_tick() + 100 < lease.right.until)
			live(100);
		nsaid = 0;
		live(lease.right.until - now_tick() - 1);
		CHECK(strstr(last_said, "expired") == NULL);
		CHECK(now_tick() < lease.right.until);
		live(1);
		CHECK_STR(last_said, "WARNING: The lease of node id 3 has expired: no ID is made before the registry extends it. The registry did not answer in time.");
		live(10000);
		CHECK_EQ(nsaid, 1);
	}

	/* the registry's answer is shown as a whole */
	prepare_held(3);
	while (now_tick() + 100 < lease.right.until)
		live(100);
	live(lease.right.until - now_tick() - 1);
	memset(lease.client.problem, 'x', sizeof(lease.client.problem) - 1);
	live(1);
	CHECK_CONTAINS(last_said, "has expired");
	CHECK_CONTAINS(last_said, lease.client.problem);

	/* at the layout's end the lease is not extended */
	prepare_held(3);
	lease.record.until = lease.right.until = now_tick() + 300;
	layout.end_tick = layout.epoch_tick + lease.right.until;
	nsaid = 0;
	live(400);
	CHECK(now_tick() > lease.right.until);
	CHECK_EQ(nsaid, 0);
	layout.end_tick = end_tick;
}

/*
 * The registry is gone.  The lease lasts; the log has the problem and its
 * end.
 */
static void
test_outage(void)
{
	int64_t		last_number;
	int			tries = 0;

	prepare_held(0);
	nsaid = 0;
	last_number = lease.client.ask.number;
	for (int i = 0; i < 3000; i++)
	{
		live(100);
		CHECK(lease.wake_ms > now.monotonic_ms);
		CHECK(lease.wake_ms <= now.monotonic_ms + 500);
		tries += lease.client.ask.number != (uint64_t) last_number;
		last_number = lease.client.ask.number;
	}
	CHECK(may_issue());
	CHECK_EQ(lease.right.until, START_MS + 9000);
	CHECK(tries >= 300 / 6 && tries <= 300 / 3 + 10);
	CHECK_EQ(nsaid, 6);
	CHECK_STR(lease.client.problem, "The registry did not answer in time.");
	CHECK_CONTAINS(lease.client.public_problem, "does not answer in time");
	CHECK_CONTAINS(lease.client.remedy, "etcdctl endpoint status");
	reply_to(SF_ASK_EXTEND);
	CHECK(lease.right.until > now_tick() + 8500);
	CHECK_STR(last_said, "The problem with the registry is over.");
	CHECK_STR(lease.client.problem, "");

	/* a full quota refuses writes, but lets the server stay present */
	prepare_held(0);
	ttl_ms = 30000;
	lease.config.keepalive_ms = 10000;
	for (int i = 0; i < 500; i++)
	{
		if (lease.client.ask.kind == SF_ASK_EXTEND)
			reply_as(SF_RESULT_REFUSED, "Database space exceeded.");
		else if (lease.client.ask.kind != SF_ASK_NOTHING)
			reply();
		live(100);
		expire_presence(now.monotonic_ms);
		CHECK(registry.record[0].present != 0);
	}
	CHECK_STR(lease.client.problem, "The registry answered: Database space exceeded.");
	CHECK_EQ(lease.right.until, START_MS + 9000);
	CHECK_EQ(nsaid, 3);
	reply_to(SF_ASK_EXTEND);
	CHECK(lease.right.until > now_tick() + 8500);
	ttl_ms = TTL_MS;
}

/* A presence that was lost comes back with the next write. */
static void
test_presence(void)
{
	prepare_held(0);
	registry.record[0].present = 0;
	CHECK_EQ(reply_to(SF_ASK_KEEPALIVE), SF_RESULT_ABSENT);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_EXTEND);
	CHECK(lease.client.ask.presence);
	reply();
	CHECK(registry.record[0].present == registry.record[0].owner);
	reply_until(SF_ASK_EXTEND);
	CHECK(!lease.client.ask.presence);
}

static void
test_interruption(void)
{
	SfLeaseConfig config = make_config(1, 0, 3);
	SfAsk		before;
	int64_t		version;

	for (int kind = 0; kind < 4; kind++)
	{
		int64_t		until;

		/* frozen; suspended; the clock set forward, and back */
		prepare_held(0);
		until = lease.right.until;
		if (kind == 0)
			pass(900);
		else if (kind == 1)
			pass(3600000);
		else
			now.wall_ms += kind == 2 ? 900 : -900;
		sf_lease_step(&lease, now);
		CHECK(!may_issue());
		CHECK_CONTAINS(last_said, "frozen, or the wall clock was set");
		for (int i = 0; i < 4 && !may_issue(); i++)
			reply();
		CHECK(may_issue());
		CHECK(lease.right.until >= now_tick() + 9000);
		CHECK(lease.right.until >= until);
		CHECK(registry.record[0].until == lease.right.until);
		CHECK_EQ(lease.state, SF_LEASE_HELD);
	}

	/* a write that began before the interruption does not end the halt */
	prepare_held(0);
	reply_until(SF_ASK_EXTEND);
	before = lease.client.ask;
	CHECK_EQ(apply(&before, now.monotonic_ms, &version), SF_RESULT_DONE);
	pass(2000);
	{
		SfAnswer	answer = {.number = before.number, .version = version};

		sf_lease_answer(&lease, now, &answer);
	}
	CHECK(!may_issue());
	CHECK_EQ(lease.client.ask.kind, SF_ASK_READ);
	reply();
	CHECK(!may_issue());
	for (int i = 0; i < 4 && lease.client.ask.kind != SF_ASK_EXTEND; i++)
		reply();
	reply();
	CHECK(may_issue());

	/* and neither does such a claim */
	prepare();
	begin_search(&config);
	CHECK_EQ(apply(&lease.client.ask, now.monotonic_ms, &version), SF_RESULT_DONE);
	pass(2000);
	sf_lease_step(&lease, now);
	reply_to(SF_ASK_READ);
	CHECK_EQ(lease.state, SF_LEASE_HALTED);
	for (int i = 0; i < 4 && !may_issue(); i++)
	{
		if (lease.client.ask.kind == SF_ASK_NOTHING)
			live(10);
		reply();
	}
	reply_to(SF_ASK_EXTEND);
	CHECK(may_issue());
}

/* Let time pass, with a registry that answers. */
static void
live_with(int64_t ms)
{
	for (; ms > 0; ms -= 100)
	{
		live(100);
		for (int i = 0; i < 10 && lease.client.ask.kind != SF_ASK_NOTHING; i++)
			reply();
	}
}

/* Let our wall clock be too fast, and no other one. */
static void
live_too_fast(int64_t ms)
{
	for (; ms > 0; ms -= 100)
	{
		now.wall_ms += 75;
		clock_ahead_ms -= 75;
		live_with(100);
	}
}

/*
 * The server's clock is wrong; or the registry's is, and all servers say so.
 */
static void
test_clock(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);

	for (int peers = 0; peers <= 3; peers++)
	{
		prepare();
		for (int i = 1; i <= peers; i++)
		{
			write_by_other(i, START_MS, true);
			registry.record[i].offset_ms = i == 2 ? 0 : 7000;
		}
		clock_ahead_ms = -7000;
		begin(&config);
		for (int i = 0; i < 2; i++)
		{
			reply();
			if (peers == 1 || peers == 3)
				break;
			CHECK_STR(lease.client.problem, "The wall clock is 7000 ms ahead of that of the registry.");
			CHECK_CONTAINS(lease.client.remedy, "Set the server's clock right");
			reply_until(SF_ASK_READ);
		}
		CHECK_EQ(lease.client.ask.kind,
				 peers == 1 || peers == 3 ? SF_ASK_CLAIM : SF_ASK_READ);
	}

	/* the registry names the servers whose clocks agreed with its own */
	prepare();
	write_by_other(1, START_MS, true);
	clock_ahead_ms = -7000;
	begin_search(&config);
	CHECK_STR(lease.client.problem, "The wall clock is 7000 ms ahead of that of the registry; most other servers agreed with that clock when they last wrote.");

	/* a held lease lasts up to the acknowledged until */
	prepare_held(0);
	live_too_fast(8000);
	CHECK(may_issue());
	CHECK(lease.right.until <= START_MS + 8000 + 9000 + 5000);
	CHECK(lease.right.until < now_tick() + 6000);
	CHECK_CONTAINS(lease.client.problem, " ms ahead of that of the registry.");

	/*
	 * one warning; none for a difference that the answer's delay can explain
	 */
	for (int slow = 0; slow < 2; slow++)
	{
		prepare_held(0);
		nsaid = 0;
		clock_ahead_ms = -300;
		clock_step_ms = slow ? 300 : 1;
		for (int i = 0; i < 5; i++)
		{
			reply_to(SF_ASK_KEEPALIVE);
			CHECK_EQ(nsaid, slow ? 0 : 1);
		}
		if (!slow)
			CHECK_STR(last_said, "WARNING: The wall clock is 299 ms ahead of that of the registry.");
	}
	prepare_held(0);
	clock_ahead_ms = 300;
	reply_to(SF_ASK_KEEPALIVE);
	CHECK_STR(last_said, "WARNING: The wall clock is 300 ms behind that of the registry.");
}

/* The registry's clock is set, and ours is right: the lease goes on. */
static void
test_clock_of_registry(void)
{
	static const int64_t moves[] = {20000, -10000, 3600000, -3600000};

	for (int i = 0; i < LENGTH(moves); i++)
	{
		snprintf(context, sizeof(context), "moved by %lld",
				 (long long) moves[i]);
		prepare_held(0);
		write_by_other(1, START_MS, true);
		write_by_other(2, START_MS, true);
		CHECK(!sf_client_registry_moved(&lease.client, now));
		nsaid = 0;
		clock_ahead_ms = moves[i];
		live_with(60000);
		CHECK(may_issue());
		CHECK(lease.right.until > now_tick() + 5000);
		CHECK_STR(lease.client.problem, "");
		CHECK(sf_client_registry_moved(&lease.client, now));
		CHECK_EQ(nsaid, 1);
		CHECK_CONTAINS(last_said, moves[i] > 0 ? " behind" : " ahead of");
		CHECK_CONTAINS(last_said, " that of the registry, which has moved against the time since boot: this server's has not.");

		/* our record tells new servers that the registry's clock is wrong */
		CHECK_EQ(registry.record[0].offset_ms, -moves[i]);

		/* that does not excuse our own clock, if it is set or drifts */
		live_too_fast(14000);
		CHECK(lease.right.until < now_tick());
		CHECK(lease.client.problem[0] != '\0');
		CHECK(!sf_client_registry_moved(&lease.client, now));
	}
	context[0] = '\0';

	/* the registry's clock is set right, and then may be wrong once more */
	prepare_held(0);
	clock_ahead_ms = 300;
	live_with(2000);
	nsaid = 0;
	for (int i = 0; i < 2; i++)
	{
		clock_ahead_ms = 7000;
		live_with(20000);
		CHECK_EQ(nsaid, i + 1);
		clock_ahead_ms = 0;
		live_with(2000);
		CHECK(!sf_client_registry_moved(&lease.client, now));
		CHECK_EQ(nsaid, i + 1);
	}
	CHECK(lease.right.until > now_tick() + 5000);
}

/* Endpoints have their own clocks.  One with a wrong clock is avoided. */
static void
test_clock_of_endpoint(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);
	int64_t		until;

	/* at the start */
	prepare();
	nendpoints = 3;
	endpoint_ahead_ms[1] = 10000;
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_NOTHING);
	CHECK_STR(lease.client.problem, "");
	CHECK_STR(last_said, "WARNING: The wall clock is 10 s behind that of endpoint 1 of the registry.");
	reply_until(SF_ASK_CLAIM);
	CHECK_STR(lease.client.problem, "");
	CHECK_EQ(nsaid, 1);
	reply();
	CHECK_EQ(lease.state, SF_LEASE_HELD);
	CHECK_EQ(endpoint, 2);

	/* unless two endpoints agree, or there is no other one */
	for (int n = 1; n <= 2; n++)
	{
		prepare();
		nendpoints = n;
		endpoint_ahead_ms[1] = endpoint_ahead_ms[2] = 10000;
		begin_search(&config);
		live_with(300);
		CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
		CHECK_STR(lease.client.problem, n == 1 ?
				  "The wall clock is 10 s behind that of endpoint 1 of the registry." :
				  "The wall clock is 10 s behind that of endpoint 2 of the registry, and that of endpoint 1.");
	}

	/* while the lease is held */
	prepare_held(0);
	nendpoints = 3;
	live_with(1000);
	CHECK_EQ(endpoint, 1);
	endpoint_ahead_ms[1] = -10000;
	nsaid = 0;
	live_with(60000);
	CHECK_EQ(endpoint, 2);
	CHECK(lease.right.until > now_tick() + 5000);
	CHECK_EQ(registry.record[0].offset_ms, 0);
	CHECK(!sf_client_registry_moved(&lease.client, now));
	CHECK_EQ(nsaid, 1);
	CHECK_CONTAINS(last_said, "ahead of that of endpoint 1 of the registry, which has moved");

	/* another endpoint answers, and its clock is wrong */
	endpoint = 1;
	live_with(1000);
	CHECK_EQ(nsaid, 2);
	CHECK_CONTAINS(last_said, "ahead of that of endpoint 1 of the registry, but not that of endpoint 2.");
	CHECK_EQ(endpoint, 2);

	/* all have moved: then our clock has stood still */
	nsaid = 0;
	clock_ahead_ms = 10000;
	endpoint_ahead_ms[1] = 0;
	until = lease.right.until;
	live_with(20000);
	CHECK_EQ(lease.right.until, until);
	CHECK_CONTAINS(lease.client.problem, "The wall clock is 10 s behind that of endpoint ");
	CHECK_CONTAINS(lease.client.problem, ", and that of endpoint ");
	clock_ahead_ms = 0;
	live_with(10000);
	CHECK(lease.right.until > now_tick() + 5000);
	CHECK_STR(lease.client.problem, "");
}

/* A lease of the life before is resumed, above that life's last ID. */
static void
test_left_over(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);

	prepare_held(0);
	config.claimant.last_held = 0;
	config.claimant.last_write_id = registry.record[0].write_id;
	config.claimant.last_until = START_MS + 700;
	begin_search(&config);
	CHECK_EQ(lease.client.ask.kind, SF_ASK_CLAIM);
	CHECK_EQ(reply(), SF_RESULT_DONE);
	CHECK_EQ(lease.right.start, START_MS + 700);
	CHECK_EQ(lease.right.until, START_MS + 9000);

	/* not if another server has written since, and not below the floor */
	prepare_held(0);
	config.claimant.last_write_id = registry.record[0].write_id;
	registry.record[0].write_id++;
	begin_search(&config);
	CHECK_STR(lease.client.problem, "Slot 0 is still held by the last run of this server, \"host-1\".");
	CHECK_CONTAINS(lease.client.remedy, "This server will claim it when snowflake.lease_presence is over");
	prepare_held(0);
	config.claimant.last_write_id = registry.record[0].write_id;
	registry.floor = START_MS + 1000;
	begin_search(&config);
	reply();
	CHECK_EQ(lease.right.start, START_MS + 1000);
}

static void
lease_from_another(const char *layout_there)
{
	SfLeaseConfig config = make_config(1, 0, 0);
	SfAnswer	answer;

	prepare();
	begin(&config);
	answer = (SfAnswer)
	{
		.number = lease.client.ask.number
	};
	copy_registry(&answer_registry, answer_records);
	strcpy(answer_registry.layout, layout_there);
	answer.registry = &answer_registry;
	sf_lease_answer(&lease, now, &answer);
	CHECK_EQ(lease.state, SF_LEASE_SEARCHING);
}

static void
test_wrong_registry(void)
{
	lease_from_another("timestamp:41 node:8 sequence:14 epoch:1704067200000");
	CHECK_CONTAINS(lease.client.problem, "The registry is for the layout \"timestamp:41 node:8 ");
	CHECK_CONTAINS(lease.client.remedy, "set snowflake.layout = 'timestamp:41 node:8 sequence:14 epoch:2024-01-01' here");

	/* what is no layout is not printed */
	lease_from_another("x' here, and run: DROP DATABASE prod; \\! id\n%s%n");
	CHECK_STR(lease.client.problem, "The registry is for a layout that this version cannot read.");
	CHECK_CONTAINS(lease.client.remedy, "Set snowflake.registry to that of the other servers");
	CHECK(strstr(lease.client.remedy, "DROP") == NULL);
}

/* No until lies beyond the end of the layout. */
static void
test_end_of_layout(void)
{
	SfLeaseConfig config = make_config(1, 0, 0);
	int64_t		end = layout.end_tick - layout.epoch_tick;

	prepare();
	now.wall_ms = EPOCH_MS + end - 3000;
	begin_search(&config);
	reply();
	CHECK_EQ(lease.right.until, end);
	for (int i = 0; i < 10; i++)
	{
		reply_until(SF_ASK_KEEPALIVE);	/* and no extension */
		reply();
	}
}

static bool
set_layout(const char *text)
{
	char		reason[SF_REASON_SIZE];

	if (!sf_layout_parse(&layout, text, reason, sizeof(reason)))
		return false;
	sf_layout_print(&layout, layout_text, sizeof(layout_text));
	return true;
}

/* Records and rights have ticks; everything else has ms. */
static void
test_ticks_of_10_ms(void)
{
	SfLeaseConfig config;

	CHECK(set_layout("timestamp:39 sequence:8 node:16 tick:10ms epoch:2024-01-01"));
	prepare_held(0);
	CHECK_EQ(lease.right.until, (START_MS + 9000) / 10);
	reply_until(SF_ASK_EXTEND);
	CHECK(lease.right.until * 10 - now_tick() < 6000);
	CHECK(lease.right.until * 10 - now_tick() > 5800);
	reply();
	CHECK_EQ(lease.right.until, (now_tick() + 9000) / 10);

	prepare();
	write_by_other(0, (START_MS + 5000) / 10, false);
	config = make_config(1, 0, 0);
	begin_search(&config);
	CHECK_CONTAINS(lease.client.problem, "reserved until 2024-01-01T00:01:45");
	reply_until(SF_ASK_CLAIM);
	CHECK(now_tick() >= START_MS + 2980 && now_tick() < START_MS + 3500);

	/* a claim may begin 2 s ahead, rounded up, and a tick */
	CHECK(set_layout("timestamp:39 sequence:8 node:16 tick:800ms epoch:2024-01-01"));
	for (int ahead = 4; ahead <= 5; ahead++)
	{
		prepare();
		write_by_other(0, now_tick() / 800 + ahead, false);
		begin_search(&config);
		CHECK_EQ(lease.client.ask.kind, ahead == 4 ? SF_ASK_CLAIM : SF_ASK_NOTHING);
	}
	CHECK(set_layout(LAYOUT));
}

/* ---- at random: the world ---- */

/* How a run differs from the assumptions, and which faults it has. */
typedef struct World
{
	const char *name;
	bool		owner_only;		/* only claims compare the version */
	int			slow;			/* one message in this many is late, */
	int64_t		slow_ms;		/* by up to this many ms */
	bool		no_write_id;	/* a record with our name counts as ours */
	bool		jumps;			/* clocks jump, also those of endpoints */
	bool		outages;
	bool		losses;			/* the registry loses all data, or some */
	bool		no_floor;		/* and nobody raises the floor */
	bool		short_lease;	/* a third of the usual length */
	int			clone;			/* 1: of a process that goes on; 2: of a
								 * frozen one */
	bool		left_over;		/* crashed servers resume what they held */
	bool		copy_resumes;	/* copies of their files do so too */
	bool		failovers;		/* some servers still reach the old primary */
	bool		believes_reads; /* a claim that was only read is published */
	bool		goes_back;		/* the registry goes back; all can notice */
	bool		no_memory;		/* and no server remembers what it was */
	bool		moves;			/* all servers move to another registry; some
								 * reach it before */
	bool		ahead;			/* all clocks are far ahead for a while */
	bool		lost_ahead;		/* and it goes back to before that */
} World;

typedef struct Holder
{
	SfLease		lease;
	SfLeaseConfig config;
	enum
	{
		DEAD,
		ALIVE,
		FROZEN
	}			fate;
	uint16_t	life;			/* which issues a timestamp; never 0 */
	uint16_t	worker;			/* which gets answers */
	int64_t		offset_ms;		/* of the clock */
	double		rate;			/* of the clock */
	int64_t		thaw_ms;		/* when a frozen one goes on */
	bool		worker_only;	/* its backends go on meanwhile */
	int64_t		born_ms;		/* when a dead one comes back */
	int64_t		cut_off_ms;		/* until then no message gets through */
	int64_t		stranded_ms;	/* until then it reaches the old primary */
	bool		is_elsewhere;	/* it reaches another registry */
	uint64_t	releasing;

	/* what it remembers of the registry, and what of that is on disk */
	SfAge		age;
	SfKnown		kept;
	int64_t		kept_ms;

	/* its generator */
	int64_t		counter;		/* the last timestamp issued */
	SfRight		published;		/* its until is 0: none */
	SfRight		seen;			/* by a backend that sleeps */
} Holder;

/* A message on its way: a request, or its answer. */
typedef struct Message
{
	bool		used;
	bool		is_answer;
	int			holder;
	uint16_t	worker;
	int64_t		at_ms;
	SfAsk		ask;
	SfAnswer	answer;
	SfRegistry	registry;
	SfSlotRecord records[MAX_SLOTS];
} Message;

#include "lease_simulation.h"

static int	nslots;

/* The life that issued each timestamp, under each node id. */
static uint16_t issued_by[MAX_SLOTS][MAX_MS];

static SfLease *
lease_of(Holder *holder)
{
	return &holder->lease;
}

/* Issue the timestamp, if the generator is allowed to. */
static void
issue(Holder *holder, const SfRight *right)
{
	if (right->until != 0)
		issue_next(holder, &holder->counter, right->until,
				   moment_of(holder).wall_ms - EPOCH_MS,
				   issued_by[right->node]);
}

/* Issue all timestamps up to the drift, and one for a backend that slept. */
static void
generate(Holder *holder)
{
	for (int i = 0; i < STEP_MS + DRIFT_MS; i++)
		issue(holder, &holder->published);
	if (world->clone != 0)
		return;					/* a call that sleeps while its server is
								 * cloned cannot be helped */
	if (chance(100))
		issue(holder, &holder->seen);
	if (chance(500))
		holder->seen = holder->published;
}

/* Publish the right, or withdraw it, as the worker does. */
static void
publish(Holder *holder)
{
	SfRight		right = holder->lease.right;

	if (holder->lease.state != SF_LEASE_HELD)
		memset(&right, 0, sizeof(right));
	else if (holder->published.until == 0 ||
			 right.node != holder->published.node ||
			 right.start != holder->published.start)
	{
		if (holder->counter < right.start - 1)
			holder->counter = right.start - 1;
		holder->counter++;
	}
	handed_on += holder->published.until != 0 && right.until == 0;
	holder->published = right;
}

/* Return true if the table of states in lease.c has this one. */
static bool
is_legal(const SfLease *of)
{
	static const int kinds[] = {
		[SF_LEASE_SEARCHING] = 1 << SF_ASK_NOTHING | 1 << SF_ASK_READ,
		[SF_LEASE_CLAIMING] = 1 << SF_ASK_CLAIM,
		[SF_LEASE_HALTED] = 1 << SF_ASK_NOTHING | 1 << SF_ASK_READ |
		1 << SF_ASK_EXTEND | 1 << SF_ASK_KEEPALIVE,
		[SF_LEASE_HELD] = 1 << SF_ASK_NOTHING | 1 << SF_ASK_READ |
		1 << SF_ASK_EXTEND | 1 << SF_ASK_KEEPALIVE,
		[SF_LEASE_RELEASING] = 1 << SF_ASK_NOTHING | 1 << SF_ASK_READ |
		1 << SF_ASK_RELEASE,
		[SF_LEASE_ENDED] = 1 << SF_ASK_NOTHING
	};

	if (!(kinds[of->state] & 1 << of->client.ask.kind))
		return false;
	return of->state >= SF_LEASE_HALTED || (!of->unsure && !of->absent);
}

/* Time has passed, or an answer has come: do what has changed. */
static void
follow(Holder *holder, int changes)
{
	CHECK(world->no_write_id || world->believes_reads ||
		  is_legal(&holder->lease));
	keep(holder);
	if (changes & SF_CHANGED_RIGHT)
		publish(holder);
	if (changes & SF_CHANGED_ASK)
	{
		static Message message;

		memset(&message, 0, sizeof(message));
		message.holder = (int) (holder - holders);
		message.worker = holder->worker;
		message.ask = holder->lease.client.ask;
		if (true_ms >= holder->cut_off_ms)
			send_message(&message);
	}
	if (holder->lease.state == SF_LEASE_ENDED && holder->fate == ALIVE)
	{
		holder->fate = DEAD;
		holder->born_ms = true_ms + rnd_below(3000);
	}
}

static void
start_holder(Holder *holder)
{
	SfLeaseConfig *config = &holder->config;
	SfRight		none = {0};

	holder->fate = ALIVE;
	holder->life = holder->worker = ++lives;
	holder->published = holder->seen = none;
	holder->counter = config->claimant.last_until;
	sf_age_init(&holder->age, &holder->kept, &layout);
	config->age = &holder->age;
	follow(holder, sf_lease_init(&holder->lease, config, &client_config,
								 moment_of(holder)));
}

/* Let another worker go on; the last changes may not be published. */
static void
restart_worker(Holder *holder)
{
	if (chance(2))
		(void) sf_lease_step(&holder->lease, moment_of(holder));
	holder->worker = ++lives;
	holder->config.age = &holder->age;
	follow(holder, sf_lease_resume(&holder->lease, &holder->config,
								   &client_config, moment_of(holder)));
}

/* Crash a holder.  Only its messages on their way remain. */
static void
crash(Holder *holder)
{
	SfClaimant *claimant = &holder->config.claimant;

	holder->fate = DEAD;
	holder->born_ms = true_ms + rnd_below(6000);
	claimant->last_write_id = 0;
	claimant->last_until = 0;
	if (world->left_over)
	{
		claimant->last_held = holder->lease.right.node;
		claimant->last_write_id = holder->lease.right.write_id;
		claimant->last_until = holder->counter + 1;
	}
}

static void
carry_out(Message *reply)
{
	reply->answer.result = apply(&reply->ask, true_ms, &reply->answer.version);
	reply->answer.registry_version = reply->answer.version;
}

static void
add_registry(Message *reply)
{
	if (world->jumps)
	{
		endpoint = 1 + (int) rnd_below(MAX_ENDPOINTS);
		if (endpoint == reply->ask.avoid)
			endpoint = endpoint % MAX_ENDPOINTS + 1;
		reply->answer.endpoint = endpoint;
		reply->answer.clock_ms += endpoint_ahead_ms[endpoint];
	}
	copy_registry(&reply->registry, reply->records);
}

/* Variant: publish a claim that only a reading has shown. */
static void
believe_reading(Holder *holder)
{
	SfLease    *l = &holder->lease;

	if (l->state != SF_LEASE_HALTED)
		return;
	l->right.until = l->record.until;
	l->state = SF_LEASE_HELD;
}

/* Variant without write_id: take any record with our name for our write. */
static void
believe_owner(Holder *holder, const Message *message)
{
	for (int i = 0; i < message->registry.nrecords; i++)
	{
		const SfSlotRecord *record = &message->records[i];

		if (record->owner != holder->lease.config.claimant.owner ||
			record->node != holder->lease.record.node ||
			holder->lease.client.npending == 0)
			continue;
		holder->lease.client.pending[0].write_id = record->write_id;
	}
}

static void
take_answer(Holder *holder, Message *message)
{
	int			changes;

	events++;
	message->registry.records = message->records;
	message->answer.registry = &message->registry;
	if (world->no_write_id && message->ask.kind == SF_ASK_READ)
		believe_owner(holder, message);
	if (world->no_memory)
		forget(&holder->age, &message->ask);
	changes = sf_lease_answer(&holder->lease, moment_of(holder),
							  &message->answer);
	if (world->believes_reads && message->ask.kind == SF_ASK_READ)
	{
		believe_reading(holder);
		changes |= SF_CHANGED_RIGHT;
	}
	follow(holder, changes);
}

/* ---- at random: what goes wrong ---- */

/* Both clones may come to own what is acknowledged or requested. */
static int64_t
shared_until(const Holder *original)
{
	int64_t		until = original->lease.right.until;

	if (original->lease.client.ask.record.until > until)
		until = original->lease.client.ask.record.until;
	for (int i = 0; i < MAX_FLYING; i++)
	{
		if (flying[i].used && flying[i].ask.record.until > until)
			until = flying[i].ask.record.until;
	}
	for (int i = 0; i < MAX_SLOTS; i++)
	{
		if (registry.record[i].owner == original->lease.config.claimant.owner &&
			registry.record[i].until > until)
			until = registry.record[i].until;
	}
	return until;
}

static bool
is_past_backup(const SfKnown *known)
{
	int64_t		version = 0;

	for (int i = 0; i < MAX_SLOTS; i++)
	{
		if (version < backup.record[i].version)
			version = backup.record[i].version;
	}
	return known->version >= version + MAX_HOLDERS;
}

/*
 * Do what snowflake_registry_recover() does, naming what was lost, if any, and
 * "former", unless it is 0.
 */
static void
recover(uint64_t former)
{
	int64_t		floor = true_ms + 9000 + (world->jumps ? MAX_OFFSET_MS : 5000);

	if (recover_ms == 0)
		lost = registry;
	recover_ms = 0;
	if (!registry.initialized)
		init_registry(0);
	registry.generation = lost.generation;
	strcpy(registry.former, lost.former);
	renew(former, floor > registry.floor ? floor : registry.floor);
}

static void
go_wrong(Holder *holder)
{
	if (holder->fate != ALIVE)
		return;
	if (chance(1500))
		crash(holder);
	else if (chance(1000))
		freeze(holder);
	else if (chance(1500))
		restart_worker(holder);
	else if (chance(2000) && (holder->lease.state == SF_LEASE_HELD ||
							  holder->lease.state == SF_LEASE_HALTED))
	{
		SfRight		none = {0};

		holder->published = holder->seen = none;
		follow(holder, sf_lease_release(&holder->lease, moment_of(holder),
										holder->counter));
	}
	else
		disturb(holder);
}

static void
go_wrong_at_all(void)
{
	if (world->jumps && chance(700))
		endpoint_ahead_ms[1 + rnd_below(MAX_ENDPOINTS)] =
			(int64_t) rnd_below(2 * MAX_OFFSET_MS) - MAX_OFFSET_MS;
	if (chance(500))
		registry.record[rnd_below(MAX_SLOTS)].present = 0;
	go_wrong_with_registry();
	if (world->copy_resumes && chance(500) && nholders < MAX_HOLDERS &&
		holders[0].fate == ALIVE && holders[0].lease.state == SF_LEASE_HELD)
	{
		/*
		 * a copy of its files, started elsewhere while the holder is cut off
		 */
		Holder	   *copy = &holders[nholders++];

		*copy = holders[0];
		crash(copy);
		holders[0].cut_off_ms = true_ms + TTL_MS + 6000;
		copy->cut_off_ms = 0;
	}
}

/* ---- at random: a run ---- */

static void
step_holder(Holder *holder)
{
	if (moment_of(holder).monotonic_ms < holder->lease.wake_ms)
		return;
	events++;
	follow(holder, sf_lease_step(&holder->lease, moment_of(holder)));
}

static void
start_registry(void)
{
	memset(issued_by, 0, sizeof(issued_by));
	memset(endpoint_ahead_ms, 0, sizeof(endpoint_ahead_ms));
	owner_only = world->owner_only;
	ttl_ms = world->short_lease ? TTL_MS / 3 : TTL_MS;
	nslots = 1 + rnd_below(MAX_SLOTS);
	init_registry(0);
}

static void
configure(Holder *holder, int number)
{
	holder->config = make_config(number, 0, nslots - 1);
	if (!world->short_lease)
		return;
	holder->config.reserve_ms /= 3;
	holder->config.keepalive_ms /= 3;
}

/*
 * When nothing goes wrong any more, except for the clock of one endpoint,
 * each server that can have a slot has one.
 */
static void
check_that_it_heals(void)
{
	int			held = 0;
	int			alive = 0;
	int			slots = nslots;
	bool		lost = false;

	endpoint_ahead_ms[1] = endpoint_ahead_ms[2] = 0;
	heal();
	for (int i = 0; i < nholders && world->ahead; i++)
	{
		/*
		 * while a server was down, its slot was claimed at its until, or the
		 * generation that it knew was followed by another before a move
		 */
		if (holders[i].lease.loss < SF_LOSS_FLOOR)
			continue;
		recover(holders[i].age.known.generation);
		lost = true;
	}
	if (lost)
		heal();
	for (int i = 0; i < nholders; i++)
	{
		alive += holders[i].fate == ALIVE;
		held += holders[i].published.until != 0 &&
			holders[i].published.until > true_ms;
	}
	CHECK_EQ(alive, nholders);
	for (int i = 0; i < nslots; i++)
	{
		bool		is_held = false;

		for (int j = 0; j < nholders; j++)
			is_held |= holders[j].published.until != 0 &&
				holders[j].published.node == (uint32_t) i;
		if (world->ahead && !is_held &&
			registry.record[i].until > true_ms - SF_LEASE_RETRY_MS)
			slots--;			/* reserved, or only just free */
	}
	CHECK_EQ(held, nholders < slots ? nholders : slots);
}

static void
test_protocol(void)
{
	static const World worlds[] = {
		{.name = "protocol"},
		{.name = "protocol, slow network", .slow = 8, .slow_ms = 15000,
		.jumps = true},
		{.name = "protocol, outages", .outages = true, .jumps = true},
		{.name = "protocol, registry lost", .losses = true, .jumps = true,
		.slow = 8, .slow_ms = 15000},
		{.name = "protocol, failovers", .failovers = true, .slow = 8,
		.slow_ms = 15000, .outages = true},
		{.name = "protocol, crashed servers resume", .left_over = true,
		.slow = 8, .slow_ms = 15000, .jumps = true},
		{.name = "protocol, short leases", .short_lease = true, .slow = 4,
		.slow_ms = 6000, .outages = true, .jumps = true},
		{.name = "clone of a frozen machine", .clone = 2, .slow = 8,
		.slow_ms = 15000},
		{.name = "protocol, registry goes back", .goes_back = true,
		.jumps = true, .outages = true},
		{.name = "protocol, another registry", .moves = true, .jumps = true,
		.slow = 8, .slow_ms = 15000},
		{.name = "protocol, all clocks ahead", .ahead = true,
		.goes_back = true, .outages = true, .left_over = true},
		{.name = "protocol, another registry, all clocks ahead", .moves = true,
		.ahead = true, .left_over = true},
	};

	check_worlds(worlds, LENGTH(worlds), nruns * FAULTY_MS / 2, nruns);
}

/* A clone of a machine that goes on shares only what it had at that moment. */
static void
test_live_clone(void)
{
	static const World clone = {.name = "live clone", .clone = 1};

	run_world(&clone, nruns, false);
	CHECK(duplicates > 0);
	CHECK_EQ(late_duplicates, 0);
}

/* Variants that are known to fail do fail. */
static void
test_variants_fail(void)
{
	static const World worlds[] = {
		{.name = "compare the owner only", .owner_only = true,
		.slow = 4, .slow_ms = 6000, .outages = true, .short_lease = true},
		{.name = "registry lost, no floor", .losses = true, .no_floor = true,
		.no_memory = true},
		{.name = "registry goes back, no memory", .goes_back = true,
		.no_memory = true, .jumps = true, .outages = true},
		{.name = "another registry, no memory", .moves = true,
		.no_memory = true},
		{.name = "registry goes back to before all clocks were ahead",
		.ahead = true, .lost_ahead = true, .goes_back = true},
		{.name = "live clone, no write_id", .clone = 1, .no_write_id = true},
		{.name = "copy of the data resumes", .left_over = true,
		.copy_resumes = true},
		{.name = "published when it was read", .failovers = true,
		.believes_reads = true},
	};

	check_variants(worlds, LENGTH(worlds));
}

int
main(void)
{
	if (getenv("RUNS") != NULL)
		nruns = atoi(getenv("RUNS"));
	start_tests();
	if (!set_layout(LAYOUT))
		return 1;
	RUN(test_claim_extend_release);
	RUN(test_reserve_is_known);
	RUN(test_clocks_ahead);
	RUN(test_until_of_the_one_before);
	RUN(test_taken_slots);
	RUN(test_choice);
	RUN(test_lost_answers);
	RUN(test_failures);
	RUN(test_fence);
	RUN(test_recovery);
	RUN(test_problems);
	RUN(test_loss);
	RUN(test_low_floor);
	RUN(test_resume);
	RUN(test_other_registry);
	RUN(test_expiry);
	RUN(test_outage);
	RUN(test_presence);
	RUN(test_interruption);
	RUN(test_clock);
	RUN(test_clock_of_registry);
	RUN(test_clock_of_endpoint);
	RUN(test_left_over);
	RUN(test_wrong_registry);
	RUN(test_end_of_layout);
	RUN(test_ticks_of_10_ms);
	RUN(test_protocol);
	RUN(test_live_clone);
	RUN(test_variants_fail);
	return finish_tests("test_lease");
}
