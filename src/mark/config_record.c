/*-------------------------------------------------------------------------
 *
 * config_record.c
 *	  The config record: layouts and epochs that a database was filled with.
 *
 * With another epoch or layout, a later time can give an ID that is already in
 * the database, and no mark would show that.  So the record is written before
 * the first mark of a database.  A server with another configuration neither
 * makes IDs there nor decodes with the configured layout.
 *
 * The record is in force once the mark is set.  In the WAL the record precedes
 * the mark.  A dump that has the record and no mark yet has no IDs either.
 *
 * The functions that judge a record are given the durable numbers, all read
 * once: they read and lock nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "access/xlog.h"
#include "base/message.h"
#include "layout/layout.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/settings.h"
#include "utils/guc.h"

/* One of the two layouts, as configured and as recorded. */
typedef struct Recorded
{
	const char *setting;
	const SfLayout *configured;
	SfDurableNumberId code;
	SfDurableNumberId epoch;
} Recorded;

static const Recorded recorded[] = {
	{"snowflake.layout", &sf_node_layout, SF_DURABLE_LAYOUT, SF_DURABLE_EPOCH},
	{"snowflake.shard_layout", &sf_shard_layout,
	SF_DURABLE_SHARD_LAYOUT, SF_DURABLE_SHARD_EPOCH},
};

/* Read one of the recorded layouts; return false if that is impossible. */
static bool
read_recorded(SfLayout *layout, const Recorded *r,
			  const SfDurableNumbers *numbers)
{
	return sf_layout_from_code(layout, numbers->value[r->code],
							   numbers->value[r->epoch]);
}

/* Append how a layout differs from the record, if it does. */
static void
compare(const Recorded *r, const SfDurableNumbers *numbers, StringInfo detail)
{
	int64		code = numbers->value[r->code];
	int64		epoch = numbers->value[r->epoch];
	char		configured_text[SF_LAYOUT_TEXT_SIZE];
	char		recorded_text[SF_LAYOUT_TEXT_SIZE];
	SfLayout	layout;

	if (code == sf_layout_code(r->configured) &&
		epoch == r->configured->epoch_ms)
		return;
	sf_layout_print(r->configured, configured_text, sizeof(configured_text));
	if (code == 0)
	{
		appendStringInfo(detail, "%s%s is \"%s\", and only a part of this database's record is there, as during a restore.",
						 detail->len > 0 ? " " : "", r->setting,
						 configured_text);
		return;
	}
	if (read_recorded(&layout, r, numbers))
		sf_layout_print(&layout, recorded_text, sizeof(recorded_text));
	else
		snprintf(recorded_text, sizeof(recorded_text),
				 "unreadable: code %lld epoch %lld",
				 (long long) code, (long long) epoch);
	appendStringInfo(detail, "%s%s is \"%s\", and this database was filled with \"%s\".",
					 detail->len > 0 ? " " : "", r->setting,
					 configured_text, recorded_text);
}

/* Return true if the configuration differs from the record, and say how. */
bool
sf_config_record_differs(const SfDurableNumbers *numbers, StringInfo detail)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
		compare(&recorded[i], numbers, detail);
	return detail->len > 0;
}

/* Return true if there is a record.  An epoch may be 0, a code may not. */
bool
sf_config_record_exists(const SfDurableNumbers *numbers)
{
	return numbers->value[SF_DURABLE_MARK] != 0 &&
		numbers->value[SF_DURABLE_LAYOUT] != 0;
}

/*
 * Return true if any recorded number differs from the configuration.  Without
 * a recorded node layout the record is not in force yet, and a number that is
 * 0 has not been written.
 */
bool
sf_config_record_is_other(const SfDurableNumbers *numbers)
{
	bool		in_force = numbers->value[SF_DURABLE_LAYOUT] != 0;

	if (numbers->value[SF_DURABLE_MARK] == 0)
		return false;
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];
		int64		code = numbers->value[r->code];
		int64		epoch = numbers->value[r->epoch];

		if ((in_force || code != 0) &&
			code != sf_layout_code(r->configured))
			return true;
		if ((in_force || epoch != 0) && epoch != r->configured->epoch_ms)
			return true;
	}
	return false;
}

#define ACCEPT \
	"run on the primary, as a superuser: SELECT %s.snowflake_accept('configuration'::pg_catalog.text);"

/*
 * Return what has been added to each of the recorded numbers, or 0.  pglogical
 * replicates sequences so, with 1000 or more.
 */
static int64
find_added(const SfDurableNumbers *numbers)
{
	int64		added = numbers->value[recorded[0].code] -
		sf_layout_code(recorded[0].configured);

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];

		if (numbers->value[r->code] != sf_layout_code(r->configured) + added ||
			numbers->value[r->epoch] != r->configured->epoch_ms + added)
			return 0;
	}
	return added;
}

#define REMOVE(name) \
	"pglogical.replication_set_remove_sequence('default'::pg_catalog.name, 'snowflake_state.snowflake_" name "'::pg_catalog.regclass)"
#define STOP_PGLOGICAL \
	"pglogical has added %lld to the recorded numbers. On its provider: SELECT " \
	REMOVE("mark") ", " REMOVE("recorded_layout") ", " \
	REMOVE("recorded_epoch") ", " REMOVE("recorded_shard_layout") ", " \
	REMOVE("recorded_shard_epoch") "; Then run on the primary, as a superuser: SELECT * FROM %s.snowflake_recover(); SELECT %s.snowflake_accept('configuration'::pg_catalog.text);"

/*
 * Return the remedy for a record that differs.  The recorded layouts contain
 * their epochs.  A restart with these would stop each database that has been
 * filled with the configured ones, as those that make IDs now.
 */
const char *
sf_config_record_remedy(const SfDurableNumbers *numbers)
{
	SfSettingLine lines[lengthof(recorded) + 1];
	char		texts[lengthof(recorded)][SF_LAYOUT_TEXT_SIZE];
	int64		added = find_added(numbers);
	int			n = 0;

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];
		SfLayout	layout;

		/* no setting matches this record */
		if (!read_recorded(&layout, r, numbers) && added >= 1000)
			return psprintf(STOP_PGLOGICAL, (long long) added,
							sf_extschema(), sf_extschema());
		if (!read_recorded(&layout, r, numbers))
			return psprintf("While a restore is running, wait for its end. Otherwise " ACCEPT " That records what is configured.",
							sf_extschema());
		if (sf_layout_code(&layout) == sf_layout_code(r->configured) &&
			layout.epoch_ms == r->configured->epoch_ms)
			continue;
		sf_layout_print(&layout, texts[i], sizeof(texts[i]));
		lines[n][0] = r->setting;
		lines[n++][1] = texts[i];
	}
	/* a layout's own epoch takes its place */
	if (n > 0 && lines[0][0] == recorded[0].setting &&
		*GetConfigOption("snowflake.epoch", false, false) != '\0')
	{
		lines[n][0] = "snowflake.epoch";
		lines[n++][1] = "";
	}
	if (sf_db_slots_others_issue())
		return psprintf("If this database was restored beside others, which make IDs with the present settings, once each column of IDs has a unique index, " ACCEPT "\nOtherwise, and to stop those, %s",
						sf_extschema(),
						sf_settings_step(lines, n, SF_APPLY_RESTART));
	return psprintf("To keep the recorded configuration, which stops IDs in databases of the present one, %s\nIf only this database was restored, or the change is meant, " ACCEPT,
					sf_settings_step(lines, n, SF_APPLY_RESTART),
					sf_extschema());
}

/* Throw SQLSTATE 55000 if the record differs. */
static void
refuse_other(const SfDurableNumbers *numbers)
{
	StringInfoData detail;

	initStringInfo(&detail);
	if (sf_config_record_differs(numbers, &detail))
	{
		sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("epoch or layout of this server differs from what is recorded in this database"),
				 errdetail("%s", detail.data),
				 errhint("%s", sf_config_record_remedy(numbers))));
	}
	pfree(detail.data);
}

/*
 * Throw an error if this database was filled under another configuration.
 * Return true if there is a record.
 */
bool
sf_config_record_verify(const SfDurableNumbers *numbers)
{
	if (!sf_config_record_exists(numbers))
		return false;
	refuse_other(numbers);
	return true;
}

/* Read the numbers, and throw the same error. */
void
sf_config_record_require(void)
{
	SfDurableNumbers numbers;

	sf_durable_numbers_find(NULL);
	(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
	(void) sf_config_record_verify(&numbers);
}

/*
 * Record the configuration in one WAL record, which ends at *lsn.  With
 * "fill", do so only if there is no record yet; otherwise return false.
 */
static bool
write_record(bool fill, XLogRecPtr *lsn)
{
	SfDurableNumbers numbers;

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];

		numbers.value[r->code] = sf_layout_code(r->configured);
		numbers.value[r->epoch] = r->configured->epoch_ms;
	}
	return sf_durable_record_write(&numbers, fill, lsn);
}

/* Record the configuration, replacing any other. */
void
sf_config_record_replace(void)
{
	XLogRecPtr	lsn;

	(void) write_record(false, &lsn);
	XLogFlush(lsn);
}

/*
 * Record the configuration if there is no record.  A restore may be writing
 * one right now, number by number.  Then do not replace what is there, and
 * throw an error if it differs.
 */
void
sf_config_record_fill(void)
{
	SfDurableNumbers numbers;
	XLogRecPtr	lsn;			/* unused: the flush of the mark, which is
								 * later in the WAL, includes the record */

	while (!write_record(true, &lsn))
	{
		(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
		refuse_other(&numbers);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Return the tick of this time, or the nearest one of the layout's life. */
static int64
clamp_tick(const SfLayout *layout, int64 ms)
{
	int64		tick = sf_layout_ms_to_tick(layout, ms);

	return Max(layout->epoch_tick, Min(tick, layout->end_tick - 1));
}

/*
 * Return true if an ID that is made at the mark or later could repeat one that
 * was made in a recorded layout.  That cannot happen if the first ID of the
 * configured layout at the mark is above every ID of the recorded layout
 * before the mark.
 */
bool
sf_config_record_endangers(const SfDurableNumbers *numbers)
{
	int64		mark_ms = numbers->value[SF_DURABLE_MARK];

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const SfLayout *now = recorded[i].configured;
		SfLayout	then;

		if (!read_recorded(&then, &recorded[i], numbers))
			return true;
		if (sf_layout_min_id(now, clamp_tick(now, mark_ms)) <=
			sf_layout_max_id(&then, clamp_tick(&then, mark_ms - then.tick_ms)))
			return true;
	}
	return false;
}
