/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Every setting: its definition, its description, its check.
 *
 * A value in postgresql.conf is read before the library is, kept as a
 * placeholder, and applied again with nothing but a WARNING if the library's
 * own check refuses it: the default would rule in silence.  So the kept texts
 * are checked once more, and a bad one stops the start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "settings.h"

#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "number.h"
#include "ranges.h"
#include "state.h"
#include "utils/guc.h"

char	   *sf_node_id = NULL;
char	   *sf_datacenter_id = NULL;
int			sf_max_clock_drift = 5;
int			sf_max_clock_wait = 3000;
int			sf_max_clock_jump = 3600;
int			sf_reserve = 2000;
int			sf_sequence_start = SF_START_ZERO;
int			sf_max_databases = 64;

SfLayout	sf_node_layout;
SfLayout	sf_shard_layout;

/* Texts of which the values above are made. */
static char *epoch_text = NULL;
static char *layout_text = NULL;
static char *shard_layout_text = NULL;
static char *shards_text = NULL;

/* As it was when the library was loaded: the same in all processes. */
static char hostname[256] = "";

static const struct config_enum_entry sequence_starts[] = {
	{"zero", SF_START_ZERO, false},
	{"random", SF_START_RANDOM, false},
	{NULL, 0, false}
};

/* The names, so that the texts of the file can be checked once more. */
static const char *const names[] = {
	"snowflake.layout", "snowflake.epoch", "snowflake.shard_layout",
	"snowflake.datacenter_id", "snowflake.node_id", "snowflake.shards",
	"snowflake.max_clock_drift", "snowflake.max_clock_wait",
	"snowflake.max_clock_jump", "snowflake.reserve",
	"snowflake.sequence_start", "snowflake.max_databases",
	"snowflake.copy_check", "snowflake.clock_check",
	"snowflake.log_interval",
	"snowflake.registry", "snowflake.lease_reserve",
	"snowflake.lease_presence", "snowflake.lease_timeout",
	"snowflake.lease_wait"
};

/* Parse a layout, or give the reason as the check's detail. */
static bool
check_layout_text(SfLayout *layout, const char *text)
{
	char		reason[SF_REASON_SIZE];

	if (sf_layout_parse(layout, text, reason, sizeof(reason)))
		return true;
	GUC_check_errdetail("%s", reason);
	return false;
}

static bool
check_layout(char **newval, void **extra, GucSource source)
{
	SfLayout	layout;

	if (!check_layout_text(&layout, *newval))
		return false;
	if (sf_layout_has(&layout, SF_SHARD))
	{
		GUC_check_errdetail("The layout of the node's IDs cannot have the field \"shard\".");
		GUC_check_errhint("Set it as snowflake.shard_layout, and generate with snowflake_shard_nextval().");
		return false;
	}
	return true;
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

static bool
check_epoch(char **newval, void **extra, GucSource source)
{
	int64_t		epoch_ms;
	char		reason[SF_REASON_SIZE];

	if ((*newval)[0] == '\0' ||
		sf_epoch_parse(&epoch_ms, *newval, reason, sizeof(reason)))
		return true;
	GUC_check_errdetail("%s", reason);
	return false;
}

/*
 * A node's or datacenter's number as it is kept in shared memory: the number
 * + 1, or 0 for an empty text.  False if it is neither.
 */
bool
sf_settings_parse_number(const char *text, uint32 *number_plus_1)
{
	char		reason[SF_REASON_SIZE];

	return sf_number_parse(number_plus_1, text, hostname,
						   reason, sizeof(reason));
}

/* Why a number is refused: its text makes none, or one that does not fit. */
static void
explain_number(const char *newval, int bits)
{
	uint32		number;
	char		reason[SF_REASON_SIZE];

	if (!sf_number_parse(&number, newval, hostname,
						 reason, sizeof(reason)) && reason[0] != '\0')
		GUC_check_errdetail("%s", reason);
	else if (sf_state == NULL)
		GUC_check_errdetail("It must be a number from 0 up to what the layout has room for, or empty: unset.");
	else
		GUC_check_errdetail("It must be a number from 0 to %lld, which the layout has room for, or empty: unset.",
							(long long) (INT64_C(1) << bits) - 1);
	GUC_check_errhint("Give the server's own number, such as \"1\"; or \"hostname:ordinal\" for the N of a host named db-N, or \"env:NAME\" for a number in the environment, either with an offset such as \"+100\".");
}

/*
 * Checks for snowflake.node_id and snowflake.datacenter_id.  At the start the
 * layout is not known yet, and both are judged together later.
 *
 * Once a node is taken, it stays for the life of the server: the postmaster,
 * which reloads first, keeps its value, and all others follow it.  Where it is
 * leased, so does what may be claimed, from the start on.  Within a
 * transaction a value is only looked at, by ALTER SYSTEM or pg_file_settings:
 * it may be one for the next start.
 */
static bool
check_number(const char *name, const char *newval, const char *current,
			 pg_atomic_uint32 *shared, int bits)
{
	uint32		number;
	uint32		kept = 0;

	if (!sf_settings_parse_number(newval, &number) ||
		(sf_state != NULL && (int64) number > INT64_C(1) << bits))
	{
		explain_number(newval, bits);
		return false;
	}
	if (sf_state == NULL || IsTransactionState() ||
		(pg_atomic_read_u64(&sf_state->lease) == 0 && !sf_settings_leases()))
		return true;
	if (IsUnderPostmaster)
		kept = pg_atomic_read_u32(shared);
	else
		(void) sf_settings_parse_number(current, &kept);
	if (number != kept)
	{
		GUC_check_errmsg("parameter \"%s\" cannot be changed from \"%s\" to \"%s\" without restarting the server",
						 name, current, newval);
		return false;
	}
	return true;
}

static bool
check_node_id(char **newval, void **extra, GucSource source)
{
	return check_number("snowflake.node_id", *newval, sf_node_id,
						sf_state ? &sf_state->configured_node : NULL,
						sf_node_layout.node_bits);
}

static bool
check_datacenter_id(char **newval, void **extra, GucSource source)
{
	return check_number("snowflake.datacenter_id", *newval, sf_datacenter_id,
						sf_state ? &sf_state->configured_datacenter : NULL,
						sf_node_layout.field[SF_DATACENTER].width);
}

/* Let all processes know what the postmaster has. */
static void
publish_number(pg_atomic_uint32 *shared, const char *text)
{
	uint32		number;

	if (!IsUnderPostmaster && sf_settings_parse_number(text, &number))
		pg_atomic_write_u32(shared, number);
}

static void
assign_node_id(const char *newval, void *extra)
{
	if (sf_state != NULL)
		publish_number(&sf_state->configured_node, newval);
}

static void
assign_datacenter_id(const char *newval, void *extra)
{
	if (sf_state != NULL)
		publish_number(&sf_state->configured_datacenter, newval);
}

/* The shard layout in force, or the one that is about to be. */
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

/*
 * Put the shards into shared memory.  The postmaster alone does, at the start
 * and at each reload, so that all sessions see one list.
 */
static void
publish_shards(const char *text)
{
	uint32		map[SF_RANGES_WORDS(SF_RANGES_MAX)];
	char		reason[SF_REASON_SIZE];

	if (sf_state == NULL || IsUnderPostmaster ||
		!sf_ranges_parse(map, sf_state->nshards, text, reason, sizeof(reason)))
		return;
	for (int i = 0; i < SF_RANGES_WORDS(sf_state->nshards); i++)
		pg_atomic_write_u32(&sf_shard_map[i], map[i]);
}

/* What the postmaster puts into new shared memory. */
void
sf_settings_publish(void)
{
	publish_shards(shards_text);
	assign_node_id(sf_node_id, NULL);
	assign_datacenter_id(sf_datacenter_id, NULL);
	sf_settings_publish_log_interval(sf_log_interval, NULL);
}

static void
assign_shards(const char *newval, void *extra)
{
	publish_shards(newval);
}

/* Compute the two layouts; what depends on two settings is judged here. */
static void
settle_layouts(void)
{
	char		reason[SF_REASON_SIZE];
	const char *wrong;

	if (!sf_layout_parse(&sf_node_layout, layout_text,
						 reason, sizeof(reason)) ||
		!sf_layout_parse(&sf_shard_layout, shard_layout_text,
						 reason, sizeof(reason)))
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("invalid layout"), errdetail("%s", reason),
				 errhint("Set snowflake.layout and snowflake.shard_layout to a preset, or to fields with their widths.")));
	if (epoch_text[0] == '\0')
		return;
	if (!sf_epoch_parse(&sf_node_layout.epoch_ms, epoch_text,
						reason, sizeof(reason)))
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("invalid epoch"), errdetail("%s", reason),
				 errhint("Set snowflake.epoch to a time in UTC such as 2024-01-01.")));
	wrong = sf_layout_complete(&sf_node_layout);
	if (wrong != NULL)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("snowflake.epoch \"%s\" does not go with snowflake.layout \"%s\"",
						epoch_text, layout_text),
				 errdetail("%s", wrong),
				 errhint("Choose an epoch on a whole tick of the layout.")));
}

static void
define_texts(void)
{
	DefineCustomStringVariable("snowflake.layout",
							   "Layout of the node's IDs: a preset's name, or fields with their widths in bits.",
							   "Such as \"timestamp:41 node:10 sequence:12 tick:1ms epoch:2024-01-01\".",
							   &layout_text, "snowflake",
							   PGC_POSTMASTER, 0, check_layout, NULL, NULL);
	DefineCustomStringVariable("snowflake.epoch",
							   "Time from which snowflake.layout counts, as ISO 8601 in UTC or Unix milliseconds.",
							   "Empty: the layout's own. The shards' epoch is part of snowflake.shard_layout.",
							   &epoch_text, "",
							   PGC_POSTMASTER, 0, check_epoch, NULL, NULL);
	DefineCustomStringVariable("snowflake.shard_layout",
							   "Layout of the IDs made for shards.",
							   NULL, &shard_layout_text, "instagram",
							   PGC_POSTMASTER, 0,
							   check_shard_layout, NULL, NULL);
	DefineCustomStringVariable("snowflake.datacenter_id",
							   "Number of this server's datacenter, for layouts that have one.",
							   "Where it is set, snowflake.node_id counts within the datacenter. Once taken, it stays until the server restarts.",
							   &sf_datacenter_id, "",
							   PGC_SIGHUP, 0, check_datacenter_id,
							   assign_datacenter_id, NULL);
	DefineCustomStringVariable("snowflake.node_id",
							   "Number of this server, which no other server has.",
							   "Such as \"1\", \"hostname:ordinal\" or \"env:NAME+100\". Empty: unset, and nothing is generated. Once taken, it stays until the server restarts.",
							   &sf_node_id, "",
							   PGC_SIGHUP, 0,
							   check_node_id, assign_node_id, NULL);
	DefineCustomStringVariable("snowflake.shards",
							   "Shards that this server may issue IDs for, such as \"0-4095,5000\".",
							   "Empty: none. No two servers may have one shard at a time.",
							   &shards_text, "",
							   PGC_SIGHUP, 0,
							   check_shards, assign_shards, NULL);
}

static void
define_limits(void)
{
	DefineCustomIntVariable("snowflake.max_clock_drift",
							"How far an ID's timestamp may be ahead of the wall clock.",
							"Rounded up to whole ticks. Full sequences borrow, and steps of the clock are bridged, up to this.",
							&sf_max_clock_drift, 5, 0, 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_clock_wait",
							"How long a call may sleep for the wall clock before it is an error.",
							"Not below snowflake.reserve, or calls fail for that long after a crash.",
							&sf_max_clock_wait, 3000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_clock_jump",
							"Largest forward jump of the wall clock that is believed.",
							"A larger one needs snowflake_accept_clock().",
							&sf_max_clock_jump, 3600, 1, 366 * 24 * 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.reserve",
							"How far the durable mark is moved ahead of the clock.",
							"It is flushed once per half of this while IDs are made; after a crash as much is skipped.",
							&sf_reserve, 2000, 100, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("snowflake.sequence_start",
							 "Where the sequence starts in a tick that a call opens.",
							 "\"random\" starts somewhere in the lower half, against IDs that are all even.",
							 &sf_sequence_start, SF_START_ZERO,
							 sequence_starts,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.max_databases",
							"Number of databases that may generate at a time.",
							NULL, &sf_max_databases, 64, 1, 10000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/* Only while shared_preload_libraries is processed. */
void
sf_settings_define(void)
{
	char	   *texts[lengthof(names)];

	for (size_t i = 0; i < lengthof(names); i++)
	{
		const char *text = GetConfigOption(names[i], true, false);

		texts[i] = text == NULL ? NULL : pstrdup(text);
	}
	if (gethostname(hostname, sizeof(hostname) - 1) != 0)
		hostname[0] = '\0';
	define_texts();
	define_limits();
	sf_settings_define_checks();
	sf_settings_define_lease();
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
