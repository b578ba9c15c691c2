/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Nodes that say who held a slot before, for people.
 *
 *		prefix/history/TIME-N-VERSION	who held slot N until then
 *		prefix/keep_days				for how many days that is kept
 *
 * A claim that was done begins this, and nobody waits for it: no request of
 * the worker is under way for it, and its errors are dropped.  Its first
 * request reads the days, the next ones create the node and list all, and the
 * last ones delete what is older, but not much at once: the next requests of
 * the worker come behind them.  A node has the version of the record that the
 * claim replaced in its name.  So each is made once, and never changed.
 *
 * libzookeeper calls the functions below for each reply, or at the end of the
 * handle.  They must not throw, and use malloc()ed memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "nodes.h"
#include "records.h"

#define PATH_SIZE	1024
#define MAX_DELETES	100

typedef struct Tenure
{
	zhandle_t  *handle;
	const struct ACL_vector *acl;
	int64		now_ms;
	int64		ended_ms;
	char		first[SF_RECORDS_TIME_SIZE];	/* what is kept begins here */
	char		parent[PATH_SIZE];
	char		path[PATH_SIZE];
	char		text[SF_RECORDS_TENURE_SIZE];
} Tenure;

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
	Tenure	   *tenure = (Tenure *) data;
	char		path[PATH_SIZE];
	int			n = 0;

	for (int i = 0; rc == ZOK && i < names->count && n < MAX_DELETES; i++)
	{
		if (strcmp(names->data[i], tenure->first) >= 0)
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", tenure->parent, names->data[i]);
		(void) zoo_adelete(tenure->handle, path, -1, ignore_void, NULL);
	}
	free(tenure);
}

static void
take_days(int rc, const char *value, int len, const struct Stat *unused,
		  const void *data)
{
	Tenure	   *tenure = (Tenure *) data;
	char		text[20] = "";
	int64		days;
	int64		first_ms;

	if (rc != ZOK && rc != ZNONODE)
	{
		free(tenure);
		return;
	}
	if (rc == ZOK && value != NULL && len > 0 && len < (int) sizeof(text))
		memcpy(text, value, len);
	days = sf_records_parse_days(text);
	first_ms = tenure->now_ms - days * SF_RECORDS_DAY_MS;
	sf_records_print_time(tenure->first, first_ms);
	if (days > 0 && tenure->ended_ms >= first_ms)
	{
		(void) zoo_acreate(tenure->handle, tenure->parent, "", 0, tenure->acl,
						   0, ignore_string, NULL);
		(void) zoo_acreate(tenure->handle, tenure->path, tenure->text,
						   (int) strlen(tenure->text), tenure->acl, 0,
						   ignore_string, NULL);
	}
	if (zoo_aget_children(tenure->handle, tenure->parent, 0, take_names,
						  tenure) != ZOK)
		free(tenure);
}

/* After a claim: begin to keep who held the slot before. */
void
sf_history_begin(zhandle_t *handle, const SfAsk *ask,
				 const struct ACL_vector *acl)
{
	const SfSlotRecord *before = &ask->replaced;
	char		ended[SF_RECORDS_TIME_SIZE];
	Tenure	   *tenure;
	int			len;

	if (ask->kind != SF_ASK_CLAIM || before->version == 0 || handle == NULL ||
		(tenure = calloc(1, sizeof(Tenure))) == NULL)
		return;
	tenure->handle = handle;
	tenure->acl = acl;
	tenure->now_ms = ask->record.since_ms;
	tenure->ended_ms = before->ended_ms;
	sf_records_print_time(ended, before->ended_ms);
	strlcpy(tenure->parent, sf_nodes_path("history"), PATH_SIZE);
	len = snprintf(tenure->path, PATH_SIZE, "%s/%s-%u-%lld", tenure->parent,
				   ended, before->node, (long long) before->version);
	if (len >= PATH_SIZE)
	{
		/* such a part of a path would be another node */
		free(tenure);
		return;
	}
	sf_records_print_tenure(tenure->text, before);
	if (zoo_aget(handle, sf_nodes_path("keep_days"), 0, take_days,
				 tenure) != ZOK)
		free(tenure);
}
