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
#include "mark/mark.h"
#include "nodes/pg_list.h"

typedef enum SfStatusLevel
{
	SF_STATUS_OK,
	SF_STATUS_WARNING,
	SF_STATUS_ERROR
} SfStatusLevel;

/* a remedy of whatever needs a lease */
#define SF_SEE_LEASE		"See the check \"lease\"."

#define DAY_MS				(INT64CONST(24) * 3600 * 1000)
#define YEAR_MS				(365 * DAY_MS)

/* The durable numbers: the mark, and the config record. */
typedef struct SfStatusNumbers
{
	bool		locked;			/* by another session: nothing was read */
	SfDurableNumbers read;
	int64		floor_ms;		/* a call that loads the mark waits for it */
	const char *problem;		/* why they were not read, or NULL */
	const char *remedy;			/* of the problem */
} SfStatusNumbers;

/* The columns whose default makes IDs; see status_tables.c. */
typedef struct SfStatusColumns SfStatusColumns;

/* A call of snowflake_status(). */
typedef struct SfStatus
{
	List	   *rows;			/* those of the checks that have run */
	Oid			function;		/* snowflake_status(), of the extension */
	const char *check;			/* the name of the check that runs */
	SfStatusNumbers *numbers;	/* NULL: no check has read them */
	SfStatusColumns *columns;	/* NULL: no check has read them */
	bool		waits;			/* calls wait: see sf_identity_look() */
} SfStatus;

/* status.c: a check calls one of these two, at most once */
extern void sf_status_put(SfStatus *status, SfStatusLevel level,
						  const char *found, const char *remedy);
extern void sf_status_ok(SfStatus *status, const char *found);
extern ErrorData *sf_status_try(void (*step) (void *), void *arg);
extern const char *sf_status_log_error(ErrorData *error);

/* status_server.c */
extern const SfStatusNumbers *sf_status_numbers(SfStatus *status);
extern const char *sf_status_lock_remedy(Oid table);
extern void sf_status_node(SfStatus *status);
extern void sf_status_lease(SfStatus *status);
extern void sf_status_clock_sync(SfStatus *status);
extern void sf_status_clock_offset(SfStatus *status);
extern void sf_status_clock_steps(SfStatus *status);
extern void sf_status_drift(SfStatus *status);
extern void sf_status_capacity(SfStatus *status);
extern void sf_status_layout(SfStatus *status);
extern void sf_status_shard_layout(SfStatus *status);
extern void sf_status_shards(SfStatus *status);
extern void sf_status_other_layouts(SfStatus *status);
extern void sf_status_mark(SfStatus *status);
extern void sf_status_record(SfStatus *status);
extern void sf_status_refusals(SfStatus *status);
extern void sf_status_copy(SfStatus *status);
extern void sf_status_databases(SfStatus *status);

/* status_tables.c */
extern bool sf_status_read_columns(SfStatus *status);
extern void sf_status_column_types(SfStatus *status);
extern void sf_status_column_layouts(SfStatus *status);
extern void sf_status_unique_indexes(SfStatus *status);
extern void sf_status_subscriptions(SfStatus *status);
extern void sf_status_partitions(SfStatus *status);
extern void sf_status_rows_above(SfStatus *status);
extern void sf_status_rights(SfStatus *status);

/* status_feed.c */
extern void sf_status_feed(SfStatus *status);

/* recoverfuncs.c */
extern bool sf_recover_numbers(int64 floor_ms);

/* node_conflicts.c */

typedef struct SfNodeSearch
{
	Oid			relation;
	const char *name;			/* of the column */
	const SfLayout *layout;
	uint32		node;
	int64		mark_ms;		/* 0 if the mark is loaded */
	int			nrows;

	/* Set by the search. */
	bool		looked;			/* false: not possible in passing */
	bool		found;
	bool		is_ours;		/* it carries our node; else it is far ahead */
	int64		id;
} SfNodeSearch;

extern void sf_node_conflicts_find(void *arg);

#endif							/* SF_STATUS_H */
