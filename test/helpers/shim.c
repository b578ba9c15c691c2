/*-------------------------------------------------------------------------
 *
 * shim.c
 *	  Library for LD_PRELOAD with which a test changes a server's clocks, its
 *	  kernel's report on the clock, its machine ID and its host name.
 *
 * SHIM_CLOCK names a file (SfClock).  A test writes it to set the wall clock,
 * or to advance all clocks faster than real time.  The change takes effect at
 * once, in every process that has the file mapped.  An offset that all clocks
 * share does not change the difference between two clocks or two processes.
 * Timers must not be slower than the clocks, so a process that waits for
 * events with a time-out waits for at most "nap_ms".
 *
 * A test advances the clocks in steps, and waits after each step until the
 * watched process has read the clock and waits for events again.  So each
 * turn of its loop sees one step at most, however often it reads the clock
 * and however long it writes a file: the same as on a machine that is never
 * busy.
 *
 * A server also reads the clock in signal handlers, which may have
 * interrupted malloc().  So the clock functions here open no file and allocate
 * no memory.  libfaketime does both, and has damaged a server's heap in a test.
 *
 * SHIM_KERNEL names a file with the result of adjtimex(): "synchronized" or
 * "unsynchronized", the largest and the estimated error in microseconds; or
 * "forbidden".  SHIM_MACHINE names the file that is read in place of
 * /etc/machine-id.  SHIM_HOSTNAME is the host's name.  A variable that is not
 * set changes nothing.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

/* ---- clocks ---- */

typedef struct SfClock
{
	int64_t		ahead_ms;		/* how far all clocks are ahead of the
								 * machine's */
	int64_t		set_ms;			/* added to the wall clock only; may be
								 * negative */
	int64_t		frozen_us;		/* fixed value of the wall clock; 0: it runs */
	int64_t		nap_ms;			/* longest wait of any process; 0: any */
	int64_t		watched;		/* a process, or 0 */
	int64_t		seen_ms;		/* ahead_ms as that process has read it first
								 * in its last turn */
} SfClock;

/* Used before a file is mapped, or without a file. */
static SfClock real;
static SfClock *shared = &real;

/* What the watched process has read first since it waited; -1: nothing. */
static int64_t first_ms = -1;

/* Return true in the watched process, but not in its other threads. */
static int
is_watched(void)
{
	return __atomic_load_n(&shared->watched, __ATOMIC_SEQ_CST) == getpid() &&
		syscall(SYS_gettid) == getpid();
}

__attribute__((constructor)) static void
map_clock(void)
{
	const char *name = getenv("SHIM_CLOCK");
	int			fd;

	if (name == NULL)
		return;
	fd = open(name, O_RDWR);
	shared = fd < 0 ? MAP_FAILED :
		mmap(NULL, sizeof(SfClock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		abort();
	close(fd);
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	SfClock    *clock = shared;
	int64_t		ahead_ms = __atomic_load_n(&clock->ahead_ms, __ATOMIC_SEQ_CST);
	int64_t		frozen_us = __atomic_load_n(&clock->frozen_us, __ATOMIC_SEQ_CST);
	int64_t		add_ms = ahead_ms;

	if (syscall(SYS_clock_gettime, id, ts) != 0)
		return -1;
	if (id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
		return 0;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
	{
		add_ms += __atomic_load_n(&clock->set_ms, __ATOMIC_SEQ_CST);
		if (frozen_us != 0)
		{
			add_ms = 0;
			ts->tv_sec = frozen_us / 1000000;
			ts->tv_nsec = frozen_us % 1000000 * 1000;
		}
	}
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

	/* the server itself does not read this clock */
	if (id == CLOCK_BOOTTIME && is_watched() && first_ms < 0)
		first_ms = ahead_ms;
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
	int64_t		nap_ms = __atomic_load_n(&shared->nap_ms,
										 __ATOMIC_SEQ_CST);

	if (is_watched() && first_ms >= 0)
	{
		__atomic_store_n(&shared->seen_ms, first_ms, __ATOMIC_SEQ_CST);
		first_ms = -1;
	}
	if (nap_ms > 0 && timeout_ms > nap_ms)
		timeout_ms = (int) nap_ms;
	return (int) syscall(SYS_epoll_pwait, fd, events, n, timeout_ms, NULL, 0);
}

/* ---- other answers of the kernel ---- */

int
adjtimex(struct timex *timex)
{
	const char *name = getenv("SHIM_KERNEL");
	char		state[20] = "";
	FILE	   *file;

	if (name == NULL)
	{
		int			(*real) (struct timex *) =
			(int (*) (struct timex *)) dlsym(RTLD_NEXT, "adjtimex");

		return real(timex);
	}
	memset(timex, 0, sizeof(*timex));
	file = fopen(name, "r");
	if (file == NULL ||
		fscanf(file, "%19s %ld %ld", state, &timex->maxerror,
			   &timex->esterror) < 1)
		abort();
	fclose(file);
	if (strcmp(state, "forbidden") == 0)
	{
		errno = EPERM;
		return -1;
	}
	if (strcmp(state, "synchronized") == 0)
		return TIME_OK;
	timex->status = STA_UNSYNC;
	return TIME_ERROR;
}

FILE *
fopen(const char *name, const char *mode)
{
	const char *machine = getenv("SHIM_MACHINE");
	FILE	   *(*real) (const char *, const char *) =
		(FILE *(*) (const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	if (machine != NULL && strcmp(name, "/etc/machine-id") == 0)
		name = machine;
	return real(name, mode);
}

int
gethostname(char *name, size_t size)
{
	const char *host = getenv("SHIM_HOSTNAME");
	int			(*real) (char *, size_t) =
		(int (*) (char *, size_t)) dlsym(RTLD_NEXT, "gethostname");

	if (host == NULL)
		return real(name, size);
	snprintf(name, size, "%s", host);
	return 0;
}
