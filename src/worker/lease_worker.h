/*-------------------------------------------------------------------------
 *
 * lease_worker.h
 *	  The worker that leases this server's node id and its shards.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_WORKER_H
#define SF_LEASE_WORKER_H

#include "lease/shard_lease.h"

extern void sf_lease_worker_register(void);

/* lease_worker.c, used by the other files */
extern SfMoment sf_lease_worker_clocks(void);

/* age_file.c, used by lease_worker.c, and by sessions */
extern SfAge *sf_age_file_load(void);
extern void sf_age_file_keep(bool now);
extern int64_t sf_age_file_promised_ms(void);

/* publish_node.c, used by lease_worker.c */
extern void sf_publish_node(const SfRight *right);
extern int64_t sf_publish_close_node(void);

/* The leases that a next life may resume. */
typedef enum SfRemains
{
	SF_REMAINS_NODE,
	SF_REMAINS_SHARDS
} SfRemains;

#define SF_REMAINS	(SF_REMAINS_SHARDS + 1)

/* remains_file.c, used by lease_worker.c and shard_worker.c */
extern void sf_remains_file_load(SfRemains which, SfClaimant *claimant);
extern void sf_remains_file_keep(SfLease *lease, const SfShardRight *shards);

/* publish_shards.c, used by shard_worker.c */
extern void sf_publish_shards(const SfShardRight *right);
extern int64_t sf_publish_close_shards_but(const uint32_t *these);

/* shard_worker.c, used by lease_worker.c */
extern const SfAsk *sf_shard_worker_init(const SfLeaseConfig *config,
										 SfMoment now);
extern void sf_shard_worker_step(const SfLeaseConfig *config, SfMoment now);
extern void sf_shard_worker_answered(const SfAnswer *answer);
extern const SfShardRight *sf_shard_worker_right(void);
extern void sf_shard_worker_publish(void);
extern void sf_shard_worker_release(SfMoment now);
extern bool sf_shard_worker_have_ended(void);
extern int64_t sf_shard_worker_wake_ms(void);

#endif							/* SF_LEASE_WORKER_H */
