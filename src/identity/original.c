/*-------------------------------------------------------------------------
 *
 * original.c
 *	  Is another server with the data of this one seen running on this machine?
 *
 * What shows a copy (identity.c) is also found if the original is gone:
 * after a restore, a move to another disk or machine, on a file system that
 * numbers its directories anew, and in a container that was made again.  Then
 * no ID is issued twice, and a refusal would be an outage.  So there is only a
 * warning, unless snowflake.copy_check demands more.
 *
 * Only an observation is certain.  Each server writes a claim: what it makes
 * IDs of.  It lies beside the marker, so a base backup has none, and it names
 * its process.  A postmaster works in its data directory, and Linux shows
 * where a process works: so each process is looked at that runs as our user.
 * If we cannot see a server, it counts as not running: it is on another
 * machine, in another container, or under another user, or the system is not
 * Linux.
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

#define CLAIM_FILE	SF_PLACE_DIR "/snowflake_claim"
#define CLAIM_MAGIC	0x53464331	/* also the version of this format */

typedef struct Claim
{
	uint32		magic;
	int			pid;			/* of the postmaster that has it */
	SfServerNumber node;
	uint32		count;
	uint64		server[SF_SERVERS_MAX + 1]; /* itself, and its list */
	uint32		shards[SF_SHARDS_WORDS];
} Claim;

/* Let others see that this server makes IDs of this node and these shards. */
bool
sf_original_claim(const SfServers *list, SfServerNumber node,
				  const uint32 *shards)
{
	Claim		claim;

	memset(&claim, 0, sizeof(claim));
	claim.magic = CLAIM_MAGIC;
	claim.pid = PostmasterPid;
	claim.node = node;
	claim.server[claim.count++] = sf_identity_server();
	for (uint32 i = 0; i < list->count; i++)
		claim.server[claim.count++] = list->pair[i].server;
	memcpy(claim.shards, shards, sizeof(claim.shards));
	return sf_place_make_dir(LOG) &&
		sf_file_write_behind(CLAIM_FILE, &claim, sizeof(claim), LOG);
}

/*
 * Read the claim of a process other than us, if it is a postmaster.  A
 * directory may hold anybody's files: those are not opened.
 */
static bool
read_claim(int pid, Claim *claim, bool *is_standby)
{
	char		name[MAXPGPATH];
	struct stat st;
	int			fd;
	bool		read;

	snprintf(name, sizeof(name), "/proc/%d/cwd/" CLAIM_FILE, pid);
	if (pid == 0 || pid == PostmasterPid)
		return false;
	fd = OpenTransientFile(name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	read = fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
		S_ISREG(st.st_mode) && st.st_size < 2 * (off_t) sizeof(*claim) &&
		sf_durable_file_read_struct(name, claim, sizeof(*claim), CLAIM_MAGIC);
	CloseTransientFile(fd);
	if (!read)
		return false;
	snprintf(name, sizeof(name), "/proc/%d/cwd/" STANDBY_SIGNAL_FILE, pid);
	*is_standby = sf_durable_file_exists(name);
	return claim->pid == pid && claim->count <= lengthof(claim->server);
}

/*
 * Return true if such a server is a danger to one with our data.  A standby is
 * one to a copy of it, since it may be promoted; but not to its primary, which
 * does not know it.  Another copy has servers of our list in its own.  System
 * identifiers say less: pg_createsubscriber changes it, and clusters that were
 * made from a template have the same.
 */
static bool
is_rival(const SfServers *list, bool settled, const Claim *claim,
		 bool is_standby)
{
	bool		found = sf_servers_name(list, claim->server[0]);

	if (is_standby || settled)
		return found && !(is_standby && settled);
	for (uint32 i = 1; i < claim->count && !found; i++)
		found = sf_servers_name(list, claim->server[i]);
	return found;
}

/*
 * Return the directory of another server that runs beside us, and makes IDs
 * with this node; NULL if there is none.  "settled" says that we are no copy,
 * as far as the node goes.  Fill in the shards of which such servers make IDs.
 */
const char *
sf_original_running(const SfServers *list, SfServerNumber node, bool settled,
					uint32 *shards)
{
	static char directory[MAXPGPATH];
	const char *found = NULL;
	DIR		   *processes = opendir("/proc");
	struct dirent *process;

	memset(shards, 0, SF_SHARDS_WORDS * sizeof(uint32));
	while (processes != NULL && (process = readdir(processes)) != NULL)
	{
		int			pid = atoi(process->d_name);
		Claim		claim;
		bool		is_standby;
		char		name[MAXPGPATH];
		ssize_t		length;

		if (!read_claim(pid, &claim, &is_standby))
			continue;
		if (is_rival(list, false, &claim, is_standby))
		{
			for (int i = 0; i < SF_SHARDS_WORDS; i++)
				shards[i] |= claim.shards[i];
		}
		if (node == SF_NO_NUMBER || claim.node != node ||
			!is_rival(list, settled, &claim, is_standby))
			continue;
		snprintf(name, sizeof(name), "/proc/%d/cwd", pid);
		length = readlink(name, directory, sizeof(directory) - 1);
		directory[Max(length, 0)] = '\0';
		found = directory;
	}
	if (processes != NULL)
		closedir(processes);
	return found;
}
