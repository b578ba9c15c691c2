/*-------------------------------------------------------------------------
 *
 * layout_slot.h
 *	  Counters of the layouts with which this server makes IDs of its node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LAYOUT_SLOT_H
#define SF_LAYOUT_SLOT_H

#include "layout/layout.h"
#include "runtime/shmem.h"

extern void sf_layout_slots_begin(void);
extern int	sf_layout_slot_of(const SfLayout *layout);
extern bool sf_layout_slot_read(int slot, SfLayout *layout);
extern void sf_layout_slots_raise(int64 floor_ms);
extern void sf_layout_slots_pass_ticks(void);
extern int64 sf_layout_slots_close(void);
extern int64 sf_layout_slots_issued_below(void);

static inline pg_atomic_uint64 *
sf_layout_slot_counter(int slot)
{
	return &sf_layout_slots[slot].layout.counter;
}

/* Return the number of slots in use. */
static inline int
sf_layout_slots_used(void)
{
	return (int) pg_atomic_read_u32(&sf_shmem->layouts_used);
}

/* Skip the rest of the tick that the counter has reached. */
static inline void
sf_layout_slot_end_tick(int slot, const SfLayout *layout)
{
	pg_atomic_uint64 *counter = sf_layout_slot_counter(slot);

	sf_counter_raise(counter,
					 sf_counter_position(counter) | layout->sequence_mask);
}

#endif							/* SF_LAYOUT_SLOT_H */
