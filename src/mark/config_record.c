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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/config_record.h"

#include "layout/layout.h"
#include "mark/durable_number.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/settings.h"

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

/* Append how a layout differs from the record, if it does. */
static void
compare(const Recorded *r, StringInfo detail)
{
	int64		code = sf_durable_number_read(r->code);
	int64		epoch = sf_durable_number_read(r->epoch);
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
	if (sf_layout_from_code(&layout, code, epoch))
		sf_layout_print(&layout, recorded_text, sizeof(recorded_text));
	else
		snprintf(recorded_text, sizeof(recorded_text),
				 "unreadable: code %lld epoch %lld",
				 (long long) code, (long long) epoch);
	appendStringInfo(detail, "%s%s is \"%s\", and this database was filled with \"%s\".",
					 detail->len > 0 ? " " : "", r->setting,
					 configured_text, recorded_text);
	if (sf_settings_is_altered(r->setting))
		appendStringInfo(detail, " ALTER SYSTEM has set %s; to change it in postgresql.conf, run first: ALTER SYSTEM RESET %s;",
						 r->setting, r->setting);
}

/* Return true if the configuration differs from the record, and say how. */
bool
sf_config_record_differs(StringInfo detail)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
		compare(&recorded[i], detail);
	return detail->len > 0;
}

/* Return true if there is a record.  An epoch may be 0, a code may not. */
bool
sf_config_record_exists(void)
{
	return sf_durable_number_read(SF_DURABLE_MARK) != 0 &&
		sf_durable_number_read(SF_DURABLE_LAYOUT) != 0;
}

/*
 * Return true if any recorded number differs from the configuration.  Without
 * a recorded node layout the record is not in force yet, and a number that is
 * 0 has not been written.
 */
bool
sf_config_record_is_other(void)
{
	bool		in_force = sf_durable_number_read(SF_DURABLE_LAYOUT) != 0;

	if (sf_durable_number_read(SF_DURABLE_MARK) == 0)
		return false;
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];
		int64		code = sf_durable_number_read(r->code);
		int64		epoch = sf_durable_number_read(r->epoch);

		if ((in_force || code != 0) &&
			code != sf_layout_code(r->configured))
			return true;
		if ((in_force || epoch != 0) && epoch != r->configured->epoch_ms)
			return true;
	}
	return false;
}

/* Return the remedy for a record that differs. */
const char *
sf_config_record_remedy(void)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		int64		code = sf_durable_number_read(recorded[i].code);
		SfLayout	layout;

		/* no setting matches this record */
		if (!sf_layout_from_code(&layout, code,
								 sf_durable_number_read(recorded[i].epoch)))
			return "While a restore is running, wait for its end. If none is, see who may have written the record (the check \"privileges\" of snowflake_status()). Then run on the primary, as a superuser: SELECT snowflake_accept('configuration'); It records what is configured. Functions that read IDs with an explicit layout work meanwhile.";
	}
	return "Set snowflake.layout and snowflake.shard_layout to what is recorded, and restart the server; functions that read IDs with an explicit layout work meanwhile. If the change is meant, run on the primary, as a superuser: SELECT snowflake_accept('configuration');";
}

/* Throw SQLSTATE 55000 if the record differs. */
static void
refuse_other(void)
{
	StringInfoData detail;

	initStringInfo(&detail);
	if (sf_config_record_differs(&detail))
	{
		sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("epoch or layout of this server differs from what is recorded in this database"),
				 errdetail("%s", detail.data),
				 errhint("%s", sf_config_record_remedy())));
	}
	pfree(detail.data);
}

/*
 * Throw an error if this database was filled under another configuration.
 * Return true if there is a record.
 */
bool
sf_config_record_verify(void)
{
	if (!sf_config_record_exists())
		return false;
	refuse_other();
	return true;
}

/*
 * Record the configuration in one WAL record, which ends at *lsn.  With
 * "fill", do so only if there is no record yet; otherwise return false.
 */
static bool
write_record(bool fill, XLogRecPtr *lsn)
{
	SfDurableNumberId ids[2 * lengthof(recorded)];
	int64		values[2 * lengthof(recorded)];

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		ids[2 * i] = recorded[i].code;
		values[2 * i] = sf_layout_code(recorded[i].configured);
		ids[2 * i + 1] = recorded[i].epoch;
		values[2 * i + 1] = recorded[i].configured->epoch_ms;
	}
	return sf_durable_number_write(ids, values, lengthof(ids), fill, lsn);
}

/* Record the configuration, replacing any other.  It counts once flushed. */
XLogRecPtr
sf_config_record_write(void)
{
	XLogRecPtr	lsn;

	(void) write_record(false, &lsn);
	return lsn;
}

/*
 * Record the configuration if there is no record.  A restore may be writing
 * one right now, number by number.  Then do not replace what is there, and
 * throw an error if it differs.
 */
void
sf_config_record_fill(void)
{
	XLogRecPtr	lsn;			/* unused: the flush of the mark, which is
								 * later in the WAL, includes the record */

	while (!write_record(true, &lsn))
	{
		refuse_other();
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
sf_config_record_endangers(int64 mark_ms)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const SfLayout *now = recorded[i].configured;
		SfLayout	then;

		if (!sf_layout_from_code(&then,
								 sf_durable_number_read(recorded[i].code),
								 sf_durable_number_read(recorded[i].epoch)))
			return true;
		if (sf_layout_min_id(now, clamp_tick(now, mark_ms)) <=
			sf_layout_max_id(&then, clamp_tick(&then, mark_ms - then.tick_ms)))
			return true;
	}
	return false;
}
