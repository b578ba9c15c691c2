/*-------------------------------------------------------------------------
 *
 * log.h
 *	  Log events, each kind no more often than is useful.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LOG_H
#define SF_LOG_H

#include "runtime/log_event.h"

extern void sf_log_event(SfEvent event, const char *detail, const char *hint,
						 const char *format, ...) pg_attribute_printf(4, 5);

#endif							/* SF_LOG_H */
