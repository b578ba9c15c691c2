/*-------------------------------------------------------------------------
 *
 * preconditions.c
 *	  Checks that a call must pass before it makes an ID, and their errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/preconditions.h"

#include "base/clock.h"
#include "base/message.h"
#include "catalog/pg_authid.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

/* Print a statement that adds the library to the list of ALTER SYSTEM. */
static char *
alter_preload(void)
{
	char	   *text = pstrdup(shared_preload_libraries_string);
	List	   *others;
	ListCell   *cell;
	StringInfoData statement;

	(void) SplitDirectoriesString(text, ',', &others);
	initStringInfo(&statement);
	appendStringInfoString(&statement,
						   "ALTER SYSTEM SET shared_preload_libraries = ");
	foreach(cell, others)
		appendStringInfo(&statement, "%s, ",
						 quote_literal_cstr(lfirst(cell)));
	appendStringInfoString(&statement, "'snowflake';");
	return statement.data;
}

/* Return the remedy for a library that is not preloaded. */
const char *
sf_preload_hint(void)
{
	const char *others = "";

	/* quote each item by itself: one literal would name one library */
	if (sf_settings_is_altered("shared_preload_libraries"))
		return psprintf("ALTER SYSTEM has set shared_preload_libraries (in postgresql.auto.conf), which a line in another file does not change. Run this, and restart the server:\n%s",
						alter_preload());

	/* only some roles may see the other libraries */
	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS) &&
		shared_preload_libraries_string != NULL)
		others = shared_preload_libraries_string;
	return psprintf("Add to %s, and restart the server:\nshared_preload_libraries = '%s%ssnowflake'",
					sf_settings_file(), others,
					others[0] != '\0' ? ", " : "");
}

/* SQLSTATE 55000 */
void
sf_refuse_unloaded(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake must be loaded via shared_preload_libraries"),
			 errhint("%s", sf_preload_hint())));
}

/* SQLSTATE 25006 */
void
sf_refuse_read_only(const char *function)
{
	sf_stats_count(SF_STAT_REFUSED_READ_ONLY);
	sf_read_only_refuse(function);
}

/* Throw SQLSTATE 55000 unless this server may issue for this shard. */
void
sf_require_shard(uint32 shard)
{
	SfSettingLine line = {"snowflake.shards"};
	const char *shards;

	if (sf_shard_is_open(shard))
		return;
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	shards = GetConfigOption("snowflake.shards", false, false);
	line[1] = psprintf("%s%s%u", shards, shards[0] == '\0' ? "" : ",", shard);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server may not issue IDs for shard %u", shard),
			 errdetail("snowflake.shards does not list it."),
			 errhint("If another server had the shard, first run here, as a superuser, with the last ID that the check \"shards\" of its snowflake_status() names: SELECT %s.snowflake_advance('ID'::bigint, 'shard');\nIf no server has the shard now, %s",
					 sf_extschema(),
					 sf_settings_step(&line, 1, SF_APPLY_RELOAD))));
}

/* ---- the two ends of a layout's life ---- */

/* How long before the layout's end the log begins to warn. */
#define END_OF_LIFE_NOTICE_MS	(INT64CONST(365) * 24 * 3600 * 1000)

/* Return the name of the setting of a configured layout, else NULL. */
static const char *
setting_of(const SfLayout *layout)
{
	return layout == &sf_node_layout ? "snowflake.layout" :
		layout == &sf_shard_layout ? "snowflake.shard_layout" : NULL;
}

/* Return what to do about a layout that ends. */
char *
sf_layout_end_remedy(const SfLayout *layout)
{
	if (setting_of(layout) == NULL)
		return pstrdup("Name a layout with more bits for the timestamp, for IDs in a new column.");
	return psprintf("Choose a layout with more bits for the timestamp as %s, restart the server, and run as a superuser: SELECT %s.snowflake_accept('configuration');",
					setting_of(layout), sf_extschema());
}

/* Return what to do about a layout that has not begun. */
char *
sf_layout_start_remedy(const SfLayout *layout)
{
	if (setting_of(layout) == NULL)
		return pstrdup("Correct the server's clock. Or name a layout with an epoch that has passed.");
	return psprintf("Correct the server's clock. Or set the epoch in %s to a time that has passed, and restart the server.",
					setting_of(layout));
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
			 errhint("Check the server's clock first. %s",
					 sf_layout_end_remedy(layout))));
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
			 errhint("%s", sf_layout_start_remedy(layout))));
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
						setting_of(layout) != NULL ? NULL :
						psprintf("The layout is \"%s\".", text),
						sf_layout_end_remedy(layout),
						"layout reaches its last timestamp in %lld days",
						(long long) (left / (24 * 3600 * 1000)));
}
