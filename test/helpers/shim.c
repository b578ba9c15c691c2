/*-------------------------------------------------------------------------
 *
 * shim.c
 *	  What tests let a server believe of its machine: a library for LD_PRELOAD.
 *
 * SHIM_CLOCK names a file with what adjtimex() finds: "synchronized" or
 * "unsynchronized", the largest and the estimated error in microseconds; or
 * "forbidden".  SHIM_MACHINE names the file that is read in place of
 * /etc/machine-id.  SHIM_HOSTNAME is the host's name.  What is not set is as it
 * is.
 *
 * Before 16 the postmaster starts background workers in a signal handler, which
 * interrupts select().  libfaketime, while in that, lets all calls see the real
 * clocks, and the workers inherit it for life.  So select() goes past it.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

int
adjtimex(struct timex *timex)
{
	const char *name = getenv("SHIM_CLOCK");
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

int
select(int n, fd_set *readable, fd_set *writeable, fd_set *exceptions,
	   struct timeval *timeout)
{
	struct timespec left;
	int			result;

	if (timeout != NULL)
	{
		left.tv_sec = timeout->tv_sec;
		left.tv_nsec = timeout->tv_usec * 1000;
	}
	result = syscall(SYS_pselect6, n, readable, writeable, exceptions,
					 timeout == NULL ? NULL : &left, NULL);
	if (timeout != NULL)
	{
		timeout->tv_sec = left.tv_sec;
		timeout->tv_usec = left.tv_nsec / 1000;
	}
	return result;
}
