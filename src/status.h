/*-------------------------------------------------------------------------
 *
 * status.h
 *	  What snowflake_status() finds, row by row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STATUS_H
#define SF_STATUS_H

#include "nodes/execnodes.h"

typedef enum SfStatusLevel
{
	SF_STATUS_OK,
	SF_STATUS_WARNING,
	SF_STATUS_ERROR
} SfStatusLevel;

/* status.c, for those that follow */
extern void sf_status_put(ReturnSetInfo *result, const char *check,
						  SfStatusLevel level, const char *found,
						  const char *remedy);
extern char *sf_status_try(void (*step) (void *), void *arg);

/* status_server.c */
extern void sf_status_server(ReturnSetInfo *result, Oid function);
extern void sf_status_kernel_clock(ReturnSetInfo *result);

/* status_tables.c */
extern void sf_status_tables(ReturnSetInfo *result, Oid function);

#endif							/* SF_STATUS_H */
