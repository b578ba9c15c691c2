/*-------------------------------------------------------------------------
 *
 * writer.h
 *	  What a transaction that makes IDs says of itself, and leaves behind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WRITER_H
#define SF_WRITER_H

#include "state.h"

/*
 * What this transaction has said: that it makes IDs of the node, and from
 * which tick on those of shards.  To be seen to before each swap.
 */
extern bool sf_writer_entered;
extern uint64 sf_writer_tick;

extern void sf_writer_register(void);
extern void sf_writer_enter_node(void);
extern void sf_writer_enter_tick(uint64 tick);
extern uint64 sf_writer_first_xid(void);

/* The transaction will make IDs of shards, none of them before this tick. */
static inline void
sf_writer_enter_shard(uint64 tick)
{
	if (unlikely(tick < sf_writer_tick))
		sf_writer_enter_tick(tick);
}

#endif							/* SF_WRITER_H */
