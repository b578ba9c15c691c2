/*-------------------------------------------------------------------------
 *
 * right.c
 *	  The right to issue IDs as a leased node: loads the library that leases,
 *	  and publishes what it has leased.
 *
 * The lease worker is the only process that calls the functions below, except
 * for the start, and for sf_right_change_node(), which the postmaster calls
 * where a reload changes a configured node.  The right, which is a node and an
 * until, is one word in shared memory, so no session sees the node of one
 * lease with the until of another.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/right.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

/*
 * Note when the first worker begins to look for a lease.  Those after it go
 * on, so that calls do not wait anew for each worker that ends.
 */
static void
begin_right(void)
{
	if (pg_atomic_read_u64(&sf_shmem->leasing.since_ms) == 0)
		pg_atomic_write_u64(&sf_shmem->leasing.since_ms,
							sf_clock_monotonic_ms());
}

static void
publish_word(uint64 word)
{
	/* only the worker writes it, which has stored its first report before */
	Assert(sf_shmem->leasing.status.pid == MyProcPid);
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_shmem->right, word);
	ConditionVariableBroadcast(&sf_shmem->leasing.changed);
}

static void
note_lowest(SfServerNumber node)
{
	pg_atomic_uint32 *lowest = &sf_shmem->leasing.lowest_node;
	SfServerNumber before = pg_atomic_read_u32(lowest);

	if (node != SF_NO_NUMBER && (before == SF_NO_NUMBER || node < before))
		pg_atomic_write_u32(lowest, node);
}

/*
 * Prepare the counters for another node, while no right is published.  The
 * IDs of the last node, if there was one, are below "until", in ticks since
 * the layout's epoch.  No ID is made in a tick that a counter has reached, so
 * that no session's IDs descend.  horizon.c considers sessions that may still
 * use the last node.
 *
 * Write the nodes before the ticks end.  A reader that finds a counter in the
 * new tick then also finds the new node, and composes no horizon there with
 * the other one, which may be higher (to_node_id()).
 */
void
sf_right_change_node(SfServerNumber last, SfServerNumber node, uint64 until)
{
	SfLeasing  *leasing = &sf_shmem->leasing;

	if (last != SF_NO_NUMBER &&
		until > pg_atomic_read_u64(&leasing->other_until))
		pg_atomic_write_u64(&leasing->other_until, until);
	note_lowest(last);
	note_lowest(node);
	pg_write_barrier();			/* the lowest node before the last one */
	pg_atomic_write_u32(&leasing->node, node);

	/*
	 * A session that takes a slot finds the nodes above, or we find its slot.
	 */
	pg_memory_barrier();
	if (last != SF_NO_NUMBER)
		sf_layout_slots_pass_ticks();
	SF_FAULT("ticks-ended");
}

/*
 * Prepare the counters for a right: no ID is made below its start.  At a
 * renewal they are above it already, and nothing changes.
 */
static void
prepare_counters(SfServerNumber node, int64 start)
{
	SfLeasing  *leasing = &sf_shmem->leasing;
	SfServerNumber last = pg_atomic_read_u32(&leasing->node);

	sf_layout_slots_raise(sf_layout_after_epoch_ms(&sf_node_layout, start));
	if (last == node)
		return;
	if (last != SF_NO_NUMBER)
		publish_word(0);
	sf_right_change_node(last, node, pg_atomic_read_u64(&leasing->until));
}

/*
 * Publish the right to issue as this node from start up to until, in ticks
 * since the layout's epoch.
 */
static void
publish_right(uint32 node, int64 start, int64 until)
{
	uint64		word = (uint64) until << sf_node_layout.node_bits | node;

	if (word == sf_shmem_right())
		return;
	prepare_counters(sf_server_number_of(node), start);
	pg_atomic_write_u64(&sf_shmem->leasing.until, until);
	publish_word(word);
}

/* Publish that there is no right. */
static void
withdraw_right(void)
{
	if (sf_shmem_right() == 0)
		return;
	pg_atomic_write_u64(&sf_shmem->leasing.since_ms, sf_clock_monotonic_ms());
	publish_word(0);
}

/*
 * Withdraw the right when the server stops, and close the counters, so that no
 * session issues any more.  Return the last timestamp that was issued, in
 * ticks since the epoch.
 */
static int64
close_right(void)
{
	int64		end_ms;

	publish_word(0);
	end_ms = sf_layout_slots_close();
	return sf_layout_ms_to_tick(&sf_node_layout, end_ms - 1) -
		sf_node_layout.epoch_tick;
}

/* Publish the worker's report about itself. */
static void
store_status(const SfLeaseStatus *status)
{
	/* only the worker writes it */
	if (memcmp(status, &sf_shmem->leasing.status, sizeof(*status)) == 0)
		return;
	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	sf_shmem->leasing.status = *status;
	LWLockRelease(sf_shmem->lock);
}

/*
 * When the server starts, check for one of our libraries, unless the server's
 * path may have it elsewhere.
 */
static void
require_library(const char *name, const char *hint)
{
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s" DLSUFFIX, pkglib_path, name);
	if (stat(path, &st) == 0 || strcmp(Dynamic_library_path, "$libdir") != 0)
		return;
	ereport(FATAL,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("there is no library \"%s\", which snowflake.registry needs",
					name),
			 errdetail("File \"%s\" cannot be read.", path),
			 errhint("%s", hint)));
}

/*
 * Load the library that leases, while shared_preload_libraries is processed.
 * The server looks for it where it has found this one.
 */
void
sf_right_at_load(void)
{
	static SfRightAccess access = {
		.version = SF_RIGHT_VERSION,
		.size = SF_RIGHT_SIZE,
		.layout = &sf_node_layout,
		.reserve_ms = &sf_lease_reserve,
		.presence_ms = &sf_lease_presence,
		.timeout_ms = &sf_lease_timeout,
		.print_registry = sf_settings_registry_name,
		.print_registry_for_role = sf_lease_wait_registry_name,
		.may_see_registry = sf_lease_wait_may_see_registry,
		.server = sf_identity_server,
		.find_nodes = sf_node_find,
		.is_altered = sf_settings_is_altered,
		.random = sf_identity_random,
		.begin = begin_right,
		.publish = publish_right,
		.withdraw = withdraw_right,
		.close = close_right,
		.report = store_status,
		.log_event = sf_log_event_within,
		.log_file = sf_log_file
	};
	SfLeaseStart start;

	Assert(process_shared_preload_libraries_in_progress);
	if (!sf_settings_leases() || IsBinaryUpgrade)
		return;
	access.registry = sf_registry;
	access.kind = sf_settings_registry_kind(sf_registry);
	require_library(SF_LEASE_LIBRARY, "Run make install where snowflake was built, or install its package again. Then start the server.");
	start = (SfLeaseStart) (void *)
		load_external_function(SF_LEASE_LIBRARY, SF_LEASE_START, true, NULL);
	start(&access);
	require_library(psprintf("snowflake_%s", access.kind->name),
					psprintf("It is built where the headers of %s are installed: install them, and build and install the extension again.",
							 access.kind->needs));
}
