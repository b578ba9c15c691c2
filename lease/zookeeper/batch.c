/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Batch of requests to ZooKeeper, and their replies.
 *
 * All requests of a batch are sent without waiting for replies.  ZooKeeper
 * executes the requests of one session in the order in which they were sent.
 *
 * libzookeeper calls a function for each reply.  When a handle is closed, it
 * also calls the function for each reply that has not come.  These functions
 * only store what they get, in malloc()ed memory, because they must not throw.
 * A reply that nobody waits for any more is freed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "zookeeper.h"

static struct
{
	zhandle_t  *handle;
	SfZooReply **replies;
	int			nreplies;
	int			capacity;
	int			nwaiting;		/* replies that have not come yet */
}			batch;

/* ---- callbacks ---- */

static void
free_reply(SfZooReply *reply)
{
	deallocate_String_vector(&reply->names);
	free(reply->data);
	free(reply->results);
	free(reply);
}

static void
take_reply(SfZooReply *reply, int rc, const struct Stat *stat)
{
	if (reply->is_forgotten)
	{
		free_reply(reply);
		return;
	}
	reply->rc = rc;
	if (rc == ZOK && stat != NULL)
		reply->stat = *stat;
	reply->is_done = true;
	batch.nwaiting--;
}

static void
take_void(int rc, const void *reply)
{
	take_reply((SfZooReply *) reply, rc, NULL);
}

static void
take_string(int rc, const char *value, const void *reply)
{
	take_reply((SfZooReply *) reply, rc, NULL);
}

static void
take_stat(int rc, const struct Stat *stat, const void *reply)
{
	take_reply((SfZooReply *) reply, rc, stat);
}

static void
take_data(int rc, const char *value, int len, const struct Stat *stat,
		  const void *data)
{
	SfZooReply *reply = (SfZooReply *) data;
	int			n = rc == ZOK && value != NULL && len > 0 ? len : 0;

	reply->data = malloc(n + 1);
	if (reply->data == NULL)
		rc = ZSYSTEMERROR;
	else
	{
		if (n > 0)
			memcpy(reply->data, value, n);
		reply->data[n] = '\0';
	}
	take_reply(reply, rc, stat);
}

/*
 * Copy the names so that the library can free them.  Of a reply that is too
 * short the library gives any count, and NULL in place of names.
 */
static void
take_names(int rc, const struct String_vector *names, const struct Stat *stat,
		   const void *data)
{
	SfZooReply *reply = (SfZooReply *) data;
	int			n = rc == ZOK && names->data != NULL ? names->count : 0;

	if (rc == ZOK && (names->data == NULL || n < 0))
		rc = ZMARSHALLINGERROR;
	if (n > 0)
		reply->names.data = calloc(n, sizeof(char *));
	for (int i = 0; i < n && rc == ZOK; i++)
	{
		if (names->data[i] == NULL)
			rc = ZMARSHALLINGERROR;
		else if (reply->names.data == NULL ||
				 (reply->names.data[i] = strdup(names->data[i])) == NULL)
			rc = ZSYSTEMERROR;
		else
			reply->names.count = i + 1;
	}
	take_reply(reply, rc, stat);
}

/* ---- requests ---- */

/* Forget the previous batch, and begin an empty one. */
void
sf_batch_begin(zhandle_t *with)
{
	for (int i = 0; i < batch.nreplies; i++)
	{
		if (batch.replies[i]->is_done)
			free_reply(batch.replies[i]);
		else
			batch.replies[i]->is_forgotten = true;
	}
	batch.nreplies = batch.nwaiting = 0;
	batch.handle = with;
}

static SfZooReply *
new_reply(void)
{
	SfZooReply *reply = calloc(1, sizeof(SfZooReply));

	if (batch.nreplies == batch.capacity)
	{
		int			more = batch.capacity * 2 + 16;
		SfZooReply **longer = realloc(batch.replies,
									  more * sizeof(*batch.replies));

		if (longer == NULL)
			elog(ERROR, "out of memory");
		batch.replies = longer;
		batch.capacity = more;
	}
	if (reply == NULL)
		elog(ERROR, "out of memory");
	batch.replies[batch.nreplies++] = reply;
	batch.nwaiting++;
	return reply;
}

/*
 * Handle the result of starting a request.  After these two results
 * libzookeeper calls no function.  It reports any other error through the
 * function.  If it lacks memory for that, no reply comes, and the request
 * times out.
 */
static void
started(SfZooReply *reply, int rc)
{
	if (rc == ZBADARGUMENTS || rc == ZINVALIDSTATE)
		take_reply(reply, rc, NULL);
}

void
sf_batch_sync(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_async(batch.handle, path, take_string, reply));
}

void
sf_batch_get(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aget(batch.handle, path, 0, take_data, reply));
}

void
sf_batch_exists(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aexists(batch.handle, path, 0, take_stat, reply));
}

void
sf_batch_children(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aget_children2(batch.handle, path, 0, take_names,
									  reply));
}

/* Write a node, whatever its version. */
void
sf_batch_set(const char *path, const char *data)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aset(batch.handle, path, data, strlen(data), -1,
							take_stat, reply));
}

/* Create an empty node. */
void
sf_batch_create(const char *path, const struct ACL_vector *acl)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_acreate(batch.handle, path, "", 0, acl, 0, take_string,
							   reply));
}

/* Send operations that take effect all together or not at all. */
void
sf_batch_multi(const zoo_op_t *ops, int n)
{
	SfZooReply *reply = new_reply();

	reply->results = calloc(n, sizeof(zoo_op_result_t));
	if (reply->results == NULL)
		elog(ERROR, "out of memory");
	reply->nresults = n;
	started(reply, zoo_amulti(batch.handle, n, ops, reply->results, take_void,
							  reply));
}

/* ---- the replies ---- */

bool
sf_batch_is_done(void)
{
	return batch.nwaiting == 0;
}

int
sf_batch_size(void)
{
	return batch.nreplies;
}

const SfZooReply *
sf_batch_reply(int i)
{
	Assert(i >= 0 && i < batch.nreplies);
	return batch.replies[i];
}
