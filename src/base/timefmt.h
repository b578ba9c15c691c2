/*-------------------------------------------------------------------------
 *
 * timefmt.h
 *	  Conversion between Unix milliseconds and the server's timestamps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIMEFMT_H
#define SF_TIMEFMT_H

#include "datatype/timestamp.h"

extern TimestampTz sf_timefmt_from_ms(int64 ms);
extern int64 sf_timefmt_to_ms(TimestampTz time);
extern const char *sf_timefmt_show(int64 ms);
extern const char *sf_timefmt_span(int64 ms);

#endif							/* SF_TIMEFMT_H */
