/*-------------------------------------------------------------------------
 *
 * etcd.c
 *	  Registry of node ids in etcd, through its JSON gateway: the functions
 *	  that the worker calls (lease/backend.h), the current request with its
 *	  steps, and what is known of the registry.
 *
 * A request takes up to three POSTs.  If there are credentials, the first
 * obtains a token.  For a claim, the next obtains a lease of etcd for the
 * presence.  Each claim gets a lease of its own; otherwise the new claim would
 * keep the presence of an earlier claim alive.  The last POST is the request
 * itself.
 *
 * Only the last step of a write changes the registry, and it is sent once.
 * From the moment when it may have arrived, its outcome is unknown, until etcd
 * says that it was done or that a comparison failed.  Only these errors prove
 * that nothing was done: a malformed request, authentication, permissions, and
 * a lease that is gone.  Any other error may follow a write that was made.
 * That includes a full disk quota, which etcd checks *after* the write.  A
 * write that has not arrived, and every other step, is sent to each endpoint
 * in turn while there is time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "utils/json.h"

#include "etcd.h"

SF_MODULE_MAGIC("snowflake_etcd");

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

#define DEFAULT_PORT				"2379"
#define DEFAULT_PREFIX				"snowflake"
#define GRPC_FAILED_PRECONDITION	9

typedef enum Step
{
	STEP_TOKEN,
	STEP_LEASE,
	STEP_ASK
} Step;

/*
 * The setting, such as
 *
 *		etcd://host:2379,host2:2379/prefix?credentials=/file&cacert=/file
 *
 * It holds no secret: the password is in a file (uri.c).
 */
typedef struct Url
{
	int			nendpoints;
	char	   *endpoints[SF_URI_HOSTS];	/* "https://host:2379" */
	char	   *prefix;			/* of all keys; no slash at the end */

	/* Paths of files, or NULL. */
	char	   *credentials;	/* two lines: user, password */
	char	   *cacert;			/* authorities that sign the server's
								 * certificate */
	char	   *cert;			/* our certificate, and its key */
	char	   *key;
} Url;

/* From open to close. */
static struct
{
	const SfBackendConfig *settings;
	Url			url;
	int			endpoint;		/* the endpoint in use */
	char	   *token;			/* NULL: none yet; empty: none is needed */

	/* What was last read, or written. */
	char	   *identity;		/* the value with the generation */
	char	   *cluster;		/* of the etcd that was read (SfEtcdReading) */
	uint64		generation;
	int64		floor;
	int64		lease;			/* etcd's lease of lease_owner's presence; or
								 * 0 */
	uint64		lease_owner;
	char		address[SF_ADDRESS_SIZE];	/* our end of a connection */
}			etcd;

/* The request under way, beside sf_request. */
static struct
{
	Step		step;
	int			endpoints_left; /* endpoints not tried yet */
	bool		token_renewed;
	int64		lease_granted;	/* for this request; or 0 */
	SfEtcdReading reading;
}			request;

/* Return true if this step changes the registry. */
static bool
is_write(void)
{
	return sf_harness_is_write() && request.step == STEP_ASK;
}

/* Answer with a failure; if a write was sent, its outcome is unknown. */
static void
conclude_failure(SfFailure failure, bool sent)
{
	sf_harness_conclude_failure(failure, sent && is_write());
}

/* ---- the steps ---- */

/*
 * Send a step.  If there are further endpoints, keep half of the time for
 * them.  The last step of a write may take all of it, once there is a
 * connection.
 */
static void
post(const char *path, const char *body)
{
	int64		left = Max(sf_request.deadline_ms - sf_harness_now_ms(), 1);
	int64		half = request.endpoints_left > 0 ? Max(left / 2, 1) : left;
	char	   *to = psprintf("%s%s", etcd.url.endpoints[etcd.endpoint], path);
	bool		is_known = etcd.token != NULL && etcd.token[0] != '\0';

	/* libcurl only takes it here: go_on() connects and sends */
	sf_http_post(to, is_known ? etcd.token : NULL, body,
				 is_write() ? left : half, half);
}

static void
ask_token(void)
{
	char	   *user;
	char	   *password;
	StringInfoData buf;

	request.step = STEP_TOKEN;
	if (!sf_uri_credentials(etcd.url.credentials, &user, &password,
							sf_request.message, SF_MESSAGE_SIZE))
	{
		conclude_failure(SF_FAILURE_LOGIN, false);
		return;
	}
	initStringInfo(&buf);
	appendStringInfoString(&buf, "{\"name\":");
	escape_json(&buf, user);
	appendStringInfoString(&buf, ",\"password\":");
	escape_json(&buf, password);
	appendStringInfoChar(&buf, '}');
	post("/v3/auth/authenticate", buf.data);
}

/* Ask for a lease of etcd; its TTL is in seconds. */
static void
ask_lease(void)
{
	int64		ttl = (etcd.settings->presence_ms + 999) / 1000;

	request.step = STEP_LEASE;
	post("/v3/lease/grant", psprintf("{\"TTL\":\"" INT64_FORMAT "\"}", ttl));
}

static void
ask_itself(void)
{
	request.step = STEP_ASK;
	if (sf_request.asked.kind == SF_ASK_READ)
		post("/v3/kv/range", sf_etcd_read_request(etcd.url.prefix));
	else if (sf_request.asked.kind == SF_ASK_KEEPALIVE)
		post("/v3/lease/keepalive",
			 psprintf("{\"ID\":\"" INT64_FORMAT "\"}", etcd.lease));
	else
		post("/v3/kv/txn",
			 sf_etcd_write_request(etcd.url.prefix, &sf_request.asked,
								   etcd.identity, etcd.cluster,
								   request.lease_granted, etcd.address));
}

static void
ask_next(void)
{
	if (etcd.url.credentials != NULL && etcd.token == NULL)
		ask_token();
	else if (sf_harness_is_write() && sf_request.asked.presence &&
			 request.lease_granted == 0)
		ask_lease();
	else
		ask_itself();
}

/* ---- answers ---- */

/* Send this step to the next endpoint; false if that is not possible. */
static bool
try_next_endpoint(bool sent)
{
	etcd.endpoint = (etcd.endpoint + 1) % etcd.url.nendpoints;
	if ((sent && is_write()) || request.endpoints_left == 0 ||
		sf_harness_now_ms() >= sf_request.deadline_ms)
		return false;
	request.endpoints_left--;
	ask_next();
	return true;
}

static void
take_reading(SfJson *json)
{
	uint64		owner = sf_request.asked.record.owner;
	SfEtcdReading *reading = &request.reading;
	const char *problem = sf_etcd_read_answer(json, etcd.url.prefix, owner,
											  reading);

	if (problem != NULL)
	{
		strlcpy(sf_request.message, problem, SF_MESSAGE_SIZE);
		conclude_failure(SF_FAILURE_OTHER, true);
		return;
	}
	sf_harness_keep(&etcd.identity, reading->identity);
	sf_harness_keep(&etcd.cluster, reading->cluster);
	etcd.generation = reading->registry.generation;
	etcd.floor = reading->registry.floor;
	if (reading->lease != 0)
	{
		etcd.lease = reading->lease;
		etcd.lease_owner = owner;
	}
	sf_request.answer.registry = &reading->registry;
	if (reading->in_place)
		sf_harness_conclude(SF_RESULT_DONE);
	else
	{
		strlcpy(sf_request.message, "This is not the etcd cluster in which the registry was made or last recovered, or not the prefix. It may be a copy, and may have lost data.",
				SF_MESSAGE_SIZE);
		conclude_failure(SF_FAILURE_LOST, true);
	}
}

static void
take_written(SfJson *json)
{
	/* written: by one of the nested transactions, with this version */
	SfEtcdWritten written = sf_etcd_write_answer(json, etcd.url.prefix,
												 etcd.cluster,
												 &sf_request.answer.version);

	sf_request.answer.registry_version = sf_request.answer.version;
	if (written == SF_ETCD_UNREADABLE || written == SF_ETCD_ELSEWHERE)
	{
		strlcpy(sf_request.message, written == SF_ETCD_UNREADABLE ?
				"The answer to a write is not readable." :
				"This is not the etcd cluster that was read.",
				SF_MESSAGE_SIZE);
		conclude_failure(SF_FAILURE_OTHER, true);
		return;
	}
	if (written == SF_ETCD_WRITTEN && sf_request.asked.presence)
	{
		etcd.lease = request.lease_granted;
		etcd.lease_owner = sf_request.asked.record.owner;
	}
	else if (written == SF_ETCD_WRITTEN &&
			 sf_request.asked.kind == SF_ASK_RELEASE &&
			 (sf_request.asked.record.owner == etcd.lease_owner ||
			  sf_request.asked.displaced == etcd.lease_owner))
		etcd.lease = 0;
	sf_harness_conclude(written == SF_ETCD_WRITTEN ?
						SF_RESULT_DONE : SF_RESULT_CONFLICT);
}

/* Take the answer to a keepalive.  A lease that is gone has no TTL. */
static void
take_keepalive(SfJson *json)
{
	SfJson	   *result = sf_json_part(json, "result");
	int64		ttl;

	if (result == NULL)
	{
		strlcpy(sf_request.message, "The answer to a keepalive is not readable.",
				SF_MESSAGE_SIZE);
		conclude_failure(SF_FAILURE_OTHER, true);
	}
	else if (sf_json_int64(result, "TTL", &ttl) && ttl > 0)
		sf_harness_conclude(SF_RESULT_DONE);
	else
	{
		etcd.lease = 0;
		sf_harness_conclude(SF_RESULT_ABSENT);
	}
}

/* Answer that the user may not log in, and say where its name comes from. */
static void
conclude_login(void)
{
	size_t		len = strlen(sf_request.message);

	if (etcd.url.credentials != NULL)
		snprintf(sf_request.message + len, SF_MESSAGE_SIZE - len,
				 " The user and the password are those in \"%s\".",
				 etcd.url.credentials);
	conclude_failure(SF_FAILURE_LOGIN, false);
}

/* Take an answer with HTTP status 200. */
static void
take_success(const SfHttpAnswer *http)
{
	SfJson	   *json = sf_json_parse(http->body);
	char	   *text;

	if (request.step == STEP_TOKEN)
	{
		text = sf_json_string(json, "token");
		if (text == NULL || strpbrk(text, "\r\n") != NULL)
			elog(ERROR, "there is no token in the answer");
		sf_harness_keep(&etcd.token, text);
		ask_next();
	}
	else if (request.step == STEP_LEASE)
	{
		if (!sf_json_int64(json, "ID", &request.lease_granted) ||
			request.lease_granted == 0)
			elog(ERROR, "there is no lease in the answer");
		ask_next();
	}
	else if (sf_request.asked.kind == SF_ASK_READ)
		take_reading(json);
	else if (sf_request.asked.kind == SF_ASK_KEEPALIVE)
		take_keepalive(json);
	else
		take_written(json);
}

/*
 * Read etcd's error.  It is JSON, unless it is about the name in a
 * certificate.  A proxy's error is neither.
 */
static void
read_error(const SfHttpAnswer *http, int64 *grpc_code)
{
	char	   *volatile text = NULL;
	MemoryContext context = CurrentMemoryContext;
	int			len = strcspn(http->body, "<\r\n");

	PG_TRY();
	{
		SfJson	   *json = sf_json_parse(http->body);

		text = sf_json_string(json, "message");
		if (text == NULL)
			text = sf_json_string(json, "error");
		sf_json_int64(json, "code", grpc_code);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	if (text == NULL)
		text = len > 0 ? pnstrdup(http->body, len) : pstrdup("no answer from etcd");
	if (http->status == 429 && strstr(text, "space") != NULL)
		snprintf(sf_request.message, SF_MESSAGE_SIZE,
				 "The space quota of etcd is used up: compact and defragment it, then disarm its alarm (%s).",
				 text);
	else
		snprintf(sf_request.message, SF_MESSAGE_SIZE, "%s (HTTP status %d, %s).",
				 text, http->status, etcd.url.endpoints[etcd.endpoint]);
}

/*
 * Return the kind of failure. etcd reports a wrong or missing password as a
 * bad request (400), like other mistakes.  Statuses 503 and 504 come from a
 * member without a leader.
 */
static SfFailure
classify(const SfHttpAnswer *http)
{
	switch (http->status)
	{
		case 400:
			return request.step == STEP_TOKEN || strstr(http->body, "auth") != NULL ||
				strstr(http->body, "user name") != NULL ?
				SF_FAILURE_LOGIN : SF_FAILURE_OTHER;
		case 401:
			return SF_FAILURE_LOGIN;
		case 403:
			return SF_FAILURE_PERMISSION;
		case 429:
			return strstr(http->body, "space") != NULL ?
				SF_FAILURE_FULL : SF_FAILURE_OTHER;
		case 503:
			return SF_FAILURE_UNREACHABLE;
		case 504:
			return SF_FAILURE_TIMEOUT;
		default:
			return SF_FAILURE_OTHER;
	}
}

static void
take_error(const SfHttpAnswer *http)
{
	int64		grpc_code = 0;

	read_error(http, &grpc_code);
	if (request.step == STEP_TOKEN && grpc_code == GRPC_FAILED_PRECONDITION)
	{
		/* authentication is not enabled: no token is needed */
		sf_harness_keep(&etcd.token, "");
		ask_next();
	}
	else if ((http->status == 400 || http->status == 401) &&
			 request.step != STEP_TOKEN && etcd.url.credentials != NULL &&
			 !request.token_renewed)
	{
		/* the token has expired, or the users were changed */
		sf_harness_keep(&etcd.token, NULL);
		request.token_renewed = true;
		ask_next();
	}
	else if (classify(http) == SF_FAILURE_LOGIN)
		conclude_login();
	else if (http->status == 400 || http->status == 403 ||
			 http->status == 404)
		conclude_failure(classify(http), false);
	else if (http->status == 429 || !try_next_endpoint(true))
		conclude_failure(classify(http), true);
}

/* Take etcd's answer to a step, or the lack of one.  May throw. */
static void
take_answer(const SfHttpAnswer *http)
{
	if (http->address != NULL)
		strlcpy(etcd.address, http->address, sizeof(etcd.address));
	sf_request.answer.clock_ms = http->date_ms;
	sf_request.answer.clock_step_ms = 1000;
	sf_request.answer.endpoint = etcd.url.nendpoints > 1 ?
		etcd.endpoint + 1 : 0;
	if (http->status == 200)
		take_success(http);
	else if (http->status != 0)
		take_error(http);
	else
	{
		snprintf(sf_request.message, SF_MESSAGE_SIZE, "%s: %s.",
				 etcd.url.endpoints[etcd.endpoint], http->problem);
		/* the answers of the others would be as long */
		if (http->failure == SF_FAILURE_TOO_LONG)
			request.endpoints_left = 0;
		if (!try_next_endpoint(http->sent))
			conclude_failure(http->failure, http->sent);
	}
}

/* ---- the functions of the library ---- */

/* Parse the setting.  The results are in the current memory context. */
static bool
parse_url(Url *url, const char *text, char *reason, size_t reason_size)
{
	static const char *const options[] = {
		"credentials", "cacert", "cert", "key", NULL
	};
	char	   *files[lengthof(options)] = {NULL};
	SfUri		uri;
	bool		is_tls = strncmp(text, "etcds://", 8) == 0;

	memset(url, 0, sizeof(Url));
	if (!is_tls && strncmp(text, "etcd://", 7) != 0)
		return sf_uri_refuse(reason, reason_size,
							 "It does not begin with etcd:// or etcds://.");
	if (!sf_uri_parse(&uri, text, DEFAULT_PORT, "an etcd", reason,
					  reason_size))
		return false;
	if (uri.user != NULL)
		return sf_uri_refuse(reason, reason_size,
							 "A setting must not hold the user and the password. Put them into a file, and name the file: ?credentials=/path.");
	if (!sf_uri_options(uri.options, options, files,
						"The options are credentials, cacert, cert and key.",
						reason, reason_size))
		return false;
	url->credentials = files[0];
	url->cacert = files[1];
	url->cert = files[2];
	url->key = files[3];
	if ((url->cert == NULL) != (url->key == NULL))
		return sf_uri_refuse(reason, reason_size,
							 "The options \"cert\" and \"key\" go together.");
	is_tls = is_tls || url->cacert != NULL || url->cert != NULL;
	url->prefix = uri.path != NULL ? uri.path : pstrdup(DEFAULT_PREFIX);
	for (int i = 0; i < uri.nhosts; i++)
		url->endpoints[i] = psprintf("%s://%s", is_tls ? "https" : "http",
									 uri.hosts[i]);
	url->nendpoints = uri.nhosts;
	return true;
}

static bool
open_etcd(const char *text, const SfBackendConfig *config, char *reason,
		  size_t reason_size)
{
	Url			url;

	if (!parse_url(&url, text, reason, reason_size))
		return false;
	if (!sf_http_open(url.cacert, url.cert, url.key, config->slots))
		return sf_uri_refuse(reason, reason_size,
							 "libcurl could not be set up.");
	memset(&etcd, 0, sizeof(etcd));
	etcd.url = url;
	etcd.settings = config;
	return true;
}

static void
begin_request(void)
{
	const SfAsk *ask = &sf_request.asked;

	sf_http_cancel();
	sf_request.asked.new_floor = Max(ask->new_floor, etcd.floor);
	request.step = STEP_ASK;
	if (ask->avoid == etcd.endpoint + 1)
		etcd.endpoint = (etcd.endpoint + 1) % etcd.url.nendpoints;
	request.endpoints_left = etcd.url.nendpoints - 1;
	request.token_renewed = false;
	request.lease_granted = 0;

	/* a write must be based on a generation that was read */
	if (sf_harness_is_write() &&
		(etcd.cluster == NULL ||
		 (ask->kind != SF_ASK_INITIALIZE &&
		  (etcd.identity == NULL || etcd.generation != ask->generation))))
		sf_harness_conclude(SF_RESULT_CONFLICT);
	else if (ask->kind == SF_ASK_KEEPALIVE &&
			 (etcd.lease == 0 || etcd.lease_owner != ask->record.owner))
		sf_harness_conclude(SF_RESULT_ABSENT);
	else
		ask_next();
}

static void
go_on(void)
{
	SfHttpAnswer http;

	while (sf_http_receive(&http))
		take_answer(&http);
}

static void
fail_request(const char *problem)
{
	sf_http_cancel();
	snprintf(sf_request.message, SF_MESSAGE_SIZE, "%s: not understood: %s.",
			 etcd.url.endpoints[etcd.endpoint], problem);
	conclude_failure(SF_FAILURE_OTHER, true);
}

/* Print what etcdctl reads of the environment; the user may be NULL. */
static char *
print_export(const char *user)
{
	const Url  *url = &etcd.url;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "export ETCDCTL_ENDPOINTS=%s",
					 sf_uri_hosts(url->endpoints, url->nendpoints));
	if (url->cacert != NULL)
		appendStringInfo(&buf, " ETCDCTL_CACERT='%s'", url->cacert);
	if (url->cert != NULL)
		appendStringInfo(&buf, " ETCDCTL_CERT='%s' ETCDCTL_KEY='%s'",
						 url->cert, url->key);
	if (url->credentials != NULL && user != NULL)
		appendStringInfo(&buf, " ETCDCTL_USER=%s", user);
	appendStringInfoChar(&buf, ';');
	return buf.data;
}

static char *
print_part(const char *part)
{
	const Url  *url = &etcd.url;

	if (strcmp(part, "export") == 0)
		return print_export(sf_uri_user(url->credentials));
	if (strcmp(part, "root") == 0)
		return print_export("root");
	if (strcmp(part, "address") == 0)
		return strstr(url->endpoints[etcd.endpoint], "://") + 3;
	if (strcmp(part, "prefix") == 0)
		return sf_harness_quote(url->prefix, '\'');
	return strcmp(part, "user") == 0 ? sf_uri_user(url->credentials) :
		url->credentials;
}

const SfBackend *
snowflake_backend(void)
{
	static const SfKind kind = {
		.name = "snowflake etcd",
		.open = open_etcd,
		.begin = begin_request,
		.go_on = go_on,
		.fail = fail_request,
		.sockets = sf_http_sockets,
		.part = print_part,
		.close = sf_http_close
	};

	return sf_harness_backend(&kind);
}
