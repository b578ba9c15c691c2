/*-------------------------------------------------------------------------
 *
 * counts.h
 *	  Counts per process, added to shared memory at the end of each
 *	  transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COUNTS_H
#define SF_COUNTS_H

#include "portability/instr_time.h"
#include "runtime/shmem.h"

/* This process's counts since the end of its last transaction. */
extern uint64 sf_stats_pending[SF_STATS];

/* The part of SF_STAT_NODE_IDS in each layout slot but the first. */
extern uint64 sf_stats_layout_pending[SF_MAX_LAYOUT_SLOTS];

extern void sf_stats_register(void);
extern void sf_stats_raise(SfPeak peak, int64 value);
extern int64 sf_stats_find_step(int64 wall_ms, int64 offset_ms);
extern void sf_stats_see_clock(int64 wall_ms, int64 offset_ms);
extern void sf_stats_log_step(void);
extern void sf_stats_see_drift(int64 wall_ms);
extern void sf_stats_begin_wait(SfStat stat, bool is_new);
extern void sf_stats_end_wait(void);

static inline void
sf_stats_add(SfStat stat, uint64 n)
{
	sf_stats_pending[stat] += n;
}

static inline void
sf_stats_count(SfStat stat)
{
	sf_stats_pending[stat]++;
}

/* Return the time since then, in us. */
static inline uint64
sf_stats_since(const instr_time *begun)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, *begun);
	return INSTR_TIME_GET_MICROSEC(now);
}

#endif							/* SF_COUNTS_H */
