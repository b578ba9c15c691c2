/*-------------------------------------------------------------------------
 *
 * job_worker.c
 *	  Worker side of registry jobs: takes them, asks the registry, and replies.
 *
 * Only the worker loads the registry's library.  So a session leaves a job in
 * the mailbox in shared memory.  The worker takes one job at a time.  It reads
 * the registry, then writes the change, on the condition that the registry is
 * as it was read, and returns the outcome.
 *
 * Each write of a job carries a random number.  After a write of unknown
 * outcome, a reading shows by that number whether it was made.  If not, the
 * same write is requested again: a write that comes late then fails its
 * condition, or makes the wanted change.  If it was made, a failover may still
 * forget it (lease.c).  So another write is made on top of it, and the job is
 * done when that one is acknowledged.
 *
 * A session that gives up, or ends, removes its segment: a job that was not
 * taken yet is gone, and one that was taken is finished without a receiver.  A
 * worker that ends leaves the queue, which its session notices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "worker/job.h"

#include "base/clock.h"
#include "lease/shard_map.h"
#include "lease/slot_choice.h"
#include "miscadmin.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* How often the registry may change meanwhile, or not answer. */
#define MAX_TRIES		5

/* How long a request may wait for other requesters, in time-outs. */
#define WAIT_TIMEOUTS	3

SfAsk		sf_job_worker_ask;	/* SF_ASK_NOTHING: no request */

static uint64_t (*random_number) (void);
static const SfAge *age;

static MemoryContext context;	/* of the current job */

typedef enum JobState
{
	JOB_NONE,					/* there is no job */
	JOB_ASKING,					/* a request waits, or was sent */
	JOB_REPLYING				/* the reply waits for room in the queue */
} JobState;

/* The current job, and what is done about it. */
static struct
{
	JobState	state;
	dsm_segment *segment;
	shm_mq_handle *queue;
	SfJob		job;

	/* Its requests to the registry. */
	uint64		write_id;		/* the number of its last write, or next */
	int			tries;
	bool		unsure;			/* a write may have been made, or be yet */
	char		why_unsure[512];
	int64		due_ms;			/* the request's deadline; monotonic */
	bool		timed;			/* the deadline counts since it was sent */

	/* Its reply. */
	SfJobReply	reply;
	char	   *rows;
	int			nsent;			/* messages sent: the reply and the rows */
}			work;

/* ---- jobs ---- */

static void
stop_working(int code, Datum arg)
{
	SfJobMailbox *mailbox = &sf_shmem->mailbox;

	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	mailbox->worker = NULL;
	mailbox->pid = 0;
	mailbox->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_shmem->lock);
	ConditionVariableBroadcast(&mailbox->changed);
}

/* Take jobs in this process from now on. */
void
sf_job_worker_start(uint64_t (*random) (void), const SfAge *known)
{
	SfJobMailbox *mailbox = &sf_shmem->mailbox;

	random_number = random;
	age = known;
	context = AllocSetContextCreate(TopMemoryContext, "snowflake jobs",
									ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(stop_working, (Datum) 0);
	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	mailbox->worker = MyLatch;
	mailbox->pid = MyProcPid;
	mailbox->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_shmem->lock);
}

/* Take the job in the mailbox; return false if there is none. */
static bool
take_job(void)
{
	SfJobMailbox *mailbox = &sf_shmem->mailbox;
	MemoryContext before;
	dsm_handle	handle;
	dsm_segment *segment;
	SfJob	   *posted;

	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	handle = mailbox->job;
	mailbox->job = DSM_HANDLE_INVALID;
	LWLockRelease(sf_shmem->lock);
	if (handle == DSM_HANDLE_INVALID)
		return false;
	ConditionVariableBroadcast(&mailbox->changed);
	segment = dsm_attach(handle);
	if (segment == NULL)
		return false;			/* its session has given up */
	posted = dsm_segment_address(segment);
	if (dsm_segment_map_length(segment) < SF_JOB_SIZE ||
		posted->magic != SF_JOB_MAGIC)
	{
		dsm_detach(segment);
		return false;
	}
	work.state = JOB_ASKING;
	work.segment = segment;
	work.job = *posted;
	before = MemoryContextSwitchTo(context);
	shm_mq_set_sender(SF_JOB_QUEUE(posted), MyProc);
	work.queue = shm_mq_attach(SF_JOB_QUEUE(posted), segment, NULL);
	MemoryContextSwitchTo(before);
	work.write_id = random_number() | 1;
	work.tries = 0;
	work.unsure = false;
	memset(&work.reply, 0, sizeof(work.reply));
	return true;
}

/* Send as much of the reply as there is room for. */
static void
send_reply(void)
{
	shm_mq_result result = SHM_MQ_SUCCESS;

	while (work.nsent <= work.reply.nrows && result == SHM_MQ_SUCCESS)
	{
		if (work.nsent == 0)
			result = shm_mq_send(work.queue, sizeof(work.reply), &work.reply,
								 true, true);
		else
			result = shm_mq_send(work.queue, work.reply.row_size,
								 work.rows + work.reply.row_size *
								 (work.nsent - 1), true, true);
		if (result == SHM_MQ_SUCCESS)
			work.nsent++;
	}
	if (result == SHM_MQ_WOULD_BLOCK)
		return;
	shm_mq_detach(work.queue);
	dsm_detach(work.segment);
	work.state = JOB_NONE;
	MemoryContextReset(context);
}

static void
finish(SfJobEnd end, const char *message)
{
	Assert(work.state == JOB_ASKING);
	work.reply.end = end;
	strlcpy(work.reply.message, message, sizeof(work.reply.message));
	sf_job_worker_ask.kind = SF_ASK_NOTHING;
	work.nsent = 0;
	work.state = JOB_REPLYING;
	send_reply();
}

/* Finish with a message of the registry's library. */
static void
finish_failed(SfJobEnd end, const char *message)
{
	work.reply.is_private = true;
	finish(end, message);
}

/* ---- requests ---- */

static SfAsk *
ask(SfAskKind kind)
{
	SfAsk	   *a = &sf_job_worker_ask;
	uint64_t	number = a->number + 1;

	memset(a, 0, sizeof(SfAsk));
	a->kind = kind;
	a->number = number;
	work.timed = false;
	work.due_ms = sf_clock_monotonic_ms() +
		WAIT_TIMEOUTS * sf_leasing_timeout;
	a->deadline_ms = work.due_ms;
	return a;
}

/* Return the layout's first tick after this time. */
static int64
tick_after(const SfLayout *layout, int64 ms)
{
	return Max(0, sf_layout_ms_to_tick(layout, ms) + 1 - layout->epoch_tick);
}

/* Return the later of the registry's time and ours, as a tick. */
static int64
find_tick(const SfLayout *layout, const SfAnswer *answer, int64 ahead_ms)
{
	return tick_after(layout, ahead_ms +
					  Max(sf_clock_wall_ms(),
						  answer->clock_ms + answer->clock_step_ms));
}

/*
 * Compare the clocks before a floor is written, which cannot be undone.  If
 * the registry tells its time, it must be near ours, which is read later by up
 * to the duration of an answer.
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
			 "The wall clock is %lld ms %s that of the registry: correct the one that is wrong.",
			 (long long) (offset < 0 ? -offset : offset),
			 offset < 0 ? "behind" : "ahead of");
	finish(SF_JOB_REFUSED, message);
	return false;
}

/* Parse the registry's record of shards; false if it is none. */
static bool
parse_shards(const SfRegistry *registry, SfShardMap **map)
{
	static SfShardMap parsed;
	char		reason[SF_REASON_SIZE];

	*map = &parsed;
	return registry->shards_version != 0 &&
		sf_shard_map_parse(&parsed, registry->shards, reason,
						   sizeof(reason));
}

/*
 * Return how far ahead any server may have reserved: the given value, or more
 * if this server or the registry knows of more, within a limit.
 */
static int64
find_ahead_ms(const SfRegistry *registry)
{
	SfShardMap *map;
	int64		largest = Max(work.job.reserve_ms, sf_leasing_reserve);

	for (int i = 0; i < registry->nrecords; i++)
		largest = Max(largest, registry->records[i].reserve_ms);
	if (parse_shards(registry, &map))
		largest = Max(largest, sf_shard_map_reserve_ms(map));
	largest = Min(largest, Max(work.job.reserve_ms, SF_JOB_AHEAD_MAX_MS));
	return work.job.ahead_ms + largest - work.job.reserve_ms;
}

/*
 * Return the floor of a recovery, before which no claim begins.  It is not
 * below what the registry has promised us.
 */
static int64
find_floor(const SfLayout *layout, const SfRegistry *registry,
		   const SfAnswer *answer)
{
	return Max(find_tick(layout, answer, find_ahead_ms(registry)),
			   tick_after(layout, sf_age_promised_ms(age)));
}

static void
ask_to_initialize(const SfRegistry *registry, const SfAnswer *answer)
{
	SfAsk	   *a = ask(SF_ASK_INITIALIZE);

	a->new_generation = work.write_id;
	a->new_floor = work.job.kind == SF_JOB_INIT ?
		find_tick(&work.job.layout, answer, 0) :
		find_floor(&work.job.layout, registry, answer);
	a->new_layout = &work.job.layout;
	a->new_layout_text = work.job.layout_text;
	work.reply.floor = a->new_floor;
	strlcpy(work.reply.layout, work.job.layout_text,
			sizeof(work.reply.layout));
}

/*
 * Request another generation on top of our own write that was read, with the
 * same floor.
 */
static void
ask_to_confirm(const SfRegistry *registry)
{
	SfAsk	   *a = ask(SF_ASK_RECOVER);

	a->generation = registry->generation;
	a->new_generation = work.write_id;
	a->new_floor = registry->floor;
	work.reply.floor = a->new_floor;
}

/* Request a recovery: no claim begins before what may be forgotten. */
static void
ask_to_recover(const SfRegistry *registry, const SfAnswer *answer)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];
	SfAsk	   *a;

	if (!sf_layout_parse(&layout, registry->layout, reason, sizeof(reason)))
	{
		finish(SF_JOB_REFUSED, "The registry's layout cannot be read.");
		return;
	}
	a = ask(SF_ASK_RECOVER);
	a->generation = registry->generation;
	a->new_generation = work.write_id;
	a->new_floor = Max(find_floor(&layout, registry, answer),
					   registry->floor);
	for (int i = 0; i < registry->nrecords; i++)
		a->new_floor = Max(a->new_floor, registry->records[i].until);
	work.reply.floor = a->new_floor;
}

static void
ask_to_release(const SfRegistry *registry, const SfSlotRecord *record)
{
	SfAsk	   *a = ask(SF_ASK_RELEASE);

	a->generation = registry->generation;
	a->version = record->version;
	a->displaced = record->present;
	a->record = *record;
	a->record.owner = 0;
	a->record.write_id = work.write_id;
	a->record.released = true;
}

/* ---- answers ---- */

/* Reply with a copy of these rows. */
static void
finish_with(const void *rows, int n, Size size)
{
	if (n > 0 && size > 0)
	{
		work.rows = MemoryContextAllocExtended(context, size * n,
											   MCXT_ALLOC_HUGE |
											   MCXT_ALLOC_NO_OOM);
		if (work.rows == NULL)
		{
			finish(SF_JOB_REFUSED, "This server is out of memory.");
			return;
		}
		memcpy(work.rows, rows, size * n);
	}
	work.reply.nrows = n;
	work.reply.row_size = size;
	finish(SF_JOB_DONE, "");
}

/* Return true if the reading shows that this job's last write was made. */
static bool
was_made(const SfRegistry *registry, const SfSlotRecord *record)
{
	if (!work.unsure)
		return false;
	if (work.job.kind == SF_JOB_RELEASE)
		return record != NULL && record->write_id == work.write_id;
	return registry->initialized && registry->generation == work.write_id;
}

/* Decide what to do after a reading of the registry. */
static void
decide(const SfRegistry *registry, const SfAnswer *answer)
{
	const SfSlotRecord *record = sf_slot_record_find(registry, work.job.node);

	strlcpy(work.reply.layout, registry->layout, sizeof(work.reply.layout));
	if (work.tries++ >= MAX_TRIES && work.unsure)
		finish_failed(SF_JOB_UNKNOWN, work.why_unsure);
	else if (work.tries > MAX_TRIES)
		finish(SF_JOB_REFUSED, "The registry keeps changing.");
	else if (was_made(registry, record))
	{
		work.write_id = random_number() | 1;
		if (work.job.kind == SF_JOB_RELEASE)
			ask_to_release(registry, record);
		else
			ask_to_confirm(registry);
	}
	else if (work.job.kind == SF_JOB_SLOTS)
		finish_with(registry->records, registry->nrecords,
					sizeof(SfSlotRecord));
	else if (work.job.kind == SF_JOB_RELEASE)
	{
		if (record == NULL || (record->released && record->present == 0))
			finish(SF_JOB_DONE, "");
		else
			ask_to_release(registry, record);
	}
	else if (registry->initialized && work.job.kind == SF_JOB_INIT)
		finish(SF_JOB_DONE, "");
	else if (work.job.kind == SF_JOB_INIT && !work.unsure &&
			 sf_age_promised_ms(age) > 0)
		finish(SF_JOB_LOST, "It is empty, and this server has leased from it: it has lost its data.");
	else if (!clocks_agree(answer))
		return;
	else if (registry->initialized)
		ask_to_recover(registry, answer);
	else
		ask_to_initialize(registry, answer);
}

/* Handle a failure.  A write may have been made nevertheless. */
static void
take_failure(SfAskKind kind, SfResult result, SfFailure failure,
			 const char *message)
{
	work.reply.failure = failure;
	if (kind != SF_ASK_READ && result == SF_RESULT_UNKNOWN)
	{
		work.unsure = true;
		strlcpy(work.why_unsure, message, sizeof(work.why_unsure));
		ask(SF_ASK_READ);
	}
	else
		finish_failed(work.unsure ? SF_JOB_UNKNOWN : SF_JOB_REFUSED, message);
}

/* Handle an answer of the registry. */
void
sf_job_worker_answered(const SfAnswer *answer)
{
	SfAskKind	kind = sf_job_worker_ask.kind;

	if (kind == SF_ASK_READ && answer->registry != NULL &&
		(answer->result == SF_RESULT_DONE || work.job.kind == SF_JOB_RECOVER))
		decide(answer->registry, answer);
	else if (answer->result == SF_RESULT_CONFLICT)
		ask(SF_ASK_READ);
	else if (answer->result == SF_RESULT_DONE)
	{
		work.reply.changed = true;
		finish(SF_JOB_DONE, "");
	}
	else
		take_failure(kind, answer->result, answer->failure, answer->message);
}

/* ---- called by the worker's loop ---- */

/* Do the next step.  "sent" is the number of the last request sent. */
void
sf_job_worker_step(uint64_t sent)
{
	if (!work.timed && sent == sf_job_worker_ask.number)
	{
		work.timed = true;
		work.due_ms = sf_clock_monotonic_ms() + sf_leasing_timeout;
	}
	if (work.state == JOB_NONE && take_job())
		ask(SF_ASK_READ);
	else if (work.state == JOB_REPLYING)
		send_reply();
	else if (work.state == JOB_ASKING &&
			 sf_clock_monotonic_ms() >= work.due_ms)
		take_failure(sf_job_worker_ask.kind, SF_RESULT_UNKNOWN,
					 SF_FAILURE_TIMEOUT,
					 "The registry did not answer in time.");
}
