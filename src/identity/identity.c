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
 * node id.  A copy gets no marker and no pair in the list until an
 * administrator accepts it, so each start decides anew.  A copy refuses IDs
 * only if snowflake.copy_check says so, or if the original was seen running
 * (original.c).  A copy with a node id that no other server has had is a
 * server of its own.
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

#include <unistd.h>

#include "access/xlog.h"
#include "base/clock.h"
#include "base/durable_file.h"
#include "base/message.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "storage/fd.h"

#define MARKER_FILE		SF_PLACE_DIR "/snowflake_server"
#define MARKER_MAGIC	0x53464d32	/* also the version of this format */

/* How long after an attempt to write the list another one may follow. */
#define RETRY_MS		1000

#define UNNOTICED \
	"Until it is written, a copy of this data directory may not be noticed."

typedef struct Marker
{
	uint32		magic;
	uint64		server;			/* random */
	SfPlace		place;
} Marker;

/* The list as this process has read it last. */
static SfServers list;

StaticAssertDecl(SF_SERVERS_PATH == MAXPGPATH, "paths have room");

/* ---- reading ---- */

static void
read_list(void)
{
	sf_original_read_list(SF_SERVERS_FILE, &list);
}

static SfServerNumber
find_node(void)
{
	return pg_atomic_read_u32(&sf_shmem->identity.node);
}

static bool
is_copied(SfServerNumber node)
{
	return node != SF_NO_NUMBER &&
		node == pg_atomic_read_u32(&sf_shmem->identity.copied);
}

/*
 * Return true if this server, whose marker is there, was a standby, and was
 * not promoted: its recovery has not begun, or has not ended.  A promotion
 * changes pg_control.
 */
static bool
was_standby(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	DBState		state = control->state;

	sf_shmem->identity.control = control->crc;
	pfree(control);
	return (list.count == 0 ? list.forgotten : list.standby) &&
		(state == DB_SHUTDOWNED_IN_RECOVERY ||
		 state == DB_IN_CRASH_RECOVERY || state == DB_IN_ARCHIVE_RECOVERY ||
		 list.control == sf_shmem->identity.control);
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
write_marker(int elevel)
{
	SfIdentity *identity = &sf_shmem->identity;
	bool		made = sf_place_make_dir(elevel);
	Marker		marker;

	memset(&marker, 0, sizeof(marker));
	marker.magic = MARKER_MAGIC;
	sf_place_find(&marker.place);
	marker.server = sf_identity_server();
	identity->marked =
		sf_log_file(made && sf_durable_file_write(MARKER_FILE, &marker,
												  sizeof(marker), elevel),
					MARKER_FILE, UNNOTICED);
	return identity->marked;
}

/*
 * Return the machine of this place.  Containers have none, but one path; they
 * have the names of their hosts.
 */
static uint64
find_machine(const SfPlace *here)
{
	char		host[256] = "";

	if (here->machine != 0 || gethostname(host, sizeof(host) - 1) != 0)
		return here->machine;
	return hash_bytes_extended((unsigned char *) host, (int) strlen(host), 0);
}

/*
 * Add the pair of this server to what the list has, or to an empty one, and
 * write that.  If a reload has brought another node id meanwhile, this process
 * may have overwritten the postmaster's pair: then write that, too.
 */
static bool
write_list(SfServerNumber node, bool alone, int elevel)
{
	SfIdentity *identity = &sf_shmem->identity;
	SfPlace		here;
	SfPair		own;
	bool		written;

	sf_place_find(&here);
	memset(&own, 0, sizeof(own));
	own.server = sf_identity_server();
	own.machine = find_machine(&here);
	own.shards = alone ||
		pg_atomic_read_u32(&identity->shards) == SF_SHARDS_OWN;
	strlcpy(own.path, here.path, sizeof(own.path));
	do
	{
		own.node = node;
		if (alone)
			memset(&list, 0, sizeof(list));
		else
			read_list();
		list.control = identity->control;
		list.standby = identity->follows;
		sf_servers_add(&list, &own);
		written = sf_durable_file_write(SF_SERVERS_FILE, &list,
										offsetof(SfServers, pair) +
										list.count * sizeof(SfPair), elevel);
		pg_memory_barrier();
		node = find_node();
		pg_read_barrier();		/* see decide() */
	} while (node != own.node && node != SF_NO_NUMBER && !is_copied(node));
	return sf_log_file(written, SF_SERVERS_FILE, UNNOTICED);
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

/* Return true if this server follows another one; a promotion ends that. */
static bool
follows(void)
{
	return sf_shmem->identity.follows &&
		sf_durable_file_exists(STANDBY_SIGNAL_FILE);
}

/* Return true if another server has this node id, too, if it runs. */
static bool
is_shared(SfServerNumber node)
{
	return sf_servers_share(&list, sf_identity_server(), node);
}

/*
 * Return the directory of another server that is seen running with this node
 * id; NULL if there is none.  A server that is settled may be followed by one
 * with the same node id; and if the number is also another's, there have been
 * warnings, and nothing is refused.
 */
static const char *
find_rival(SfServerNumber node)
{
	uint64		server = sf_identity_server();
	bool		settled = sf_servers_is_settled(&list, server, node);

	if (follows() || node == SF_NO_NUMBER ||
		(settled && is_shared(node)))
		return NULL;
	return sf_original_running(&list, server, &node, !settled);
}

static bool
is_listed(SfServerNumber number)
{
	return !follows() && sf_servers_is_copy(&list, sf_identity_server(),
											sf_shmem->identity.marked, number);
}

/* Log that this is a copy, as far as this number is concerned. */
static void
log_copy(SfServerNumber number, const char *directory)
{
	const char *reason = sf_shmem->identity.reason;
	char		detail[2 * MAXPGPATH + 400];

	if (sf_copy_check == SF_CHECK_OFF)
		return;
	strlcpy(detail, reason[0] != '\0' ? reason : number == SF_SHARDS ?
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

/* Log once that this is a copy for shards, which a reload may bring. */
static void
log_copied_shards(void)
{
	uint32		copied = SF_SHARDS_COPIED;

	if (pg_atomic_compare_exchange_u32(&sf_shmem->identity.shards, &copied,
									   SF_SHARDS_LOGGED))
		log_copy(SF_SHARDS, NULL);
}

/*
 * Log as which node this standby will issue.  If a server that it was copied
 * from has the same node, a base backup has probably copied the configuration.
 */
static void
log_standby(SfServerNumber node)
{
	if (sf_settings_leases() || sf_node_layout.node_bits == 0)
		return;
	if (node == SF_NO_NUMBER)
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "this standby has no node id: once it is promoted, calls for one are refused");
	else if (is_shared(node))
		sf_log_event(SF_EVENT_STANDBY_SAME,
					 "If both run after a promotion, they issue the same IDs.",
					 sf_node_change_remedy(),
					 "this standby has node id %u, and so has a server that it was copied from",
					 sf_server_number_value(node));
	else
		sf_log_event(SF_EVENT_STANDBY_NODE, NULL, NULL,
					 "once it is promoted, this standby issues as node id %u",
					 sf_server_number_value(node));
}

/*
 * Write the pair of this server, which is no copy, before its number is used.
 * A promoted standby writes again at its first ID ("used"); and it warns then,
 * if another server has this node id, too.
 */
static void
take(SfServerNumber node, bool used)
{
	SfIdentity *identity = &sf_shmem->identity;
	bool		written = (identity->marked || write_marker(LOG)) &&
		write_list(node, false, LOG);

	if (!written || (!used && (identity->follows || is_shared(node))))
		return;
	pg_atomic_write_u32(&identity->recorded, node);
	pg_memory_barrier();
	if (is_copied(node))		/* by a reload meanwhile */
		pg_atomic_write_u32(&identity->recorded, SF_NO_NUMBER);
}

/*
 * In the postmaster: decide about this node id before it is used, and before a
 * base backup copies it from the configuration.  A call that has read the last
 * one finds none meanwhile, and looks again.
 */
static void
decide(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	const char *directory = find_rival(node);
	bool		copied = directory != NULL || is_listed(node);

	pg_atomic_write_u32(&identity->node, SF_NO_NUMBER);
	pg_memory_barrier();
	pg_atomic_write_u32(&identity->recorded, SF_NO_NUMBER);
	pg_atomic_write_u64(&identity->tried_ms, 0);
	identity->seen = directory != NULL;
	pg_atomic_write_u32(&identity->copied, copied ? node : SF_NO_NUMBER);
	pg_memory_barrier();
	pg_atomic_write_u32(&identity->node, node);
	pg_memory_barrier();
	if (copied)
		log_copy(node, directory);
	else
		take(node, false);
	if (identity->follows && !copied)
		log_standby(node);
}

/* ---- at the start ---- */

/*
 * Read the marker.  Return the server if it is of this place, and was promoted
 * if it was a standby; otherwise 0, and why, if there is a reason.
 */
static uint64
find_server(char *reason, size_t reason_size)
{
	Marker		marker;
	SfPlace		here;
	bool		marked = sf_durable_file_read_struct(MARKER_FILE, &marker,
													 sizeof(marker),
													 MARKER_MAGIC);
	bool		unpromoted = was_standby() && !sf_shmem->identity.follows;
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
	else if (unpromoted)
	{
		/* after this run, it would look like a promoted standby */
		(void) durable_unlink(MARKER_FILE, LOG);
		strlcpy(reason, "It was a standby, and was not promoted.",
				reason_size);
	}
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
	uint64		server;

	Assert(!IsUnderPostmaster);
	if (IsBinaryUpgrade)
		return;
	read_list();
	identity->follows = sf_durable_file_exists(STANDBY_SIGNAL_FILE);
	server = find_server(identity->reason, sizeof(identity->reason));
	identity->marked = server != 0;
	if (server == 0)
		server = sf_identity_random() | 1;
	else if (list.count > 0 && list.pair[list.count - 1].server == server)
		identity->original = list.pair[list.count - 1].node;
	pg_atomic_write_u64(&identity->server, server);

	if (is_listed(SF_SHARDS))
		pg_atomic_write_u32(&identity->shards, SF_SHARDS_COPIED);
	decide(sf_node_configured());
	if (sf_settings_has_shards())
		log_copied_shards();
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

static bool
are_shards_copied(void)
{
	return pg_atomic_read_u32(&sf_shmem->identity.shards) != SF_SHARDS_OWN;
}

/* Return true if this is a copy that nobody has accepted. */
bool
sf_identity_is_copy(void)
{
	return is_copied(find_node()) ||
		(are_shards_copied() && sf_settings_has_shards());
}

/*
 * Return the node of this server if that is also the last node of a server
 * that it was copied from; also after a promotion, until that is accepted.
 */
SfServerNumber
sf_identity_primary(void)
{
	SfServerNumber node = find_node();

	read_list();
	return is_shared(node) && !is_copied(node) ? node : SF_NO_NUMBER;
}

/* Return true if the original was seen running with this node id of a copy. */
static bool
original_runs(SfServerNumber node)
{
	return is_copied(node) && sf_shmem->identity.seen &&
		sf_copy_check != SF_CHECK_OFF;
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
	bool		says_error = sf_copy_check == SF_CHECK_ERROR;

	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this data directory is a copy of another server's"),
			 number == SF_SHARDS && says_error ?
			 errdetail("That server may issue for the same shards, and snowflake.copy_check is \"error\".") :
			 number == SF_SHARDS ?
			 errdetail("That server was seen running on this machine, and may issue for the same shards.") :
			 original_runs(number) ?
			 errdetail("That server was seen running on this machine, and has node id %u, too.",
					   sf_server_number_value(number)) :
			 errdetail("That server may have node id %u, too, and snowflake.copy_check is \"error\".",
					   sf_server_number_value(number)),
			 errhint("%s", sf_identity_copy_remedy())));
}

/*
 * Record that this server issues with this node now: after a promotion, or
 * since a reload.  One process does that; the others do not wait for it.  If
 * it fails, as on a full disk, a later call tries again, since copies trust
 * the list.
 */
static void
record(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		tried_ms = pg_atomic_read_u64(&identity->tried_ms);
	uint64		now_ms = sf_clock_monotonic_ms();

	if (pg_atomic_read_u32(&identity->recorded) == node ||
		now_ms < tried_ms + RETRY_MS ||
		!pg_atomic_compare_exchange_u64(&identity->tried_ms, &tried_ms,
										now_ms))
		return;
	identity->follows = false;
	take(node, true);
	if (is_shared(node))
		sf_log_event(SF_EVENT_PROMOTED_SAME,
					 "If that primary runs again, both servers issue the same IDs.",
					 sf_identity_promoted_remedy(),
					 "this server makes IDs with node id %u, which its former primary had, too",
					 sf_server_number_value(node));
}

bool
sf_identity_require_slowly(SfServerNumber node)
{
	bool		copied = is_copied(node);

	if (sf_identity_server() == 0 || sf_settings_leases())
		return true;
	if (copied && (sf_copy_check == SF_CHECK_ERROR || original_runs(node)))
		refuse_copy(node);
	pg_read_barrier();			/* see decide() */
	if (node != find_node())
		return false;
	if (!copied)
		record(node);
	return true;
}

void
sf_identity_require_shards_slowly(void)
{
	log_copied_shards();
	if (sf_copy_check == SF_CHECK_ERROR || original_runs(find_node()))
		refuse_copy(SF_SHARDS);
}

/* Write the list if it could not be written: a standby makes no IDs. */
void
sf_identity_retry(void)
{
	SfServerNumber node = find_node();

	read_list();
	if (node != SF_NO_NUMBER && !is_copied(node) &&
		!sf_servers_is_settled(&list, sf_identity_server(), node))
		take(node, false);
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
 * what a start with that node id would have done.
 */
void
sf_identity_become(SfServerNumber node)
{
	Assert(!IsUnderPostmaster);
	if (sf_identity_server() == 0 || sf_settings_leases())
		return;					/* the start does it, or nothing is to do */
	read_list();
	decide(node);
}

/*
 * Return the node of another server with this data that runs now, if it has
 * the node of this one; or any node, if this one has none.
 */
SfServerNumber
sf_identity_running(void)
{
	SfServerNumber node = find_node();

	read_list();
	return sf_original_running(&list, sf_identity_server(), &node,
							   sf_identity_is_copy()) != NULL ? node :
		SF_NO_NUMBER;
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
				 errhint("%s", sf_identity_copy_remedy())));
}

/*
 * Accept: an administrator states that no other server has this data.  The
 * server keeps its number, so that nothing is lost if a file is not written.
 */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_shmem->identity;

	require_gone();
	identity->follows = false;
	(void) write_marker(ERROR);
	(void) write_list(find_node(), true, ERROR);
	pg_atomic_write_u32(&identity->copied, SF_NO_NUMBER);
	pg_atomic_write_u32(&identity->shards, SF_SHARDS_OWN);
}
