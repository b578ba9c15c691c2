/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Which server this is, and what if it is a copy of another one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IDENTITY_H
#define SF_IDENTITY_H

#include "settings.h"
#include "state.h"

extern void sf_identity_at_start(void);
extern uint64 sf_identity_server(void);
extern bool sf_identity_is_copy(void);
extern bool sf_identity_refuses(void);
extern void sf_identity_accept(void);

/* identity.c, for what follows */
extern void sf_identity_require_slowly(uint32 node_plus_1);

/*
 * Before this server issues as this node, each + 1, or for a shard: 0.  It
 * must not be a copy that may not; and what is recorded is to name its node.
 * Nothing of this where the node is leased.
 */
static inline void
sf_identity_require(uint32 node_plus_1)
{
	SfIdentity *identity = &sf_state->identity;

	if (pg_atomic_read_u32(&identity->copied) != 0 ||
		(node_plus_1 != 0 &&
		 pg_atomic_read_u32(&identity->recorded) != node_plus_1))
		sf_identity_require_slowly(node_plus_1);
}

#endif							/* SF_IDENTITY_H */
