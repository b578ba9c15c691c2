/*-------------------------------------------------------------------------
 *
 * id_span.c
 *	  Spans of IDs: those of a time, and those of a table's partitions; and the
 *	  steps of the calendar.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "partition/id_span.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "base/message.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_type_d.h"
#include "common/int.h"
#include "parser/parse_coerce.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "query/query.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* ---- steps of the calendar ---- */

/*
 * Steps are in UTC, and the start of one depends on the step alone.  Months
 * are counted from year 0, so that steps that divide a year begin with it.
 * All other steps are counted from a Monday at midnight.
 */

/* Monday, 2000-01-03. */
#define ORIGIN			(2 * USECS_PER_DAY)

/* With these limits, calculations overflow only at the end of time. */
#define MAX_MONTHS		(1000 * MONTHS_PER_YEAR)
#define MAX_DAYS		366000

/* Convert an interval to a step.  Throws SQLSTATE 22023. */
void
sf_calendar_step(SfStep *step, const Interval *interval)
{
	int64		usecs = 0;
	Datum		shown;

	/* this excludes an infinite interval, too */
	if (interval->month > 0 && interval->month <= MAX_MONTHS &&
		interval->day == 0 && interval->time == 0)
	{
		step->months = interval->month;
		step->usecs = 0;
		return;
	}
	if (interval->month == 0 &&
		interval->day >= -MAX_DAYS && interval->day <= MAX_DAYS &&
		!pg_add_s64_overflow(interval->day * USECS_PER_DAY, interval->time,
							 &usecs) &&
		usecs > 0 && usecs <= MAX_DAYS * USECS_PER_DAY &&
		usecs % USECS_PER_MINUTE == 0)
	{
		step->months = 0;
		step->usecs = usecs;
		return;
	}
	shown = DirectFunctionCall1(interval_out, IntervalPGetDatum(interval));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid step: %s", DatumGetCString(shown)),
			 errdetail("A step is a number of years and months, or else of weeks, days, hours and minutes, up to 1000 years."),
			 errhint("Use a step such as '1 year', '1 month', '1 week', '1 day' or '1 hour'.")));
}

static int64
floor_to(int64 value, int64 unit)
{
	int64		rest = value % unit;

	return value - (rest < 0 ? rest + unit : rest);
}

static int
julian_day(TimestampTz time)
{
	return (int) (floor_to(time, USECS_PER_DAY) / USECS_PER_DAY) +
		POSTGRES_EPOCH_JDATE;
}

static int64
month_of(TimestampTz time)
{
	int			year,
				month,
				day;

	j2date(julian_day(time), &year, &month, &day);
	return (int64) year * MONTHS_PER_YEAR + month - 1;
}

static TimestampTz
month_start(int64 month)
{
	int			day = date2j((int) (month / MONTHS_PER_YEAR),
							 (int) (month % MONTHS_PER_YEAR) + 1, 1);

	if (day >= TIMESTAMP_END_JULIAN)
		return DT_NOEND;
	return (day - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY;
}

/* Return the start of the step with this time, 1970 or later. */
TimestampTz
sf_calendar_start(const SfStep *step, TimestampTz time)
{
	if (step->months > 0)
		return month_start(floor_to(month_of(time), step->months));
	return floor_to(time - ORIGIN, step->usecs) + ORIGIN;
}

/* Return the end of the step that begins then; infinite if out of range. */
TimestampTz
sf_calendar_end(const SfStep *step, TimestampTz start)
{
	TimestampTz end;

	if (step->months > 0)
		return month_start(month_of(start) + step->months);
	if (pg_add_s64_overflow(start, step->usecs, &end) || end >= END_TIMESTAMP)
		return DT_NOEND;
	return end;
}

/* Return the label of the step that begins then, as exact as it is long. */
const char *
sf_calendar_label(const SfStep *step, TimestampTz start)
{
	int64		usecs = start - floor_to(start, USECS_PER_DAY);
	int			minute = (int) (usecs / USECS_PER_MINUTE);
	int			year,
				month,
				day;

	j2date(julian_day(start), &year, &month, &day);
	if (step->months > 0 && step->months % MONTHS_PER_YEAR == 0)
		return psprintf("p%04d", year);
	if (step->months > 0)
		return psprintf("p%04d_%02d", year, month);
	if (step->usecs % (7 * USECS_PER_DAY) == 0)
		return psprintf("p%04dw%02d", date2isoyear(year, month, day),
						date2isoweek(year, month, day));
	if (step->usecs % USECS_PER_DAY == 0)
		return psprintf("p%04d_%02d_%02d", year, month, day);
	if (step->usecs % USECS_PER_HOUR == 0)
		return psprintf("p%04d_%02d_%02d_%02d", year, month, day, minute / 60);
	return psprintf("p%04d_%02d_%02d_%02d_%02d", year, month, day,
					minute / 60, minute % 60);
}

/* Return the step between two times as an interval; NULL if there is none. */
const char *
sf_calendar_interval(TimestampTz start, TimestampTz end)
{
	SfStep		step = {.months = month_of(end) - month_of(start)};
	int64		minutes = (end - start) / USECS_PER_MINUTE;

	if (step.months > 0 && step.months <= MAX_MONTHS &&
		sf_calendar_start(&step, start) == start &&
		sf_calendar_end(&step, start) == end)
		return psprintf("%lld month%s", (long long) step.months,
						step.months > 1 ? "s" : "");
	step.months = 0;
	step.usecs = end - start;
	if (minutes <= 0 || step.usecs != minutes * USECS_PER_MINUTE ||
		sf_calendar_start(&step, start) != start)
		return NULL;
	if (minutes % (24 * 60) == 0)
		return psprintf("%lld day%s", (long long) minutes / (24 * 60),
						minutes > 24 * 60 ? "s" : "");
	return psprintf("%lld minutes", (long long) minutes);
}

/* ---- spans of IDs ---- */

/* Throw SQLSTATE 22008 if the time is outside the layout's life. */
void
sf_id_span_require_life(const SfLayout *layout, TimestampTz time,
						bool end_allowed)
{
	int64		end_ms = sf_id_time_tick_ms(layout, layout->end_tick);
	TimestampTz end = sf_timefmt_from_ms(end_ms);

	if (!TIMESTAMP_NOT_FINITE(time) &&
		time >= sf_timefmt_from_ms(layout->epoch_ms) &&
		(time < end || (end_allowed && time == end)))
		return;
	sf_id_time_refuse(layout, "Use start and until within that range. Make partitions for other IDs with CREATE TABLE ... PARTITION OF.");
}

/*
 * Compute the IDs of a step.  A step that began before the epoch begins with
 * the first ID, and a step that outlasts the layout has no end.
 */
void
sf_id_span_of_step(SfIdSpan *span, const SfLayout *layout,
				   TimestampTz start, TimestampTz end)
{
	int64		tick = sf_layout_ms_to_tick(layout, sf_timefmt_to_ms(start));

	span->first = sf_layout_min_id(layout, Max(tick, layout->epoch_tick));
	span->last = PG_INT64_MAX;
	if (TIMESTAMP_NOT_FINITE(end))
		return;
	tick = sf_layout_ms_to_tick(layout, sf_timefmt_to_ms(end));
	if (tick < layout->end_tick)
		span->last = sf_layout_min_id(layout, tick) - 1;
}

/* Return the first ID that is not before a time, or else the largest. */
int64
sf_id_span_first_id(const SfLayout *layout, TimestampTz time)
{
	int64		id;

	return sf_id_time_bound(layout, SF_FROM, time, &id) ? id : PG_INT64_MAX;
}

/* Print the times of a partition, for messages. */
const char *
sf_id_span_show(const SfLayout *layout, const SfIdSpan *span)
{
	const char *from = "the beginning";
	const char *until = "the end";

	if (span->first != PG_INT64_MIN)
		from = timestamptz_to_str(sf_id_time_of(layout, span->first));
	from = pstrdup(from);
	if (span->last != PG_INT64_MAX)
		until = timestamptz_to_str(sf_id_time_of(layout, span->last + 1));
	return psprintf("from %s up to, not including, %s", from, until);
}

/*
 * Return true if the partition key consists of columns alone.  Loading an
 * expression of a key evaluates functions that its owner has labelled
 * IMMUTABLE.
 */
static bool
has_plain_key(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	bool		is_plain;

	if (!HeapTupleIsValid(tuple))
		return false;
	is_plain = heap_attisnull(tuple, Anum_pg_partitioned_table_partexprs,
							  NULL);
	ReleaseSysCache(tuple);
	return is_plain;
}

/* Return true if it is partitioned by ranges of one column of IDs. */
bool
sf_id_span_is_parent(Relation rel)
{
	PartitionKey key = NULL;

	if (has_plain_key(RelationGetRelid(rel)))
		key = RelationGetPartitionKey(rel);
	return key != NULL && key->strategy == PARTITION_STRATEGY_RANGE &&
		key->partnatts == 1 &&
		sf_key_type_is_order(key->partopfamily[0]) &&
		IsBinaryCoercible(key->parttypid[0], INT8OID);
}

/* Open a table partitioned by IDs.  SQLSTATE 42P01, 42809 */
Relation
sf_id_span_open_parent(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("Name the partitioned table: 'public.orders'::pg_catalog.regclass.")));
	if (!sf_id_span_is_parent(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not partitioned by range of one bigint or snowflake column",
						RelationGetRelationName(rel)),
				 errhint("Create the table with PARTITION BY RANGE (id), id being its column of type bigint or snowflake that holds the IDs.")));
	return rel;
}

/* Return all partitions except the default one, in the order of their IDs. */
SfIdSpan *
sf_id_span_read(Relation parent, int *count, Oid *default_relid)
{
	PartitionDesc desc = RelationGetPartitionDesc(parent, true);
	PartitionBoundInfo info = desc->boundinfo;
	SfIdSpan   *spans = palloc0(sizeof(SfIdSpan) * (desc->nparts + 1));

	*count = 0;
	*default_relid = InvalidOid;
	if (info == NULL)
		return spans;
	if (info->default_index >= 0)
		*default_relid = desc->oids[info->default_index];

	/* each bound ends one partition or none */
	for (int i = 1; i < info->ndatums; i++)
	{
		SfIdSpan   *span = &spans[*count];

		if (info->indexes[i] < 0)
			continue;
		span->relid = desc->oids[info->indexes[i]];
		span->first = PG_INT64_MIN;
		if (info->kind[i - 1][0] == PARTITION_RANGE_DATUM_VALUE)
			span->first = DatumGetInt64(info->datums[i - 1][0]);
		span->last = PG_INT64_MAX;
		if (info->kind[i][0] == PARTITION_RANGE_DATUM_VALUE)
			span->last = DatumGetInt64(info->datums[i][0]) - 1;
		(*count)++;
	}
	return spans;
}
