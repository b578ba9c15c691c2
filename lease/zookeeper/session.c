/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A session of ZooKeeper, and its connection.
 *
 * Each connection has a handle of libzookeeper of its own, with one address.
 * The next connection has a new handle, which resumes the session.  So this
 * file decides, instead of the library, which host comes next and when, and
 * how long a host may be silent.  The library would send a handle's unfinished
 * requests again over its next connection; here they end with their handle.
 *
 * A request makes the connection.  Between requests, the library keeps the
 * session alive.  If the connection is lost, the keepalive request, which
 * comes after a third of the session's time-out, makes a new one.
 *
 * Two things would block in the library.  It would wait for the resolver; so
 * lookup.c resolves names.  And to close a handle, it would wait for the end
 * of the session; so this file shuts the socket down before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "storage/fd.h"

#include "nodes.h"
#include "session.h"

#define PROBLEM_SIZE		400
#define LOOKUP_EVERY_MS		20

/* The longest time-out of a real ZooKeeper. */
#define MAX_TIMEOUT_MS		(24 * 3600 * 1000)

/* Where to connect. */
static struct
{
	const SfBackendConfig *settings;
	SfZooLocation location;
	int			current;		/* the host in use */
	int			left;			/* further hosts that this request may try */
	int			turn;			/* the address of the host in use */
	int			naddresses;		/* of the host; 0: not looked up yet */
}			hosts;

/* The session; its ID is 0 if there is none. */
static clientid_t session;

/* The connection. */
static struct
{
	SfSessionState state;
	bool		is_looking_up;
	zhandle_t  *handle;
	int			sock;			/* the library closes it */
	char		peer[SF_LOOKUP_TEXT];
	char		our_address[SF_ADDRESS_SIZE];
	bool		has_digest;
	bool		is_lost;		/* the connection is lost, and handle_loss()
								 * is not called yet */
	char		problem[PROBLEM_SIZE];
	SfFailure	failure;		/* the kind of the problem */
}			conn = {.sock = -1};

/* ---- problems ---- */

/* Set the problem with the current host, without a full stop. */
static void
set_problem(const char *text)
{
	snprintf(conn.problem, sizeof(conn.problem), "%s: %s",
			 sf_session_host(), text);
	conn.failure = SF_FAILURE_UNREACHABLE;
}

/*
 * Take the library's message about an error, which it would print otherwise.
 * Most of the text is for the library's authors; use only the errno in it.
 */
static void
take_log(const char *message)
{
	const char *number = strstr(message, "errno=");
	int			code = number == NULL ? 0 : atoi(number + strlen("errno="));

	/* the library's number for the end of a connection */
	if (code == EHOSTDOWN)
		set_problem("the server has closed the connection");
	else if (code != 0)
		set_problem(strerror(code));
	if (code == ETIMEDOUT)
		conn.failure = SF_FAILURE_TIMEOUT;
}

/* ---- the connection ---- */

static bool
is_open(void)
{
	int			now = zoo_state(conn.handle);

	return now == ZOO_CONNECTING_STATE || now == ZOO_ASSOCIATING_STATE ||
		now == ZOO_CONNECTED_STATE || now == ZOO_READONLY_STATE;
}

/*
 * Close the handle.  If there is a connection, the library would end the
 * session too.  So shut the socket down first, unless the session shall end.
 * If the session shall end, shut down only the reading side.  Then the library
 * sends its request to end it, and does not wait for the answer.
 */
static void
close_handle(bool ends_session)
{
	struct pollfd fd = {.fd = conn.sock, .events = POLLOUT};
	int			saved = errno;

	if (conn.handle == NULL)
		return;
	if (is_open() && conn.sock >= 0)
		shutdown(conn.sock, ends_session && poll(&fd, 1, 0) == 1 &&
				 (fd.revents & POLLOUT) != 0 ? SHUT_RD : SHUT_RDWR);
	zookeeper_close(conn.handle);
	conn.handle = NULL;
	conn.sock = -1;
	conn.is_lost = false;
	ReleaseExternalFD();
	errno = saved;
}

/* Close the connection.  The session lives until it times out. */
void
sf_session_disconnect(const char *text)
{
	if (text != NULL)
		set_problem(text);
	close_handle(false);
	conn.is_looking_up = false;
	conn.state = SF_SESSION_DOWN;
}

/* End the session, and with it the ephemeral nodes. */
void
sf_session_end(void)
{
	close_handle(session.client_id != 0);
	memset(&session, 0, sizeof(session));
	conn.is_looking_up = false;
	conn.state = SF_SESSION_DOWN;
}

/* Make a handle for the address in "peer", in the session if there is one. */
static void
make_handle(void)
{
	char	   *digest;
	char		reason[SF_REASON_SIZE];

	if (!sf_zoo_location_digest(&hosts.location, &digest, reason,
								sizeof(reason)))
	{
		/* the reason is a sentence: remove its full stop */
		strlcpy(conn.problem, reason, sizeof(conn.problem));
		conn.problem[strlen(conn.problem) - 1] = '\0';
		conn.failure = SF_FAILURE_LOGIN;
		conn.state = SF_SESSION_DOWN;
		return;
	}
	if (!AcquireExternalFD())
	{
		sf_session_disconnect("this server has too many open files");
		return;
	}
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	set_problem("there is no connection");
	conn.handle = zookeeper_init2(conn.peer, NULL,
								  (int) hosts.settings->presence_ms,
								  session.client_id == 0 ? NULL : &session,
								  NULL, ZOO_NO_LOG_CLIENTENV, take_log);
	if (conn.handle == NULL)
	{
		ReleaseExternalFD();
		sf_session_disconnect(strerror(errno));
		return;
	}
	/* use only the address given */
	zoo_set_servers_resolution_delay(conn.handle, -1);
	conn.has_digest = digest != NULL;
	if (conn.has_digest &&
		zoo_add_auth(conn.handle, "digest", digest, (int) strlen(digest), NULL,
					 NULL) != ZOK)
		sf_session_disconnect("this server is out of memory");
}

/* Connect to the current host, in the current session if there is one. */
void
sf_session_connect(void)
{
	sf_session_disconnect(NULL);
	if (hosts.turn == 0)
		sf_lookup_begin(hosts.current, sf_session_host());
	conn.is_looking_up = true;
	conn.state = SF_SESSION_CONNECTING;
}

/* Begin a round: every host may be tried, first the one in use. */
void
sf_session_count_hosts(void)
{
	hosts.left = hosts.location.uri.nhosts - 1;
}

/* Return true if another host or address is left to try. */
bool
sf_session_has_hosts(void)
{
	return hosts.left > 0 || hosts.turn + 1 < hosts.naddresses;
}

/* Move on to the next address or host; false if all were tried. */
bool
sf_session_next_host(void)
{
	if (++hosts.turn < hosts.naddresses)
		return true;
	hosts.turn = hosts.naddresses = 0;
	hosts.current = (hosts.current + 1) % hosts.location.uri.nhosts;
	return hosts.left-- > 0;
}

/* Find our end of the connection, for people to see. */
static void
find_address(void)
{
	struct sockaddr_storage address;
	socklen_t	len = sizeof(address);

	if (getsockname(conn.sock, (struct sockaddr *) &address, &len) != 0 ||
		getnameinfo((struct sockaddr *) &address, len, conn.our_address,
					sizeof(conn.our_address), NULL, 0, NI_NUMERICHOST) != 0)
		conn.our_address[0] = '\0';
}

/* Handle a connection that the library has given up. */
static void
handle_loss(void)
{
	conn.is_lost = false;
	if (zoo_state(conn.handle) == ZOO_EXPIRED_SESSION_STATE)
	{
		/* begin another session at once */
		close_handle(false);
		memset(&session, 0, sizeof(session));
		conn.state = SF_SESSION_CONNECTING;
		make_handle();
	}
	else if (zoo_state(conn.handle) == ZOO_AUTH_FAILED_STATE)
	{
		sf_session_disconnect("the user and the password are refused");
		conn.failure = SF_FAILURE_LOGIN;
	}
	else
		sf_session_disconnect(NULL);
}

static void
begin_session(void)
{
	int			timeout_ms = zoo_recv_timeout(conn.handle);

	if (timeout_ms <= 0 || timeout_ms > MAX_TIMEOUT_MS)
	{
		memset(&session, 0, sizeof(session));
		sf_session_disconnect("this is not a ZooKeeper server");
		return;
	}
	session = *zoo_client_id(conn.handle);
	hosts.turn = 0;
	find_address();
	conn.state = SF_SESSION_UP;
}

/* Ask which events the library waits for; false if it has given up. */
static bool
ask_library(int *interest, struct timeval *wait)
{
	int			fd;

	/* the library closed the connection while a request was sent */
	if (conn.sock >= 0 && !is_open())
		conn.is_lost = true;
	*interest = 0;
	if (!conn.is_lost &&
		(zookeeper_interest(conn.handle, &fd, interest, wait) != ZOK ||
		 fd < 0))
		conn.is_lost = true;
	if (!conn.is_lost)
		conn.sock = fd;
	return !conn.is_lost;
}

/* Do one step that needs no waiting.  Return true if there may be more. */
static bool
process(void)
{
	struct timeval wait;
	struct pollfd fd = {0};
	int			interest;
	int			events = 0;
	int			result;

	if (!ask_library(&interest, &wait))
	{
		handle_loss();
		return conn.handle != NULL;
	}
	fd.fd = conn.sock;
	fd.events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
		((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
	if (poll(&fd, 1, 0) <= 0)
		return false;
	if ((fd.revents & (POLLIN | POLLERR | POLLHUP)) != 0)
		events |= ZOOKEEPER_READ;
	if ((fd.revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
		events |= ZOOKEEPER_WRITE;
	result = zookeeper_process(conn.handle, events);
	if ((result != ZOK && result != ZNOTHING) || !is_open())
		handle_loss();
	else if (conn.state == SF_SESSION_CONNECTING &&
			 zoo_state(conn.handle) == ZOO_CONNECTED_STATE)
		begin_session();
	else if (result == ZNOTHING)
		return false;			/* only part of a message has come */
	return conn.handle != NULL;
}

/* Continue as far as that is possible without waiting. */
SfSessionState
sf_session_continue(void)
{
	char		text[SF_LOOKUP_TEXT];

	if (conn.is_looking_up)
	{
		switch (sf_lookup_get(hosts.current, hosts.turn, text,
							  &hosts.naddresses))
		{
			case SF_LOOKUP_UNDER_WAY:
				return conn.state;
			case SF_LOOKUP_FAILED:
				sf_session_disconnect(text);
				return conn.state;
			case SF_LOOKUP_DONE:
				conn.is_looking_up = false;
				strlcpy(conn.peer, text, sizeof(conn.peer));
				make_handle();
		}
	}
	while (conn.handle != NULL && process())
		;
	return conn.state;
}

int
sf_session_sockets(SfSocket *sockets, int64 *timeout_ms)
{
	struct timeval wait;
	int			interest;

	if (conn.is_looking_up)
		*timeout_ms = LOOKUP_EVERY_MS;
	if (conn.handle == NULL)
		return 0;
	if (!ask_library(&interest, &wait))
	{
		*timeout_ms = 0;
		return 0;
	}
	*timeout_ms = (int64) wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1;
	sockets[0].fd = conn.sock;
	sockets[0].readable = (interest & ZOOKEEPER_READ) != 0;
	sockets[0].writeable = (interest & ZOOKEEPER_WRITE) != 0;
	return 1;
}

/* ---- state ---- */

zhandle_t *
sf_session_handle(void)
{
	return conn.handle;
}

/* Return the session's ID; 0 if there is none. */
int64
sf_session_id(void)
{
	return session.client_id;
}

/* Return our end of the last connection, or an empty text. */
const char *
sf_session_address(void)
{
	return conn.our_address;
}

const char *
sf_session_host(void)
{
	return hosts.location.uri.hosts[hosts.current];
}

/* Return why there is no connection, without a full stop. */
const char *
sf_session_problem(void)
{
	return conn.problem;
}

SfFailure
sf_session_failure(void)
{
	return conn.failure;
}

/* Return true if nodes shall be accessible to our user alone. */
bool
sf_session_has_digest(void)
{
	return conn.has_digest;
}

void
sf_session_open(const SfZooLocation *to, const SfBackendConfig *config)
{
	hosts.location = *to;
	hosts.settings = config;
	hosts.current = hosts.turn = hosts.naddresses = 0;
	conn.our_address[0] = '\0';
}

void
sf_session_close(void)
{
	sf_session_end();
	sf_batch_begin(NULL);
}
