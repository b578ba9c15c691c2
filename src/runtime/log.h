/*-------------------------------------------------------------------------
 *
 * log.h
 *	  Log events, each kind no more often than is useful.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LOG_H
#define SF_LOG_H

#include "runtime/shmem.h"

/* Log an event within the one limit of its kind. */
#define sf_log_event(event, ...) \
	sf_log_event_within(NULL, event, __VA_ARGS__)

extern void sf_log_event_within(SfEventLimit *limit, SfEvent event,
								const char *detail, const char *hint,
								const char *format, ...)
			pg_attribute_printf(5, 6);
extern bool sf_log_file(bool written, const char *name, const char *detail);
extern void sf_log_record(SfEvent event, const char *record);

#endif							/* SF_LOG_H */
