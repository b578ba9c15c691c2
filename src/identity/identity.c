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
 * makes IDs only of numbers whose lock it holds (lock.c).  It keeps a lock
 * until it ends, so nothing is ever taken from a call under way.
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
#include "mark/mark.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/fd.h"

#define SERVERS_FILE	"snowflake.servers"
#define MARKER_FILE		SF_PLACE_DIR "/snowflake_server"
#define MARKER_MAGIC	0x53464d33	/* also the version of this format */

/* How long after an attempt to write the list another one may follow. */
#define RETRY_MS		1000

#define UNNOTICED \
	"Until it is written, a copy of this data directory may not be noticed."

typedef struct Marker
{
	uint32		magic;
	uint64		server;			/* random */
	uint64		family;			/* as in the list */
	SfPlace		place;
} Marker;

#define IS_COPY		"this data directory is a copy of another server's"
#define HAS_SAME	"another server with these data has the node id or shards of this one"

typedef enum Lock
{
	LOCK_LEFT,					/* by a standby, and by a copy whose IDs
								 * snowflake.copy_check refuses */
	LOCK_TAKEN,					/* by another server */
	LOCK_HELD
} Lock;

typedef enum Aim
{
	AIM_LOOK,					/* take nothing that is not held */
	AIM_TAKE,
	AIM_ACCEPT
} Aim;

/* The list as this process has read it last. */
static SfServers list;

/* What another server has that prevents an accept: a number of lock.c. */
#define NOTHING_TAKEN	PG_UINT64_MAX
static uint64 accept_taken;

/* In the postmaster: that shards are another server's, too, is logged. */
static bool logged_shards;

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
	marker.family = sf_shmem->identity.family;
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
		list.family = sf_shmem->identity.family;
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
	bool		shards = !node || sf_settings_has_shards();

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
		return psprintf("If another server may have one of the shards in snowflake.shards, %s Once no other server has any of them, run as a superuser: SELECT %s.snowflake_accept('copy'::pg_catalog.text);",
						sf_identity_separate(false), sf_extschema());
	return psprintf("To keep both servers, %s Only if all other servers with these data are gone for good, run as a superuser: SELECT %s.snowflake_accept('copy'::pg_catalog.text);",
					sf_identity_separate(true), sf_extschema());
}

/* ... and about a promoted standby with another server's node id. */
char *
sf_identity_promoted_remedy(void)
{
	return psprintf("%s\nOnly if that server never runs again, run instead as a superuser: SELECT %s.snowflake_accept('copy'::pg_catalog.text);",
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
is_held(uint32 shard)
{
	return (pg_atomic_read_u32(&sf_shmem->identity.held_shards[shard / 32]) >>
			(shard % 32) & 1) != 0;
}

static bool
is_missing(uint32 shard)
{
	return !is_held(shard) && !follows();
}

static bool
refuses_shard(uint32 shard)
{
	return (has_flag(SF_SHARDS_COPIED) && sf_copy_check == SF_CHECK_ERROR) ||
		(sf_copy_check != SF_CHECK_OFF && is_missing(shard));
}

/* Return true unless this server has no node, and makes IDs of shards only. */
static bool
makes_node_ids(void)
{
	return sf_node_layout.node_bits > 0 || !sf_settings_has_shards();
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
	return has_flag(SF_SHARDS_COPIED) || is_missing(shard);
}

/* IDs of a server that has just ended may be ahead of the clock. */
static void
raise_above_others(uint64 number, int64 now_ms)
{
	if (number < SF_SHARD_LOCK)
		sf_layout_slots_raise_above(now_ms);
	else
	{
		now_ms += sf_settings_farthest_ms(&sf_shard_layout);
		sf_shard_raise((uint32) (number - SF_SHARD_LOCK),
					   sf_layout_floor_position(&sf_shard_layout, now_ms));
	}
}

/*
 * Take a node id or a shard, between sf_lock_open() and sf_lock_close().  A
 * copy also leaves alone what a standby that it may be copied from waits for;
 * and, unless it is being accepted, what snowflake.copy_check refuses.  A
 * server that only looks takes nothing, but what a standby waits for.
 */
static Lock
hold(uint64 number, bool copied, Aim aim)
{
	bool		waits = follows();
	int64		taken_over_ms;

	if (number == SF_NO_NUMBER)
		return LOCK_HELD;
	if (!waits && !sf_lock_is_free(number, copied && aim != AIM_ACCEPT ?
								   &list : NULL))
		return LOCK_TAKEN;
	if (!waits && (aim == AIM_LOOK ||
				   (aim == AIM_TAKE && copied &&
					sf_copy_check == SF_CHECK_ERROR)))
		return LOCK_LEFT;
	taken_over_ms = sf_lock_take(number, waits);
	if (taken_over_ms + SF_MAX_AHEAD_MS > sf_clock_wall_ms())
		raise_above_others(number, taken_over_ms);
	return waits ? LOCK_LEFT : LOCK_HELD;
}

/*
 * The same for the node of this word, unless the server has another one or
 * knows more meanwhile.  If the file is busy, all stays as it is.
 */
static void
hold_node(uint64 word, Aim aim)
{
	SfServerNumber node = (SfServerNumber) word;
	Lock		lock;
	uint64		now;

	if (sf_lock_is_busy(aim != AIM_ACCEPT && (word & SF_NODE_SEEN) != 0))
		return;
	lock = hold(node, (word & SF_NODE_COPIED) != 0, aim);
	do
	{
		now = word & ~(SF_NODE_SEEN | SF_NODE_HELD);
		if (lock == LOCK_HELD)
			now |= SF_NODE_HELD;
		else
			now &= ~SF_NODE_RECORDED;
		if (lock == LOCK_TAKEN)
			now |= SF_NODE_SEEN;
	} while (!pg_atomic_compare_exchange_u64(&sf_shmem->identity.node, &word,
											 now) &&
			 (SfServerNumber) word == node);
}

static void
hold_shard(uint32 shard, Aim aim)
{
	pg_atomic_uint32 *held = &sf_shmem->identity.held_shards[shard / 32];
	uint32		bit = UINT32_C(1) << (shard % 32);
	Lock		lock;

	if (sf_lock_is_busy(aim != AIM_ACCEPT && has_flag(SF_SHARDS_SEEN)))
	{
		set_flag(SF_SHARDS_UNASKED, true);
		return;
	}
	lock = hold(SF_SHARD_LOCK + shard, has_flag(SF_SHARDS_COPIED), aim);
	if (lock == LOCK_HELD)
		(void) pg_atomic_fetch_or_u32(held, bit);
	else
		(void) pg_atomic_fetch_and_u32(held, ~bit);
	if (lock == LOCK_TAKEN)
		set_flag(SF_SHARDS_SEEN, true);
}

/*
 * Return true if what was refused stays so until a start, a reload that brings
 * another number, or an administrator decides anew, though it may be free: the
 * other server may be restarting.  Only a standby that was promoted beside its
 * primary waits for that to end.
 */
static bool
is_decided(bool copied, bool seen)
{
	return seen && (copied || !sf_shmem->identity.promoted);
}

static bool
are_shards_decided(void)
{
	return !has_flag(SF_SHARDS_UNASKED) &&
		is_decided(has_flag(SF_SHARDS_COPIED), has_flag(SF_SHARDS_SEEN));
}

static bool
is_listed(SfServerNumber number)
{
	return !follows() && sf_servers_is_copy(&list, sf_identity_server(),
											sf_shmem->identity.marked, number);
}

/* Log that another server has this number, too. */
static void
log_copy(SfServerNumber number, bool runs)
{
	const char *reason = sf_shmem->identity.reason;
	bool		copied = number == SF_SHARDS ? has_flag(SF_SHARDS_COPIED) :
		(find_node() & SF_NODE_COPIED) != 0;
	char	   *seen = "";

	if (sf_copy_check == SF_CHECK_OFF)
		return;
	if (!copied)
		reason = "It was seen running on this machine: the IDs that it makes are refused here.";
	else if (reason[0] == '\0')
		reason = number == SF_SHARDS ?
			"Another server has had these data, and may have the same shards." :
			"It had another node id, and has the other server's again.";
	if (number == SF_SHARDS && copied && has_flag(SF_SHARDS_SEEN))
		seen = " It was seen running, and has taken some: those are refused.";
	else if (runs && sf_lock_seen() != 0)
		seen = psprintf(" The server of process %d runs now, and has taken node id %u: no IDs of that node are made here.",
						sf_lock_seen(), sf_server_number_value(number));
	sf_log_event(SF_EVENT_COPY,
				 psprintf("%s%s%s", reason, seen,
						  copied && sf_copy_check == SF_CHECK_ERROR ?
						  " No IDs are made that the other server may make, too." : ""),
				 sf_identity_copy_remedy(), "%s",
				 copied ? IS_COPY : HAS_SAME);
}

/*
 * The postmaster is about to open these shards.  Log once if they are another
 * server's, too.
 */
static void
hold_shards(const uint32 *opening)
{
	bool		shared = false;
	bool		decided = are_shards_decided();

	if (sf_identity_server() == 0)
		return;
	sf_lock_open();
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (!sf_ranges_has(opening, i))
			continue;
		if (!is_held(i) && !(sf_shard_is_open(i) && decided))
			hold_shard(i, AIM_TAKE);
		shared = shared || (shares_shard(i) && !sf_lock_is_busy(false));
	}
	sf_lock_close();
	if (shared && !logged_shards)
		log_copy(SF_SHARDS, false);
	logged_shards = shared;
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
					 "On two machines, they issue the same IDs after a promotion.",
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
 * used.  A promoted standby writes again at its first ID ("used"); and it
 * warns then, if another server has this node id, too.
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
	uint64		word = node;

	Assert(!IsUnderPostmaster);
	if (sf_identity_server() == 0)
		return;					/* the start does it, or nothing is to do */
	if (is_listed(node))
		word |= SF_NODE_COPIED;
	pg_atomic_write_u64(&identity->tried_ms, 0);
	pg_atomic_write_u64(&identity->node, word);
	pg_memory_barrier();		/* before the list is read: see write_list() */
	sf_lock_open();
	hold_node(word, AIM_TAKE);
	sf_lock_close();
	word = find_node();
	if ((word & SF_NODE_SHARED) != 0)
		log_copy(node, (word & SF_NODE_SEEN) != 0);
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
	Marker		marker = {0};
	SfPlace		here;
	bool		marked = sf_durable_file_read_struct(MARKER_FILE, &marker,
													 sizeof(marker),
													 MARKER_MAGIC);
	bool		unpromoted = was_standby() && !follows();
	bool		same_machine;
	bool		same_path;

	if (list.family == 0)
		list.family = marker.family;
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
	uint32		open[SF_SHARDS_WORDS] = {0};
	uint64		server;

	Assert(!IsUnderPostmaster);
	if (IsBinaryUpgrade)
		return;
	read_list();
	identity->follows = sf_durable_file_exists(STANDBY_SIGNAL_FILE);
	identity->promoted = identity->follows;
	server = find_server(identity->reason, sizeof(identity->reason));
	identity->marked = server != 0;
	if (server == 0)
		server = sf_identity_random() | 1;
	else if (list.count > 0 && list.pair[list.count - 1].server == server)
		identity->original = list.pair[list.count - 1].node;
	pg_atomic_write_u64(&identity->server, server);

	if (list.family == 0)
		list.family = list.forgotten ? GetSystemIdentifier() :
			sf_identity_random();
	sf_lock_begin(list.family);
	logged_shards = false;
	if (is_listed(SF_SHARDS))
		pg_atomic_write_u32(&identity->shards, SF_SHARDS_COPIED);
	sf_identity_become(sf_node_configured());
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (sf_shard_is_open(i))
			sf_ranges_add(open, i);
	}
	hold_shards(open);
	sf_settings_shards_changed = hold_shards;
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
 * Return a number of this server of which another one makes IDs, or
 * NOTHING_TAKEN.
 */
static uint64
find_taken(uint64 word)
{
	SfServerNumber node = (SfServerNumber) word;

	if (makes_node_ids() && node != SF_NO_NUMBER &&
		!sf_lock_is_free(node, NULL))
		return node;
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (sf_shard_is_open(i) && !sf_lock_is_free(SF_SHARD_LOCK + i, NULL))
			return SF_SHARD_LOCK + i;
	}
	return NOTHING_TAKEN;
}

/*
 * In a session: take what this server makes IDs of, if that is free now; or
 * look whether it is.  If the file is another one than before, or could not be
 * written, take what it holds once more.  Ask PostgreSQL whether it is a
 * standby: a signal file may have been laid into one that was promoted.
 * Return false if the file is busy.
 */
static bool
hold_all(Aim aim)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		word;
	bool		decided;
	Aim			held;
	bool		busy;
	bool		anew;

	if (sf_identity_server() == 0)
		return true;
	if (!RecoveryInProgress())
		identity->follows = false;
	read_list();
	if (identity->segment == 0)
		sf_lock_begin(identity->family);
	sf_lock_open();
	busy = sf_lock_is_busy(false);
	anew = sf_lock_file() != identity->file;
	word = find_node();			/* nobody else takes anything now */
	decided = are_shards_decided();
	if (!busy && aim != AIM_LOOK)
		set_flag(SF_SHARDS_UNASKED, false); /* before a reload sets it again */
	if (aim == AIM_ACCEPT && !busy)
		accept_taken = find_taken(word);
	if (aim == AIM_ACCEPT && accept_taken != NOTHING_TAKEN)
		aim = AIM_LOOK;			/* an accept that fails takes nothing */
	held = Max(aim, AIM_TAKE);
	if (aim == AIM_ACCEPT || ((anew || (word & SF_NODE_HELD) == 0) &&
							  !is_decided((word & SF_NODE_COPIED) != 0,
										  (word & SF_NODE_SEEN) != 0)))
		hold_node(word, (word & SF_NODE_HELD) != 0 ? held : aim);
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (sf_shard_is_open(i) &&
			(aim == AIM_ACCEPT || (is_held(i) ? anew : !decided)))
			hold_shard(i, is_held(i) ? held : aim);
	}
	if (!busy)
		identity->file = sf_lock_file();
	sf_lock_close();
	if ((word & SF_NODE_HELD) != 0 && (find_node() & SF_NODE_SEEN) != 0)
		log_copy((SfServerNumber) word, true);
	return !busy;
}

/* If a timeout or a cancel ends the wait, tell the client what it was. */
static void
explain_busy(void *arg)
{
	int			code = geterrcode();

	if (code != ERRCODE_QUERY_CANCELED && code != ERRCODE_LOCK_NOT_AVAILABLE)
		return;
	sf_stats_count(SF_STAT_REFUSED_WAIT);
	errcontext("waiting for file \"%s\", which another process has locked",
			   (const char *) arg);
}

/*
 * The same, until the file is not busy.  With snowflake.copy_check = 'off' a
 * call does not wait.
 */
static void
hold_all_patiently(Aim aim)
{
	ErrorContextCallback callback = {
		.previous = error_context_stack, .callback = explain_busy,
		.arg = unconstify(char *, sf_lock_name())
	};

	error_context_stack = &callback;
	while (!hold_all(aim) &&
		   (aim == AIM_ACCEPT || sf_copy_check != SF_CHECK_OFF))
		CHECK_FOR_INTERRUPTS();
	error_context_stack = callback.previous;
}

/*
 * For the functions below, see which numbers another server has now.  Return
 * false if a call would wait, because the file is busy.
 */
bool
sf_identity_look(void)
{
	uint64		known = SF_NODE_HELD | SF_NODE_SEEN;

	if (hold_all(AIM_LOOK) || follows() || sf_copy_check == SF_CHECK_OFF)
		return true;
	return ((find_node() & known) != 0 || sf_settings_leases()) &&
		(find_shard(is_missing) < 0 || has_flag(SF_SHARDS_SEEN));
}

/*
 * Return true if this is a copy that nobody has accepted, or another server
 * with these data was seen running with the node id or shards of this one.
 */
bool
sf_identity_is_copy(void)
{
	return (makes_node_ids() && (find_node() & SF_NODE_SHARED) != 0) ||
		(has_flag(SF_SHARDS_COPIED | SF_SHARDS_SEEN) &&
		 find_shard(shares_shard) >= 0);
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
	return (word & SF_NODE_COPIED) == 0 && is_shared((SfServerNumber) word) ?
		(SfServerNumber) word : SF_NO_NUMBER;
}

/* Return true if IDs are refused here because another server has them. */
bool
sf_identity_refuses_node(void)
{
	return makes_node_ids() && refuses_node(find_node());
}

bool
sf_identity_refuses_shards(void)
{
	return has_flag(SF_SHARDS_COPIED | SF_SHARDS_SEEN) &&
		find_shard(refuses_shard) >= 0;
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
			 errdetail("Another server with these data was seen running on this machine, and has taken %s %u: it keeps that until it is stopped. Restart this server after that, if it is to have it.",
					   what, number) :
			 errdetail("Another server may have %s %u, too, and snowflake.copy_check is \"error\".",
					   what, number),
			 errhint("%s", sf_identity_copy_remedy())));
}

/* Return true if this process shall try again what has failed. */
static bool
may_retry(pg_atomic_uint64 *tried)
{
	uint64		tried_ms = pg_atomic_read_u64(tried);
	uint64		now_ms = sf_clock_monotonic_ms();

	return now_ms >= tried_ms + RETRY_MS &&
		pg_atomic_compare_exchange_u64(tried, &tried_ms, now_ms);
}

static bool
may_look(void)
{
	return may_retry(&sf_shmem->identity.looked_ms);
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
	if (!may_retry(&sf_shmem->identity.tried_ms))
		return;
	sf_shmem->identity.follows = false;
	take(word, true);
	if ((word & SF_NODE_SHARED) == 0 && is_shared((SfServerNumber) word))
		sf_log_event(SF_EVENT_PROMOTED_SAME,
					 "If that server runs on another machine, both issue the same IDs.",
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
	if ((word & SF_NODE_HELD) == 0 &&
		((word & SF_NODE_SEEN) == 0 || may_look()))
	{
		hold_all_patiently(AIM_TAKE);
		word = find_node();
	}
	if ((SfServerNumber) word != node)
		return false;
	if (refuses_node(word))
		refuse_copy((word & SF_NODE_COPIED) != 0, (word & SF_NODE_SEEN) != 0,
					"node id", sf_server_number_value(node));
	if ((word & (SF_NODE_HELD | SF_NODE_SEEN)) == 0 &&
		sf_copy_check != SF_CHECK_OFF)
		return false;			/* it is another one, or known, meanwhile */
	if ((word & SF_NODE_SHARED) == 0)
		record(word);
	return true;
}

void
sf_identity_require_shard_slowly(uint32 shard)
{
	bool		copied = has_flag(SF_SHARDS_COPIED);

	sf_require_shard(shard);
	if (sf_identity_server() == 0)
		return;
	if (!is_held(shard) &&
		(!has_flag(SF_SHARDS_SEEN) || has_flag(SF_SHARDS_UNASKED) ||
		 may_look()))
		hold_all_patiently(AIM_TAKE);
	if (refuses_shard(shard))
		refuse_copy(copied, !(copied && sf_copy_check == SF_CHECK_ERROR),
					"shard", shard);
}

/* Write the list if that failed: a standby makes no IDs. */
void
sf_identity_retry(void)
{
	uint64		word = find_node();
	SfServerNumber node = (SfServerNumber) word;

	read_list();
	if (node != SF_NO_NUMBER && (word & SF_NODE_SHARED) == 0 &&
		!sf_servers_is_settled(&list, sf_identity_server(), node))
		take(word, false);
}

/*
 * Return true if a reload may give this server another node id: not that of
 * another server that is seen running now.
 */
bool
sf_identity_may_become(SfServerNumber node)
{
	Lock		lock;

	if (sf_copy_check == SF_CHECK_OFF)
		return true;
	read_list();
	sf_lock_open();
	lock = sf_lock_is_busy(false) ? LOCK_LEFT :
		hold(node, is_listed(node), AIM_TAKE);
	sf_lock_close();
	return lock != LOCK_TAKEN;
}

/* Return true if another server with this data has the node of this one. */
bool
sf_identity_runs_twice(void)
{
	return (find_node() & SF_NODE_SEEN) != 0;
}

/*
 * Accept: an administrator states that no other server has this data.  The
 * server keeps its number, so that nothing is lost if a file is not written.
 * If a reload has brought another node id meanwhile, that one is not accepted;
 * a shard that it opens meanwhile is held, or refused.  Throws SQLSTATE 55000.
 */
void
sf_identity_accept(void)
{
	SfIdentity *identity = &sf_shmem->identity;
	uint64		word;
	SfServerNumber node;
	int			shard;

	accept_taken = NOTHING_TAKEN;
	hold_all_patiently(AIM_ACCEPT);
	word = find_node();
	node = (SfServerNumber) word;
	shard = find_shard(is_missing);
	/* what a reload has brought meanwhile may be taken, too */
	if (accept_taken == NOTHING_TAKEN && shard >= 0)
		accept_taken = SF_SHARD_LOCK + shard;
	if (accept_taken == NOTHING_TAKEN && makes_node_ids() &&
		(word & SF_NODE_HELD) == 0)
		accept_taken = node;
	if (accept_taken != NOTHING_TAKEN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot accept this copy while another server with these data runs"),
				 errdetail("That server runs on this machine, and has taken %s %u: it keeps that until it is stopped. Restart this server after that, if it is to have it.",
						   accept_taken < SF_SHARD_LOCK ? "node id" : "shard",
						   accept_taken < SF_SHARD_LOCK ?
						   sf_server_number_value(accept_taken) :
						   (uint32) (accept_taken - SF_SHARD_LOCK)),
				 errhint("%s", sf_identity_copy_remedy())));
	(void) write_marker(ERROR);
	(void) write_list(word, true, ERROR);
	while ((SfServerNumber) word == node &&
		   !pg_atomic_compare_exchange_u64(&identity->node, &word,
										   node | (word & SF_NODE_HELD)))
		;
	set_flag(SF_SHARDS_COPIED | SF_SHARDS_SEEN, false);
	(void) hold_all(AIM_TAKE);
}
