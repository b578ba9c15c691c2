/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  Clocks for tests: the wall clock can be set, and all clocks can be moved
 *	  on faster than time goes by.
 *
 * To be preloaded.  Everything is in a file (SfClock), and at once in each
 * process that has this library and the same file.  What is added to all
 * clocks leaves nothing wrong that is measured between two of them, or between
 * two processes.  Timers must not go slower than clocks, so no process that
 * waits for events with a time-out waits for longer than it may.
 *
 * A test moves the clocks on in steps, and does not take the next one before
 * the process that it watches has looked at the time.  So that process sees
 * what it would see on a machine that is never too busy to let it run, however
 * busy this one is.
 *
 * libfaketime, by which other tests set the wall clock, cannot do this: each
 * process counts from its own start.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef struct SfClock
{
	int64_t		ahead_ms;		/* of the machine's, all clocks */
	int64_t		set_ms;			/* the wall clock besides; or less than 0 */
	int64_t		nap_ms;			/* nobody waits longer; 0: as he likes */
	int64_t		watched;		/* a process, or 0 */
	int64_t		seen_ms;		/* ahead_ms as that has last read it */
} SfClock;

static SfClock *
find_clock(void)
{
	static SfClock *clock;
	const char *file = getenv("SNOWFLAKE_CLOCK");
	int			fd;

	if (clock != NULL)
		return clock;
	if (file == NULL || (fd = open(file, O_RDWR)) < 0)
		abort();
	clock = mmap(NULL, sizeof(SfClock), PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, 0);
	if (clock == MAP_FAILED)
		abort();
	close(fd);
	return clock;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	SfClock    *clock = find_clock();
	int64_t		ahead_ms = __atomic_load_n(&clock->ahead_ms, __ATOMIC_SEQ_CST);
	int64_t		add_ms = ahead_ms;

	if (syscall(SYS_clock_gettime, id, ts) != 0)
		return -1;
	if (id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
		return 0;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		add_ms += __atomic_load_n(&clock->set_ms, __ATOMIC_SEQ_CST);
	ts->tv_sec += add_ms / 1000;
	ts->tv_nsec += add_ms % 1000 * 1000000;
	if (ts->tv_nsec < 0)
	{
		ts->tv_sec--;
		ts->tv_nsec += 1000000000;
	}
	if (ts->tv_nsec >= 1000000000)
	{
		ts->tv_sec++;
		ts->tv_nsec -= 1000000000;
	}

	/* the server itself does not ask for this one */
	if (id == CLOCK_BOOTTIME &&
		__atomic_load_n(&clock->watched, __ATOMIC_SEQ_CST) == getpid())
		__atomic_store_n(&clock->seen_ms, ahead_ms, __ATOMIC_SEQ_CST);
	return 0;
}

int
gettimeofday(struct timeval *tv, void *zone)
{
	struct timespec ts;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *seconds)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	if (seconds != NULL)
		*seconds = ts.tv_sec;
	return ts.tv_sec;
}

int
epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
	int64_t		nap_ms = __atomic_load_n(&find_clock()->nap_ms,
										 __ATOMIC_SEQ_CST);

	if (nap_ms > 0 && timeout_ms > nap_ms)
		timeout_ms = (int) nap_ms;
	return (int) syscall(SYS_epoll_pwait, fd, events, n, timeout_ms, NULL, 0);
}
