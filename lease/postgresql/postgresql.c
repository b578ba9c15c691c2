/*-------------------------------------------------------------------------
 *
 * postgresql.c
 *	  Registry of node ids in a database with this extension: the functions of
 *	  lease/backend.h, with asynchronous libpq.
 *
 * Each request is one statement (statement.h) and one transaction.  Abandoning
 * a request closes its connection.
 *
 * Nothing here blocks.  libpq does while it connects: it waits for the
 * resolver, and a registry chooses how often libpq hashes the password, up to
 * 2^31 times.  So a thread connects.  It runs functions of libpq alone, and
 * handles no signals.  It cannot be stopped inside libpq.  So there is at most
 * one, the next connection waits for its end, and a process that ends does
 * not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "fmgr.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#include "postgresql.sql.inc"
#include "statement.h"

SF_MODULE_MAGIC("snowflake_postgresql");

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

typedef enum Stage
{
	STAGE_NONE,					/* not connected */
	STAGE_WAITING,				/* for the end of a thread to connect anew */
	STAGE_CONNECTING,
	STAGE_GREETING,				/* looks for the extension's schema */
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
	char	   *schema;			/* the extension's schema, quoted */

	SfAsk		ask;
	bool		asked;			/* an answer is due */
	SfResult	result_of_failure;	/* the answer's result, if "message" is
									 * not empty */
	SfFailure	failure;
	char		message[SF_REASON_SIZE];

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
	PGconn	   *conn = PQconnectStartParams(keywords, values, 1);
	PostgresPollingStatusType wants = PGRES_POLLING_WRITING;

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

/* ---- the connection ---- */

static void
disconnect(void)
{
	if (pg.result != NULL)
		PQclear(pg.result);
	pg.result = NULL;
	if (pg.schema != NULL)
		PQfreemem(pg.schema);
	pg.schema = NULL;
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
 * Let the request fail with the first line of a message of libpq or the
 * registry.  Disconnect if the connection is no longer usable.
 */
static void
pg_fail(SfResult result, SfFailure failure, const char *message, bool drop)
{
	size_t		length = strcspn(message, "\n");

	pg.result_of_failure = result;
	pg.failure = failure;
	snprintf(pg.message, sizeof(pg.message), "%.*s", (int) length, message);
	if (pg.message[0] == '\0')
		strlcpy(pg.message, "The connection is lost.", sizeof(pg.message));
	if (drop)
		disconnect();
}

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
		{"55000", SF_FAILURE_READ_ONLY},	/* recovery is in progress */
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

	if (sqlstate != NULL)
		return classify(sqlstate);
	if (strstr(line, "certificate") != NULL || strstr(line, " alert ") != NULL)
		return SF_FAILURE_CERTIFICATE;
	if (strstr(line, "session is read-only") != NULL ||
		strstr(line, "hot standby mode") != NULL)
		return SF_FAILURE_READ_ONLY;
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

static void
greet(void)
{
	pg.stage = STAGE_GREETING;
	if (PQsetnonblocking(pg.conn, 1) != 0 ||
		!PQsendQueryParams(pg.conn, SQL_SCHEMA, 0, NULL, NULL, NULL, NULL, 0))
		fail_to_connect();
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
	else if (PQstatus(pg.conn) != CONNECTION_OK)
		fail_to_connect();
	else
		greet();
}

/* ---- statements ---- */

/* Send the request over a connection that is ready. */
static void
send_request(void)
{
	pg.stage = STAGE_ASKING;
	if (!sf_statement_send(pg.conn, pg.schema, &pg.ask, pg.config))
		pg_fail(SF_RESULT_UNKNOWN, SF_FAILURE_UNREACHABLE,
				PQerrorMessage(pg.conn), true);
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
	char		message[SF_REASON_SIZE];

	strlcpy(message, text != NULL ? text : PQresultErrorMessage(pg.result),
			sizeof(message));
	pg_fail(undone ? SF_RESULT_REFUSED : SF_RESULT_UNKNOWN,
			sqlstate != NULL ? classify(sqlstate) : SF_FAILURE_UNREACHABLE,
			message, !undone || pg.stage == STAGE_GREETING);
}

static void
take_greeting(void)
{
	if (PQgetisnull(pg.result, 0, 0))
	{
		pg_fail(SF_RESULT_REFUSED, SF_FAILURE_EXTENSION,
				"The database has no extension \"snowflake_registry\".", true);
		return;
	}
	pg.schema = strdup(PQgetvalue(pg.result, 0, 0));
	PQclear(pg.result);
	pg.result = NULL;
	pg.stage = STAGE_READY;
	if (pg.asked)
		send_request();
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
backend_open(const char *url, const SfBackendConfig *config,
			 char *reason, size_t reason_size)
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
		on_proc_exit(leave_thread, (Datum) 0);
	leaves_thread = true;
	return true;
}

static void
backend_send(const SfAsk *ask)
{
	if (pg.stage == STAGE_ASKING)
		disconnect();			/* abandon the request under way */
	else if ((pg.stage == STAGE_CONNECTING || pg.stage == STAGE_GREETING) &&
			 ++pg.outlived > MAX_OUTLIVED)
		disconnect();
	pg.ask = *ask;
	pg.asked = true;
	pg.message[0] = '\0';
	if (pg.stage == STAGE_READY)
		send_request();
	else if (pg.stage == STAGE_NONE)
		connect_to_registry();
}

static int
backend_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	int			fd = pg.conn == NULL ? -1 : PQsocket(pg.conn);

	if (pg.asked && pg.message[0] != '\0')
		*timeout_ms = 0;		/* there is a failure to report */
	else if (pg.stage == STAGE_WAITING || pg.stage == STAGE_CONNECTING)
		*timeout_ms = CONNECT_LOOK_MS;
	if (fd < 0)
		return 0;
	sockets[0].fd = fd;
	sockets[0].writeable = pg.wants_write;
	sockets[0].readable = true;
	return 1;
}

static bool
backend_receive(SfAnswer *answer)
{
	bool		ended = false;

	if (pg.stage == STAGE_WAITING)
		connect_to_registry();
	else if (pg.stage == STAGE_CONNECTING)
		take_connection();
	else if (pg.stage != STAGE_NONE)
		ended = read_result();
	if (ended && PQresultStatus(pg.result) != PGRES_TUPLES_OK)
		take_failure();
	else if (ended && pg.stage == STAGE_GREETING)
		take_greeting();
	if (!pg.asked)
		return false;

	memset(answer, 0, sizeof(SfAnswer));
	answer->number = pg.ask.number;
	if (pg.message[0] != '\0')
	{
		answer->result = pg.result_of_failure;
		answer->failure = pg.failure;
		answer->message = pg.message;
	}
	else if (ended && pg.stage == STAGE_ASKING && pg.result != NULL)
		sf_statement_take(pg.result, &pg.ask, answer);
	else
		return false;
	pg.asked = false;
	if (pg.result != NULL)
		PQclear(pg.result);
	pg.result = NULL;
	if (pg.stage == STAGE_ASKING)
		pg.stage = STAGE_READY;
	return true;
}

static void
backend_close(void)
{
	disconnect();
	pg.asked = false;
}

const SfBackend *
snowflake_backend(void)
{
	static const SfBackend backend = {
		.version = SF_BACKEND_VERSION,
		.size = SF_BACKEND_SIZE,
		.open = backend_open,
		.send = backend_send,
		.sockets = backend_sockets,
		.receive = backend_receive,
		.close = backend_close
	};

	return &backend;
}
