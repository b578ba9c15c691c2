/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Identity of this server: is its data directory a copy of another
 *	  server's?
 *
 * Two files answer this.  Base backups contain one of them:
 *
 *	global/pgsql_tmp/snowflake_server	the marker: which server owns this
 *			directory, and where it is.  Base backups and the usual tools leave
 *			out every directory called pgsql_tmp; pg_rewind does so only in
 *			subdirectories, and removes it from its target.  The server clears
 *			such directories in base and in tablespaces, but not this one.
 *
 *	snowflake.primary		the primary record: a server has owned this data,
 *			where, and with which node id.  An administrator who removes it
 *			states that no other server has the data.
 *
 * origin.c derives the answer at each start.  A copy with the original's node
 * id gets no marker until an administrator accepts it, so each start decides
 * anew.  A copy refuses IDs only if snowflake.copy_check says so, or if the
 * original was seen running (original.c).  A copy with another node id is a
 * server of its own; but it remembers its original, and must not get that
 * node id back while the original runs.
 *
 * With a leased node id, a copy leases another one.  Then the marker only
 * helps to choose a slot.  But shards are configured, not leased: a copy that
 * has some may have those of its original.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "identity/identity.h"

#include "access/xlog.h"
#include "base/clock.h"
#include "base/durable_file.h"
#include "common/controldata_utils.h"
#include "identity/origin.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "storage/fd.h"

#define MARKER_FILE		SF_PLACE_DIR "/snowflake_server"
#define MARKER_MAGIC	0x53464d31	/* also the version of this format */

/* How long after an attempt to record the node another one may follow. */
#define RETRY_MS		1000

typedef struct Marker
{
	uint32		magic;
	uint32		standby;		/* made or left by a standby: see below */
	uint64		server;			/* random */
	SfPlace		place;
} Marker;

/*
 * Values of Marker.standby other than 0.  A standby's primary record is that
 * of its primary, unless the standby was a primary itself before, and has
 * followed the other server without being copied from it.
 */
#define STANDBY			1
#define FORMER_PRIMARY	2

/* What the postmaster has found at the start. */
static struct
{
	SfOrigin	origin;
	Marker		marker;
	bool		is_ours;		/* the marker says so */
}			found;

/* ---- reading ---- */

/* Return true if the last run ended in an unfinished recovery. */
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

/* Return a random number that a copy of this machine does not repeat. */
uint64_t
sf_identity_random(void)
{
	uint64_t	number;

	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	return number;
}

/* Record that this directory, at this place, belongs to this server. */
static bool
write_marker(uint64 server, uint32 standby, int elevel)
{
	bool		made = sf_place_make_dir(elevel);
	Marker		marker;

	memset(&marker, 0, sizeof(marker));
	marker.magic = MARKER_MAGIC;
	sf_place_find(&marker.place);
	marker.server = server;
	marker.standby = standby;
	return sf_log_file(made && sf_durable_file_write(MARKER_FILE, &marker,
													 sizeof(marker), elevel),
					   MARKER_FILE, "Until it is written, a copy of this data directory may not be noticed.");
}

/* Return the configured node of now, unless it is leased. */
static SfServerNumber
find_node(void)
{
	uint64		right = sf_shmem_right();

	return sf_settings_leases() || right == 0 ? SF_NO_NUMBER :
		sf_server_number_of(sf_settings_node_of(right));
}

/* ---- remedies ---- */

/*
 * Return how to give this server numbers of its own, in place of those that it
 * shares with the original.
 */
char *
sf_identity_separate(void)
{
	SfSettingLine lines[] = {
		{"snowflake.node_id", "NUMBER"}, {"snowflake.shards", "SHARDS"}
	};
	bool		number = !sf_settings_leases() && sf_node_layout.node_bits > 0;
	bool		shards = sf_settings_has_shards();

	return psprintf("choose %s%s%s that no other server has, and %s",
					number ? "a number" : "", number && shards ? " and " : "",
					shards ? "shards" : "",
					sf_settings_step(number ? lines : lines + 1,
									 number + shards, SF_APPLY_RESTART));
}

/* Return what to do about a copy that nobody has accepted. */
char *
sf_identity_copy_remedy(void)
{
	return psprintf("To keep both servers, %s Only if the original and all other copies of it are gone for good, run as a superuser: SELECT snowflake_accept('copy');",
					sf_identity_separate());
}

/* ... and about a promoted standby with its former primary's node id. */
char *
sf_identity_promoted_remedy(void)
{
	return psprintf("%s\nOnly if that primary never runs again, run instead as a superuser: SELECT snowflake_accept('copy');",
					sf_node_change_remedy());
}

/* ---- at the start ---- */

/* Log that this is a copy of the server in "directory". */
static void
log_copy(SfOrigin origin, const Marker *marker, const char *directory)
{
	SfServerNumber running = sf_shmem->identity.running;
	char		detail[2 * MAXPGPATH + 400];

	if (sf_copy_check == SF_CHECK_OFF)
		return;
	if (origin == SF_ORIGIN_MACHINE || origin == SF_ORIGIN_PATH)
		snprintf(detail, sizeof(detail), "Before, it was %sin \"%s\".",
				 origin == SF_ORIGIN_MACHINE ? "on another machine, " : "",
				 marker->place.path);
	else
		strlcpy(detail, origin == SF_ORIGIN_UNMARKED ?
				"It comes from a backup, or was rewound, and starts as a server of its own." :
				origin == SF_ORIGIN_FILES ?
				"Its files were copied to where they are now." :
				origin == SF_ORIGIN_UNPROMOTED ?
				"It was a standby, and was not promoted." :
				"It had another node id, and has the other server's again.",
				sizeof(detail));
	if (running != SF_NO_NUMBER &&
		(find_node() == SF_NO_NUMBER || find_node() == running))
		snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail),
				 " The server in \"%s\" runs now, and has node id %u: no IDs of that node are made here.",
				 directory, sf_server_number_value(running));
	if (sf_copy_check == SF_CHECK_ERROR)
		strlcat(detail, " No IDs are made that the other server may make, too.",
				sizeof(detail));
	sf_log_event(SF_EVENT_COPY, detail,
				 sf_identity_copy_remedy(),
				 "this data directory is a copy of another server's");
}

/*
 * Log as which node this standby will issue.  If its primary has recorded the
 * same node, a base backup has probably copied the configuration.
 */
static void
log_standby(SfServerNumber node)
{
	if (sf_settings_leases() || sf_node_layout.node_bits == 0)
		return;
	if (node == SF_NO_NUMBER)
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "this standby has no node id: once it is promoted, calls for one are refused");
	else if (node == sf_identity_primary())
		sf_log_event(SF_EVENT_STANDBY_SAME,
					 "If both run after a promotion, they issue the same IDs.",
					 sf_node_change_remedy(),
					 "this standby has node id %u, and so has its primary",
					 sf_server_number_value(node));
	else
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "once it is promoted, this standby issues as node id %u",
					 sf_server_number_value(node));
}

/*
 * Return the directory of this server's original; or an empty string.  A copy
 * with a node id of its own has recorded that; until it could, the record is
 * the original's.  The record of a standby is its primary's.
 */
static const char *
find_original(const SfOriginal *record, bool was_standby)
{
	if (sf_original_is_us(record, record->node_in_use))
		return record->copied_from;
	return was_standby ? "" : record->path;
}

/*
 * Return the directory of the server that this copy is a copy of, or of that
 * one's own original, if that runs with this node id.
 */
static const char *
find_rival(const SfOriginal *record, SfServerNumber node)
{
	return node != SF_NO_NUMBER &&
		node == sf_original_running_node(record->copied_from) ?
		record->copied_from : record->path;
}

/*
 * Make this directory ours.  The marker is written first: data with a primary
 * record but without a marker are a copy.
 */
static void
take_over(SfServerNumber node, const SfOriginal *record,
		  const char *copied_from)
{
	SfIdentity *identity = &sf_shmem->identity;
	const Marker *marker = &found.marker;
	bool		is_ours = found.is_ours;
	bool		is_us = sf_original_is_us(record, record->node_in_use);
	bool		follows = found.origin == SF_ORIGIN_STANDBY;

	/* a promoted standby stays one here until it makes an ID */
	bool		promoted = found.origin == SF_ORIGIN_HERE && is_ours &&
		marker->standby == STANDBY && record->node != SF_NO_NUMBER;
	uint32		standby = promoted ? STANDBY : !follows ? 0 :
		is_ours && marker->standby != STANDBY ? FORMER_PRIMARY : STANDBY;
	uint64		server = is_ours ? marker->server : sf_identity_random() | 1;

	pg_atomic_write_u32(&identity->primary, standby == STANDBY ? record->node :
						is_us && record->primary == node ? node :
						SF_NO_NUMBER);
	pg_atomic_write_u64(&identity->server, server);
	if ((!is_ours || marker->standby != standby) &&
		!write_marker(server, standby, LOG))
		return;

	/* a standby's record stays its primary's until it makes an ID */
	if (standby != 0)
	{
		/* the record is its own, from when it was a primary */
		if (record->node_in_use != SF_NO_NUMBER && is_us)
			(void) sf_original_write(SF_NO_NUMBER, record->node, SF_NO_NUMBER,
									 "", LOG);
		if (follows)
			log_standby(node);
		return;
	}
	if (sf_original_is_us(record, node) ||
		sf_original_write(node, record->node, SF_NO_NUMBER, copied_from, LOG))
		pg_atomic_write_u32(&identity->recorded, node);
}

/*
 * Return true if this directory may be ours, with this node id.  A copy needs
 * a node id of its own: not that of its original when it was copied, nor what
 * a reload has given to that since.  If it had one, and now has that of its
 * original again, it must wait until that does not run.
 */
static bool
may_take_over(SfServerNumber node, const SfOriginal *record,
			  const char *original)
{
	if (sf_origin_is_copy(found.origin))
		return !sf_settings_has_shards() &&
			(sf_settings_leases() ||
			 (node != SF_NO_NUMBER && record->node != SF_NO_NUMBER &&
			  node != record->node &&
			  node != sf_original_running_node(original)));
	/* a promotion is never refused: there are warnings */
	return found.origin == SF_ORIGIN_STANDBY || node == SF_NO_NUMBER ||
		node == record->primary ||
		node != sf_original_running_node(original);
}

/*
 * Find out whether this directory is a copy.  Called in the postmaster when
 * the shared memory is new, and after the configured node is published.
 */
void
sf_identity_at_start(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	SfEvidence	evidence;
	Marker	   *marker = &found.marker;
	SfPlace		here;
	SfOriginal	record;
	const char *original;

	Assert(!IsUnderPostmaster);
	if (IsBinaryUpgrade)
		return;
	sf_place_find(&here);
	evidence.follows = sf_durable_file_exists(STANDBY_SIGNAL_FILE);
	evidence.recorded = sf_original_read(&record);
	evidence.marked = sf_durable_file_read_struct(MARKER_FILE, marker,
												  sizeof(*marker),
												  MARKER_MAGIC);
	evidence.same_machine = marker->place.machine == here.machine ||
		marker->place.machine == 0 || here.machine == 0;
	evidence.same_path = strcmp(marker->place.path, here.path) == 0;
	evidence.same_files = marker->place.files == here.files;
	evidence.was_standby = marker->standby != 0;
	evidence.in_recovery = ended_in_recovery();
	found.is_ours = evidence.marked && evidence.same_machine &&
		evidence.same_path && evidence.same_files;

	identity->original = record.node;
	found.origin = sf_origin_judge(&evidence);
	original = sf_origin_is_copy(found.origin) ?
		find_rival(&record, find_node()) :
		find_original(&record, evidence.was_standby);
	if (may_take_over(find_node(), &record, original))
	{
		take_over(find_node(), &record, original);
		return;
	}

	/* after another run, it would look like a promoted standby */
	if (found.origin == SF_ORIGIN_UNPROMOTED)
		(void) durable_unlink(MARKER_FILE, LOG);
	/* the registry must not take this server for its original */
	if (sf_settings_leases())
		pg_atomic_write_u64(&identity->server, sf_identity_random() | 1);
	identity->running = sf_original_running_node(original);
	pg_atomic_write_u32(&identity->copied, 1);
	log_copy(found.origin, marker, original);
}

/* ---- later ---- */

/*
 * Return this server's random number, which stays and which no copy has.  A
 * copy that nobody has accepted has none (0), or with leases, another one at
 * each start.
 */
uint64
sf_identity_server(void)
{
	return pg_atomic_read_u64(&sf_shmem->identity.server);
}

/*
 * Return the node of the primary that this standby followed, also after its
 * promotion, until that is accepted.
 */
SfServerNumber
sf_identity_primary(void)
{
	return pg_atomic_read_u32(&sf_shmem->identity.primary);
}

/* Return true if this is a copy that nobody has accepted. */
bool
sf_identity_is_copy(void)
{
	return pg_atomic_read_u32(&sf_shmem->identity.copied) != 0;
}

/*
 * Return true if the original was seen running with this node id when this
 * server started, and nobody has accepted this copy since.
 */
static bool
original_runs(SfServerNumber node)
{
	return sf_identity_is_copy() && sf_copy_check != SF_CHECK_OFF &&
		node != SF_NO_NUMBER && node == sf_shmem->identity.running;
}

/* Return true if IDs are refused here because this is a copy. */
bool
sf_identity_refuses(void)
{
	return sf_identity_is_copy() &&
		(sf_copy_check == SF_CHECK_ERROR || original_runs(find_node()));
}

/* SQLSTATE 55000 */
static void
refuse_copy(SfServerNumber node)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this data directory is a copy of another server's"),
			 original_runs(node) ?
			 errdetail("That server was seen running on this machine, and has node id %u, too.",
					   sf_server_number_value(node)) :
			 node == SF_NO_NUMBER ?
			 errdetail("That server may issue for the same shards, and snowflake.copy_check is \"error\".") :
			 errdetail("That server may have node id %u, too, and snowflake.copy_check is \"error\".",
					   sf_server_number_value(node)),
			 errhint("%s", sf_identity_copy_remedy())));
}

/* Return where the original is: of this record, as of now. */
static const char *
find_original_now(const SfOriginal *record, SfServerNumber node)
{
	SfServerNumber primary = sf_identity_primary();

	return sf_identity_is_copy() ? find_rival(record, node) :
		find_original(record, primary != SF_NO_NUMBER && primary != node);
}

/*
 * Record that this server issues as this node now: after a promotion, or since
 * a reload.  One process does that; the others do not wait for it.  If it
 * fails, as on a full disk, a later call tries again: copies trust the record.
 */
static void
record_node(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		tried_ms = pg_atomic_read_u64(&identity->tried_ms);
	uint64		now_ms = sf_clock_monotonic_ms();
	SfServerNumber primary = sf_identity_primary();
	SfOriginal	record;

	if (pg_atomic_read_u32(&identity->recorded) == node ||
		now_ms < tried_ms + RETRY_MS || find_node() != node ||
		!pg_atomic_compare_exchange_u64(&identity->tried_ms, &tried_ms,
										now_ms))
		return;
	(void) sf_original_read(&record);
	if (write_marker(sf_identity_server(), 0, LOG) &&
		(sf_original_is_us(&record, node) ||
		 sf_original_write(node, SF_NO_NUMBER, primary,
						   find_original_now(&record, node), LOG)))
		pg_atomic_write_u32(&identity->recorded, node);
	pg_memory_barrier();
	if (find_node() != node)	/* a reload has changed it meanwhile */
	{
		pg_atomic_write_u64(&identity->tried_ms, 0);
		pg_atomic_write_u32(&identity->recorded, SF_NO_NUMBER);
	}
	if (primary == node)
		sf_log_event(SF_EVENT_PROMOTED_SAME,
					 "If that primary runs again, both servers issue the same IDs.",
					 sf_identity_promoted_remedy(),
					 "this server makes IDs with node id %u, which its former primary had, too",
					 sf_server_number_value(node));
}

void
sf_identity_require_slowly(SfServerNumber node)
{
	SfServerNumber original = sf_shmem->identity.original;

	if (sf_settings_leases() && node != SF_NO_NUMBER)
		return;
	if (!sf_identity_is_copy())
	{
		pg_read_barrier();		/* sf_identity_accept() writes it last */
		record_node(node);
	}
	else if (original_runs(node) ||
			 (sf_copy_check == SF_CHECK_ERROR &&
			  (node == SF_NO_NUMBER || original == SF_NO_NUMBER ||
			   node == original)))
		refuse_copy(node);
}

/*
 * Return true if a reload may give this server another node id: not that of
 * its original, if the original is seen running now (as at the start).
 */
bool
sf_identity_may_become(SfServerNumber node)
{
	SfOriginal	record;

	return sf_copy_check == SF_CHECK_OFF || !sf_original_read(&record) ||
		sf_identity_primary() == node ||
		node != sf_original_running_node(find_original_now(&record, node));
}

/*
 * In the postmaster, before a reload gives this server another node id: do
 * what a start with that node id would have done.  A base backup that is made
 * afterwards has the new node id in its configuration, and must have it in its
 * primary record.
 */
void
sf_identity_become(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	SfServerNumber primary = sf_identity_primary();
	SfOriginal	record;

	Assert(!IsUnderPostmaster);
	if (!sf_original_read(&record))
		return;					/* the first ID writes it */
	if (sf_identity_is_copy())
	{
		const char *original = find_rival(&record, node);

		if (!may_take_over(node, &record, original))
			return;
		take_over(node, &record, original);
		pg_write_barrier();
		pg_atomic_write_u32(&identity->copied, 0);
	}
	else if (pg_atomic_read_u32(&identity->recorded) == SF_NO_NUMBER)
	{
		/* the record is its primary's, until it makes an ID */
		if (found.origin == SF_ORIGIN_STANDBY)
			log_standby(node);
	}
	else if (sf_original_write(node, SF_NO_NUMBER, primary,
							   find_original_now(&record, node), LOG))
		pg_atomic_write_u32(&identity->recorded, node);
	else						/* the next call tries again at once */
	{
		pg_atomic_write_u64(&identity->tried_ms, 0);
		pg_atomic_write_u32(&identity->recorded, SF_NO_NUMBER);
	}
}

/* Return the node of the original, or former primary, if it runs. */
SfServerNumber
sf_identity_running(void)
{
	SfOriginal	record;

	(void) sf_original_read(&record);
	return sf_original_running_node(sf_identity_is_copy() ?
									find_rival(&record, find_node()) :
									find_original(&record, false));
}

/*
 * Throw SQLSTATE 55000 if the original is seen running now with the node id of
 * this copy.
 */
static void
require_gone(SfServerNumber node)
{
	SfServerNumber running = sf_identity_running();

	if (running != SF_NO_NUMBER &&
		(node == SF_NO_NUMBER || node == running))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot accept this copy while its original runs"),
				 errdetail("The original runs on this machine, and has node id %u: both servers would issue the same IDs.",
						   sf_server_number_value(running)),
				 errhint("To keep both servers, %s To keep this one alone, stop the original for good, and run again: SELECT snowflake_accept('copy');",
						 sf_identity_separate())));
}

/* Accept: an administrator states that no other server has this data. */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		server = sf_identity_random() | 1;
	SfServerNumber node = find_node();

	require_gone(node);
	(void) write_marker(server, 0, ERROR);
	(void) sf_original_write(node, SF_NO_NUMBER, SF_NO_NUMBER, "", ERROR);
	pg_atomic_write_u32(&identity->primary, SF_NO_NUMBER);
	pg_atomic_write_u64(&identity->server, server);
	pg_atomic_write_u32(&identity->recorded, node);
	/* a process that reads "copied" as 0 finds the server and the node */
	pg_write_barrier();
	pg_atomic_write_u32(&identity->copied, 0);
}
