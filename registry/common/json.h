/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON in the dialect of etcd's gateway: bytes are base64, an int64 is a
 *	  string, and fields that are zero are left out.
 *
 * The input function of jsonb parses it, because that needs no catalogue.  It
 * throws an error if a text is not JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_JSON_H
#define SF_ETCD_JSON_H

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/* NULL stands for a missing part; the parts of NULL are NULL. */
typedef JsonbContainer SfJson;

extern SfJson *sf_json_parse(const char *text);
extern SfJson *sf_json_part(SfJson *json, const char *name);
extern int	sf_json_length(SfJson *array);
extern SfJson *sf_json_element(SfJson *array, int i);
extern char *sf_json_string(SfJson *json, const char *name);
extern char *sf_json_bytes(SfJson *json, const char *name);
extern bool sf_json_int64(SfJson *json, const char *name, int64 *value);
extern bool sf_json_uint64(SfJson *json, const char *name, uint64 *value);
extern bool sf_json_bool(SfJson *json, const char *name);

extern void sf_json_append_bytes(StringInfo buf, const char *text);

#endif							/* SF_ETCD_JSON_H */
