/*-------------------------------------------------------------------------
 *
 * layout_slot.c
 *	  Counters of the layouts with which this server makes IDs of its node.
 *
 * Each layout has a counter of its own.  A slot belongs to a layout from the
 * first call that names it until the shared memory ends, so a counter never
 * begins anew.  Any role may name a layout, and so use up the slots that
 * snowflake.max_layouts counts.  Presets, and what snowflake.layouts lists,
 * have slots beside those: a column whose default names one goes on.  The IDs
 * of two layouts may be equal; those of one never are.
 *
 * A counter that is taken into use must be above every ID of its layout that
 * any database holds, like the others.  Those IDs are of an earlier life or
 * from another server.  So they lie below a time that the counters were raised
 * to: a mark that was loaded, or the start of a lease.  raised_ms is the
 * latest of these times.
 *
 * One process raises counters while another takes a slot, and neither waits:
 *
 *		raise: write raised_ms		take: count the slot
 *			   barrier					  barrier
 *			   raise each slot			  raise it to raised_ms
 *
 * So the one finds the slot, or the other finds the time.  A session uses a
 * slot only after it has done the right side itself, so it does not matter how
 * far the session that took the slot has come.  Closing works in the same way:
 * raised_ms is closed first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/shmem.h"

#include "base/fault.h"
#include "lib/stringinfo.h"
#include "runtime/counts.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"

/* Fill in the layout of a slot; return false if the slot is not in use. */
bool
sf_layout_slot_read(int slot, SfLayout *layout)
{
	const SfLayoutCounter *entry = &sf_layout_slots[slot].layout;

	if (slot >= sf_layout_slots_used())
		return false;
	pg_read_barrier();			/* the count first, then the slot */
	return sf_layout_from_code(layout, entry->code, entry->epoch_ms);
}

/* Return the slot of a layout, or -1. */
static int
find_slot(const SfLayout *layout)
{
	int64		code = sf_layout_code(layout);
	int			used = sf_layout_slots_used();

	pg_read_barrier();
	for (int i = 0; i < used; i++)
	{
		if (sf_layout_slots[i].layout.code == code &&
			sf_layout_slots[i].layout.epoch_ms == layout->epoch_ms)
			return i;
	}
	return -1;
}

/* Return true if no other layouts can use up the slot of this one. */
bool
sf_layout_has_place(const SfLayout *layout)
{
	for (int i = 0; i < sf_nother_layouts; i++)
	{
		if (sf_layout_is_same(layout, &sf_other_layouts[i]))
			return true;
	}
	return sf_layout_is_preset(layout);
}

/* Return true if this layout needs no slot that another one could take. */
bool
sf_layout_slot_exists(const SfLayout *layout)
{
	return find_slot(layout) >= 0 || sf_layout_has_place(layout);
}

/*
 * Return how to get a slot for this layout; without one, how to get more.
 * Return NULL if no setting allows more.
 */
char *
sf_layout_slots_remedy(const SfLayout *layout)
{
	SfSettingLine line = {"snowflake.layouts"};
	StringInfoData list;
	char		text[SF_LAYOUT_TEXT_SIZE];
	SfLayout	used;
	bool		more = layout == NULL || sf_nother_layouts == SF_MAX_LAYOUTS;

	if (more && sf_max_layouts < SF_MAX_LAYOUTS)
	{
		line[0] = "snowflake.max_layouts";
		line[1] = psprintf("%d", Min(2 * sf_max_layouts, SF_MAX_LAYOUTS));
		return psprintf("For more, %s",
						sf_settings_step(&line, 1, SF_APPLY_RESTART));
	}
	/* then one in use needs a place of its own */
	for (int i = 1; layout == NULL && sf_layout_slot_read(i, &used); i++)
		layout = sf_layout_has_place(&used) ? NULL : &used;
	if (layout == NULL || sf_nother_layouts == SF_MAX_LAYOUTS)
		return NULL;
	initStringInfo(&list);
	for (int i = 0; i < sf_nother_layouts; i++)
	{
		sf_layout_print(&sf_other_layouts[i], text, sizeof(text));
		appendStringInfo(&list, "%s, ", text);
	}
	sf_layout_print(layout, text, sizeof(text));
	line[1] = psprintf("%s%s", list.data, text);
	return psprintf("To give it a place that no role can take, %s",
					sf_settings_step(&line, 1, SF_APPLY_RESTART));
}

/* Throw SQLSTATE 53400: there is no slot for this layout. */
static void
refuse_layout_slot(const SfLayout *layout)
{
	char		spelled[SF_LAYOUT_TEXT_SIZE];
	char	   *remedy = sf_layout_slots_remedy(layout);

	sf_layout_print(layout, spelled, sizeof(spelled));
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many layouts are in use on this server"),
			 errdetail("snowflake.max_layouts is %d, and the layout \"%s\" is not among those in use.",
					   sf_max_layouts, spelled),
			 remedy == NULL ? 0 : errhint("%s", remedy)));
}

/* Return how many slots in use snowflake.max_layouts counts. */
int
sf_layout_slots_counted(void)
{
	SfLayout	layout;
	int			n = 0;

	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
		n += i == 0 || !sf_layout_has_place(&layout);
	return n;
}

/* Find the slot of a layout, or take a free one; -1 if there is none. */
static int
take_layout_slot(const SfLayout *layout)
{
	int			slot;

	LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
	slot = find_slot(layout);
	if (slot < 0 && (sf_layout_has_place(layout) ||
					 sf_layout_slots_counted() < sf_max_layouts))
	{
		slot = sf_layout_slots_used();
		Assert(slot < sf_shmem->nlayouts);
		sf_layout_slots[slot].layout.code = sf_layout_code(layout);
		sf_layout_slots[slot].layout.epoch_ms = layout->epoch_ms;
		pg_write_barrier();
		pg_atomic_write_u32(&sf_shmem->layouts_used, slot + 1);
	}
	LWLockRelease(sf_shmem->lock);
	return slot;
}

/* Give the first slot of new shared memory to snowflake.layout. */
void
sf_layout_slots_begin(void)
{
	int			slot PG_USED_FOR_ASSERTS_ONLY;

	slot = take_layout_slot(&sf_node_layout);
	Assert(slot == 0);
}

static void
raise_slot(int slot, const SfLayout *layout, int64 floor_ms)
{
	sf_counter_raise(sf_layout_slot_counter(slot),
					 sf_layout_floor_position(layout, floor_ms));
}

/*
 * Return the slot of this layout.  It takes one if it has none, and keeps it.
 * Throws SQLSTATE 53400, and without a slot 58000 or 2200H: its life has not
 * begun, or is over.
 */
int
sf_layout_slot_of(const SfLayout *layout)
{
	int			slot = find_slot(layout);
	uint64		raised;

	if (slot < 0)
	{
		sf_layout_end_require_life(layout);
		SF_FAULT("layout-missed");
		slot = take_layout_slot(layout);
	}
	if (slot < 0)
		refuse_layout_slot(layout);
	SF_FAULT("layout-taken");
	pg_memory_barrier();
	raised = pg_atomic_read_u64(&sf_shmem->raised_ms);
	raise_slot(slot, layout, (int64) (raised & ~SF_CLOSED));
	if ((raised & SF_CLOSED) != 0)
		(void) sf_counter_close(sf_layout_slot_counter(slot));
	return slot;
}

/* Raise every counter, so that no ID is made below this time. */
void
sf_layout_slots_raise(int64 floor_ms)
{
	SfLayout	layout;

	sf_counter_raise(&sf_shmem->raised_ms, floor_ms);
	pg_memory_barrier();
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
		raise_slot(i, &layout, floor_ms);
}

/* Raise every counter above what another server may have made by now. */
void
sf_layout_slots_raise_above(int64 now_ms)
{
	SfLayout	layout;

	sf_counter_raise(&sf_shmem->raised_ms,
					 now_ms + SF_MAX_AHEAD_MS);
	pg_memory_barrier();
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
		raise_slot(i, &layout, now_ms + sf_settings_farthest_ms(&layout));
}

/*
 * Skip the rest of the tick that each counter has reached, and one position
 * more, so that a counter at the end of a tick is skipped to a later one.
 */
void
sf_layout_slots_pass_ticks(void)
{
	SfLayout	layout;

	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		pg_atomic_uint64 *counter = sf_layout_slot_counter(i);

		sf_counter_raise(counter, (sf_counter_position(counter) + 1) |
						 layout.sequence_mask);
	}
}

/*
 * Close all counters, so that no session issues any more, not even one that
 * has found its right before and swaps late.  Return a time, in Unix ms, that
 * all IDs made so far are below; 0 if there are none.
 *
 * The moment of the swap decides: an earlier swap of a session is counted, and
 * a later one finds nothing below its cap.
 */
int64
sf_layout_slots_close(void)
{
	SfLayout	layout;
	int64		end = 0;

	(void) sf_counter_close(&sf_shmem->raised_ms);
	pg_memory_barrier();
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		uint64		position = sf_counter_close(sf_layout_slot_counter(i));

		end = Max(end, sf_layout_end_of_position(&layout, position));
	}
	return end;
}

/*
 * Return a time, in Unix ms, above the IDs of all layouts, and above the times
 * that their counters were raised to; 0 without either.
 */
int64
sf_layout_slots_issued_below(void)
{
	SfLayout	layout;
	int64		end = 0;

	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		uint64		position = sf_counter_position(sf_layout_slot_counter(i));

		end = Max(end, sf_layout_end_of_position(&layout, position));
	}
	return end;
}
