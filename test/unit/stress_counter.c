/*-------------------------------------------------------------------------
 *
 * stress_counter.c
 *	  Eight threads on one counter: no position is taken twice.
 *
 * The compare-and-swap of the server is compiled with the server's own
 * atomics, but runs in threads and not in backends.  The threads take runs of
 * any length.  They share a clock that all move and that each reads late, and
 * they raise the counter.  At the end the test compares what each thread
 * took.  test/unit/stress builds this as the server is built, and with
 * ThreadSanitizer.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

/* Only the server's headers are used; these functions are the C library's. */
#undef printf
#undef fprintf
#undef snprintf
#undef sprintf
#undef vsnprintf
#undef qsort

#include <pthread.h>
#include <sched.h>

#include "port/atomics.h"

static uint64 read_and_dawdle(pg_atomic_uint64 *ptr);
static bool swap_or_dawdle(pg_atomic_uint64 *ptr, uint64 *old, uint64 value);

/*
 * A thread pauses after counter.h has read the counter, so the value is old.
 */
#define pg_atomic_read_u64				read_and_dawdle
#define pg_atomic_compare_exchange_u64	swap_or_dawdle
#include "runtime/counter.h"
#undef pg_atomic_read_u64
#undef pg_atomic_compare_exchange_u64

#include "harness.h"

#define NTHREADS	8
#define FIRST_TICK	INT64_C(1700000000000)
#define MAX_WANT	40

#define TAKES		10000		/* of each thread */

/*
 * With fewer changes of the thread between runs, the test would prove
 * nothing. On a busy machine more than one round may be needed to get there.
 */
#define MIN_CHANGES	1000
#define MAX_ROUNDS	50

/*
 * What a thread did and saw.  Only the thread uses it until the thread ends.
 */
typedef struct Taker
{
	pthread_t	thread;
	uint64_t	rnd_state;
	SfPositionRange *runs;
	int			nruns;
	int			nrefused;
	uint64_t	raised;			/* the highest */
	int			nraised;
	const char *wrong;			/* the first error, if any */
} Taker;

/* A run, and the thread that took it. */
typedef struct Taken
{
	SfPositionRange run;
	int			taker;
} Taken;

static pg_atomic_uint64 counter;
static int	sequence_bits;
static int64_t drift;			/* in ticks */
static pthread_barrier_t start_line;

/* The clock, and the highest raise that is complete. */
static int64_t clock_tick;
static uint64_t floor_position;

#ifdef WITH_TSAN

/*
 * The server reads and initializes its atomics through volatile: as a whole,
 * and in no order.  The sanitizer would report a race of such a read with a
 * compare-and-swap.  It still checks the writes.
 */
void		__tsan_volatile_read8(void *address);
void		__tsan_volatile_write8(void *address);
void		__tsan_write8(void *address);

void
__tsan_volatile_read8(void *address)
{
	(void) address;
}

void
__tsan_volatile_write8(void *address)
{
	__tsan_write8(address);
}
#endif

/* A server built with assertions calls this. */
#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *condition, const char *file, int line)
{
	printf("%s:%d: %s\n", file, line, condition);
	abort();
}
#else
void
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
{
	printf("%s:%d: %s %s\n", file, line, type, condition);
	abort();
}
#endif

/*
 * Let other threads run now and then, between a read and the use of its
 * value. Otherwise, on few processors, each thread would end before the next
 * begins.
 */
static void
dawdle(void)
{
	static __thread unsigned int n = 0;

	if (n++ % 8 == 0)
		sched_yield();
}

static uint64
read_and_dawdle(pg_atomic_uint64 *ptr)
{
	uint64		value = pg_atomic_read_u64(ptr);

	/* the sanitizer does not see assembler: tell it that the word is used */
	(void) __atomic_load_n(&ptr->value, __ATOMIC_RELAXED);
	dawdle();
	return value;
}

static bool
swap_or_dawdle(pg_atomic_uint64 *ptr, uint64 *old, uint64 value)
{
	if (pg_atomic_compare_exchange_u64(ptr, old, value))
		return true;
	dawdle();
	return false;
}

static uint64_t
taker_rnd(Taker *taker, uint64_t n)
{
	taker->rnd_state ^= taker->rnd_state >> 12;
	taker->rnd_state ^= taker->rnd_state << 25;
	taker->rnd_state ^= taker->rnd_state >> 27;
	return (taker->rnd_state * UINT64_C(0x2545F4914F6CDD1D) >> 1) % n;
}

static void
find_wrong(Taker *taker, bool wrong, const char *what)
{
	if (wrong && taker->wrong == NULL)
		taker->wrong = what;
}

/* Raise the counter to a position nearby, and then publish that position. */
static void
raise_counter(Taker *taker)
{
	uint64_t	position = pg_atomic_read_u64(&counter) + taker_rnd(taker, 200);
	uint64_t	before = __atomic_load_n(&floor_position, __ATOMIC_ACQUIRE);

	position -= taker_rnd(taker, 200);
	sf_counter_raise(&counter, position);
	find_wrong(taker, pg_atomic_read_u64(&counter) < position,
			   "after a raise the counter is below it");
	while (before < position &&
		   !__atomic_compare_exchange_n(&floor_position, &before, position,
										false, __ATOMIC_ACQ_REL,
										__ATOMIC_ACQUIRE))
		;
	taker->raised = Max(taker->raised, position);
	taker->nraised++;
}

static void
take_run(Taker *taker)
{
	int64_t		now = __atomic_load_n(&clock_tick, __ATOMIC_RELAXED);
	uint64_t	floor = __atomic_load_n(&floor_position, __ATOMIC_ACQUIRE);
	int64_t		want = 1 + taker_rnd(taker, taker_rnd(taker, 2) ? MAX_WANT : 1);
	int64_t		start = taker_rnd(taker, INT64_C(1) << (sequence_bits - 1));
	int64_t		cap;
	uint64		retries = 0;
	SfPositionRange run;

	now -= taker_rnd(taker, 4) == 0 ? taker_rnd(taker, 3) : 0;
	cap = ((now + drift + 1) << sequence_bits) - 1;
	if (!sf_counter_take(&counter, sequence_bits, now, start, want, cap, &run,
						 &retries))
	{
		find_wrong(taker, (int64_t) pg_atomic_read_u64(&counter) < cap,
				   "a call was refused below its cap");
		taker->nrefused++;

		/* time passes while a thread waits */
		__atomic_fetch_add(&clock_tick, 1, __ATOMIC_RELAXED);
		return;
	}
	find_wrong(taker, run.last < run.first, "a run is empty");
	find_wrong(taker, run.last - run.first >= want, "a run is too long");
	find_wrong(taker, run.last > cap, "a run goes beyond its cap");
	find_wrong(taker, run.first < (now << sequence_bits),
			   "a run begins before the clock");
	find_wrong(taker, (uint64_t) run.first <= floor,
			   "a run begins at or below a raise before it");
	find_wrong(taker, taker->nruns > 0 &&
			   run.first <= taker->runs[taker->nruns - 1].last,
			   "a run begins at or below the one before it");
	taker->runs[taker->nruns++] = run;
}

static void *
take_runs(void *arg)
{
	Taker	   *taker = arg;

	pthread_barrier_wait(&start_line);
	while (taker->nruns < TAKES)
	{
		take_run(taker);
		if (taker_rnd(taker, 30) == 0)
			raise_counter(taker);

		/*
		 * In the second half the clock moves only after refused calls.  So
		 * the last thread alone takes more than the drift allows, and is
		 * refused, whatever the scheduler does.
		 */
		if (taker->nruns < TAKES / 2 && taker_rnd(taker, 100) == 0)
			__atomic_fetch_add(&clock_tick, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int
compare_taken(const void *a, const void *b)
{
	int64_t		first_a = ((const Taken *) a)->run.first;
	int64_t		first_b = ((const Taken *) b)->run.first;

	return first_a < first_b ? -1 : first_a > first_b;
}

/* Check that no two runs overlap.  Return how often the thread changed. */
static int
check_taken(const Taker *takers)
{
	Taken	   *all = malloc(sizeof(Taken) * NTHREADS * TAKES);
	int			n = 0;
	int			changes = 0;
	int			doubles = 0;
	uint64_t	last;

	for (int i = 0; i < NTHREADS; i++)
		for (int j = 0; j < takers[i].nruns; j++)
		{
			all[n].run = takers[i].runs[j];
			all[n++].taker = i;
		}
	CHECK_EQ(n, NTHREADS * TAKES);
	qsort(all, n, sizeof(Taken), compare_taken);
	last = all[n - 1].run.last;
	for (int i = 1; i < n; i++)
	{
		doubles += all[i].run.first <= all[i - 1].run.last;
		changes += all[i].taker != all[i - 1].taker;
	}
	for (int i = 0; i < NTHREADS; i++)
		last = Max(last, takers[i].raised);
	CHECK_EQ(doubles, 0);
	CHECK_EQ(pg_atomic_read_u64(&counter), last);
	printf("%d bits: %d runs, %d changes of thread\n", sequence_bits, n,
		   changes);
	free(all);
	return changes;
}

static int
stress_round(void)
{
	static Taker takers[NTHREADS];
	int			refused = 0;
	int			raised = 0;
	int			changes;

	clock_tick = FIRST_TICK;
	floor_position = 0;
	pg_atomic_init_u64(&counter, 0);
	pthread_barrier_init(&start_line, NULL, NTHREADS);
	for (int i = 0; i < NTHREADS; i++)
	{
		takers[i] = (Taker)
		{
			.rnd_state = rnd() | 1,
				.runs = malloc(sizeof(SfPositionRange) * TAKES)
		};
		CHECK_EQ(pthread_create(&takers[i].thread, NULL, take_runs,
								&takers[i]), 0);
	}
	for (int i = 0; i < NTHREADS; i++)
	{
		pthread_join(takers[i].thread, NULL);
		CHECK_STR(takers[i].wrong ? takers[i].wrong : "", "");
		refused += takers[i].nrefused;
		raised += takers[i].nraised;
	}
	CHECK(refused > 0);
	CHECK(raised > 0);
	changes = check_taken(takers);
	for (int i = 0; i < NTHREADS; i++)
		free(takers[i].runs);
	pthread_barrier_destroy(&start_line);
	return changes;
}

static void
stress(int bits, int64_t drift_ticks)
{
	int			changes = 0;

	snprintf(context, sizeof(context), "%d bits of sequence", bits);
	sequence_bits = bits;
	drift = drift_ticks;
	for (int i = 0; i < MAX_ROUNDS && changes < MIN_CHANGES; i++)
		changes += stress_round();
	CHECK(changes >= MIN_CHANGES);
}

static void
test_default_sequence(void)
{
	stress(12, 5);
}

static void
test_sequence_that_is_always_full(void)
{
	stress(3, 5);
}

static void
test_shortest_sequence_without_drift(void)
{
	stress(1, 0);
}

int
main(void)
{
	start_tests();
	RUN(test_default_sequence);
	RUN(test_sequence_that_is_always_full);
	RUN(test_shortest_sequence_without_drift);
	return finish_tests("stress_counter");
}
