/*-------------------------------------------------------------------------
 *
 * test_registry_age.c
 *	  What a server remembers of a registry, and which registries have lost
 *	  data, or are others.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/registry_age.h"
#include "harness.h"

#define LAYOUT		"timestamp:41 node:10 sequence:12 epoch:2024-01-01"
#define EPOCH_MS	INT64_C(1704067200000)	/* of the layout */

static SfLayout layout;
static SfAge age;
static SfRegistry registry;
static SfSlotRecord record;

/* A server that has read a registry, and holds node 3 there. */
static void
prepare(void)
{
	memset(&registry, 0, sizeof(registry));
	memset(&record, 0, sizeof(record));
	registry.initialized = true;
	registry.generation = 7;
	registry.floor = 1000;
	registry.version = 40;
	sf_layout_print(&layout, registry.layout, sizeof(registry.layout));
	sf_age_init(&age, NULL, &layout);
	CHECK_EQ(sf_age_promised_ms(&age), 0);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_promised_ms(&age), EPOCH_MS + 1000);

	record.node = 3;
	record.version = 41;
	record.until = 9000;
	record.owner = 5;
	CHECK(sf_age_take_write(&age, 7, &record, 41));
	CHECK_EQ(sf_age_promised_ms(&age), EPOCH_MS + 9000);
	registry.records = &record;
	registry.nrecords = 1;
	registry.version = 41;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
}

static void
restart(void)
{
	SfKnown		known = age.known;

	sf_age_init(&age, &known, &layout);
}

/* Replace the registry by one that succeeds nothing, or by its recovery. */
static void
become(uint64_t generation, int64_t floor)
{
	registry.generation = generation;
	registry.former[0] = '\0';
	registry.floor = floor;
}

static void
renew(uint64_t generation, int64_t floor, const char *former)
{
	char		list[SF_FORMER_SIZE];

	sf_registry_succeed(list, &registry, former);
	become(generation, floor);
	strcpy(registry.former, list);
}

static void
test_versions(void)
{
	prepare();
	registry.version = 50;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	registry.version = 49;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);

	/* also after later writes of other servers, and after a restart */
	registry.version = 60;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
	restart();
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
	CHECK(!sf_age_take_write(&age, 7, &record, 61));

	/* our own record is lost */
	prepare();
	registry.version = 50;
	record.version = 40;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
	prepare();
	registry.version = 50;
	registry.nrecords = 0;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);

	/* the newest record is lost, although other servers have written since */
	prepare();
	{
		SfSlotRecord two[2] = {record, record};

		two[0].node = 2;
		two[0].version = 50;
		registry.records = two;
		registry.nrecords = 2;
		registry.version = 50;
		registry.newest = 2;
		CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
		two[0].version = 49;
		two[1].version = 51;
		registry.version = 51;
		registry.newest = 3;
		CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
	}

	/* a write with a version that is not above the known ones */
	prepare();
	CHECK(!sf_age_take_write(&age, 7, &record, 41));
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
}

static void
test_generations(void)
{
	/* after a recovery, any version will do */
	prepare();
	renew(8, 9000, "");
	registry.version = 1;
	record.version = 1;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_promised_ms(&age), EPOCH_MS + 9000);
	registry.version = 0;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);

	/*
	 * a write to a generation that has ended proves nothing about the new one
	 */
	prepare();
	renew(8, 9000, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK(!sf_age_take_write(&age, 7, &record, 99));
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* the floor is below what was promised to us */
	prepare();
	renew(8, 8999, "");
	record.owner = 6;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_FLOOR);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_FLOOR);
	renew(8, 9000, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* our own record keeps it, unless that is an older one */
	prepare();
	renew(8, 8999, "");
	record.until = 8999;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_FLOOR);
	record.until = 9000;
	CHECK_EQ(sf_age_missing_ms(&age, &registry), EPOCH_MS + 1000);
	age.promised_ms = EPOCH_MS + 9001;
	CHECK_EQ(sf_age_missing_ms(&age, &registry), EPOCH_MS + 9001);
	age.promised_ms = 0;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* also when the next recovery comes, although nothing was written since */
	renew(9, 8999, "");
	record.owner = 6;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_FLOOR);

	/* it is not looked for in the ticks of another layout */
	prepare();
	CHECK_EQ(sf_age_missing_ms(&age, &registry), EPOCH_MS + 1000);
	strcpy(registry.layout, "another");
	CHECK_EQ(sf_age_missing_ms(&age, &registry), EPOCH_MS + 9000);

	/* which is the last one if we have given the slot back */
	prepare();
	renew(8, 8999, "");
	record.until = 2000;
	record.released = true;
	age.promised_ms = EPOCH_MS + 9001;
	CHECK_EQ(sf_age_missing_ms(&age, &registry), EPOCH_MS + 9001);
	age.promised_ms = 0;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* but it keeps no floor */
	prepare();
	renew(8, 999, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_FLOOR);

	/* it has lost data, and is recovered */
	prepare();
	registry.version = 1;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_SOME);
	renew(8, INT64_MAX, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
}

/* A registry is another one, unless it succeeds the known one. */
static void
test_others(void)
{
	/* whether its floor would do or not */
	for (int i = 0; i < 2; i++)
	{
		prepare();
		become(8, i == 0 ? 10 : 99000);
		CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_OTHER);
		restart();
		CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_OTHER);
		CHECK_EQ(sf_age_promised_ms(&age), EPOCH_MS + 9000);
		CHECK(!sf_age_take_write(&age, 8, &record, 99));
	}

	/* nor does its own recovery help, but one that names the former one */
	renew(9, 100000, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_OTHER);
	renew(10, 101000, "0000000000000007");
	CHECK_STR(registry.former, "0000000000000009 0000000000000007 0000000000000008");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(age.known.generation, 10);

	/* then the former one is another, until it succeeds this one */
	become(7, 200000);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_OTHER);
	renew(11, 201000, "000000000000000a");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* after two moves, also for a server that knows only the first one */
	prepare();
	become(8, 100000);
	renew(9, 101000, "0000000000000007");
	renew(10, 102000, "");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* a server that knows none takes any */
	become(12, 0);
	sf_age_init(&age, NULL, &layout);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* after many recoveries the first one is forgotten, and all are whole */
	prepare();
	for (int i = 0; i < 31; i++)
		renew(UINT64_C(0xfedcba9876543210) + i, 9000, "");
	CHECK_STR(strrchr(registry.former, ' '), " 0000000000000007");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	prepare();
	for (int i = 0; i < 32; i++)
		renew(UINT64_C(0xfedcba9876543210) + i, 9000,
			  i == 31 ? "0000000000000003" : "");
	CHECK_EQ(strlen(registry.former), SF_FORMER_SIZE - 1);
	CHECK_STR(strrchr(registry.former, ' '), " fedcba9876543210");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_OTHER);
}

static void
test_empty(void)
{
	prepare();
	registry.initialized = false;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_ALL);
	restart();
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_ALL);
	sf_age_init(&age, NULL, &layout);
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* all data is back */
	prepare();
	registry.initialized = false;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_ALL);
	registry.initialized = true;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);

	/* a registry for another layout is not judged */
	become(8, 0);
	strcpy(registry.layout, "another");
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(age.known.generation, 7);
}

/* How far ahead servers reserve, and a reserve that is lowered. */
static void
test_reserve(void)
{
	prepare();
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS), 0);
	record.reserve_ms = 60000;
	record.until = 61000;
	CHECK(sf_age_take_write(&age, 7, &record, 42));
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 1000), 60000);

	/* a smaller one replaces it when it has run out twice over */
	record.reserve_ms = 6000;
	record.until = 67000;
	CHECK(sf_age_take_write(&age, 7, &record, 43));
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 61000), 60000);
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 120999), 60000);
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 121000), 0);
	record.until = 127000;
	CHECK(sf_age_take_write(&age, 7, &record, 44));
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 121000), 6000);

	/* that of another server; not if it gave that back, nor if it lies */
	registry.version = 45;
	record.version = 45;
	record.reserve_ms = 3600000;
	record.until = 3800000;
	record.released = true;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 121000), 6000);
	record.released = false;
	record.reserve_ms = INT64_MAX;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 121000), 6000);
	record.reserve_ms = 3600000;
	CHECK_EQ(sf_age_take_reading(&age, &registry), SF_LOSS_NONE);
	CHECK_EQ(sf_age_reserve_ms(&age, EPOCH_MS + 121000), 3600000);
}

int
main(void)
{
	char		reason[SF_REASON_SIZE];

	start_tests();
	if (!sf_layout_parse(&layout, LAYOUT, reason, sizeof(reason)))
		return 1;
	RUN(test_versions);
	RUN(test_generations);
	RUN(test_others);
	RUN(test_empty);
	RUN(test_reserve);
	return finish_tests("test_registry_age");
}
