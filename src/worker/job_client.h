/*-------------------------------------------------------------------------
 *
 * job_client.h
 *	  Client side of registry jobs: a backend submits one to the lease worker
 *	  and waits for its reply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_JOB_CLIENT_H
#define SF_JOB_CLIENT_H

#include "worker/job.h"

extern const SfJobReply *sf_job_begin(const SfJob *job);
extern const SfSlotRecord *sf_job_next(void);
extern void sf_job_end(void);

#endif							/* SF_JOB_CLIENT_H */
