/*-------------------------------------------------------------------------
 *
 * calendar.c
 *	  Steps of the calendar, in UTC: their starts, ends and labels.
 *
 * A start depends on the step alone.  Months are counted from year 0, so that
 * steps that divide a year begin with it.  All other steps are counted from a
 * Monday at midnight.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "partition/id_span.h"

#include "common/int.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

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
