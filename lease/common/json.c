/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON in the dialect of etcd's gateway, and slot records as JSON.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>
#include <errno.h>

#include "common/base64.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

#include "common.h"

/* ---- walking a text that is known to be JSON ---- */

static const char *
skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* Return the end of the string that begins here. */
static const char *
skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
	{
		if (*p == '\\')
			p++;
	}
	return p + 1;
}

/* Return the end of the value that begins here. */
static const char *
skip_value(const char *p)
{
	int			depth = 0;

	do
	{
		p = skip_space(p);
		if (*p == '"')
			p = skip_string(p);
		else if (*p == '{' || *p == '[')
		{
			depth++;
			p++;
		}
		else if (*p == '}' || *p == ']')
		{
			depth--;
			p++;
		}
		else if (*p == ',' || *p == ':')
			p++;
		else
			p += strcspn(p, ",}] \t\r\n");
	} while (depth > 0);
	return p;
}

/* Return the first element of a list, or what follows an element; or NULL. */
static SfJson *
begin_element(const char *p, char before)
{
	p = skip_space(p);
	if (*p != before)
		return NULL;
	p = skip_space(p + 1);
	return *p == ']' || *p == '}' ? NULL : p;
}

/* ---- parts ---- */

SfJson *
sf_json_parse(const char *text)
{
	(void) DirectFunctionCall1(json_in, CStringGetDatum(text));
	return skip_space(text);
}

/* Return a field's value, whatever its type. */
static SfJson *
get(SfJson *json, const char *name)
{
	size_t		len = strlen(name);
	const char *key = json == NULL ? NULL : begin_element(json, '{');

	while (key != NULL)
	{
		const char *end = skip_string(key);
		SfJson	   *value = skip_space(skip_space(end) + 1);

		if ((size_t) (end - key) == len + 2 && memcmp(key + 1, name, len) == 0)
			return value;
		key = begin_element(skip_value(value), ',');
	}
	return NULL;
}

SfJson *
sf_json_part(SfJson *json, const char *name)
{
	SfJson	   *value = get(json, name);

	return value != NULL && (*value == '{' || *value == '[') ? value : NULL;
}

SfJson *
sf_json_first(SfJson *array)
{
	return array == NULL ? NULL : begin_element(array, '[');
}

SfJson *
sf_json_next(SfJson *element)
{
	return begin_element(skip_value(element), ',');
}

/* Return a string without quotes and escapes. */
char *
sf_json_string(SfJson *json, const char *name)
{
	SfJson	   *value = get(json, name);
	int			len;
	char	   *list;

	if (value == NULL || *value != '"')
		return NULL;
	len = skip_string(value) - value;
	if (memchr(value, '\\', len) == NULL)
		return pnstrdup(value + 1, len - 2);
	list = psprintf("[%.*s]", len, value);
	return TextDatumGetCString(DirectFunctionCall2(json_array_element_text,
												   CStringGetTextDatum(list),
												   Int32GetDatum(0)));
}

/* Return a base64 field as text. */
char *
sf_json_bytes(SfJson *json, const char *name)
{
	char	   *text = sf_json_string(json, name);
	char	   *bytes;
	int			size;
	int			n;

	if (text == NULL)
		return NULL;
	size = pg_b64_dec_len(strlen(text));
	bytes = palloc(size + 1);
	n = pg_b64_decode(text, strlen(text), (SfByte *) bytes, size);
	if (n < 0)
		return NULL;
	bytes[n] = '\0';
	return bytes;
}

/* Read a number, or a string that holds one. */
bool
sf_json_int64(SfJson *json, const char *name, int64 *number)
{
	SfJson	   *value = get(json, name);
	char	   *end;

	if (value == NULL)
		return false;
	if (*value == '"')
		value++;
	if (*value != '-' && !isdigit((unsigned char) *value))
		return false;
	errno = 0;
	*number = strtoll(value, &end, 10);
	return errno == 0 && strchr("\",]} \t\r\n", *end) != NULL;
}

/* Read the hexadecimal digits that sf_records_print_number() writes. */
bool
sf_json_uint64(SfJson *json, const char *name, uint64 *number)
{
	char	   *text = sf_json_string(json, name);
	char	   *end;

	if (text == NULL || strlen(text) != 16)
		return false;
	*number = strtoull(text, &end, 16);
	return *end == '\0';
}

/* Return a boolean field; false also if the field is missing. */
bool
sf_json_bool(SfJson *json, const char *name)
{
	SfJson	   *value = get(json, name);

	return value != NULL && *value == 't';
}

/* Append text as the gateway wants bytes: a string in base64. */
void
sf_json_append_bytes(StringInfo buf, const char *text)
{
	int			size = pg_b64_enc_len(strlen(text));
	int			n;

	appendStringInfoChar(buf, '"');
	enlargeStringInfo(buf, size + 1);
	n = pg_b64_encode((const SfByte *) text, strlen(text),
					  buf->data + buf->len, size);
	if (n < 0)
		elog(ERROR, "could not encode in base64");
	buf->len += n;
	buf->data[buf->len] = '\0';
	appendStringInfoChar(buf, '"');
}

/* ---- the registry ---- */

void
sf_identity_append(StringInfo buf, const SfAsk *ask, const char *layout)
{
	appendStringInfoString(buf, "\"layout\":");
	escape_json(buf, layout);
	appendStringInfo(buf, ",\"floor\":" INT64_FORMAT ",\"former\":",
					 ask->new_floor);
	escape_json(buf, ask->new_former);
}

/* Return false, or an error, if it is not readable. */
bool
sf_identity_parse(SfJson *json, SfRegistry *registry)
{
	char	   *layout = sf_json_string(json, "layout");
	char	   *former = sf_json_string(json, "former");

	registry->initialized = true;
	return layout != NULL && former != NULL &&
		strlcpy(registry->layout, layout,
				sizeof(registry->layout)) < sizeof(registry->layout) &&
		strlcpy(registry->former, former,
				sizeof(registry->former)) < sizeof(registry->former) &&
		sf_json_int64(json, "floor", &registry->floor);
}

/* ---- slot records ---- */

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
