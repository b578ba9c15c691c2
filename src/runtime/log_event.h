/*-------------------------------------------------------------------------
 *
 * log_event.h
 *	  The list of log events, for programs that read the log.
 *
 * Each event has a code, which never changes its meaning: it is the SQLSTATE
 * of the line, and also stands before the message.  Then follow the level, the
 * number of lines that may come at once, and the interval of further lines, in
 * multiples of snowflake.log_interval.  doc/monitoring.md explains each.
 *
 * Errors are not events: a client gets them, with SQLSTATEs of their own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LOG_EVENT_H
#define SF_LOG_EVENT_H

#define SF_EVENT_LIST(EVENT) \
	/* 1: clocks */ \
	EVENT(SF_EVENT_CLOCK_WAITED_FOR, "SF101", LOG, 1, 1) \
	EVENT(SF_EVENT_CLOCK_BACK, "SF102", LOG, 1, 1) \
	EVENT(SF_EVENT_CLOCK_FORWARD, "SF103", LOG, 1, 1) \
	EVENT(SF_EVENT_CLOCK_UNSYNCHRONIZED, "SF104", WARNING, 1, 60) \
	EVENT(SF_EVENT_CLOCK_OFF, "SF105", WARNING, 5, 1) \
	EVENT(SF_EVENT_CLOCK_FAR, "SF106", WARNING, 1, 1) \
	/* 2: the lease of a node id */ \
	EVENT(SF_EVENT_NODE_LEASED, "SF201", LOG, 10, 1) \
	EVENT(SF_EVENT_NODE_LOST, "SF202", WARNING, 10, 1) \
	EVENT(SF_EVENT_NODE_PROBLEM, "SF203", WARNING, 10, 1) \
	EVENT(SF_EVENT_NODE_SOLVED, "SF204", LOG, 10, 1) \
	EVENT(SF_EVENT_NODE_FROZEN, "SF205", LOG, 10, 1) \
	EVENT(SF_EVENT_NOT_GIVEN_BACK, "SF206", LOG, 1, 1) \
	EVENT(SF_EVENT_NODE_EXPIRED, "SF207", WARNING, 10, 1) \
	EVENT(SF_EVENT_REGISTRY_LOST, "SF208", WARNING, 10, 1) \
	EVENT(SF_EVENT_NODE_RETURNED, "SF209", LOG, 10, 1) \
	/* 4: files */ \
	EVENT(SF_EVENT_COPY, "SF401", WARNING, 1, 1) \
	EVENT(SF_EVENT_FILE_DAMAGED, "SF402", LOG, 1, 1) \
	EVENT(SF_EVENT_FILE_UNWRITTEN, "SF403", WARNING, 5, 1) \
	/* 5: the configuration */ \
	EVENT(SF_EVENT_LAYOUT_ENDS, "SF501", WARNING, 1, 1440) \
	EVENT(SF_EVENT_NODE_MISFIT, "SF502", LOG, 1, 1) \
	EVENT(SF_EVENT_STANDBY_NODE, "SF503", LOG, 1, 1) \
	EVENT(SF_EVENT_STANDBY_SAME, "SF504", WARNING, 1, 1) \
	EVENT(SF_EVENT_WAS_LEASED, "SF505", WARNING, 1, 1) \
	EVENT(SF_EVENT_PROMOTED_SAME, "SF506", WARNING, 1, 1) \
	EVENT(SF_EVENT_STARTED, "SF507", LOG, 1, 1) \
	EVENT(SF_EVENT_NODE_CHANGED, "SF509", LOG, 1, 0) \
	/* 6: the audit: no interval limits its lines */ \
	EVENT(SF_EVENT_AUDIT, "SF601", LOG, 1, 0)

#define SF_EVENT_ID(id, code, level, burst, intervals) id,

typedef enum SfEvent
{
	SF_EVENT_LIST(SF_EVENT_ID)
	SF_EVENTS
} SfEvent;

#endif							/* SF_LOG_EVENT_H */
