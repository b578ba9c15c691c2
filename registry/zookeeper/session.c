/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A session of ZooKeeper, and its connection.
 *
 * Each connection has a handle of libzookeeper of its own, with one address.
 * The next connection has a new handle, which resumes the session.  So this
 * file decides, instead of the library, which host comes next and when, and
 * how long a host may be silent.  The library would send unfinished requests
 * again over a new connection; they end with their handle.
 *
 * A request makes the connection.  Between requests, the library keeps the
 * session alive.  If the connection is lost, the keepalive request, which
 * comes after a third of the session's time-out, makes a new one.
 *
 * Two things would block in the library, and are avoided.  Names are resolved
 * in lookup.c.  Closing a handle waits for the end of the session, but not if
 * the socket was closed before.
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

#include "lookup.h"
#include "session.h"

#define PROBLEM_SIZE		400
#define LOOKUP_EVERY_MS		20

/* The longest time-out of a real ZooKeeper. */
#define MAX_TIMEOUT_MS		(24 * 3600 * 1000)

static const SfBackendConfig *settings;
static SfZooLocation location;
static int	host;				/* the host in use */
static int	hosts_left;			/* further hosts that this request may try */
static int	turn;				/* the address of the host in use */
static int	naddresses;			/* of the host; 0: not looked up yet */

/* The session; its ID is 0 if there is none. */
static clientid_t session;

/* The connection. */
static SfSessionState state;
static bool is_looking_up;
static zhandle_t *handle;
static int	sock = -1;			/* the library closes it */
static char peer[SF_LOOKUP_TEXT];
static char our_address[SF_ADDRESS_SIZE];
static bool has_digest;
static bool is_lost;			/* the connection is lost, and lose() is not
								 * called yet */
static char problem[PROBLEM_SIZE];
static SfFailure failure;		/* its kind */

/* ---- problems ---- */

/* Set the problem with the current host, without a full stop. */
static void
set_problem(const char *text)
{
	snprintf(problem, sizeof(problem), "%s: %s", location.uri.hosts[host],
			 text);
	failure = SF_FAILURE_UNREACHABLE;
}

/*
 * Take the library's message about an error, instead of standard error.  Most
 * of the text is for the library's authors; use only the errno in it.
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
		failure = SF_FAILURE_TIMEOUT;
}

/* ---- the connection ---- */

static bool
is_open(void)
{
	int			now = zoo_state(handle);

	return now == ZOO_CONNECTING_STATE || now == ZOO_ASSOCIATING_STATE ||
		now == ZOO_CONNECTED_STATE || now == ZOO_READONLY_STATE;
}

/*
 * Close the handle.  If there is a connection, the library would end the
 * session too.  So shut the socket down first, unless the session shall end.
 * In that case shut down only the reading side: the library would wait for an
 * answer, and gets the end of the stream.
 */
static void
close_handle(bool ends_session)
{
	struct pollfd fd = {.fd = sock, .events = POLLOUT};
	int			saved = errno;

	if (handle == NULL)
		return;
	if (is_open() && sock >= 0)
		shutdown(sock, ends_session && poll(&fd, 1, 0) == 1 &&
				 (fd.revents & POLLOUT) != 0 ? SHUT_RD : SHUT_RDWR);
	zookeeper_close(handle);
	handle = NULL;
	sock = -1;
	is_lost = false;
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
	is_looking_up = false;
	state = SF_SESSION_DOWN;
}

/* End the session, and with it the ephemeral nodes. */
void
sf_session_end(void)
{
	close_handle(session.client_id != 0);
	memset(&session, 0, sizeof(session));
	is_looking_up = false;
	state = SF_SESSION_DOWN;
}

/* Make a handle for the address in "peer", in the session if there is one. */
static void
make_handle(void)
{
	char	   *digest;
	char		reason[SF_REASON_SIZE];

	if (!sf_zoo_location_digest(&location, &digest, reason, sizeof(reason)))
	{
		/* the reason is a sentence: remove its full stop */
		strlcpy(problem, reason, sizeof(problem));
		problem[strlen(problem) - 1] = '\0';
		failure = SF_FAILURE_LOGIN;
		state = SF_SESSION_DOWN;
		return;
	}
	if (!AcquireExternalFD())
	{
		sf_session_disconnect("this server has too many open files");
		return;
	}
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	set_problem("there is no connection");
	handle = zookeeper_init2(peer, NULL, (int) settings->presence_ms,
							 session.client_id == 0 ? NULL : &session, NULL,
							 ZOO_NO_LOG_CLIENTENV, take_log);
	if (handle == NULL)
	{
		ReleaseExternalFD();
		sf_session_disconnect(strerror(errno));
		return;
	}
	/* use only the address given */
	zoo_set_servers_resolution_delay(handle, -1);
	has_digest = digest != NULL;
	if (has_digest &&
		zoo_add_auth(handle, "digest", digest, (int) strlen(digest), NULL,
					 NULL) != ZOK)
		sf_session_disconnect("this server is out of memory");
}

/* Connect to the current host, in the current session if there is one. */
void
sf_session_connect(void)
{
	sf_session_disconnect(NULL);
	if (turn == 0)
		sf_lookup_begin(host, location.uri.hosts[host]);
	is_looking_up = true;
	state = SF_SESSION_CONNECTING;
}

/* Begin a round: every host may be tried, first the one in use. */
void
sf_session_count_hosts(void)
{
	hosts_left = location.uri.nhosts - 1;
}

/* Return true if another host or address is left to try. */
bool
sf_session_has_hosts(void)
{
	return hosts_left > 0 || turn + 1 < naddresses;
}

/* Move on to the next address or host; false if all were tried. */
bool
sf_session_next_host(void)
{
	if (++turn < naddresses)
		return true;
	turn = naddresses = 0;
	host = (host + 1) % location.uri.nhosts;
	return hosts_left-- > 0;
}

/* Find our end of the connection, for people to see. */
static void
find_address(void)
{
	struct sockaddr_storage address;
	socklen_t	len = sizeof(address);

	if (getsockname(sock, (struct sockaddr *) &address, &len) != 0 ||
		getnameinfo((struct sockaddr *) &address, len, our_address,
					sizeof(our_address), NULL, 0, NI_NUMERICHOST) != 0)
		our_address[0] = '\0';
}

/* Handle the end of a connection, on which the library has given up. */
static void
lose(void)
{
	is_lost = false;
	if (zoo_state(handle) == ZOO_EXPIRED_SESSION_STATE)
	{
		/* begin another session at once */
		close_handle(false);
		memset(&session, 0, sizeof(session));
		state = SF_SESSION_CONNECTING;
		make_handle();
	}
	else if (zoo_state(handle) == ZOO_AUTH_FAILED_STATE)
	{
		sf_session_disconnect("the user and the password are refused");
		failure = SF_FAILURE_LOGIN;
	}
	else
		sf_session_disconnect(NULL);
}

static void
arrive(void)
{
	int			timeout_ms = zoo_recv_timeout(handle);

	if (timeout_ms <= 0 || timeout_ms > MAX_TIMEOUT_MS)
	{
		memset(&session, 0, sizeof(session));
		sf_session_disconnect("this is no ZooKeeper");
		return;
	}
	session = *zoo_client_id(handle);
	turn = 0;
	find_address();
	state = SF_SESSION_UP;
}

/* Ask which events the library waits for; false if it has given up. */
static bool
ask_library(int *interest, struct timeval *wait)
{
	int			fd;

	/* the library closed the connection while a request was sent */
	if (sock >= 0 && !is_open())
		is_lost = true;
	*interest = 0;
	if (!is_lost &&
		(zookeeper_interest(handle, &fd, interest, wait) != ZOK || fd < 0))
		is_lost = true;
	if (!is_lost)
		sock = fd;
	return !is_lost;
}

/* Do once what needs no waiting.  Return true if there may be more. */
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
		lose();
		return handle != NULL;
	}
	fd.fd = sock;
	fd.events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
		((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
	if (poll(&fd, 1, 0) <= 0)
		return false;
	if ((fd.revents & (POLLIN | POLLERR | POLLHUP)) != 0)
		events |= ZOOKEEPER_READ;
	if ((fd.revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
		events |= ZOOKEEPER_WRITE;
	result = zookeeper_process(handle, events);
	if ((result != ZOK && result != ZNOTHING) || !is_open())
		lose();
	else if (state == SF_SESSION_CONNECTING &&
			 zoo_state(handle) == ZOO_CONNECTED_STATE)
		arrive();
	else if (result == ZNOTHING)
		return false;			/* only part of a message has come */
	return handle != NULL;
}

/* Continue as far as that is possible without waiting. */
SfSessionState
sf_session_go_on(void)
{
	char		text[SF_LOOKUP_TEXT];

	if (is_looking_up)
	{
		switch (sf_lookup_look(host, turn, text, &naddresses))
		{
			case SF_LOOKUP_UNDER_WAY:
				return state;
			case SF_LOOKUP_FAILED:
				sf_session_disconnect(text);
				return state;
			case SF_LOOKUP_DONE:
				is_looking_up = false;
				strlcpy(peer, text, sizeof(peer));
				make_handle();
		}
	}
	while (handle != NULL && process())
		;
	return state;
}

int
sf_session_sockets(SfSocket *sockets, int64 *timeout_ms)
{
	struct timeval wait;
	int			interest;

	if (is_looking_up)
		*timeout_ms = LOOKUP_EVERY_MS;
	if (handle == NULL)
		return 0;
	if (!ask_library(&interest, &wait))
	{
		*timeout_ms = 0;
		return 0;
	}
	*timeout_ms = (int64) wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1;
	sockets[0].fd = sock;
	sockets[0].readable = (interest & ZOOKEEPER_READ) != 0;
	sockets[0].writeable = (interest & ZOOKEEPER_WRITE) != 0;
	return 1;
}

/* ---- state ---- */

zhandle_t *
sf_session_handle(void)
{
	return handle;
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
	return our_address;
}

const char *
sf_session_host(void)
{
	return location.uri.hosts[host];
}

/* Return why there is no connection, without a full stop. */
const char *
sf_session_problem(void)
{
	return problem;
}

SfFailure
sf_session_failure(void)
{
	return failure;
}

/* Return true if nodes shall be accessible to our user alone. */
bool
sf_session_has_digest(void)
{
	return has_digest;
}

void
sf_session_open(const SfZooLocation *to, const SfBackendConfig *config)
{
	location = *to;
	settings = config;
	host = turn = naddresses = 0;
	our_address[0] = '\0';
}

void
sf_session_close(void)
{
	sf_session_end();
	sf_batch_begin(NULL);
}
