/*-------------------------------------------------------------------------
 *
 * harness.h
 *	  What unit tests share: checks, random values, and the summary.
 *
 * A test is a function.  It fails if one of its checks fails, but goes on to
 * find more.  Only its first few failures are printed, since a test with
 * random values makes millions of checks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HARNESS_H
#define SF_HARNESS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAILURES_SHOWN	5

static int	tests_passed = 0;
static int	tests_failed = 0;
static int	checks_failed = 0;	/* in the current test */
static uint64_t seed;
static uint64_t rnd_state;

/* The origin of the values under test, printed with a failure. */
static char context[512] = "";

#define RUN(test)	run_test(#test, test)
#define LENGTH(a)	((int) (sizeof(a) / sizeof((a)[0])))

#define CHECK(cond) \
	((void) ((cond) || fail_check(__FILE__, __LINE__, #cond, "is false")))
#define CHECK_EQ(got, expected) \
	check_eq(__FILE__, __LINE__, #got, (int64_t) (got), (int64_t) (expected))
#define CHECK_STR(got, expected) \
	check_str(__FILE__, __LINE__, #got, got, expected)
#define CHECK_CONTAINS(got, expected) \
	check_contains(__FILE__, __LINE__, #got, got, expected)

static inline bool
fail_check(const char *file, int line, const char *what, const char *how)
{
	if (checks_failed++ < FAILURES_SHOWN)
		printf("%s:%d: %s %s%s%s\n", file, line, what, how,
			   context[0] == '\0' ? "" : "; with ", context);
	return false;
}

static inline void
check_eq(const char *file, int line, const char *what,
		 int64_t got, int64_t expected)
{
	char		how[80];

	if (got == expected)
		return;
	snprintf(how, sizeof(how), "is %" PRId64 ", not %" PRId64, got, expected);
	fail_check(file, line, what, how);
}

static inline void
check_str(const char *file, int line, const char *what,
		  const char *got, const char *expected)
{
	char		how[512];

	if (strcmp(got, expected) == 0)
		return;
	snprintf(how, sizeof(how), "is \"%.200s\", not \"%.200s\"", got, expected);
	fail_check(file, line, what, how);
}

static inline void
check_contains(const char *file, int line, const char *what,
			   const char *got, const char *expected)
{
	char		how[512];

	if (strstr(got, expected) != NULL)
		return;
	snprintf(how, sizeof(how), "is \"%.200s\", without \"%.200s\"",
			 got, expected);
	fail_check(file, line, what, how);
}

static inline void
run_test(const char *name, void (*test) (void))
{
	checks_failed = 0;
	test();
	context[0] = '\0';
	if (checks_failed == 0)
		tests_passed++;
	else
	{
		tests_failed++;
		printf("%s: %d checks failed\n", name, checks_failed);
	}
	fflush(stdout);
}

/* ---- random values ---- */

/* Seed the random values by SEED of the environment, or by a new value. */
static inline void
start_tests(void)
{
	const char *text = getenv("SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text != NULL ? strtoull(text, NULL, 10) :
		(uint64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
	rnd_state = seed != 0 ? seed : 1;	/* xorshift would stay at zero */
}

/* Print the result, with the seed that repeats it.  Return the exit status. */
static inline int
finish_tests(const char *program)
{
	printf("%s: %d passed, %d failed (SEED=%" PRIu64 ")\n", program,
		   tests_passed, tests_failed, seed);
	return tests_failed > 0;
}

/* xorshift64* */
static inline uint64_t
rnd(void)
{
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return rnd_state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline uint64_t
rnd_below(uint64_t n)
{
	return (rnd() >> 1) % n;
}

/*
 * Return a number below n, often the first or the last: errors are at edges.
 */
static inline uint64_t
rnd_edge(uint64_t n)
{
	switch (rnd_below(4))
	{
		case 0:
			return 0;
		case 1:
			return n - 1;
		default:
			return rnd_below(n);
	}
}

/* Return an integer of any magnitude, often one at an edge. */
static inline int64_t
rnd_int64(void)
{
	static const int64_t edges[] = {
		INT64_MIN, INT64_MIN + 1, -1000, -1, 0, 1, 1000, INT64_MAX - 1,
		INT64_MAX
	};

	if (rnd_below(4) == 0)
		return edges[rnd_below(LENGTH(edges))];
	return (int64_t) rnd() >> rnd_below(64);
}

#endif							/* SF_HARNESS_H */
