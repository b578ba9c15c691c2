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
extern const void *sf_job_next(Size size);
extern void sf_job_require_registry(const char *name);
extern void sf_job_end(void);

#endif							/* SF_JOB_CLIENT_H */
