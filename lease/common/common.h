/*-------------------------------------------------------------------------
 *
 * common.h
 *	  What the client libraries of several kinds of registries share: the
 *	  request under way, the parts of a setting, JSON, and slot records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COMMON_H
#define SF_COMMON_H

#include "lease/backend.h"
#include "lib/stringinfo.h"

/* ---- harness.c: the functions of backend.h, and the current request ---- */

/*
 * What a kind of registry does by itself.  All but close() and sockets() may
 * throw.  open() runs in memory that lasts until close(), begin() and go_on()
 * in that of the request.
 */
typedef struct SfKind
{
	const char *name;			/* of its memory; a literal */

	/* Take the text of the setting, as in SfBackend. */
	bool		(*open) (const char *text, const SfBackendConfig *config,
						 char *reason, size_t reason_size);

	/* Begin the request in sf_request. */
	void		(*begin) (void);

	/* Continue it as far as that is possible without waiting. */
	void		(*go_on) (void);

	/* Answer after an error was thrown: there is no outcome. */
	void		(*fail) (const char *problem);

	int			(*sockets) (SfSocket *sockets, int64_t *timeout_ms);

	/* Print a part of the setting, in memory of the request; or NULL. */
	char	   *(*part) (const char *part);
	void		(*close) (void);
} SfKind;

#define SF_MESSAGE_SIZE		512

/* The request under way, or the last one. */
typedef struct SfRequest
{
	SfAsk		asked;
	bool		is_under_way;	/* it has no answer yet */
	bool		is_answered;	/* and the worker does not have the answer */
	int64		begun_ms;
	int64		deadline_ms;
	int64		silent_ms;		/* how long the request before was without an
								 * answer; 0: it had one */
	SfAnswer	answer;
	char		message[SF_MESSAGE_SIZE];	/* of a failure */
} SfRequest;

extern SfRequest sf_request;

extern const SfBackend *sf_harness_backend(const SfKind *kind);
extern int64 sf_harness_now_ms(void);
extern void sf_harness_keep(char **place, const char *text);
extern bool sf_harness_is_write(void);
extern void sf_harness_conclude(SfResult result);
extern void sf_harness_conclude_failure(SfFailure failure, bool is_unknown);
extern char *sf_harness_quote(const char *text, char quote);

/*
 * ---- uri.c: the parts of snowflake.registry for a registry that is given by
 * its hosts, for example "etcd://a:2379,b:2379/prefix?cacert=/file" ----
 */

#define SF_URI_HOSTS	16

typedef struct SfUri
{
	char	   *user;			/* before the "@"; or NULL */
	int			nhosts;
	char	   *hosts[SF_URI_HOSTS];	/* "host:port", "[::1]:port" */
	char	   *path;			/* without slashes at the end; or NULL */
	char	   *options;		/* after the "?"; or NULL */
} SfUri;

extern bool sf_uri_refuse(char *reason, size_t reason_size,
						  const char *format, ...) pg_attribute_printf(3, 4);
extern bool sf_uri_parse(SfUri *uri, const char *text, const char *port,
						 const char *what, char *reason, size_t reason_size);
extern bool sf_uri_options(char *options, const char *const *names,
						   char **files, const char *known, char *reason,
						   size_t reason_size);
extern char *sf_uri_hosts(char *const *hosts, int nhosts);
extern char *sf_uri_user(const char *file);
extern bool sf_uri_credentials(const char *file, char **user,
							   char **password, char *reason,
							   size_t reason_size);

/*
 * ---- json.c: JSON in the dialect of etcd's gateway: bytes are base64, an
 * int64 is a string, and fields that are zero are left out ----
 *
 * The input function of json checks a text, because that needs no catalogue.
 * It throws an error if the text is not JSON.  Then the parts of the text are
 * looked up in the text itself: it may come from anybody, and a tree of it
 * would be up to a hundred times as large.
 */

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

/* What a generation of a registry has, as fields of a JSON object. */
extern void sf_identity_append(StringInfo buf, const SfAsk *ask,
							   const char *layout);
extern bool sf_identity_parse(SfJson *json, SfRegistry *registry);

/*
 * Slot records as JSON, for registries that store texts.  The fields that only
 * people read may be missing.  Reading throws an error if a text is not JSON.
 */

extern char *sf_records_print_number(uint64 number);
extern char *sf_records_print(const SfSlotRecord *record, const char *address);
extern bool sf_records_parse(const char *text, SfSlotRecord *record);
extern bool sf_records_parse_node(const char *text, uint32_t *node);
extern bool sf_records_parse_owner(const char *text, uint64_t *owner);
extern int	sf_records_join(SfSlotRecord *records, int n);

#endif							/* SF_COMMON_H */
