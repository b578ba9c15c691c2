/*-------------------------------------------------------------------------
 *
 * times.h
 *	  Unix milliseconds and the server's timestamps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIMES_H
#define SF_TIMES_H

#include "datatype/timestamp.h"

extern TimestampTz sf_times_from_ms(int64 ms);
extern int64 sf_times_to_ms(TimestampTz time);
extern const char *sf_times_show(int64 ms);
extern const char *sf_times_span(int64 ms);

#endif							/* SF_TIMES_H */
