/*-------------------------------------------------------------------------
 *
 * calendar.h
 *	  Steps of the calendar, in UTC.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CALENDAR_H
#define SF_CALENDAR_H

#include "datatype/timestamp.h"

/* A number of months, or of microseconds that are whole minutes. */
typedef struct SfStep
{
	int64		months;
	int64		usecs;
} SfStep;

extern void sf_calendar_step(SfStep *step, const Interval *interval);
extern TimestampTz sf_calendar_start(const SfStep *step, TimestampTz time);
extern TimestampTz sf_calendar_end(const SfStep *step, TimestampTz start);
extern const char *sf_calendar_label(const SfStep *step, TimestampTz start);
extern const char *sf_calendar_interval(TimestampTz start, TimestampTz end);

#endif							/* SF_CALENDAR_H */
