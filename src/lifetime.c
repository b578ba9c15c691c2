/*-------------------------------------------------------------------------
 *
 * lifetime.c
 *	  The two ends of a layout's life: refusals, and a reminder.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lifetime.h"

#include "clock.h"
#include "state.h"
#include "stats.h"
#include "tell.h"

/* From when on the log reminds of the layout's end. */
#define END_OF_LIFE_NOTICE_MS	(INT64CONST(365) * 24 * 3600 * 1000)

/* No ID is left: SQLSTATE 2200H. */
void
sf_lifetime_refuse_end(const SfLayout *layout, int64 now_tick)
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
			 errhint("Check the server's clock. If it is right, choose a layout with more bits for the timestamp, and record it with snowflake_accept_configuration().")));
}

/* It has not begun: SQLSTATE 58000. */
void
sf_lifetime_refuse_start(const SfLayout *layout)
{
	char		text[SF_LAYOUT_TEXT_SIZE];

	sf_epoch_print(layout->epoch_ms, text, sizeof(text));
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is before the layout's epoch"),
			 errdetail("The epoch is %s.", text),
			 errhint("Set the server's clock right, or snowflake.epoch (for shards, the epoch in snowflake.shard_layout) to a time that has passed.")));
}

/* Remind of the layout's end, once a day. */
void
sf_lifetime_remind(const SfLayout *layout)
{
	int64		left = layout->end_tick * layout->tick_ms - sf_clock_wall_ms();

	if (left < END_OF_LIFE_NOTICE_MS)
		sf_tell(SF_EVENT_LAYOUT_ENDS, NULL,
				"Choose a layout with more bits for the timestamp, and record it with snowflake_accept_configuration().",
				"layout reaches its last timestamp in %lld days",
				(long long) (left / (24 * 3600 * 1000)));
}
