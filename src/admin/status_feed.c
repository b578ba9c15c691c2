/*-------------------------------------------------------------------------
 *
 * status_feed.c
 *	  The check "feed" of snowflake_status(): does a server hold the feed over
 *	  several servers back?
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "feed/feed.h"
#include "runtime/shmem.h"

#define OLD_MS		(60 * 1000)

/* What there is in the table. */
typedef struct Found
{
	bool		exists;			/* the table */
	List	   *rows;
} Found;

static void
look(void *arg)
{
	Found	   *found = arg;
	Relation	table = sf_feed_open(AccessShareLock);

	found->exists = table != NULL;
	if (table == NULL)
		return;
	found->rows = sf_feed_rows(table);
	relation_close(table, NoLock);
}

static bool
is_own(const SfFeedRow *row)
{
	return sf_shmem != NULL && row->server == sf_feed_server();
}

/* Report a server that has published nothing for long. */
static void
put_late(SfStatus *status, const SfFeedRow *row, int64 since_ms)
{
	char	   *name = pstrdup(row->name == NULL ? "?" : row->name);

	sf_text_make_printable(name);
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf("server " INT64_FORMAT " (%s) holds the feed back: it has published nothing since %s, %s ago",
						   row->server, name, sf_timefmt_show(since_ms),
						   sf_timefmt_span(sf_clock_wall_ms() - since_ms)),
				  is_own(row) ?
				  psprintf(SF_FEED_PUBLISH_REMEDY, sf_extschema()) :
				  psprintf("Start that server, and see its own snowflake_status(). Only if it never comes back, and none of its rows is still on its way, run%s: SELECT %s.snowflake_leave_feed('" INT64_FORMAT "'::bigint);",
						   RecoveryInProgress() ? " on the primary" : "",
						   sf_extschema(), row->server));
}

/*
 * Report the feed; no row if there is no table.  A server that is told to
 * publish, and has no row, was not told to join, or failed to.
 */
void
sf_status_feed(SfStatus *status)
{
	Found		found = {0};
	ErrorData  *error = sf_status_try(look, &found);
	const SfFeedRow *oldest = NULL;
	int64		since_ms = 0;
	bool		has_own = false;
	int			n = 0;
	ListCell   *cell;

	foreach(cell, found.rows)
	{
		const SfFeedRow *row = lfirst(cell);

		has_own = has_own || is_own(row);
		if (row->left || TIMESTAMP_NOT_FINITE(row->published))
			continue;
		n++;
		if (oldest == NULL || row->published < oldest->published)
			oldest = row;
	}
	if (oldest != NULL)
		since_ms = sf_timefmt_to_ms(oldest->published);
	if (error != NULL && error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		sf_status_ok(status, psprintf("not looked at: %s", error->message));
	else if (error != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("it cannot be read: %s", error->message),
					  error->hint != NULL ?
					  error->hint : sf_status_log_error(error));
	else if (oldest != NULL && sf_clock_wall_ms() - since_ms > OLD_MS)
		put_late(status, oldest, since_ms);
	else if (found.exists && !has_own && !RecoveryInProgress() &&
			 sf_feed_has_worker())
		sf_status_put(status, SF_STATUS_WARNING,
					  "this server has no row in the feed, although snowflake.feed_databases has this database",
					  psprintf(SF_FEED_PUBLISH_REMEDY, sf_extschema()));
	else if (found.exists)
		sf_status_ok(status, psprintf("horizons published within a minute: %d",
									  n));
}
