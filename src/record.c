/*-------------------------------------------------------------------------
 *
 * record.c
 *	  The configuration as recorded in a database: layouts and epochs.
 *
 * With another epoch or layout, a later time can give an ID that is already
 * there, and no mark would tell.  So they are written before the first mark
 * of a database, and a server configured otherwise neither generates there
 * nor decodes with the configured layout.
 *
 * The record is in force once the mark is set: in the WAL it comes before it,
 * and a dump taken in between restores no IDs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "record.h"

#include "layout.h"
#include "miscadmin.h"
#include "register.h"
#include "settings.h"
#include "stats.h"

/* One of the two layouts, as configured and as recorded. */
typedef struct Recorded
{
	const char *setting;
	const SfLayout *configured;
	SfRegisterId code;
	SfRegisterId epoch;
} Recorded;

static const Recorded recorded[] = {
	{"snowflake.layout", &sf_node_layout, SF_REG_LAYOUT, SF_REG_EPOCH},
	{"snowflake.shard_layout", &sf_shard_layout,
	SF_REG_SHARD_LAYOUT, SF_REG_SHARD_EPOCH},
};

/* Say how a layout differs from what is recorded; nothing if it does not. */
static void
compare(const Recorded *r, StringInfo detail)
{
	int64		code = sf_register_read(r->code);
	int64		epoch = sf_register_read(r->epoch);
	char		configured_text[SF_LAYOUT_TEXT_SIZE];
	char		recorded_text[SF_LAYOUT_TEXT_SIZE];
	SfLayout	layout;

	if (code == sf_layout_code(r->configured) &&
		epoch == r->configured->epoch_ms)
		return;
	sf_layout_print(r->configured, configured_text, sizeof(configured_text));
	if (code == 0)
	{
		appendStringInfo(detail, "%s%s is \"%s\", and what this database was filled with is recorded in part, as while it is restored.",
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
}

/* Does the configuration differ from the record?  Then say how. */
bool
sf_record_differs(StringInfo detail)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
		compare(&recorded[i], detail);
	return detail->len > 0;
}

/* Has this database been filled under any?  An epoch may be 0, a code not. */
bool
sf_record_exists(void)
{
	return sf_register_read(SF_REG_MARK) != 0 &&
		sf_register_read(SF_REG_LAYOUT) != 0;
}

/*
 * Is anything else recorded than what is configured, be it in part?  Without a
 * layout of nodes the record is not in force, and what is 0 may come yet.
 */
bool
sf_record_is_other(void)
{
	bool		in_force = sf_register_read(SF_REG_LAYOUT) != 0;

	if (sf_register_read(SF_REG_MARK) == 0)
		return false;
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *r = &recorded[i];
		int64		code = sf_register_read(r->code);
		int64		epoch = sf_register_read(r->epoch);

		if ((in_force || code != 0) &&
			code != sf_layout_code(r->configured))
			return true;
		if ((in_force || epoch != 0) && epoch != r->configured->epoch_ms)
			return true;
	}
	return false;
}

/* What to do about a record that differs. */
const char *
sf_record_remedy(void)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		int64		code = sf_register_read(recorded[i].code);
		SfLayout	layout;

		/* no setting is like that */
		if (!sf_layout_from_code(&layout, code,
								 sf_register_read(recorded[i].epoch)))
			return "While a restore is running, wait for its end. If none is, see who may have written the record (the check \"privileges\" of snowflake_status()), and have an administrator call snowflake_accept_configuration() on the primary: it puts what is configured in its place. Functions with an explicit layout work meanwhile.";
	}
	return "Set snowflake.layout, snowflake.epoch and snowflake.shard_layout to what is recorded, and restart the server; functions with an explicit layout work meanwhile. If the change is meant, have an administrator call snowflake_accept_configuration() on the primary.";
}

/* Refuse if the record differs.  SQLSTATE 55000 */
static void
refuse_other(void)
{
	StringInfoData detail;

	initStringInfo(&detail);
	if (sf_record_differs(&detail))
	{
		sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("epoch or layout of this server differs from what is recorded in this database"),
				 errdetail("%s", detail.data),
				 errhint("%s", sf_record_remedy())));
	}
	pfree(detail.data);
}

/*
 * Refuse if this database was filled under another configuration.  Returns
 * whether there is a record at all.
 */
bool
sf_record_verify(void)
{
	if (!sf_record_exists())
		return false;
	refuse_other();
	return true;
}

/*
 * Record the configuration in one WAL record, up to *lsn; with fill, if there
 * is none: else false.
 */
static bool
write_record(bool fill, XLogRecPtr *lsn)
{
	SfRegisterId ids[2 * lengthof(recorded)];
	int64		values[2 * lengthof(recorded)];

	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		ids[2 * i] = recorded[i].code;
		values[2 * i] = sf_layout_code(recorded[i].configured);
		ids[2 * i + 1] = recorded[i].epoch;
		values[2 * i + 1] = recorded[i].configured->epoch_ms;
	}
	return sf_register_write(ids, values, lengthof(ids), fill, lsn);
}

/* The same, whatever is there.  Rely on it when it is flushed. */
XLogRecPtr
sf_record_write(void)
{
	XLogRecPtr	lsn;

	(void) write_record(false, &lsn);
	return lsn;
}

/*
 * Record the configuration where there is none.  A restore may be writing one
 * right now, register by register: then what is there already is not to be
 * replaced, and if it differs that is refused.
 */
void
sf_record_fill(void)
{
	XLogRecPtr	lsn;			/* the mark's, which is flushed, is later */

	while (!write_record(true, &lsn))
	{
		refuse_other();
		CHECK_FOR_INTERRUPTS();
	}
}

/* The tick that holds this time, or the nearest one of the layout's life. */
static int64
clamp_tick(const SfLayout *layout, int64 ms)
{
	int64		tick = sf_layout_ms_to_tick(layout, ms);

	return Max(layout->epoch_tick, Min(tick, layout->end_tick - 1));
}

/*
 * Could an ID made from now on, at the mark or later, repeat one made under
 * the record?  Not if the configured layouts' first ID at the mark is above
 * every ID that the recorded ones had before it.
 */
bool
sf_record_endangers(int64 mark_ms)
{
	for (size_t i = 0; i < lengthof(recorded); i++)
	{
		const SfLayout *now = recorded[i].configured;
		SfLayout	then;

		if (!sf_layout_from_code(&then, sf_register_read(recorded[i].code),
								 sf_register_read(recorded[i].epoch)))
			return true;
		if (sf_layout_min_id(now, clamp_tick(now, mark_ms)) <=
			sf_layout_max_id(&then, clamp_tick(&then, mark_ms - then.tick_ms)))
			return true;
	}
	return false;
}
