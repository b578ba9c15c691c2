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

#include <ctype.h>

#include "utils/json.h"

#include "protocol.h"

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
print_owner(uint64 owner)
{
	return psprintf("%016llx", (unsigned long long) owner);
}

/* Where there is no owner, the address of the last one stays. */
static char *
print_record(const SfRecord *record, const char *address)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"epoch\":" INT64_FORMAT, record->epoch);
	appendStringInfo(&buf, ",\"owner\":\"%s\"", print_owner(record->owner));
	appendStringInfo(&buf, ",\"server\":\"%s\"", print_owner(record->server));
	appendStringInfo(&buf, ",\"write_id\":\"%s\"",
					 print_owner(record->write_id));
	appendStringInfo(&buf, ",\"until\":" INT64_FORMAT, record->until);
	appendStringInfo(&buf, ",\"offset_ms\":" INT64_FORMAT, record->offset_ms);
	appendStringInfo(&buf, ",\"released\":%s,\"host\":",
					 record->released ? "true" : "false");
	escape_json(&buf, record->host);
	appendStringInfo(&buf, ",\"process\":%d", record->process);
	appendStringInfo(&buf, ",\"since_ms\":" INT64_FORMAT, record->since_ms);
	appendStringInfoString(&buf, ",\"address\":");
	escape_json(&buf, record->owner == 0 ? record->address : address);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

static char *
print_identity(uint64 generation, const char *layout, int64 floor)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"generation\":\"%s\",\"layout\":",
					 print_owner(generation));
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
		sf_json_append_bytes(buf, print_owner(present));
	}
	appendStringInfoString(buf, ",\"result\":\"EQUAL\"}");
}

static void
append_puts(StringInfo buf, const SfAsk *ask, const char *prefix, int64 lease,
			const char *address)
{
	append_put(buf, prefix, "slots", ask->record.node,
			   print_record(&ask->record, address));
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
		sf_json_append_bytes(buf, print_owner(ask->record.owner));
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
	unsigned long n;
	char	   *end;

	if (strncmp(key, directory, len) != 0 ||
		!isdigit((unsigned char) key[len]))
		return false;
	n = strtoul(key + len, &end, 10);
	*node = (uint32_t) n;
	return *end == '\0' && n <= PG_UINT32_MAX;
}

/* What is for people need not be there. */
static bool
parse_record(const char *text, SfRecord *record)
{
	SfJson	   *json = sf_json_parse(text);
	char	   *host = sf_json_string(json, "host");
	char	   *address = sf_json_string(json, "address");
	int64		process = 0;

	strlcpy(record->host, host != NULL ? host : "", sizeof(record->host));
	strlcpy(record->address, address != NULL ? address : "",
			sizeof(record->address));
	sf_json_int64(json, "process", &process);
	record->process = (int32) process;
	sf_json_int64(json, "since_ms", &record->since_ms);
	record->released = sf_json_bool(json, "released");
	return sf_json_int64(json, "epoch", &record->epoch) &&
		sf_json_uint64(json, "owner", &record->owner) &&
		sf_json_uint64(json, "server", &record->server) &&
		sf_json_uint64(json, "write_id", &record->write_id) &&
		sf_json_int64(json, "until", &record->until) &&
		sf_json_int64(json, "offset_ms", &record->offset_ms);
}

/* Records by node, and that of a presence behind the slot's own. */
static int
compare_records(const void *a, const void *b)
{
	const SfRecord *x = a;
	const SfRecord *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->version == 0) - (y->version == 0);
}

/*
 * Presences have been read as records that were never written: make one of
 * both.  A presence without a record stays, since it is in the way.
 */
static int
join_records(SfRecord *records, int n)
{
	int			last = -1;

	qsort(records, n, sizeof(SfRecord), compare_records);
	for (int i = 0; i < n; i++)
	{
		if (last >= 0 && records[last].node == records[i].node)
			records[last].present = records[i].present;
		else
			records[++last] = records[i];
	}
	return last + 1;
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
			if (!parse_record(value, record) ||
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
	reading->registry.nrecords = join_records(records, n);
	reading->registry.records = records;
	reading->highest = reading->registry.floor;
	for (int i = 0; i < reading->registry.nrecords; i++)
		reading->highest = Max(reading->highest, records[i].until);
	return NULL;
}
