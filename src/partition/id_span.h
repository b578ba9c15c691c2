/*-------------------------------------------------------------------------
 *
 * id_span.h
 *	  Spans of IDs: those of a time, and those of a table's partitions; and the
 *	  steps of the calendar.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ID_SPAN_H
#define SF_ID_SPAN_H

#include "datatype/timestamp.h"
#include "layout/layout.h"
#include "utils/relcache.h"

/*
 * The IDs of a partition, first and last included.  Without a bound, the end
 * of bigint.
 */
typedef struct SfIdSpan
{
	int64		first;
	int64		last;
	Oid			relid;			/* invalid if it is missing */
	char		name[NAMEDATALEN];	/* of a missing one */
} SfIdSpan;

extern void sf_id_span_require_life(const SfLayout *layout, TimestampTz time,
									bool end_allowed);
extern void sf_id_span_of_step(SfIdSpan *span, const SfLayout *layout,
							   TimestampTz start, TimestampTz end);
extern int64 sf_id_span_first_id(const SfLayout *layout, TimestampTz time);
extern const char *sf_id_span_show(const SfLayout *layout,
								   const SfIdSpan *span);
extern bool sf_id_span_is_parent(Relation rel);
extern Relation sf_id_span_open_parent(Oid relid, int lockmode);
extern SfIdSpan *sf_id_span_read(Relation parent, int *count,
								 Oid *default_relid);

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

#endif							/* SF_ID_SPAN_H */
