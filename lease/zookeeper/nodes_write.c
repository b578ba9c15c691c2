/*-------------------------------------------------------------------------
 *
 * nodes_write.c
 *	  Writes to the registry as nodes of ZooKeeper, and their outcome.
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

#include "utils/json.h"

#include "nodes.h"
#include "records.h"

#define MAX_OPS		6

/* The operations of a write. */
enum
{
	WRITE_GENERATION, WRITE_ITSELF, WRITE_COUNT, WRITE_PRESENCE
};

/* The new state of "slots".  Static, because a reply may come late. */
static struct Stat written;

/*
 * Create the nodes above the registry, "slots" and "present".  Some may be
 * there already.  Errors are ignored: if a node is missing, the next step
 * fails.
 */
void
sf_nodes_ask_parents(const struct ACL_vector *acl)
{
	const char *slots = sf_nodes_path("slots");

	for (const char *p = strchr(slots + 1, '/'); p != NULL;
		 p = strchr(p + 1, '/'))
		sf_batch_create(pnstrdup(slots, p - slots), acl);
	sf_batch_create(slots, acl);
	sf_batch_create(sf_nodes_path("present"), acl);
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
	char	   *path = sf_nodes_path_of("present", ask->record.node);
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

static char *
print_identity(const char *layout, int64 floor)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "{\"layout\":");
	escape_json(&buf, layout);
	appendStringInfo(&buf, ",\"floor\":" INT64_FORMAT "}", floor);
	return buf.data;
}

/* Begin a registry, or replace its generation by a new one. */
static int
add_identity(zoo_op_t *ops, const SfAsk *ask, const char *layout,
			 const struct ACL_vector *acl)
{
	if (ask->kind == SF_ASK_INITIALIZE)
		add_create(&ops[WRITE_GENERATION], sf_nodes_path("registry"), "", acl,
				   0);
	else
		zoo_delete_op_init(&ops[WRITE_GENERATION],
						   sf_nodes_generation(ask->generation), -1);
	add_create(&ops[WRITE_ITSELF], sf_nodes_generation(ask->new_generation),
			   print_identity(layout, ask->new_floor), acl, 0);
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
						  sf_nodes_generation(ask->generation), -1);
		add_value(&ops[WRITE_ITSELF],
				  sf_nodes_path_of("slots", ask->record.node),
				  sf_records_print(&ask->record, address), ask->version, acl);
		zoo_set_op_init(&ops[WRITE_COUNT], sf_nodes_path("slots"), "", 0, -1,
						&written);
		n = WRITE_PRESENCE + add_presence(&ops[WRITE_PRESENCE], ask, present,
										  session, acl);
	}
	sf_batch_multi(ops, n);
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
	(void) sf_nodes_fail_with(sf_nodes_path("registry"), reply->rc);
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
