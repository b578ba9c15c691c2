/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The registry as nodes of ZooKeeper.
 *
 *		prefix/registry/G	layout and floor of generation G, what it succeeds
 *		prefix/slots/N		slot record of node N
 *		prefix/slots		empty; its version counts the writes of slots
 *		prefix/present/N	owner present in slot N: an ephemeral node
 *		prefix/present		empty; written at the start of each reading
 *
 * A reading begins with a write of "present", so it comes after every write
 * acknowledged before.  sync() does not ensure that: it asks the leader and no
 * quorum, and that leader may have been replaced.  The values are then read
 * between two checks of the version of "slots" and of the children of "slots"
 * and "present".  If both checks find the same, the values are those of one
 * moment, namely any moment between the checks.  The generation is one node,
 * so any moment of reading it will do.
 *
 * A write is one multi.  Its first operation checks that the generation's node
 * exists.  To check versions is not enough: a node that is deleted and made
 * again repeats its versions.  But a registry that was wiped and made again
 * has a generation with another name.  Our versions are ZooKeeper's plus 1.
 * Within a generation no slot is ever deleted.
 *
 * An ephemeral node that is made again repeats its version too.  But no
 * ephemeral node is made without a write of its slot's record.  So while that
 * record has the version that a write requires, the presence is the one that
 * we saw after reading the record, or it is gone.  Therefore a write needs no
 * further condition than to delete, or to leave, the presence that was seen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "zookeeper.h"

/* ---- a batch of requests, and their replies ---- */

/*
 * All requests of a batch are sent without waiting for replies.  ZooKeeper
 * executes the requests of one session in the order in which they were sent.
 *
 * libzookeeper calls a function for each reply.  When a handle is closed, it
 * also calls the function for each reply that has not come.  These functions
 * only store what they get, in malloc()ed memory, because they must not throw.
 * A reply that nobody waits for any more is freed.
 */
static struct
{
	zhandle_t  *handle;
	SfZooReply **replies;
	int			nreplies;
	int			capacity;
	int			nwaiting;		/* replies that have not come yet */
}			batch;

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
 * short the library gives any count, up to 2^31, and NULL in place of names.
 * It would write to the places of all when it frees them, and so take 16 GB.
 */
static void
take_names(int rc, const struct String_vector *names, const struct Stat *stat,
		   const void *data)
{
	SfZooReply *reply = (SfZooReply *) data;
	int			n = 0;

	if (rc == ZOK)
	{
		while (names->data != NULL && n < names->count &&
			   names->data[n] != NULL)
			n++;
		if (names->data == NULL || n != names->count)
			rc = ZMARSHALLINGERROR;
		((struct String_vector *) names)->count = n;
	}
	if (n > 0)
		reply->names.data = calloc(n, sizeof(char *));
	for (int i = 0; i < n && rc == ZOK; i++)
	{
		if (reply->names.data == NULL ||
			(reply->names.data[i] = strdup(names->data[i])) == NULL)
			rc = ZSYSTEMERROR;
		else
			reply->names.count = i + 1;
	}
	take_reply(reply, rc, stat);
}

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

static void
send_sync(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_async(batch.handle, path, take_string, reply));
}

static void
send_get(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aget(batch.handle, path, 0, take_data, reply));
}

static void
send_exists(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aexists(batch.handle, path, 0, take_stat, reply));
}

static void
send_children(const char *path)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aget_children2(batch.handle, path, 0, take_names,
									  reply));
}

/* Write a node, whatever its version. */
static void
send_set(const char *path, const char *data)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_aset(batch.handle, path, data, strlen(data), -1,
							take_stat, reply));
}

/* Create an empty node. */
static void
send_create(const char *path, const struct ACL_vector *acl)
{
	SfZooReply *reply = new_reply();

	started(reply, zoo_acreate(batch.handle, path, "", 0, acl, 0, take_string,
							   reply));
}

/* Send operations that take effect all together or not at all. */
static void
send_multi(const zoo_op_t *ops, int n)
{
	SfZooReply *reply = new_reply();

	reply->results = calloc(n, sizeof(zoo_op_result_t));
	if (reply->results == NULL)
		elog(ERROR, "out of memory");
	reply->nresults = n;
	started(reply, zoo_amulti(batch.handle, n, ops, reply->results, take_void,
							  reply));
}

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

/* ---- the registry ---- */

/* The replies in the batch that reads names. */
enum
{
	NAMES_BARRIER, NAMES_GENERATIONS, NAMES_SLOTS, NAMES_PRESENT
};

/*
 * The replies in the batch that reads values.  VALUES_FIRST is the first of
 * the slots; then follow the presences, and the two checks again.
 */
enum
{
	VALUES_SLOTS, VALUES_PRESENT, VALUES_IDENTITY, VALUES_FIRST
};

/* The replies in the batch that looks for a presence. */
enum
{
	LOOK_SYNC, LOOK_PRESENT
};

#define MAX_OPS		6

/* The operations of a write. */
enum
{
	WRITE_GENERATION, WRITE_ITSELF, WRITE_COUNT, WRITE_PRESENCE
};

/* Servers from 3.7 on return this error; the library has no name for it. */
#define QUOTA_EXCEEDED	(-125)

/* The path above all nodes, for example "/snowflake". */
static const char *prefix;

/* The new state of "slots".  Static, because a reply may come late. */
static struct Stat written;

/* What was found in the names, for the rest of the request. */
static struct
{
	char	   *generation;		/* its path */
	uint32	   *nodes;			/* slots, followed by presences */
	int			nslots;
	int			npresent;
	int64		slots_pzxid;	/* the last change of the list of slots */
	int64		present_pzxid;
}			listed;

void
sf_nodes_open(const char *path)
{
	prefix = path;
}

static char *
path_to(const char *name)
{
	return psprintf("%s/%s", prefix, name);
}

static char *
path_of(const char *name, uint32 node)
{
	return psprintf("%s/%s/%u", prefix, name, node);
}

static char *
generation_path(uint64 generation)
{
	return psprintf("%s/registry/%s", prefix,
					sf_records_print_number(generation));
}

/* Report a problem, without a full stop. */
static SfReading
nodes_fail(const char *path, const char *what)
{
	snprintf(sf_request.message, SF_MESSAGE_SIZE, "\"%s\": %s", path, what);
	sf_request.answer.failure = SF_FAILURE_OTHER;
	return SF_READING_FAILED;
}

/* Report a failure with ZooKeeper's error. */
static SfReading
fail_with(const char *path, int rc)
{
	(void) nodes_fail(path, rc == QUOTA_EXCEEDED ? "the quota is exceeded" :
					  rc == ZMARSHALLINGERROR ? "the answer is not readable" :
					  zerror(rc));
	if (rc == ZNOAUTH)
		sf_request.answer.failure = SF_FAILURE_PERMISSION;
	else if (rc == QUOTA_EXCEEDED)
		sf_request.answer.failure = SF_FAILURE_FULL;
	return SF_READING_FAILED;
}

/* ---- reading ---- */

void
sf_nodes_ask_names(void)
{
	send_set(path_to("present"), "");
	send_children(path_to("registry"));
	send_children(path_to("slots"));
	send_children(path_to("present"));
}

static void
add_nodes(const struct String_vector *names, int first, int *n)
{
	for (int i = 0; i < names->count; i++)
	{
		/* ignore children that are not numbers */
		if (sf_records_parse_node(names->data[i], &listed.nodes[first + *n]))
			(*n)++;
	}
}

static SfReading
take_generation(const struct String_vector *names, SfRegistry *registry)
{
	char	   *end;

	if (names->count != 1)
		return nodes_fail(path_to("registry"), names->count == 0 ?
						  "there is no generation" :
						  "there is more than one generation");
	registry->generation = strtoull(names->data[0], &end, 16);
	if (*end != '\0' || strlen(names->data[0]) != 16)
		return nodes_fail(path_to("registry"),
						  "its child is no generation");
	registry->initialized = true;
	listed.generation = generation_path(registry->generation);
	return SF_READING_DONE;
}

/* Take the names.  If the registry is initialized, ask for values next. */
SfReading
sf_nodes_take_names(SfRegistry *registry, int64 *clock_ms)
{
	static const char *const names[] = {
		"present", "registry", "slots", "present"
	};

	memset(registry, 0, sizeof(SfRegistry));
	if (sf_batch_reply(NAMES_GENERATIONS)->rc == ZNONODE)
		return SF_READING_DONE;
	for (int i = 0; i < sf_batch_size(); i++)
	{
		if (sf_batch_reply(i)->rc != ZOK)
			return fail_with(path_to(names[i]),
							 sf_batch_reply(i)->rc);
	}
	*clock_ms = sf_batch_reply(NAMES_BARRIER)->stat.mtime;
	listed.slots_pzxid = sf_batch_reply(NAMES_SLOTS)->stat.pzxid;
	listed.present_pzxid = sf_batch_reply(NAMES_PRESENT)->stat.pzxid;
	listed.nodes = palloc(sizeof(uint32) *
						  (sf_batch_reply(NAMES_SLOTS)->names.count +
						   sf_batch_reply(NAMES_PRESENT)->names.count + 1));
	listed.nslots = listed.npresent = 0;
	add_nodes(&sf_batch_reply(NAMES_SLOTS)->names, 0, &listed.nslots);
	add_nodes(&sf_batch_reply(NAMES_PRESENT)->names, listed.nslots,
			  &listed.npresent);
	return take_generation(&sf_batch_reply(NAMES_GENERATIONS)->names,
						   registry);
}

void
sf_nodes_ask_values(void)
{
	send_exists(path_to("slots"));
	send_exists(path_to("present"));
	send_get(listed.generation);
	for (int i = 0; i < listed.nslots; i++)
		send_get(path_of("slots", listed.nodes[i]));
	for (int i = listed.nslots; i < listed.nslots + listed.npresent; i++)
		send_get(path_of("present", listed.nodes[i]));
	send_exists(path_to("slots"));
	send_exists(path_to("present"));
}

/* Return true if nothing has changed since the names were read. */
static bool
is_one_moment(void)
{
	const SfZooReply *slots = sf_batch_reply(VALUES_SLOTS);
	const SfZooReply *present = sf_batch_reply(VALUES_PRESENT);
	const SfZooReply *slots_after = sf_batch_reply(sf_batch_size() - 2);
	const SfZooReply *present_after = sf_batch_reply(sf_batch_size() - 1);

	return slots_after->stat.version == slots->stat.version &&
		slots_after->stat.pzxid == listed.slots_pzxid &&
		slots->stat.pzxid == listed.slots_pzxid &&
		present_after->stat.pzxid == listed.present_pzxid &&
		present->stat.pzxid == listed.present_pzxid;
}

static SfReading
take_identity(const SfZooReply *reply, SfRegistry *registry)
{
	if (!sf_identity_parse(sf_json_parse(reply->data), registry))
		return nodes_fail(listed.generation, "it is not readable");
	return SF_READING_DONE;
}

static SfReading
take_records(SfRegistry *registry)
{
	int			n = listed.nslots + listed.npresent;
	SfSlotRecord *records = palloc0(sizeof(SfSlotRecord) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		const SfZooReply *reply = sf_batch_reply(VALUES_FIRST + i);
		SfSlotRecord *record = &records[i];
		bool		is_slot = i < listed.nslots;

		record->node = listed.nodes[i];
		if (is_slot)
		{
			record->version = (int64) reply->stat.version + 1;
			if (reply->stat.mzxid > registry->version)
			{
				registry->version = reply->stat.mzxid;
				registry->newest = listed.nodes[i];
			}
		}
		if (is_slot ? !sf_records_parse(reply->data, record) :
			!sf_records_parse_owner(reply->data, &record->present))
			return nodes_fail(path_of(is_slot ? "slots" :
									  "present", listed.nodes[i]),
							  "it is not readable");
	}
	registry->nrecords = sf_records_join(records, n);
	registry->records = records;
	return SF_READING_DONE;
}

SfReading
sf_nodes_take_values(SfRegistry *registry)
{
	SfReading	reading;

	for (int i = 0; i < sf_batch_size(); i++)
	{
		int			rc = sf_batch_reply(i)->rc;

		if (rc == ZNONODE)
			return SF_READING_MOVED;
		if (rc != ZOK)
			return fail_with(listed.generation, rc);
	}
	if (!is_one_moment())
		return SF_READING_MOVED;
	reading = take_identity(sf_batch_reply(VALUES_IDENTITY), registry);
	return reading == SF_READING_DONE ? take_records(registry) : reading;
}

/* ---- presence ---- */

/* Ask who is present in a slot, after the member has caught up (sync). */
void
sf_nodes_ask_present(uint32 node)
{
	send_sync(path_to("present"));
	send_get(path_of("present", node));
}

SfReading
sf_nodes_take_present(SfPresent *present)
{
	const SfZooReply *reply = sf_batch_reply(LOOK_PRESENT);

	memset(present, 0, sizeof(SfPresent));
	if (reply->rc == ZNONODE)
		return SF_READING_DONE;
	if (reply->rc != ZOK)
		return fail_with(path_to("present"), reply->rc);
	if (!sf_records_parse_owner(reply->data, &present->owner))
		return nodes_fail(path_to("present"), "it is not readable");
	present->session = reply->stat.ephemeralOwner;
	return SF_READING_DONE;
}

/* ---- writing ---- */

/*
 * Create the nodes above the registry, "slots" and "present".  Some may be
 * there already.  Errors are ignored: if a node is missing, the next step
 * fails.
 */
void
sf_nodes_ask_parents(const struct ACL_vector *acl)
{
	const char *slots = path_to("slots");

	for (const char *p = strchr(slots + 1, '/'); p != NULL;
		 p = strchr(p + 1, '/'))
		send_create(pnstrdup(slots, p - slots), acl);
	send_create(slots, acl);
	send_create(path_to("present"), acl);
}

static void
add_create(zoo_op_t *op, const char *path, const char *data,
		   const struct ACL_vector *acl, int flags)
{
	zoo_create_op_init(op, path, data, (int) strlen(data), acl, flags, NULL,
					   0);
}

/* Add a write of a value that has this version; 0: that does not exist yet. */
static void
add_value(zoo_op_t *op, const char *path, const char *data, int64 version,
		  const struct ACL_vector *acl)
{
	if (version == 0)
		add_create(op, path, data, acl, 0);
	else
		zoo_set_op_init(op, path, data, (int) strlen(data),
						(int) (version - 1), NULL);
}

/*
 * Add the operations on presence, and return their number.  The presence that
 * was seen is the owner's, the displaced owner's or none, and may have ended
 * since.
 */
static int
add_presence(zoo_op_t *ops, const SfAsk *ask, const SfPresent *present,
			 int64 session, const struct ACL_vector *acl)
{
	char	   *path = path_of("present", ask->record.node);
	bool		makes_one = ask->presence && ask->kind != SF_ASK_RELEASE;
	int			n = 0;

	if (makes_one && present->owner == ask->record.owner &&
		present->session == session)
	{
		zoo_check_op_init(&ops[n++], path, -1);
		return n;
	}
	if (present->owner != 0 && (makes_one || ask->kind == SF_ASK_RELEASE))
		zoo_delete_op_init(&ops[n++], path, -1);
	if (makes_one)
		add_create(&ops[n++], path,
				   sf_records_print_number(ask->record.owner), acl,
				   ZOO_EPHEMERAL);
	return n;
}

/* Begin a registry, or replace its generation by a new one. */
static int
add_identity(zoo_op_t *ops, const SfAsk *ask, const char *layout,
			 const struct ACL_vector *acl)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	sf_identity_append(&buf, ask, layout);
	appendStringInfoChar(&buf, '}');
	if (ask->kind == SF_ASK_INITIALIZE)
		add_create(&ops[WRITE_GENERATION], path_to("registry"), "", acl,
				   0);
	else
		zoo_delete_op_init(&ops[WRITE_GENERATION],
						   generation_path(ask->generation), -1);
	add_create(&ops[WRITE_ITSELF], generation_path(ask->new_generation),
			   buf.data, acl, 0);
	return WRITE_ITSELF + 1;
}

/*
 * Send a write.  "layout" is the layout that the registry shall have.
 * "present" is the presence that was seen; only slots need it.
 */
void
sf_nodes_ask_write(const SfAsk *ask, const SfPresent *present, int64 session,
				   const char *address, const char *layout,
				   const struct ACL_vector *acl)
{
	zoo_op_t	ops[MAX_OPS];
	int			n;

	memset(&written, 0, sizeof(written));
	if (ask->kind == SF_ASK_INITIALIZE || ask->kind == SF_ASK_RECOVER)
		n = add_identity(ops, ask, layout, acl);
	else
	{
		zoo_check_op_init(&ops[WRITE_GENERATION],
						  generation_path(ask->generation), -1);
		add_value(&ops[WRITE_ITSELF],
				  path_of("slots", ask->record.node),
				  sf_records_print(&ask->record, address), ask->version, acl);
		zoo_set_op_init(&ops[WRITE_COUNT], path_to("slots"), "", 0, -1,
						&written);
		n = WRITE_PRESENCE + add_presence(&ops[WRITE_PRESENCE], ask, present,
										  session, acl);
	}
	send_multi(ops, n);
}

/* Return the number of the operation that failed, or -1; set its error. */
static int
find_failure(const SfZooReply *reply, int *rc)
{
	for (int i = 0; i < reply->nresults; i++)
	{
		*rc = reply->results[i].err;
		if (*rc != ZOK && *rc != ZRUNTIMEINCONSISTENCY)
			return i;
	}
	*rc = reply->rc;
	return -1;
}

/*
 * Return the outcome of a write.  If the reply names the operation that
 * failed, nothing was done.
 */
SfWriting
sf_nodes_take_written(const SfAsk *ask, SfAnswer *answer)
{
	const SfZooReply *reply = sf_batch_reply(0);
	int			rc;
	int			part;

	if (reply->rc == ZOK)
	{
		answer->version = ask->version + 1;
		answer->registry_version = written.mzxid;
		answer->clock_ms = reply->nresults > WRITE_COUNT ? written.mtime : 0;
		return SF_WRITING_DONE;
	}
	part = find_failure(reply, &rc);
	(void) fail_with(path_to("registry"), reply->rc);
	if (rc == ZNOAUTH || rc == ZINVALIDACL || rc == ZTHROTTLEDOP ||
		rc == ZBADARGUMENTS)
		return SF_WRITING_REFUSED;
	if (rc != ZNONODE && rc != ZNODEEXISTS && rc != ZBADVERSION)
		return SF_WRITING_UNKNOWN;
	if (part >= WRITE_PRESENCE)
		return SF_WRITING_LOOK;
	/* a node of sf_nodes_ask_parents() was not made, or is gone */
	if (part == WRITE_COUNT ||
		(ask->kind == SF_ASK_INITIALIZE && rc == ZNONODE))
		return SF_WRITING_REFUSED;
	return SF_WRITING_CONFLICT;
}
