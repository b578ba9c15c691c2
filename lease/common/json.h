/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON in the dialect of etcd's gateway: bytes are base64, an int64 is a
 *	  string, and fields that are zero are left out.
 *
 * The input function of json checks a text, because that needs no catalogue.
 * It throws an error if the text is not JSON.  Then the parts of the text are
 * looked up in the text itself: it may come from anybody, and a tree of it
 * would be up to a hundred times as large.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_JSON_H
#define SF_ETCD_JSON_H

#include "lib/stringinfo.h"

/*
 * Where a value begins, in a text that lives as long.  NULL stands for a
 * missing part; the parts of NULL are NULL.
 */
typedef const char SfJson;

extern SfJson *sf_json_parse(const char *text);
extern SfJson *sf_json_part(SfJson *json, const char *name);
extern SfJson *sf_json_first(SfJson *array);
extern SfJson *sf_json_next(SfJson *element);
extern char *sf_json_string(SfJson *json, const char *name);
extern char *sf_json_bytes(SfJson *json, const char *name);
extern bool sf_json_int64(SfJson *json, const char *name, int64 *value);
extern bool sf_json_uint64(SfJson *json, const char *name, uint64 *value);
extern bool sf_json_bool(SfJson *json, const char *name);

extern void sf_json_append_bytes(StringInfo buf, const char *text);

#endif							/* SF_ETCD_JSON_H */
