/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  The registry as keys of etcd, and the requests that read and write it.
 *
 *		prefix/registry		generation, what it succeeds, layout, floor and
 *							cluster
 *		prefix/slots/N		slot record of node N; its version is the revision
 *		prefix/present/N	owner present in slot N, under a lease of etcd
 *
 * One range request reads all keys, so it shows one moment.  The member that
 * answers asks the others first, which is etcd's default.
 *
 * A write is one transaction.  It compares the value of prefix/registry (the
 * identity), not its revision: a registry that was wiped and made again counts
 * its revisions from the same start.
 *
 * Each etcd has a number, its cluster ID.  The identity holds that of the etcd
 * in which the generation began, and the prefix.  A snapshot that is restored
 * under another token begins another cluster, and then nobody claims from it
 * before a recovery; nor from a copy of the keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "utils/json.h"

#include "etcd.h"

/* Presences that allow a write: none, the owner's, the displaced owner's. */
#define PRESENCES	3

/* ---- requests ---- */

static void
append_key(StringInfo buf, const char *name, const char *prefix,
		   const char *path, int64 node)
{
	char	   *key = node < 0 ? psprintf("%s/%s", prefix, path) :
		psprintf("%s/%s/" INT64_FORMAT, prefix, path, node);

	appendStringInfo(buf, "\"%s\":", name);
	sf_json_append_bytes(buf, key);
	pfree(key);
}

char *
sf_etcd_read_request(const char *prefix)
{
	StringInfoData buf;
	char	   *end = psprintf("%s%c", prefix, '/' + 1);

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	append_key(&buf, "key", prefix, "", -1);
	appendStringInfoString(&buf, ",\"range_end\":");
	sf_json_append_bytes(&buf, end);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

static char *
print_identity(const SfAsk *ask, const char *layout, const char *cluster)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"generation\":\"%s\",",
					 sf_records_print_number(ask->new_generation));
	sf_identity_append(&buf, ask, layout);
	appendStringInfoString(&buf, ",\"cluster\":");
	escape_json(&buf, cluster);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* Parse an identity.  *cluster is NULL if the identity has none. */
static bool
parse_identity(const char *text, SfRegistry *registry, char **cluster)
{
	SfJson	   *json = sf_json_parse(text);

	*cluster = sf_json_string(json, "cluster");
	return sf_identity_parse(json, registry) &&
		sf_json_uint64(json, "generation", &registry->generation);
}

static void
append_identity(StringInfo buf, const char *prefix, const char *identity)
{
	appendStringInfoString(buf, "{\"target\":\"VALUE\",\"result\":\"EQUAL\",");
	append_key(buf, "key", prefix, "registry", -1);
	appendStringInfoString(buf, ",\"value\":");
	sf_json_append_bytes(buf, identity);
	appendStringInfoChar(buf, '}');
}

static void
append_version(StringInfo buf, const char *prefix, const char *path,
			   int64 node, int64 version)
{
	appendStringInfoString(buf, "{\"target\":\"MOD\",\"result\":\"EQUAL\",");
	append_key(buf, "key", prefix, path, node);
	appendStringInfo(buf, ",\"mod_revision\":\"" INT64_FORMAT "\"}", version);
}

static void
append_put(StringInfo buf, const char *prefix, const char *path, int64 node,
		   const char *value)
{
	appendStringInfoString(buf, "{\"request_put\":{");
	append_key(buf, "key", prefix, path, node);
	appendStringInfoString(buf, ",\"value\":");
	sf_json_append_bytes(buf, value);
	appendStringInfoString(buf, "}}");
}

static void
append_compare(StringInfo buf, const SfAsk *ask, const char *prefix,
			   const char *identity, uint64 present)
{
	append_identity(buf, prefix, identity);
	appendStringInfoChar(buf, ',');
	append_version(buf, prefix, "slots", ask->record.node, ask->version);
	appendStringInfoString(buf, ",{");
	append_key(buf, "key", prefix, "present", ask->record.node);
	if (present == 0)
		appendStringInfoString(buf, ",\"target\":\"CREATE\",\"create_revision\":\"0\"");
	else
	{
		appendStringInfoString(buf, ",\"target\":\"VALUE\",\"value\":");
		sf_json_append_bytes(buf, sf_records_print_number(present));
	}
	appendStringInfoString(buf, ",\"result\":\"EQUAL\"}");
}

static void
append_puts(StringInfo buf, const SfAsk *ask, const char *prefix, int64 lease,
			const char *address)
{
	append_put(buf, prefix, "slots", ask->record.node,
			   sf_records_print(&ask->record, address));
	if (ask->kind == SF_ASK_RELEASE)
	{
		appendStringInfoString(buf, ",{\"request_delete_range\":{");
		append_key(buf, "key", prefix, "present", ask->record.node);
		appendStringInfoString(buf, "}}");
	}
	else if (ask->presence)
	{
		appendStringInfoString(buf, ",{\"request_put\":{");
		append_key(buf, "key", prefix, "present", ask->record.node);
		appendStringInfoString(buf, ",\"value\":");
		sf_json_append_bytes(buf, sf_records_print_number(ask->record.owner));
		appendStringInfo(buf, ",\"lease\":\"" INT64_FORMAT "\"}}", lease);
	}
}

/*
 * Append a write of a slot.  Any of three presences is allowed, but etcd makes
 * a transaction only if all of its comparisons hold.  So the failure branch of
 * each transaction holds a transaction that compares with the next presence.
 * An extension usually succeeds in the second one, as its owner is present.
 */
static void
append_slot_write(StringInfo buf, const char *prefix, const SfAsk *ask,
				  const char *identity, int64 lease, const char *address)
{
	const uint64 presences[PRESENCES] = {0, ask->record.owner, ask->displaced};
	int			n = 0;

	for (int i = 0; i < PRESENCES; i++)
	{
		if (i > 0 && presences[i] == 0)
			continue;
		if (n++ > 0)
			appendStringInfoString(buf, ",\"failure\":[{\"request_txn\":");
		appendStringInfoString(buf, "{\"compare\":[");
		append_compare(buf, ask, prefix, identity, presences[i]);
		appendStringInfoString(buf, "],\"success\":[");
		append_puts(buf, ask, prefix, lease, address);
		appendStringInfoChar(buf, ']');
	}
	while (--n > 0)
		appendStringInfoString(buf, "}}]");
	appendStringInfoChar(buf, '}');
}

/* Append a write of the identity; the old one is NULL if there is none. */
static void
append_identity_write(StringInfo buf, const char *prefix,
					  const char *identity, const char *value)
{
	appendStringInfoString(buf, "{\"compare\":[");
	if (identity != NULL)
		append_identity(buf, prefix, identity);
	else
		append_version(buf, prefix, "registry", -1, 0);
	appendStringInfoString(buf, "],\"success\":[");
	append_put(buf, prefix, "registry", -1, value);
	appendStringInfoString(buf, "]}");
}

/*
 * Return the request that writes.  "identity" is the value that was read from
 * this cluster, and "address" our end of a connection.
 */
char *
sf_etcd_write_request(const char *prefix, const SfAsk *ask,
					  const char *identity, const char *cluster, int64 lease,
					  const char *address)
{
	StringInfoData buf;
	SfRegistry	old;
	char	   *old_cluster;

	initStringInfo(&buf);
	if (ask->kind == SF_ASK_INITIALIZE)
		append_identity_write(&buf, prefix, NULL,
							  print_identity(ask, ask->new_layout_text,
											 cluster));
	else if (ask->kind == SF_ASK_RECOVER)
	{
		(void) parse_identity(identity, &old, &old_cluster);
		append_identity_write(&buf, prefix, identity,
							  print_identity(ask, old.layout, cluster));
	}
	else
		append_slot_write(&buf, prefix, ask, identity, lease, address);
	return buf.data;
}

/* ---- answers ---- */

/* Return the cluster ID of the etcd that has answered, and the prefix. */
static char *
find_cluster(SfJson *json, const char *prefix)
{
	char	   *cluster = sf_json_string(sf_json_part(json, "header"),
										 "cluster_id");

	return psprintf("%s/%s", cluster == NULL ? "" : cluster, prefix);
}

/*
 * Return the outcome of a write, given the cluster that was read.  An answer
 * from another cluster does not count: it may have the same keys because it is
 * a copy.
 */
SfEtcdWritten
sf_etcd_write_answer(SfJson *json, const char *prefix, const char *cluster,
					 int64 *version)
{
	SfJson	   *header = sf_json_part(json, "header");
	SfJson	   *txn = json;

	if (!sf_json_int64(header, "revision", version) || *version <= 0)
		return SF_ETCD_UNREADABLE;
	if (strcmp(find_cluster(json, prefix), cluster) != 0)
		return SF_ETCD_ELSEWHERE;
	/* our requests nest no deeper, and each step reads all that is inside */
	for (int i = 0; i < PRESENCES && txn != NULL; i++)
	{
		SfJson	   *responses = sf_json_part(txn, "responses");

		if (sf_json_bool(txn, "succeeded"))
			return SF_ETCD_WRITTEN;
		txn = sf_json_part(sf_json_first(responses), "response_txn");
	}
	return SF_ETCD_NOT_WRITTEN;
}

/* Parse the number after a directory (such as "prefix/slots/"). */
static bool
parse_node(const char *key, const char *directory, uint32_t *node)
{
	size_t		len = strlen(directory);

	return strncmp(key, directory, len) == 0 &&
		sf_records_parse_node(key + len, node);
}

/* Return the record after n others, in an array that grows. */
static SfSlotRecord *
add_record(SfSlotRecord **records, int n, int *room)
{
	if (*records == NULL)
		*records = palloc(sizeof(SfSlotRecord) * (*room = 64));
	else if (n == *room)
		*records = repalloc(*records, sizeof(SfSlotRecord) * (*room *= 2));
	memset(&(*records)[n], 0, sizeof(SfSlotRecord));
	return &(*records)[n];
}

/* Parse a reading.  Return NULL, or a sentence about the unreadable part. */
const char *
sf_etcd_read_answer(SfJson *json, const char *prefix, uint64 owner,
					SfEtcdReading *reading)
{
	SfJson	   *kvs = sf_json_part(json, "kvs");
	char	   *identity_key = psprintf("%s/registry", prefix);
	char	   *slots = psprintf("%s/slots/", prefix);
	char	   *presences = psprintf("%s/present/", prefix);
	SfSlotRecord *records = NULL;
	int			room = 0;
	int			n = 0;

	memset(reading, 0, sizeof(SfEtcdReading));
	if (sf_json_part(json, "header") == NULL)
		return "This is not an answer of etcd.";
	reading->cluster = find_cluster(json, prefix);
	reading->in_place = true;
	for (SfJson *kv = sf_json_first(kvs); kv != NULL; kv = sf_json_next(kv))
	{
		char	   *key = sf_json_bytes(kv, "key");
		char	   *value = sf_json_bytes(kv, "value");
		SfSlotRecord *record = add_record(&records, n, &room);
		char	   *cluster;

		if (key == NULL)
			return "A key is not readable.";
		if (value == NULL)
			value = pstrdup("");
		if (strcmp(key, identity_key) == 0)
		{
			if (!parse_identity(value, &reading->registry, &cluster))
				return psprintf("The value of \"%s\" is not readable.", key);
			reading->in_place = cluster == NULL ||
				strcmp(cluster, reading->cluster) == 0;
			reading->identity = value;
		}
		else if (parse_node(key, slots, &record->node))
		{
			if (!sf_records_parse(value, record) ||
				!sf_json_int64(kv, "mod_revision", &record->version))
				return psprintf("The value of \"%s\" is not readable.", key);
			n++;
		}
		else if (parse_node(key, presences, &record->node))
		{
			if (!sf_records_parse_owner(value, &record->present))
				return psprintf("The value of \"%s\" is not readable.", key);
			if (record->present == owner)
				sf_json_int64(kv, "lease", &reading->lease);
			n++;
		}
	}
	reading->registry.nrecords = sf_records_join(records, n);
	reading->registry.records = records;
	for (int i = 0; i < reading->registry.nrecords; i++)
	{
		if (records[i].version > reading->registry.version)
		{
			reading->registry.version = records[i].version;
			reading->registry.newest = records[i].node;
		}
	}
	return NULL;
}
