/*-------------------------------------------------------------------------
 *
 * errand.c
 *	  A session's end of what the worker asks the registry for it.
 *
 * The segment with the job belongs to the transaction, which drops it when it
 * fails; then the worker finds nobody there.  What it was about to change it
 * may change all the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "errand.h"

#include "access/xlog.h"
#include "leased.h"
#include "miscadmin.h"
#include "settings.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/proc.h"

/* Look again as often whether the worker is there. */
#define LOOK_MS		1000

static dsm_segment *segment;
static shm_mq_handle *queue;
static SfJobKind kind;
static int	worker_pid;			/* that was to do it */

static uint32 wait_event_desk = 0;
static uint32 wait_event_errand = 0;

/* ---- refusals ---- */

/* There is no worker: SQLSTATE 55000. */
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
	sf_leased_status(&status);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the registry cannot be asked now"),
			 errdetail("The worker that asks it is not running.%s%s",
					   status.problem[0] != '\0' ? " " : "",
					   status.problem),
			 errhint("%s", status.remedy[0] != '\0' ? status.remedy :
					 "It is started again within seconds. See the server's log.")));
}

/* SQLSTATE 58000; the answer is a sentence, the remedy may be NULL. */
static void
refuse_failed(SfJobEnd end, const char *answer, const char *remedy)
{
	char		name[200];

	sf_leased_registry_name(name, sizeof(name));
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
					 "Call the function again when that is over.")));
}

/* As the worker has replied. */
static void
refuse_replied(const SfJobReply *reply)
{
	const char *answer = pstrdup(reply->message);
	const char *kind = sf_settings_registry_kind(sf_registry)->name;

	if (!reply->is_private)
		refuse_failed(reply->end, answer, NULL);
	if (!sf_leased_may_see_registry())
		answer = sf_registry_failure(reply->failure);
	refuse_failed(reply->end, answer,
				  sf_registry_remedy(kind, reply->failure));
}

/* ---- the desk ---- */

static bool
is_working(int pid)
{
	bool		is;

	LWLockAcquire(sf_state->lock, LW_SHARED);
	is = pid != 0 && sf_state->desk.pid == pid;
	LWLockRelease(sf_state->lock);
	return is;
}

/* Leave the job on the desk, if there is room; or else false. */
static bool
post(void)
{
	SfDesk	   *desk = &sf_state->desk;
	bool		posted = false;

	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	worker_pid = desk->pid;
	if (worker_pid != 0 && desk->job == DSM_HANDLE_INVALID)
	{
		posted = true;
		desk->job = dsm_segment_handle(segment);
		SetLatch(desk->worker);
	}
	LWLockRelease(sf_state->lock);
	return posted;
}

/* Others' jobs are taken before; one that was given up is cleared away. */
static void
post_when_free(void)
{
	SfDesk	   *desk = &sf_state->desk;

	ConditionVariablePrepareToSleep(&desk->changed);
	while (!post())
	{
		if (worker_pid == 0)
			refuse_without_worker();
		(void) ConditionVariableTimedSleep(&desk->changed, LOOK_MS,
										   sf_wait_event(&wait_event_desk,
														 "SnowflakeDesk"));
	}
	ConditionVariableCancelSleep();
}

/* The next message, which has this size. */
static const void *
receive(Size size)
{
	for (;;)
	{
		bool		working = is_working(worker_pid);
		Size		received;
		void	   *message;
		shm_mq_result result = shm_mq_receive(queue, &received, &message,
											  true);

		if (result == SHM_MQ_SUCCESS)
		{
			if (received != size)
				elog(ERROR, "unexpected message of %zu bytes", received);
			return message;
		}
		if (result == SHM_MQ_DETACHED || !working)
			refuse_failed(kind == SF_JOB_SLOTS ? SF_JOB_REFUSED :
						  SF_JOB_UNKNOWN,
						  "The worker that was asking it has ended.", NULL);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOOK_MS, sf_wait_event(&wait_event_errand,
												"SnowflakeErrand"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---- from outside ---- */

/*
 * Have the worker do it, and wait for that; may be cancelled.  Throws SQLSTATE
 * 55000 (there is no worker) or 58000 (it was not done, or nobody knows).
 * Then as many records are to be fetched as the reply says.
 */
const SfJobReply *
sf_errand_begin(const SfJob *job)
{
	SfJob	   *posted;
	const SfJobReply *reply;

	kind = job->kind;
	segment = dsm_create(SF_JOB_SIZE, 0);
	posted = dsm_segment_address(segment);
	*posted = *job;
	posted->magic = SF_JOB_MAGIC;
	shm_mq_create(SF_JOB_QUEUE(posted), SF_JOB_QUEUE_SIZE);
	shm_mq_set_receiver(SF_JOB_QUEUE(posted), MyProc);
	queue = shm_mq_attach(SF_JOB_QUEUE(posted), segment, NULL);
	post_when_free();
	reply = receive(sizeof(SfJobReply));
	if (reply->end != SF_JOB_DONE)
		refuse_replied(reply);
	return reply;
}

/* Lives until the next one. */
const SfRecord *
sf_errand_next(void)
{
	return receive(sizeof(SfRecord));
}

void
sf_errand_end(void)
{
	shm_mq_detach(queue);
	dsm_detach(segment);
}
