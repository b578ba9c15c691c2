/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Identity of this server: is its data directory a copy of another
 *	  server's?
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IDENTITY_H
#define SF_IDENTITY_H

#include "identity/servers.h"
#include "layout/layout.h"
#include "layout/server_number.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

extern void sf_identity_at_start(void);
extern uint64 sf_identity_server(void);
extern SfServerNumber sf_identity_primary(void);
extern bool sf_identity_look(void);
extern bool sf_identity_runs_twice(void);
extern bool sf_identity_is_copy(void);
extern bool sf_identity_refuses_node(void);
extern bool sf_identity_refuses_shards(void);
extern void sf_identity_accept(void);
extern void sf_identity_retry(void);
extern bool sf_identity_may_become(SfServerNumber node);
extern void sf_identity_become(SfServerNumber node);
extern uint64_t sf_identity_random(void);
extern char *sf_identity_separate(bool node);
extern char *sf_identity_copy_remedy(void);
extern char *sf_identity_promoted_remedy(void);

/* identity.c, for the functions below */
extern bool sf_identity_require_slowly(SfServerNumber node);
extern void sf_identity_require_shard_slowly(uint32 shard);

/*
 * Check, before this server issues with this node, that it is no copy that
 * must not, and that the list of servers has the node.  With a leased node
 * there is nothing to check.  Return false if a reload is changing the node.
 */
static inline bool
sf_identity_require(SfServerNumber node)
{
	return pg_atomic_read_u64(&sf_shmem->identity.node) ==
		(node | SF_NODE_RECORDED | SF_NODE_HELD) ||
		sf_identity_require_slowly(node);
}

/* Return true if another server was seen that had this server's node. */
static inline bool
sf_identity_has_rival(void)
{
	return (pg_atomic_read_u64(&sf_shmem->identity.node) & SF_NODE_SEEN) != 0;
}

static inline void
sf_identity_require_shard(uint32 shard)
{
	SfIdentity *identity = &sf_shmem->identity;

	if ((pg_atomic_read_u32(&identity->held_shards[shard / 32]) >>
		 (shard % 32) & 1) == 0 ||
		(pg_atomic_read_u32(&identity->shards) & SF_SHARDS_COPIED) != 0)
		sf_identity_require_shard_slowly(shard);
}

/* right.c */
extern void sf_right_at_load(void);
extern void sf_right_change_node(SfServerNumber last, SfServerNumber node,
								 uint64 until);

/* lock.c */
#define SF_SHARD_LOCK	(UINT64CONST(1) << 32)	/* number of shard 0 there */

extern void sf_lock_begin(uint64 family);
extern void sf_lock_open(void);
extern void sf_lock_close(void);
extern bool sf_lock_is_busy(bool seen);
extern uint64 sf_lock_file(void);
extern const char *sf_lock_name(void);
extern bool sf_lock_is_free(uint64 number, const SfServers *list);
extern int64 sf_lock_take(uint64 number, bool standby);
extern int	sf_lock_seen(void);

/* node.c: the configured node of this server */
extern bool sf_node_find(uint32 *first, uint32 *last,
						 char *reason, size_t reason_size);
extern SfServerNumber sf_node_configured(void);
extern void sf_node_take_at_start(void);
extern void sf_node_require_fit(const SfLayout *layout, uint32 node);
extern void sf_node_require_own_fit(const SfLayout *layout);
extern char *sf_node_remedy(void);
extern char *sf_node_change_remedy(void);
extern void sf_node_take(void);
extern bool sf_node_was_leased(void);

/* lease_wait.c: the lease as sessions see it */
extern void sf_lease_wait_explain(int64 begun_ms);
extern void sf_lease_wait_sleep(uint64 right, int64 *begun_ms);
extern void sf_lease_wait_refuse(void);
extern bool sf_lease_wait_may_see_registry(void);
extern void sf_lease_wait_registry_name(char *name, size_t size);
extern bool sf_lease_wait_has_expired(void);
extern void sf_lease_wait_status(SfLeaseStatus *status);

#endif							/* SF_IDENTITY_H */
