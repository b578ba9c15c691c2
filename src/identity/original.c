/*-------------------------------------------------------------------------
 *
 * original.c
 *	  Is the original of a copy seen running on this machine?
 *
 * What shows a copy (identity.c) is also found if the original is gone:
 * after a restore, a move to another disk or machine, on a file system that
 * numbers its directories anew, and in a container that was made again.  Then
 * no ID is issued twice, and a refusal would be an outage.  So there is only a
 * warning, unless snowflake.copy_check demands more.
 *
 * Only an observation is certain.  In a directory that the list of servers
 * names, another server runs; its data and ours were once the same; and
 * its own list says that it has our node id, or will have it once it is
 * promoted.  Then both would issue the same IDs.  In every case of doubt, the
 * other server counts as not running:
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
#include "storage/fd.h"

/*
 * Read the list of servers in a file.  If it is damaged, or of another
 * version, return one that has forgotten all.
 */
void
sf_original_read_list(const char *name, SfServers *list)
{
	const size_t header = offsetof(SfServers, pair);
	void	   *content;
	size_t		size;
	bool		whole = sf_durable_file_read(name, &content, &size);
	SfServers  *found = content;

	memset(list, 0, sizeof(*list));
	if (whole && found != NULL && size >= header &&
		found->magic == SF_SERVERS_MAGIC && found->count <= SF_SERVERS_MAX &&
		size == header + found->count * sizeof(SfPair))
		memcpy(list, found, size);
	else
		list->forgotten = sf_durable_file_exists(name);
	if (found != NULL)
		pfree(found);
}

/*
 * Read the beginning of a file in a directory.  That directory may be
 * anybody's: do not wait for a pipe.
 */
static ssize_t
read_beginning(const char *directory, const char *name, void *data,
			   size_t size)
{
	char		path[MAXPGPATH + 32];
	ssize_t		length;
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);
	if (fd < 0)
		return 0;
	length = read(fd, data, size);
	CloseTransientFile(fd);
	return length;
}

/* Return the process in a directory's lock file; 0 if there is none. */
static int
find_postmaster(const char *directory)
{
	char		text[32] = "";
	int			pid;

	/* negative: a server of one session */
	return read_beginning(directory, "postmaster.pid", text,
						  sizeof(text) - 1) > 0 &&
		sscanf(text, "%d", &pid) == 1 && pid > 0 ? pid : 0;
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
has_our_identifier(const char *directory)
{
	uint64		identifier;

	return read_beginning(directory, "global/pg_control", &identifier,
						  sizeof(identifier)) == sizeof(identifier) &&
		identifier == GetSystemIdentifier();
}

/*
 * Return true if the server in the directory of this pair runs beside us, as a
 * primary; or as a standby, if those count.  Set its node id.  The identifiers
 * differ if pg_createsubscriber has made one of the two a server of its own.
 */
static bool
is_running(const SfPair *pair, bool standbys, SfServerNumber *node)
{
	int			pid = find_postmaster(pair->path);
	char		name[MAXPGPATH + 32];
	SfServers  *theirs;
	const SfPair *last;
	bool		result;

	if (pid == 0 || pid == PostmasterPid || !works_in(pid, pair->path))
		return false;
	snprintf(name, sizeof(name), "%s/%s", pair->path, SF_SERVERS_FILE);
	theirs = palloc(sizeof(*theirs));
	sf_original_read_list(name, theirs);
	last = &theirs->pair[Max(theirs->count, 1) - 1];
	*node = last->node;
	/* a copy that nobody has accepted has its original's list */
	result = strcmp(last->path, pair->path) == 0 &&
		(has_our_identifier(pair->path) ||
		 sf_servers_name(theirs, pair->server)) &&
		(standbys || !theirs->standby);
	pfree(theirs);
	return result;
}

/*
 * Return the directory of another server in the list that runs beside us with
 * this node id; NULL if there is none.  For SF_NO_NUMBER it may have any node
 * id, and for SF_SHARDS also none.  Set the node id.
 */
const char *
sf_original_running(const SfServers *list, uint64 server,
					SfServerNumber *node, bool standbys)
{
	for (uint32 i = 0; i < list->count; i++)
	{
		const SfPair *pair = &list->pair[i];
		SfServerNumber running;

		if (pair->server == server || pair->path[0] == '\0' ||
			!is_running(pair, standbys, &running))
			continue;
		if (*node != SF_SHARDS &&
			(running == SF_NO_NUMBER ||
			 (*node != SF_NO_NUMBER && running != *node)))
			continue;
		*node = running;
		return pair->path;
	}
	return NULL;
}
