/*-------------------------------------------------------------------------
 *
 * span.h
 *	  Spans of IDs: those of a time, and those of a table's partitions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPAN_H
#define SF_SPAN_H

#include "datatype/timestamp.h"
#include "layout.h"
#include "utils/relcache.h"

/*
 * The IDs of a partition, the first and the last included: where there is no
 * bound, that is the end of bigint.
 */
typedef struct SfSpan
{
	int64		first;
	int64		last;
	Oid			relid;			/* invalid while it is missing */
	char		name[NAMEDATALEN];	/* of a missing one */
} SfSpan;

extern void sf_span_require_life(const SfLayout *layout, TimestampTz time,
								 bool end_allowed);
extern void sf_span_of_step(SfSpan *span, const SfLayout *layout,
							TimestampTz start, TimestampTz end);
extern const char *sf_span_show(const SfLayout *layout, const SfSpan *span);
extern Relation sf_span_open_parent(Oid relid, int lockmode);
extern SfSpan *sf_span_read(Relation parent, int *count, Oid *default_relid);

#endif							/* SF_SPAN_H */
