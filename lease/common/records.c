/*-------------------------------------------------------------------------
 *
 * records.c
 *	  Slot records as JSON, for registries that store texts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>

#include "utils/json.h"

#include "json.h"
#include "records.h"

/* Print a random number so that sf_json_uint64() can read it. */
char *
sf_records_print_number(uint64 number)
{
	return psprintf("%016llx", (unsigned long long) number);
}

/*
 * Print a record.  The address is our end of the connection.  In a record
 * without an owner, the last owner's address stays.
 */
char *
sf_records_print(const SfSlotRecord *record, const char *address)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"epoch\":" INT64_FORMAT, record->epoch);
	appendStringInfo(&buf, ",\"owner\":\"%s\"",
					 sf_records_print_number(record->owner));
	appendStringInfo(&buf, ",\"server\":\"%s\"",
					 sf_records_print_number(record->server));
	appendStringInfo(&buf, ",\"write_id\":\"%s\"",
					 sf_records_print_number(record->write_id));
	appendStringInfo(&buf, ",\"until\":" INT64_FORMAT, record->until);
	appendStringInfo(&buf, ",\"offset_ms\":" INT64_FORMAT, record->offset_ms);
	appendStringInfo(&buf, ",\"reserve_ms\":" INT64_FORMAT, record->reserve_ms);
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

bool
sf_records_parse(const char *text, SfSlotRecord *record)
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
	sf_json_int64(json, "reserve_ms", &record->reserve_ms);
	record->released = sf_json_bool(json, "released");
	return sf_json_int64(json, "epoch", &record->epoch) &&
		sf_json_uint64(json, "owner", &record->owner) &&
		sf_json_uint64(json, "server", &record->server) &&
		sf_json_uint64(json, "write_id", &record->write_id) &&
		sf_json_int64(json, "until", &record->until) &&
		sf_json_int64(json, "offset_ms", &record->offset_ms);
}

/* Read the last part of a key: a node. */
bool
sf_records_parse_node(const char *text, uint32_t *node)
{
	unsigned long n;
	char	   *end;

	if (!isdigit((unsigned char) text[0]))
		return false;
	n = strtoul(text, &end, 10);
	*node = (uint32_t) n;
	return *end == '\0' && n <= PG_UINT32_MAX;
}

/* Read a presence: its owner, which is never 0. */
bool
sf_records_parse_owner(const char *text, uint64_t *owner)
{
	char	   *end;

	*owner = strtoull(text, &end, 16);
	return *owner != 0 && *end == '\0';
}

/* Order by node, and put a presence behind the record of its slot. */
static int
compare_records(const void *a, const void *b)
{
	const SfSlotRecord *x = a;
	const SfSlotRecord *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->version == 0) - (y->version == 0);
}

/*
 * Merge each presence, which was read as a record with version 0, into the
 * record of its slot.  A presence without a record stays, because it prevents
 * a claim.  Return how many records are left.
 */
int
sf_records_join(SfSlotRecord *records, int n)
{
	int			last = -1;

	qsort(records, n, sizeof(SfSlotRecord), compare_records);
	for (int i = 0; i < n; i++)
	{
		if (last >= 0 && records[last].node == records[i].node)
			records[last].present = records[i].present;
		else
			records[++last] = records[i];
	}
	return last + 1;
}
