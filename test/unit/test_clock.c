/*-------------------------------------------------------------------------
 *
 * test_clock.c
 *	  Verdicts about the clock, at their boundaries, and readings of the
 *	  clocks.
 *
 *-------------------------------------------------------------------------
 */
#include "base/clock.h"
#include "harness.h"

static void
test_spans(void)
{
	static const struct
	{
		int64_t		ms;
		const char *text;
	}			spans[] = {
		{0, "0 ms"}, {2500, "2500 ms"}, {9999, "9999 ms"}, {10000, "10 s"},
		{59499, "59 s"}, {60000, "1 min"}, {90000, "1 min 30 s"},
		{599499, "9 min 59 s"}, {630000, "11 min"}, {3568000, "59 min"}, {3570000, "1 h"},
		{7199999, "2 h"}, {7500000, "2 h 5 min"}, {36000000, "10 h"},
		{INT64_C(84599000), "23 h"}, {INT64_C(86390000), "1 day"}, {INT64_C(99000000), "1 day 4 h"},
		{INT64_C(172800000), "2 days"}, {INT64_C(34560001000), "400 days"},
		{INT64_C(1) << 62, "53375995584 days"}, {INT64_MAX, "106751991167 days"}
	};
	char		text[40];

	for (int i = 0; i < (int) (sizeof(spans) / sizeof(spans[0])); i++)
	{
		sf_clock_print_span(spans[i].ms, text, sizeof(text));
		CHECK_STR(text, spans[i].text);
	}
}

/* Verdicts that test_verdicts_are_in_order() does not draw. */
static void
test_verdicts(void)
{
	static const struct
	{
		int64_t		ahead_ms,
					drift_ms,
					tick_ms,
					max_wait_ms;
		SfClockVerdict verdict;
	}			verdicts[] = {
		{-1000000, 5, 1, 3000, SF_CLOCK_GO},
		{0, 0, 1, 0, SF_CLOCK_GO},
		{1000, 1000, 1000, 0, SF_CLOCK_GO},

		/* even if no call may wait, the next tick is no step of the clock */
		{6, 5, 1, 0, SF_CLOCK_TICK},
		{1000, 0, 1000, 10, SF_CLOCK_TICK},
		{7, 5, 1, 0, SF_CLOCK_REFUSE},
		{1001, 0, 1000, 10, SF_CLOCK_REFUSE},
		{INT64_C(1) << 47, 5, 1, 3600000, SF_CLOCK_REFUSE}
	};

	for (int i = 0; i < LENGTH(verdicts); i++)
		CHECK_EQ(sf_clock_judge(verdicts[i].ahead_ms, verdicts[i].drift_ms,
								verdicts[i].tick_ms, verdicts[i].max_wait_ms),
				 verdicts[i].verdict);
}

/*
 * The further ahead an ID is, the harsher is the verdict.  All verdicts
 * occur.
 */
static void
test_verdicts_are_in_order(void)
{
	for (int i = 0; i < 20000; i++)
	{
		int64_t		tick_ms = 1 + rnd_edge(1000);
		int64_t		drift_ms = rnd_edge(1000) * tick_ms;
		int64_t		max_wait_ms = tick_ms + 1 + rnd_edge(3600000);
		SfClockVerdict before = SF_CLOCK_GO;
		const int64_t ahead[] = {
			-1, 0, drift_ms, drift_ms + 1, drift_ms + tick_ms,
			drift_ms + tick_ms + 1, drift_ms + max_wait_ms,
			drift_ms + max_wait_ms + 1
		};
		static const SfClockVerdict expected[] = {
			SF_CLOCK_GO, SF_CLOCK_GO, SF_CLOCK_GO, SF_CLOCK_TICK,
			SF_CLOCK_TICK, SF_CLOCK_WAIT, SF_CLOCK_WAIT, SF_CLOCK_REFUSE
		};

		snprintf(context, sizeof(context), "tick %d, drift %d, wait %d",
				 (int) tick_ms, (int) drift_ms, (int) max_wait_ms);
		for (int j = 0; j < LENGTH(ahead); j++)
		{
			SfClockVerdict verdict = sf_clock_judge(ahead[j], drift_ms,
													tick_ms, max_wait_ms);

			CHECK_EQ(verdict, expected[j]);
			CHECK(verdict >= before);
			before = verdict;
		}
	}
}

/* A clock that runs, or was set forward or back, is not frozen. */
static void
test_frozen(void)
{
	static const struct
	{
		int64_t		wall,
					monotonic;
		bool		frozen;
	}			clocks[] = {
		{0, 200, true}, {99, 200, true}, {0, 1000000, true},
		{499999, 1000000, true},
		{100, 200, false}, {200, 200, false}, {500000, 1000000, false},
		{5000000, 1000000, false},

		/* too early to tell */
		{0, 0, false}, {0, 199, false}, {99, 199, false},

		/* a step back: the caller waits again */
		{-1, 200, false}, {-1000000, 1000000, false}
	};

	for (int i = 0; i < LENGTH(clocks); i++)
		CHECK_EQ(sf_clock_is_frozen(clocks[i].wall, clocks[i].monotonic),
				 clocks[i].frozen);
}

/* Meanwhile clocks may be set and machines may stall, so this is wide. */
#define CLOSE_MS	60000

static void
test_wall_clock_is_read(void)
{
	int64_t		now_ms = (int64_t) time(NULL) * 1000;

	CHECK(llabs(sf_clock_wall_ms() - now_ms) <= CLOSE_MS);
	CHECK(llabs(sf_clock_wall_us() / 1000 - now_ms) <= CLOSE_MS);
}

/*
 * The cached millisecond, which is read again when a millisecond may be over,
 * always equals the clock's.  It may differ once, if somebody sets the clock.
 */
static void
check_milliseconds(void)
{
	int64_t		end = sf_clock_monotonic_ms() + 200;
	int64_t		first = sf_clock_wall_ms();
	int64_t		wrong_ms = 0;
	int			wrong = 0;

	while (sf_clock_monotonic_ms() < end)
	{
		int64_t		before = sf_clock_wall_ms();
		int64_t		ms = sf_clock_tick_ms();
		int64_t		after = sf_clock_wall_ms();

		if ((ms < before || ms > after) && wrong_ms != after)
		{
			wrong_ms = after;
			wrong++;
		}
	}
	CHECK(wrong <= 1);
	CHECK(sf_clock_tick_ms() != first);
}

static void
test_millisecond_is_the_clocks(void)
{
	check_milliseconds();
	sf_clock_start();
	check_milliseconds();
}

static void
test_monotonic_clock_goes_on(void)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	int64_t		before = sf_clock_monotonic_ms();
	int64_t		after;

	nanosleep(&pause, NULL);
	after = sf_clock_monotonic_ms();
	CHECK(after - before >= 4 && after - before <= CLOSE_MS);
}

static void
test_boot_offset_is_between_the_clocks(void)
{
	int64_t		wall_ms = 0;
	int64_t		offset_ms = sf_clock_boot_offset_ms(&wall_ms);
#ifdef CLOCK_BOOTTIME
	struct timespec ts;
	int64_t		since_boot_ms;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	since_boot_ms = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
	CHECK(llabs(wall_ms - offset_ms - since_boot_ms) <= CLOSE_MS);
#endif
	CHECK(llabs(wall_ms - sf_clock_wall_ms()) <= CLOSE_MS);
	CHECK(offset_ms <= wall_ms);
}

/* The answer depends on the machine; the test is that all fields are set. */
static void
test_kernel_tells_or_says_why_not(void)
{
	SfClockSync sync = {.max_error_us = -1, .estimated_error_us = -1};
	int			error = sf_clock_read_sync(&sync);

	if (error == 0)
	{
		CHECK(sync.max_error_us >= 0 && sync.estimated_error_us >= 0);
		return;
	}
	CHECK(error > 0);
	CHECK(sync.max_error_us == -1);
	printf("the kernel does not say whether its clock is right: %s\n",
		   strerror(error));
}

int
main(void)
{
	start_tests();
	RUN(test_spans);
	RUN(test_verdicts);
	RUN(test_verdicts_are_in_order);
	RUN(test_frozen);
	RUN(test_wall_clock_is_read);
	RUN(test_millisecond_is_the_clocks);
	RUN(test_monotonic_clock_goes_on);
	RUN(test_boot_offset_is_between_the_clocks);
	RUN(test_kernel_tells_or_says_why_not);
	return finish_tests("test_clock");
}
