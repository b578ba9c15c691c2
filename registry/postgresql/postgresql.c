/*-------------------------------------------------------------------------
 *
 * postgresql.c
 *	  A registry of node ids in a database with this extension: what
 *	  src/backend.h asks for, with asynchronous libpq.
 *
 * Each request is one statement (statement.h), committed by itself.  A request
 * that is abandoned takes its connection with it.
 *
 * Looking up the host's name is libpq's business, and the only thing here that
 * may block: for as long as the resolver takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <poll.h>

#include "fmgr.h"
#include "storage/fd.h"

#include "statement.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

typedef enum Stage
{
	STAGE_NONE,					/* not connected */
	STAGE_CONNECTING,
	STAGE_GREETING,				/* has asked what the connection needs */
	STAGE_READY,
	STAGE_ASKING
} Stage;

/* A connection may take as many requests' time, so that hosts are tried. */
#define MAX_OUTLIVED	3

static struct
{
	const char *url;
	const SfBackendConfig *config;

	PGconn	   *conn;
	Stage		stage;
	bool		wants_write;	/* wait for that, too */
	int			outlived;		/* requests given up while it is being made */
	char	   *schema;			/* the extension's, quoted */

	SfAsk		ask;
	bool		asked;			/* an answer is owed */
	SfResult	result_of_failure;	/* and this is it, if there is a message */
	SfFailure	failure;
	char		message[SF_REASON_SIZE];

	PGresult   *result;			/* what has come so far */
}			pg;

/*
 * With a synchronous_commit that is off, what was answered could be lost.  A
 * lock that others hold is not to be waited for longer than the answer is.  To
 * compile a statement takes longer than it does.
 */
static const char *const greeting =
"SELECT pg_catalog.set_config('synchronous_commit', 'on', false),"
" pg_catalog.set_config('search_path', '', false),"
" pg_catalog.set_config('lock_timeout', $1, false),"
" pg_catalog.set_config('jit', 'off', false),"
" (SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
" JOIN pg_catalog.pg_namespace n"
" ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
" WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake')";

#define GREETING_SCHEMA	4

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
	if (pg.conn == NULL)
		return;
	PQfinish(pg.conn);
	ReleaseExternalFD();
	pg.conn = NULL;
	pg.stage = STAGE_NONE;
}

/*
 * Answer the request with this: the first line of what libpq or the registry
 * has said.  If the connection is of no use any more, it goes.
 */
static void
fail(SfResult result, SfFailure failure, const char *message, bool drop)
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

/* What an SQLSTATE says of the kind of failure. */
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
		{"42883", SF_FAILURE_EXTENSION},	/* undefined function */
		{"42P01", SF_FAILURE_EXTENSION},	/* undefined table */
		{"57P", SF_FAILURE_UNREACHABLE},	/* it stops, or does not take
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
 * Where the registry has refused a connection, libpq has its SQLSTATE only in
 * the text, after the severity, in whatever language that is: "FATAL:  28000:
 * ...".  Find it, and take it out of the line; or else return NULL.
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

/* Nothing was sent yet that could be done. */
static void
fail_to_connect(void)
{
	char		message[1024];
	const char *sqlstate;

	strlcpy(message, PQerrorMessage(pg.conn), sizeof(message));
	message[strcspn(message, "\n")] = '\0';
	sqlstate = take_sqlstate(message);
	fail(SF_RESULT_REFUSED, sqlstate != NULL ? classify(sqlstate) :
		 PQconnectionNeedsPassword(pg.conn) ? SF_FAILURE_LOGIN :
		 SF_FAILURE_UNREACHABLE, message, true);
}

static char *
print(char *buffer, int64 number)
{
	snprintf(buffer, 24, "%lld", (long long) number);
	return buffer;
}

static void
connect_to_registry(void)
{
	/* the first may be overruled: a dead host is to be given up for another */
	static const char *const keywords[] = {
		"tcp_user_timeout", "dbname", "fallback_application_name",
		"client_encoding", NULL
	};
	char		timeout[24];
	const char *values[] = {
		print(timeout, pg.config->timeout_ms), pg.url, "snowflake lease",
		"SQL_ASCII", NULL
	};

	if (!AcquireExternalFD())
	{
		fail(SF_RESULT_REFUSED, SF_FAILURE_OTHER,
			 "This server has too many open files.", false);
		return;
	}
	pg.conn = PQconnectStartParams(keywords, values, 1);
	if (pg.conn == NULL)
	{
		ReleaseExternalFD();
		fail(SF_RESULT_REFUSED, SF_FAILURE_OTHER,
			 "This server is out of memory.", false);
		return;
	}
	PQsetErrorVerbosity(pg.conn, PQERRORS_VERBOSE); /* with SQLSTATEs */
	pg.stage = STAGE_CONNECTING;
	pg.wants_write = true;
	pg.outlived = 0;
	if (PQstatus(pg.conn) == CONNECTION_BAD)
		fail_to_connect();
}

static void
greet(void)
{
	char		timeout[24];
	const char *params[1] = {print(timeout, pg.config->timeout_ms)};

	pg.stage = STAGE_GREETING;
	if (PQsetnonblocking(pg.conn, 1) != 0 ||
		!PQsendQueryParams(pg.conn, greeting, 1, NULL, params, NULL, NULL, 0))
		fail_to_connect();
}

/*
 * Is there what libpq waits for?  Called before, it takes a connection that is
 * being made for one that is there, and may then block in writing to it.
 */
static bool
is_ready(void)
{
	struct pollfd socket = {
		.fd = PQsocket(pg.conn), .events = pg.wants_write ? POLLOUT : POLLIN
	};

	return socket.fd < 0 || poll(&socket, 1, 0) != 0;
}

static void
poll_connection(void)
{
	if (!is_ready())
		return;
	switch (PQconnectPoll(pg.conn))
	{
		case PGRES_POLLING_OK:
			greet();
			break;
		case PGRES_POLLING_READING:
			pg.wants_write = false;
			break;
		case PGRES_POLLING_WRITING:
			pg.wants_write = true;
			break;
		default:
			fail_to_connect();
	}
}

/* ---- statements ---- */

/* Send the request over a connection that is ready. */
static void
send_request(void)
{
	pg.stage = STAGE_ASKING;
	if (!sf_statement_send(pg.conn, pg.schema, &pg.ask, pg.config))
		fail(SF_RESULT_UNKNOWN, SF_FAILURE_UNREACHABLE,
			 PQerrorMessage(pg.conn), true);
}

/*
 * The statement has failed.  With an ERROR nothing of it is done; what ended
 * the session may have come after it was.
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
	fail(undone ? SF_RESULT_REFUSED : SF_RESULT_UNKNOWN,
		 sqlstate != NULL ? classify(sqlstate) : SF_FAILURE_UNREACHABLE,
		 message, !undone || pg.stage == STAGE_GREETING);
}

static void
take_greeting(void)
{
	if (PQgetisnull(pg.result, 0, GREETING_SCHEMA))
	{
		fail(SF_RESULT_REFUSED, SF_FAILURE_EXTENSION,
			 "The database has no extension \"snowflake\".", true);
		return;
	}
	pg.schema = strdup(PQgetvalue(pg.result, 0, GREETING_SCHEMA));
	PQclear(pg.result);
	pg.result = NULL;
	pg.stage = STAGE_READY;
	if (pg.asked)
		send_request();
}

/* Read what has come; true if a statement has ended. */
static bool
read_result(void)
{
	PGresult   *next;
	int			left = PQflush(pg.conn);

	pg.wants_write = left > 0;
	if (left < 0 || !PQconsumeInput(pg.conn))
	{
		fail(pg.stage == STAGE_ASKING ? SF_RESULT_UNKNOWN : SF_RESULT_REFUSED,
			 SF_FAILURE_UNREACHABLE, PQerrorMessage(pg.conn), true);
		return false;
	}
	while (!PQisBusy(pg.conn))
	{
		next = PQgetResult(pg.conn);
		if (next == NULL)
			return pg.result != NULL;
		if (pg.result != NULL)
			PQclear(pg.result);
		pg.result = next;
	}
	return false;
}

/* ---- what the worker calls ---- */

/*
 * Does a password seem to end too early, so that the rest of it would be taken
 * for a host or a database, which libpq's errors name?  The user's name and
 * the password end at the first "@", unless there is a "/" before it.
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
	char	   *error = NULL;
	PQconninfoOption *options = PQconninfoParse(url, &error);

	/* what libpq says of it may hold a part of a password */
	if (error != NULL)
		PQfreemem(error);
	if (options == NULL)
	{
		snprintf(reason, reason_size,
				 "It is no URI for libpq: postgresql://user@host:port/database.");
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
	return true;
}

static void
backend_send(const SfAsk *ask)
{
	if (pg.stage == STAGE_ASKING)
		disconnect();			/* the one under way is abandoned */
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
		*timeout_ms = 0;		/* a failure is to be told */
	if (fd < 0)
		return 0;
	sockets[0].fd = fd;
	sockets[0].writeable = pg.wants_write;
	sockets[0].readable = pg.stage != STAGE_CONNECTING || !pg.wants_write;
	return 1;
}

static bool
backend_receive(SfAnswer *answer)
{
	bool		ended = false;

	if (pg.stage == STAGE_CONNECTING)
		poll_connection();
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

static const SfBackend functions = {
	backend_open, backend_send, backend_sockets, backend_receive, backend_close
};

const SfBackend *
snowflake_backend(void)
{
	return &functions;
}
