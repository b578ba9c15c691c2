/*-------------------------------------------------------------------------
 *
 * status.h
 *	  The checks of snowflake_status(), row by row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STATUS_H
#define SF_STATUS_H

#include "layout/layout.h"
#include "mark/durable_number.h"
#include "nodes/execnodes.h"

typedef enum SfStatusLevel
{
	SF_STATUS_OK,
	SF_STATUS_WARNING,
	SF_STATUS_ERROR
} SfStatusLevel;

#define DAY_MS				(INT64CONST(24) * 3600 * 1000)
#define YEAR_MS				(365 * DAY_MS)

#define SF_STATUS_SET_CLOCK \
	"Correct the server's clock. IDs resume when the clock reaches that time."
#define SF_STATUS_WAIT \
	SF_STATUS_SET_CLOCK " If the clock is right, wait: after a crash this takes at most snowflake.reserve."

/* The durable numbers: the mark, and the config record. */
typedef struct SfStatusNumbers
{
	Oid			function;
	bool		locked;			/* by another session: nothing was read */
	SfDurableNumbers read;
	char	   *problem;		/* why they were not read, or NULL */
	char	   *remedy;			/* of the problem */
} SfStatusNumbers;

/* status.c, used by the others */
extern void sf_status_put(ReturnSetInfo *result, const char *check,
						  SfStatusLevel level, const char *found,
						  const char *remedy);
extern void sf_status_ok(ReturnSetInfo *result, const char *check,
						 const char *found);
extern bool sf_status_standby(ReturnSetInfo *result, const char *check);
extern char *sf_status_try(void (*step) (void *), void *arg, char **hint);

/* status_node.c */
extern void sf_status_node(ReturnSetInfo *result);

/* status_server.c */
extern void sf_status_server(ReturnSetInfo *result, Oid function);
extern void sf_status_read_numbers(Oid function, SfStatusNumbers *numbers);

/* status_clock.c */
extern void sf_status_kernel_clock(ReturnSetInfo *result);
extern void sf_status_clock(ReturnSetInfo *result);

/* status_rights.c */
extern void sf_status_rights(ReturnSetInfo *result, Oid function);

/* status_tables.c */
extern void sf_status_tables(ReturnSetInfo *result, Oid function);

/* node_conflicts.c */

typedef struct SfNodeConflict
{
	bool		found;
	bool		is_ours;		/* it carries our node; else it is far ahead */
	int64		id;
} SfNodeConflict;

extern bool sf_node_conflicts_find(Oid relation, const char *name,
								   const SfLayout *layout, uint32 node,
								   int64 mark_ms, int nrows,
								   SfNodeConflict *conflict);

#endif							/* SF_STATUS_H */
