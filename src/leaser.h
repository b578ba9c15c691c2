/*-------------------------------------------------------------------------
 *
 * leaser.h
 *	  The worker that leases this server's node id and its shards.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASER_H
#define SF_LEASER_H

#include "shard_lease.h"

extern void sf_leaser_register(void);

/* leaser.c, for the others */
extern SfMoment sf_leaser_clocks(void);

/* leaser_publish.c, for leaser.c */
extern void sf_leaser_publish(const SfRight *right);
extern int64_t sf_leaser_close(void);

/* leaser_publish_shards.c, for leaser_shards.c */
extern void sf_leaser_publish_shards(const SfShardRight *right);
extern int64_t sf_leaser_close_shards_but(const uint32_t *these);

/* leaser_shards.c, for leaser.c */
extern const SfAsk *sf_leaser_shards_init(const SfLeaseConfig *config,
										  SfMoment now);
extern void sf_leaser_shards_step(const SfLeaseConfig *config, SfMoment now);
extern void sf_leaser_shards_answered(const SfAnswer *answer);
extern void sf_leaser_shards_publish(void);
extern void sf_leaser_shards_release(SfMoment now);
extern bool sf_leaser_shards_have_ended(void);
extern int64_t sf_leaser_shards_wake_ms(void);

#endif							/* SF_LEASER_H */
