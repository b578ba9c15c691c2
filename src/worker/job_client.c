/*-------------------------------------------------------------------------
 *
 * job_client.c
 *	  Client side of registry jobs: a backend submits one to the lease worker
 *	  and waits for its reply.
 *
 * The segment with the job belongs to the transaction.  If the transaction
 * fails, it drops the segment, and the worker finds no session there.  The
 * registry may still be changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "worker/job_client.h"

#include "access/xlog.h"
#include "base/text.h"
#include "identity/lease_wait.h"
#include "miscadmin.h"
#include "runtime/settings.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/proc.h"

/* How often to check whether the worker is there. */
#define LOOK_MS		1000

/* The job of this session. */
static struct
{
	dsm_segment *segment;
	shm_mq_handle *queue;
	SfJobKind	kind;
	int			worker_pid;		/* the worker that got the job */
}			submitted;

static uint32 wait_event_mailbox = 0;
static uint32 wait_event_job = 0;

/* ---- errors ---- */

/* Throw SQLSTATE 55000: there is no worker. */
static void
refuse_without_worker(void)
{
	SfLeaseStatus status;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the registry cannot be asked during recovery"),
				 errdetail("The worker that asks it is started when this server is promoted."),
				 errhint("Connect to a primary that has the same snowflake.registry.")));
	sf_lease_wait_status(&status);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the registry cannot be asked now"),
			 errdetail("The worker that asks it is not running.%s%s",
					   status.problem[0] != '\0' ? " " : "",
					   status.problem),
			 errhint("%s", status.remedy[0] != '\0' ? status.remedy :
					 "It is started again within seconds. See the server's log.")));
}

/* Throw SQLSTATE 58000.  The answer is a sentence, the remedy may be NULL. */
static void
refuse_failed(SfJobEnd end, const char *answer, const char *remedy)
{
	char		name[200];

	sf_lease_wait_registry_name(name, sizeof(name));
	if (end == SF_JOB_UNKNOWN)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("it is not known whether the registry was changed"),
				 errdetail("The registry is \"%s\". %s", name, answer),
				 errhint("When it answers again, look at snowflake_registry_slots(), or repeat the call.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the registry has not done what it was asked"),
			 errdetail("The registry is \"%s\". %s", name, answer),
			 errhint("Nothing was changed. %s", remedy != NULL ? remedy :
					 "Call the function again when the problem is over.")));
}

/* Throw the error of the worker's reply. */
static void
refuse_replied(const SfJobReply *reply)
{
	char	   *message = pstrdup(reply->message);
	const char *answer = message;
	const char *kind = sf_settings_registry_kind(sf_registry)->name;

	sf_text_make_valid(message);
	if (reply->end == SF_JOB_LOST)
		refuse_failed(reply->end, answer,
					  "If snowflake.registry names the right one, run here: SELECT snowflake_registry_recover('90 s'), with the largest snowflake.lease_reserve of all servers.");
	if (!reply->is_private)
		refuse_failed(reply->end, answer, NULL);
	if (!sf_lease_wait_may_see_registry())
		answer = sf_registry_failure(reply->failure);
	refuse_failed(reply->end, answer,
				  sf_registry_remedy(kind, reply->failure));
}

/* ---- the mailbox ---- */

static bool
is_working(int pid)
{
	bool		is;

	LWLockAcquire(sf_shmem->lock, LW_SHARED);
	is = pid != 0 && sf_shmem->mailbox.pid == pid;
	LWLockRelease(sf_shmem->lock);
	return is;
}

/* Put the job into the mailbox; return false if there is no room. */
static bool
post(void)
{
	SfJobMailbox *mailbox = &sf_shmem->mailbox;
	bool		posted = false;

	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	submitted.worker_pid = mailbox->pid;
	if (submitted.worker_pid != 0 && mailbox->job == DSM_HANDLE_INVALID)
	{
		posted = true;
		mailbox->job = dsm_segment_handle(submitted.segment);
		SetLatch(mailbox->worker);
	}
	LWLockRelease(sf_shmem->lock);
	return posted;
}

/* Wait for room in the mailbox, and put the job there. */
static void
post_when_free(void)
{
	SfJobMailbox *mailbox = &sf_shmem->mailbox;

	ConditionVariablePrepareToSleep(&mailbox->changed);
	while (!post())
	{
		if (submitted.worker_pid == 0)
			refuse_without_worker();
		(void) ConditionVariableTimedSleep(&mailbox->changed, LOOK_MS,
										   sf_wait_event(&wait_event_mailbox,
														 "SnowflakeJobMailbox"));
	}
	ConditionVariableCancelSleep();
}

/* Receive the next message, which must have this size. */
static const void *
receive(Size size)
{
	for (;;)
	{
		bool		working = is_working(submitted.worker_pid);
		Size		received;
		void	   *message;
		shm_mq_result result = shm_mq_receive(submitted.queue, &received,
											  &message,
											  true);

		if (result == SHM_MQ_SUCCESS)
		{
			if (received != size)
				elog(ERROR, "unexpected message of %zu bytes", received);
			return message;
		}
		if (result == SHM_MQ_DETACHED || !working)
			refuse_failed(submitted.kind == SF_JOB_SLOTS ?
						  SF_JOB_REFUSED : SF_JOB_UNKNOWN,
						  "The worker that was asking it has ended.", NULL);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOOK_MS, sf_wait_event(&wait_event_job,
												"SnowflakeJob"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---- functions for SQL functions ---- */

/*
 * Throw SQLSTATE 55000 if the worker has no registry to ask.  The name is what
 * follows "snowflake_registry_" in the function's.  In the database of a
 * registry in PostgreSQL, it is the whole name of the function.
 */
void
sf_job_require_registry(const char *name)
{
	if (sf_shmem == NULL || !sf_settings_leases())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server leases from no registry"),
				 errhint("Set snowflake.registry, and restart the server. In the database of a registry in PostgreSQL, call snowflake_registry.%s() in place of snowflake_registry_%s().",
						 name, name)));
}

/*
 * Submit a job and wait for its reply, which may be cancelled.  Throws
 * SQLSTATE 55000 (there is no worker) or 58000 (it was not done, or that is
 * unknown).  Then fetch as many rows as the reply says.
 */
const SfJobReply *
sf_job_begin(const SfJob *job)
{
	SfJob	   *posted;
	const SfJobReply *reply;

	submitted.kind = job->kind;
	submitted.segment = dsm_create(SF_JOB_SIZE, 0);
	posted = dsm_segment_address(submitted.segment);
	*posted = *job;
	posted->magic = SF_JOB_MAGIC;
	shm_mq_create(SF_JOB_QUEUE(posted), SF_JOB_QUEUE_SIZE);
	shm_mq_set_receiver(SF_JOB_QUEUE(posted), MyProc);
	submitted.queue = shm_mq_attach(SF_JOB_QUEUE(posted), submitted.segment,
									NULL);
	post_when_free();
	reply = receive(sizeof(SfJobReply));
	if (reply->end != SF_JOB_DONE)
		refuse_replied(reply);
	return reply;
}

/* Return the next row, which lives until the next call. */
const void *
sf_job_next(Size size)
{
	return receive(size);
}

void
sf_job_end(void)
{
	shm_mq_detach(submitted.queue);
	dsm_detach(submitted.segment);
}
