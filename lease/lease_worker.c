/*-------------------------------------------------------------------------
 *
 * lease_worker.c
 *	  The lease worker: connects the state machine (lease.c) with the
 *	  registry's client library (backend.h), and publishes the result.
 *
 * It is connected to no database, and waits only for its latch and the
 * registry's sockets.  Sessions read one word, and wait for the worker only if
 * that word says that there is no lease.
 *
 * A worker that fails is started again, and goes on with the lease of the one
 * before, which is in shared memory.  Meanwhile sessions use the right that is
 * published.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/clock.h"
#include "base/durable_file.h"
#include "base/message.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/pidfile.h"

#define RESTART_S		2		/* less than FROZEN_MS */

#define MAX_AHEAD_MS	2100	/* more than in find_end() */
#define WARN_OFFSET_MS	200
#define PEERS_MS		(300 * 1000)
#define LOOK_MS			500
#define FROZEN_MS		3000

SF_MODULE_MAGIC("snowflake_lease");

extern PGDLLEXPORT void snowflake_lease_start(const SfRightAccess *access);
extern PGDLLEXPORT void snowflake_lease_worker_main(Datum arg);

const SfRightAccess *sf_core = NULL;
SfLeaseShared *sf_lease_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static SfLease lease;
static SfBackendConfig backend_config;
static const SfBackend *backend;
static uint32 wait_event_registry = 0;

/* ---- the registry's client library: for the worker, and for sessions ---- */

/*
 * Load the library into this process.  Throws SQLSTATE F0000 if it is not of
 * the running server's build.
 */
const SfBackend *
sf_registry_library_load(void)
{
	char		library[MAXPGPATH];
	SfBackendFunction function;
	const SfBackend *backend;

	snprintf(library, sizeof(library), "snowflake_%s", sf_core->kind->name);
	function = (SfBackendFunction) (void *)
		load_external_function(library, SF_BACKEND_FUNCTION, true, NULL);
	backend = function();
	if (strcmp(backend->version, SF_BACKEND_VERSION) == 0 &&
		backend->size == SF_BACKEND_SIZE)
		return backend;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("library \"%s\" is not of the build that runs", library),
			 errdetail("The library is of %s, and the server runs %s.",
					   backend->version, SF_BACKEND_VERSION),
			 errhint("%s", SF_INSTALL_AGAIN)));
}

/* Take an answer, if there is one.  Its texts may come from anybody. */
bool
sf_registry_library_receive(const SfBackend *backend, SfAnswer *answer)
{
	static char message[1000];

	if (!backend->receive(answer))
		return false;
	if (answer->message != NULL)
	{
		strlcpy(message, answer->message, sizeof(message));
		sf_text_make_printable(message);
		answer->message = message;
	}
	if (answer->registry != NULL)
	{
		SfRegistry *registry = unconstify(SfRegistry *, answer->registry);
		SfSlotRecord *records = unconstify(SfSlotRecord *, registry->records);

		sf_text_make_printable(registry->layout);
		for (int i = 0; i < registry->nrecords; i++)
			sf_text_make_printable(records[i].host);
	}
	return true;
}

/*
 * Wait until a socket is ready, the latch is set, or this time has passed.
 * The library may shorten the time, as libcurl does to 0 after a send().
 */
void
sf_registry_library_wait(const SfBackend *backend, int64 limit_ms)
{
	SfSocket	sockets[SF_BACKEND_SOCKETS];
	int64_t		timeout_ms = limit_ms;
	int			n = backend->sockets(sockets, &timeout_ms);
	WaitEventSet *set = sf_create_wait_event_set(n + 2);
	WaitEvent	event;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	if (IsUnderPostmaster)
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL,
						  NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(set, (sockets[i].readable ? WL_SOCKET_READABLE : 0) |
						  (sockets[i].writeable ? WL_SOCKET_WRITEABLE : 0),
						  sockets[i].fd, NULL, NULL);
	(void) WaitEventSetWait(set, (long) Max(0, Min(timeout_ms, limit_ms)),
							&event, 1, sf_wait_event(&wait_event_registry,
													 "SnowflakeRegistry"));
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
}

/* ---- what this server remembers of the registry (registry_age.h) ---- */

/*
 * The worker keeps it in a file over restarts.  The content was true when it
 * was written, and stays true.  So an older file, or that of another server,
 * does no harm; it only notices less.  Therefore base backups and pg_rewind
 * may copy it, and most changes may wait.
 */
#define AGE_MAGIC	0x53464132	/* also the version of this format */

#define KEEP_MS		(30 * 1000)

typedef struct AgeFile
{
	uint32		magic;
	uint32		unused;
	SfKnown		known;
} AgeFile;

/* What the file holds, and the last attempt to write it. */
typedef struct KeptFile
{
	SfKnown		known;
	int64		tried_ms;		/* monotonic */
	bool		failed;
} KeptFile;

static SfAge age;
static KeptFile kept;

/*
 * A file that is there, but cannot be opened, is not one that is missing:
 * without it, this server would accept any registry.
 */
#define HIDDEN_PROBLEM	"File \"" SF_AGE_FILE "\" cannot be opened. It says from which registry this server leases, and how much it knows of it."
#define HIDDEN_REMEDY	"In the data directory, run as root: \"chown --reference=PG_VERSION " SF_AGE_FILE " && chmod u+rw " SF_AGE_FILE "\""

static bool
is_hidden(void)
{
	FILE	   *file = AllocateFile(SF_AGE_FILE, PG_BINARY_R);

	if (file == NULL)
		return errno != ENOENT;
	FreeFile(file);
	return false;
}

static void
refuse_hidden(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("could not read what is known of the registry"),
			 errdetail(HIDDEN_PROBLEM),
			 errhint(HIDDEN_REMEDY)));
}

/*
 * Share what is remembered, before a session issues an ID on what the registry
 * has promised.  The until of a slot that is claimed later may be lower; then
 * the former one counts until a restart.  It holds up nobody: the floor of a
 * recovery is above each until that was reserved by clocks that were right.
 */
static void
share(void)
{
	uint64		ms = (uint64) sf_age_promised_ms(&age);

	sf_lease_shared->known = age.known;
	if (ms > pg_atomic_read_u64(&sf_lease_shared->promised_ms))
		pg_atomic_write_u64(&sf_lease_shared->promised_ms, ms);
}

/* Load what the worker before has shared, or the file, if there is one. */
static SfAge *
load_age(void)
{
	void	   *data;
	size_t		size;
	bool		whole = sf_durable_file_read(SF_AGE_FILE, &data, &size);
	AgeFile    *file = data;

	if (file != NULL && whole && size == sizeof(AgeFile) &&
		file->magic == AGE_MAGIC)
		kept.known = file->known;
	else if ((file != NULL || !whole) && !sf_lease_shared->begun)
		sf_core->log_event(NULL, SF_EVENT_FILE_DAMAGED,
						   "If the registry lost data before this start, this server does not notice.",
						   NULL,
						   "ignoring file \"%s\", which is damaged or of another version",
						   SF_AGE_FILE);
	if (data != NULL)
		pfree(data);
	sf_age_init(&age, sf_lease_shared->begun ? &sf_lease_shared->known :
				&kept.known, sf_core->layout);
	share();
	return &age;
}

/*
 * Load the memory in any process.  What was promised since a worker has loaded
 * the file is published; the file has what was promised before.
 */
SfAge
sf_age_load(void)
{
	AgeFile		file;
	SfAge		loaded;

	if (is_hidden())
		refuse_hidden();
	(void) sf_durable_file_read_struct(SF_AGE_FILE, &file, sizeof(file),
									   AGE_MAGIC);
	sf_age_init(&loaded, &file.known, sf_core->layout);
	loaded.promised_ms = (int64)
		pg_atomic_read_u64(&sf_lease_shared->promised_ms);
	return loaded;
}

/*
 * Write what has changed.  Write at once which registry it is, what we have
 * claimed there and how far ahead, and whether it has lost data.  Write its
 * growth every 30 s, or if "now" is set.  After a failure, try again every 30 s.
 */
static void
keep_age(bool now)
{
	const SfKnown *known = &age.known;
	int64		now_ms = sf_clock_monotonic_ms();
	AgeFile		file;

	share();
	if (memcmp(known, &kept.known, sizeof(SfKnown)) == 0 ||
		(!now && now_ms - kept.tried_ms < KEEP_MS &&
		 (kept.failed || (known->generation == kept.known.generation &&
						  known->node == kept.known.node &&
						  known->node_owner == kept.known.node_owner &&
						  known->reserve_ms == kept.known.reserve_ms &&
						  known->lost == kept.known.lost))))
		return;
	memset(&file, 0, sizeof(file));
	file.magic = AGE_MAGIC;
	file.known = *known;
	kept.failed = !sf_core->log_file(sf_durable_file_write(SF_AGE_FILE, &file,
														   sizeof(file), LOG),
									 SF_AGE_FILE, "If this server restarts before it is written, it may not notice that the registry has lost data.");
	kept.tried_ms = now_ms;
	if (!kept.failed)
		kept.known = file.known;
}

/* ---- what a killed server leaves to its next life ---- */

/*
 * The file of remains lets the next life of a killed server resume the lease
 * of its pinned node id at once.
 *
 * Without it no server may claim the slot before its reserve is over, not even
 * the same server, because the registry cannot tell it from a copy.  A server
 * without a pinned node id claims another slot, and does not need this.
 *
 * The file says which write the registry has acknowledged last.  If the
 * registry's record still has that write_id, no server has claimed the slot
 * since.  The claim, which is conditional on that, takes the slot from the
 * previous life (SfClaimant).  Two things must be certain:
 *
 * - That life has ended, and is not the original of which this is a copy.  So
 *   the file counts only in the same directory, by device and inode, under the
 *   same kernel, by its boot ID, with the marker of this server (identity.c).
 *   There the server's own interlock admits one postmaster, and only after all
 *   processes of the previous one have ended.  A base backup does not contain
 *   the file, a copied file lies in another directory, a snapshot of the
 *   volume is another device, and a machine that was cloned or moved with its
 *   disk has booted.  A machine that is cloned while it runs has the right
 *   twice in any case, until one of the two writes next.  The next life of one
 *   of them changes nothing about that, because it begins with such a write.
 *
 * - Nothing is issued twice.  In each database the mark ensures that, as for a
 *   node id that is not leased: under the same kernel no WAL was lost, and on
 *   the same timeline none was discarded.  Two databases might still share
 *   IDs; so the claim begins above what the previous life may have issued by
 *   its clock.  If the clock was set back since, that counts as far as it was
 *   ahead when the file was last written; after that, two databases of the
 *   server may share IDs (doc/node-ids.md).  Within one life, the counter
 *   knows what was issued.
 *
 * If the file cannot be written, the one before stays: it has the write_id of
 * an older record, and does not count.
 *
 * The file need not be on disk: after a crash of the machine it would not
 * count anyway.
 */

/* Beside the marker, where base backups do not look; pg_rewind removes it. */
#define REMAINS_FILE	"global/" PG_TEMP_FILES_DIR "/snowflake_lease"
#define REMAINS_MAGIC	0x53464c32	/* also the version of this format */

#define BOOT_FILE		"/proc/sys/kernel/random/boot_id"

/*
 * The largest snowflake.max_clock_drift, which is rounded up to the ticks of
 * each layout in use: by less than SF_MAX_TICK_MS.
 */
#define MAX_DRIFT_MS	1000

/* The directory, the running kernel, and the directory's history. */
typedef struct Place
{
	char		boot[40];		/* empty: unknown */
	uint64		device;
	uint64		inode;
	uint64		server;			/* 0: a copy */
	uint64		timeline;
} Place;

/* The lease; the write_id is 0 if there is nothing to resume. */
typedef struct Left
{
	uint64		write_id;
	int64		start_ms;		/* start of the lease; Unix ms */
	int64		node;
} Left;

typedef struct Remains
{
	uint32		magic;
	uint32		unused;
	Place		place;
	int64		offset_ms;		/* highest wall clock - time since boot */
	Left		left;
} Remains;

static int64 highest_offset_ms = PG_INT64_MIN;	/* of this life */

/* Return the clocks in ms; the monotonic one continues during a suspend. */
static SfMoment
get_clocks(void)
{
	SfMoment	now;
	int64_t		offset = sf_clock_boot_offset_ms(&now.wall_ms);

	now.monotonic_ms = now.wall_ms - offset;
	return now;
}

/* Find our place; return false if that is impossible. */
static bool
find_place(Place *here)
{
	FILE	   *file = AllocateFile(BOOT_FILE, PG_BINARY_R);
	struct stat st;

	memset(here, 0, sizeof(Place));
	if (file != NULL)
	{
		if (fread(here->boot, 1, sizeof(here->boot) - 1, file) == 0)
			here->boot[0] = '\0';
		FreeFile(file);
	}
	if (stat(".", &st) != 0)
		return false;
	here->device = (uint64) st.st_dev;
	here->inode = (uint64) st.st_ino;
	here->server = sf_core->server();
	here->timeline = GetWALInsertionTimeLine();
	return here->boot[0] != '\0' && here->server != 0;
}

/*
 * Return the first tick since the layout's epoch above all that the previous
 * life may have issued.
 */
static int64
find_end(const Remains *remains, const SfLayout *layout)
{
	SfMoment	now = get_clocks();
	int64		ms = Max(now.wall_ms, now.monotonic_ms + remains->offset_ms);

	ms = Max(ms + MAX_DRIFT_MS + SF_MAX_TICK_MS, remains->left.start_ms);
	return sf_layout_ms_to_tick(layout, ms) + 1 - layout->epoch_tick;
}

static bool
is_pinned(const SfClaimant *claimant)
{
	return claimant->first_node == claimant->last_node;
}

/* Load what may be resumed of the previous life's lease. */
static void
load_remains(SfClaimant *claimant)
{
	Remains		remains;
	Place		here;

	claimant->last_write_id = 0;
	if (!is_pinned(claimant) ||
		!sf_durable_file_read_struct(REMAINS_FILE, &remains, sizeof(remains),
									 REMAINS_MAGIC) ||
		!find_place(&here) ||
		memcmp(&here, &remains.place, sizeof(Place)) != 0)
		return;
	highest_offset_ms = Max(highest_offset_ms, remains.offset_ms);
	claimant->last_held = (uint32) remains.left.node;
	claimant->last_write_id = remains.left.write_id;
	claimant->last_until = find_end(&remains, claimant->layout);
}

/* Follow how far ahead the wall clock was in this life. */
static void
see_clock(void)
{
	SfMoment	now = get_clocks();

	highest_offset_ms = Max(highest_offset_ms,
							now.wall_ms - now.monotonic_ms);
}

/*
 * Keep this right for the next life; a write_id of 0 says that there is
 * nothing to resume.  Until this life has had a right, the file has what the
 * previous one left.
 */
static void
keep_remains(const SfClaimant *claimant, const SfRight *right)
{
	Remains		remains;

	if (!is_pinned(claimant))
		return;
	memset(&remains, 0, sizeof(remains));
	if (right->write_id == 0)
	{
		(void) unlink(REMAINS_FILE);
		return;
	}
	if (!find_place(&remains.place))
		return;
	remains.magic = REMAINS_MAGIC;
	remains.offset_ms = highest_offset_ms;
	remains.left.write_id = right->write_id;
	remains.left.node = right->node;
	remains.left.start_ms = sf_layout_after_epoch_ms(claimant->layout,
													 right->start);
	(void) sf_core->log_file(sf_file_write_behind(REMAINS_FILE, &remains,
												  sizeof(remains), LOG),
							 REMAINS_FILE, "After a crash, this server gets its node id again only when its reservation is over.");
}

/* ---- the state machine's configuration ---- */

/* Log an event.  The end of a problem is logged only if the problem was. */
static void
log_lease_event(SfLeaseEvent what, const char *text)
{
	static const SfEvent events[] = {
		[SF_LEASE_EVENT_LEASED] = SF_EVENT_NODE_LEASED,
		[SF_LEASE_EVENT_LOST] = SF_EVENT_NODE_LOST,
		[SF_LEASE_EVENT_RETURNED] = SF_EVENT_NODE_RETURNED,
		[SF_LEASE_EVENT_EXPIRED] = SF_EVENT_NODE_EXPIRED,
		[SF_LEASE_EVENT_PROBLEM] = SF_EVENT_NODE_PROBLEM,
		[SF_LEASE_EVENT_BEHIND] = SF_EVENT_REGISTRY_LOST,
		[SF_LEASE_EVENT_SOLVED] = SF_EVENT_NODE_SOLVED,
		[SF_LEASE_EVENT_FROZEN] = SF_EVENT_NODE_FROZEN,
		[SF_LEASE_EVENT_CLOCK] = SF_EVENT_CLOCK_OFF
	};
	char		name[200];

	if (what == SF_LEASE_EVENT_SOLVED && !sf_lease_shared->has_problem)
		return;
	if (what == SF_LEASE_EVENT_PROBLEM || what == SF_LEASE_EVENT_SOLVED)
		sf_lease_shared->has_problem = what == SF_LEASE_EVENT_PROBLEM;
	sf_core->print_registry(name, sizeof(name));
	sf_core->log_event(NULL, events[what], NULL,
					   lease.client.remedy[0] != '\0' &&
					   (what == SF_LEASE_EVENT_LOST ||
						what == SF_LEASE_EVENT_EXPIRED ||
						what == SF_LEASE_EVENT_PROBLEM ||
						what == SF_LEASE_EVENT_BEHIND) ?
					   lease.client.remedy : NULL,
					   "node id from registry \"%s\": %s", name, text);
}

static void
configure_times(SfLeaseConfig *config, SfClientConfig *client)
{
	config->reserve_ms = *sf_core->reserve_ms;
	config->keepalive_ms = *sf_core->presence_ms / 3;
	client->timeout_ms = *sf_core->timeout_ms;
	backend_config.presence_ms = *sf_core->presence_ms;
	backend_config.timeout_ms = *sf_core->timeout_ms;
	backend_config.slots = INT64CONST(1) << sf_core->layout->node_bits;
}

/* Name host and port; a long host is cut, because ports differ on it. */
static void
set_host(SfClaimant *claimant)
{
	char		name[SF_HOST_SIZE] = "";
	char		port[12];

	if (gethostname(name, sizeof(name) - 1) != 0)
		strlcpy(name, "unknown", sizeof(name));
	snprintf(port, sizeof(port), ":%d", PostPortNumber);
	name[sizeof(claimant->host) - 1 - strlen(port)] = '\0';
	snprintf(claimant->host, sizeof(claimant->host), "%s%s", name, port);
}

static void
configure(SfLeaseConfig *config, SfClientConfig *client)
{
	SfClaimant *claimant = &config->claimant;
	const SfRegistryKind *kind = sf_core->kind;
	char		reason[SF_REASON_SIZE];

	memset(config, 0, sizeof(SfLeaseConfig));
	memset(client, 0, sizeof(SfClientConfig));
	claimant->layout = sf_core->layout;
	if (!sf_core->find_nodes(&claimant->first_node, &claimant->last_node,
							 reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("node id does not fit the layout"),
				 errdetail("%s", reason),
				 errhint("Set snowflake.node_id = '' here, and restart: this server then leases any free number.%s",
						 sf_core->is_altered("snowflake.node_id") ?
						 " Before, run: ALTER SYSTEM RESET snowflake.node_id;" : "")));
	claimant->is_altered = sf_core->is_altered("snowflake.node_id");
	claimant->owner = sf_core->random() | 1;
	claimant->server = sf_core->server();
	set_host(claimant);
	claimant->process = PostmasterPid;
	claimant->max_ahead_ms = MAX_AHEAD_MS;
	load_remains(claimant);
	client->max_offset_ms = SF_CLAIM_MAX_OFFSET_MS;
	client->warn_offset_ms = WARN_OFFSET_MS;
	client->peers_ms = PEERS_MS;
	client->frozen_ms = FROZEN_MS;
	client->random = sf_core->random;
	client->log_event = log_lease_event;
	config->look_ms = LOOK_MS;
	config->initialize = kind->initialize;
	if (config->initialize == NULL)
	{
		char		layout[SF_LAYOUT_TEXT_SIZE];

		sf_layout_print(claimant->layout, layout, sizeof(layout));
		config->initialize =
			psprintf("run in the registry's database: SELECT snowflake_registry.init('%s');",
					 layout);
	}
	config->registry_kind = kind->name;
	config->age = load_age();
	configure_times(config, client);
}

/* ---- what sessions see ---- */

static void
report_status(void)
{
	SfMoment	now = get_clocks();
	SfLeaseStatus status;
	static const SfLeaseStage stages[] = {
		[SF_LEASE_SEARCHING] = SF_STAGE_SEARCHING,
		[SF_LEASE_CLAIMING] = SF_STAGE_SEARCHING,
		[SF_LEASE_HALTED] = SF_STAGE_HALTED,
		[SF_LEASE_HELD] = SF_STAGE_HELD,
		[SF_LEASE_RELEASING] = SF_STAGE_ENDED,
		[SF_LEASE_ENDED] = SF_STAGE_ENDED
	};

	memset(&status, 0, sizeof(status));
	status.pid = MyProcPid;
	status.stage = stages[lease.state];
	if (lease.state == SF_LEASE_HELD && lease.loss == SF_LOSS_NONE &&
		lease.generation == lease.config.age->known.generation)
		status.next_ms = sf_lease_next_write_ms(&lease);
	strlcpy(status.problem, lease.client.problem, sizeof(status.problem));
	strlcpy(status.public_problem, lease.client.public_problem,
			sizeof(status.public_problem));
	strlcpy(status.remedy, lease.client.remedy, sizeof(status.remedy));
	status.clock_known = lease.client.clock.known;
	status.offset_ms = sf_client_clock_offset(&lease.client, now);
	status.registry_moved = sf_client_registry_moved(&lease.client, now);
	sf_core->report(&status);
}

/*
 * Publish what has changed.  First share the lease: another worker must know
 * of each write that may be made.  Nothing may fail before what is known of
 * the registry is shared, too.  Then keep what the registry has promised
 * (snowflake.age): a session may issue on that as soon as the right is
 * published.  The remains may follow: if the server is killed in between, it
 * only cannot resume, since the registry has a newer write_id.
 */
static void
publish(int changes)
{
	const SfRight *right = &lease.right;

	sf_lease_shared->lease = lease;
	sf_lease_shared->begun = true;

	/*
	 * What the lease has learnt of the registry: its promise into shared
	 * memory, all of it into the file, but mere growth only every 30 s.
	 */
	keep_age(false);
	/* the functions of sf_core stand in identity/right.c */
	if (changes & SF_CHANGED_RIGHT)
	{
		if (lease.state == SF_LEASE_HELD)
			sf_core->publish(right->node, right->start, right->until);
		else
			sf_core->withdraw();
	}
	see_clock();				/* into memory, not yet into the file */
	if (changes & SF_CHANGED_REMAINS)	/* for a pinned node id only */
		keep_remains(&lease.config.claimant, right);
	if (changes & SF_CHANGED_ASK)
		backend->send(&lease.client.ask);
	report_status();
}

/* ---- the loop ---- */

/* Report what keeps this worker from its work, before it fails. */
static void
report_hindrance(const char *problem, const char *public_problem,
				 const char *remedy)
{
	strlcpy(lease.client.problem, problem, sizeof(lease.client.problem));
	strlcpy(lease.client.public_problem, public_problem,
			sizeof(lease.client.public_problem));
	strlcpy(lease.client.remedy, remedy, sizeof(lease.client.remedy));
	report_status();
}

/* A worker of this life that has read the file has shared what it has. */
static void
require_age(void)
{
	if (sf_lease_shared->begun || !is_hidden())
		return;
	report_hindrance(HIDDEN_PROBLEM, HIDDEN_PROBLEM, HIDDEN_REMEDY);
	refuse_hidden();
}

static void
load_library(void)
{
	PG_TRY();
	{
		backend = sf_registry_library_load();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		report_hindrance(psprintf("The registry's library cannot be used: %s.",
								  error->message),
						 "The registry's library cannot be used.",
						 SF_INSTALL_AGAIN);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
load_backend(void)
{
	char		reason[SF_REASON_SIZE];

	load_library();
	if (backend->open(sf_core->registry, &backend_config, reason,
					  sizeof(reason)))
		return;
	report_hindrance(reason, "The value of snowflake.registry is not valid.",
					 "Correct snowflake.registry, and restart the server.");
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("snowflake.registry cannot be used"),
			 errdetail("%s", reason),
			 errhint("%s", lease.client.remedy)));
}

/* Wait until there is something to do, or until the time has come. */
static void
wait_for_events(int64 until_ms)
{
	int64		left = until_ms - get_clocks().monotonic_ms;

	sf_registry_library_wait(backend, Min(left, LOOK_MS));
}

/* Time has passed, and perhaps an answer has come. */
static void
run_step(void)
{
	SfAnswer	answer;
	int			changes = sf_lease_step(&lease, get_clocks());

	/* an answer to an earlier request, with its texts made printable */
	if (sf_registry_library_receive(backend, &answer))
		changes |= sf_lease_answer(&lease, get_clocks(), &answer);
	publish(changes);
}

/*
 * Return true if the whole server stops.  The postmaster writes that to its
 * file before it signals any process.  Otherwise only this worker is being
 * ended.
 */
static bool
server_stops(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", PG_BINARY_R);
	char		line[MAXPGPATH + 2] = "";
	int			n = 0;

	if (file == NULL)
		return false;
	while (n < LOCK_FILE_LINE_PM_STATUS && fgets(line, sizeof(line), file))
		n++;
	FreeFile(file);
	return n == LOCK_FILE_LINE_PM_STATUS &&
		strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/* Release the lease within the time-out; otherwise it expires. */
static void
release_lease(void)
{
	SfMoment	now = get_clocks();
	int64		deadline_ms = now.monotonic_ms +
		lease.client.config.timeout_ms;

	publish(sf_lease_release(&lease, now, sf_core->close()));
	while (run_step(), lease.state != SF_LEASE_ENDED &&
		   get_clocks().monotonic_ms < deadline_ms)
		wait_for_events(Min(lease.wake_ms, deadline_ms));
	keep_age(true);
	if (lease.state != SF_LEASE_ENDED)
	{
		int64		until_ms = sf_layout_after_epoch_ms(sf_core->layout,
														lease.record.until);

		sf_core->log_event(NULL, SF_EVENT_NOT_GIVEN_BACK, NULL, NULL,
						   "node id could not be given back, and stays reserved until %s",
						   sf_timefmt_show(until_ms));
	}
}

/* Begin, or go on where the worker before has ended. */
static int
begin(const SfLeaseConfig *config, const SfClientConfig *client)
{
	SfMoment	now = get_clocks();

	if (sf_lease_shared->begun && lease.state < SF_LEASE_RELEASING)
		return sf_lease_resume(&lease, config, client, now);
	return sf_lease_init(&lease, config, client, now);
}

void
snowflake_lease_worker_main(Datum arg)
{
	SfLeaseConfig config;
	SfClientConfig client;
	int			changes;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	sf_core->begin();
	require_age();
	configure(&config, &client);
	lease = sf_lease_shared->lease;
	/* what another process may have elsewhere */
	lease.config.age = config.age;
	lease.config.claimant.layout = config.claimant.layout;
	load_backend();
	config.part = backend->part;
	changes = begin(&config, &client);
	report_status();			/* before right.c publishes what has changed */
	publish(changes);
	while (!ShutdownRequestPending)
	{
		run_step();
		wait_for_events(lease.wake_ms);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			configure_times(&lease.config, &lease.client.config);
		}
	}
	if (server_stops())
	{
		release_lease();
		backend->close();
		proc_exit(0);
	}
	backend->close();
	proc_exit(1);				/* so that another worker is started */
}

/* ---- server start ---- */

static void
register_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "snowflake lease");
	snprintf(worker.bgw_type, BGW_MAXLEN, "snowflake lease");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_S;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 SF_LEASE_LIBRARY);
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "snowflake_lease_worker_main");
	RegisterBackgroundWorker(&worker);
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(sizeof(SfLeaseShared));
}

static void
create_shared_memory(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	sf_lease_shared = ShmemInitStruct(SF_LEASE_LIBRARY, sizeof(SfLeaseShared),
									  &found);
	if (!found)
	{
		memset(sf_lease_shared, 0, sizeof(SfLeaseShared));
		pg_atomic_init_u64(&sf_lease_shared->promised_ms, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Take what the core offers, and register the worker.  The core calls this
 * while shared_preload_libraries is processed.  Where it does not, nothing is
 * leased; but a session may load the library for a function of its SQL.
 */
void
snowflake_lease_start(const SfRightAccess *access)
{
	if (strcmp(access->version, SF_RIGHT_VERSION) != 0 ||
		access->size != SF_RIGHT_SIZE)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("libraries \"snowflake\" and \"%s\" are not of one build",
						SF_LEASE_LIBRARY),
				 errdetail("The first one is of %s, the second one of %s.",
						   access->version, SF_RIGHT_VERSION),
				 errhint("%s", SF_INSTALL_AGAIN)));
	sf_core = access;
	register_worker();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}
