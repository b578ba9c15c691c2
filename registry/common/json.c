/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON in the dialect of etcd's gateway.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <errno.h>

#include "common/base64.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "json.h"

SfJson *
sf_json_parse(const char *text)
{
	Datum		datum = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));

	return &DatumGetJsonbP(datum)->root;
}

static bool
get(SfJson *json, const char *name, JsonbValue *value)
{
	return json != NULL && JsonContainerIsObject(json) &&
		getKeyJsonValueFromContainer(json, name, strlen(name), value) != NULL;
}

SfJson *
sf_json_part(SfJson *json, const char *name)
{
	JsonbValue	value;

	if (!get(json, name, &value) || value.type != jbvBinary)
		return NULL;
	return value.val.binary.data;
}

int
sf_json_length(SfJson *array)
{
	if (array == NULL || !JsonContainerIsArray(array))
		return 0;
	return JsonContainerSize(array);
}

SfJson *
sf_json_element(SfJson *array, int i)
{
	JsonbValue *value;

	if (i >= sf_json_length(array))
		return NULL;
	value = getIthJsonbValueFromContainer(array, i);
	return value->type == jbvBinary ? value->val.binary.data : NULL;
}

char *
sf_json_string(SfJson *json, const char *name)
{
	JsonbValue	value;

	if (!get(json, name, &value) || value.type != jbvString)
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
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
	JsonbValue	value;
	char	   *text;
	char	   *end;

	if (!get(json, name, &value))
		return false;
	if (value.type == jbvNumeric)
	{
		Datum		numeric = NumericGetDatum(value.val.numeric);

		*number = DatumGetInt64(DirectFunctionCall1(numeric_int8, numeric));
		return true;
	}
	text = sf_json_string(json, name);
	if (text == NULL || text[0] == '\0')
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
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
	JsonbValue	value;

	return get(json, name, &value) && value.type == jbvBool &&
		value.val.boolean;
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
