/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Which server this is, and what if it is a copy of another one.
 *
 * Two files say so, of which base backups take one along and not the other:
 *
 *	global/pgsql_tmp/snowflake_server	the marker: whose directory this
 *			is, and where it is.  Base backups and the usual tools leave out
 *			what is called pgsql_tmp, wherever it is; pg_rewind does so in
 *			subdirectories only, and removes it from its target.  The server
 *			clears such directories in base and in tablespaces, not here.
 *
 *	snowflake.primary		the record: somebody has had this data as his own,
 *			where, and with which node id.  Whoever removes it says that nobody
 *			else has them.
 *
 * What they come to is decided at the start (origin.c).  A copy that has the
 * node id of the original gets no marker until an administrator accepts it,
 * so that each start finds out anew.  Nobody refuses IDs for being a copy, if
 * not told to, but where the original is seen running (original.c).
 *
 * Where the node id is leased, a copy leases another one: then the marker only
 * helps to choose a slot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/controldata_utils.h"
#include "common/file_perm.h"
#include "common/file_utils.h"
#include "common/hashfn.h"
#include "file.h"
#include "miscadmin.h"
#include "origin.h"
#include "original.h"
#include "stats.h"
#include "storage/fd.h"
#include "tell.h"

#define MARKER_DIR		"global/" PG_TEMP_FILES_DIR
#define MARKER_FILE		MARKER_DIR "/snowflake_server"
#define MARKER_MAGIC	0x53464d31	/* also the version of this format */

#define MACHINE_FILE	"/etc/machine-id"

typedef struct Marker
{
	uint32		magic;
	uint32		standby;		/* made or left by a standby: see below */
	uint64		server;			/* random */
	uint64		machine;		/* 0: not known */
	uint64		files;			/* inode of MARKER_DIR, which a copy of the
								 * files gets anew */
	char		path[MAXPGPATH];	/* of the data directory */
} Marker;

/*
 * Marker.standby, where it is not 0.  A standby's record is its primary's,
 * unless it was a primary itself before, and has followed the other one
 * without being copied from it.
 */
#define STANDBY			1
#define FORMER_PRIMARY	2

/* ---- the place ---- */

/* 0 if the machine has no name, as in many containers. */
static uint64
find_machine(void)
{
	char		text[64] = "";
	FILE	   *file = AllocateFile(MACHINE_FILE, PG_BINARY_R);
	size_t		size;

	if (file == NULL)
		return 0;
	size = fread(text, 1, sizeof(text) - 1, file);
	FreeFile(file);
	text[size] = '\0';
	text[strcspn(text, "\n")] = '\0';

	/* so systemd calls one that gets its name at its first start */
	if (text[0] == '\0' || strcmp(text, "uninitialized") == 0)
		return 0;
	return hash_bytes_extended((unsigned char *) text,
							   (int) strlen(text), 0) | 1;
}

/* Where we are, as a marker has it; the directory must exist. */
static void
find_place(Marker *here)
{
	struct stat st;

	memset(here, 0, sizeof(Marker));
	here->magic = MARKER_MAGIC;
	here->machine = find_machine();
	if (getcwd(here->path, sizeof(here->path)) == NULL)
		here->path[0] = '\0';
	if (stat(MARKER_DIR, &st) == 0)
		here->files = (uint64) st.st_ino;
}

/* ---- reading ---- */

static bool
read_marker(Marker *marker)
{
	void	   *data;
	size_t		size;
	bool		found = sf_file_read(MARKER_FILE, &data, &size) &&
		size == sizeof(Marker) &&
		((Marker *) data)->magic == MARKER_MAGIC;

	memset(marker, 0, sizeof(Marker));
	if (found)
		memcpy(marker, data, sizeof(Marker));
	if (data != NULL)
		pfree(data);
	return found;
}

/* Did it end in a recovery that was not over? */
static bool
ended_in_recovery(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		result = control->state == DB_SHUTDOWNED_IN_RECOVERY ||
		control->state == DB_IN_ARCHIVE_RECOVERY;

	pfree(control);
	return result;
}

/* ---- writing ---- */

static uint64
random_number(void)
{
	uint64		number;

	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	return number | 1;
}

/* Say that this directory is this server's, at this place. */
static bool
write_marker(uint64 server, uint32 standby, int elevel)
{
	Marker		marker;

	if (MakePGDirectory(MARKER_DIR) != 0 && errno != EEXIST)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m",
						MARKER_DIR)));
		return false;
	}
	if (fsync_fname_ext("global", true, true, elevel) != 0)
		return false;
	find_place(&marker);
	marker.server = server;
	marker.standby = standby;
	return sf_file_write(MARKER_FILE, &marker, sizeof(marker), elevel);
}

/* ---- at the start ---- */

/* The configured node, + 1; 0 if there is none, or it is leased. */
static uint32
find_node(void)
{
	uint64		lease = pg_atomic_read_u64(&sf_state->lease);

	return sf_settings_leases() || lease == 0 ? 0 :
		sf_settings_node_of(lease) + 1;
}

static bool
has_shards(void)
{
	for (int i = 0; i < sf_state->nshards; i++)
	{
		if (sf_state_may_issue_for(i))
			return true;
	}
	return false;
}

static void
warn(SfOrigin origin, const Marker *marker, const SfOriginal *record)
{
	uint32		running = sf_state->identity.running;
	char		detail[2 * MAXPGPATH + 400];

	if (sf_copy_check == SF_CHECK_OFF)
		return;
	if (origin == SF_ORIGIN_MACHINE || origin == SF_ORIGIN_PATH)
		snprintf(detail, sizeof(detail), "Before, it was %sin \"%s\".",
				 origin == SF_ORIGIN_MACHINE ? "on another machine, " : "",
				 marker->path);
	else
		strlcpy(detail, origin == SF_ORIGIN_UNMARKED ?
				"It comes from a backup, or was rewound, and starts as a server of its own." :
				origin == SF_ORIGIN_FILES ?
				"Its files were copied to where they are now." :
				"It was a standby, and was not promoted.", sizeof(detail));
	if (running != 0 && (find_node() == 0 || find_node() == running))
		snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail),
				 " The server in \"%s\" runs now, and has node id %u: none of its IDs are generated here.",
				 record->path, running - 1);
	if (sf_copy_check == SF_CHECK_ERROR)
		strlcat(detail, " Nothing is generated that the other server may generate, too.",
				sizeof(detail));
	sf_tell(SF_EVENT_COPY, detail,
			"If no other server has this data any more, have an administrator call snowflake_accept_copy(). If one has, set another snowflake.node_id here, and other snowflake.shards: two servers with one number issue the same IDs. If ALTER SYSTEM has set the number, reset that first.",
			"this data directory is a copy of another server's");
}

/*
 * Let the log tell as which node a standby will issue.  The one that its
 * primary has recorded is what a base backup's configuration has brought.
 */
static void
tell_standby(void)
{
	uint32		node = find_node();

	if (sf_settings_leases() || sf_node_layout.node_bits == 0)
		return;
	if (node == 0)
		sf_tell(SF_EVENT_STANDBY_NODE, NULL, NULL,
				"this standby has no node id: once it is promoted, calls for one are refused");
	else if (node == sf_state->identity.primary)
		sf_tell(SF_EVENT_STANDBY_SAME,
				"If both run after a promotion, they issue the same IDs.",
				"Set another snowflake.node_id here, and restart this server before it is promoted. If ALTER SYSTEM has set the number, reset that first.",
				"this standby has node id %u, and so has its primary",
				node - 1);
	else
		sf_tell(SF_EVENT_STANDBY_NODE, NULL, NULL,
				"once it is promoted, this standby issues as node id %u",
				node - 1);
}

/*
 * This directory is ours from now on.  The marker comes first: data with a
 * record and without a marker are a copy.
 */
static void
take_over(SfOrigin origin, const Marker *marker, bool is_ours,
		  const SfOriginal *record, bool recorded)
{
	SfIdentity *identity = &sf_state->identity;
	uint32		standby = origin != SF_ORIGIN_STANDBY ? 0 :
		is_ours && marker->standby != STANDBY ? FORMER_PRIMARY : STANDBY;
	uint32		node = find_node();

	uint64		server = is_ours ? marker->server : random_number();

	identity->primary = standby == STANDBY ? record->node : 0;
	pg_atomic_write_u64(&identity->server, server);
	if ((!is_ours || marker->standby != standby) &&
		!write_marker(server, standby, LOG))
		return;

	/* that of a standby is the primary's, until the first ID is made */
	if (standby != 0)
	{
		/* one of its own, from when it was a primary */
		if (record->node_in_use != 0 &&
			sf_original_is_us(record, record->node_in_use))
			(void) sf_original_write(0, record->node, LOG);
		tell_standby();
		return;
	}
	if (!recorded || !sf_original_is_us(record, node))
		(void) sf_original_write(node, record->node, LOG);
	pg_atomic_write_u32(&identity->recorded, node);
}

/*
 * In the postmaster, when the shared memory is new, and the node that is
 * configured has been taken.
 */
void
sf_identity_at_start(void)
{
	SfIdentity *identity = &sf_state->identity;
	SfEvidence	evidence;
	SfOrigin	origin;
	Marker		marker;
	Marker		here;
	SfOriginal	record;
	bool		is_ours;

	if (IsBinaryUpgrade)
		return;
	find_place(&here);
	evidence.follows = sf_file_exists(STANDBY_SIGNAL_FILE);
	evidence.recorded = sf_original_read(&record);
	evidence.marked = read_marker(&marker);
	evidence.same_machine = marker.machine == here.machine ||
		marker.machine == 0 || here.machine == 0;
	evidence.same_path = strcmp(marker.path, here.path) == 0;
	evidence.same_files = marker.files == here.files;
	evidence.was_standby = marker.standby != 0;
	evidence.in_recovery = ended_in_recovery();
	is_ours = evidence.marked && evidence.same_machine &&
		evidence.same_path && evidence.same_files;

	identity->original = record.node;
	origin = sf_origin_judge(&evidence);
	if (!sf_origin_is_copy(origin) || sf_settings_leases() ||
		(find_node() != 0 && record.node != 0 &&
		 find_node() != record.node && !has_shards()))
	{
		take_over(origin, &marker, is_ours, &record, evidence.recorded);
		return;
	}

	/* having run, it would look like one that was promoted */
	if (origin == SF_ORIGIN_UNPROMOTED)
		(void) durable_unlink(MARKER_FILE, LOG);
	identity->running = sf_original_running_node(&record);
	pg_atomic_write_u32(&identity->copied, 1);
	warn(origin, &marker, &record);
}

/* ---- later ---- */

/*
 * A random number that stays, and that no copy has; 0 if this is a copy that
 * nobody has accepted.
 */
uint64
sf_identity_server(void)
{
	return pg_atomic_read_u64(&sf_state->identity.server);
}

/* Is this a copy that nobody has accepted? */
bool
sf_identity_is_copy(void)
{
	return pg_atomic_read_u32(&sf_state->identity.copied) != 0;
}

/*
 * Was the original seen running, with this node id + 1, when this server
 * started, and nobody has accepted it since?
 */
static bool
has_twin(uint32 node_plus_1)
{
	return sf_identity_is_copy() && sf_copy_check != SF_CHECK_OFF &&
		node_plus_1 != 0 && node_plus_1 == sf_state->identity.running;
}

/* Are IDs refused here since this is a copy? */
bool
sf_identity_refuses(void)
{
	return sf_identity_is_copy() &&
		(sf_copy_check == SF_CHECK_ERROR || has_twin(find_node()));
}

/* SQLSTATE 55000 */
static void
refuse(uint32 node_plus_1)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this data directory is a copy of another server's"),
			 has_twin(node_plus_1) ?
			 errdetail("That server was seen running on this machine, and has node id %u, too.",
					   node_plus_1 - 1) :
			 node_plus_1 == 0 ?
			 errdetail("That server may issue for the same shards, and snowflake.copy_check is \"error\".") :
			 errdetail("That server may have node id %u, too, and snowflake.copy_check is \"error\".",
					   node_plus_1 - 1),
			 errhint("If no other server has this data any more, have an administrator call snowflake_accept_copy(). If one has, set another snowflake.node_id here, and other snowflake.shards, and restart the server. If ALTER SYSTEM has set the number, reset that first.")));
}

/*
 * This server issues as this node now: after a promotion, or since a reload.
 * One process records that; the others need not wait for it.
 */
static void
record_node(uint32 node_plus_1)
{
	SfIdentity *identity = &sf_state->identity;
	uint32		before = pg_atomic_read_u32(&identity->recorded);
	SfOriginal	record;

	if (before == node_plus_1 ||
		!pg_atomic_compare_exchange_u32(&identity->recorded, &before,
										node_plus_1))
		return;
	(void) write_marker(sf_identity_server(), 0, LOG);
	if (!sf_original_read(&record) || !sf_original_is_us(&record, node_plus_1))
		(void) sf_original_write(node_plus_1, 0, LOG);
}

void
sf_identity_require_slowly(uint32 node_plus_1)
{
	uint32		original = sf_state->identity.original;

	if (sf_settings_leases())
		return;
	if (!sf_identity_is_copy())
		record_node(node_plus_1);
	else if (has_twin(node_plus_1) ||
			 (sf_copy_check == SF_CHECK_ERROR &&
			  (node_plus_1 == 0 || original == 0 || node_plus_1 == original)))
		refuse(node_plus_1);
}

/* An administrator says that there is no other server with this data. */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_state->identity;
	uint64		server = random_number();
	uint32		node = find_node();

	(void) write_marker(server, 0, ERROR);
	(void) sf_original_write(node, 0, ERROR);
	pg_atomic_write_u64(&identity->server, server);
	pg_atomic_write_u32(&identity->recorded, node);
	pg_atomic_write_u32(&identity->copied, 0);
}
