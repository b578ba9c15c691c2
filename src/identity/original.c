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
	uint64		server;
	SfServerNumber node;
	uint32		shards[SF_SHARDS_WORDS];
	SfServers	list;
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
	claim.server = sf_identity_server();
	claim.node = node;
	memcpy(claim.shards, shards, sizeof(claim.shards));
	claim.list = *list;
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
	return claim->pid == pid && claim->list.count <= SF_SERVERS_MAX;
}

/*
 * Return true if such a server is a danger to one with our data and this
 * number.  A standby is one to a copy of it, since it may be promoted; but not
 * to its primary, which does not know it.  Another copy has servers of our
 * list in its own, and so has one of us.  System identifiers say less:
 * pg_createsubscriber changes it, and clusters that were made from a template
 * have the same.
 *
 * A promoted standby goes on beside a server that it was copied from, if it
 * has settled to have the same number: there are warnings of that.  "warned"
 * counts those, too.
 */
static bool
is_rival(const SfServers *list, SfServerNumber number, bool warned,
		 const Claim *claim, bool is_standby)
{
	bool		settled = sf_servers_is_settled(list, sf_identity_server(),
												number);
	bool		found = sf_servers_name(list, claim->server);

	if (is_standby)
		return found && !settled;
	if (settled && !warned && sf_servers_has(list, claim->server, number))
		return false;
	for (uint32 i = 0; i < claim->list.count && !found; i++)
		found = sf_servers_name(list, claim->list.pair[i].server);
	return found;
}

/*
 * Return the directory of another server that runs beside us, and makes IDs
 * with this node; NULL if there is none.  Fill in the shards of which such
 * servers make IDs.
 */
const char *
sf_original_running(const SfServers *list, SfServerNumber node, bool warned,
					uint32 *shards)
{
	static char directory[MAXPGPATH];
	const char *found = NULL;
	DIR		   *processes = AllocateDir("/proc");
	struct dirent *process;

	memset(shards, 0, SF_SHARDS_WORDS * sizeof(uint32));
	while ((process = ReadDirExtended(processes, "/proc", DEBUG1)) != NULL)
	{
		int			pid = atoi(process->d_name);
		Claim		claim;
		bool		is_standby;
		char		name[MAXPGPATH];
		ssize_t		length;

		if (!read_claim(pid, &claim, &is_standby))
			continue;
		if (is_rival(list, SF_SHARDS, false, &claim, is_standby))
		{
			for (int i = 0; i < SF_SHARDS_WORDS; i++)
				shards[i] |= claim.shards[i];
		}
		if (node == SF_NO_NUMBER || claim.node != node ||
			!is_rival(list, node, warned, &claim, is_standby))
			continue;
		snprintf(name, sizeof(name), "/proc/%d/cwd", pid);
		length = readlink(name, directory, sizeof(directory) - 1);
		directory[Max(length, 0)] = '\0';
		found = directory;
	}
	FreeDir(processes);
	return found;
}
