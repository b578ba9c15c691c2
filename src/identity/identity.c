/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Identity of this server: is its data directory a copy of another
 *	  server's?
 *
 * Two files answer this: the marker, which no copy has (SF_PLACE_DIR), says
 * which server owns this directory, and where it is; and the list, which all
 * copies have, says which servers this data has been, and with which node ids.
 * An administrator who removes the list states that no other server has the
 * data.
 *
 * servers.c derives the answer at each start, and when a reload brings another
 * node id.  A copy gets no marker and no pair in the list until an
 * administrator accepts it, so each start decides anew.  A copy refuses IDs
 * only if snowflake.copy_check says so.  A copy with a node id that no other
 * server has had is a server of its own.  Each server, also an original,
 * refuses those that another one with these data is seen to make (original.c).
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
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/fd.h"

#define SERVERS_FILE	"snowflake.servers"
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

#define IS_COPY		"this data directory is a copy of another server's"
#define HAS_SAME	"another server with these data has the node id or shards of this one"

/* What this server makes IDs of. */
typedef struct Made
{
	SfServerNumber node;
	uint32		shards[SF_SHARDS_WORDS];
} Made;

/* The list as this process has read it last. */
static SfServers list;

/* The shards of other servers that this process has seen last. */
static uint32 seen[SF_SHARDS_WORDS];

/* ---- reading ---- */

/*
 * Read the list.  If it is damaged, or of another version, it counts as one
 * that has forgotten all.
 */
static void
read_list(void)
{
	if (!sf_durable_file_read_struct(SERVERS_FILE, &list, sizeof(list),
									 SF_SERVERS_MAGIC))
		list.forgotten = sf_durable_file_exists(SERVERS_FILE);
}

/* Return SfIdentity.node: the configured node, and what is known of it. */
static uint64
find_node(void)
{
	return pg_atomic_read_u64(&sf_shmem->identity.node);
}

static bool
has_flag(uint32 flag)
{
	return (pg_atomic_read_u32(&sf_shmem->identity.shards) & flag) != 0;
}

static void
set_flag(uint32 flag, bool on)
{
	if (on)
		(void) pg_atomic_fetch_or_u32(&sf_shmem->identity.shards, flag);
	else
		(void) pg_atomic_fetch_and_u32(&sf_shmem->identity.shards, ~flag);
}

/* Return true if another server has this node id, too, if it runs. */
static bool
is_shared(SfServerNumber node)
{
	return sf_servers_share(&list, sf_identity_server(), node);
}

/* Return true if this server follows another one; a promotion ends that. */
static bool
follows(void)
{
	return sf_shmem->identity.follows &&
		sf_durable_file_exists(STANDBY_SIGNAL_FILE);
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

	sf_shmem->identity.control = control->crc;
	return (list.count == 0 ? list.forgotten : list.standby) &&
		(control->state == DB_SHUTDOWNED_IN_RECOVERY ||
		 control->state == DB_IN_CRASH_RECOVERY ||
		 control->state == DB_IN_ARCHIVE_RECOVERY ||
		 control->crc == list.control);
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
 * Return a hash of this place.  Containers have no machine's ID, but one path;
 * they have the names of their hosts.
 */
static uint64
hash_place(void)
{
	char		host[256] = "";
	SfPlace		here;

	sf_place_find(&here);
	if (here.machine == 0 && gethostname(host, sizeof(host) - 1) == 0)
		here.machine = hash_bytes_extended((unsigned char *) host,
										   (int) strlen(host), 0);
	return hash_bytes_extended((unsigned char *) here.path,
							   (int) strlen(here.path), here.machine);
}

/*
 * Add the pair of this server to what the list has, and write that; "accepted"
 * says that nobody else has its node id and its shards any more.  A server
 * with a node id of its own takes over no other one by that.  If a reload has
 * brought another node id meanwhile, this process may have overwritten the
 * postmaster's pair: then write that, too.
 */
static bool
write_list(uint64 word, bool accepted, int elevel)
{
	SfServerNumber node = (SfServerNumber) word;
	SfPair		own;
	bool		written;

	memset(&own, 0, sizeof(own));
	own.server = sf_identity_server();
	own.place = hash_place();
	own.shards = accepted || !has_flag(SF_SHARDS_COPIED);
	do
	{
		own.node = node;
		read_list();
		if (accepted)
			sf_servers_forgive(&list, (word & SF_NODE_SHARED) != 0 ||
							   is_shared(node));
		list.control = sf_shmem->identity.control;
		list.standby = follows();
		sf_servers_add(&list, &own);
		written = sf_durable_file_write(SERVERS_FILE, &list, sizeof(list),
										elevel);
		pg_memory_barrier();
		word = find_node();
		node = (SfServerNumber) word;
	} while (node != own.node && node != SF_NO_NUMBER &&
			 (word & SF_NODE_SHARED) == 0);
	return sf_log_file(written, SERVERS_FILE, UNNOTICED);
}

/* ---- remedies ---- */

/*
 * Return how to give this server numbers of its own, in place of those that it
 * shares with the original.
 */
char *
sf_identity_separate(bool node)
{
	SfSettingLine lines[] = {
		{"snowflake.node_id", "NUMBER"}, {"snowflake.shards", "SHARDS"}
	};
	bool		number = node && !sf_settings_leases() &&
		sf_node_layout.node_bits > 0;
	bool		shards = sf_settings_has_shards();

	return psprintf("choose %s%s%s that no other server has, and %s",
					number ? "a number" : "", number && shards ? " and " : "",
					shards ? "shards" : "",
					sf_settings_step(number ? lines : lines + 1,
									 number + shards, SF_APPLY_RESTART));
}

/*
 * Return what to do about a copy that nobody has accepted.  With a node id of
 * its own it may go on beside the original, if it has other shards.
 */
char *
sf_identity_copy_remedy(void)
{
	if ((find_node() & SF_NODE_SHARED) == 0)
		return psprintf("If another server may have one of the shards in snowflake.shards, %s Once no other server has any of them, run as a superuser: SELECT %s.snowflake_accept('copy');",
						sf_identity_separate(false), sf_extschema());
	return psprintf("To keep both servers, %s Only if all other servers with these data are gone for good, run as a superuser: SELECT %s.snowflake_accept('copy');",
					sf_identity_separate(true), sf_extschema());
}

/* ... and about a promoted standby with another server's node id. */
char *
sf_identity_promoted_remedy(void)
{
	return psprintf("%s\nOnly if that server never runs again, run instead as a superuser: SELECT %s.snowflake_accept('copy');",
					sf_node_change_remedy(), sf_extschema());
}

/* ---- the rule ---- */

/* Return true if IDs of this node are refused, since another server has it. */
static bool
refuses_node(uint64 word)
{
	return ((word & SF_NODE_COPIED) != 0 && sf_copy_check == SF_CHECK_ERROR) ||
		((word & SF_NODE_SEEN) != 0 && sf_copy_check != SF_CHECK_OFF);
}

static bool
refuses_shard(uint32 shard)
{
	return (has_flag(SF_SHARDS_COPIED) && sf_copy_check == SF_CHECK_ERROR) ||
		(sf_copy_check != SF_CHECK_OFF &&
		 sf_ranges_has(sf_shmem->identity.seen_shards, shard));
}

/* Return a shard of this server of which this is true, or -1. */
static int
find_shard(bool (*test) (uint32 shard))
{
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (sf_shard_is_open(i) && test(i))
			return i;
	}
	return -1;
}

static bool
shares_shard(uint32 shard)
{
	return has_flag(SF_SHARDS_COPIED) ||
		sf_ranges_has(sf_shmem->identity.seen_shards, shard);
}

static bool
is_seen(uint32 shard)
{
	return sf_ranges_has(seen, shard);
}

/*
 * Return the directory of another server that is seen running with this node
 * id; NULL if there is none.  See the shards of such servers, too.  A standby
 * looks for nobody.
 */
static const char *
look(SfServerNumber node, bool warned)
{
	memset(seen, 0, sizeof(seen));
	return follows() ? NULL : sf_original_running(&list, node, warned, seen);
}

/* In the postmaster, before shards are open: refuse those that were seen. */
static void
refuse_seen(void)
{
	static const uint32 none[SF_SHARDS_WORDS] = {0};

	memcpy(sf_shmem->identity.seen_shards, seen, sizeof(seen));
	set_flag(SF_SHARDS_SEEN, memcmp(seen, none, sizeof(seen)) != 0);
}

static bool
is_listed(SfServerNumber number)
{
	return !follows() && sf_servers_is_copy(&list, sf_identity_server(),
											sf_shmem->identity.marked, number);
}

/*
 * Find what this server makes IDs of, once it has this node, if one is given,
 * and these shards, too.  What it refuses is not among that, unless it is
 * accepted or decided now.
 */
static void
find_made(SfServerNumber coming, const uint32 *opening, bool accepting,
		  Made *made)
{
	uint64		word = find_node();

	memset(made, 0, sizeof(*made));
	if (coming != SF_NO_NUMBER)
		made->node = coming;
	else if (accepting || !refuses_node(word))
		made->node = (SfServerNumber) word;
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if ((sf_shard_is_open(i) ||
			 (opening != NULL && sf_ranges_has(opening, i))) &&
			(accepting || !refuses_shard(i)))
			sf_ranges_add(made->shards, i);
	}
}

/*
 * Let other servers see that.  If it is another meanwhile, this process may
 * have overwritten what another one wrote: then write again.  If it fails,
 * later calls come to the slow path, and try again.
 */
static void
claim(SfServerNumber coming, const uint32 *opening, bool accepting)
{
	Made		made;
	Made		now;
	bool		written;

	find_made(coming, opening, accepting, &now);
	do
	{
		made = now;
		read_list();
		written = sf_original_claim(&list, made.node, made.shards);
		set_flag(SF_SHARDS_UNCLAIMED, !written);
		if (!written)
			(void) pg_atomic_fetch_and_u64(&sf_shmem->identity.node,
										   ~SF_NODE_RECORDED);
		find_made(coming, opening, accepting, &now);
	} while (memcmp(&made, &now, sizeof(made)) != 0);
}

/* Log that another server has this number, too. */
static void
log_copy(SfServerNumber number, const char *directory)
{
	const char *reason = sf_shmem->identity.reason;
	bool		copied = number == SF_SHARDS ? has_flag(SF_SHARDS_COPIED) :
		(find_node() & SF_NODE_COPIED) != 0;
	char	   *runs = "";

	if (sf_copy_check == SF_CHECK_OFF)
		return;
	if (!copied)
		reason = "It was seen running on this machine: the IDs that it makes are refused here.";
	else if (reason[0] == '\0')
		reason = number == SF_SHARDS ?
			"Another server has had these data, and may have the same shards." :
			"It had another node id, and has the other server's again.";
	if (directory != NULL)
		runs = psprintf(" The server in \"%s\" runs now, and has node id %u: no IDs of that node are made here.",
						directory, sf_server_number_value(number));
	sf_log_event(SF_EVENT_COPY,
				 psprintf("%s%s%s", reason, runs,
						  copied && sf_copy_check == SF_CHECK_ERROR ?
						  " No IDs are made that the other server may make, too." : ""),
				 sf_identity_copy_remedy(), "%s",
				 copied ? IS_COPY : HAS_SAME);
}

/* In the postmaster: log once that shards are another server's, too. */
static void
log_shared_shards(void)
{
	static bool logged = false;
	bool		shared = find_shard(shares_shard) >= 0;

	if (shared && !logged)
		log_copy(SF_SHARDS, NULL);
	logged = shared;
}

/* The postmaster gets other shards, or has got them. */
static void
claim_shards(const uint32 *opening)
{
	if (sf_identity_server() == 0)
		return;
	claim(SF_NO_NUMBER, opening, opening != NULL);
	if (opening != NULL)
	{
		(void) look(SF_NO_NUMBER, false);
		refuse_seen();
	}
	else
		log_shared_shards();
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
 * Write the pair of this server, unless it is a copy, before its number is
 * used; and its claim, if that could not be written.  A promoted standby
 * writes again at its first ID ("used"); and it warns then, if another server
 * has this node id, too.
 */
static void
take(uint64 word, bool used)
{
	SfIdentity *identity = &sf_shmem->identity;
	SfServerNumber node = (SfServerNumber) word;
	bool		written = (word & SF_NODE_SHARED) == 0 &&
		(identity->marked || write_marker(LOG)) &&
		write_list(word, false, LOG);

	if (written && (used || !(follows() || is_shared(node))))
		(void) pg_atomic_compare_exchange_u64(&identity->node, &word,
											  word | SF_NODE_RECORDED);
	if (has_flag(SF_SHARDS_UNCLAIMED))	/* after that: it clears it if it
										 * fails */
		claim(SF_NO_NUMBER, NULL, false);
}

/*
 * In the postmaster: decide about this node id before it is used, and before a
 * base backup copies it from the configuration.  A call that has read the last
 * one sees that there is another, and looks again.
 */
void
sf_identity_become(SfServerNumber node)
{
	SfIdentity *identity = &sf_shmem->identity;
	const char *directory;
	uint64		word = node;

	Assert(!IsUnderPostmaster);
	if (sf_identity_server() == 0)
		return;					/* the start does it, or nothing is to do */
	claim(node, NULL, true);	/* of two that look now, one sees the other */
	directory = look(node, false);
	refuse_seen();
	if (directory != NULL)
		word |= SF_NODE_SEEN;
	if (is_listed(node))
		word |= SF_NODE_COPIED;
	pg_atomic_write_u64(&identity->tried_ms, 0);
	pg_atomic_write_u64(&identity->node, word);
	pg_memory_barrier();		/* before the list is read: see write_list() */
	claim(SF_NO_NUMBER, NULL, false);
	if ((word & SF_NODE_SHARED) != 0)
		log_copy(node, directory);
	else
		take(word, false);
	if (follows())
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
	bool		unpromoted = was_standby() && !follows();
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
	sf_settings_shards_changed = claim_shards;
	sf_identity_become(sf_node_configured());
	log_shared_shards();
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
 * Return true if this is a copy that nobody has accepted, or another server
 * with these data was seen running with the node id or shards of this one.
 */
bool
sf_identity_is_copy(void)
{
	return (find_node() & SF_NODE_SHARED) != 0 ||
		find_shard(shares_shard) >= 0;
}

/*
 * Return the node of this server if that is also the last node of a server
 * that it was copied from; also after a promotion, until that is accepted.
 */
SfServerNumber
sf_identity_primary(void)
{
	uint64		word = find_node();

	read_list();
	return (word & SF_NODE_SHARED) == 0 && is_shared((SfServerNumber) word) ?
		(SfServerNumber) word : SF_NO_NUMBER;
}

/* Return true if IDs are refused here because another server has them. */
bool
sf_identity_refuses(void)
{
	return refuses_node(find_node()) || find_shard(refuses_shard) >= 0;
}

/* Refuse IDs of a number that another server has, too.  SQLSTATE 55000 */
static void
refuse_copy(bool copied, bool running, const char *what, uint32 number)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s", copied ? IS_COPY : HAS_SAME),
			 running ?
			 errdetail("Another server with these data was seen running on this machine, and has %s %u, too.",
					   what, number) :
			 errdetail("Another server may have %s %u, too, and snowflake.copy_check is \"error\".",
					   what, number),
			 errhint("%s", sf_identity_copy_remedy())));
}

/* Return true if this process shall try again what has failed. */
static bool
may_retry(void)
{
	pg_atomic_uint64 *tried = &sf_shmem->identity.tried_ms;
	uint64		tried_ms = pg_atomic_read_u64(tried);
	uint64		now_ms = sf_clock_monotonic_ms();

	return now_ms >= tried_ms + RETRY_MS &&
		pg_atomic_compare_exchange_u64(tried, &tried_ms, now_ms);
}

/*
 * Record that this server issues with this node now: after a promotion, or
 * since a reload.  One process does that; the others do not wait for it.  If
 * it fails, as on a full disk, a later call tries again, since copies trust
 * the list.
 */
static void
record(uint64 word)
{
	if (!may_retry())
		return;
	sf_shmem->identity.follows = false;
	take(word, true);
	if ((word & SF_NODE_SHARED) == 0 && is_shared((SfServerNumber) word))
		sf_log_event(SF_EVENT_PROMOTED_SAME,
					 "If that server runs again, both issue the same IDs.",
					 sf_identity_promoted_remedy(),
					 "this server makes IDs with node id %u, which a server that it was copied from had, too",
					 sf_server_number_value((SfServerNumber) word));
}

bool
sf_identity_require_slowly(SfServerNumber node)
{
	uint64		word = find_node();

	if (sf_identity_server() == 0 || sf_settings_leases())
		return true;
	if ((SfServerNumber) word != node)
		return false;
	if (refuses_node(word))
		refuse_copy((word & SF_NODE_COPIED) != 0, (word & SF_NODE_SEEN) != 0,
					"node id", sf_server_number_value(node));
	if ((word & SF_NODE_SHARED) == 0 || has_flag(SF_SHARDS_UNCLAIMED))
		record(word);
	return true;
}

void
sf_identity_require_shard_slowly(uint32 shard)
{
	sf_require_shard(shard);
	if (refuses_shard(shard))
		refuse_copy(has_flag(SF_SHARDS_COPIED),
					sf_ranges_has(sf_shmem->identity.seen_shards, shard),
					"shard", shard);
	if (has_flag(SF_SHARDS_UNCLAIMED) && may_retry())
		claim(SF_NO_NUMBER, NULL, false);
}

/* Write the list and the claim if that failed: a standby makes no IDs. */
void
sf_identity_retry(void)
{
	uint64		word = find_node();
	SfServerNumber node = (SfServerNumber) word;

	read_list();
	if (node != SF_NO_NUMBER && (word & SF_NODE_SHARED) == 0 &&
		!sf_servers_is_settled(&list, sf_identity_server(), node))
		take(word, false);
	if (has_flag(SF_SHARDS_UNCLAIMED))
		claim(SF_NO_NUMBER, NULL, false);
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
	return look(node, false) == NULL;
}

/*
 * Return true if another server with this data runs now, with the node of this
 * one.
 */
bool
sf_identity_runs_twice(void)
{
	read_list();
	return look((SfServerNumber) find_node(), true) != NULL;
}

/*
 * Throw SQLSTATE 55000 if another server is seen running now with the node id
 * or a shard of this copy.
 */
static void
require_gone(void)
{
	uint32		node = sf_server_number_value((SfServerNumber) find_node());
	bool		runs_twice = sf_identity_runs_twice();
	int			shard = find_shard(is_seen);

	if (runs_twice || shard >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot accept this copy while another server with these data runs"),
				 errdetail("That server runs on this machine, and has %s %u, too: both would issue the same IDs.",
						   runs_twice ? "node id" : "shard",
						   runs_twice ? node : (uint32) shard),
				 errhint("%s", sf_identity_copy_remedy())));
}

/*
 * Accept: an administrator states that no other server has this data.  The
 * server keeps its number, so that nothing is lost if a file is not written.
 * If a reload has brought another node id meanwhile, that one is not accepted.
 * If it fails, what is refused is claimed no longer.
 */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		word = find_node();

	/* of two that look now, one sees the other */
	claim(SF_NO_NUMBER, NULL, true);
	PG_TRY();
	{
		require_gone();
		identity->follows = false;
		(void) write_marker(ERROR);
		(void) write_list(word, true, ERROR);
		(void) pg_atomic_compare_exchange_u64(&identity->node, &word,
											  (SfServerNumber) word);
		memset(identity->seen_shards, 0, sizeof(identity->seen_shards));
		set_flag(SF_SHARDS_COPIED | SF_SHARDS_SEEN, false);
	}
	PG_FINALLY();
	{
		claim(SF_NO_NUMBER, NULL, false);
	}
	PG_END_TRY();
}
