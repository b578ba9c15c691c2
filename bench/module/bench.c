/*-------------------------------------------------------------------------
 *
 * bench.c
 *	  Loops in the backend, so that no client or protocol is measured.
 *
 * Preload this library: it requests the lightweight lock that one build of the
 * extension uses (see counter.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <time.h>

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/array.h"
#include "utils/builtins.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_DUMP_STATS_AT(label) ((void) (label))
#endif

PG_MODULE_MAGIC;

#define NS_PER_S	INT64CONST(1000000000)

/* Sixteen buckets from each power of two to the next. */
#define BUCKET_BITS	4
#define BUCKETS		(40 << BUCKET_BITS)

void		_PG_init(void);
static shmem_request_hook_type previous_request = NULL;

PG_FUNCTION_INFO_V1(bench_nothing);
PG_FUNCTION_INFO_V1(bench_loop);
PG_FUNCTION_INFO_V1(bench_histogram);
PG_FUNCTION_INFO_V1(bench_dump);

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestNamedLWLockTranche("snowflake_bench", 1);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request;
}

static int64
read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64
cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64CONST(1000000) +
		u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

/* Wait until a time in seconds since 1970, so that backends begin together. */
static void
wait_until(float8 start)
{
	int64		left;

	while ((left = (int64) (start * NS_PER_S) - read_ns(CLOCK_REALTIME)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(Min(left / 1000 + 1, 100000));
	}
}

/* Do nothing: no C function can be called in less time. */
Datum
bench_nothing(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}

/*
 * bench_loop(query text, start float8, ms integer,
 *			  OUT times bigint, OUT ns bigint, OUT cpu_us bigint)
 *
 * Plan a query, and execute it repeatedly for "ms" milliseconds.  Return how
 * often it ran, in how many ns, and the CPU time in microseconds.
 */
Datum
bench_loop(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int64		span = PG_GETARG_INT32(2) * INT64CONST(1000000);
	int64		times = 0;
	int64		begun;
	int64		ns;
	int64		cpu;
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {0};
	SPIPlanPtr	plan;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	SPI_connect();
	plan = SPI_prepare(query, 0, NULL);
	if (plan == NULL || SPI_execute_plan(plan, NULL, NULL, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", query);
	wait_until(PG_GETARG_FLOAT8(1));
	begun = read_ns(CLOCK_MONOTONIC);
	cpu = cpu_us();
	do
	{
		CHECK_FOR_INTERRUPTS();
		SPI_execute_plan(plan, NULL, NULL, false, 0);
		SPI_freetuptable(SPI_tuptable);
		times++;
		ns = read_ns(CLOCK_MONOTONIC) - begun;
	} while (ns < span);
	cpu = cpu_us() - cpu;
	SPI_finish();

	values[0] = Int64GetDatum(times);
	values[1] = Int64GetDatum(ns);
	values[2] = Int64GetDatum(cpu);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

static int
bucket_of(int64 ns)
{
	int			shift = 0;

	while (ns >> shift >= 2 << BUCKET_BITS)
		shift++;
	return Min((shift << BUCKET_BITS) + (int) (ns >> shift), BUCKETS - 1);
}

/*
 * bench_histogram(function regprocedure, argument integer, calls integer,
 *				   start float8, ms integer) returns bigint[]
 *
 * Call a function as the executor does, and read the clock after every "calls"
 * calls, for "ms" milliseconds.  Return a histogram of the times between two
 * readings: the first element is the longest time, in ns; element i + 2 counts
 * the times in bucket i.
 */
Datum
bench_histogram(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, 1);
	Oid			function = PG_GETARG_OID(0);
	int32		calls = PG_GETARG_INT32(2);
	int64		span = PG_GETARG_INT32(4) * INT64CONST(1000000);
	FmgrInfo	info;
	Datum		counts[BUCKETS + 1] = {0};
	int64		begun;
	int64		before;
	int64		after;

	fmgr_info(function, &info);
	InitFunctionCallInfoData(*call, &info, info.fn_nargs, InvalidOid,
							 NULL, NULL);
	if (info.fn_nargs > 1)
		elog(ERROR, "the function must have one argument or none");
	/* the argument is an integer, or the OID of a sequence */
	call->args[0].value = PG_GETARG_DATUM(1);
	call->args[0].isnull = false;
	wait_until(PG_GETARG_FLOAT8(3));
	begun = before = read_ns(CLOCK_MONOTONIC);
	do
	{
		for (int i = 0; i < calls; i++)
		{
			call->isnull = false;
			(void) FunctionCallInvoke(call);
		}
		after = read_ns(CLOCK_MONOTONIC);
		counts[1 + bucket_of(after - before)]++;
		counts[0] = Max(counts[0], (Datum) (after - before));
		CHECK_FOR_INTERRUPTS();
		before = after;
	} while (after - begun < span);
	PG_RETURN_ARRAYTYPE_P(construct_array(counts, lengthof(counts),
										  INT8OID, sizeof(int64), true,
										  TYPALIGN_DOUBLE));
}

/* Let valgrind write its counts since the last dump, under this label. */
Datum
bench_dump(PG_FUNCTION_ARGS)
{
	char	   *label = text_to_cstring(PG_GETARG_TEXT_PP(0));

	CALLGRIND_DUMP_STATS_AT(label);
	PG_RETURN_VOID();
}
