/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON as etcd's gateway speaks it: bytes in base64, int64 as strings,
 *	  and what is zero left out.
 *
 * It is parsed by the input function of jsonb, which needs no catalogue; so
 * reading throws errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_JSON_H
#define SF_ETCD_JSON_H

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/* NULL is a part that is not there, and has no parts. */
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
