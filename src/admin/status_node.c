/*-------------------------------------------------------------------------
 *
 * status_node.c
 *	  Checks of snowflake_status() about the node id and its lease.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "runtime/settings.h"

#define SEE_LEASE	"See the check \"lease\"."

/* Return the remedy for a wrong text in the files. */
static char *
refused_remedy(void)
{
	return psprintf("Correct it in %s, and run: SELECT pg_reload_conf();",
					sf_settings_file());
}

/*
 * Return the remedy for a number that waits for a restart, or is to be unset
 * by one.  A restart reads the files again, so say what they must say then.
 */
static char *
pending_remedy(const char *pending)
{
	char	   *keep = psprintf("To keep the old one, add this line to %s:\nsnowflake.node_id = '%s'\nand run:\n%sSELECT pg_reload_conf();",
								sf_settings_file(), sf_node_id,
								*pending == '\0' ? "" : "ALTER SYSTEM RESET snowflake.node_id;\n");

	if (*pending != '\0')
		return psprintf("To take the number %s, leave it in the files, and restart the server. %s",
						pending, keep);
	return psprintf(sf_settings_leases() ?
					"After a restart this server leases any free number. %s" :
					"After a restart this server makes no IDs. %s", keep);
}

/*
 * Report a number that is refused in the files, or waits there for a restart;
 * or else, that all is well.
 */
static void
put_settled_node(SfStatus *status, uint32 node, const char *found)
{
	char	   *pending = sf_settings_pending();
	char	   *refused = sf_settings_refused();

	if (refused != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u; in the configuration files %s", node,
							   refused),
					  refused_remedy());
	else if (pending != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u; in the configuration files snowflake.node_id is %s, which waits for a restart",
							   node, *pending == '\0' ? "unset" : pending),
					  pending_remedy(pending));
	else
		sf_status_ok(status, found);
}

/* Report that a restart loses the registry, or changes it. */
static void
put_pending_registry(SfStatus *status, uint32 node)
{
	if (sf_settings_is_in_file("snowflake.registry"))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is leased; the configuration files name another registry, which waits for a restart",
							   node),
					  "Two registries lease the same node ids. To keep the old one, put it back, and run: SELECT pg_reload_conf(); To move to the other one, set it on all servers, and restart them.");
	else
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is leased; snowflake.registry is gone from the configuration files: after a restart, calls are refused",
							   node),
					  psprintf("Put snowflake.registry back into %s, and run: SELECT pg_reload_conf();",
							   sf_settings_file()));
}

/* Report the node of a standby after its promotion. */
static void
put_standby_node(SfStatus *status, uint64 lease)
{
	uint32		node = sf_settings_node_of(lease);
	uint32		last;
	char		reason[SF_REASON_SIZE] = "";

	if (sf_settings_leases())
		sf_status_ok(status, "a standby makes no IDs; once it is promoted, it leases a node id");
	else if (lease == 0 && !sf_node_find(&node, &last, reason, sizeof(reason)))
	{
		if (reason[0] == '\0' && sf_settings_has_shards())
			sf_status_ok(status, "a standby makes no IDs; once it is promoted, it makes those of shards only, since no number is configured");
		else
			sf_status_put(status, SF_STATUS_WARNING,
						  psprintf("once this standby is promoted, calls are refused: %s",
								   reason[0] != '\0' ? reason :
								   "snowflake.node_id is not set"),
						  sf_node_remedy());
	}
	else if (sf_node_layout.node_bits == 0)
		sf_status_ok(status, "the layout has no field for one");
	else if (sf_identity_primary() == sf_server_number_of(node))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("once this standby is promoted, it issues as %u, the number that its primary has recorded",
							   node),
					  psprintf("Set another snowflake.node_id in %s of this server, and run here: SELECT pg_reload_conf(); If ALTER SYSTEM has set the number, first run: ALTER SYSTEM RESET snowflake.node_id;",
							   sf_settings_file()));
	else
		put_settled_node(status, node,
						 psprintf("a standby makes no IDs; once it is promoted, it issues as %u",
								  node));
}

/* Report a configured node that is not published yet, or wrong; or none. */
static void
put_untaken_node(SfStatus *status)
{
	uint32		first;
	uint32		last;
	char		reason[SF_REASON_SIZE];
	char	   *refused = sf_settings_refused();

	if (sf_node_find(&first, &last, reason, sizeof(reason)))
		put_settled_node(status, first,
						 psprintf("%u is configured; the first call takes it",
								  first));
	else if (reason[0] == '\0' && refused != NULL)
		sf_status_put(status, sf_settings_has_shards() ?
					  SF_STATUS_WARNING : SF_STATUS_ERROR,
					  psprintf("snowflake.node_id is not set; in the configuration files %s",
							   refused),
					  refused_remedy());
	else if (reason[0] == '\0' && sf_settings_has_shards())
		sf_status_ok(status, "none is configured: this server makes IDs for shards only");
	else
		sf_status_put(status, SF_STATUS_ERROR,
					  reason[0] != '\0' ? reason :
					  "snowflake.node_id is not set",
					  sf_node_remedy());
}

/* Report a configured node that this server has taken. */
static void
put_configured_node(SfStatus *status, uint32 node)
{
	SfServerNumber before = sf_shmem->identity.original;
	SfServerNumber primary = sf_identity_primary();
	bool		changed = before != SF_NO_NUMBER &&
		before != sf_server_number_of(node) && primary == SF_NO_NUMBER;

	if (primary == sf_server_number_of(node) &&
		sf_identity_running() == primary)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("%u is configured, and this server's former primary, which runs now, has it, too",
							   node),
					  SF_IDENTITY_PROMOTED_REMEDY);
	else if (primary == sf_server_number_of(node))
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("%u is configured, and this server's former primary had it, too",
							   node),
					  SF_IDENTITY_PROMOTED_REMEDY);
	else
		put_settled_node(status, node, changed ?
						 psprintf("%u is configured; before it was %u",
								  node, sf_server_number_value(before)) :
						 psprintf("%u is configured", node));
}

/* Report a node that is leased, or was until a moment ago. */
static void
put_leased_node(SfStatus *status, uint32 node)
{
	char		name[200];

	sf_lease_wait_registry_name(name, sizeof(name));
	if (sf_lease_wait_has_expired())
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("the lease of %u from \"%s\" has expired: calls are refused",
							   node, name),
					  SEE_LEASE);
	else if (sf_settings_awaits_restart("snowflake.registry"))
		put_pending_registry(status, node);
	else
		put_settled_node(status, node,
						 psprintf("%u is leased from \"%s\"", node, name));
}

/* Report that no leased node may be used now. */
static void
put_unleased_node(SfStatus *status)
{
	char		name[200];
	SfLeaseStatus worker;

	sf_lease_wait_registry_name(name, sizeof(name));
	sf_lease_wait_status(&worker);
	sf_status_put(status, SF_STATUS_ERROR,
				  psprintf(worker.stage == SF_STAGE_HALTED ?
						   "one is leased from \"%s\", but cannot be used at present" :
						   "none is leased from \"%s\"", name),
				  SEE_LEASE);
}

/* Report which node id this server issues as, or why it issues as none. */
void
sf_status_node(SfStatus *status)
{
	uint64		lease = sf_shmem_right();
	uint32		node = sf_settings_node_of(lease);

	if (RecoveryInProgress())
		put_standby_node(status, lease);
	else if (lease == 0 && sf_settings_leases())
		put_unleased_node(status);
	else if (lease == 0)
		put_untaken_node(status);
	else if (sf_node_layout.node_bits == 0)
		sf_status_ok(status, "the layout has no field for one");
	else if (sf_settings_leases())
		put_leased_node(status, node);
	else
		put_configured_node(status, node);
}

/* Return the worker's remedy, or what to do if the worker says nothing. */
static const char *
worker_remedy(const SfLeaseStatus *worker)
{
	if (worker->remedy[0] != '\0')
		return worker->remedy;
	if (worker->pid == 0)
		return "See the server's log for the background worker \"snowflake lease\". If the log says \"too many background workers\", increase max_worker_processes, and restart the server.";
	return psprintf("See the server's log. If it says nothing, run on this machine: ps -o pid,state,cmd %d; If the state of that process is T, somebody has stopped it: kill -CONT %d;",
					worker->pid, worker->pid);
}

/* Report the lease, and what the worker says of it. */
void
sf_status_lease(SfStatus *status)
{
	static const char *const stages[] = {
		"the background worker that extends it is not running", "searching", "held",
		"expired, so that calls are refused",
		"held, but cannot be used at present", "given back, since the server stops"
	};
	uint64		lease = sf_shmem_right();
	int64		until_ms = lease == 0 ? 0 :
		sf_settings_end_tick_of(lease) * sf_node_layout.tick_ms;
	SfLeaseStatus worker;
	bool		is_held;
	bool		is_late;
	StringInfoData found;

	if (!sf_settings_leases())
	{
		sf_status_ok(status, "snowflake.registry is not set");
		return;
	}
	sf_lease_wait_status(&worker);
	is_held = worker.stage == SF_STAGE_HELD;
	is_late = worker.next_ms != 0 &&
		worker.next_ms + sf_lease_timeout < sf_clock_wall_ms();
	initStringInfo(&found);
	appendStringInfoString(&found, stages[worker.stage]);
	if (until_ms != 0)
		appendStringInfo(&found, "%s until %s",
						 worker.stage == SF_STAGE_EXPIRED ? ": it lasted" : "",
						 sf_timefmt_show(until_ms));
	if (is_held && worker.next_ms != 0)
		appendStringInfo(&found, ", %s at %s",
						 worker.next_ms < sf_clock_wall_ms() ?
						 "which was to be extended" : "to be extended",
						 sf_timefmt_show(worker.next_ms));
	if (worker.problem[0] != '\0')
		appendStringInfo(&found, ": %s", worker.problem);
	if (is_held && !is_late && worker.problem[0] == '\0')
		sf_status_ok(status, found.data);
	else
		sf_status_put(status, is_held ? SF_STATUS_WARNING : SF_STATUS_ERROR,
					  found.data, worker_remedy(&worker));
}
