/*-------------------------------------------------------------------------
 *
 * registrar.c
 *	  What administrators have the worker ask the registry.
 *
 * Only the worker loads the registry's library.  So a session leaves a job on
 * the desk in shared memory, which the worker takes, one at a time: it reads
 * the registry, then writes what is to be changed, on the condition that it is
 * as it was read, and hands back what came of it.
 *
 * Each job has a random number that its writes carry.  After one of unknown
 * outcome a reading tells by it whether it was made.  If it was not, the same
 * is asked again: a write that comes late finds its condition broken, or makes
 * what was asked for.
 *
 * A session that gives up, or ends, takes its segment with it: a job that was
 * not taken yet is not there any more, and another is finished for nobody.  A
 * worker that ends leaves the queue, which its session notices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "registrar.h"

#include "claim.h"
#include "clock.h"
#include "miscadmin.h"
#include "settings.h"
#include "state.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* So often the registry may have changed meanwhile, or have kept silent. */
#define MAX_TRIES		5

/* A request waits for those of others, before it has its own time. */
#define WAIT_TIMEOUTS	3

SfAsk		sf_registrar_ask;	/* NOTHING: there is nothing to ask */

static uint64_t (*random_number) (void);

/* The job that is done; segment is NULL if there is none. */
static MemoryContext context;
static dsm_segment *segment;
static shm_mq_handle *queue;
static SfJob job;
static uint64 mark;				/* its number */
static int	tries;
static bool unsure;				/* a write may have been made, or be yet */
static char why_unsure[512];
static int64 due_ms;			/* of what is asked; monotonic */
static bool timed;				/* since it was sent */

static bool replying;
static SfJobReply reply;
static SfRecord *records;
static int	nsent;				/* of the reply and the records */

/* ---- jobs ---- */

static void
stop_working(int code, Datum arg)
{
	SfDesk	   *desk = &sf_state->desk;

	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	desk->worker = NULL;
	desk->pid = 0;
	desk->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_state->lock);
	ConditionVariableBroadcast(&desk->changed);
}

/* From now on this process takes jobs. */
void
sf_registrar_start(uint64_t (*random) (void))
{
	SfDesk	   *desk = &sf_state->desk;

	random_number = random;
	context = AllocSetContextCreate(TopMemoryContext, "snowflake registrar",
									ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(stop_working, (Datum) 0);
	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	desk->worker = MyLatch;
	desk->pid = MyProcPid;
	desk->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_state->lock);
}

/* Take the job on the desk; false if there is none. */
static bool
take_job(void)
{
	SfDesk	   *desk = &sf_state->desk;
	MemoryContext before;
	dsm_handle	handle;
	SfJob	   *posted;

	LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
	handle = desk->job;
	desk->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_state->lock);
	if (handle == DSM_HANDLE_INVALID)
		return false;
	ConditionVariableBroadcast(&desk->changed);
	segment = dsm_attach(handle);
	if (segment == NULL)
		return false;			/* its session has given up */
	posted = dsm_segment_address(segment);
	if (dsm_segment_map_length(segment) < SF_JOB_SIZE ||
		posted->magic != SF_JOB_MAGIC)
	{
		dsm_detach(segment);
		segment = NULL;
		return false;
	}
	job = *posted;
	before = MemoryContextSwitchTo(context);
	shm_mq_set_sender(SF_JOB_QUEUE(posted), MyProc);
	queue = shm_mq_attach(SF_JOB_QUEUE(posted), segment, NULL);
	MemoryContextSwitchTo(before);
	mark = random_number() | 1;
	tries = 0;
	unsure = false;
	memset(&reply, 0, sizeof(reply));
	return true;
}

/* Send as much of the answer as there is room for. */
static void
go_on_replying(void)
{
	shm_mq_result result = SHM_MQ_SUCCESS;

	while (nsent <= reply.nrecords && result == SHM_MQ_SUCCESS)
	{
		result = nsent == 0 ?
			shm_mq_send(queue, sizeof(reply), &reply, true, true) :
			shm_mq_send(queue, sizeof(SfRecord), &records[nsent - 1], true,
						true);
		if (result == SHM_MQ_SUCCESS)
			nsent++;
	}
	if (result == SHM_MQ_WOULD_BLOCK)
		return;
	shm_mq_detach(queue);
	dsm_detach(segment);
	segment = NULL;
	replying = false;
	MemoryContextReset(context);
}

static void
finish(SfJobEnd end, const char *message)
{
	reply.end = end;
	strlcpy(reply.message, message, sizeof(reply.message));
	sf_registrar_ask.kind = SF_ASK_NOTHING;
	nsent = 0;
	replying = true;
	go_on_replying();
}

/* With what the registry's library has said. */
static void
finish_failed(SfJobEnd end, const char *message)
{
	reply.is_private = true;
	finish(end, message);
}

static void
finish_done(bool changed)
{
	reply.changed = changed;
	finish(SF_JOB_DONE, "");
}

/* ---- requests ---- */

static SfAsk *
ask(SfAskKind kind)
{
	SfAsk	   *a = &sf_registrar_ask;
	uint64_t	number = a->number + 1;

	memset(a, 0, sizeof(SfAsk));
	a->kind = kind;
	a->number = number;
	timed = false;
	due_ms = sf_clock_monotonic_ms() + WAIT_TIMEOUTS * sf_leasing_timeout;
	a->deadline_ms = due_ms;
	return a;
}

/* The registry's time or ours, whichever is later, as one of its ticks. */
static int64
find_tick(const SfLayout *layout, const SfAnswer *answer, int64 ahead_ms)
{
	int64		ms = Max(sf_clock_wall_ms(),
						 answer->clock_ms + answer->clock_step_ms);

	return Max(0, sf_layout_ms_to_tick(layout, ms + ahead_ms) + 1 -
			   layout->epoch_tick);
}

/*
 * A time is to be written into the registry that nobody may begin before, and
 * which cannot be taken back.  If it says what time it is, that has to be near
 * ours, which is read later by as much as an answer may take.
 */
static bool
clocks_agree(const SfAnswer *answer)
{
	int64		offset = sf_clock_wall_ms() - answer->clock_ms;
	char		message[200];

	if (answer->clock_ms == 0 ||
		(offset >= -SF_CLAIM_MAX_OFFSET_MS &&
		 offset <= SF_CLAIM_MAX_OFFSET_MS + sf_leasing_timeout))
		return true;
	snprintf(message, sizeof(message),
			 "The wall clock is %lld ms %s that of the registry: set right which of them is wrong.",
			 (long long) (offset < 0 ? -offset : offset),
			 offset < 0 ? "behind" : "ahead of");
	finish(SF_JOB_REFUSED, message);
	return false;
}

static void
ask_to_initialize(const SfAnswer *answer)
{
	SfAsk	   *a = ask(SF_ASK_INITIALIZE);

	a->new_generation = mark;
	a->new_floor = find_tick(&job.layout, answer, job.ahead_ms);
	a->new_layout = &job.layout;
	a->new_layout_text = job.layout_text;
	reply.floor = a->new_floor;
	strlcpy(reply.layout, job.layout_text, sizeof(reply.layout));
}

/* Nobody is to begin before what the registry has, or may have forgotten. */
static void
ask_to_recover(const SfRegistry *registry, const SfAnswer *answer)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];
	SfAsk	   *a;

	if (!sf_layout_parse(&layout, registry->layout, reason, sizeof(reason)))
	{
		finish(SF_JOB_REFUSED, "The registry's layout is none.");
		return;
	}
	a = ask(SF_ASK_RECOVER);
	a->generation = registry->generation;
	a->new_generation = mark;
	a->new_floor = Max(find_tick(&layout, answer, job.ahead_ms),
					   registry->floor);
	for (int i = 0; i < registry->nrecords; i++)
		a->new_floor = Max(a->new_floor, registry->records[i].until);
	reply.floor = a->new_floor;
}

static void
ask_to_release(const SfRegistry *registry, const SfRecord *record)
{
	SfAsk	   *a = ask(SF_ASK_RELEASE);

	a->generation = registry->generation;
	a->version = record->version;
	a->displaced = record->present;
	a->record = *record;
	a->record.owner = 0;
	a->record.write_id = mark;
	a->record.released = true;
}

/* ---- answers ---- */

static void
list_slots(const SfRegistry *registry)
{
	Size		size = sizeof(SfRecord) * registry->nrecords;

	if (size > 0)
	{
		records = MemoryContextAllocExtended(context, size,
											 MCXT_ALLOC_HUGE |
											 MCXT_ALLOC_NO_OOM);
		if (records == NULL)
		{
			finish(SF_JOB_REFUSED, "This server is out of memory.");
			return;
		}
		memcpy(records, registry->records, size);
	}
	reply.nrecords = registry->nrecords;
	finish_done(false);
}

/* Did a write of this job make what was read? */
static bool
was_made(const SfRegistry *registry, const SfRecord *record)
{
	if (!unsure)
		return false;
	if (job.kind == SF_JOB_RELEASE)
		return record != NULL && record->write_id == mark;
	return registry->initialized && registry->generation == mark;
}

/* The registry was read: what is there to be done? */
static void
decide(const SfRegistry *registry, const SfAnswer *answer)
{
	const SfRecord *record = sf_claim_find(registry, job.node);

	strlcpy(reply.layout, registry->layout, sizeof(reply.layout));
	if (was_made(registry, record))
	{
		reply.floor = registry->floor;
		finish_done(true);
	}
	else if (tries++ >= MAX_TRIES && unsure)
		finish_failed(SF_JOB_UNKNOWN, why_unsure);
	else if (tries > MAX_TRIES)
		finish(SF_JOB_REFUSED, "The registry changes all the time.");
	else if (job.kind == SF_JOB_SLOTS)
		list_slots(registry);
	else if (job.kind == SF_JOB_RELEASE)
	{
		if (record == NULL || (record->released && record->present == 0))
			finish_done(false);
		else
			ask_to_release(registry, record);
	}
	else if (registry->initialized && job.kind == SF_JOB_INIT)
		finish_done(false);
	else if (!clocks_agree(answer))
		return;
	else if (registry->initialized)
		ask_to_recover(registry, answer);
	else
		ask_to_initialize(answer);
}

/* There is no outcome; a write may have been made all the same. */
static void
take_failure(SfAskKind kind, SfResult result, SfFailure failure,
			 const char *message)
{
	reply.failure = failure;
	if (kind != SF_ASK_READ && result == SF_RESULT_UNKNOWN)
	{
		unsure = true;
		strlcpy(why_unsure, message, sizeof(why_unsure));
		ask(SF_ASK_READ);
	}
	else
		finish_failed(unsure ? SF_JOB_UNKNOWN : SF_JOB_REFUSED, message);
}

/* The registry has answered. */
void
sf_registrar_answered(const SfAnswer *answer)
{
	SfAskKind	kind = sf_registrar_ask.kind;

	if (kind == SF_ASK_READ && answer->registry != NULL &&
		(answer->result == SF_RESULT_DONE || job.kind == SF_JOB_RECOVER))
		decide(answer->registry, answer);
	else if (answer->result == SF_RESULT_CONFLICT)
		ask(SF_ASK_READ);
	else if (answer->result == SF_RESULT_DONE)
		finish_done(true);
	else
		take_failure(kind, answer->result, answer->failure, answer->message);
}

/* ---- from the worker's loop ---- */

/* sent: the number of the last request that was sent to the registry. */
void
sf_registrar_step(uint64_t sent)
{
	if (!timed && sent == sf_registrar_ask.number)
	{
		timed = true;
		due_ms = sf_clock_monotonic_ms() + sf_leasing_timeout;
	}
	if (segment == NULL && take_job())
		ask(SF_ASK_READ);
	else if (replying)
		go_on_replying();
	else if (sf_registrar_ask.kind != SF_ASK_NOTHING &&
			 sf_clock_monotonic_ms() >= due_ms)
		take_failure(sf_registrar_ask.kind, SF_RESULT_UNKNOWN,
					 SF_FAILURE_UNREACHABLE,
					 "The registry did not answer in time.");
}
