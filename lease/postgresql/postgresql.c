/*-------------------------------------------------------------------------
 *
 * postgresql.c
 *	  Registry of node ids in a database with this extension: the functions of
 *	  lease/backend.h, with asynchronous libpq.
 *
 * Each request is one statement and one transaction: it calls a function of
 * the extension snowflake_registry.  A uint64 here is a bigint there, with the
 * same bits.  Abandoning a request closes its connection.
 *
 * Nothing here blocks.  libpq does while it connects: it waits for the
 * resolver, and a registry chooses how often libpq hashes the password, up to
 * 2^31 times.  So a thread connects.  It runs functions of libpq alone, and
 * handles no signals.  It cannot be stopped inside libpq.  So there is at most
 * one, the next connection waits for its end, and a process that ends does
 * not.
 *
 * libpq says in words alone what kept it from connecting, in the language of
 * lc_messages.  So the thread has the locale C: classify_line() reads English.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#include "common.h"
#include "postgresql.sql.inc"

SF_MODULE_MAGIC("snowflake_postgresql");

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

typedef enum Stage
{
	STAGE_NONE,					/* not connected */
	STAGE_WAITING,				/* for the end of a thread to connect anew */
	STAGE_CONNECTING,
	STAGE_READY,
	STAGE_ASKING
} Stage;

/*
 * A connection attempt tries one host after the other, which may take longer
 * than a request.  It goes on while at most this many requests are given up.
 */
#define MAX_OUTLIVED	3

#define CONNECT_LOOK_MS	10		/* how often to look for the thread's end */
#define ABANDON_LOOK_MS	50		/* how often it looks whether to go on */

/*
 * The thread that connects.  Its state is changed by compare-and-swap: the
 * thread leaves the connection to us, unless we have abandoned it.
 */
typedef enum ThreadState
{
	THREAD_NONE,
	THREAD_CONNECTS,
	THREAD_ABANDONED,
	THREAD_ENDS					/* has the connection, or none */
} ThreadState;

static struct
{
	pthread_t	id;
	pg_atomic_uint32 state;
	locale_t	c_locale;		/* 0: could not be made */
	char	   *url;
	char		timeout[24];
	PGconn	   *conn;			/* NULL: out of memory */
}			thread;

static struct
{
	const char *url;
	const SfBackendConfig *config;

	PGconn	   *conn;
	Stage		stage;
	bool		wants_write;	/* wait until the socket is writable, too */
	int			outlived;		/* requests given up during this connection
								 * attempt */
	PGresult   *result;			/* last result of this statement */
}			pg;

/* ---- the thread that connects ---- */

/*
 * Ignore a notice of the registry, for example that it stops.  libpq would
 * write it to this server's log, where it would look like a line about this
 * server.
 */
static void
ignore_notice(void *arg, const PGresult *result)
{
}

/* Return true, once, if this was its state. */
static bool
change_thread(uint32 from, uint32 to)
{
	return pg_atomic_compare_exchange_u32(&thread.state, &from, to);
}

/* Connect, in the thread, until that succeeds, fails or is abandoned. */
static void *
run_thread(void *unused)
{
	/*
	 * tcp_user_timeout makes libpq give up a dead host; the URI can override
	 * it
	 */
	static const char *const keywords[] = {
		"tcp_user_timeout", "dbname", "fallback_application_name",
		"client_encoding", NULL
	};
	const char *values[] = {
		thread.timeout, thread.url, "snowflake lease",
		"SQL_ASCII", NULL
	};
	PGconn	   *conn;
	PostgresPollingStatusType wants = PGRES_POLLING_WRITING;

	if (thread.c_locale != (locale_t) 0)
		(void) uselocale(thread.c_locale);
	conn = PQconnectStartParams(keywords, values, 1);
	if (conn != NULL)
	{
		PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);	/* with SQLSTATEs */
		PQsetNoticeReceiver(conn, ignore_notice, NULL);
	}
	while (conn != NULL && PQstatus(conn) != CONNECTION_BAD &&
		   wants != PGRES_POLLING_OK && wants != PGRES_POLLING_FAILED &&
		   pg_atomic_read_u32(&thread.state) == THREAD_CONNECTS)
	{
		struct pollfd socket = {
			.fd = PQsocket(conn),
			.events = wants == PGRES_POLLING_WRITING ? POLLOUT : POLLIN
		};

		if (socket.fd < 0 || poll(&socket, 1, ABANDON_LOOK_MS) != 0)
			wants = PQconnectPoll(conn);
	}
	thread.conn = conn;
	if (change_thread(THREAD_CONNECTS, THREAD_ENDS))
		return NULL;
	PQfinish(conn);
	thread.conn = NULL;
	pg_atomic_write_u32(&thread.state, THREAD_ENDS);
	return NULL;
}

/* Return true if there is no thread, or no longer. */
static bool
thread_is_over(void)
{
	if (pg_atomic_read_u32(&thread.state) == THREAD_NONE)
		return true;
	if (pg_atomic_read_u32(&thread.state) != THREAD_ENDS)
		return false;
	pthread_join(thread.id, NULL);
	free(thread.url);
	pg_atomic_write_u32(&thread.state, THREAD_NONE);
	return true;
}

/* Let a thread that connects end by itself, with its connection. */
static void
abandon_thread(void)
{
	if (change_thread(THREAD_CONNECTS, THREAD_ABANDONED))
		return;
	(void) thread_is_over();
	pg.conn = thread.conn;
}

/*
 * End the process at once if a thread is left.  What exit() would call could
 * free what the thread uses.  Shared memory has been left before.
 */
static void
leave_thread(int code, Datum arg)
{
	if (!thread_is_over())
		_exit(code);
}

static bool
start_thread(void)
{
	sigset_t	all;
	sigset_t	before;
	bool		started;

	if (thread.c_locale == (locale_t) 0)
		thread.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
	thread.conn = NULL;
	thread.url = strdup(pg.url);
	snprintf(thread.timeout, sizeof(thread.timeout), "%lld",
			 (long long) pg.config->timeout_ms);
	pg_atomic_write_u32(&thread.state, THREAD_CONNECTS);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = thread.url != NULL &&
		pthread_create(&thread.id, NULL, run_thread, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started)
	{
		free(thread.url);
		pg_atomic_write_u32(&thread.state, THREAD_NONE);
	}
	return started;
}

/* Columns of snowflake_servers.read(). */
enum
{
	READ_CLOCK, READ_IN_PLACE, READ_GENERATION, READ_FLOOR, READ_LAYOUT,
	READ_NODE, READ_VERSION, READ_EPOCH, READ_OWNER, READ_SERVER,
	READ_WRITE_ID, READ_UNTIL, READ_OFFSET, READ_RELEASED, READ_HOST,
	READ_PROCESS, READ_SINCE, READ_ADDRESS, READ_PRESENT, READ_RESERVE,
	READ_FORMER, READ_COLUMNS
};

/* Columns of the other functions; of keep(), the first is a boolean. */
enum
{
	WRITE_VERSION, WRITE_CLOCK, WRITE_COLUMNS
};

#define MAX_PARAMS	16

/*
 * Arguments with their types.  With exact types, no other function fits better
 * than the one that is meant.  So a user that may create functions in the
 * extension's schema cannot put one in its place.
 */
typedef struct Params
{
	int			n;
	Oid			types[MAX_PARAMS];
	const char *values[MAX_PARAMS];
	char		numbers[MAX_PARAMS][24];
} Params;

/* What was read last. */
static SfRegistry registry;
static SfSlotRecord *records;

/* ---- failures ---- */

static void
disconnect(void)
{
	if (pg.result != NULL)
		PQclear(pg.result);
	pg.result = NULL;
	if (pg.stage == STAGE_CONNECTING)
		abandon_thread();
	if (pg.conn != NULL)
		PQfinish(pg.conn);
	pg.conn = NULL;
	if (pg.stage > STAGE_WAITING)
		ReleaseExternalFD();
	pg.stage = STAGE_NONE;
}

/*
 * Let the request, if there is one, fail with the first line of a message of
 * libpq or the registry.  Disconnect if the connection is no longer usable.
 */
static void
pg_fail(SfResult result, SfFailure failure, const char *message, bool drop)
{
	if (sf_request.is_under_way)
	{
		snprintf(sf_request.message, SF_MESSAGE_SIZE, "%.*s",
				 (int) strcspn(message, "\n"), message);
		if (sf_request.message[0] == '\0')
			strlcpy(sf_request.message, "The connection is lost.",
					SF_MESSAGE_SIZE);
		sf_harness_conclude_failure(failure, result == SF_RESULT_UNKNOWN);
	}
	if (drop)
		disconnect();
}

/* ---- requests as statements ---- */

static void
add(Params *params, Oid type, const char *text)
{
	params->types[params->n] = type;
	params->values[params->n++] = text;
}

static void
add_integer(Params *params, Oid type, int64 number)
{
	char	   *text = params->numbers[params->n];

	snprintf(text, sizeof(params->numbers[0]), "%lld", (long long) number);
	add(params, type, text);
}

static void
add_number(Params *params, int64 number)
{
	add_integer(params, INT8OID, number);
}

static void
add_text(Params *params, const char *text)
{
	add(params, TEXTOID, text);
}

static void
add_write(Params *params, const SfAsk *ask, const SfBackendConfig *config)
{
	const SfSlotRecord *record = &ask->record;
	int64		ttl_ms = 0;

	if (ask->kind == SF_ASK_RELEASE)
		ttl_ms = -1;
	else if (ask->presence)
		ttl_ms = config->presence_ms;
	add_number(params, (int64) ask->generation);
	add_number(params, record->node);
	add_number(params, ask->version);
	add_number(params, record->epoch);
	add_number(params, (int64) record->owner);
	add_number(params, (int64) record->server);
	add_number(params, (int64) record->write_id);
	add_number(params, record->until);
	add_number(params, record->offset_ms);
	add(params, BOOLOID, record->released ? "t" : "f");
	add_text(params, record->host);
	add_integer(params, INT4OID, record->process);
	add_number(params, record->since_ms);
	add_number(params, (int64) ask->displaced);
	add_number(params, ttl_ms);
	add_number(params, record->reserve_ms);
}

/* Return the function to call, and add its arguments. */
static const char *
choose(Params *params, const SfAsk *ask, const SfBackendConfig *config)
{
	switch (ask->kind)
	{
		case SF_ASK_READ:
			return "read";
		case SF_ASK_KEEPALIVE:
			add_number(params, ask->record.node);
			add_number(params, (int64) ask->record.owner);
			add_number(params, config->presence_ms);
			return "keep";
		case SF_ASK_INITIALIZE:
			add_number(params, (int64) ask->new_generation);
			add_text(params, ask->new_former);
			add_number(params, ask->new_floor);
			add_text(params, ask->new_layout_text);
			add_number(params, ask->new_layout->epoch_ms);
			add_integer(params, INT4OID, ask->new_layout->tick_ms);
			return "begin";
		case SF_ASK_RECOVER:
			add_number(params, (int64) ask->generation);
			add_number(params, (int64) ask->new_generation);
			add_text(params, ask->new_former);
			add_number(params, ask->new_floor);
			return "renew";
		default:
			add_write(params, ask, config);
			return "write";
	}
}

/*
 * Set what this request needs, for its transaction only: a pooler may give
 * each transaction another session.  With synchronous_commit off, an
 * acknowledged write could be lost.  lock_timeout ends a wait for a lock when
 * the answer is no longer wanted.  With jit on, compiling a statement would
 * take longer than running it.
 */
static bool
send_settings(PGconn *conn, const SfBackendConfig *config)
{
	Params		params = {0};

	add_number(&params, config->timeout_ms);
	return PQsendQueryParams(conn,
							 SQL_SETTINGS,
							 params.n, params.types, params.values, NULL,
							 NULL, 0);
}

/*
 * Send the settings and the call at once, in one transaction, which ends with
 * the pipeline.  Return false like libpq's functions.
 */
static bool
send_statement(PGconn *conn, const SfAsk *ask, const SfBackendConfig *config)
{
	Params		params = {0};
	const char *function = choose(&params, ask, config);
	char		query[200];
	int			len;

	len = snprintf(query, sizeof(query), "SELECT * FROM snowflake_servers.%s(",
				   function);
	for (int i = 1; i <= params.n; i++)
		len += snprintf(query + len, sizeof(query) - len, "%s$%d",
						i > 1 ? ", " : "", i);
	snprintf(query + len, sizeof(query) - len, ")");
	return PQenterPipelineMode(conn) && send_settings(conn, config) &&
		PQsendQueryParams(conn, query, params.n, params.types,
						  params.values, NULL, NULL, 0) &&
		PQpipelineSync(conn);
}

/* ---- results as answers ---- */

/* Return an integer; NULL is 0. */
static int64
get_int(const PGresult *result, int row, int column)
{
	return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static bool
get_bool(const PGresult *result, int row, int column)
{
	return PQgetvalue(result, row, column)[0] == 't';
}

static bool
get_record(SfSlotRecord *record, const PGresult *result, int row)
{
	memset(record, 0, sizeof(SfSlotRecord));
	if (PQgetisnull(result, row, READ_NODE))
		return false;
	record->node = (uint32) get_int(result, row, READ_NODE);
	record->version = get_int(result, row, READ_VERSION);
	record->epoch = get_int(result, row, READ_EPOCH);
	record->owner = (uint64) get_int(result, row, READ_OWNER);
	record->server = (uint64) get_int(result, row, READ_SERVER);
	record->write_id = (uint64) get_int(result, row, READ_WRITE_ID);
	record->until = get_int(result, row, READ_UNTIL);
	record->offset_ms = get_int(result, row, READ_OFFSET);
	record->released = get_bool(result, row, READ_RELEASED);
	strlcpy(record->host, PQgetvalue(result, row, READ_HOST),
			sizeof(record->host));
	record->process = (int32) get_int(result, row, READ_PROCESS);
	record->since_ms = get_int(result, row, READ_SINCE);
	strlcpy(record->address, PQgetvalue(result, row, READ_ADDRESS),
			sizeof(record->address));
	record->present = (uint64) get_int(result, row, READ_PRESENT);
	record->reserve_ms = get_int(result, row, READ_RESERVE);
	return true;
}

static void
take_read(const PGresult *result)
{
	int			n = PQntuples(result);

	free(records);
	records = calloc(n, sizeof(SfSlotRecord));
	if (records == NULL)
	{
		pg_fail(SF_RESULT_UNKNOWN, SF_FAILURE_OTHER,
				"This server is out of memory.", false);
		return;
	}
	memset(&registry, 0, sizeof(SfRegistry));
	registry.initialized = !PQgetisnull(result, 0, READ_GENERATION);
	registry.generation = (uint64) get_int(result, 0, READ_GENERATION);
	strlcpy(registry.former, PQgetvalue(result, 0, READ_FORMER),
			sizeof(registry.former));
	registry.floor = get_int(result, 0, READ_FLOOR);
	strlcpy(registry.layout, PQgetvalue(result, 0, READ_LAYOUT),
			sizeof(registry.layout));
	registry.records = records;
	while (registry.nrecords < n &&
		   get_record(&records[registry.nrecords], result, registry.nrecords))
	{
		const SfSlotRecord *record = &records[registry.nrecords++];

		if (record->version > registry.version)
		{
			registry.version = record->version;
			registry.newest = record->node;
		}
	}
	sf_request.answer.registry = &registry;
	if (registry.initialized && !get_bool(result, 0, READ_IN_PLACE))
		pg_fail(SF_RESULT_REFUSED, SF_FAILURE_LOST,
				"The registry runs on another server or timeline than before, or in another directory or database, and may have lost data.",
				false);
	else
		sf_harness_conclude(SF_RESULT_DONE);
}

/* Turn the statement's result into the answer. */
static void
take_result(const PGresult *result)
{
	SfAskKind	kind = sf_request.asked.kind;
	SfAnswer   *answer = &sf_request.answer;

	if (PQntuples(result) < 1 || PQnfields(result) !=
		(kind == SF_ASK_READ ? READ_COLUMNS : WRITE_COLUMNS))
	{
		pg_fail(SF_RESULT_UNKNOWN, SF_FAILURE_EXTENSION,
				"The extension \"snowflake_registry\" there is not of the version that this server needs.",
				false);
		return;
	}
	answer->clock_step_ms = 1;
	answer->clock_ms = get_int(result, 0, kind == SF_ASK_READ ?
							   READ_CLOCK : WRITE_CLOCK);
	if (kind == SF_ASK_READ)
		take_read(result);
	else if (kind == SF_ASK_KEEPALIVE)
		sf_harness_conclude(get_bool(result, 0, 0) ?
							SF_RESULT_DONE : SF_RESULT_ABSENT);
	else
	{
		answer->version = answer->registry_version =
			get_int(result, 0, WRITE_VERSION);
		sf_harness_conclude(PQgetisnull(result, 0, WRITE_VERSION) ?
							SF_RESULT_CONFLICT : SF_RESULT_DONE);
	}
}

/* ---- the connection ---- */

/* Return the kind of failure for an SQLSTATE. */
static SfFailure
classify(const char *sqlstate)
{
	static const struct
	{
		const char *begins;
		SfFailure	failure;
	}			kinds[] = {
		{"28", SF_FAILURE_LOGIN},	/* invalid authorization specification */
		{"3D000", SF_FAILURE_DATABASE},
		{"42501", SF_FAILURE_PERMISSION},
		{"25006", SF_FAILURE_READ_ONLY},
		{"55000", SF_FAILURE_STANDBY},	/* recovery is in progress */
		{"53100", SF_FAILURE_FULL}, /* disk full */
		{"55P03", SF_FAILURE_TIMEOUT},	/* lock_timeout */
		{"42883", SF_FAILURE_EXTENSION},	/* undefined function */
		{"42P01", SF_FAILURE_EXTENSION},	/* undefined table */
		{"3F000", SF_FAILURE_EXTENSION},	/* undefined schema */
		{"57P", SF_FAILURE_UNREACHABLE},	/* shutting down, or not accepting
											 * connections yet */
	};

	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		if (strncmp(sqlstate, kinds[i].begins, strlen(kinds[i].begins)) == 0)
			return kinds[i].failure;
	}
	return SF_FAILURE_OTHER;
}

/*
 * Return the SQLSTATE in a line, and remove it from the line; or return NULL.
 * When the registry refuses a connection, libpq has the SQLSTATE only in its
 * text.  It stands after the severity, in any language: "FATAL:  28000: ...".
 */
static const char *
take_sqlstate(char *line)
{
	static char sqlstate[6];

	for (char *p = strstr(line, ":  "); p != NULL; p = strstr(p + 1, ":  "))
	{
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
			strncmp(p + 8, ": ", 2) != 0)
			continue;
		strlcpy(sqlstate, p + 3, sizeof(sqlstate));
		memmove(p + 3, p + 10, strlen(p + 10) + 1);
		return sqlstate;
	}
	return NULL;
}

/*
 * Return the kind of failure for one line of libpq's message.  Failures that
 * libpq finds itself have no SQLSTATE.  OpenSSL's messages always contain
 * certain words.
 */
static SfFailure
classify_line(char *line)
{
	const char *sqlstate = take_sqlstate(line);

	/* of a database that lets nobody in: no statement was refused yet */
	if (sqlstate != NULL && strcmp(sqlstate, "55000") == 0)
		return SF_FAILURE_OTHER;
	if (sqlstate != NULL)
		return classify(sqlstate);
	if (strstr(line, "certificate") != NULL || strstr(line, " alert ") != NULL)
		return SF_FAILURE_CERTIFICATE;
	if (strstr(line, "session is read-only") != NULL)
		return SF_FAILURE_READ_ONLY;
	if (strstr(line, "hot standby mode") != NULL)
		return SF_FAILURE_STANDBY;
	return SF_FAILURE_UNREACHABLE;
}

/*
 * Let the connection attempt fail.  No statement was sent yet.  With several
 * hosts, libpq's message has a line for each: prefer a host that answered.
 */
static void
fail_to_connect(void)
{
	char		text[2048];
	char	   *line = text;
	char	   *message = text;
	SfFailure	failure = SF_FAILURE_UNREACHABLE;

	strlcpy(text, PQerrorMessage(pg.conn), sizeof(text));
	while (line != NULL && failure == SF_FAILURE_UNREACHABLE)
	{
		char	   *end = strchr(line, '\n');

		if (end != NULL)
			*end++ = '\0';
		failure = classify_line(line);
		if (failure != SF_FAILURE_UNREACHABLE)
			message = line;
		line = end;
	}
	if (failure == SF_FAILURE_UNREACHABLE &&
		PQconnectionNeedsPassword(pg.conn))
		failure = SF_FAILURE_LOGIN;
	pg_fail(SF_RESULT_REFUSED, failure, message, true);
}

/* Connect in a thread, as soon as no other one is left. */
static void
connect_to_registry(void)
{
	pg.stage = STAGE_WAITING;
	if (!thread_is_over())
		return;
	if (!AcquireExternalFD())
	{
		pg_fail(SF_RESULT_REFUSED, SF_FAILURE_OTHER,
				"This server has too many open files.", true);
		return;
	}
	pg.stage = STAGE_CONNECTING;
	pg.outlived = 0;
	if (!start_thread())
		pg_fail(SF_RESULT_REFUSED, SF_FAILURE_OTHER,
				"This server cannot start a thread.", true);
}

/* Send the request over a connection that is ready. */
static void
send_request(void)
{
	pg.stage = STAGE_ASKING;
	if (!send_statement(pg.conn, &sf_request.asked, pg.config))
		pg_fail(SF_RESULT_UNKNOWN, SF_FAILURE_UNREACHABLE,
				PQerrorMessage(pg.conn), true);
}

/* Take the connection that the thread has made, or its failure. */
static void
take_connection(void)
{
	if (!thread_is_over())
		return;
	pg.conn = thread.conn;
	if (pg.conn == NULL)
		pg_fail(SF_RESULT_REFUSED, SF_FAILURE_OTHER,
				"This server is out of memory.", true);
	else if (PQstatus(pg.conn) != CONNECTION_OK ||
			 PQsetnonblocking(pg.conn, 1) != 0)
		fail_to_connect();
	else
	{
		pg.stage = STAGE_READY;
		if (sf_request.is_under_way)
			send_request();
	}
}

/*
 * Handle a failed statement.  After an ERROR, nothing was done.  If the
 * session ended, the statement may have been committed before.
 */
static void
take_failure(void)
{
	const char *severity = PQresultErrorField(pg.result,
											  PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *sqlstate = PQresultErrorField(pg.result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(pg.result, PG_DIAG_MESSAGE_PRIMARY);
	bool		undone = severity != NULL && strcmp(severity, "ERROR") == 0;
	SfFailure	failure = sqlstate != NULL ? classify(sqlstate) :
		SF_FAILURE_UNREACHABLE;
	char		message[SF_REASON_SIZE];

	strlcpy(message, text != NULL ? text : PQresultErrorMessage(pg.result),
			sizeof(message));
	/* a session that is read-only may stay so when its role's is not */
	pg_fail(undone ? SF_RESULT_REFUSED : SF_RESULT_UNKNOWN, failure, message,
			!undone || failure == SF_FAILURE_READ_ONLY);
}

/*
 * Keep a result: the error if there is one, otherwise the last.  In a
 * pipeline, the results behind an error only say that nothing was done.
 */
static void
keep_result(PGresult *next)
{
	if (PQresultStatus(next) == PGRES_PIPELINE_ABORTED ||
		PQresultStatus(next) == PGRES_PIPELINE_SYNC)
	{
		PQclear(next);
		return;
	}
	if (pg.result != NULL)
		PQclear(pg.result);
	pg.result = next;
}

static bool
is_copy(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT ||
		status == PGRES_COPY_BOTH;
}

/*
 * Read what has come.  Return true if the statement is complete.  A request is
 * complete at the end of its pipeline, because it is committed there.
 */
static bool
read_result(void)
{
	PGresult   *next;
	bool		was_null = false;
	bool		ended;
	int			left = PQflush(pg.conn);

	pg.wants_write = left > 0;
	if (left < 0 || !PQconsumeInput(pg.conn))
	{
		/* the registry may have said why it ended the session */
		if (pg.result != NULL && PQresultStatus(pg.result) != PGRES_TUPLES_OK)
			return true;
		pg_fail(pg.stage == STAGE_ASKING ?
				SF_RESULT_UNKNOWN : SF_RESULT_REFUSED,
				SF_FAILURE_UNREACHABLE, PQerrorMessage(pg.conn), true);
		return false;
	}
	while (!PQisBusy(pg.conn))
	{
		next = PQgetResult(pg.conn);

		/* NULL comes behind each statement, and twice at the end */
		if (next == NULL && (pg.stage != STAGE_ASKING || was_null))
			return pg.result != NULL;
		was_null = next == NULL;
		if (was_null)
			continue;
		/* a COPY that nobody asked for: libpq would give this without end */
		if (is_copy(next))
		{
			PQclear(next);
			pg_fail(pg.stage == STAGE_ASKING ?
					SF_RESULT_UNKNOWN : SF_RESULT_REFUSED, SF_FAILURE_OTHER,
					"The answer is not one to the statement.", true);
			return false;
		}
		ended = PQresultStatus(next) == PGRES_PIPELINE_SYNC;
		keep_result(next);
		if (ended)
			return pg.result != NULL;
	}
	return false;
}

/* ---- what the worker calls ---- */

/*
 * Return true if a password seems to end too early.  Then libpq would take the
 * rest for a host or a database, and name it in errors.  User and password end
 * at the first "@", unless there is a "/" before it.
 */
static bool
has_stray_at(const char *url)
{
	const char *text = strstr(url, "://") + 3;
	const char *end = text + strcspn(text, "@/");

	if (*end == '@')
		text = end + 1;
	return memchr(text, '@', strcspn(text, "?")) != NULL;
}

static bool
open_postgresql(const char *url, const SfBackendConfig *config, char *reason,
				size_t reason_size)
{
	static bool leaves_thread = false;
	char	   *error = NULL;
	PQconninfoOption *options = PQconninfoParse(url, &error);

	/* libpq's message may hold part of a password */
	if (error != NULL)
		PQfreemem(error);
	if (options == NULL)
	{
		snprintf(reason, reason_size,
				 "It is not a URI that libpq can read, such as postgresql://user@host:port/database.");
		return false;
	}
	PQconninfoFree(options);
	if (has_stray_at(url))
	{
		snprintf(reason, reason_size,
				 "In a user, a password and a database \"@\" is written as %%40, and \"/\" as %%2F.");
		return false;
	}
	pg.url = url;
	pg.config = config;
	if (!leaves_thread)
	{
		pg_atomic_init_u32(&thread.state, THREAD_NONE);
		on_proc_exit(leave_thread, (Datum) 0);
	}
	leaves_thread = true;
	return true;
}

static void
begin_request(void)
{
	if (pg.stage == STAGE_ASKING || /* abandon the request under way */
		(pg.stage == STAGE_CONNECTING && ++pg.outlived > MAX_OUTLIVED))
		disconnect();
	if (pg.stage == STAGE_READY)
		send_request();
	else if (pg.stage == STAGE_NONE)
		connect_to_registry();
}

static void
go_on(void)
{
	bool		ended = false;

	if (pg.stage == STAGE_WAITING)
		connect_to_registry();
	else if (pg.stage == STAGE_CONNECTING)
		take_connection();
	else if (pg.stage != STAGE_NONE)
		ended = read_result();
	if (!ended)
		return;
	if (PQresultStatus(pg.result) != PGRES_TUPLES_OK)
		take_failure();
	else if (pg.stage == STAGE_ASKING)
		take_result(pg.result);
	if (pg.result != NULL)
		PQclear(pg.result);
	pg.result = NULL;
	if (pg.stage == STAGE_ASKING)
		pg.stage = STAGE_READY;
}

static void
fail_request(const char *problem)
{
	pg_fail(SF_RESULT_UNKNOWN, SF_FAILURE_OTHER, problem, true);
}

static int
get_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	int			fd = pg.conn == NULL ? -1 : PQsocket(pg.conn);

	if (pg.stage == STAGE_WAITING || pg.stage == STAGE_CONNECTING)
		*timeout_ms = CONNECT_LOOK_MS;
	if (fd < 0)
		return 0;
	sockets[0].fd = fd;
	sockets[0].writeable = pg.wants_write;
	sockets[0].readable = true;
	return 1;
}

/* Return a copy of an option's value; NULL if it has none. */
static char *
find_value(const PQconninfoOption *options, const char *keyword)
{
	while (options->keyword != NULL && strcmp(options->keyword, keyword) != 0)
		options++;
	return options->keyword == NULL || options->val == NULL ||
		options->val[0] == '\0' ? NULL : pstrdup(options->val);
}

/* Do the same, but for libpq's default.  What a service says is not known. */
static char *
get_value(const PQconninfoOption *options, const char *keyword)
{
	char	   *value = find_value(options, keyword);
	PQconninfoOption *defaults;

	if (value != NULL || find_value(options, "service") != NULL)
		return value;
	defaults = PQconndefaults();
	if (defaults == NULL)
		return NULL;
	value = find_value(defaults, keyword);
	PQconninfoFree(defaults);
	return value;
}

/* Return the first host and its port, for openssl; or NULL. */
static char *
print_address(const PQconninfoOption *options)
{
	char	   *host = find_value(options, "host");
	char	   *port = find_value(options, "port");

	if (host == NULL)
		return NULL;
	if (port == NULL || port[0] == ',')
		port = pstrdup("5432");
	host[strcspn(host, ",")] = '\0';
	port[strcspn(port, ",")] = '\0';
	return sf_harness_quote(psprintf(strchr(host, ':') != NULL ?
									 "[%s]:%s" : "%s:%s", host, port), '\'');
}

/*
 * Return true for a keyword whose value is no secret.  One that the setting
 * encodes is not printed, either.
 */
static bool
is_public(const char *text, size_t length)
{
	static const char *const keywords[] = {
		"host", "hostaddr", "port", "user", "dbname", "sslmode",
		"sslrootcert", "sslcert", "sslkey", "target_session_attrs"
	};

	for (size_t i = 0; i < lengthof(keywords); i++)
	{
		if (strlen(keywords[i]) == length &&
			strncmp(keywords[i], text, length) == 0)
			return true;
	}
	return false;
}

/* Return the URL without its secrets. */
static char *
print_url(void)
{
	StringInfoData buf;
	char	   *url = pstrdup(pg.url);
	char	   *user = strstr(url, "://") + 3;
	char	   *colon = user + strcspn(user, ":@/");
	char	   *at = colon + strcspn(colon, "@/");
	char	   *option;
	char		separator = '?';

	if (*at == '@')
		memmove(colon, at, strlen(at) + 1);
	initStringInfo(&buf);
	option = url + strcspn(url, "?");
	appendBinaryStringInfo(&buf, url, (int) (option - url));
	while (*option != '\0')
	{
		int			length = (int) strcspn(++option, "&");

		if (is_public(option, strcspn(option, "=&")))
		{
			appendStringInfo(&buf, "%c%.*s", separator, length, option);
			separator = '&';
		}
		option += length;
	}
	return sf_harness_quote(buf.data, '\'');
}

/* Say where this server takes its password from. */
static char *
find_keeper(const PQconninfoOption *options)
{
	char	   *file = get_value(options, "passfile");

	if (find_value(options, "password") != NULL)
		return pstrdup("snowflake.registry, and restart");
	if (get_value(options, "service") != NULL)
		return pstrdup("the entry of its service");
	if (get_value(options, "password") != NULL)
		return pstrdup("PGPASSWORD of this server's environment, and restart");
	return file != NULL ? file :
		pstrdup("~/.pgpass of this server's account");
}

static char *
print_part(const char *part)
{
	PQconninfoOption *options = PQconninfoParse(pg.url, NULL);
	char	   *name;
	char	   *text = NULL;

	if (options == NULL)
		return NULL;
	name = get_value(options, "user");
	if (strcmp(part, "database") == 0 && get_value(options, "dbname") != NULL)
		name = get_value(options, "dbname");
	if (strcmp(part, "psql") == 0)
		text = psprintf("psql %s", print_url());
	else if (strcmp(part, "address") == 0)
		text = print_address(options);
	else if (strcmp(part, "keeper") == 0)
		text = find_keeper(options);
	else if (name != NULL)
		text = sf_harness_quote(name, '"');
	if (text != NULL && strcmp(part, "regrole") == 0)
		text = sf_harness_quote(text, '\'');
	PQconninfoFree(options);
	return text;
}

const SfBackend *
snowflake_backend(void)
{
	static const SfKind kind = {
		.name = "snowflake postgresql",
		.open = open_postgresql,
		.begin = begin_request,
		.go_on = go_on,
		.fail = fail_request,
		.sockets = get_sockets,
		.part = print_part,
		.close = disconnect
	};

	return sf_harness_backend(&kind);
}
