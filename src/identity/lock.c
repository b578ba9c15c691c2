/*-------------------------------------------------------------------------
 *
 * lock.c
 *	  Which numbers does another server with these data have on this machine?
 *
 * What shows a copy (identity.c) is also found if the original is gone:
 * after a restore, a move to another disk or machine, on a file system that
 * numbers its directories anew, and in a container that was made again.  Then
 * no ID is issued twice, and a refusal would be an outage.  So there is only a
 * warning, unless snowflake.copy_check demands more.
 *
 * Only what the kernel knows is certain: which servers live.  As PostgreSQL
 * does before it starts, ask it how many processes have a server's memory.
 * Those count that outlive their postmaster, but not the logger.
 *
 * All copies of data know their family, a random number that names a file of
 * this user in memory.  There each node id and shard has an entry: the memory
 * of the server that makes its IDs; and that of standbys that will, so that
 * no copy takes the number before their promotion.  Whoever reads or writes
 * entries locks the file meanwhile, so looking and taking are one step.  A
 * server gives nothing back: its entries count until it ends.
 *
 * Not seen is a server on another machine, in another container, or under
 * another user; and one whose file somebody has removed, as systemd does if
 * RemoveIPC is on, which PostgreSQL must not run with.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "identity/identity.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/pg_prng.h"
#include "layout/ranges.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "runtime/log.h"
#include "storage/fd.h"
#include "storage/pg_shmem.h"

/* How long another process may have the file, in ms; it needs far less. */
#define PATIENCE	100

/* So many servers of one number are known at a time. */
#define SERVERS		8

typedef struct Server
{
	uint64		number;			/* sf_identity_server() */
	int64		life;			/* of its shared memory */
	int64		began;			/* when the kernel made that */
	int			segment;		/* of the kernel's, + 1 */
} Server;

typedef struct Entry
{
	Server		server[SERVERS];	/* the first one makes IDs; standbys
									 * follow */
	int64		taken_over_ms;	/* when that last came from another one, whose
								 * IDs may be ahead of this time; 0: never */
} Entry;

static uint32 wait_event_entries = 0;

/*
 * The file while this process has it locked; otherwise why not.  Its random
 * number is where the entry before the first one would be.
 */
#define NO_FILE		(-1)		/* there is none: nobody is seen */
#define BUSY		(-2)
static int	file = NO_FILE;
static uint64 file_number;		/* 0 if something could not be written */
static char name[MAXPGPATH];

static int	seen_pid = 0;

/* Log once in each look; any process may have failed. */
static void
log_failure(int elevel)
{
	sf_shmem->identity.file = 0;
	if (file_number == 0)
		return;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not use file \"%s\": %m", name)));
	(void) sf_log_file(false, name, "Until snowflake_status() or a restart succeeds in it, copies of this data directory on this machine may not be noticed.");
	file_number = 0;
}

static int
open_file(void)
{
	struct stat st;
	int			fd;
	bool		retry;

	snprintf(name, sizeof(name), "/dev/shm/snowflake.%u.%llu.%016llx",
			 (unsigned) geteuid(),
			 (unsigned long long) sf_shmem->identity.namespace,
			 (unsigned long long) sf_shmem->identity.family);
	fd = BasicOpenFilePerm(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK |
						   O_CLOEXEC, S_IRUSR | S_IWUSR);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		st.st_uid == geteuid())
		return fd;
	if (fd >= 0)
	{
		close(fd);
		errno = EPERM;
	}
	retry = errno == EMFILE || errno == ENFILE;
	log_failure(LOG);
	return retry ? BUSY : NO_FILE;
}

/*
 * Begin with the entries of this family.  If that fails, others are not seen
 * until snowflake_status() begins again.
 */
void
sf_lock_begin(uint64 family)
{
	SfIdentity *identity = &sf_shmem->identity;
	struct stat namespace;
	struct shmid_ds memory;
	int			segment = shmget((key_t) UsedShmemSegID, 0, 0);
	int			fd;

	identity->family = family;
	if (stat("/proc/self/ns/ipc", &namespace) == 0)
		identity->namespace = namespace.st_ino;
	file_number = 1;
	fd = open_file();
	if (fd < 0)
		return;
	close(fd);
	if (segment < 0 || shmctl(segment, IPC_STAT, &memory) != 0)
		log_failure(LOG);
	else
	{
		identity->began = memory.shm_ctime;
		pg_write_barrier();
		identity->segment = segment + 1;
	}
}

/* Read the number of the file that this process has locked, or give it one. */
static void
identify_file(void)
{
	if (pread(file, &file_number, sizeof(file_number), 0) ==
		sizeof(file_number) && file_number != 0)
		return;
	file_number = pg_prng_uint64(&pg_global_prng_state) | 1;
	if (pwrite(file, &file_number, sizeof(file_number), 0) !=
		sizeof(file_number))
		log_failure(LOG);
}

/*
 * Lock the file for the functions below.  Nothing may throw an error until
 * sf_lock_close(); no interrupt does, which a line in the log would serve.
 */
void
sf_lock_open(void)
{
	uint32		event = IsUnderPostmaster ?
		sf_wait_event(&wait_event_entries, "SnowflakeNodeId") : 0;
	int			fd;

	Assert(file < 0);
	HOLD_INTERRUPTS();
	if (sf_shmem->identity.segment != 0)
		file_number = 1;
	fd = sf_shmem->identity.segment == 0 ? NO_FILE : open_file();
	file = fd;
	pgstat_report_wait_start(event);
	if (fd == BUSY)
		pg_usleep(PATIENCE * 1000L);
	seen_pid = 0;
	for (int ms = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; ms++)
	{
		if (ms < PATIENCE)
			pg_usleep(1000);
		else
		{
			close(fd);
			file = fd = BUSY;
		}
	}
	pgstat_report_wait_end();
	if (file >= 0)
		identify_file();
}

void
sf_lock_close(void)
{
	if (file >= 0)
		close(file);
	file = NO_FILE;
	RESUME_INTERRUPTS();
}

/*
 * Return true if nothing can be said now: the file is busy; or there is none
 * any more, and another server was seen before.
 */
bool
sf_lock_is_busy(bool seen)
{
	return file == BUSY || (file == NO_FILE && seen);
}

/* Return a number of the file; 0 if it lacks something. */
uint64
sf_lock_file(void)
{
	return file_number;
}

const char *
sf_lock_name(void)
{
	return name;
}

/*
 * Return true if this is another server, and lives.  A server that ends in
 * order removes its memory, though a process may still have it that somebody
 * has forked: that keeps no number from the next start.
 */
static bool
is_alive(const Server *server)
{
	struct shmid_ds memory;

	if (server->segment == 0 ||
		server->segment == sf_shmem->identity.segment ||
		shmctl(server->segment - 1, IPC_STAT, &memory) != 0 ||
		memory.shm_nattch == 0 || memory.shm_ctime != server->began
#ifdef SHM_DEST
		|| ((memory.shm_perm.mode & SHM_DEST) != 0 &&
			server->number == sf_identity_server())
#endif
		)
		return false;
	seen_pid = (int) memory.shm_cpid;
	return true;
}

static off_t
find_entry(uint64 number, Entry *entry)
{
	uint64		index = number < SF_SHARD_LOCK ? SF_RANGES_MAX + number :
		number - SF_SHARD_LOCK;
	off_t		at = (off_t) ((index + 1) * sizeof(*entry));

	memset(entry, 0, sizeof(*entry));
	if (file >= 0)
		(void) !pread(file, entry, sizeof(*entry), at);
	return at;
}

/*
 * Return true if no other server makes IDs of this number; nor a standby will
 * that a list names, if one is given.
 */
bool
sf_lock_is_free(uint64 number, const SfServers *list)
{
	Entry		entry;

	(void) find_entry(number, &entry);
	if (is_alive(&entry.server[0]))
		return false;
	for (int i = 1; i < SERVERS && list != NULL; i++)
	{
		if (sf_servers_name(list, entry.server[i].number) &&
			is_alive(&entry.server[i]))
			return false;
	}
	return true;
}

/* Return true if these data have been that server, or know when it ended. */
static bool
is_known(const Server *server)
{
	return server->segment == 0 || server->number == sf_identity_server() ||
		(server->life != 0 && server->life == sf_shmem->shutdown_life);
}

/*
 * Take a number that is free, until the server ends; or, for a standby, let
 * no copy of it take it.  Return when it last came from another server, whose
 * IDs may be ahead of that time; 0: never.  Each restart returns
 * it again, since the last life may have left nothing else.
 */
int64
sf_lock_take(uint64 number, bool standby)
{
	Entry		entry;
	off_t		at = find_entry(number, &entry);
	int			slot = standby ? 1 : 0;
	Server	   *own;

	while (standby && slot < SERVERS - 1 && is_alive(&entry.server[slot]))
		slot++;
	own = &entry.server[slot];
	if (!standby && !is_known(own))
		entry.taken_over_ms = sf_clock_wall_ms();
	own->number = sf_identity_server();
	own->life = sf_shmem->life;
	own->began = sf_shmem->identity.began;
	own->segment = sf_shmem->identity.segment;
	if (file >= 0 && pwrite(file, &entry, sizeof(entry), at) != sizeof(entry))
		log_failure(LOG);
	return standby ? 0 : entry.taken_over_ms;
}

/* Return the process that began the server that was seen last, or 0. */
int
sf_lock_seen(void)
{
	return seen_pid;
}
