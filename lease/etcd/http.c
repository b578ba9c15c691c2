/*-------------------------------------------------------------------------
 *
 * http.c
 *	  Non-blocking HTTP client for one POST at a time, by libcurl.
 *
 * Each connection is used once.  If libcurl finds an idle connection dead, it
 * sends the request again, so a write could be made twice.  If a firewall has
 * dropped the idle connection, the request would wait for a time-out.  No TLS
 * session is resumed either: in a resumed session, neither side checks the
 * other's certificate.
 *
 * libcurl resolves names in a thread.  That thread must not handle signals, so
 * all signals are blocked while libcurl may create one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <signal.h>
#include <curl/curl.h>

#include "etcd.h"

/*
 * The longest answer, which may hold the records of all slots.  Whatever is
 * longer is not the registry's.
 */
#define MB			((size_t) 1024 * 1024)
#define BODY_MAX	(64 * MB)
#define SLOT_MAX	2048

static struct
{
	CURLM	   *multi;
	CURL	   *easy;			/* not NULL while multi is not NULL */
	bool		has_certificate;	/* a client certificate is configured */

	/* The request, and how much of it libcurl has taken. */
	struct curl_slist *headers;
	bool		is_busy;		/* easy was added to multi */
	bool		is_failed;		/* could not begin: out of memory */
	char	   *request;
	size_t		request_len;
	size_t		request_sent;

	/* The answer. */
	char	   *body;
	size_t		body_len;
	size_t		body_max;
	bool		is_too_long;	/* more than body_max */
	int64		date_ms;
	char		problem[CURL_ERROR_SIZE];
}			http;

/* ---- callbacks ---- */

static size_t
send_data(char *buffer, size_t size, size_t n, void *unused)
{
	size_t		len = Min(http.request_len - http.request_sent, size * n);

	memcpy(buffer, http.request + http.request_sent, len);
	http.request_sent += len;
	return len;
}

static size_t
receive_data(char *data, size_t size, size_t n, void *unused)
{
	size_t		len = size * n;
	char	   *longer;

	http.is_too_long = http.body_len + len > http.body_max;
	if (http.is_too_long)
		return 0;
	longer = realloc(http.body, http.body_len + len + 1);
	if (longer == NULL)
		return 0;
	http.body = longer;
	memcpy(http.body + http.body_len, data, len);
	http.body_len += len;
	http.body[http.body_len] = '\0';
	return len;
}

/* Read an answer's Date header, which has whole seconds. */
static size_t
receive_header(char *line, size_t size, size_t n, void *unused)
{
	char		date[64];
	size_t		len = size * n;
	time_t		t;

	if (len > 5 && len - 5 < sizeof(date) &&
		pg_strncasecmp(line, "Date:", 5) == 0)
	{
		memcpy(date, line + 5, len - 5);
		date[len - 5] = '\0';
		t = curl_getdate(date, NULL);
		http.date_ms = t < 0 || t > PG_INT64_MAX / 1000 ? 0 : (int64) t * 1000;
	}
	return len;
}

/* ---- a request ---- */

static void
end_request(void)
{
	if (http.is_busy)
		curl_multi_remove_handle(http.multi, http.easy);
	http.is_busy = false;
	curl_slist_free_all(http.headers);
	http.headers = NULL;
	free(http.request);
	http.request = NULL;
	free(http.body);
	http.body = NULL;
	http.body_len = 0;
	http.is_too_long = false;
}

/*
 * Set up a client without defaults from outside: no proxy, no redirection, no
 * password from the environment, and a fixed version of HTTP.
 */
bool
sf_http_open(const char *cacert, const char *cert, const char *key,
			 int64 slots)
{
	bool		ok;

	http.body_max = Min(MB + slots * SLOT_MAX, BODY_MAX);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return false;
	http.multi = curl_multi_init();
	http.easy = curl_easy_init();
	if (http.multi == NULL || http.easy == NULL)
		return false;
	ok = curl_easy_setopt(http.easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_PROXY, "") == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_NETRC,
						 (long) CURL_NETRC_IGNORED) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_HTTP_VERSION,
						 (long) CURL_HTTP_VERSION_1_1) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_SSL_SESSIONID_CACHE,
						 0L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_ERRORBUFFER,
						 http.problem) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_POST, 1L) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_READFUNCTION,
						 send_data) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_WRITEFUNCTION,
						 receive_data) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_HEADERFUNCTION,
						 receive_header) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
	/* if a request is abandoned, do not wait for the thread of the resolver */
	ok = ok && curl_easy_setopt(http.easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
	/* read the file of authorities for each connection, like the others */
	(void) curl_easy_setopt(http.easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
#if LIBCURL_VERSION_NUM >= 0x081400
	/* in these versions the threads belong to the multi handle */
	ok = ok && curl_multi_setopt(http.multi, CURLMOPT_QUICK_EXIT,
								 1L) == CURLM_OK;
#endif
	if (cacert != NULL)
		ok = ok &&
			curl_easy_setopt(http.easy, CURLOPT_CAINFO, cacert) == CURLE_OK;
	http.has_certificate = cert != NULL;
	if (cert != NULL)
		ok = ok &&
			curl_easy_setopt(http.easy, CURLOPT_SSLCERT, cert) == CURLE_OK &&
			curl_easy_setopt(http.easy, CURLOPT_SSLKEY, key) == CURLE_OK;
	return ok;
}

static bool
add_header(const char *line)
{
	struct curl_slist *longer = curl_slist_append(http.headers, line);

	if (longer != NULL)
		http.headers = longer;
	return longer != NULL;
}

/*
 * Drop the previous request, and give this one to libcurl, which connects and
 * sends in sf_http_receive().  The token may be NULL.
 */
void
sf_http_post(const char *url, const char *token, const char *text,
			 int64 timeout_ms, int64 connect_timeout_ms)
{
	bool		ok = true;

	end_request();
	http.problem[0] = '\0';
	http.request = strdup(text);
	http.request_len = strlen(text);
	http.request_sent = 0;
	http.date_ms = 0;
	if (token != NULL)
	{
		char	   *line = psprintf("Authorization: %s", token);

		ok = add_header(line);
		pfree(line);
	}
	ok = ok && http.request != NULL &&
		add_header("Content-Type: application/json") &&
		add_header("Expect:") &&
		curl_easy_setopt(http.easy, CURLOPT_URL, url) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_HTTPHEADER,
						 http.headers) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_POSTFIELDSIZE_LARGE,
						 (curl_off_t) http.request_len) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_TIMEOUT_MS,
						 (long) timeout_ms) == CURLE_OK &&
		curl_easy_setopt(http.easy, CURLOPT_CONNECTTIMEOUT_MS,
						 (long) connect_timeout_ms) == CURLE_OK &&
		curl_multi_add_handle(http.multi, http.easy) == CURLM_OK;
	http.is_busy = ok;
	http.is_failed = !ok;
}

/*
 * Return true if a certificate was refused.  If the server refuses ours, it
 * may send an alert of TLS at any time.
 */
static bool
is_about_certificates(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION ||
		code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
		code == CURLE_SSL_ISSUER_ERROR ||
		code == CURLE_SSL_INVALIDCERTSTATUS ||
		strstr(http.problem, " alert ") != NULL;
}

/*
 * Return true if the server probably refused our certificate.  In TLS 1.3 the
 * server checks it after our side of the handshake is complete, and then
 * closes the connection.  The reason comes too late to be read.
 */
static bool
was_turned_away(CURLcode code)
{
	curl_off_t	handshake_us = 0;

	return http.has_certificate && http.body == NULL &&
		(code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
		 code == CURLE_GOT_NOTHING) &&
		curl_easy_getinfo(http.easy, CURLINFO_APPCONNECT_TIME_T,
						  &handshake_us) == CURLE_OK && handshake_us > 0;
}

static void
set_no_memory(SfHttpAnswer *answer)
{
	answer->failure = SF_FAILURE_OTHER;
	answer->problem = "this server is out of memory";
}

static void
finish(CURLcode code, SfHttpAnswer *answer)
{
	long		status = 0;
	char	   *address = NULL;

	memset(answer, 0, sizeof(SfHttpAnswer));
	answer->sent = http.request_sent > 0;
	answer->failure = SF_FAILURE_UNREACHABLE;
	answer->problem = http.problem[0] != '\0' ? http.problem :
		curl_easy_strerror(code);
	if (is_about_certificates(code))
		answer->failure = SF_FAILURE_CERTIFICATE;
	else if (was_turned_away(code))
	{
		answer->failure = SF_FAILURE_CERTIFICATE;
		answer->problem = "it closed the connection after the TLS handshake, as a server does that refuses our certificate";
	}
	else if (code == CURLE_OPERATION_TIMEDOUT)
		answer->failure = SF_FAILURE_TIMEOUT;
	else if (code == CURLE_WRITE_ERROR && http.is_too_long)
	{
		answer->failure = SF_FAILURE_TOO_LONG;
		snprintf(http.problem, sizeof(http.problem),
				 "its answer is longer than %zu MB", http.body_max / MB);
		answer->problem = http.problem;
	}
	else if (code == CURLE_WRITE_ERROR || code == CURLE_OUT_OF_MEMORY)
		set_no_memory(answer);
	answer->body = http.body != NULL ? http.body : "";
	if (code == CURLE_OK &&
		curl_easy_getinfo(http.easy, CURLINFO_RESPONSE_CODE,
						  &status) == CURLE_OK)
	{
		answer->status = status;
		answer->date_ms = http.date_ms;
		if (curl_easy_getinfo(http.easy, CURLINFO_LOCAL_IP,
							  &address) == CURLE_OK)
			answer->address = address;
	}
	curl_multi_remove_handle(http.multi, http.easy);
	http.is_busy = false;
}

/* Return true once per request.  The answer lives until the next request. */
bool
sf_http_receive(SfHttpAnswer *answer)
{
	sigset_t	all;
	sigset_t	before;
	int			running;
	int			left;
	CURLMsg    *message;
	CURLMcode	code;

	if (http.is_failed)
	{
		http.is_failed = false;
		memset(answer, 0, sizeof(SfHttpAnswer));
		set_no_memory(answer);
		return true;
	}
	if (!http.is_busy)
		return false;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	code = curl_multi_perform(http.multi, &running);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (code != CURLM_OK)
	{
		finish(CURLE_FAILED_INIT, answer);
		return true;
	}
	while ((message = curl_multi_info_read(http.multi, &left)) != NULL)
	{
		if (message->msg != CURLMSG_DONE)
			continue;
		finish(message->data.result, answer);
		return true;
	}
	return false;
}

int
sf_http_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	fd_set		reads;
	fd_set		writes;
	fd_set		others;
	int			last = -1;
	int			n = 0;
	long		wait = -1;

	if (http.is_failed)
		*timeout_ms = 0;
	if (!http.is_busy)
		return 0;
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_ZERO(&others);
	curl_multi_fdset(http.multi, &reads, &writes, &others, &last);
	for (int fd = 0; fd <= last && n < SF_BACKEND_SOCKETS; fd++)
	{
		if (!FD_ISSET(fd, &reads) && !FD_ISSET(fd, &writes))
			continue;
		sockets[n].fd = fd;
		sockets[n].readable = FD_ISSET(fd, &reads);
		sockets[n++].writeable = FD_ISSET(fd, &writes);
	}

	/*
	 * After sf_http_post() it is 0: sf_http_receive() is to begin.  Without a
	 * socket, libcurl may wait for its resolver thread.
	 */
	curl_multi_timeout(http.multi, &wait);
	if (n == 0 && (wait < 0 || wait > 100))
		wait = 100;
	if (wait >= 0)
		*timeout_ms = wait;
	return n;
}

void
sf_http_cancel(void)
{
	end_request();
	http.is_failed = false;
}

void
sf_http_close(void)
{
	sf_http_cancel();
	curl_easy_cleanup(http.easy);
	http.easy = NULL;
	if (http.multi != NULL)
		curl_multi_cleanup(http.multi);
	http.multi = NULL;
}
