/*-------------------------------------------------------------------------
 *
 * protocol.c
 *	  The registry as keys of etcd, and the requests that read and write it.
 *
 *		prefix/registry		generation, layout and floor
 *		prefix/slots/N		the record of node N; its version is the revision
 *		prefix/present/N	who is there, under a lease of etcd's
 *		prefix/shards		who may issue for which shards, as it was given
 *
 * All is read as one range, and so at one moment, from a member that asks the
 * others first (that is etcd's default).
 *
 * A write is one transaction.  What it compares of the identity is the whole
 * value, and not the revision: a registry that was wiped and made again counts
 * its revisions from the same start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "utils/json.h"

#include "protocol.h"
#include "records.h"

/* What a presence is compared with: nothing, the owner's, the displaced's. */
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
print_identity(uint64 generation, const char *layout, int64 floor)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"generation\":\"%s\",\"layout\":",
					 sf_records_print_number(generation));
	escape_json(&buf, layout);
	appendStringInfo(&buf, ",\"floor\":" INT64_FORMAT "}", floor);
	return buf.data;
}

static bool
parse_identity(const char *text, SfRegistry *registry)
{
	SfJson	   *json = sf_json_parse(text);
	char	   *layout = sf_json_string(json, "layout");

	if (layout == NULL ||
		strlcpy(registry->layout, layout,
				sizeof(registry->layout)) >= sizeof(registry->layout))
		return false;
	registry->initialized = true;
	return sf_json_uint64(json, "generation", &registry->generation) &&
		sf_json_int64(json, "floor", &registry->floor);
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
 * Comparisons are all to hold, and there may be three presences; so what is to
 * be done where one does not hold is a transaction that compares the next.
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

static void
append_shards_write(StringInfo buf, const char *prefix, const SfAsk *ask,
					const char *identity)
{
	appendStringInfoString(buf, "{\"compare\":[");
	append_identity(buf, prefix, identity);
	appendStringInfoChar(buf, ',');
	append_version(buf, prefix, "shards", -1, ask->version);
	appendStringInfoString(buf, "],\"success\":[");
	append_put(buf, prefix, "shards", -1, ask->shards);
	appendStringInfoString(buf, "]}");
}

/* Without an identity the condition is that there is none. */
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
 * The identity is the value that was read, and the address our end of a
 * connection.
 */
char *
sf_etcd_write_request(const char *prefix, const SfAsk *ask,
					  const char *identity, int64 lease, const char *address)
{
	StringInfoData buf;
	SfRegistry	old;

	initStringInfo(&buf);
	if (ask->kind == SF_ASK_SHARDS)
		append_shards_write(&buf, prefix, ask, identity);
	else if (ask->kind == SF_ASK_INITIALIZE)
		append_identity_write(&buf, prefix, NULL,
							  print_identity(ask->new_generation,
											 ask->new_layout_text,
											 ask->new_floor));
	else if (ask->kind == SF_ASK_RECOVER)
	{
		(void) parse_identity(identity, &old);
		append_identity_write(&buf, prefix, identity,
							  print_identity(ask->new_generation, old.layout,
											 ask->new_floor));
	}
	else
		append_slot_write(&buf, prefix, ask, identity, lease, address);
	return buf.data;
}

/* ---- answers ---- */

SfEtcdWritten
sf_etcd_write_answer(SfJson *json, int64 *version)
{
	SfJson	   *header = sf_json_part(json, "header");

	if (!sf_json_int64(header, "revision", version) || *version <= 0)
		return SF_ETCD_UNREADABLE;
	for (SfJson *txn = json; txn != NULL;)
	{
		SfJson	   *responses = sf_json_part(txn, "responses");

		if (sf_json_bool(txn, "succeeded"))
			return SF_ETCD_WRITTEN;
		txn = sf_json_part(sf_json_element(responses, 0), "response_txn");
	}
	return SF_ETCD_NOT_WRITTEN;
}

/* The number in a key behind "prefix/slots/", say. */
static bool
parse_node(const char *key, const char *directory, uint32_t *node)
{
	size_t		len = strlen(directory);

	return strncmp(key, directory, len) == 0 &&
		sf_records_parse_node(key + len, node);
}

/* What cannot be read is in the sentence that is returned; else NULL. */
const char *
sf_etcd_read_answer(SfJson *json, const char *prefix, uint64 owner,
					SfEtcdReading *reading)
{
	SfJson	   *kvs = sf_json_part(json, "kvs");
	int			nkvs = sf_json_length(kvs);
	char	   *identity_key = psprintf("%s/registry", prefix);
	char	   *shards_key = psprintf("%s/shards", prefix);
	char	   *slots = psprintf("%s/slots/", prefix);
	char	   *presences = psprintf("%s/present/", prefix);
	SfRecord   *records = palloc0(sizeof(SfRecord) * (nkvs + 1));
	int			n = 0;

	memset(reading, 0, sizeof(SfEtcdReading));
	reading->registry.shards = "";
	if (sf_json_part(json, "header") == NULL)
		return "It is not the answer of an etcd.";
	for (int i = 0; i < nkvs; i++)
	{
		SfJson	   *kv = sf_json_element(kvs, i);
		char	   *key = sf_json_bytes(kv, "key");
		char	   *value = sf_json_bytes(kv, "value");
		SfRecord   *record = &records[n];

		if (key == NULL)
			return "A key is not readable.";
		if (value == NULL)
			value = pstrdup("");
		if (strcmp(key, identity_key) == 0)
		{
			if (!parse_identity(value, &reading->registry))
				return psprintf("The value of \"%s\" is not readable.", key);
			reading->identity = value;
		}
		else if (strcmp(key, shards_key) == 0)
		{
			reading->registry.shards = value;
			if (!sf_json_int64(kv, "mod_revision",
							   &reading->registry.shards_version))
				return psprintf("\"%s\" has no version.", key);
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
			char	   *end;

			record->present = strtoull(value, &end, 16);
			if (record->present == 0 || *end != '\0')
				return psprintf("The value of \"%s\" is not readable.", key);
			if (record->present == owner)
				sf_json_int64(kv, "lease", &reading->lease);
			n++;
		}
	}
	reading->registry.nrecords = sf_records_join(records, n);
	reading->registry.records = records;
	reading->highest = reading->registry.floor;
	for (int i = 0; i < reading->registry.nrecords; i++)
		reading->highest = Max(reading->highest, records[i].until);
	return NULL;
}
