/*-------------------------------------------------------------------------
 *
 * timefmt.c
 *	  Conversion between Unix milliseconds and the server's timestamps, which
 *	  are microseconds since 2000.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/timefmt.h"

#include "base/clock.h"
#include "utils/timestamp.h"

#define UNIX_MS_OF_2000 \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * \
	 SECS_PER_DAY * INT64CONST(1000))

/* Convert from Unix ms.  Out of range is infinity: total and monotone. */
TimestampTz
sf_timefmt_from_ms(int64 ms)
{
	if (ms >= END_TIMESTAMP / 1000 + UNIX_MS_OF_2000)
		return DT_NOEND;
	if (ms < MIN_TIMESTAMP / 1000 + UNIX_MS_OF_2000)
		return DT_NOBEGIN;
	return (ms - UNIX_MS_OF_2000) * 1000;
}

/* Convert to Unix ms, rounding down.  The time must be finite. */
int64
sf_timefmt_to_ms(TimestampTz time)
{
	int64		ms = time / 1000;

	Assert(!TIMESTAMP_NOT_FINITE(time));
	if (time % 1000 < 0)
		ms--;
	return ms + UNIX_MS_OF_2000;
}

/* Print a time for messages. */
const char *
sf_timefmt_show(int64 ms)
{
	return pstrdup(timestamptz_to_str(sf_timefmt_from_ms(ms)));
}

/* Print a length of time for messages. */
const char *
sf_timefmt_span(int64 ms)
{
	char		text[40];

	sf_clock_print_span(ms, text, sizeof(text));
	return pstrdup(text);
}
