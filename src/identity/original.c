/*-------------------------------------------------------------------------
 *
 * original.c
 *	  The primary record, which says which server owns the data and which every
 *	  copy has; and whether that server is seen running on this machine.
 *
 * The evidence for a copy (origin.c) is also found if the original is gone:
 * after a restore, a move to another disk or machine, on a file system that
 * numbers its directories anew, and in a container that was made again.  Then
 * no ID is issued twice, and a refusal would be an outage.  So there is only a
 * warning, unless snowflake.copy_check demands more.
 *
 * Only an observation is certain.  In the directory that the copied record
 * names, another server runs; it was initialized once, together with ours; and
 * it has a node id in use, which no standby has.  With the same node id, both
 * would issue the same IDs.  In every case of doubt, the other server counts
 * as not running:
 *
 * - The lock file names a process that does not exist, or a later process with
 *   the same number: a postmaster works in its data directory, and Linux shows
 *   where a process works.
 *
 * - The directory is ours under another name, as after a move or in another
 *   mount.  Then the lock file names us.  No inode is compared for that.
 *
 * - We cannot see the server: it is on another machine, in another container,
 *   or under another user, or the system is not Linux.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "identity/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/durable_file.h"
#include "miscadmin.h"
#include "runtime/log.h"
#include "storage/fd.h"

/* Relative to a data directory; ours is the working directory. */
#define RECORD_FILE		"snowflake.primary"
#define RECORD_MAGIC	0x53465234	/* also the version of this format */

/* ---- the primary record ---- */

/* Read a record.  If it is unreadable, it is one of an unknown node. */
static bool
read_file(const char *name, SfOriginal *original)
{
	(void) sf_durable_file_read_struct(name, original, sizeof(SfOriginal),
									   RECORD_MAGIC);
	return sf_durable_file_exists(name);
}

/* Read this directory's record; return false if there is none. */
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
 * Record that the data are ours, here, with this node id.  A server without a
 * node keeps the last one, because a copy may have it.  A copy with a node id
 * of its own keeps where its original is, because it may get that one's back.
 */
bool
sf_original_write(SfServerNumber node, SfServerNumber last_node,
				  SfServerNumber primary, const char *copied_from, int elevel)
{
	SfOriginal	record = {.magic = RECORD_MAGIC};

	record.node = node != SF_NO_NUMBER ? node : last_node;
	record.node_in_use = node;
	record.primary = primary == node ? primary : SF_NO_NUMBER;
	strlcpy(record.copied_from, copied_from, sizeof(record.copied_from));
	find_path(record.path);
	return sf_log_file(sf_durable_file_write(RECORD_FILE, &record,
											 sizeof(record), elevel),
					   RECORD_FILE, "Until it is written, a copy of this data directory may not be noticed.");
}

/* Return true if the record names this directory and this node id. */
bool
sf_original_is_us(const SfOriginal *original, SfServerNumber node)
{
	char		path[MAXPGPATH];

	find_path(path);
	return original->node_in_use == node && strcmp(original->path, path) == 0;
}

/* ---- the server ---- */

/* Return the process in a directory's lock file; 0 if there is none. */
static int
find_postmaster(const char *directory)
{
	char		path[MAXPGPATH];
	char		text[32] = "";
	int			fd;
	int			pid;

	/* that directory may be anybody's: do not wait for a pipe */
	snprintf(path, sizeof(path), "%s/postmaster.pid", directory);
	fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0 ||
		sscanf(text, "%d", &pid) != 1 || pid < 0)
		pid = 0;				/* negative: a server of one session */
	CloseTransientFile(fd);
	return pid;
}

/* Return true if this process works in this directory. */
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

/* Compare the system identifiers, with which pg_control begins. */
static bool
has_our_origin(const char *directory)
{
	char		path[MAXPGPATH];
	uint64		identifier;
	int			fd;
	bool		whole;

	snprintf(path, sizeof(path), "%s/global/pg_control", directory);
	fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);
	if (fd < 0)
		return false;
	whole = read(fd, &identifier, sizeof(identifier)) == sizeof(identifier);
	CloseTransientFile(fd);
	return whole && identifier == GetSystemIdentifier();
}

/*
 * Return the node id of the original in this directory if it runs beside us as
 * a primary.  A standby, or a promoted server that has made no ID yet, has
 * another server's record, or one with no node in use.
 */
SfServerNumber
sf_original_running_node(const char *directory)
{
	int			pid = directory[0] == '\0' ? 0 : find_postmaster(directory);
	char		name[MAXPGPATH + 32];
	SfOriginal	theirs;

	if (pid == 0 || pid == PostmasterPid || !works_in(pid, directory) ||
		!has_our_origin(directory))
		return SF_NO_NUMBER;
	snprintf(name, sizeof(name), "%s/%s", directory, RECORD_FILE);
	return read_file(name, &theirs) && strcmp(theirs.path, directory) == 0 ?
		theirs.node_in_use : SF_NO_NUMBER;
}
