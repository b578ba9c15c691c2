/*-------------------------------------------------------------------------
 *
 * test_shard_lease.c
 *	  Leases of shards, against a registry in memory: step by step and random.
 *
 * This test resembles test_lease.c.  In addition, servers are told to want
 * other shards while they run, and sessions go on late: with an until that
 * they read long ago, and with the clock of that time.  Variants of the
 * protocol that are known to fail must fail here, as in test_lease.c.  There
 * are four more: a line is forgotten when shards are given back, a claim
 * begins below the until, a life resumes below what the one before has issued,
 * and counters stay open when shards are given back.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_lease.h"
#include "harness.h"

#define NODE_LAYOUT	"timestamp:41 node:10 sequence:12 epoch:2024-01-01"
#define LAYOUT		"timestamp:41 shard:2 sequence:16 epoch:2024-01-01"
#define EPOCH_MS	INT64_C(1704067200000)	/* of both layouts */
#define START_MS	INT64_C(100000) /* since then; true time begins there */

#define NSHARDS		4
#define MAX_HOLDERS	6
#define TEXT_SIZE	1500
#define NRUNS		40

static SfLayout node_layout;
static SfLayout layout;
static char node_layout_text[SF_LAYOUT_TEXT_SIZE];
static char said[5000];			/* since prepare(), the last line first */
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
	char		before[sizeof(said)];

	memcpy(before, said, sizeof(said));
	snprintf(said, sizeof(said), "%s%s\n%.4000s",
			 is_warning(what) ? "WARNING: " : "", text, before);
	nsaid++;
}

/* ---- the registry ---- */

typedef struct Registry
{
	bool		initialized;
	uint64_t	generation;
	int64_t		floor;
	int64_t		revision;
	int64_t		version;
	char		text[TEXT_SIZE];
} Registry;

static Registry registry;
static bool no_compare;
static bool drops_free;

static void
init_registry(int64_t floor)
{
	int64_t		revision = registry.revision;

	memset(&registry, 0, sizeof(registry));
	registry.initialized = true;
	registry.generation = rnd();
	registry.floor = floor;
	registry.revision = revision;
}

/* Remove the lines of shards that were given back. */
static void
drop_free(char *text)
{
	char	   *line = text;
	char	   *to = text;

	while (*line != '\0')
	{
		size_t		length = strcspn(line, "\n") + 1;

		if (strncmp(line, "free", 4) != 0)
		{
			memmove(to, line, length);
			to += length;
		}
		line += length;
	}
	*to = '\0';
}

static SfResult
apply(const SfAsk *ask, int64_t *version)
{
	*version = 0;
	if (ask->kind == SF_ASK_READ)
		return SF_RESULT_DONE;
	if (!no_compare && (ask->generation != registry.generation ||
						ask->version != registry.version))
		return SF_RESULT_CONFLICT;
	snprintf(registry.text, sizeof(registry.text), "%s", ask->shards);
	if (drops_free)
		drop_free(registry.text);
	registry.version = *version = ++registry.revision;
	return SF_RESULT_DONE;
}

/* Give a reader the registry; its text must stay in memory. */
static void
copy_registry(SfRegistry *copy, char *text)
{
	memset(copy, 0, sizeof(SfRegistry));
	copy->initialized = registry.initialized;
	copy->generation = registry.generation;
	copy->floor = registry.floor;
	snprintf(copy->layout, sizeof(copy->layout), "%s", node_layout_text);
	memcpy(text, registry.text, TEXT_SIZE);
	copy->shards = text;
	copy->shards_version = registry.version;
}

static SfLeaseConfig
make_config(uint64_t server)
{
	SfLeaseConfig config = {
		.claimant = {
			.layout = &layout, .server = server, .max_ahead_ms = 2000
		},
		.reserve_ms = 9000, .timeout_ms = 500, .max_offset_ms = 5000,
		.warn_offset_ms = INT64_MAX, .look_ms = 100, .frozen_ms = 800,
		.random = rnd, .log_event = log_event, .initialize = "run this.",
		.recover = "SELECT snowflake_registry_recover",
		.recreate = "SELECT snowflake_registry_recover", .recreated = ";"
	};

	snprintf(config.claimant.host, sizeof(config.claimant.host), "host-%d",
			 (int) server);
	return config;
}

/* ---- step by step ---- */

static SfShardLease one;
static SfShardLease two;
static SfAge age_of_one;
static SfAge age_of_two;
static SfMoment now;
static int64_t clock_ahead_ms;	/* of the registry's clock */

static int64_t
now_tick(void)
{
	return now.wall_ms - EPOCH_MS;
}

static void
live(SfShardLease *shards, int64_t ms)
{
	for (; ms > 0; ms -= 100)
	{
		now.monotonic_ms += ms < 100 ? ms : 100;
		now.wall_ms += ms < 100 ? ms : 100;
		sf_shard_lease_step(shards, now);
	}
}

static void
reply_as(SfShardLease *shards, SfResult result, const char *message)
{
	SfAnswer	answer = {.number = shards->lease.ask.number};

	answer.result = result;
	answer.message = message;
	sf_shard_lease_answer(shards, now, &answer);
}

static SfResult
reply(SfShardLease *shards)
{
	static SfRegistry copy;
	static char text[TEXT_SIZE];
	SfAnswer	answer = {.number = shards->lease.ask.number};

	answer.result = apply(&shards->lease.ask, &answer.version);
	copy_registry(&copy, text);
	answer.registry = &copy;
	answer.clock_ms = now.wall_ms + clock_ahead_ms;
	sf_shard_lease_answer(shards, now, &answer);
	return answer.result;
}

/* Answer requests until the lease makes one of this kind. */
static void
reply_until(SfShardLease *shards, SfAskKind kind)
{
	for (int i = 0; i < 1000 && shards->lease.ask.kind != kind; i++)
	{
		if (shards->lease.ask.kind != SF_ASK_NOTHING)
			reply(shards);
		else
			live(shards, 100);
	}
	CHECK_EQ(shards->lease.ask.kind, kind);
}

/* Answer until there is no request to make now. */
static void
settle(SfShardLease *shards)
{
	for (int i = 0; i < 10 && shards->lease.ask.kind != SF_ASK_NOTHING; i++)
		reply(shards);
}

/* Let time pass, with a registry that answers at once. */
static void
live_with(SfShardLease *shards, int64_t ms)
{
	for (; ms > 0; ms -= 100)
	{
		live(shards, 100);
		settle(shards);
	}
}

static void
want(SfShardLease *shards, uint32_t wanted, int64_t last_issued)
{
	SfShardSet	set = {wanted};

	sf_shard_lease_want(shards, now, set, last_issued);
}

static void
begin(SfShardLease *shards, uint64_t server, uint32_t wanted)
{
	SfLeaseConfig config = make_config(server);

	config.age = shards == &one ? &age_of_one : &age_of_two;
	sf_age_init(config.age, NULL, "etcd://one", &node_layout);
	sf_shard_lease_init(shards, &config, &node_layout, 0, now);
	want(shards, wanted, -1);
}

static void
prepare(void)
{
	no_compare = drops_free = false;
	registry.revision = 0;
	init_registry(0);
	now.monotonic_ms = 1000000;
	now.wall_ms = EPOCH_MS + START_MS;
	clock_ahead_ms = 0;
	said[0] = '\0';
	nsaid = 0;
}

static void
prepare_held(uint32_t wanted)
{
	prepare();
	begin(&one, 1, wanted);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
	reply(&one);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	reply(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_HELD);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.shards[0], wanted);
}

/* Return the until of a shard in the registry, and its server. */
static int64_t
until_of(uint32_t shard, uint64_t *server)
{
	static SfShardMap map;
	char		reason[SF_REASON_SIZE];

	if (!sf_shard_map_parse(&map, registry.text, reason, sizeof(reason)) ||
		map.line_of[shard] == 0)
		return -1;
	*server = map.line[map.line_of[shard] - 1].server;
	return map.line[map.line_of[shard] - 1].until;
}

static void
check_shard(uint32_t shard, uint64_t server, int64_t until)
{
	uint64_t	found = 0;

	CHECK_EQ(until_of(shard, &found), until);
	CHECK_EQ(found, server);
}

static void
test_claim_extend_release(void)
{
	int64_t		until;

	/* a server that wants no shards asks nothing */
	prepare();
	begin(&one, 1, 0);
	live(&one, 1000);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_NOTHING);
	CHECK_EQ(one.lease.ask.number, 0);

	prepare_held(7);
	until = one.right.until;
	CHECK_EQ(until, START_MS + 9000);
	CHECK_EQ(one.right.start, 0);
	check_shard(0, 1, until);
	check_shard(2, 1, until);
	check_shard(3, 0, -1);
	CHECK_CONTAINS(said, "3 of 3 configured shards are leased.\n");
	CHECK_STR(one.lease.problem, "");

	/* less than two thirds are left */
	reply_until(&one, SF_ASK_READ);
	CHECK(until - now_tick() < 6000 && until - now_tick() > 5800);
	reply(&one);
	CHECK_EQ(one.right.until, until);
	reply(&one);
	CHECK_EQ(one.right.until, now_tick() + 9000);
	CHECK(one.right.valid);
	CHECK_EQ(nsaid, 1);
	CHECK_CONTAINS(registry.text, " reserve 9000 since ");

	sf_shard_lease_release(&one, now, START_MS + 500);
	CHECK(!one.right.valid);
	settle(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_ENDED);
	CHECK_EQ(one.lease.wake_ms, INT64_MAX);
	check_shard(0, 0, START_MS + 501);

	/* the next holder begins there, even if its clock is behind */
	now.wall_ms -= 4000;
	begin(&two, 2, 1);
	settle(&two);
	CHECK(two.right.valid);
	CHECK_EQ(two.right.start, START_MS + 501);
	CHECK(two.right.until >= two.right.start);
}

/* Shards of another server are waited for; the others are claimed. */
static void
test_taken(void)
{
	prepare_held(7);
	begin(&two, 2, 12);
	settle(&two);
	CHECK(two.right.valid);
	CHECK_EQ(two.right.shards[0], 8);
	CHECK(!sf_shard_lease_is_whole(&two));
	CHECK_STR(two.lease.problem, "Shard 2 is reserved until 2024-01-01T00:01:49.000Z by \"host-1\".");
	CHECK_STR(two.lease.public_problem, "Shard 2 is reserved until 2024-01-01T00:01:49.000Z by another server.");
	CHECK_CONTAINS(two.lease.remedy, "List a shard in snowflake.shards of one server only.");
	check_shard(3, 2, two.right.until);

	/* it keeps what it has */
	for (int i = 0; i < 200; i++)
	{
		live_with(&one, 100);
		sf_shard_lease_step(&two, now);
		settle(&two);
		CHECK(two.right.until > now_tick() + 5000);
		CHECK_EQ(two.right.shards[0], 8);
	}

	/* until the other server gives it back at a reload */
	CHECK_EQ(one.right.shards[0], 7);
	want(&one, 3, now_tick());
	CHECK_EQ(one.right.shards[0], 3);
	settle(&one);
	check_shard(2, 0, now_tick() + 1);
	check_shard(0, 1, one.right.until);
	live_with(&two, 5100);
	CHECK_EQ(two.right.shards[0], 12);
	CHECK_STR(two.lease.problem, "");
	CHECK_CONTAINS(said, "2 of 2 configured shards are leased.\n");

	/* or until the other server has gone and its reserve is over */
	prepare_held(15);
	begin(&two, 2, 15);
	settle(&two);
	CHECK(!two.right.valid);
	CHECK_STR(two.lease.problem, "Shards 0-3 are reserved until 2024-01-01T00:01:49.000Z by \"host-1\".");
	reply_until(&two, SF_ASK_SHARDS);
	CHECK(now_tick() >= START_MS + 7000 && now_tick() < START_MS + 7500);
	reply(&two);
	CHECK_EQ(two.right.start, START_MS + 9000);

	/* or it was this server itself, before its restart */
	prepare_held(15);
	begin(&two, 1, 15);
	settle(&two);
	CHECK_CONTAINS(two.lease.problem, "by \"host-1\", which was this server before its last start.");
}

/* The next life begins, which may resume what this write has left. */
static void
begin_again(uint64_t write_id, uint32_t wanted)
{
	SfLeaseConfig config = make_config(1);

	config.reserve_ms = 3000;
	config.age = &age_of_one;
	config.claimant.last_write_id = write_id;
	config.claimant.last_until = START_MS + 700;
	sf_shard_lease_init(&two, &config, &node_layout, 0, now);
	want(&two, wanted, -1);
	settle(&two);
}

/* What the life before has left may be taken up again, above what it issued. */
static void
test_left_over(void)
{
	prepare_held(7);
	begin_again(one.right.write_id, 3);
	CHECK(two.right.valid);
	CHECK_EQ(two.right.shards[0], 3);
	CHECK_EQ(two.right.start, START_MS + 700);
	CHECK_EQ(two.right.until, START_MS + 9000);
	check_shard(2, 1, START_MS + 9000);
	CHECK(two.right.write_id != 0);
	CHECK(two.right.write_id != one.right.write_id);

	/* the rest, too, as long as nobody else has it */
	want(&two, 7, -1);
	settle(&two);
	CHECK_EQ(two.right.shards[0], 7);
	CHECK_EQ(two.right.start, START_MS + 700);

	/* that life had reserved less than its clock says */
	prepare_held(3);
	one.map.line[0].until = START_MS + 500;
	sf_shard_map_print(&one.map, registry.text, sizeof(registry.text));
	begin_again(one.right.write_id, 3);
	CHECK_EQ(two.right.start, START_MS + 500);

	/* not if anybody has written since, and not below the floor */
	prepare_held(3);
	begin_again(one.right.write_id + 1, 3);
	CHECK(!two.right.valid);
	CHECK_CONTAINS(two.lease.problem, "by \"host-1\", which was this server before its last start.");
	prepare_held(3);
	registry.floor = START_MS + 1000;
	begin_again(one.right.write_id, 3);
	CHECK_EQ(two.right.start, START_MS + 1000);

	/* what is lost, is not left either */
	prepare_held(3);
	CHECK(one.right.write_id != 0);
	want(&one, 0, START_MS + 30);
	settle(&one);
	CHECK_EQ(one.right.write_id, 0);
}

/*
 * All shards are given back, and some claimed again, never below what was
 * read.
 */
static void
test_reload(void)
{
	int64_t		until;

	prepare_held(3);
	until = one.right.until;
	want(&one, 0, START_MS + 30);
	CHECK_EQ(one.right.shards[0], 0);
	settle(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_SEARCHING);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_NOTHING);
	check_shard(0, 0, START_MS + 31);
	CHECK_EQ(nsaid, 1);

	/* a session may have read that until before the clock went back */
	now.wall_ms -= 500;
	one.lease.config.reserve_ms = 3000;
	want(&one, 1, -1);
	settle(&one);
	CHECK_EQ(one.right.shards[0], 1);
	CHECK_EQ(one.right.start, START_MS + 31);
	CHECK_EQ(one.right.until, until);

	/* the same for the next worker */
	prepare_held(3);
	want(&one, 0, START_MS + 30);
	settle(&one);
	{
		SfLeaseConfig config = make_config(1);

		config.reserve_ms = 3000;
		config.age = &age_of_one;
		sf_shard_lease_init(&two, &config, &node_layout, until, now);
		want(&two, 1, -1);
		settle(&two);
		CHECK_EQ(two.right.until, until);
	}

	/* wanted again before the write is made: it is not given back */
	prepare_held(3);
	want(&one, 1, START_MS + 30);
	want(&one, 3, -1);
	CHECK_EQ(one.right.shards[0], 1);
	settle(&one);
	CHECK_EQ(one.right.shards[0], 3);
	check_shard(1, 1, one.right.until);

	/* wanted again during the write: only its outcome says what we have */
	prepare_held(3);
	want(&one, 1, START_MS + 30);
	reply(&one);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	want(&one, 3, -1);
	reply(&one);
	CHECK_EQ(one.right.shards[0], 1);
	settle(&one);
	CHECK_EQ(one.right.shards[0], 3);

	/* a claim of a shard that is not wanted any more when it is made */
	prepare();
	begin(&one, 1, 3);
	reply(&one);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	want(&one, 1, -1);
	reply(&one);
	CHECK_EQ(one.right.shards[0], 1);
	settle(&one);
	check_shard(1, 0, 0);

	/* the write that gives it back is lost on the way, or late */
	for (int is_late = 0; is_late < 2; is_late++)
	{
		SfAsk		late;
		char		text[TEXT_SIZE];
		int64_t		version;

		prepare_held(3);
		want(&one, 1, START_MS + 30);
		reply(&one);
		late = one.lease.ask;
		snprintf(text, sizeof(text), "%s", late.shards);
		late.shards = text;
		want(&one, 3, -1);
		live(&one, 600);		/* no answer */
		if (is_late)
			CHECK_EQ(apply(&late, &version), SF_RESULT_DONE);
		live(&one, 300);
		CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
		CHECK_EQ(one.right.shards[0], 1);
		settle(&one);
		CHECK_EQ(one.right.shards[0], 3);
		if (!is_late)
			CHECK_EQ(apply(&late, &version), SF_RESULT_CONFLICT);
		check_shard(1, 1, one.right.until);
	}

	/* all shards are given back, without an answer: this is no loss */
	prepare_held(3);
	want(&one, 0, START_MS + 30);
	reply(&one);
	{
		int64_t		version;

		CHECK_EQ(apply(&one.lease.ask, &version), SF_RESULT_DONE);
	}
	live(&one, 900);
	reply_until(&one, SF_ASK_READ);
	settle(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_SEARCHING);
	CHECK(strstr(said, "lost") == NULL);
}

/* Other servers write the record too. */
static void
test_conflicts(void)
{
	prepare_held(3);
	begin(&two, 2, 12);
	reply(&two);
	CHECK_EQ(two.lease.ask.kind, SF_ASK_SHARDS);
	live(&one, 3100);
	settle(&one);
	CHECK_EQ(reply(&two), SF_RESULT_CONFLICT);
	CHECK_EQ(two.lease.ask.kind, SF_ASK_READ);
	CHECK_STR(two.lease.problem, "");
	settle(&two);
	CHECK_EQ(two.right.shards[0], 12);
	check_shard(0, 1, one.right.until);
	check_shard(3, 2, two.right.until);
}

/*
 * A write that was not acknowledged is found by a reading.  It counts when
 * another write on top of it is acknowledged.
 */
static void
test_unacknowledged(void)
{
	int64_t		until;
	int64_t		version;

	/* a claim */
	prepare();
	begin(&one, 1, 3);
	reply(&one);
	CHECK_EQ(apply(&one.lease.ask, &version), SF_RESULT_DONE);
	live(&one, 500);
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_HELD);
	CHECK(!one.right.valid);
	CHECK_EQ(one.right.shards[0], 0);
	CHECK(strstr(said, "are leased") == NULL);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.shards[0], 3);
	CHECK_CONTAINS(said, "2 of 2 configured shards are leased.\n");

	/* an extension */
	prepare_held(3);
	until = one.right.until;
	reply_until(&one, SF_ASK_SHARDS);
	CHECK_EQ(apply(&one.lease.ask, &version), SF_RESULT_DONE);
	live(&one, 500);
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.until, until);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	reply(&one);
	CHECK_EQ(one.right.until, now_tick() + 9000);

	/* one more shard, which another server had until then */
	prepare_held(3);
	begin(&two, 2, 4);
	settle(&two);
	sf_shard_lease_release(&two, now, START_MS + 1500);
	settle(&two);
	want(&one, 7, -1);
	reply(&one);
	CHECK_EQ(apply(&one.lease.ask, &version), SF_RESULT_DONE);
	live(&one, 500);
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_EQ(one.right.shards[0], 3);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	reply(&one);
	CHECK_EQ(one.right.shards[0], 7);
	CHECK_EQ(one.right.start, START_MS + 1501);
}

static void
test_fence(void)
{
	/* another server claimed a part of what had expired */
	prepare_held(7);
	now.wall_ms += 8000;
	begin(&two, 2, 4);
	settle(&two);
	CHECK(two.right.valid);
	CHECK_EQ(two.right.start, START_MS + 9000);
	now.wall_ms -= 8000;
	reply_until(&one, SF_ASK_SHARDS);
	CHECK_CONTAINS(said, "The lease of some of this server's shards is lost");
	CHECK_EQ(one.right.shards[0], 3);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.shards[0], 3);

	/* another server claimed all of it */
	prepare_held(3);
	now.wall_ms += 8000;
	begin(&two, 2, 7);
	settle(&two);
	now.wall_ms -= 8000;
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK(!one.right.valid);
	CHECK_EQ(one.lease.state, SF_LEASE_SEARCHING);
	CHECK_EQ(one.right.shards[0], 0);
	CHECK_CONTAINS(said, "WARNING: The lease of this server's shards is lost: another server has claimed them, or is a copy");

	/* the registry was lost and recovered */
	prepare_held(3);
	init_registry(START_MS + 20000);
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK(!one.right.valid);
	CHECK_CONTAINS(said, "the registry is not the one that it was");
	CHECK_STR(one.lease.problem, "After its recovery the registry lets no server claim a shard before 2024-01-01T00:02:00.000Z.");
	reply_until(&one, SF_ASK_SHARDS);
	CHECK(now_tick() >= START_MS + 18000);
	reply(&one);
	CHECK_EQ(one.right.start, START_MS + 20000);

	/* the registry is empty, and this server never knew it otherwise */
	prepare();
	registry.initialized = false;
	begin(&one, 1, 3);
	reply(&one);
	CHECK_STR(one.lease.problem, "The registry was never initialized.");
}

/*
 * A registry has lost data, and the server remembers it.  Held shards last up
 * to their until, and nothing is written before the recovery.
 */
static void
check_that_it_waits(const char *problem)
{
	int64_t		until = one.right.until;

	for (int i = 0; i < 150; i++)
	{
		if (one.lease.ask.kind != SF_ASK_NOTHING)
		{
			CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
			reply(&one);
		}
		live(&one, 100);
		CHECK(one.right.valid);
		CHECK_EQ(one.right.until, until);
		CHECK_EQ(one.right.shards[0], 3);
	}
	CHECK_CONTAINS(one.lease.problem, problem);
	CHECK_CONTAINS(one.lease.remedy, registry.initialized ?
				   "SELECT snowflake_registry_recover();" :
				   "SELECT snowflake_registry_recover('90 s');");
	registry.initialized = true;
	registry.generation = rnd();
	registry.floor = now_tick() + 12000;
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.start, registry.floor);
	CHECK_STR(one.lease.problem, "");
}

static void
test_loss(void)
{
	Registry	old;

	/* it is empty */
	prepare_held(3);
	memset(&registry, 0, sizeof(registry));
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_CONTAINS(said, "WARNING: The registry has lost its data");
	check_that_it_waits("The registry has lost its data");

	/* an extension is lost */
	prepare_held(3);
	old = registry;
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	registry = old;
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_CONTAINS(said, "WARNING: The registry has lost data: it is older");
	check_that_it_waits("it is older");

	/*
	 * data is lost between the reading and the write, so the write does not
	 * count
	 */
	prepare_held(3);
	reply_until(&one, SF_ASK_SHARDS);
	sf_age_read_shards(&age_of_one, registry.version + 9);
	CHECK_EQ(reply(&one), SF_RESULT_DONE);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
	check_that_it_waits("it is older");

	/* it was made anew, and its floor is below our until */
	prepare_held(3);
	registry.generation = rnd();
	registry.floor = now_tick();
	registry.version = 0;
	registry.text[0] = '\0';
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK(!one.right.valid);
	CHECK_EQ(one.lease.state, SF_LEASE_SEARCHING);
	CHECK_CONTAINS(said, "The lease of this server's shards is lost: the registry is another one");
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_CONTAINS(one.lease.problem, "it would give away what it has confirmed");
	registry.floor = now_tick() + 12000;
	reply_until(&one, SF_ASK_SHARDS);

	/*
	 * Another server, which remembers nothing, has claimed some of the shards
	 * in the older registry.  That claim reaches beyond where ours began.
	 */
	prepare();
	registry.floor = now_tick();
	begin(&one, 1, 2);
	settle(&one);
	old = registry;
	want(&one, 3, -1);
	settle(&one);
	CHECK_EQ(one.right.shards[0], 3);
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	registry = old;
	begin(&two, 2, 1);
	settle(&two);
	CHECK(two.right.valid);
	CHECK_EQ(two.right.shards[0], 1);
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.shards[0], 2);
	CHECK_CONTAINS(said, "The lease of some of this server's shards is lost: the registry has lost data, and has given them to another server.");
	CHECK_CONTAINS(one.lease.problem, "it is older");
	nsaid = 0;
	live_with(&one, 3000);
	CHECK_EQ(nsaid, 0);
	CHECK_EQ(one.right.shards[0], 2);

	/* a reserve that had ended where ours began is no such claim */
	prepare();
	begin(&two, 2, 1);
	settle(&two);
	old = registry;
	live(&two, 9000);
	begin(&one, 1, 1);
	settle(&one);
	CHECK_EQ(one.right.start, two.right.until);
	CHECK_EQ(one.right.shards[0], 1);
	registry = old;
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_CONTAINS(one.lease.problem, "it is older");
	CHECK_EQ(one.right.shards[0], 1);

	/* a copy of a server has no number, and does not know its own line */
	prepare();
	registry.floor = now_tick();
	begin(&one, 0, 1);
	settle(&one);
	old = registry;
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	registry = old;
	reply_until(&one, SF_ASK_READ);
	reply(&one);
	CHECK_EQ(one.right.shards[0], 0);

	/* a server that stops writes nothing to such a registry */
	prepare_held(3);
	old = registry;
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	registry = old;
	sf_shard_lease_release(&one, now, now_tick());
	reply(&one);
	CHECK_EQ(one.lease.state, SF_LEASE_ENDED);
	CHECK_EQ(registry.version, old.version);
}

/* A record that cannot be parsed does not count as empty; held shards last. */
static void
test_wrong_record(void)
{
	prepare();
	strcpy(registry.text, "something");
	registry.version = ++registry.revision;
	begin(&one, 1, 3);
	reply(&one);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_NOTHING);
	CHECK_CONTAINS(one.lease.problem, "The registry's record of shards cannot be read. It does not begin");

	prepare_held(3);
	registry.text[0] = '\0';
	live_with(&one, 10000);
	CHECK(one.right.valid);
	CHECK_EQ(one.right.until, START_MS + 9000);
	CHECK_CONTAINS(one.lease.problem, "cannot be read");

	prepare();
	strcpy(registry.text, "snowflake shards 1\nlayout timestamp:41 shard:3 sequence:16 epoch:2024-01-01\n");
	registry.version = ++registry.revision;
	begin(&one, 1, 3);
	reply(&one);
	CHECK_CONTAINS(one.lease.problem, "The registry's shards have the layout \"timestamp:41 shard:3");
	CHECK_CONTAINS(one.lease.remedy, "Set snowflake.shard_layout");
	CHECK_EQ(one.lease.state, SF_LEASE_SEARCHING);
}

/*
 * A record with all possible lines.  A server with a line can extend it and
 * give it back.  There is no space for another line.
 */
static bool
carry_out_when_full(uint32_t next, bool leaves, uint64_t write_id)
{
	SfShardPlan plan = {.next = {next}, .leaves = leaves};

	while (sf_shard_map_add(&one.map) >= 0)
		;
	CHECK_EQ(one.map.nlines, SF_SHARDMAP_LINES);
	return sf_shard_lease_carry_out(&one, now, &plan, write_id);
}

static void
test_full_record(void)
{
	int			line;

	prepare_held(7);
	CHECK(carry_out_when_full(7, false, 99));
	CHECK_EQ(one.map.nlines, 1);
	line = sf_shard_map_find(&one.map, 99);
	CHECK_EQ(line, 0);
	CHECK_EQ(one.map.line[0].server, 1);
	CHECK_EQ(one.map.line_of[2], 1);

	/* giving back a part of it needs one more line */
	one.lease.record.write_id = 99;
	CHECK(!carry_out_when_full(3, true, 100));

	/* giving back all needs none; the time already issued is still reserved */
	CHECK(carry_out_when_full(0, true, 101));
	CHECK_EQ(sf_shard_map_find(&one.map, 101), -1);
	CHECK_EQ(one.map.nlines, 1);
	CHECK_EQ(one.map.line_of[2], 1);
	CHECK_EQ(one.map.line[0].server, 0);
	CHECK_STR(one.map.line[0].host, "");

	/* a server without a line */
	prepare();
	begin(&one, 1, 7);
	CHECK(!carry_out_when_full(7, false, 102));
}

static void
test_interruption(void)
{
	/* nothing is issued before a write that began after the freeze */
	prepare_held(3);
	now.monotonic_ms += 900;
	now.wall_ms += 900;
	sf_shard_lease_step(&one, now);
	CHECK(!one.right.valid);
	CHECK_EQ(one.right.shards[0], 3);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
	reply(&one);
	CHECK(!one.right.valid);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_SHARDS);
	reply(&one);
	CHECK(one.right.valid);

	/* whatever call comes first after the freeze */
	prepare_held(3);
	now.monotonic_ms += 900;
	now.wall_ms += 900;
	want(&one, 7, -1);
	CHECK(!one.right.valid);

	/* one of two copies loses */
	prepare_held(3);
	two = one;
	now.monotonic_ms += 900;
	now.wall_ms += 900;
	sf_shard_lease_step(&one, now);
	sf_shard_lease_step(&two, now);
	reply(&one);
	reply(&two);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_EQ(reply(&two), SF_RESULT_CONFLICT);
	settle(&two);
	CHECK(!two.right.valid);
	CHECK_EQ(two.right.shards[0], 0);
}

/* The clock is wrong: no writes; the acknowledged until lasts. */
static void
test_clock(void)
{
	prepare();
	clock_ahead_ms = -7000;
	begin(&one, 1, 3);
	reply(&one);
	CHECK_EQ(one.lease.ask.kind, SF_ASK_NOTHING);
	CHECK_CONTAINS(one.lease.problem, "The wall clock is 7000 ms ahead of that of the registry");

	prepare_held(3);
	for (int i = 0; i < 200; i++)
	{
		now.wall_ms += 75;
		clock_ahead_ms -= 75;
		live_with(&one, 100);
	}
	CHECK(one.right.until < now_tick());
	CHECK_CONTAINS(one.lease.problem, " s ahead of that of the registry");
	now.wall_ms += clock_ahead_ms;
	clock_ahead_ms = 0;
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	CHECK_EQ(one.right.until, now_tick() + 9000);
	CHECK_STR(one.lease.problem, "");

	/* if the registry's clock is wrong, that does not concern us */
	prepare_held(3);
	clock_ahead_ms = -7000;
	live_with(&one, 20000);
	CHECK(one.right.until > now_tick() + 5000);
	CHECK_STR(one.lease.problem, "");
}

/* An expiry is logged once. */
static void
test_expiry(void)
{
	prepare();
	begin(&one, 1, 3);
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	CHECK(one.right.valid);
	live(&one, one.right.until - now_tick() - 1);
	CHECK(now_tick() < one.right.until);
	CHECK(strstr(said, "expired") == NULL);
	said[0] = '\0';
	live(&one, 10000);
	CHECK_STR(said, "WARNING: The lease of this server's shards has expired: no ID is made before the registry extends it. The registry did not answer in time.\n");
}

/*
 * After one failure it tries again at once.  Then there is a problem and a
 * pause.
 */
static void
test_failures(void)
{
	prepare();
	begin(&one, 1, 3);
	reply_as(&one, SF_RESULT_UNKNOWN, "Perhaps.");
	CHECK_STR(one.lease.problem, "");
	CHECK_EQ(one.lease.ask.kind, SF_ASK_READ);
	reply_as(&one, SF_RESULT_REFUSED, "No.");
	CHECK_STR(one.lease.problem, "The registry answered: No.");
	CHECK_EQ(one.lease.ask.kind, SF_ASK_NOTHING);
	reply_until(&one, SF_ASK_SHARDS);
	reply_as(&one, SF_RESULT_REFUSED, "Not this.");
	CHECK_EQ(one.lease.npending, 0);
	CHECK_CONTAINS(one.lease.problem, "Not this.");
	reply_until(&one, SF_ASK_SHARDS);
	reply(&one);
	CHECK(one.right.valid);
	CHECK_STR(one.lease.problem, "");
	CHECK_EQ(nsaid, 4);
}

/* Layouts with other ticks: the floor is in ticks of the node's layout. */
static void
test_ticks(void)
{
	SfLayout	keep = layout;
	SfLayout	keep_node = node_layout;
	char		reason[SF_REASON_SIZE];

	CHECK(sf_layout_parse(&layout, "timestamp:39 shard:2 sequence:16 tick:10ms epoch:2023-12-31",
						  reason, sizeof(reason)));
	prepare_held(3);
	CHECK_EQ(one.right.until, (86400000 + START_MS + 9000) / 10);
	registry.floor = START_MS + 1;
	begin(&two, 2, 4);
	settle(&two);
	CHECK_EQ(two.right.start, (86400000 + START_MS + 10) / 10);

	CHECK(sf_layout_parse(&node_layout, "timestamp:36 node:10 sequence:12 tick:100ms epoch:2024-01-01",
						  reason, sizeof(reason)));
	sf_layout_print(&node_layout, node_layout_text, sizeof(node_layout_text));
	begin(&two, 2, 8);
	registry.floor = START_MS / 100 + 1;
	settle(&two);
	CHECK_EQ(two.right.start, (86400000 + START_MS + 100) / 10);
	layout = keep;
	node_layout = keep_node;
	sf_layout_print(&node_layout, node_layout_text, sizeof(node_layout_text));
}

/* ---- at random: the world ---- */

/* How a run differs from the assumptions, and which faults it has. */
typedef struct World
{
	const char *name;
	bool		no_compare;
	bool		drops_free;		/* shards given back are forgotten */
	bool		no_start;		/* counters are not raised */
	bool		no_close;		/* closed shards can still be used */
	bool		no_write_id;	/* a line with our name counts as ours */
	int			slow;			/* one message in this many is late, */
	int64_t		slow_ms;		/* by up to this many ms */
	bool		jumps;			/* clocks jump */
	bool		outages;
	bool		losses;			/* the registry loses all data, or some */
	bool		no_floor;		/* and nobody raises the floor */
	int			clone;			/* 1: of a process that goes on; 2: of a
								 * frozen one */
	int			reload;			/* one step in this many of each holder */
	bool		failovers;		/* some servers still reach the old primary */
	bool		believes_reads; /* a claim that was only read is published */
	bool		goes_back;		/* the registry goes back; all can notice */
	bool		no_memory;		/* and no server remembers what it was */
	bool		left_over;		/* a next life, and a next worker, resume */
	bool		no_end;			/* ... where their clock is */
} World;

/* What a session has read but not used yet. */
typedef struct Sleeper
{
	int64_t		until;
	int64_t		clock;
} Sleeper;

typedef struct Holder
{
	SfShardLease shards;
	SfLeaseConfig config;
	enum
	{
		DEAD,
		ALIVE,
		FROZEN
	}			fate;
	uint16_t	life;			/* which issues a timestamp; never 0 */
	int			worker;			/* the number of its worker, over all lives */
	int64_t		offset_ms;		/* of the clock */
	double		rate;
	int64_t		thaw_ms;
	bool		worker_only;	/* its sessions go on meanwhile */
	int64_t		born_ms;		/* when a dead one comes back */
	int64_t		cut_off_ms;
	int64_t		stranded_ms;	/* until then it reaches the old primary */
	uint64_t	sent;
	uint32_t	setting;		/* the shards that it shall want */

	/* what it remembers of the registry, and what of that is on disk */
	SfAge		age;
	SfKnown		kept;
	int64_t		kept_ms;

	/* its shared memory */
	int64_t		counter[NSHARDS];	/* the last timestamp issued */
	bool		closed[NSHARDS];
	int64_t		until;			/* 0: none */
	int64_t		highest;
	bool		had;			/* the worker has had a right */
	Sleeper		sleeper[NSHARDS];
} Holder;

/* A message on its way: a request, or its answer. */
typedef struct Message
{
	bool		used;
	bool		is_answer;
	int			holder;
	uint16_t	life;
	int			worker;
	int64_t		at_ms;
	SfAsk		ask;
	SfAnswer	answer;
	SfRegistry	registry;
	char		text[TEXT_SIZE];
} Message;

#include "lease_simulation.h"

/* The life that issued each timestamp, for each shard. */
static uint16_t issued_by[NSHARDS][MAX_MS];

static SfLease *
lease_of(Holder *holder)
{
	return &holder->shards.lease;
}

static int64_t
clock_of(const Holder *holder)
{
	return moment_of(holder).wall_ms - EPOCH_MS;
}

/* Issue the timestamp, if a session that has read this is allowed to. */
static void
issue(Holder *holder, int shard, int64_t until, int64_t clock)
{
	if (!holder->closed[shard])
		issue_next(holder, &holder->counter[shard], until, clock,
				   issued_by[shard]);
}

/* Issue for one of the shards, and let a session that slept go on. */
static void
generate(Holder *holder)
{
	int64_t		clock = clock_of(holder);
	int			shard = rnd_below(NSHARDS);
	Sleeper    *sleeper = &holder->sleeper[shard];

	for (int i = 0; i < STEP_MS + DRIFT_MS; i++)
		issue(holder, shard, holder->until, clock);
	if (world->clone != 0)
		return;					/* a call that sleeps while its server is
								 * cloned cannot be helped */
	if (chance(30))
		issue(holder, shard, sleeper->until, sleeper->clock);
	if (chance(150) && !holder->closed[shard])
	{
		sleeper->until = holder->until;
		sleeper->clock = clock;
	}
}

/* ---- at random: what the worker does to its shared memory ---- */

static int64_t
close_but(Holder *holder, uint32_t these)
{
	int64_t		last = -1;

	for (int i = 0; i < NSHARDS; i++)
	{
		if ((these >> i & 1) || holder->closed[i])
			continue;
		if (!world->no_close)
			holder->closed[i] = true;
		if (last < holder->counter[i])
			last = holder->counter[i];
	}
	return last;
}

static void
publish(Holder *holder)
{
	const SfShardRight *right = &holder->shards.right;

	if (!holder->had && !right->valid)
		return;
	if (!right->valid)
		holder->until = 0;
	(void) close_but(holder, right->shards[0]);
	if (!right->valid)
		return;
	for (int i = 0; i < NSHARDS; i++)
	{
		if (!(right->shards[0] >> i & 1) ||
			(holder->had && !holder->closed[i]))
			continue;
		if (holder->counter[i] < right->start - 1 && !world->no_start)
			holder->counter[i] = right->start - 1;
		holder->closed[i] = false;
		handed_on++;
	}
	holder->had = true;
	holder->until = right->until;
	if (holder->highest < right->until)
		holder->highest = right->until;
}

/* The holder got an answer: do what the lease wants next. */
static void
follow(Holder *holder)
{
	SfLease    *lease = &holder->shards.lease;

	keep(holder);
	publish(holder);
	if (lease->ask.kind != SF_ASK_NOTHING && lease->ask.number != holder->sent)
	{
		static Message message;

		memset(&message, 0, sizeof(message));
		message.holder = (int) (holder - holders);
		message.life = holder->life;
		message.worker = holder->worker;
		message.ask = lease->ask;
		if (lease->ask.kind == SF_ASK_SHARDS)
			snprintf(message.text, sizeof(message.text), "%s",
					 lease->ask.shards);
		holder->sent = message.ask.number;
		if (true_ms >= holder->cut_off_ms)
			send_message(&message);
	}
	if (lease->state == SF_LEASE_ENDED && holder->fate == ALIVE)
	{
		holder->fate = DEAD;
		holder->born_ms = true_ms + rnd_below(3000);
	}
}

static void
follow_setting(Holder *holder)
{
	SfShardSet	wanted = {holder->setting};

	if (holder->shards.wanted[0] == holder->setting)
		return;
	sf_shard_lease_want(&holder->shards, moment_of(holder), wanted,
						close_but(holder, holder->setting));
	follow(holder);
}

/* What the next worker may resume: nothing that was issued is at "end". */
static void
leave(Holder *holder, int64_t end)
{
	SfClaimant *claimant = &holder->config.claimant;

	if (!world->left_over)
		return;
	claimant->last_write_id = holder->shards.right.write_id;
	claimant->last_until = world->no_end ? 0 : end;
}

/* Start a worker, with the shared memory as it is. */
static void
start_worker(Holder *holder)
{
	holder->fate = ALIVE;
	holder->worker++;
	holder->sent = 0;
	holder->had = false;
	sf_age_init(&holder->age, &holder->kept, "etcd://one", &node_layout);
	holder->config.age = &holder->age;
	sf_shard_lease_init(&holder->shards, &holder->config, &node_layout,
						holder->highest, moment_of(holder));
	follow(holder);
	follow_setting(holder);
}

static void
start_holder(Holder *holder)
{
	int64_t		last = 0;

	for (int i = 0; i < NSHARDS; i++)
	{
		if (last < holder->counter[i])
			last = holder->counter[i];
	}
	leave(holder, last + 1);
	holder->life = ++lives;
	holder->until = 0;
	holder->highest = 0;
	memset(holder->counter, 0, sizeof(holder->counter));
	memset(holder->sleeper, 0, sizeof(holder->sleeper));
	memset(holder->closed, true, sizeof(holder->closed));
	start_worker(holder);
}

/* ---- at random: messages ---- */

static void
carry_out(Message *reply)
{
	reply->ask.shards = reply->text;
	reply->answer.result = apply(&reply->ask, &reply->answer.version);
}

static void
add_registry(Message *reply)
{
	copy_registry(&reply->registry, reply->text);
}

/* Variant: publish a claim that only a reading has shown. */
static void
believe_reading(SfShardLease *shards, const Message *message)
{
	static SfShardMap map;
	char		reason[SF_REASON_SIZE];
	int			line;

	if (shards->lease.state != SF_LEASE_HELD ||
		!sf_shard_map_parse(&map, message->text, reason, sizeof(reason)))
		return;
	line = sf_shard_map_find(&map, shards->lease.record.write_id);
	if (line < 0)
		return;
	shards->right.until = map.line[line].until;
	shards->right.valid = true;
	memcpy(shards->right.shards, shards->held, sizeof(SfShardSet));
	sf_ranges_restrict(shards->right.shards, shards->wanted, NSHARDS);
}

/* Variant without write_id: take any line with our name for our write. */
static void
believe_server(Holder *holder, const Message *message)
{
	static SfShardMap map;
	char		reason[SF_REASON_SIZE];

	if (holder->shards.lease.record.write_id == 0 ||
		!sf_shard_map_parse(&map, message->text, reason, sizeof(reason)))
		return;
	for (int i = 0; i < map.nlines; i++)
	{
		if (map.line[i].write_id != 0 &&
			map.line[i].server == holder->config.claimant.server)
			holder->shards.lease.record.write_id = map.line[i].write_id;
	}
}

/* An answer belongs to the connection of the worker that made the request. */
static void
take_answer(Holder *holder, Message *message)
{
	if (holder->worker != message->worker)
		return;
	events++;
	message->registry.shards = message->text;
	message->answer.registry = &message->registry;
	if (world->no_write_id && message->ask.kind == SF_ASK_READ)
		believe_server(holder, message);
	if (world->no_memory)
		forget(&holder->age, message->ask.generation);
	sf_shard_lease_answer(&holder->shards, moment_of(holder),
						  &message->answer);
	if (world->believes_reads && message->ask.kind == SF_ASK_READ)
		believe_reading(&holder->shards, message);
	follow(holder);
}

/* ---- at random: what goes wrong ---- */

static int64_t
shared_until(const Holder *original)
{
	int64_t		until = true_ms + MAX_OFFSET_MS;

	return original->highest > until ? original->highest : until;
}

static bool
is_past_backup(const SfKnown *known)
{
	return known->shards_version >= backup.version + MAX_HOLDERS;
}

/* Do what snowflake_registry_recover() does. */
static void
recover(void)
{
	recover_ms = 0;
	if (!registry.initialized)
		init_registry(0);
	registry.generation = rnd();
	registry.floor = true_ms + 9000 + MAX_OFFSET_MS;
}

static void
go_wrong(Holder *holder)
{
	if (world->reload > 0 && chance(world->reload))
		holder->setting ^= 1u << rnd_below(NSHARDS);
	if (holder->fate != ALIVE)
		return;
	if (chance(3000))
	{
		holder->fate = DEAD;
		holder->born_ms = true_ms + rnd_below(6000);
	}
	else if (world->clone == 0 && chance(3000))
	{
		leave(holder, 0);
		start_worker(holder);	/* it does not know that it is a clone */
	}
	else if (chance(1000))
		freeze(holder);
	else if (chance(2000) && holder->shards.lease.state == SF_LEASE_HELD)
	{
		holder->until = 0;
		sf_shard_lease_release(&holder->shards, moment_of(holder),
							   close_but(holder, 0));
		follow(holder);
	}
	else
		disturb(holder);
}

static void
go_wrong_at_all(void)
{
	go_wrong_with_registry();
}

/* ---- at random: a run ---- */

static void
step_holder(Holder *holder)
{
	if (holder->shards.lease.state != SF_LEASE_RELEASING)
		follow_setting(holder);
	if (holder->fate != ALIVE ||
		moment_of(holder).monotonic_ms < holder->shards.lease.wake_ms)
		return;
	events++;
	sf_shard_lease_step(&holder->shards, moment_of(holder));
	follow(holder);
}

static void
start_registry(void)
{
	memset(issued_by, 0, sizeof(issued_by));
	no_compare = world->no_compare;
	drops_free = world->drops_free;
	registry.revision = 0;
	init_registry(0);
}

static void
configure(Holder *holder, int number)
{
	holder->config = make_config(number);
	holder->setting = rnd_below(1 << NSHARDS);
}

/*
 * When nothing goes wrong any more, each server has what no other one wants.
 */
static void
check_that_it_heals(void)
{
	for (int i = 0; i < nholders; i++)
		holders[i].setting = 0;
	for (int s = 0; s < NSHARDS; s++)
		holders[s % nholders].setting |= 1u << s;
	heal();
	for (int i = 0; i < nholders; i++)
	{
		const Holder *holder = &holders[i];

		CHECK_EQ(holder->fate, ALIVE);
		CHECK_EQ(holder->shards.right.shards[0], holder->setting);
		CHECK(holder->setting == 0 ||
			  (holder->shards.right.valid && holder->until > true_ms));
		for (int s = 0; s < NSHARDS; s++)
			CHECK_EQ(holder->closed[s], !(holder->setting >> s & 1));
	}
}

static void
test_protocol(void)
{
	static const World worlds[] = {
		{.name = "shards"},
		{.name = "shards, reloads", .reload = 300},
		{.name = "shards, reloads, slow network", .reload = 200, .slow = 8, .slow_ms = 15000,
		.jumps = true},
		{.name = "shards, reloads, outages", .reload = 300, .outages = true,
		.jumps = true},
		{.name = "shards, reloads, registry lost", .reload = 300,
		.losses = true, .jumps = true, .slow = 8, .slow_ms = 15000},
		{.name = "shards, reloads, failovers", .reload = 300,
		.failovers = true, .slow = 8, .slow_ms = 15000, .outages = true},
		{.name = "shards, clone of a frozen machine", .reload = 500,
		.clone = 2, .slow = 8, .slow_ms = 15000},
		{.name = "shards, reloads, registry goes back", .reload = 300,
		.goes_back = true, .jumps = true, .outages = true},
		{.name = "shards, reloads, lives that resume", .reload = 300,
		.left_over = true, .slow = 8, .slow_ms = 15000, .jumps = true},
	};

	check_worlds(worlds, LENGTH(worlds), NRUNS * FAULTY_MS / 4, NRUNS * 4);
}

/* A clone of a machine that goes on shares only what it had at that moment. */
static void
test_live_clone(void)
{
	static const World clone = {.name = "shards, live clone", .clone = 1};

	run_world(&clone, NRUNS, false);
	CHECK(duplicates > 0);
	CHECK_EQ(late_duplicates, 0);
}

/* Variants that are known to fail do fail. */
static void
test_variants_fail(void)
{
	static const World worlds[] = {
		{.name = "shards, written without compare", .no_compare = true,
		.slow = 8, .slow_ms = 15000, .reload = 300},
		{.name = "shards, what was given back is forgotten",
		.drops_free = true, .reload = 300, .jumps = true},
		{.name = "shards, begun below the until", .no_start = true,
		.reload = 300, .jumps = true},
		{.name = "shards, not closed when given back", .no_close = true,
		.reload = 300, .jumps = true},
		{.name = "shards, registry lost, no floor", .losses = true,
		.no_floor = true, .no_memory = true},
		{.name = "shards, registry goes back, no memory", .reload = 300,
		.goes_back = true, .no_memory = true, .jumps = true, .outages = true},
		{.name = "shards, live clone, no write_id", .clone = 1,
		.no_write_id = true},
		{.name = "shards, published when it was read", .failovers = true,
		.believes_reads = true},
		{.name = "shards, resumed below what was issued", .left_over = true,
		.no_end = true, .jumps = true},
	};

	check_variants(worlds, LENGTH(worlds));
}

int
main(void)
{
	char		reason[SF_REASON_SIZE];

	start_tests();
	if (!sf_layout_parse(&layout, LAYOUT, reason, sizeof(reason)) ||
		!sf_layout_parse(&node_layout, NODE_LAYOUT, reason, sizeof(reason)))
		return 1;
	sf_layout_print(&node_layout, node_layout_text, sizeof(node_layout_text));
	RUN(test_claim_extend_release);
	RUN(test_taken);
	RUN(test_left_over);
	RUN(test_reload);
	RUN(test_conflicts);
	RUN(test_unacknowledged);
	RUN(test_fence);
	RUN(test_loss);
	RUN(test_wrong_record);
	RUN(test_full_record);
	RUN(test_interruption);
	RUN(test_clock);
	RUN(test_expiry);
	RUN(test_failures);
	RUN(test_ticks);
	RUN(test_protocol);
	RUN(test_live_clone);
	RUN(test_variants_fail);
	return finish_tests("test_shard_lease");
}
