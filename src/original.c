/*-------------------------------------------------------------------------
 *
 * original.c
 *	  The record of whose data these are, which all copies have; and whether
 *	  that server is seen running, on this machine.
 *
 * What says that a data directory is a copy (origin.c) is found where the
 * original is gone as well: after a restore, a move to another disk or
 * machine, on a file system that numbers its directories anew, and in a
 * container that was made again.  Then nothing is issued twice, and a refusal
 * would be an outage.  So for these there is a warning, unless
 * snowflake.copy_check says more.
 *
 * What is certain is only what is seen: in the directory that the copied
 * record names there is another server that runs, that was initialized once
 * with ours, and that has a node id in use, which no standby has.  With that
 * id both would issue the same IDs.  Every doubt counts for a server that does
 * not run:
 *
 * - the lock file names a process that is not there, or another one that got
 *   its number: a postmaster works in its data directory, and Linux shows
 *   where a process works;
 *
 * - the directory is ours under another name, as after a move or in another
 *   mount: then the lock file names us.  No number of a file is compared for
 *   that;
 *
 * - we are not to see it: another machine, another container, another user,
 *   another system than Linux.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "original.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "file.h"
#include "miscadmin.h"
#include "storage/fd.h"

/* In a data directory; ours is the working directory. */
#define RECORD_FILE		"snowflake.primary"
#define RECORD_MAGIC	0x53465232	/* also the version of this format */

/* ---- the record ---- */

/* One that cannot be read is a record, of a node that is not known. */
static bool
read_file(const char *name, SfOriginal *original)
{
	void	   *data;
	size_t		size;
	bool		whole = sf_file_read(name, &data, &size) &&
		size == sizeof(SfOriginal) &&
		((SfOriginal *) data)->magic == RECORD_MAGIC;

	memset(original, 0, sizeof(SfOriginal));
	if (whole)
		memcpy(original, data, sizeof(SfOriginal));
	if (data != NULL)
		pfree(data);
	return sf_file_exists(name);
}

/* False if there is none. */
bool
sf_original_read(SfOriginal *original)
{
	return read_file(RECORD_FILE, original);
}

static void
find_path(char *path)
{
	if (getcwd(path, MAXPGPATH) == NULL)
		path[0] = '\0';
}

/*
 * Say that the data are ours, here, and the node id that we have.  Of a server
 * that has none now the last one is kept: a copy may have that.
 */
bool
sf_original_write(uint32 node, uint32 last_node, int elevel)
{
	SfOriginal	record = {.magic = RECORD_MAGIC};

	record.node = node != 0 ? node : last_node;
	record.node_in_use = node;
	find_path(record.path);
	return sf_file_write(RECORD_FILE, &record, sizeof(record), elevel);
}

/* Does it say that we are here, with this node id? */
bool
sf_original_is_us(const SfOriginal *original, uint32 node)
{
	char		path[MAXPGPATH];

	find_path(path);
	return original->node_in_use == node && strcmp(original->path, path) == 0;
}

/* ---- the server ---- */

/* The process that the lock file in a directory names; 0 if there is none. */
static int
find_postmaster(const char *directory)
{
	char		path[MAXPGPATH];
	FILE	   *file;
	int			pid;

	snprintf(path, sizeof(path), "%s/postmaster.pid", directory);
	file = AllocateFile(path, PG_BINARY_R);
	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &pid) != 1 || pid < 0)
		pid = 0;				/* negative: a server of one session */
	FreeFile(file);
	return pid;
}

/* Does this process work in this directory? */
static bool
works_in(int pid, const char *directory)
{
	char		path[MAXPGPATH];
	struct stat works;
	struct stat there;

	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	return stat(path, &works) == 0 && stat(directory, &there) == 0 &&
		works.st_dev == there.st_dev && works.st_ino == there.st_ino;
}

/* Was it initialized with ours?  That is what pg_control begins with. */
static bool
has_our_origin(const char *directory)
{
	char		path[MAXPGPATH];
	uint64		identifier;
	FILE	   *file;
	bool		whole;

	snprintf(path, sizeof(path), "%s/global/pg_control", directory);
	file = AllocateFile(path, PG_BINARY_R);
	if (file == NULL)
		return false;
	whole = fread(&identifier, sizeof(identifier), 1, file) == 1;
	FreeFile(file);
	return whole && identifier == GetSystemIdentifier();
}

/*
 * The node id of that server if it runs, beside us and as a primary; or 0.  A
 * standby, and one that was promoted and has not made an ID, has the record of
 * another server, or one that says that none is in use.
 */
uint32
sf_original_running_node(const SfOriginal *original)
{
	const char *directory = original->path;
	int			pid = directory[0] == '\0' ? 0 : find_postmaster(directory);
	char		name[MAXPGPATH + 32];
	SfOriginal	theirs;

	if (pid == 0 || pid == PostmasterPid || !works_in(pid, directory) ||
		!has_our_origin(directory))
		return 0;
	snprintf(name, sizeof(name), "%s/%s", directory, RECORD_FILE);
	return read_file(name, &theirs) && strcmp(theirs.path, directory) == 0 ?
		theirs.node_in_use : 0;
}
