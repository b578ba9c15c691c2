/*-------------------------------------------------------------------------
 *
 * job.h
 *	  Jobs: requests of administrators to the registry, executed by the worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_JOB_H
#define SF_JOB_H

#include "lease/registry_age.h"
#include "storage/shm_mq.h"

typedef enum SfJobKind
{
	SF_JOB_INIT,
	SF_JOB_RECOVER,
	SF_JOB_SLOTS,
	SF_JOB_RELEASE
} SfJobKind;

/*
 * A job, at the start of a dynamic shared memory segment that the session has
 * created.  A queue for the reply follows: the worker sends one SfJobReply,
 * and then as many SfSlotRecords as that says.
 */
typedef struct SfJob
{
	uint64_t	magic;
	SfJobKind	kind;
	SfLayout	layout;			/* for a new registry */
	char		layout_text[SF_LAYOUT_TEXT_SIZE];
	int64_t		reserve_ms;		/* for recovery: the first argument */
	int64_t		ahead_ms;		/* both arguments together, from the
								 * registry's clock on */
	uint32_t	node;			/* for release */
} SfJob;

/* The longest wait that a recovery imposes. */
#define SF_JOB_AHEAD_MAX_MS	(INT64CONST(31) * 24 * 3600 * 1000)

#define SF_JOB_MAGIC		UINT64CONST(0x736e6f77666c616b)
#define SF_JOB_QUEUE_SIZE	65536
#define SF_JOB_SIZE			(MAXALIGN(sizeof(SfJob)) + SF_JOB_QUEUE_SIZE)
#define SF_JOB_QUEUE(job) \
	((shm_mq *) ((char *) (job) + MAXALIGN(sizeof(SfJob))))

typedef enum SfJobEnd
{
	SF_JOB_DONE,
	SF_JOB_REFUSED,				/* nothing was changed */
	SF_JOB_LOST,				/* nothing: the registry has lost its data */
	SF_JOB_UNKNOWN				/* it may have been changed */
} SfJobEnd;

typedef struct SfJobReply
{
	SfJobEnd	end;
	bool		changed;		/* the registry has been changed */
	int64_t		floor;			/* the registry's, in its ticks */
	char		layout[SF_LAYOUT_TEXT_SIZE];	/* empty: there is none */
	int			nrows;
	Size		row_size;
	char		message[512];	/* after a failure: the last answer */
	bool		is_private;		/* message names roles, hosts or paths */
	SfFailure	failure;		/* then its kind */
} SfJobReply;

/* Used in the worker. */
extern SfAsk sf_job_worker_ask;
extern void sf_job_worker_start(uint64_t (*random) (void),
								const SfAge *known);
extern void sf_job_worker_step(uint64_t sent);
extern void sf_job_worker_answered(const SfAnswer *answer);

#endif							/* SF_JOB_H */
