/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Nodes that say who held a slot or shards before, for people: writing
 *	  them, and reading them.
 *
 *		prefix/history/TIME-N-VERSION		who held slot N until then
 *		prefix/history/TIME-shards-VERSION	the same for shards
 *		prefix/keep_days					for how many days that is kept
 *
 * A write that was done begins this, and nobody waits for it: no request of
 * the worker is under way for it, and its errors are dropped.  The first
 * requests create the node: they are sent even if the session is closed now.
 * The next ones read the days and list all nodes, and the last ones delete
 * what is older, but not much at once: the next requests of the worker come
 * behind them.  A node has the version of the record that the write replaced
 * in its name.  So each is made once, and never changed.
 *
 * libzookeeper calls the functions below for each reply, or at the end of the
 * handle.  They must not throw, and use malloc()ed memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "nodes.h"
#include "tenures.h"

#define PATH_SIZE	1024
#define MAX_DELETES	100

/* So many values are read at a time: each can be as large as a megabyte. */
#define MAX_VALUES	100

/* The names that were found, for the rest of the request. */
static struct
{
	char	  **names;
	int			n;
	int			nread;			/* whose values were read */
	bool		is_cut;
	StringInfoData text;		/* of these values */
}			listed;

/* A look for what is too old. */
typedef struct Cleaning
{
	zhandle_t  *handle;
	int64		wall_ms;
	char		first[SF_TENURES_TIME_SIZE];	/* what is kept begins here */
	char		parent[PATH_SIZE];
} Cleaning;

static void
ignore_void(int rc, const void *data)
{
}

static void
ignore_string(int rc, const char *value, const void *data)
{
}

/* Delete what is too old. */
static void
take_names(int rc, const struct String_vector *names, const void *data)
{
	Cleaning   *cleaning = (Cleaning *) data;
	char		path[PATH_SIZE];
	int			n = 0;

	for (int i = 0; rc == ZOK && i < names->count && n < MAX_DELETES; i++)
	{
		if (strcmp(names->data[i], cleaning->first) >= 0)
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", cleaning->parent,
				 names->data[i]);
		(void) zoo_adelete(cleaning->handle, path, -1, ignore_void, NULL);
	}
	free(cleaning);
}

static void
take_days(int rc, const char *value, int len, const struct Stat *unused,
		  const void *data)
{
	Cleaning   *cleaning = (Cleaning *) data;
	char		text[20] = "";
	int64		days;

	if (rc == ZOK && value != NULL && len > 0 && len < (int) sizeof(text))
		memcpy(text, value, len);
	days = sf_tenures_parse_days(text);
	if (days == 0)
		strcpy(cleaning->first, "all"); /* behind all times */
	else
		sf_tenures_print_first(cleaning->wall_ms, days, cleaning->first);
	if ((rc != ZOK && rc != ZNONODE) ||
		sf_batch_never_replies(zoo_aget_children(cleaning->handle,
												 cleaning->parent, 0,
												 take_names, cleaning)))
		free(cleaning);
}

/* After a write: begin to keep the tenures that it has ended. */
void
sf_history_begin(zhandle_t *handle, const SfAsk *ask,
				 const struct ACL_vector *acl)
{
	SfTenures	ended;
	Cleaning   *cleaning;
	char		path[PATH_SIZE];

	if (handle == NULL || !sf_tenures_find(ask, &ended) ||
		(cleaning = calloc(1, sizeof(Cleaning))) == NULL)
		return;
	cleaning->handle = handle;
	cleaning->wall_ms = ask->wall_ms;
	strlcpy(cleaning->parent, sf_nodes_path("history"), PATH_SIZE);
	/* a part of a path would be another node */
	if (snprintf(path, PATH_SIZE, "%s/%s-%s-%lld", cleaning->parent,
				 ended.ended_at, ended.name,
				 (long long) ended.version) < PATH_SIZE)
	{
		(void) zoo_acreate(handle, cleaning->parent, "", 0, acl, 0,
						   ignore_string, NULL);
		(void) zoo_acreate(handle, path, ended.text,
						   (int) strlen(ended.text), acl, 0, ignore_string,
						   NULL);
	}
	if (sf_batch_never_replies(zoo_aget(handle, sf_nodes_path("keep_days"), 0,
										take_days, cleaning)))
		free(cleaning);
}

/* ---- reading ---- */

void
sf_history_ask_names(void)
{
	sf_batch_sync(sf_nodes_path("history"));
	sf_batch_children(sf_nodes_path("history"));
}

/*
 * Take the names of what is wanted.  They begin with the time of the end: who
 * held a slot at a time ended after it, and most likely soon.
 */
SfReading
sf_history_take_names(const SfHistoryFilter *wanted)
{
	const SfZooReply *reply = sf_batch_reply(1);
	bool		has_time = wanted->at_ms != 0;
	char		first[SF_TENURES_TIME_SIZE] = "";
	char		part[40] = "";
	char	  **names;
	int			n = 0;

	if (reply->rc != ZOK && reply->rc != ZNONODE)
		return sf_nodes_fail_with(sf_nodes_path("history"), reply->rc);
	if (has_time)
		sf_tenures_print_time(first, wanted->at_ms);
	if (wanted->has_slot)
		snprintf(part, sizeof(part), "Z-%lld-", (long long) wanted->slot);
	names = palloc(sizeof(char *) * (reply->names.count + 1));
	for (int i = 0; i < reply->names.count; i++)
	{
		if (strcmp(reply->names.data[i], first) >= 0 &&
			strstr(reply->names.data[i], part) != NULL)
			names[n++] = reply->names.data[i];
	}
	qsort(names, n, sizeof(char *), pg_qsort_strcmp);
	listed.n = Min(n, SF_HISTORY_MAX);
	listed.is_cut = n > SF_HISTORY_MAX;
	listed.nread = 0;
	initStringInfo(&listed.text);
	listed.names = palloc(sizeof(char *) * (listed.n + 1));
	for (int i = 0; i < listed.n; i++)
		listed.names[i] = pstrdup(names[has_time ? i : n - 1 - i]);
	return SF_READING_DONE;
}

/* Return true if there are values to ask for. */
bool
sf_history_has_more(void)
{
	return listed.nread < listed.n;
}

void
sf_history_ask_values(void)
{
	int			end = Min(listed.n, listed.nread + MAX_VALUES);

	for (int i = listed.nread; i < end; i++)
		sf_batch_get(psprintf("%s/%s", sf_nodes_path("history"),
							  listed.names[i]));
}

/*
 * Take the values.  A node may have been deleted meanwhile, or somebody made
 * one that this server may not read.
 */
SfReading
sf_history_take_values(const SfAsk *ask, const SfRegistry *registry,
					   SfAnswer *answer)
{
	if (listed.nread == 0)
		sf_tenures_append_held(&listed.text, ask, registry);
	for (int i = 0; i < sf_batch_size(); i++)
	{
		const SfZooReply *reply = sf_batch_reply(i);

		if (reply->rc == ZOK && !sf_tenures_append(&listed.text, reply->data))
		{
			listed.is_cut = true;
			listed.n = 0;
			break;
		}
		else if (reply->rc != ZOK && reply->rc != ZNONODE &&
				 reply->rc != ZNOAUTH)
			return sf_nodes_fail_with(sf_nodes_path("history"), reply->rc);
	}
	listed.nread += sf_batch_size();
	answer->is_cut = listed.is_cut;
	answer->history = listed.text.data;
	return SF_READING_DONE;
}
