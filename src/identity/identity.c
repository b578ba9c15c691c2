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
 *	snowflake.servers		the list of servers: which ones this data has been,
 *			where, and with which node ids.  An administrator who removes it
 *			states that no other server has the data.
 *
 * servers.c derives the answer at each start, and when a reload brings another
 * node id.  A copy gets no marker and no
 * pair in the list until an administrator accepts it, so each start decides
 * anew.  A copy refuses IDs only if snowflake.copy_check says so, or if the
 * original was seen running (original.c).  A copy with a node id that no other
 * server has had is a server of its own.
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
#include "base/message.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "storage/fd.h"

#define MARKER_FILE		SF_PLACE_DIR "/snowflake_server"
#define MARKER_MAGIC	0x53464d32	/* also the version of this format */

/* How long after an attempt to write the list another one may follow. */
#define RETRY_MS		1000

typedef struct Marker
{
	uint32		magic;
	uint64		server;			/* random */
	SfPlace		place;
} Marker;

/* The list as this process has read it last, and as it is on disk. */
static SfServers list;
static SfServers on_disk;

StaticAssertDecl(SF_SERVERS_PATH == MAXPGPATH, "paths have room");

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
write_marker(uint64 server, int elevel)
{
	bool		made = sf_place_make_dir(elevel);
	Marker		marker;

	memset(&marker, 0, sizeof(marker));
	marker.magic = MARKER_MAGIC;
	sf_place_find(&marker.place);
	marker.server = server;
	return sf_log_file(made && sf_durable_file_write(MARKER_FILE, &marker,
													 sizeof(marker), elevel),
					   MARKER_FILE, "Until it is written, a copy of this data directory may not be noticed.");
}

static void
read_list(void)
{
	sf_original_read_list(SF_SERVERS_FILE, &list);
	on_disk = list;
}

/* Add a pair of this server to the list, and write that. */
static bool
write_list(SfServerNumber number, int elevel)
{
	size_t		size;
	SfPlace		here;

	sf_place_find(&here);
	sf_servers_add(&list, number, here.machine, here.path);
	size = offsetof(SfServers, pair) + list.count * sizeof(SfPair);
	if (memcmp(&list, &on_disk, size) == 0)
		return true;
	if (!sf_log_file(sf_durable_file_write(SF_SERVERS_FILE, &list, size,
										   elevel),
					 SF_SERVERS_FILE, "Until it is written, a copy of this data directory may not be noticed."))
		return false;
	on_disk = list;
	return true;
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
	return psprintf("To keep both servers, %s Only if the original and all other copies of it are gone for good, run as a superuser: SELECT %s.snowflake_accept('copy');",
					sf_identity_separate(), sf_extschema());
}

/* ... and about a promoted standby with its former primary's node id. */
char *
sf_identity_promoted_remedy(void)
{
	return psprintf("%s\nOnly if that primary never runs again, run instead as a superuser: SELECT %s.snowflake_accept('copy');",
					sf_node_change_remedy(), sf_extschema());
}

/* ---- the rule ---- */

/*
 * Return the directory of another server that is seen running with this node
 * id; NULL if there is none.  Of a standby, a promotion is never refused, nor
 * is what follows: there are warnings.  A server with a pair of its own may be
 * followed by one with the same node id.
 */
static const char *
find_rival(SfServerNumber node)
{
	uint64		server = sf_identity_server();
	bool		has_own = sf_servers_find(&list, server, node) != NULL;
	const char *directory;

	if (sf_shmem->identity.follows ||
		node == SF_NO_NUMBER || node == SF_SHARDS ||
		(has_own && sf_servers_source(&list, node) != NULL))
		return NULL;
	(void) sf_original_running(&list, server, node, !has_own, &directory);
	return directory;
}

/* Return true if this server is a copy, as far as this number is concerned. */
static bool
is_copy(SfServerNumber number)
{
	const SfIdentity *identity = &sf_shmem->identity;
	SfStart		start = {
		.server = sf_identity_server(), .marked = identity->marked,
		.follows = identity->follows, .unpromoted = identity->unpromoted
	};

	return sf_servers_is_copy(&list, &start, number) ||
		find_rival(number) != NULL;
}

/* Return the index of what is noted of this number. */
static int
kind_of(SfServerNumber number)
{
	return number == SF_SHARDS ? SF_OF_SHARDS : SF_OF_NODE;
}

static bool
is_copied(SfServerNumber number)
{
	return number != SF_NO_NUMBER && number ==
		pg_atomic_read_u32(&sf_shmem->identity.copied[kind_of(number)]);
}

/* Note the number that is used and written, so that no call looks again. */
static void
note(SfServerNumber number, bool written)
{
	pg_atomic_write_u32(&sf_shmem->identity.recorded[kind_of(number)],
						written ? number : SF_NO_NUMBER);
}

/* Note, and log, that this is a copy, as far as this number is concerned. */
static void
become_copy(SfServerNumber number)
{
	SfIdentity *identity = &sf_shmem->identity;
	const char *directory = NULL;
	char		detail[2 * MAXPGPATH + 400];

	if (number != SF_SHARDS)
		identity->running = sf_original_running(&list, sf_identity_server(),
												number, true, &directory);
	note(number, false);		/* each call looks again */
	pg_atomic_write_u32(&identity->copied[kind_of(number)], number);
	if (sf_copy_check == SF_CHECK_OFF ||
		(number == SF_SHARDS && !sf_settings_has_shards()))
		return;
	strlcpy(detail, identity->reason[0] != '\0' ? identity->reason :
			number == SF_SHARDS ?
			"Another server has had these data, and may have the same shards." :
			"It had another node id, and has the other server's again.",
			sizeof(detail));
	if (directory != NULL)
		snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail),
				 " The server in \"%s\" runs now, and has node id %u: no IDs of that node are made here.",
				 directory, sf_server_number_value(number));
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
	const SfPair *source = sf_servers_source(&list, node);

	if (sf_settings_leases() || sf_node_layout.node_bits == 0)
		return;
	if (node == SF_NO_NUMBER)
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "this standby has no node id: once it is promoted, calls for one are refused");
	else if (source != NULL)
		sf_log_event(SF_EVENT_STANDBY_SAME,
					 "If both run after a promotion, they issue the same IDs.",
					 sf_node_change_remedy(),
					 source->server == list.primary ?
					 "this standby has node id %u, and so has its primary" :
					 "this standby has node id %u, and so has the server that it was copied from",
					 sf_server_number_value(node));
	else
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "once it is promoted, this standby issues as node id %u",
					 sf_server_number_value(node));
}

/*
 * Write a pair of this server, which is no copy, before the number is used.  A
 * promoted standby writes again at its first ID; and it warns then, if the
 * source of the data has this node id, too.
 */
static void
take(SfServerNumber number, bool standby, SfServerNumber node, bool used)
{
	SfIdentity *identity = &sf_shmem->identity;
	bool		written;
	bool		is_source;

	sf_servers_begin(&list, sf_identity_server(), standby, node);
	written = write_list(number, LOG);
	is_source = sf_servers_source(&list, node) != NULL;
	pg_atomic_write_u32(&identity->primary, is_source ? node : SF_NO_NUMBER);
	pg_atomic_write_u32(&identity->copied[kind_of(number)], SF_NO_NUMBER);
	note(number, written && (used || (!standby && !is_source)));
}

/* ---- at the start ---- */

/*
 * Read the marker.  Return the server if it is of this place; otherwise 0, and
 * why, if there is a reason.
 */
static uint64
find_server(char *reason, size_t reason_size)
{
	Marker		marker;
	SfPlace		here;
	bool		marked = sf_durable_file_read_struct(MARKER_FILE, &marker,
													 sizeof(marker),
													 MARKER_MAGIC);
	bool		same_machine;
	bool		same_path;

	sf_place_find(&here);
	same_machine = marker.place.machine == here.machine ||
		marker.place.machine == 0 || here.machine == 0;
	same_path = strcmp(marker.place.path, here.path) == 0;
	reason[0] = '\0';
	if (!marked)
		strlcpy(reason, "It comes from a backup, or was rewound, and starts as a server of its own.",
				reason_size);
	else if (!same_machine || !same_path)
		snprintf(reason, reason_size, "Before, it was %sin \"%s\".",
				 same_machine ? "" : "on another machine, ",
				 marker.place.path);
	else if (marker.place.files != here.files)
		strlcpy(reason, "Its files were copied to where they are now.",
				reason_size);
	return reason[0] == '\0' ? marker.server : 0;
}

/*
 * Find out whether this directory is a copy.  Called in the postmaster when
 * the shared memory is new, and after the configured node is published.
 */
void
sf_identity_at_start(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	SfServerNumber node = find_node();
	bool		has_shards = sf_settings_has_shards();
	uint64		server;

	Assert(!IsUnderPostmaster);
	if (IsBinaryUpgrade)
		return;
	read_list();
	server = find_server(identity->reason, sizeof(identity->reason));
	identity->marked = server != 0;
	identity->follows = sf_durable_file_exists(STANDBY_SIGNAL_FILE);
	identity->unpromoted = identity->marked && !identity->follows &&
		(list.standby || (list.forgotten && list.writer == 0)) &&
		ended_in_recovery();
	if (server == 0)
		server = sf_identity_random() | 1;
	pg_atomic_write_u64(&identity->server, server);
	if (list.writer == server)
		identity->original = list.node;
	if (identity->unpromoted)
		strlcpy(identity->reason, "It was a standby, and was not promoted.",
				sizeof(identity->reason));

	if (is_copy(node))
		become_copy(node);
	if (is_copy(SF_SHARDS))		/* a reload may bring some */
		become_copy(SF_SHARDS);
	/* after another run, it would look like a promoted standby */
	if (sf_identity_is_copy() && identity->unpromoted)
		(void) durable_unlink(MARKER_FILE, LOG);
	else if (!is_copied(node) &&
			 (identity->marked || write_marker(server, LOG)))
	{
		/* the marker first: a list without a marker is that of a copy */
		take(node, identity->follows, node, false);
		if (has_shards && !is_copied(SF_SHARDS))
			take(SF_SHARDS, identity->follows, node, false);
	}
	if (identity->follows)
		log_standby(node);
}

/* ---- later ---- */

/*
 * Return this server's random number, which stays and which no copy has.  A
 * copy that nobody has accepted has another one at each start.
 */
uint64
sf_identity_server(void)
{
	return pg_atomic_read_u64(&sf_shmem->identity.server);
}

/*
 * Return the node of this server if that is also the node of the server that
 * this standby was copied from, or of its primary; also after its promotion,
 * until that is accepted.
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
	return is_copied(find_node()) ||
		(is_copied(SF_SHARDS) && sf_settings_has_shards());
}

/*
 * Return true if the original was seen running with this node id when that was
 * found to be a copy's, and nobody has accepted this copy since.
 */
static bool
original_runs(SfServerNumber node)
{
	return is_copied(node) && sf_copy_check != SF_CHECK_OFF &&
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
refuse_copy(SfServerNumber number)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this data directory is a copy of another server's"),
			 number == SF_SHARDS ?
			 errdetail("That server may issue for the same shards, and snowflake.copy_check is \"error\".") :
			 original_runs(number) ?
			 errdetail("That server was seen running on this machine, and has node id %u, too.",
					   sf_server_number_value(number)) :
			 errdetail("That server may have node id %u, too, and snowflake.copy_check is \"error\".",
					   sf_server_number_value(number)),
			 errhint("%s", sf_identity_copy_remedy())));
}

/*
 * Record that this server issues with this number now: after a promotion, or
 * since a reload.  One process does that; the others do not wait for it.  If
 * it fails, as on a full disk, a later call tries again, since copies trust
 * the list.
 */
static void
record(SfServerNumber number)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		tried_ms = pg_atomic_read_u64(&identity->tried_ms);
	uint64		now_ms = sf_clock_monotonic_ms();
	SfServerNumber node = find_node();
	SfServerNumber primary;

	if (pg_atomic_read_u32(&identity->recorded[kind_of(number)]) == number ||
		(number != SF_SHARDS && node != number) ||
		now_ms < tried_ms + RETRY_MS ||
		!pg_atomic_compare_exchange_u64(&identity->tried_ms, &tried_ms,
										now_ms))
		return;
	read_list();
	if (write_marker(sf_identity_server(), LOG))
		take(number, false, node, true);
	primary = sf_identity_primary();
	pg_memory_barrier();
	if (number != SF_SHARDS && find_node() != number)
	{
		/* a reload has changed it meanwhile */
		pg_atomic_write_u64(&identity->tried_ms, 0);
		note(SF_NO_NUMBER, false);
	}
	if (primary == number)
		sf_log_event(SF_EVENT_PROMOTED_SAME,
					 "If that primary runs again, both servers issue the same IDs.",
					 sf_identity_promoted_remedy(),
					 "this server makes IDs with node id %u, which its former primary had, too",
					 sf_server_number_value(number));
}

void
sf_identity_require_slowly(SfServerNumber number)
{
	if (sf_settings_leases() && number != SF_SHARDS)
		return;
	if (!is_copied(number))
	{
		pg_read_barrier();		/* sf_identity_accept() writes it last */
		record(number);
	}
	else if (sf_copy_check == SF_CHECK_ERROR || original_runs(number))
		refuse_copy(number);
}

/*
 * Return true if a reload may give this server another node id: not that of
 * another server that is seen running now.
 */
bool
sf_identity_may_become(SfServerNumber node)
{
	if (sf_copy_check == SF_CHECK_OFF)
		return true;
	read_list();
	return find_rival(node) == NULL;
}

/*
 * In the postmaster, before a reload gives this server another node id: do
 * what a start with that node id would have done.  A base backup that is made
 * afterwards has the new node id in its configuration, and must have it in its
 * list.
 */
void
sf_identity_become(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		server = sf_identity_server();
	bool		standby;

	Assert(!IsUnderPostmaster);
	if (server == 0 || sf_settings_leases())
		return;					/* the start does it, or nothing is to do */
	read_list();
	pg_atomic_write_u64(&identity->tried_ms, 0);
	if (is_copy(node))
	{
		become_copy(node);
		return;
	}
	/* a promoted standby is one here until it makes an ID */
	standby = identity->follows &&
		(list.writer != server || list.standby);
	if (list.writer == server || write_marker(server, LOG))
		take(node, standby, node, false);
	if (standby)
		log_standby(node);
}

/*
 * Return the node of another server with this data that runs now, if it has
 * the node of this one; or any node, if this one has none.
 */
SfServerNumber
sf_identity_running(void)
{
	const char *directory;

	read_list();
	return sf_original_running(&list, sf_identity_server(), find_node(),
							   sf_identity_is_copy(), &directory);
}

/*
 * Throw SQLSTATE 55000 if the original is seen running now with the node id of
 * this copy.
 */
static void
require_gone(void)
{
	SfServerNumber running = sf_identity_running();

	if (running != SF_NO_NUMBER)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot accept this copy while its original runs"),
				 errdetail("The original runs on this machine, and has node id %u: both servers would issue the same IDs.",
						   sf_server_number_value(running)),
				 errhint("To keep both servers, %s To keep this one alone, stop the original for good, and run again: SELECT %s.snowflake_accept('copy');",
						 sf_identity_separate(), sf_extschema())));
}

/* Accept: an administrator states that no other server has this data. */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		server = sf_identity_random() | 1;
	SfServerNumber node = find_node();
	bool		has_shards = sf_settings_has_shards();

	require_gone();
	(void) write_marker(server, ERROR);
	memset(&list, 0, sizeof(list));
	sf_servers_begin(&list, server, false, node);
	if (has_shards)
		(void) write_list(SF_SHARDS, ERROR);
	(void) write_list(node, ERROR);
	identity->unpromoted = false;
	pg_atomic_write_u32(&identity->primary, SF_NO_NUMBER);
	pg_atomic_write_u64(&identity->server, server);
	note(node, true);
	if (has_shards)
		note(SF_SHARDS, true);
	/* a process that reads no copy finds the server and the numbers */
	pg_write_barrier();
	pg_atomic_write_u32(&identity->copied[SF_OF_NODE], SF_NO_NUMBER);
	pg_atomic_write_u32(&identity->copied[SF_OF_SHARDS], SF_NO_NUMBER);
}
