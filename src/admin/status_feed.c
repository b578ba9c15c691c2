/*-------------------------------------------------------------------------
 *
 * status_feed.c
 *	  The check "feed" of snowflake_status(): does a server hold the feed over
 *	  several servers back, or have the node id of another one?
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
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "feed/feed.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "query/query.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "utils/builtins.h"

/* How long a server may publish nothing, or stay where it is. */
static int64
old_ms(void)
{
	return 60 * 1000 + sf_feed_interval;
}

/* What there is in the table. */
typedef struct Found
{
	Oid			locked;			/* the table, if others have locked it */
	bool		exists;			/* the table */
	List	   *rows;
} Found;

static void
look(void *arg)
{
	Found	   *found = arg;
	Relation	table;

	found->locked = sf_feed_locked();
	if (OidIsValid(found->locked))
		return;
	table = sf_feed_open(AccessShareLock, ACL_NO_RIGHTS);
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

/*
 * Report databases of snowflake.feed_databases that do not exist; return false
 * if there is none.
 */
static bool
put_missing(SfStatus *status)
{
	StringInfoData missing;
	StringInfoData there;
	ListCell   *cell;

	initStringInfo(&missing);
	initStringInfo(&there);
	foreach(cell, sf_settings_feed_databases())
	{
		const char *name = strVal(lfirst(cell));
		StringInfo	list = OidIsValid(get_database_oid(name, true)) ?
			&there : &missing;

		appendStringInfo(list, "%s%s", list->len > 0 ? ", " : "",
						 quote_identifier(name));
	}
	if (missing.len == 0)
		return false;
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf("snowflake.feed_databases names databases that do not exist: %s",
						   missing.data),
				  psprintf("Create it, and its worker begins within a minute. Or write its new name, or leave it out, and restart the server: snowflake.feed_databases = %s",
						   quote_literal_cstr(there.data)));
	return true;
}

/* Order rows by layout, node and name. */
static int
compare(const ListCell *a, const ListCell *b)
{
	const SfFeedRow *first = lfirst(a);
	const SfFeedRow *second = lfirst(b);
	int			order = strcmp(first->layout, second->layout);

	if (order == 0)
		order = (first->node > second->node) - (first->node < second->node);
	return order != 0 ? order : strcmp(first->name, second->name);
}

/*
 * Report two servers with one node id among rows that are new; return false if
 * there are none.  Databases of one server have one name.
 */
static bool
put_equal_nodes(SfStatus *status, List *rows)
{
	const SfFeedRow *last = NULL;
	ListCell   *cell;

	list_sort(rows, compare);
	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (last != NULL && row->node == last->node &&
			strcmp(row->layout, last->layout) == 0 &&
			strcmp(row->name, last->name) != 0)
		{
			sf_status_put(status, SF_STATUS_WARNING,
						  psprintf("the table snowflake_feed says that servers %s and %s have node id " INT64_FORMAT ": if both run, they make equal IDs",
								   sf_feed_show_server(last),
								   sf_feed_show_server(row), row->node),
						  is_own(last) || is_own(row) ?
						  sf_node_change_remedy() :
						  "On one of them, choose a number that no other server has, set snowflake.node_id = 'NUMBER' there, and run there: SELECT pg_catalog.pg_reload_conf();");
			return true;
		}
		last = row;
	}
	return false;
}

/* Report the first of the servers that have published nothing for long. */
static void
put_late(SfStatus *status, const SfFeedRow *row, int64 since_ms, int late)
{
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf("server %s holds the feed back: %s since %s, %s ago%s",
						   sf_feed_show_server(row), is_own(row) ?
						   "it has published nothing" :
						   "nothing of it has arrived here",
						   sf_timefmt_show(since_ms),
						   sf_timefmt_span(sf_clock_wall_ms() - since_ms),
						   late == 1 ? "" :
						   psprintf("; %d horizons are old", late)),
				  is_own(row) ?
				  psprintf(SF_FEED_PUBLISH_REMEDY,
						   sf_feed_publish_call(row->layout)) :
				  psprintf("If it runs, see its own snowflake_status(), and whether the subscription to it runs here. If it is down, start it, unless this server has taken its place. Only then, or if it never comes back, and none of its rows is still on its way, run%s: SELECT %s.snowflake_leave_feed('" INT64_FORMAT "'::bigint);",
						   RecoveryInProgress() ? " on the primary" : "",
						   sf_extschema(), row->server));
}

/* Return the time of a horizon, to the end of its tick; -1: it has none. */
static int64
horizon_ms(const SfFeedRow *row)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	if (!sf_layout_parse(&layout, row->layout, reason, sizeof(reason)))
		return -1;
	return sf_id_time_tick_ms(&layout, sf_layout_tick(&layout, row->horizon)) +
		layout.tick_ms;
}

/* Report a server whose horizon stays where it is, although it publishes. */
static void
put_held(SfStatus *status, const SfFeedRow *row, int64 since_ms)
{
	sf_status_put(status, SF_STATUS_WARNING,
				  psprintf("server %s holds the feed back: its horizon stays at %s",
						   sf_feed_show_server(row),
						   sf_timefmt_show(since_ms)),
				  is_own(row) ?
				  psprintf("End the transactions that this shows; without any, see the other checks: SELECT * FROM %s.snowflake_horizon_holders;",
						   sf_extschema()) :
				  psprintf("On that server, end the transactions that this shows; without any, see its own snowflake_status(): SELECT * FROM %s.snowflake_horizon_holders;",
						   sf_extschema()));
}

/*
 * Report the feed; no row if there is neither a table nor a worker.  A server
 * that is told to publish, and has no row, was not told to join, or failed to.
 * Its rows can be lost, so this is said first.
 */
void
sf_status_feed(SfStatus *status)
{
	Found		found = {0};
	ErrorData  *error = sf_status_try(look, &found);
	int64		now_ms = sf_clock_wall_ms();
	List	   *numbered = NIL;
	const SfFeedRow *oldest = NULL;
	const SfFeedRow *held = NULL;
	bool		has_own = false;
	int			published = 0;
	int			late = 0;
	ListCell   *cell;

	foreach(cell, found.rows)
	{
		SfFeedRow  *row = lfirst(cell);
		int64		published_ms;
		int64		since_ms;

		has_own = has_own || is_own(row);
		if (is_own(row) && sf_shmem_right() != 0)
			row->node = sf_settings_node_of(sf_shmem_right());
		if (TIMESTAMP_NOT_FINITE(row->published))
			continue;
		published_ms = sf_timefmt_to_ms(row->published);
		if (now_ms - published_ms > old_ms())
			late++;
		else
		{
			published += now_ms - published_ms <= 60 * 1000;
			if (row->has_node && row->name != NULL)
				numbered = lappend(numbered, row);
			/* both by the clock of that server */
			since_ms = horizon_ms(row);
			if (since_ms >= 0 && published_ms - since_ms > old_ms() &&
				(held == NULL || since_ms < horizon_ms(held)))
				held = row;
		}
		if (oldest == NULL || row->published < oldest->published)
			oldest = row;
	}
	if (put_missing(status))
		return;
	if (error != NULL && error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		sf_status_ok(status, psprintf("not looked at: %s", error->message));
	else if (error != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("it cannot be read: %s", error->message),
					  error->hint != NULL ?
					  error->hint : sf_status_log_error(error));
	else if (OidIsValid(found.locked))
		sf_status_put(status, SF_STATUS_WARNING,
					  "not looked at: another session has locked its table",
					  sf_status_lock_remedy(found.locked));
	else if (!found.exists && !RecoveryInProgress() && sf_feed_has_worker())
		sf_status_put(status, SF_STATUS_WARNING,
					  "there is no table \"snowflake_feed\", although snowflake.feed_databases has this database",
					  psprintf("Create it, and publish: SELECT %s.snowflake_create_feed(); SELECT %s; If publications had it, add it to them, and refresh the subscriptions.",
							   sf_extschema(), sf_feed_publish_call(NULL)));
	else if (found.exists && !has_own && !RecoveryInProgress() &&
			 sf_feed_has_worker())
		sf_status_put(status, SF_STATUS_WARNING,
					  "this server has no row in the feed, although snowflake.feed_databases has this database",
					  psprintf(SF_FEED_PUBLISH_REMEDY " If it has left the feed, take this database out of that setting.",
							   sf_feed_publish_call(NULL)));
	else if (put_equal_nodes(status, numbered))
		return;
	else if (late > 0)
		put_late(status, oldest, sf_timefmt_to_ms(oldest->published), late);
	else if (held != NULL)
		put_held(status, held, horizon_ms(held));
	else if (found.exists)
		sf_status_ok(status, psprintf("horizons published within a minute: %d",
									  published));
}
