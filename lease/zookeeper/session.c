/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A session of ZooKeeper, its connection, and the setting that says where
 *	  to connect.
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
 * it gets addresses and no names.  The GNU C library resolves names in a
 * thread of its own, which handles no signals.  With other C libraries, this
 * file waits for the resolver.  And to close a handle, the library would wait
 * for the end of the session; so this file shuts the socket down before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "storage/fd.h"

#include "zookeeper.h"

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
#define HAVE_LOOKUP_IN_THREAD
#endif
#endif

#define SCHEME				"zookeeper://"
#define DEFAULT_PORT		"2181"
#define DEFAULT_PREFIX		"/snowflake"
#define LOOKUP_SIZE			128
#define LOOKUP_EVERY_MS		20

/* The longest time-out of a real ZooKeeper. */
#define MAX_TIMEOUT_MS		(24 * 3600 * 1000)

/*
 * The setting, such as
 *
 *		zookeeper://user:password@host:2181,host2:2181/path?credentials=/file
 *
 * User and password are in the text or in the file.  In the text, every
 * character other than a letter or a digit can be written as %XX.  Without
 * them, anybody may read and write the registry.
 */
typedef struct Location
{
	SfUri		uri;
	char	   *prefix;			/* of all nodes, for example "/snowflake" */
	char	   *digest;			/* "user:password"; or NULL */
	char	   *credentials;	/* a file of two lines; or NULL */
} Location;

/* Where to connect. */
static struct
{
	const SfBackendConfig *settings;
	Location	location;
	int			current;		/* the host in use */
	int			left;			/* further hosts that this request may try */
	int			turn;			/* the address of the host in use */
	int			naddresses;		/* of the host; 0: not looked up yet */
}			hosts;

SfSession	sf_session;

/*
 * The lookups, one per host.  A lookup cannot be cancelled, so the next one of
 * the same host waits for it.
 */
static struct
{
	char	   *name;			/* lives as long as the process */
	char	   *port;
	struct addrinfo hints;
	struct addrinfo *found;
	int			result;			/* of getaddrinfo() */
	bool		is_under_way;
#ifdef HAVE_LOOKUP_IN_THREAD
	struct gaicb request;
#endif
}			lookups[SF_URI_HOSTS];

/* The connection. */
static struct
{
	SfSessionState state;
	bool		is_looking_up;
	int			sock;			/* the library closes it */
	char		peer[LOOKUP_SIZE];
	bool		is_lost;		/* the connection is lost, and handle_loss()
								 * is not called yet */
}			conn = {.sock = -1};

/* ---- the setting ---- */

static int
hex_digit(char c)
{
	if (isdigit((unsigned char) c))
		return c - '0';
	c = pg_tolower((unsigned char) c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode %XX in place. */
static bool
decode(char *text)
{
	char	   *to = text;

	for (const char *p = text; *p != '\0'; p++)
	{
		int			c = (unsigned char) *p;

		if (c == '%')
		{
			int			high = hex_digit(p[1]);
			int			low = high < 0 ? -1 : hex_digit(p[2]);

			c = low < 0 ? 0 : high * 16 + low;
			if (c == 0)
				return false;
			p += 2;
		}
		*to++ = c;
	}
	*to = '\0';
	return true;
}

/* Return true if no part is empty or all dots, and all is printable. */
static bool
is_path(const char *path)
{
	for (const char *p = path; *p != '\0'; p++)
	{
		size_t		len = strcspn(p + 1, "/");

		if (len == 0 || strspn(p + 1, ".") == len)
			return false;
		for (size_t i = 1; i <= len; i++)
		{
			if (!isprint((unsigned char) p[i]))
				return false;
		}
		p += len;
	}
	return true;
}

static bool
take_user(Location *location, char *reason, size_t reason_size)
{
	char	   *user = location->uri.user;
	char	   *password;

	if (user == NULL)
		return true;
	password = strchr(user, ':');
	if (password == NULL || password == user)
		return sf_uri_refuse(reason, reason_size,
							 "Before the \"@\" there must be a user and a password, with a colon between them.");
	*password++ = '\0';
	if (!decode(user) || !decode(password) || strchr(user, ':') != NULL)
		return sf_uri_refuse(reason, reason_size,
							 "The user or the password is not readable: \"%%\" is written as %%25.");
	location->digest = psprintf("%s:%s", user, password);
	return true;
}

/* Parse a setting; the results are in the current memory context. */
static bool
parse_location(Location *location, const char *text, char *reason,
			   size_t reason_size)
{
	static const char *const options[] = {"credentials", NULL};
	SfUri	   *uri = &location->uri;

	memset(location, 0, sizeof(Location));
	if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
		return sf_uri_refuse(reason, reason_size,
							 "It does not begin with " SCHEME ".");
	if (!sf_uri_parse(uri, text, DEFAULT_PORT, "a ZooKeeper", reason,
					  reason_size))
		return false;
	if (!sf_uri_options(uri->options, options, &location->credentials,
						"The only option is credentials.", reason,
						reason_size))
		return false;
	if (location->credentials != NULL && uri->user != NULL)
		return sf_uri_refuse(reason, reason_size,
							 "Give the user and the password before the \"@\" or in a file, not both.");
	location->prefix = uri->path == NULL ? pstrdup(DEFAULT_PREFIX) :
		psprintf("/%s", uri->path);
	if (!is_path(location->prefix))
		return sf_uri_refuse(reason, reason_size,
							 "\"%s\" is not the path of a node.", location->prefix);
	return take_user(location, reason, reason_size);
}

/* Set *digest to "user:password", or to NULL if there is none. */
static bool
find_digest(const Location *location, char **digest, char *reason,
			size_t reason_size)
{
	char	   *user;
	char	   *password;

	*digest = location->digest;
	if (location->credentials == NULL)
		return true;
	if (!sf_uri_credentials(location->credentials, &user, &password,
							reason, reason_size))
		return false;
	if (user[0] == '\0' || strchr(user, ':') != NULL)
		return sf_uri_refuse(reason, reason_size,
							 "The user's name in \"%s\" is empty, or has a colon.",
							 location->credentials);
	*digest = psprintf("%s:%s", user, password);
	return true;
}

/* Print a part of the setting, for a remedy; NULL if it is not there. */
char *
sf_session_part(const char *part)
{
	const Location *at = &hosts.location;

	if (strcmp(part, "zkcli") == 0)
		return psprintf("zkCli.sh -server %s",
						sf_uri_hosts(at->uri.hosts, at->uri.nhosts));
	if (strcmp(part, "path") == 0)
		return at->prefix;
	if (strcmp(part, "user") != 0)
		return at->credentials;
	return at->uri.user != NULL ? at->uri.user :
		sf_uri_user(at->credentials);
}

/* ---- problems ---- */

/* Set the problem with the current host, without a full stop. */
static void
set_problem(const char *text)
{
	snprintf(sf_session.problem, sizeof(sf_session.problem), "%s: %s",
			 sf_session.host, text);
	sf_session.failure = SF_FAILURE_UNREACHABLE;
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
		sf_session.failure = SF_FAILURE_TIMEOUT;
}

/* ---- addresses of a host ---- */

static void
free_lookup(int number)
{
	if (lookups[number].found != NULL)
		freeaddrinfo(lookups[number].found);
	lookups[number].found = NULL;
	free(lookups[number].name);
	lookups[number].name = NULL;
}

/* Split "name:port" or "[address]:port" into two texts. */
static bool
set_host(int number, const char *host)
{
	const char *colon = strrchr(host, ':');
	bool		has_brackets = host[0] == '[';

	lookups[number].name = strdup(host + has_brackets);
	if (lookups[number].name == NULL)
		return false;
	lookups[number].name[colon - host - 2 * has_brackets] = '\0';
	lookups[number].port = lookups[number].name + (colon + 1 - host) -
		has_brackets;
	return true;
}

static bool
look_up_host(int number, int flags)
{
	struct addrinfo *hints = &lookups[number].hints;

	memset(hints, 0, sizeof(struct addrinfo));
	hints->ai_flags = flags | AI_NUMERICSERV;
	hints->ai_socktype = SOCK_STREAM;
	lookups[number].result = getaddrinfo(lookups[number].name,
										 lookups[number].port, hints,
										 &lookups[number].found);
	return lookups[number].result == 0;
}

/* Begin anew to look up the host of this number. */
static void
begin_lookup(int number, const char *host)
{
	if (lookups[number].is_under_way)
		return;
	free_lookup(number);
	lookups[number].result = EAI_MEMORY;
	if (!set_host(number, host) || look_up_host(number, AI_NUMERICHOST))
		return;
#ifdef HAVE_LOOKUP_IN_THREAD
	{
		struct gaicb *request = &lookups[number].request;

		lookups[number].hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
		memset(request, 0, sizeof(struct gaicb));
		request->ar_name = lookups[number].name;
		request->ar_service = lookups[number].port;
		request->ar_request = &lookups[number].hints;
		lookups[number].result = getaddrinfo_a(GAI_NOWAIT, &request, 1, NULL);
		lookups[number].is_under_way = lookups[number].result == 0;
	}
#else
	(void) look_up_host(number, AI_ADDRCONFIG);
#endif
}

/* Return true if the lookup of this number goes on. */
static bool
lookup_goes_on(int number)
{
#ifdef HAVE_LOOKUP_IN_THREAD
	if (!lookups[number].is_under_way)
		return false;
	lookups[number].result = gai_error(&lookups[number].request);
	if (lookups[number].result == EAI_INPROGRESS)
		return true;
	lookups[number].is_under_way = false;
	if (lookups[number].result == 0)
		lookups[number].found = lookups[number].request.ar_result;
#endif
	return false;
}

/*
 * Set *n to the number of the host's addresses.  Print the address of this
 * turn, counted from 0, as "address:port" without brackets: libzookeeper wants
 * it so.  If there is none, print what has gone wrong.
 */
static bool
get_address(int number, int turn, char *text, int *n)
{
	struct addrinfo *wanted = NULL;
	char		name[LOOKUP_SIZE / 2];

	*n = 0;
	for (struct addrinfo *address = lookups[number].found; address != NULL;
		 address = address->ai_next)
	{
		if ((*n)++ == turn)
			wanted = address;
	}
	if (wanted == NULL ||
		getnameinfo(wanted->ai_addr, wanted->ai_addrlen, name, sizeof(name),
					NULL, 0, NI_NUMERICHOST) != 0)
	{
		snprintf(text, LOOKUP_SIZE, "%s",
				 gai_strerror(lookups[number].result == 0 ? EAI_NONAME :
							  lookups[number].result));
		return false;
	}
	snprintf(text, LOOKUP_SIZE, "%s:%s", name, lookups[number].port);
	return true;
}

/* ---- the connection ---- */

static bool
is_open(void)
{
	int			now = zoo_state(sf_session.handle);

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

	if (sf_session.handle == NULL)
		return;
	if (is_open() && conn.sock >= 0)
		shutdown(conn.sock, ends_session && poll(&fd, 1, 0) == 1 &&
				 (fd.revents & POLLOUT) != 0 ? SHUT_RD : SHUT_RDWR);
	zookeeper_close(sf_session.handle);
	sf_session.handle = NULL;
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
	close_handle(sf_session.id.client_id != 0);
	memset(&sf_session.id, 0, sizeof(sf_session.id));
	conn.is_looking_up = false;
	conn.state = SF_SESSION_DOWN;
}

/* Make a handle for the address in "peer", in the session if there is one. */
static void
make_handle(void)
{
	char	   *digest;
	char		reason[SF_REASON_SIZE];

	if (!find_digest(&hosts.location, &digest, reason,
					 sizeof(reason)))
	{
		/* the reason is a sentence: remove its full stop */
		strlcpy(sf_session.problem, reason, sizeof(sf_session.problem));
		sf_session.problem[strlen(sf_session.problem) - 1] = '\0';
		sf_session.failure = SF_FAILURE_LOGIN;
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
	sf_session.handle = zookeeper_init2(conn.peer, NULL,
										(int) hosts.settings->presence_ms,
										sf_session.id.client_id == 0 ? NULL :
										&sf_session.id,
										NULL, ZOO_NO_LOG_CLIENTENV, take_log);
	if (sf_session.handle == NULL)
	{
		ReleaseExternalFD();
		sf_session_disconnect(strerror(errno));
		return;
	}
	/* use only the address given */
	zoo_set_servers_resolution_delay(sf_session.handle, -1);
	sf_session.has_digest = digest != NULL;
	if (sf_session.has_digest &&
		zoo_add_auth(sf_session.handle, "digest", digest, (int) strlen(digest), NULL,
					 NULL) != ZOK)
		sf_session_disconnect("this server is out of memory");
}

/* Connect to the current host, in the current session if there is one. */
void
sf_session_connect(void)
{
	sf_session_disconnect(NULL);
	if (hosts.turn == 0)
		begin_lookup(hosts.current, sf_session.host);
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
	sf_session.host = hosts.location.uri.hosts[hosts.current];
	return hosts.left-- > 0;
}

/* Find our end of the connection, for people to see. */
static void
find_address(void)
{
	struct sockaddr_storage address;
	socklen_t	len = sizeof(address);

	if (getsockname(conn.sock, (struct sockaddr *) &address, &len) != 0 ||
		getnameinfo((struct sockaddr *) &address, len, sf_session.address,
					sizeof(sf_session.address), NULL, 0, NI_NUMERICHOST) != 0)
		sf_session.address[0] = '\0';
}

/* Handle a connection that the library has given up. */
static void
handle_loss(void)
{
	conn.is_lost = false;
	if (zoo_state(sf_session.handle) == ZOO_EXPIRED_SESSION_STATE)
	{
		/* begin another session at once */
		close_handle(false);
		memset(&sf_session.id, 0, sizeof(sf_session.id));
		conn.state = SF_SESSION_CONNECTING;
		make_handle();
	}
	else if (zoo_state(sf_session.handle) == ZOO_AUTH_FAILED_STATE)
	{
		sf_session_disconnect("the user and the password are refused");
		sf_session.failure = SF_FAILURE_LOGIN;
	}
	else
		sf_session_disconnect(NULL);
}

static void
begin_session(void)
{
	int			timeout_ms = zoo_recv_timeout(sf_session.handle);

	if (timeout_ms <= 0 || timeout_ms > MAX_TIMEOUT_MS)
	{
		memset(&sf_session.id, 0, sizeof(sf_session.id));
		sf_session_disconnect("this is not a ZooKeeper server");
		return;
	}
	sf_session.id = *zoo_client_id(sf_session.handle);
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
		(zookeeper_interest(sf_session.handle, &fd, interest, wait) != ZOK ||
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
		return sf_session.handle != NULL;
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
	result = zookeeper_process(sf_session.handle, events);
	if ((result != ZOK && result != ZNOTHING) || !is_open())
		handle_loss();
	else if (conn.state == SF_SESSION_CONNECTING &&
			 zoo_state(sf_session.handle) == ZOO_CONNECTED_STATE)
		begin_session();
	else if (result == ZNOTHING)
		return false;			/* only part of a message has come */
	return sf_session.handle != NULL;
}

/* Continue as far as that is possible without waiting. */
SfSessionState
sf_session_continue(void)
{
	char		text[LOOKUP_SIZE];

	if (conn.is_looking_up)
	{
		if (lookup_goes_on(hosts.current))
			return conn.state;
		if (!get_address(hosts.current, hosts.turn, text, &hosts.naddresses))
		{
			sf_session_disconnect(text);
			return conn.state;
		}
		conn.is_looking_up = false;
		strlcpy(conn.peer, text, sizeof(conn.peer));
		make_handle();
	}
	while (sf_session.handle != NULL && process())
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
	if (sf_session.handle == NULL)
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

/* ---- open and close ---- */

/* Take the setting, and set *prefix to the path above all nodes. */
bool
sf_session_open(const char *text, const SfBackendConfig *config,
				char **prefix, char *reason, size_t reason_size)
{
	memset(&hosts, 0, sizeof(hosts));
	hosts.settings = config;
	sf_session.address[0] = '\0';
	if (!parse_location(&hosts.location, text, reason, reason_size))
		return false;
	sf_session.host = hosts.location.uri.hosts[0];
	*prefix = hosts.location.prefix;
	return true;
}

void
sf_session_close(void)
{
	sf_session_end();
	sf_batch_begin(NULL);
}
