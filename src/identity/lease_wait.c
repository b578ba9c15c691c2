/*-------------------------------------------------------------------------
 *
 * lease_wait.c
 *	  The lease as sessions see it: the wait for a lease, and the refusal.
 *
 * The worker publishes node and until as one word.  What a session has read
 * there stays valid however long the session sleeps after reading, because it
 * is a right to a range of timestamps.  So for a while two sessions may issue
 * under two nodes, and both are right.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "identity/identity.h"

#include "base/clock.h"
#include "base/message.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "utils/acl.h"

/* How often to look for changes that nobody signals. */
#define LOOK_MS		1000

static uint32 wait_event_lease = 0;

/* ---- errors and status ---- */

/*
 * Return true if this role may see the setting snowflake.registry, and the
 * registry client's messages, which name roles, hosts and paths.
 */
bool
sf_lease_wait_may_see_registry(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* Print the registry without secrets; for other roles, only its scheme. */
void
sf_lease_wait_registry_name(char *name, size_t size)
{
	const SfRegistryKind *kind = sf_settings_registry_kind(sf_registry);

	if (kind == NULL || sf_lease_wait_may_see_registry())
		sf_settings_registry_name(name, size);
	else
		snprintf(name, size, "%s://...", kind->scheme);
	sf_text_make_valid(name);
}

/*
 * Return true if the right to the node id does not cover the next ID.  Then a
 * call waits for the worker to extend the right, and is refused if that fails.
 */
bool
sf_lease_wait_has_expired(void)
{
	const SfLayout *layout = &sf_node_layout;
	int64		end_tick = sf_settings_end_tick_of(sf_shmem_right());
	int64		next_tick = (int64) ((sf_shmem_last_position() + 1) >>
									 layout->sequence_bits);

	return Max(next_tick, sf_layout_ms_to_tick(layout, sf_clock_wall_ms())) >=
		end_tick;
}

/*
 * Return the status that the worker wrote, as far as this role may see it: a
 * remedy for a problem that names hosts and roles names them, too.  If
 * the right has expired, the worker may be late to say so, or gone.
 * SF_STAGE_HELD means that a call gets an ID now.
 */
void
sf_lease_wait_status(SfLeaseStatus *status)
{
	LWLockAcquire(sf_shmem->lock, LW_SHARED);
	*status = sf_shmem->leasing.status;
	LWLockRelease(sf_shmem->lock);
	if (strcmp(status->problem, status->public_problem) != 0 &&
		!sf_lease_wait_may_see_registry())
	{
		strlcpy(status->problem, status->public_problem,
				sizeof(status->problem));
		strlcpy(status->remedy,
				psprintf("Have an administrator %s", sf_check_step("lease")),
				sizeof(status->remedy));
	}
	else
		strlcpy(status->remedy, sf_extschema_expand(status->remedy),
				sizeof(status->remedy));
	sf_text_make_valid(status->problem);
	sf_text_make_valid(status->remedy);
	if (status->stage == SF_STAGE_HELD && sf_lease_wait_has_expired())
	{
		status->stage = SF_STAGE_EXPIRED;
		status->next_ms = 0;
	}
}

/* Throw an error: there is no lease of a node id.  SQLSTATE 55000. */
void
sf_lease_wait_refuse(void)
{
	SfLeaseStatus status;
	char		name[200];

	sf_stats_count(SF_STAT_REFUSED_LEASE);
	sf_lease_wait_status(&status);
	sf_lease_wait_registry_name(name, sizeof(name));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server has no lease of a node id"),
			 errdetail("The registry is \"%s\". %s", name,
					   status.problem[0] != '\0' ? status.problem :
					   status.stage == SF_STAGE_ENDED ? "The lease has been given back, since the server stops." :
					   "It has not answered yet."),
			 errhint("%s", status.remedy[0] != '\0' ? status.remedy :
					 psprintf("See the server's log, and %s",
							  sf_check_step("lease")))));
}

/* Return since when a caller that has read this word has had no right. */
static int64
missing_since_ms(uint64 right, int64 now_ms)
{
	int64		past_ms = sf_clock_wall_ms() -
		sf_settings_end_tick_of(right) * sf_node_layout.tick_ms;
	int64		since_ms;

	if (right != 0)
		return now_ms - Max(past_ms, 0);
	pg_read_barrier();			/* after the right, as it is written before */
	since_ms = (int64) pg_atomic_read_u64(&sf_shmem->leasing.since_ms);
	return since_ms == 0 ? now_ms : since_ms;
}

/*
 * Wait until the word in which the caller found no right changes.  If
 * snowflake.lease_wait passes from the moment when the right ended, throw
 * SQLSTATE 55000.  *begun_ms belongs to the call, and is 0 at first.
 */
void
sf_lease_wait_sleep(uint64 right, int64 *begun_ms)
{
	SfLeasing  *leasing = &sf_shmem->leasing;
	int64		now_ms = sf_clock_monotonic_ms();

	if (*begun_ms == 0)
		*begun_ms = missing_since_ms(right, now_ms);
	ConditionVariablePrepareToSleep(&leasing->changed);
	while (sf_shmem_right() == right)
	{
		int64		left = *begun_ms + sf_lease_wait -
			sf_clock_monotonic_ms();

		if (left <= 0)
		{
			ConditionVariableCancelSleep();
			sf_lease_wait_refuse();
		}
		(void) ConditionVariableTimedSleep(&leasing->changed,
										   Min(left, LOOK_MS),
										   sf_wait_event(&wait_event_lease,
														 "SnowflakeLease"));
	}
	ConditionVariableCancelSleep();
}

/*
 * Add to an error that ends the wait for what the call waited.  Looks nothing
 * up in the catalogs, so it shows the text for everybody.
 */
void
sf_lease_wait_explain(int64 begun_ms)
{
	int64		until_ms = sf_clock_wall_ms() - sf_clock_monotonic_ms() +
		begun_ms + sf_lease_wait;
	const SfLeaseStatus *status = &sf_shmem->leasing.status;
	char		problem[SF_REASON_SIZE] = "";

	LWLockAcquire(sf_shmem->lock, LW_SHARED);
	if (status->problem[0] != '\0')
		strlcpy(problem, status->public_problem, sizeof(problem));
	LWLockRelease(sf_shmem->lock);
	sf_text_make_valid(problem);
	errcontext("waiting until %s for a lease of a node id%s%s",
			   sf_timefmt_show(until_ms), problem[0] == '\0' ? "" : ": ",
			   problem);
}
