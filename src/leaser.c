/*-------------------------------------------------------------------------
 *
 * leaser.c
 *	  The worker that leases this server's node id: it lets the state machine
 *	  (lease.c) and the library of the registry (backend.h) talk to each other,
 *	  and publishes what comes of it.
 *
 * It is connected to no database, and waits for nothing but its latch and the
 * registry's sockets.  Sessions read one word, and wait for the worker only
 * where that says that there is no lease.
 *
 * A worker that fails is started anew, and begins from nothing: what the one
 * before it had published holds until its until, and then another slot is
 * claimed meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "leaser.h"

#include <sys/stat.h>
#include <unistd.h>

#include "asker.h"
#include "clock.h"
#include "fmgr.h"
#include "identity.h"
#include "miscadmin.h"
#include "node.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "registrar.h"
#include "settings.h"
#include "state.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tell.h"
#include "times.h"
#include "utils/guc.h"
#include "utils/pidfile.h"

#define LIBRARY			"snowflake_%s"
#define RESTART_S		5

#define MAX_AHEAD_MS	2000
#define WARN_OFFSET_MS	200
#define PEERS_MS		(300 * 1000)
#define LOOK_MS			500
#define FROZEN_MS		3000

extern PGDLLEXPORT void snowflake_leaser_main(Datum arg);

static SfLease lease;
static SfBackendConfig backend_config;
static const SfBackend *backend;
static uint32 wait_event_registry = 0;

/* ---- what the state machine is given ---- */

static uint64_t
random_number(void)
{
	uint64		number;

	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	return number;
}

static void
say(SfSaid what, const char *text)
{
	static const SfEvent events[] = {
		[SF_SAID_LEASED] = SF_EVENT_NODE_LEASED,
		[SF_SAID_LOST] = SF_EVENT_NODE_LOST,
		[SF_SAID_EXPIRED] = SF_EVENT_NODE_EXPIRED,
		[SF_SAID_PROBLEM] = SF_EVENT_NODE_PROBLEM,
		[SF_SAID_SOLVED] = SF_EVENT_NODE_SOLVED,
		[SF_SAID_FROZEN] = SF_EVENT_NODE_FROZEN,
		[SF_SAID_CLOCK] = SF_EVENT_CLOCK_OFF
	};
	char		name[200];

	sf_settings_registry_name(name, sizeof(name));
	sf_tell(events[what], NULL, lease.remedy[0] != '\0' &&
			(what == SF_SAID_LOST || what == SF_SAID_EXPIRED ||
			 what == SF_SAID_PROBLEM) ? lease.remedy : NULL,
			"node id from registry \"%s\": %s", name, text);
}

/* In ms; the monotonic clock goes on while the machine is suspended. */
SfMoment
sf_leaser_clocks(void)
{
	SfMoment	now;
	int64_t		offset = sf_clock_boot_offset_ms(&now.wall_ms);

	now.monotonic_ms = now.wall_ms - offset;
	return now;
}

static void
configure_times(SfLeaseConfig *config)
{
	config->reserve_ms = sf_leasing_reserve;
	config->keepalive_ms = sf_leasing_presence / 3;
	config->timeout_ms = sf_leasing_timeout;
	backend_config.presence_ms = sf_leasing_presence;
	backend_config.timeout_ms = sf_leasing_timeout;
}

static void
configure(SfLeaseConfig *config)
{
	SfClaimant *claimant = &config->claimant;
	const SfRegistryKind *kind = sf_settings_registry_kind(sf_registry);
	char		reason[SF_REASON_SIZE];

	memset(config, 0, sizeof(SfLeaseConfig));
	claimant->layout = &sf_node_layout;
	if (!sf_node_find(&claimant->first_node, &claimant->last_node,
					  reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("node id does not fit the layout"),
				 errdetail("%s", reason)));
	claimant->owner = random_number() | 1;
	claimant->server = sf_identity_server();
	if (gethostname(claimant->host, sizeof(claimant->host) - 1) != 0)
		strlcpy(claimant->host, "unknown", sizeof(claimant->host));
	claimant->process = PostmasterPid;
	claimant->max_ahead_ms = MAX_AHEAD_MS;
	config->max_offset_ms = SF_CLAIM_MAX_OFFSET_MS;
	config->warn_offset_ms = WARN_OFFSET_MS;
	config->peers_ms = PEERS_MS;
	config->look_ms = LOOK_MS;
	config->frozen_ms = FROZEN_MS;
	config->random = random_number;
	config->say = say;
	config->initialize = kind->initialize;
	if (config->initialize == NULL)
	{
		char		layout[SF_LAYOUT_TEXT_SIZE];

		sf_layout_print(claimant->layout, layout, sizeof(layout));
		config->initialize =
			psprintf("run there: SELECT snowflake_registry_init('%s');",
					 layout);
	}
	config->registry_kind = kind->name;
	configure_times(config);
}

/* ---- what sessions are told ---- */

/* When the next write is due, in Unix ms: a third of the reserve is used. */
static int64
next_write_ms(void)
{
	int64		until_ms = (sf_node_layout.epoch_tick + lease.right.until) *
		sf_node_layout.tick_ms;

	return until_ms - lease.config.reserve_ms * 2 / 3;
}

static void
report_status(void)
{
	SfLeaseStatus status;

	memset(&status, 0, sizeof(status));
	status.pid = MyProcPid;
	if (lease.state == SF_LEASE_HELD)
	{
		status.stage = lease.right.valid ? SF_STAGE_HELD : SF_STAGE_HALTED;
		status.next_ms = next_write_ms();
	}
	else
		status.stage = lease.state < SF_LEASE_HELD ?
			SF_STAGE_SEARCHING : SF_STAGE_ENDED;
	strlcpy(status.problem, lease.problem, sizeof(status.problem));
	strlcpy(status.public_problem, lease.public_problem,
			sizeof(status.public_problem));
	strlcpy(status.remedy, lease.remedy, sizeof(status.remedy));
	status.clock_known = lease.clock_known;
	status.offset_ms = sf_lease_clock_offset(&lease, sf_leaser_clocks());

	/* nobody else writes it */
	if (memcmp(&status, &sf_state->leasing.status, sizeof(status)) == 0)
		return;
	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	sf_state->leasing.status = status;
	LWLockRelease(sf_state->lock);
}

/* ---- who asks the registry ---- */

static void
lease_answered(const SfAnswer *answer)
{
	sf_lease_answer(&lease, sf_leaser_clocks(), answer);
}

/* The first of them comes first. */
static SfAsker askers[] = {
	{.ask = &lease.ask, .answered = lease_answered},
	{.answered = sf_leaser_shards_answered},	/* .ask: when it is there */
	{.ask = &sf_registrar_ask, .answered = sf_registrar_answered},
};

/* ---- the loop ---- */

static void
load_backend(void)
{
	const SfRegistryKind *kind = sf_settings_registry_kind(sf_registry);
	SfBackendFunction function;
	char		library[MAXPGPATH];
	char		reason[SF_REASON_SIZE];

	snprintf(library, sizeof(library), LIBRARY, kind->name);
	function = (SfBackendFunction) (void *)
		load_external_function(library, SF_BACKEND_FUNCTION, true, NULL);
	backend = function();
	if (backend->open(sf_registry, &backend_config, reason, sizeof(reason)))
		return;
	strlcpy(lease.problem, reason, sizeof(lease.problem));
	strlcpy(lease.public_problem, "The text of snowflake.registry is not right.",
			sizeof(lease.public_problem));
	strlcpy(lease.remedy, "Correct snowflake.registry, and restart the server.",
			sizeof(lease.remedy));
	report_status();
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("snowflake.registry is not to be used"),
			 errdetail("%s", reason),
			 errhint("%s", lease.remedy)));
}

/* Until a socket is ready, or somebody has something to say, or it is time. */
static void
wait_for_events(int64 until_ms)
{
	SfSocket	sockets[SF_BACKEND_SOCKETS];
	int64_t		timeout_ms = LOOK_MS;
	int			n = backend->sockets(sockets, &timeout_ms);
	int64		left = until_ms - sf_leaser_clocks().monotonic_ms;
	WaitEventSet *set = sf_create_wait_event_set(n + 2);
	WaitEvent	event;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(set, (sockets[i].readable ? WL_SOCKET_READABLE : 0) |
						  (sockets[i].writeable ? WL_SOCKET_WRITEABLE : 0),
						  sockets[i].fd, NULL, NULL);
	left = Max(0, Min(left, Min(timeout_ms, LOOK_MS)));
	(void) WaitEventSetWait(set, (long) left, &event, 1,
							sf_wait_event(&wait_event_registry,
										  "SnowflakeRegistry"));
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
}

static int64
next_wake_ms(void)
{
	return Min(lease.wake_ms, sf_leaser_shards_wake_ms());
}

/* Send what is to be sent, take what has come. */
static void
go_on(void)
{
	sf_lease_step(&lease, sf_leaser_clocks());
	sf_leaser_shards_step(&lease.config, sf_leaser_clocks());
	sf_asker_receive(backend);
	sf_leaser_publish(&lease.right);
	sf_leaser_shards_publish();
	sf_registrar_step(askers[lengthof(askers) - 1].sent);
	sf_asker_send(askers, lengthof(askers), backend);
	report_status();
}

/*
 * Is it the server that stops?  The postmaster has written so before it tells
 * anybody.  If not, somebody has ended this worker only.
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

/* Give all back, if that can be done soon; or else it expires. */
static void
give_back(void)
{
	SfMoment	now = sf_leaser_clocks();
	int64		deadline_ms = now.monotonic_ms + lease.config.timeout_ms;

	sf_lease_release(&lease, now, sf_leaser_close());
	sf_leaser_shards_release(now);
	while (go_on(), (lease.state != SF_LEASE_ENDED ||
					 !sf_leaser_shards_have_ended()) &&
		   sf_leaser_clocks().monotonic_ms < deadline_ms)
		wait_for_events(Min(next_wake_ms(), deadline_ms));
	if (lease.state != SF_LEASE_ENDED)
		sf_tell(SF_EVENT_NOT_GIVEN_BACK, NULL, NULL,
				"node id or shards could not be given back, and stay reserved until %s",
				sf_times_show((sf_node_layout.epoch_tick +
							   lease.record.until) * sf_node_layout.tick_ms));
}

void
snowflake_leaser_main(Datum arg)
{
	SfLeaseConfig config;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	if (pg_atomic_read_u64(&sf_state->lease) == 0)
		pg_atomic_write_u64(&sf_state->leasing.since_ms,
							sf_clock_monotonic_ms());
	configure(&config);
	load_backend();
	sf_lease_init(&lease, &config, sf_leaser_clocks());
	askers[1].ask = sf_leaser_shards_init(&config, sf_leaser_clocks());
	sf_registrar_start(random_number);
	while (!ShutdownRequestPending)
	{
		go_on();
		wait_for_events(next_wake_ms());
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			configure_times(&lease.config);
		}
	}
	if (server_stops())
	{
		give_back();
		backend->close();
		proc_exit(0);
	}
	backend->close();
	proc_exit(1);				/* another one is started */
}

/* ---- at the start of the server ---- */

/* Where it may be elsewhere on the server's path, the worker looks for it. */
static void
require_library(const SfRegistryKind *kind)
{
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" LIBRARY DLSUFFIX, pkglib_path,
			 kind->name);
	if (stat(path, &st) == 0 || strcmp(Dynamic_library_path, "$libdir") != 0)
		return;
	ereport(FATAL,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("there is no library for the registry that snowflake.registry names"),
			 errdetail("File \"%s\" cannot be read.", path),
			 errhint("It is built where the headers of %s are installed: install them, and build and install the extension again.",
					 kind->needs)));
}

/* Only while shared_preload_libraries is processed. */
void
sf_leaser_register(void)
{
	BackgroundWorker worker;

	if (!sf_settings_leases() || IsBinaryUpgrade)
		return;
	require_library(sf_settings_registry_kind(sf_registry));
	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "snowflake lease");
	snprintf(worker.bgw_type, BGW_MAXLEN, "snowflake lease");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_S;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "snowflake");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "snowflake_leaser_main");
	RegisterBackgroundWorker(&worker);
}
