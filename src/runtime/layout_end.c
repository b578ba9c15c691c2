/*-------------------------------------------------------------------------
 *
 * layout_end.c
 *	  The two ends of a layout's life: errors, and a warning.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/layout_end.h"

#include "base/clock.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

/* How long before the layout's end the log begins to warn. */
#define END_OF_LIFE_NOTICE_MS	(INT64CONST(365) * 24 * 3600 * 1000)

#define LONGER_LAYOUT \
	"a layout with more bits for the timestamp, and record it with snowflake_accept('configuration')."

static bool
is_configured(const SfLayout *layout)
{
	return layout == &sf_node_layout || layout == &sf_shard_layout;
}

/* Throw SQLSTATE 2200H: no ID is left. */
void
sf_layout_end_refuse(const SfLayout *layout, int64 now_tick)
{
	char		text[SF_LAYOUT_TEXT_SIZE];

	sf_layout_print(layout, text, sizeof(text));
	sf_stats_count(SF_STAT_REFUSED_END);
	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 errmsg("layout has reached its last timestamp"),
			 now_tick >= layout->end_tick ?
			 errdetail("The layout is \"%s\"; the wall clock is past its end.", text) :
			 errdetail("The layout is \"%s\"; its last ID was issued ahead of the wall clock.", text),
			 is_configured(layout) ? errhint("Check the server's clock. If it is right, choose " LONGER_LAYOUT) :
			 errhint("Check the server's clock. If it is right, name a layout with more bits for the timestamp, for IDs in a new column.")));
}

/* Throw SQLSTATE 58000: the layout's life has not begun. */
void
sf_layout_start_refuse(const SfLayout *layout)
{
	char		text[SF_LAYOUT_TEXT_SIZE];

	sf_epoch_print(layout->epoch_ms, text, sizeof(text));
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is before the layout's epoch"),
			 errdetail("The epoch is %s.", text),
			 is_configured(layout) ?
			 errhint("Correct the server's clock. Or set the epoch in snowflake.layout (for shards, in snowflake.shard_layout) to a time that has passed.") :
			 errhint("Correct the server's clock. Or name a layout with an epoch that has passed.")));
}

/* Throw the error of the two above if no ID of this layout can be made now. */
void
sf_layout_end_require_life(const SfLayout *layout)
{
	int64		now_tick = sf_layout_ms_to_tick(layout, sf_clock_wall_ms());

	if (now_tick < layout->epoch_tick)
		sf_layout_start_refuse(layout);
	if (now_tick >= layout->end_tick)
		sf_layout_end_refuse(layout, now_tick);
}

/*
 * Warn of the layout's end, once a day: of each layout in a slot, and of
 * snowflake.shard_layout.
 */
void
sf_layout_end_warn(const SfLayout *layout, int slot)
{
	SfEventLimit *limit = layout == &sf_shard_layout ?
		&sf_shmem->shard_layout_ends : &sf_layout_slots[slot].layout.ends;
	int64		left = layout->end_tick * layout->tick_ms - sf_clock_wall_ms();
	char		text[SF_LAYOUT_TEXT_SIZE];

	if (left >= END_OF_LIFE_NOTICE_MS || left < 0)
		return;
	sf_layout_print(layout, text, sizeof(text));
	sf_log_event_within(limit, SF_EVENT_LAYOUT_ENDS,
						is_configured(layout) ? NULL :
						psprintf("The layout is \"%s\".", text),
						is_configured(layout) ? "Choose " LONGER_LAYOUT :
						"Name a layout with more bits for the timestamp, for IDs in a new column.",
						"layout reaches its last timestamp in %lld days",
						(long long) (left / (24 * 3600 * 1000)));
}
