/*-------------------------------------------------------------------------
 *
 * http.c
 *	  One POST at a time, without blocking, by libcurl.
 *
 * A connection is used once.  On one that was idle, libcurl would send a
 * request again when it finds the connection dead: a write would be made
 * twice.  And what has fallen into oblivion between us and the server while
 * it was idle would cost a time-out.
 *
 * libcurl looks names up in a thread.  No signal may be handled there, so they
 * are blocked where threads are made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <signal.h>
#include <curl/curl.h>

#include "http.h"

#define BODY_MAX	(64 * 1024 * 1024)

static CURLM *multi;
static CURL *easy;				/* not NULL while the other is there */
static struct curl_slist *headers;
static bool is_busy;			/* easy is in multi */
static bool is_failed;			/* could not begin: out of memory */
static char problem[CURL_ERROR_SIZE];

/* What is sent: how far, and whether anything was asked for. */
static char *request;
static size_t request_len;
static size_t request_sent;

static char *body;
static size_t body_len;
static int64 date_ms;

/* ---- what libcurl calls ---- */

static size_t
give(char *buffer, size_t size, size_t n, void *unused)
{
	size_t		len = Min(request_len - request_sent, size * n);

	memcpy(buffer, request + request_sent, len);
	request_sent += len;
	return len;
}

static size_t
take(char *data, size_t size, size_t n, void *unused)
{
	size_t		len = size * n;
	char	   *longer;

	if (body_len + len > BODY_MAX)
		return 0;
	longer = realloc(body, body_len + len + 1);
	if (longer == NULL)
		return 0;
	body = longer;
	memcpy(body + body_len, data, len);
	body_len += len;
	body[body_len] = '\0';
	return len;
}

/* The Date of an answer, which has whole seconds. */
static size_t
take_header(char *line, size_t size, size_t n, void *unused)
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
		date_ms = t < 0 ? 0 : (int64) t * 1000;
	}
	return len;
}

/* ---- a request ---- */

static void
drop(void)
{
	if (is_busy)
		curl_multi_remove_handle(multi, easy);
	is_busy = false;
	curl_slist_free_all(headers);
	headers = NULL;
	free(request);
	request = NULL;
	free(body);
	body = NULL;
	body_len = 0;
}

/*
 * An HTTP client that has no opinions: no proxy, no redirection, no password
 * out of the environment, no version of HTTP to be found out.
 */
bool
sf_http_open(const char *cacert, const char *cert, const char *key)
{
	bool		ok;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return false;
	multi = curl_multi_init();
	easy = curl_easy_init();
	if (multi == NULL || easy == NULL)
		return false;
	ok = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_NETRC,
						 (long) CURL_NETRC_IGNORED) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
						 (long) CURL_HTTP_VERSION_1_1) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, give) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION,
						 take_header) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
	/* do not wait for a thread that looks up a name, when we give up */
	ok = ok && curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#endif
	if (cacert != NULL)
		ok = ok &&
			curl_easy_setopt(easy, CURLOPT_CAINFO, cacert) == CURLE_OK;
	if (cert != NULL)
		ok = ok &&
			curl_easy_setopt(easy, CURLOPT_SSLCERT, cert) == CURLE_OK &&
			curl_easy_setopt(easy, CURLOPT_SSLKEY, key) == CURLE_OK;
	return ok;
}

static bool
add_header(const char *line)
{
	struct curl_slist *longer = curl_slist_append(headers, line);

	if (longer != NULL)
		headers = longer;
	return longer != NULL;
}

/* The token is NULL if there is none.  Drops the request before. */
void
sf_http_post(const char *url, const char *token, const char *text,
			 int64 timeout_ms, int64 connect_timeout_ms)
{
	bool		ok = true;

	drop();
	problem[0] = '\0';
	request = strdup(text);
	request_len = strlen(text);
	request_sent = 0;
	date_ms = 0;
	if (token != NULL)
	{
		char	   *line = psprintf("Authorization: %s", token);

		ok = add_header(line);
		pfree(line);
	}
	ok = ok && request != NULL &&
		add_header("Content-Type: application/json") &&
		add_header("Expect:") &&
		curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
						 (curl_off_t) request_len) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
						 (long) timeout_ms) == CURLE_OK &&
		curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
						 (long) connect_timeout_ms) == CURLE_OK &&
		curl_multi_add_handle(multi, easy) == CURLM_OK;
	is_busy = ok;
	is_failed = !ok;
}

static void
finish(CURLcode code, SfHttpAnswer *answer)
{
	long		status = 0;
	char	   *address = NULL;

	memset(answer, 0, sizeof(SfHttpAnswer));
	answer->sent = request_sent > 0;
	answer->problem = problem[0] != '\0' ? problem : curl_easy_strerror(code);
	answer->body = body != NULL ? body : "";
	if (code == CURLE_OK &&
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
	{
		answer->status = status;
		answer->date_ms = date_ms;
		if (curl_easy_getinfo(easy, CURLINFO_LOCAL_IP, &address) == CURLE_OK)
			answer->address = address;
	}
	curl_multi_remove_handle(multi, easy);
	is_busy = false;
}

/* True once for each request.  The answer lives until the next one. */
bool
sf_http_receive(SfHttpAnswer *answer)
{
	sigset_t	all;
	sigset_t	before;
	int			running;
	int			left;
	CURLMsg    *message;
	CURLMcode	code;

	if (is_failed)
	{
		is_failed = false;
		memset(answer, 0, sizeof(SfHttpAnswer));
		answer->problem = "out of memory";
		return true;
	}
	if (!is_busy)
		return false;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	code = curl_multi_perform(multi, &running);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (code != CURLM_OK)
	{
		finish(CURLE_FAILED_INIT, answer);
		return true;
	}
	while ((message = curl_multi_info_read(multi, &left)) != NULL)
	{
		if (message->msg != CURLMSG_DONE)
			continue;
		finish(message->data.result, answer);
		return true;
	}
	return false;
}

int
sf_http_sockets(SfSocket *sockets, int64 *timeout_ms)
{
	fd_set		reads;
	fd_set		writes;
	fd_set		others;
	int			last = -1;
	int			n = 0;
	long		wait = -1;

	if (is_failed)
		*timeout_ms = 0;
	if (!is_busy)
		return 0;
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_ZERO(&others);
	curl_multi_fdset(multi, &reads, &writes, &others, &last);
	for (int fd = 0; fd <= last && n < SF_BACKEND_SOCKETS; fd++)
	{
		if (!FD_ISSET(fd, &reads) && !FD_ISSET(fd, &writes))
			continue;
		sockets[n].fd = fd;
		sockets[n].readable = FD_ISSET(fd, &reads);
		sockets[n++].writeable = FD_ISSET(fd, &writes);
	}
	/* without a socket it may do something that has none */
	curl_multi_timeout(multi, &wait);
	if (n == 0 && (wait < 0 || wait > 100))
		wait = 100;
	if (wait >= 0)
		*timeout_ms = wait;
	return n;
}

void
sf_http_cancel(void)
{
	drop();
	is_failed = false;
}

void
sf_http_close(void)
{
	sf_http_cancel();
	curl_easy_cleanup(easy);
	easy = NULL;
	if (multi != NULL)
		curl_multi_cleanup(multi);
	multi = NULL;
}
