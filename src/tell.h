/*-------------------------------------------------------------------------
 *
 * tell.h
 *	  Lines for the log: events, each kind no more often than is useful.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TELL_H
#define SF_TELL_H

#include "event.h"

extern void sf_tell(SfEvent event, const char *detail, const char *hint,
					const char *format, ...) pg_attribute_printf(4, 5);

#endif							/* SF_TELL_H */
