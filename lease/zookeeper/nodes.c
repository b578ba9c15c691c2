/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  The registry as nodes of ZooKeeper.
 *
 *		prefix/registry/G	layout and floor of generation G
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "json.h"
#include "nodes.h"
#include "records.h"

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

/* Servers from 3.7 on return this error; the library has no name for it. */
#define QUOTA_EXCEEDED	(-125)

/* Where the nodes are, and where to report a problem. */
static struct
{
	const char *prefix;
	char	   *problem;
	size_t		problem_size;
	SfFailure  *failure;
}			target;

/* What was found in the names, for the rest of the request. */
static struct
{
	char	   *generation_path;
	uint32	   *nodes;			/* slots, followed by presences */
	int			nslots;
	int			npresent;
	int64		slots_pzxid;	/* the last change of the list of slots */
	int64		present_pzxid;
}			listed;

void
sf_nodes_open(const char *to, char *problem_text, size_t size,
			  SfFailure *kind)
{
	target.prefix = to;
	target.problem = problem_text;
	target.problem_size = size;
	target.failure = kind;
}

char *
sf_nodes_path(const char *name)
{
	return psprintf("%s/%s", target.prefix, name);
}

char *
sf_nodes_path_of(const char *name, uint32 node)
{
	return psprintf("%s/%s/%u", target.prefix, name, node);
}

char *
sf_nodes_generation(uint64 generation)
{
	return psprintf("%s/registry/%s", target.prefix,
					sf_records_print_number(generation));
}

static SfReading
nodes_fail(const char *path, const char *what)
{
	snprintf(target.problem, target.problem_size, "\"%s\": %s", path, what);
	*target.failure = SF_FAILURE_OTHER;
	return SF_READING_FAILED;
}

/* Report a failure with ZooKeeper's error. */
SfReading
sf_nodes_fail_with(const char *path, int rc)
{
	(void) nodes_fail(path, rc == QUOTA_EXCEEDED ? "the quota is exceeded" :
					  rc == ZMARSHALLINGERROR ? "the answer is not readable" :
					  zerror(rc));
	if (rc == ZNOAUTH)
		*target.failure = SF_FAILURE_PERMISSION;
	else if (rc == QUOTA_EXCEEDED)
		*target.failure = SF_FAILURE_FULL;
	return SF_READING_FAILED;
}

/* ---- reading ---- */

void
sf_nodes_ask_names(void)
{
	sf_batch_set(sf_nodes_path("present"), "");
	sf_batch_children(sf_nodes_path("registry"));
	sf_batch_children(sf_nodes_path("slots"));
	sf_batch_children(sf_nodes_path("present"));
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
		return nodes_fail(sf_nodes_path("registry"), names->count == 0 ?
						  "there is no generation" :
						  "there is more than one generation");
	registry->generation = strtoull(names->data[0], &end, 16);
	if (*end != '\0' || strlen(names->data[0]) != 16)
		return nodes_fail(sf_nodes_path("registry"),
						  "its child is no generation");
	registry->initialized = true;
	listed.generation_path = sf_nodes_generation(registry->generation);
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
			return sf_nodes_fail_with(sf_nodes_path(names[i]),
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
	sf_batch_exists(sf_nodes_path("slots"));
	sf_batch_exists(sf_nodes_path("present"));
	sf_batch_get(listed.generation_path);
	for (int i = 0; i < listed.nslots; i++)
		sf_batch_get(sf_nodes_path_of("slots", listed.nodes[i]));
	for (int i = listed.nslots; i < listed.nslots + listed.npresent; i++)
		sf_batch_get(sf_nodes_path_of("present", listed.nodes[i]));
	sf_batch_exists(sf_nodes_path("slots"));
	sf_batch_exists(sf_nodes_path("present"));
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
	SfJson	   *json = sf_json_parse(reply->data);
	char	   *layout = sf_json_string(json, "layout");

	if (layout == NULL ||
		strlcpy(registry->layout, layout,
				sizeof(registry->layout)) >= sizeof(registry->layout) ||
		!sf_json_int64(json, "floor", &registry->floor))
		return nodes_fail(listed.generation_path, "it is not readable");
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
			return nodes_fail(sf_nodes_path_of(is_slot ? "slots" :
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
			return sf_nodes_fail_with(listed.generation_path, rc);
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
	sf_batch_sync(sf_nodes_path("present"));
	sf_batch_get(sf_nodes_path_of("present", node));
}

SfReading
sf_nodes_take_present(SfPresent *present)
{
	const SfZooReply *reply = sf_batch_reply(LOOK_PRESENT);

	memset(present, 0, sizeof(SfPresent));
	if (reply->rc == ZNONODE)
		return SF_READING_DONE;
	if (reply->rc != ZOK)
		return sf_nodes_fail_with(sf_nodes_path("present"), reply->rc);
	if (!sf_records_parse_owner(reply->data, &present->owner))
		return nodes_fail(sf_nodes_path("present"), "it is not readable");
	present->session = reply->stat.ephemeralOwner;
	return SF_READING_DONE;
}
