/*-------------------------------------------------------------------------
 *
 * registrar.h
 *	  What administrators have the worker ask the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRAR_H
#define SF_REGISTRAR_H

#include "registry.h"
#include "storage/shm_mq.h"

typedef enum SfJobKind
{
	SF_JOB_INIT,
	SF_JOB_RECOVER,
	SF_JOB_SLOTS,
	SF_JOB_RELEASE
} SfJobKind;

/*
 * A job, at the start of a dynamic segment that the session has made.  A queue
 * follows, by which the worker answers: with one SfJobReply, and then as many
 * SfRecords as that says.
 */
typedef struct SfJob
{
	uint64_t	magic;
	SfJobKind	kind;
	SfLayout	layout;			/* to make a registry with */
	char		layout_text[SF_LAYOUT_TEXT_SIZE];
	int64_t		ahead_ms;		/* recover: from the registry's clock on */
	uint32_t	node;			/* release */
} SfJob;

#define SF_JOB_MAGIC		UINT64CONST(0x736e6f77666c616b)
#define SF_JOB_QUEUE_SIZE	65536
#define SF_JOB_SIZE			(MAXALIGN(sizeof(SfJob)) + SF_JOB_QUEUE_SIZE)
#define SF_JOB_QUEUE(job) \
	((shm_mq *) ((char *) (job) + MAXALIGN(sizeof(SfJob))))

typedef enum SfJobEnd
{
	SF_JOB_DONE,
	SF_JOB_REFUSED,				/* nothing was changed */
	SF_JOB_UNKNOWN				/* or it was */
} SfJobEnd;

typedef struct SfJobReply
{
	SfJobEnd	end;
	bool		changed;		/* it was not so before */
	int64_t		floor;			/* of the registry, in its ticks */
	char		layout[SF_LAYOUT_TEXT_SIZE];	/* empty: there is none */
	int			nrecords;
	char		message[512];	/* if it was not done: the last answer */
	bool		is_private;		/* that names roles, hosts or paths */
	SfFailure	failure;		/* then of which kind it is */
} SfJobReply;

/* In the worker. */
extern SfAsk sf_registrar_ask;
extern void sf_registrar_start(uint64_t (*random) (void));
extern void sf_registrar_step(uint64_t sent);
extern void sf_registrar_answered(const SfAnswer *answer);

#endif							/* SF_REGISTRAR_H */
