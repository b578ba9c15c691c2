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

#define PRELOAD	"shared_preload_libraries"

/* Return true if this list has the library, perhaps with its path. */
static bool
has_library(List *libraries)
{
	ListCell   *cell;

	foreach(cell, libraries)
	{
		const char *slash = last_dir_separator(lfirst(cell));
		const char *name = slash == NULL ? lfirst(cell) : slash + 1;

		if (strcmp(name, "snowflake") == 0 || strcmp(name, "snowflake.so") == 0)
			return true;
	}
	return false;
}

/*
 * Split a list of libraries as its author meant it.  Return false if the
 * server reads it differently: two names in one literal (ALTER SYSTEM SET ...
 * = 'a, b') are one, which is not found; and a comma too many makes it load
 * none.
 */
static bool
split_libraries(const char *libraries, List **names)
{
	static const char around[] = " \t\n\r\f\v\"";
	char	   *rest = pstrdup(libraries);
	List	   *read;

	*names = NIL;
	for (char *name; (name = strsep(&rest, ",")) != NULL;)
	{
		name += strspn(name, around);
		for (char *end = name + strlen(name);
			 end > name && strchr(around, end[-1]) != NULL;)
			*--end = '\0';
		if (*name != '\0')
			*names = lappend(*names, name);
	}
	return SplitDirectoriesString(pstrdup(libraries), ',', &read) &&
		list_length(read) == list_length(*names);
}

/*
 * Print a list of libraries with this one in it: as literals, or as the text
 * of one.
 */
static char *
print_libraries(const char *libraries, bool literals, const char *separator)
{
	List	   *names;
	ListCell   *cell;
	StringInfoData list;

	(void) split_libraries(libraries, &names);
	if (!has_library(names))
		names = lappend(names, "snowflake");
	initStringInfo(&list);
	foreach(cell, names)
		appendStringInfo(&list, "%s%s", list.len > 0 ? separator : "",
						 literals ? quote_literal_cstr(lfirst(cell)) :
						 (char *) lfirst(cell));
	return list.data;
}

/* Print a statement that adds the library to the list of ALTER SYSTEM. */
static char *
alter_preload(const char *libraries)
{
	return psprintf("ALTER SYSTEM SET shared_preload_libraries = %s;",
					print_libraries(libraries, true, ", "));
}

/*
 * Return the libraries that a restart would preload as the files are now, or
 * NULL if they name none; and whether ALTER SYSTEM has set them.
 */
static const char *
find_libraries(bool *is_altered)
{
	*is_altered = sf_settings_is_altered(PRELOAD);
	if (sf_settings_awaits_restart(PRELOAD))
		return sf_settings_read_file(PRELOAD, is_altered);
	return shared_preload_libraries_string;
}

/* Return true for a role that may see which other libraries are preloaded. */
static bool
may_see_libraries(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* What others are told: a line alone would take the other libraries away. */
#define TO_UNSEEN	"snowflake to shared_preload_libraries in postgresql.conf, or this line, if it has none"
#define LINE_UNSEEN	"shared_preload_libraries = 'snowflake'"

/* Return the remedy for a library that is not preloaded. */
const char *
sf_preload_hint(void)
{
	bool		is_altered;
	bool		is_argument = sf_settings_is_argument(PRELOAD);
	const char *others = find_libraries(&is_altered);

	/* quote each item by itself: one literal would name one library */
	if (is_altered)
		return psprintf("ALTER SYSTEM has set shared_preload_libraries (in postgresql.auto.conf), which a line in another file does not change. Run this, and restart the server:\n%s",
						alter_preload(others));

	if (others == NULL || !may_see_libraries())
		others = "";
	if (is_argument)
		return psprintf("Set this on the server's command line, and restart the server:\n-c shared_preload_libraries='%s'",
						print_libraries(others, false, ","));
	if (!may_see_libraries())
		return psprintf("Add " TO_UNSEEN ", and restart the server:\n" LINE_UNSEEN "%s",
						sf_settings_unseen());
	return psprintf("Add to %s, and restart the server:\nshared_preload_libraries = '%s'",
					sf_settings_file(), print_libraries(others, false, ", "));
}

/*
 * Return how to keep a preloaded library, if the files do not name it any
 * more, or not so that the server loads it; otherwise NULL.
 */
const char *
sf_preload_keep_remedy(void)
{
	SfSettingLine line = {PRELOAD};
	bool		is_altered;
	const char *libraries;
	List	   *names;

	if (!sf_settings_awaits_restart(PRELOAD))
		return NULL;
	libraries = sf_settings_read_file(PRELOAD, &is_altered);
	if (libraries != NULL && split_libraries(libraries, &names) &&
		has_library(names))
		return NULL;
	if (is_altered)
		return psprintf("To keep it, run: %s SELECT pg_catalog.pg_reload_conf();",
						alter_preload(libraries));
	if (!may_see_libraries())
		return psprintf("To keep it, add " TO_UNSEEN ", and run:\n" LINE_UNSEEN "\nSELECT pg_catalog.pg_reload_conf();%s",
						sf_settings_unseen());
	line[1] = print_libraries(libraries == NULL ?
							  shared_preload_libraries_string : libraries,
							  false, ", ");
	return psprintf("To keep it, %s",
					sf_settings_step(&line, 1, SF_APPLY_RELOAD));
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
	return psprintf("Choose a layout with more bits for the timestamp as %s, restart the server, and run as a superuser: SELECT %s.snowflake_accept('configuration'::pg_catalog.text);",
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
