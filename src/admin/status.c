/*-------------------------------------------------------------------------
 *
 * status.c
 *	  snowflake_status(): a summary, and one row for each check, worst first.
 *
 * It is for people in trouble, so nothing that is wrong here makes it fail: a
 * step that may throw runs in sf_status_try(), and its error is a finding.  It
 * changes nothing: it takes no node and loads no mark.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "runtime/preconditions.h"
#include "utils/builtins.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_status);

static const char *const levels[] = {"ok", "warning", "error"};

typedef struct Row
{
	const char *check;
	SfStatusLevel level;
	char	   *found;
	char	   *remedy;			/* NULL if all is well */
} Row;

/*
 * Add the row of the check that runs.  The remedy is NULL if, and only if, all
 * is well.
 */
void
sf_status_put(SfStatus *status, SfStatusLevel level, const char *found,
			  const char *remedy)
{
	Row		   *row = palloc(sizeof(Row));

	Assert((level == SF_STATUS_OK) == (remedy == NULL));
	row->check = status->check;
	row->level = level;
	row->found = pstrdup(found);
	row->remedy = remedy == NULL ? NULL : pstrdup(remedy);
	status->rows = lappend(status->rows, row);
}

void
sf_status_ok(SfStatus *status, const char *found)
{
	sf_status_put(status, SF_STATUS_OK, found, NULL);
}

/*
 * Do a step in a subtransaction.  Return its error, or NULL.  A cancel is not
 * caught, nor a lack of memory: neither is the step's error.
 */
ErrorData *
sf_status_try(void (*step) (void *), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		step(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL && (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
						  error->sqlerrcode == ERRCODE_OUT_OF_MEMORY))
		ReThrowError(error);
	return error;
}

/*
 * Log an error that was caught, and return its remedy.  It has its context
 * already, which ThrowErrorData() must not add again.
 */
const char *
sf_status_log_error(ErrorData *error)
{
	ErrorContextCallback *stack = error_context_stack;

	error_context_stack = NULL;
	error->elevel = LOG_SERVER_ONLY;
	ThrowErrorData(error);
	error_context_stack = stack;
	return psprintf("%s%sSee the server's log for this error.",
					error->hint == NULL ? "" : error->hint,
					error->hint == NULL ? "" : " ");
}

static void
put_preload(SfStatus *status)
{
	const char *keep = sf_shmem == NULL ? NULL : sf_preload_keep_remedy();

	if (keep != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  "the library is preloaded, but the configuration files no longer name it in a list that the server can read: a restart fails, or this server makes no IDs after it",
					  keep);
	else if (sf_shmem != NULL)
		sf_status_ok(status, "the library is preloaded");
	else if (OidIsValid(get_extension_oid("snowflake_registry", true)))
		sf_status_ok(status, "the library is not preloaded: this server makes no IDs; this database is a registry, which needs no library");
	else
		sf_status_put(status, SF_STATUS_ERROR,
					  "the library is not preloaded: this server makes no IDs",
					  sf_preload_hint());
}

static void
put_role(SfStatus *status)
{
	sf_status_ok(status, RecoveryInProgress() ?
				 "standby: it makes no IDs before it is promoted" :
				 "primary");
}

/* ---- the checks ---- */

/* What a check needs. */
#define MEMORY	0x01			/* a preloaded library: else there is no row */
#define COLUMNS	0x02			/* columns whose default makes IDs */

/*
 * All checks, in the order of their rows.  A check that is not for standbys
 * says there that all is well.
 */
static const struct Check
{
	const char *name;
	int			needs;
	bool		on_standby;
	void		(*run) (SfStatus *status);
}			checks[] = {
	{"preload", 0, true, put_preload},
	{"role", 0, true, put_role},
	{"clock synchronisation", 0, true, sf_status_clock_sync},
	{"node id", MEMORY, true, sf_status_node},
	{"lease", MEMORY, false, sf_status_lease},
	{"clock offset", MEMORY, false, sf_status_clock_offset},
	{"clock steps", MEMORY, false, sf_status_clock_steps},
	{"drift", MEMORY, false, sf_status_drift},
	{"capacity", MEMORY, false, sf_status_capacity},
	{"layout", MEMORY, true, sf_status_layout},
	{"shard layout", MEMORY, true, sf_status_shard_layout},
	{"shards", MEMORY, true, sf_status_shards},
	{"other layouts", MEMORY, false, sf_status_other_layouts},
	{"mark", MEMORY, false, sf_status_mark},
	{"recorded configuration", MEMORY, true, sf_status_record},
	{"refusals", MEMORY, true, sf_status_refusals},
	{"copied data directory", MEMORY, true, sf_status_copy},
	{"databases", MEMORY, false, sf_status_databases},
	{"privileges", 0, true, sf_status_rights},
	{"column types", COLUMNS, true, sf_status_column_types},
	{"column layouts", MEMORY | COLUMNS, false, sf_status_column_layouts},
	{"unique indexes", COLUMNS, true, sf_status_unique_indexes},
	{"subscriptions", COLUMNS, false, sf_status_subscriptions},
	{"partitions", MEMORY | COLUMNS, false, sf_status_partitions},
	{"rows above", COLUMNS, false, sf_status_rows_above},
	{"feed", 0, true, sf_status_feed},
};

static void
run_check(SfStatus *status, const struct Check *check)
{
	if ((check->needs & MEMORY) != 0 && sf_shmem == NULL)
		return;
	status->check = check->name;
	if (!check->on_standby && RecoveryInProgress())
		sf_status_ok(status, "a standby makes no IDs");
	else if ((check->needs & COLUMNS) == 0 || sf_status_read_columns(status))
		check->run(status);
}

/* ---- the rows ---- */

/*
 * Return the rows, the worst first, after one that says how many checks are
 * not ok, and which is the worst.
 */
static List *
sum_up(SfStatus *status)
{
	List	   *ordered = NIL;
	int			count = list_length(status->rows);
	int			bad = 0;
	StringInfoData names;
	Row		   *worst;

	initStringInfo(&names);
	for (int level = SF_STATUS_ERROR; level >= SF_STATUS_OK; level--)
	{
		ListCell   *cell;

		foreach(cell, status->rows)
		{
			Row		   *row = lfirst(cell);

			if ((int) row->level != level)
				continue;
			ordered = lappend(ordered, row);
			if (level != SF_STATUS_OK)
				appendStringInfo(&names, "%s%s", bad++ > 0 ? ", " : "",
								 row->check);
		}
	}
	worst = linitial(ordered);
	status->check = "summary";
	if (bad == 0)
		sf_status_ok(status, psprintf("all %d checks are ok", count));
	else
		sf_status_put(status, worst->level,
					  psprintf("%d of %d checks need attention: %s",
							   bad, count, names.data),
					  psprintf("Begin with the remedy of the check \"%s\".",
							   worst->check));
	return lcons(llast(status->rows), ordered);
}

static void
return_row(ReturnSetInfo *result, const Row *row)
{
	bool		nulls[4] = {false, false, false, row->remedy == NULL};
	Datum		values[4] = {0};

	values[0] = CStringGetTextDatum(row->check);
	values[1] = CStringGetTextDatum(levels[row->level]);
	values[2] = CStringGetTextDatum(row->found);
	if (row->remedy != NULL)
		values[3] = CStringGetTextDatum(row->remedy);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * snowflake_status() returns rows: a check, "ok", "warning" or "error", the
 * finding, and its remedy; the first row is the summary
 */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	SfStatus	status = {.function = fcinfo->flinfo->fn_oid};
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < (int) lengthof(checks); i++)
		run_check(&status, &checks[i]);
	foreach(cell, sum_up(&status))
		return_row((ReturnSetInfo *) fcinfo->resultinfo, lfirst(cell));
	return (Datum) 0;
}
