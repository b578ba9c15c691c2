/*-------------------------------------------------------------------------
 *
 * nodes_write.c
 *	  Writes of the registry as nodes of ZooKeeper, and what comes of them.
 *
 * A write is one multi.  Its first part is that the generation's node exists:
 * a node that is deleted and made again has the versions that it had before,
 * but in a registry that was wiped and made again the generation has another
 * name.  Versions are ZooKeeper's plus 1; within a generation nobody deletes a
 * slot.
 *
 * Ephemerals that are made again have the same version, too.  But none is made
 * without its slot's record being written: while that has the version that a
 * write is conditional on, who is present can only be whom we have seen since
 * that was read, or nobody any more.  So a write needs no other condition than
 * to take away, or leave, what was seen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "utils/json.h"

#include "nodes.h"
#include "records.h"

#define MAX_OPS		6

/* The parts of a write. */
enum
{
	WRITE_GENERATION, WRITE_ITSELF, WRITE_COUNT, WRITE_PRESENCE
};

/* What is said of the count; lives on, since a reply may come late. */
static struct Stat written;

/*
 * The nodes above the registry, and the two that stay when it is begun anew.
 * What is there already, or may not be made, is found out by what follows.
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

/* A value that has this version, or none yet. */
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
 * Who is present was seen to be the owner, the displaced or nobody, and may
 * have gone meanwhile.
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

/* Begin or renew: the old generation goes, if there is one. */
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
 * The layout is what the registry is to have.  Presence is as seen, and counts
 * for slots.
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
		if (ask->kind == SF_ASK_SHARDS)
		{
			add_value(&ops[WRITE_ITSELF], sf_nodes_path("shards"), ask->shards,
					  ask->version, acl);
			n = WRITE_ITSELF + 1;
		}
		else
		{
			add_value(&ops[WRITE_ITSELF],
					  sf_nodes_path_of("slots", ask->record.node),
					  sf_records_print(&ask->record, address), ask->version,
					  acl);
			zoo_set_op_init(&ops[WRITE_COUNT], sf_nodes_path("slots"), "", 0,
							-1, &written);
			n = WRITE_PRESENCE + add_presence(&ops[WRITE_PRESENCE], ask,
											  present, session, acl);
		}
	}
	sf_batch_multi(ops, n);
}

/* Which part of the write has failed, and how: those around it say less. */
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
 * What ZooKeeper has made of it.  An answer to a multi that says which part of
 * it has failed is an answer to all of it: nothing was done.
 */
SfWriting
sf_nodes_take_written(const SfAsk *ask, int64 *version, int64 *clock_ms)
{
	const SfZooReply *reply = sf_batch_reply(0);
	int			rc;
	int			part;

	if (reply->rc == ZOK)
	{
		*version = ask->version + 1;
		*clock_ms = reply->nresults > WRITE_COUNT ? written.mtime : 0;
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
	/* what is to be there in any case has not been made, or has gone */
	if (part == WRITE_COUNT ||
		(ask->kind == SF_ASK_INITIALIZE && rc == ZNONODE))
		return SF_WRITING_REFUSED;
	return SF_WRITING_CONFLICT;
}
