/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings: definitions, descriptions, checks.
 *
 * The server reads postgresql.conf before it loads the library, and keeps each
 * value as a placeholder.  If our check refuses the value later, the server
 * only prints a WARNING and uses the default.  So this file checks the kept
 * texts once more, and a bad one stops the start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"

#include "base/clock.h"
#include "catalog/pg_authid.h"
#include "executor/executor.h"
#include "layout/ranges.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "runtime/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"

/* No epoch before this time is in the future: 2026-11-26. */
#define WRITTEN_MS			INT64CONST(1795651200000)

int			sf_max_clock_drift = 5;
int			sf_max_clock_wait = 3000;
int			sf_max_clock_jump = 3600;
int			sf_reserve = 2000;
int			sf_sequence_start = SF_START_ZERO;
int			sf_max_databases = 64;
int			sf_max_layouts = 16;
bool		sf_time_ranges = true;
int			sf_copy_check = SF_CHECK_WARN;
int			sf_clock_check = SF_CHECK_OFF;
bool		sf_audit = false;
int			sf_log_interval = 60 * 1000;
char	   *sf_feed_databases = NULL;
int			sf_feed_interval = 1000;

SfLayout	sf_node_layout;
SfLayout	sf_shard_layout;
SfLayout	sf_other_layouts[SF_MAX_LAYOUTS];
int			sf_nother_layouts = 0;

#define LAYOUT_DEFAULT			"snowflake"
#define SHARD_LAYOUT_DEFAULT	"instagram"

/* The texts that the values above are computed from. */
static char *layout_text = NULL;
static char *epoch_text = NULL;
static char *shard_layout_text = NULL;
static char *layouts_text = NULL;
static char *shards_text = NULL;

static const struct config_enum_entry sequence_starts[] = {
	{"zero", SF_START_ZERO, false},
	{"random", SF_START_RANDOM, false},
	{NULL, 0, false}
};

static const struct config_enum_entry checks[] = {
	{"off", SF_CHECK_OFF, false},
	{"warn", SF_CHECK_WARN, false},
	{"error", SF_CHECK_ERROR, false},
	{NULL, 0, false}
};

/* The names of all settings, to check the kept texts once more. */
static const char *const names[] = {
	"snowflake.layout", "snowflake.epoch", "snowflake.shard_layout",
	"snowflake.layouts", "snowflake.node_id", "snowflake.shards",
	"snowflake.max_clock_drift", "snowflake.max_clock_wait",
	"snowflake.max_clock_jump", "snowflake.reserve",
	"snowflake.sequence_start",
	"snowflake.max_databases", "snowflake.max_layouts",
	"snowflake.copy_check", "snowflake.clock_check",
	"snowflake.audit", "snowflake.log_interval", "snowflake.time_ranges",
	"snowflake.registry", "snowflake.lease_reserve",
	"snowflake.lease_presence", "snowflake.lease_timeout",
	"snowflake.lease_wait",
	"snowflake.feed_databases", "snowflake.feed_interval"
};

/* Parse a layout.  On failure, set the reason as the check's detail. */
static bool
check_layout_text(SfLayout *layout, const char *text)
{
	char		reason[SF_REASON_SIZE];

	if (sf_layout_parse(layout, text, reason, sizeof(reason)))
		return true;
	GUC_check_errdetail("%s", reason);
	return false;
}

/* Do the same with a layout of the node's IDs. */
static bool
check_node_layout(SfLayout *layout, const char *text)
{
	if (!check_layout_text(layout, text))
		return false;
	if (sf_layout_has(layout, SF_SHARD))
	{
		GUC_check_errdetail("The layout of the node's IDs cannot have the field \"shard\".");
		GUC_check_errhint(SF_SHARD_LAYOUT_REMEDY);
		return false;
	}
	return true;
}

static bool
check_layout(char **newval, void **extra, GucSource source)
{
	SfLayout	layout;

	return check_node_layout(&layout, *newval);
}

/* Parse a list of layouts.  Return how many, or -1 with the detail set. */
static int
parse_layouts(SfLayout *layouts, const char *text)
{
	char	   *list = pstrdup(text);
	int			n = 0;

	for (char *item = strtok(list, ","); item != NULL;
		 item = strtok(NULL, ","))
	{
		if (n == SF_MAX_LAYOUTS)
		{
			GUC_check_errdetail("It must not list more than %d layouts.",
								SF_MAX_LAYOUTS);
			return -1;
		}
		if (!check_node_layout(&layouts[n++], item))
			return -1;
	}
	return n;
}

static bool
check_layouts(char **newval, void **extra, GucSource source)
{
	SfLayout	layouts[SF_MAX_LAYOUTS];

	return parse_layouts(layouts, *newval) >= 0;
}

static bool
check_epoch(char **newval, void **extra, GucSource source)
{
	int64		epoch_ms;
	char		reason[SF_REASON_SIZE];

	if (**newval == '\0' ||
		sf_epoch_parse(&epoch_ms, *newval, reason, sizeof(reason)))
		return true;
	GUC_check_errdetail("%s", reason);
	return false;
}

static bool
check_shard_layout(char **newval, void **extra, GucSource source)
{
	SfLayout	layout;

	if (!check_layout_text(&layout, *newval))
		return false;
	if (!sf_layout_has(&layout, SF_SHARD) ||
		layout.field[SF_SHARD].width > 16 || layout.node_bits > 0)
	{
		GUC_check_errdetail("The layout of the shards' IDs must have the field \"shard\", of at most 16 bits, and none for a node.");
		return false;
	}
	return true;
}

/* Count the shards of the current shard layout, or of the one being set. */
static uint32
count_shards(void)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	if (shard_layout_text == NULL ||
		!sf_layout_parse(&layout, shard_layout_text, reason, sizeof(reason)))
		return SF_RANGES_MAX;
	return UINT32_C(1) << layout.field[SF_SHARD].width;
}

static bool
check_shards(char **newval, void **extra, GucSource source)
{
	uint32		map[SF_RANGES_WORDS(SF_RANGES_MAX)];
	char		reason[SF_REASON_SIZE];

	if (sf_ranges_parse(map, count_shards(), *newval, reason, sizeof(reason)))
		return true;
	GUC_check_errdetail("%s", reason);
	return false;
}

void		(*sf_settings_shards_changed) (const uint32 *opening) = NULL;

/*
 * Open the counters of these shards, and close all others, so that no session
 * issues for them, not even one that has read the counter and swaps late.
 * Only the postmaster does this, at the start and at each reload.
 */
static void
publish_shards(const char *newval, void *extra)
{
	uint32		map[SF_RANGES_WORDS(SF_RANGES_MAX)];
	char		reason[SF_REASON_SIZE];

	if (sf_shmem == NULL || IsUnderPostmaster ||
		!sf_ranges_parse(map, sf_shmem->nshards, newval,
						 reason, sizeof(reason)))
		return;
	if (sf_settings_shards_changed != NULL)
		sf_settings_shards_changed(map);
	for (uint32 i = 0; i < (uint32) sf_shmem->nshards; i++)
	{
		pg_atomic_uint32 *removed = &sf_shards_removed[i / 32];
		uint32		bit = UINT32_C(1) << (i % 32);

		if (sf_ranges_has(map, i))
		{
			(void) pg_atomic_fetch_and_u32(removed, ~bit);
			sf_counter_open(&sf_shard_counters[i]);
		}
		else if (sf_shard_is_open(i))
		{
			(void) sf_counter_close(&sf_shard_counters[i]);
			(void) pg_atomic_fetch_or_u32(removed, bit);
		}
	}
}

/* Return true if this server may issue for any shard. */
bool
sf_settings_has_shards(void)
{
	for (int i = 0; i < sf_shmem->nshards; i++)
	{
		if (sf_shard_is_open(i))
			return true;
	}
	return false;
}

/* Publish the postmaster's interval, because all processes share one limit. */
static void
publish_log_interval(int newval, void *extra)
{
	if (sf_shmem != NULL && !IsUnderPostmaster)
		pg_atomic_write_u32(&sf_shmem->log_interval_ms, newval);
}

/* Write into new shared memory what the postmaster has. */
void
sf_settings_publish(void)
{
	Assert(!IsUnderPostmaster);
	publish_shards(shards_text, NULL);
	sf_settings_publish_node();
	publish_log_interval(sf_log_interval, NULL);
}

/* Stop the start because of snowflake.epoch, and show the line to write. */
static void
refuse_epoch(const char *detail, const char *line)
{
	ereport(FATAL,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("invalid value for parameter \"snowflake.epoch\": \"%s\"",
					epoch_text),
			 errdetail("%s", detail),
			 errhint("Take snowflake.epoch out of the configuration files, also out of postgresql.auto.conf, and write into %s:\n%s",
					 ConfigFileName, line)));
}

/*
 * Let the node's layout count from snowflake.epoch, if that is set.
 *
 * A clock that is wrong must not stop the server, so an epoch before this code
 * was written is never taken for one in the future; and with EXEC_BACKEND,
 * where each process comes here, only the postmaster asks the clock.
 */
static void
settle_epoch(void)
{
	SfLayout	layout = sf_node_layout;
	char		reason[SF_REASON_SIZE];
	char		text[SF_LAYOUT_TEXT_SIZE];

	if (epoch_text[0] == '\0')
		return;
	(void) sf_epoch_parse(&layout.epoch_ms, epoch_text,
						  reason, sizeof(reason));
	if (layout.epoch_ms % layout.tick_ms != 0)
	{
		sf_epoch_print(layout.epoch_ms - layout.epoch_ms % layout.tick_ms,
					   text, sizeof(text));
		refuse_epoch("It must be a multiple of the tick of snowflake.layout.",
					 psprintf("snowflake.epoch = '%s'", text));
	}
	if (!IsUnderPostmaster &&
		layout.epoch_ms > Max(sf_clock_wall_ms(), WRITTEN_MS))
	{
		sf_epoch_print(sf_node_layout.epoch_ms, text, sizeof(text));
		refuse_epoch("It must not be in the future.",
					 psprintf("snowflake.epoch = '%s'", text));
	}
	(void) sf_layout_complete(&layout);
	sf_layout_print(&layout, text, sizeof(text));
	if (layout.epoch_ms != sf_node_layout.epoch_ms &&
		strstr(layout_text, "epoch:") != NULL)
		refuse_epoch(psprintf("snowflake.layout has another epoch: \"%s\".",
							  layout_text),
					 psprintf("snowflake.layout = '%s'", text));
	sf_node_layout = layout;
}

/* Compute the layouts, of texts that have passed their checks. */
static void
settle_layouts(void)
{
	char		reason[SF_REASON_SIZE];

	(void) sf_layout_parse(&sf_node_layout, layout_text,
						   reason, sizeof(reason));
	(void) sf_layout_parse(&sf_shard_layout, shard_layout_text,
						   reason, sizeof(reason));
	sf_nother_layouts = parse_layouts(sf_other_layouts, layouts_text);
	settle_epoch();
}

/* ---- leases ---- */

/*
 * Only the values that are sent to the registry must be the same everywhere,
 * and only the worker sends them.
 */
char	   *sf_registry = NULL;
int			sf_lease_reserve = 90 * 1000;
int			sf_lease_presence = 30 * 1000;
int			sf_lease_timeout = 2 * 1000;
int			sf_lease_wait = 60 * 1000;

#define LIBPQ		"libpq (Debian: libpq-dev)"
#define LIBCURL		"libcurl (Debian: libcurl4-openssl-dev)"
#define LIBZOOKEEPER	"libzookeeper without threads (Debian: libzookeeper-st-dev)"

/* the SQL function runs in the registry, without this server's layout */
#define IN_SQL		NULL
#define FROM_HERE	"run here: SELECT @extschema@.snowflake_registry_init();"

static const SfRegistryKind kinds[] = {
	{"postgresql", "postgresql", LIBPQ, IN_SQL},
	{"postgres", "postgresql", LIBPQ, IN_SQL},
	{"etcd", "etcd", LIBCURL, FROM_HERE},
	{"etcds", "etcd", LIBCURL, FROM_HERE},
	{"zookeeper", "zookeeper", LIBZOOKEEPER, FROM_HERE},
};

/* Return the kind of registry that this URL names, or NULL. */
const SfRegistryKind *
sf_settings_registry_kind(const char *url)
{
	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		size_t		length = strlen(kinds[i].scheme);

		if (strncmp(url, kinds[i].scheme, length) == 0 &&
			strncmp(url + length, "://", 3) == 0)
			return &kinds[i];
	}
	return NULL;
}

/*
 * Print the registry without secrets: no user, no password, no options.  A
 * password may contain any character except "@" and "/".  So skip everything
 * before the last "@".  If a "?" comes before that "@", an option and a
 * password cannot be told apart: print no host.
 */
void
sf_settings_registry_name(char *name, size_t size)
{
	const char *text = strstr(sf_registry, "://");
	const char *host;
	const char *at;
	int			length;

	if (text == NULL)
	{
		snprintf(name, size, "%s", "");
		return;
	}
	text += 3;
	at = strrchr(text, '@');
	host = at == NULL ? text : at + 1;
	length = (int) strcspn(host, "?");
	if (at != NULL && memchr(text, '?', at - text) != NULL)
	{
		host = "...";
		length = 3;
	}
	snprintf(name, size, "%.*s%.*s", (int) (text - sf_registry), sf_registry,
			 length, host);
}

static bool
check_registry(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0' || sf_settings_registry_kind(*newval) != NULL)
		return true;
	GUC_check_errmsg("invalid value for parameter \"snowflake.registry\"");
	GUC_check_errdetail("It must begin with \"postgresql://\", \"etcd://\", \"etcds://\" or \"zookeeper://\", or be empty.");
	return false;
}

static void
define_leases(void)
{
	DefineCustomStringVariable("snowflake.registry",
							   "Registry that this server leases its node id from.",
							   "Such as \"postgresql://snowflake@registry/snowflake\". If it is empty, this server uses snowflake.node_id.",
							   &sf_registry, "",
							   PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
							   check_registry, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_reserve",
							"How far ahead of its clock this server reserves timestamps in the registry.",
							"The server extends the reservation when a third of it is used. Without the registry it makes IDs until the reservation ends.",
							&sf_lease_reserve, 90 * 1000, 5 * 1000,
							SF_MAX_RESERVE_MS,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_presence",
							"How long this server counts as present after the registry last heard of it.",
							"The server reports three times in that time. No other server claims the node id of a server that is present.",
							&sf_lease_presence, 30 * 1000, 3 * 1000,
							3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_timeout",
							"How long the registry may take for an answer.",
							NULL,
							&sf_lease_timeout, 2 * 1000, 100, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_wait",
							"How long a call may wait for a node id to be leased.",
							"This counts from when the server had none. A call that comes after that time fails at once.",
							&sf_lease_wait, 60 * 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* ---- feeds ---- */

/* Return the names in snowflake.feed_databases as nodes, each once. */
List *
sf_settings_feed_databases(void)
{
	List	   *names = NIL;
	List	   *databases = NIL;
	ListCell   *cell;

	if (sf_feed_databases != NULL)
		(void) SplitIdentifierString(pstrdup(sf_feed_databases), ',', &names);
	foreach(cell, names)
		databases = list_append_unique(databases, makeString(lfirst(cell)));
	return databases;
}

static bool
check_feed_databases(char **newval, void **extra, GucSource source)
{
	List	   *names;

	if (SplitIdentifierString(pstrdup(*newval), ',', &names))
		return true;
	GUC_check_errdetail("It must be a list of names of databases.");
	return false;
}

static void
define_feeds(void)
{
	DefineCustomStringVariable("snowflake.feed_databases",
							   "Databases in which a worker publishes this server's horizon.",
							   "It calls snowflake_publish_horizon() in each, every snowflake.feed_interval.",
							   &sf_feed_databases, "",
							   PGC_POSTMASTER, GUC_LIST_INPUT,
							   check_feed_databases, NULL, NULL);
	DefineCustomIntVariable("snowflake.feed_interval",
							"Time between two calls of snowflake_publish_horizon() by the workers.",
							NULL, &sf_feed_interval, 1000, 10, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* ---- definitions ---- */

static void
define_texts(void)
{
	DefineCustomStringVariable("snowflake.layout",
							   "Layout of the node's IDs: a preset's name, or fields with their widths in bits.",
							   "Such as \"timestamp:41 node:10 sequence:12 tick:1ms epoch:2024-01-01\". The epoch is the time from which it counts.",
							   &layout_text, LAYOUT_DEFAULT,
							   PGC_POSTMASTER, 0, check_layout, NULL, NULL);
	DefineCustomStringVariable("snowflake.epoch",
							   "Time from which the IDs of snowflake.layout count: ISO 8601 in UTC, or Unix milliseconds.",
							   "If it is empty, the layout says its epoch.",
							   &epoch_text, "",
							   PGC_POSTMASTER, 0, check_epoch, NULL, NULL);
	DefineCustomStringVariable("snowflake.shard_layout",
							   "Layout of the IDs made for shards.",
							   NULL, &shard_layout_text, SHARD_LAYOUT_DEFAULT,
							   PGC_POSTMASTER, 0,
							   check_shard_layout, NULL, NULL);
	DefineCustomStringVariable("snowflake.layouts",
							   "Other layouts of the node's IDs that always have a place.",
							   "A list with commas. No role can use up the places of these layouts and of presets.",
							   &layouts_text, "",
							   PGC_POSTMASTER, 0, check_layouts, NULL, NULL);
	DefineCustomStringVariable("snowflake.shards",
							   "Shards that this server may issue IDs for, such as \"0-4095,5000\".",
							   "If it is empty, this server issues for no shard. No two servers may have one shard at a time.",
							   &shards_text, "",
							   PGC_SIGHUP, 0,
							   check_shards, publish_shards, NULL);
}

static void
define_limits(void)
{
	DefineCustomIntVariable("snowflake.max_clock_drift",
							"How far an ID's timestamp may be ahead of the wall clock.",
							"Rounded up to whole ticks. When the sequence of a tick is full, calls take the next ticks, up to this far ahead.",
							&sf_max_clock_drift, 5, 0, SF_MAX_DRIFT_MS,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_clock_wait",
							"How long a call may sleep for the wall clock before it fails.",
							"If this is less than snowflake.reserve, or than ten ticks of the layout, calls fail for up to that long after a crash.",
							&sf_max_clock_wait, 3000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_clock_jump",
							"Largest forward jump of the wall clock that the server believes.",
							"After a larger one calls are refused until snowflake_accept(what => 'clock').",
							&sf_max_clock_jump, 3600, 1, 366 * 24 * 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.reserve",
							"How far ahead of the clock the server moves the mark of a database.",
							"The mark is a time that all IDs of the database lie below. After a crash the first call waits for up to this long.",
							&sf_reserve, 2000, 100, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("snowflake.sequence_start",
							 "Where the sequence starts in a tick that a call opens.",
							 "\"random\" starts somewhere in the lower half, so that not all IDs of a slow system are even.",
							 &sf_sequence_start, SF_START_ZERO,
							 sequence_starts,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_databases",
							"Number of databases that may make IDs between two starts of the server.",
							NULL, &sf_max_databases, 64, 1, SF_MAX_DATABASES,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_layouts",
							"Number of layouts of which the node may make IDs between two starts of the server, beside presets and snowflake.layouts.",
							"snowflake.layout is one of them; snowflake_nextval(layout) uses others.",
							&sf_max_layouts, 16, 1, SF_MAX_LAYOUTS,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

static void
define_checks(void)
{
	DefineCustomEnumVariable("snowflake.copy_check",
							 "What happens where a copy of a data directory starts as a server of its own.",
							 "\"warn\" refuses IDs if another server with the data runs on this machine and has taken the same node id or shard; else it writes a line into the log. \"error\" refuses, on any copy, the IDs that another server may issue, too. snowflake_accept(what => 'copy') ends the refusal. A standby that is promoted is no copy.",
							 &sf_copy_check, SF_CHECK_WARN, checks,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("snowflake.clock_check",
							 "What happens while the kernel says that its clock is not synchronized.",
							 "\"error\" refuses IDs when the mark has to be moved; \"warn\" writes a line into the log each hour.",
							 &sf_clock_check, SF_CHECK_OFF, checks,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("snowflake.audit",
							 "Writes a line into the server's log for each transaction that makes IDs.",
							 "The line says how many, the first and the last one, their layout or shard, and who made them. What counts is the value when the transaction asks for its first ID.",
							 &sf_audit, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.log_interval",
							"Least time between two lines in the log about one kind of event.",
							"With 0 each event has a line. Some kinds have longer intervals, and some may log several lines at once.",
							&sf_log_interval, 60 * 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL,
							publish_log_interval, NULL);
}

/* Define the planner's setting, also if the library is loaded later. */
void
sf_settings_define_planner(void)
{
	DefineCustomBoolVariable("snowflake.time_ranges",
							 "Plans conditions on snowflake_timestamp(id) as conditions on the ID.",
							 "If it is off, such a condition can use only an index on the expression itself.",
							 &sf_time_ranges, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

/* Define all settings, while shared_preload_libraries is processed. */
void
sf_settings_define(void)
{
	char	   *texts[lengthof(names)];

	Assert(process_shared_preload_libraries_in_progress);
	for (size_t i = 0; i < lengthof(names); i++)
	{
		const char *text = GetConfigOption(names[i], true, false);

		texts[i] = text == NULL ? NULL : pstrdup(text);
	}
	define_texts();
	sf_settings_define_node();
	define_limits();
	sf_settings_define_planner();
	define_checks();
	define_leases();
	define_feeds();
	MarkGUCPrefixReserved("snowflake");

	for (size_t i = 0; i < lengthof(names) && !IsUnderPostmaster; i++)
	{
		if (texts[i] != NULL)
			(void) set_config_option(names[i], texts[i], PGC_POSTMASTER,
									 PGC_S_FILE, GUC_ACTION_SET,
									 false, FATAL, false);
	}
	settle_layouts();
}

/* ---- which file a setting comes from, for remedies that name files ---- */

#define AUTO_FILE	"postgresql.auto.conf"

/* Return true for a role that may see files; the postmaster has no role. */
static bool
may_see_files(void)
{
	/* a process without a database has no role */
	return !OidIsValid(MyDatabaseId) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* Return the server's own file; only some roles may see its path. */
const char *
sf_settings_file(void)
{
	return may_see_files() && ConfigFileName != NULL ?
		ConfigFileName : "postgresql.conf";
}

/* Return what the server keeps of a setting. */
static const struct config_generic *
find_setting(const char *name)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	}
	elog(ERROR, "there is no setting \"%s\"", name);
}

/* What the files say of a setting. */
typedef struct FileValue
{
	const char *name;
	char	   *value;			/* or NULL: they do not have it */
	bool		is_altered;		/* ALTER SYSTEM has written it */
} FileValue;

/* Return true for the file that ALTER SYSTEM writes. */
static bool
is_auto_file(const char *file)
{
	size_t		length = file == NULL ? 0 : strlen(file);

	return length >= strlen(AUTO_FILE) &&
		strcmp(file + length - strlen(AUTO_FILE), AUTO_FILE) == 0;
}

/* Take the last line of this setting among those that were read. */
static void
take_last_line(FileValue *found, ReturnSetInfo *lines)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(lines->setDesc,
													&TTSOpsMinimalTuple);

	while (tuplestore_gettupleslot(lines->setResult, true, false, slot))
	{
		bool		isnull[3];
		Datum		file = slot_getattr(slot, 1, &isnull[0]);
		Datum		name = slot_getattr(slot, 4, &isnull[1]);
		Datum		value = slot_getattr(slot, 5, &isnull[2]);

		if (isnull[0] || isnull[1] || isnull[2] ||
			pg_strcasecmp(TextDatumGetCString(name), found->name) != 0)
			continue;
		found->value = TextDatumGetCString(value);
		found->is_altered = is_auto_file(TextDatumGetCString(file));
	}
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Read the files, apply nothing, and give each setting anew the flags that
 * they give it.  If "found" is not NULL, fill it in.
 */
static void
read_files(FileValue *found)
{
	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo	function;
	ReturnSetInfo result = {
		.type = T_ReturnSetInfo,
		.econtext = CreateStandaloneExprContext(),
		.allowedModes = SFRM_Materialize
	};

	fmgr_info(F_PG_SHOW_ALL_FILE_SETTINGS, &function);
	InitFunctionCallInfoData(*fcinfo, &function, 0, InvalidOid, NULL,
							 (Node *) &result);
	(void) FunctionCallInvoke(fcinfo);
	if (found != NULL)
		take_last_line(found, &result);
	FreeExprContext(result.econtext, true);
}

/*
 * Return the flags that the files have given a setting.  With EXEC_BACKEND a
 * new process inherits none.
 */
static int
find_flags(const char *name)
{
#ifdef EXEC_BACKEND
	read_files(NULL);
#endif
	return find_setting(name)->status;
}

/* Return true if the files set this when this process read them last. */
bool
sf_settings_is_in_file(const char *name)
{
	return (find_flags(name) & GUC_IS_IN_FILE) != 0;
}

/*
 * Return true if the files have another value than this process uses, or none,
 * and only a restart would bring it.
 */
bool
sf_settings_awaits_restart(const char *name)
{
	const char *now = GetConfigOption(name, true, false);
	const char *then;

	/* the command line wins over the files */
	if ((find_flags(name) & GUC_PENDING_RESTART) == 0 ||
		sf_settings_is_argument(name))
		return false;
	/* the flag stays if the files have the old value again, or none */
	then = sf_settings_read_file(name, NULL);
	return then == NULL ? find_setting(name)->source != PGC_S_DEFAULT :
		now == NULL || strcmp(then, now) != 0;
}

/*
 * Return the value that a restart would take from the files, or NULL if they
 * have none.  If "is_altered" is not NULL, say there whether ALTER SYSTEM has
 * written it.
 */
char *
sf_settings_read_file(const char *name, bool *is_altered)
{
	FileValue	found = {.name = name};

	read_files(&found);
	if (is_altered != NULL)
		*is_altered = found.is_altered && may_see_files();
	return found.value;
}

/* Return true if a restart would bring another layout than this. */
static bool
is_other_layout(const char *setting, const char *default_text,
				const SfLayout *now)
{
	char	   *text;
	char		reason[SF_REASON_SIZE];
	SfLayout	then;

	if (!sf_settings_awaits_restart(setting))
		return false;
	text = sf_settings_read_file(setting, NULL);
	if (!sf_layout_parse(&then, text == NULL ? default_text : text,
						 reason, sizeof(reason)))
		return true;
	if (now == &sf_node_layout && epoch_text[0] != '\0')
		then.epoch_ms = now->epoch_ms;
	return sf_layout_code(&then) != sf_layout_code(now) ||
		then.epoch_ms != now->epoch_ms;
}

/*
 * Return the setting by which a restart would bring another layout of the
 * node, or of the shards; or NULL.
 */
const char *
sf_settings_pending_layout(bool shards)
{
	if (shards)
		return is_other_layout("snowflake.shard_layout", SHARD_LAYOUT_DEFAULT,
							   &sf_shard_layout) ?
			"snowflake.shard_layout" : NULL;
	if (sf_settings_awaits_restart("snowflake.epoch"))
		return "snowflake.epoch";
	return is_other_layout("snowflake.layout", LAYOUT_DEFAULT,
						   &sf_node_layout) ? "snowflake.layout" : NULL;
}

/*
 * Return true if ALTER SYSTEM has set this: then a line in the server's own
 * file has no effect.  False for roles that may not see where settings come
 * from.
 */
bool
sf_settings_is_altered(const char *name)
{
	return may_see_files() && is_auto_file(find_setting(name)->sourcefile);
}

/* Return true if the server's command line has set this, and no file can. */
bool
sf_settings_is_argument(const char *name)
{
	return find_setting(name)->source == PGC_S_ARGV;
}

/* Return what a role is told that may not see where a setting comes from. */
const char *
sf_settings_unseen(void)
{
	return may_see_files() ? "" :
		"\nIf that changes nothing, see this as a superuser.";
}

/*
 * Return a step of a remedy, from its verb to its end: put these lines into
 * the server's own file, or onto its command line if they come from there, and
 * have the server read it.  A line in the file has no effect on what ALTER
 * SYSTEM has set.  ALTER SYSTEM is no remedy by itself: base backups copy what
 * it writes, and so the number of a server.
 */
char *
sf_settings_step(SfSettingLine *lines, int n, SfApply apply)
{
	StringInfoData step;
	StringInfoData run;
	StringInfoData arguments;
	StringInfoData file;
	int			nfile = 0;

	initStringInfo(&step);
	initStringInfo(&run);
	initStringInfo(&arguments);
	initStringInfo(&file);
	for (int i = 0; i < n; i++)
	{
		if (sf_settings_is_argument(lines[i][0]))
		{
			appendStringInfo(&arguments, "%s-c %s='%s'",
							 arguments.len > 0 ? " " : "",
							 lines[i][0], lines[i][1]);
			continue;
		}
		nfile++;
		appendStringInfo(&file, "%s = '%s'\n", lines[i][0], lines[i][1]);
		if (apply == SF_APPLY_RESET || sf_settings_is_altered(lines[i][0]))
			appendStringInfo(&run, "ALTER SYSTEM RESET %s;\n", lines[i][0]);
	}
	if (arguments.len > 0)
		appendStringInfo(&step, "set this on the server's command line:\n%s\n%s",
						 arguments.data, nfile > 0 ? "and " : "");
	if (nfile > 0)
		appendStringInfo(&step, "add %s to %s:\n%s",
						 nfile == 1 ? "this line" : "these lines",
						 sf_settings_file(), file.data);
	if (apply != SF_APPLY_RESTART && arguments.len == 0)
		appendStringInfo(&step, "and run:\n%sSELECT pg_catalog.pg_reload_conf();",
						 run.data);
	else
		appendStringInfo(&step, "%s%sand restart this server.",
						 run.len > 0 ? "run:\n" : "", run.data);
	if (nfile > 0)
		appendStringInfoString(&step, sf_settings_unseen());
	return step.data;
}
