/*-------------------------------------------------------------------------
 *
 * url.c
 *	  What snowflake.registry says of an etcd.
 *
 *		etcd://host:2379,host2:2379/prefix?credentials=/file&cacert=/file
 *
 * Not only the server reads the setting, so there is no secret in it: a
 * password is in a file that only the server's account can read, as a private
 * key is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "url.h"

#define DEFAULT_PORT		"2379"
#define DEFAULT_PREFIX		"snowflake"
#define CREDENTIALS_SIZE	1024

#define refuse(...) \
	do { snprintf(reason, reason_size, __VA_ARGS__); return false; } while (0)

/* ---- the text ---- */

/* Is there a port behind a host, which may be an IPv6 address in brackets? */
static bool
has_port(const char *host)
{
	const char *bracket = strrchr(host, ']');

	return strchr(bracket == NULL ? host : bracket, ':') != NULL;
}

/* Only what names, addresses and ports are made of. */
static bool
is_endpoint(const char *text)
{
	const char *p = text;

	if (*p == '[')
	{
		p += strspn(p, "[:.0123456789abcdefABCDEF");
		if (*p++ != ']')
			return false;
	}
	else
	{
		while (isalnum((unsigned char) *p) || *p == '.' || *p == '-' ||
			   *p == '_')
			p++;
		if (p == text)
			return false;
	}
	if (*p == '\0')
		return true;
	return *p == ':' && p[1] != '\0' &&
		strspn(p + 1, "0123456789") == strlen(p + 1);
}

static bool
parse_endpoints(SfEtcdUrl *url, char *text, bool is_tls, char *reason,
				size_t reason_size)
{
	char	   *next;

	for (char *p = text; p != NULL; p = next)
	{
		next = strchr(p, ',');
		if (next != NULL)
			*next++ = '\0';
		if (!is_endpoint(p))
			refuse("\"%s\" is not the host of an etcd, or a host and a port.",
				   p);
		if (url->nendpoints == SF_ETCD_ENDPOINTS)
			refuse("These are more than %d hosts.", SF_ETCD_ENDPOINTS);
		url->endpoints[url->nendpoints++] =
			psprintf("%s://%s%s%s", is_tls ? "https" : "http", p,
					 has_port(p) ? "" : ":",
					 has_port(p) ? "" : DEFAULT_PORT);
	}
	return true;
}

static bool
parse_option(SfEtcdUrl *url, char *option, char *reason, size_t reason_size)
{
	char	   *value = strchr(option, '=');
	char	  **file;

	if (value != NULL)
		*value++ = '\0';
	if (strcmp(option, "credentials") == 0)
		file = &url->credentials;
	else if (strcmp(option, "cacert") == 0)
		file = &url->cacert;
	else if (strcmp(option, "cert") == 0)
		file = &url->cert;
	else if (strcmp(option, "key") == 0)
		file = &url->key;
	else
		refuse("There is no option \"%s\"; there are credentials, cacert, cert and key.",
			   option);
	if (value == NULL || value[0] != '/')
		refuse("The option \"%s\" wants the full path of a file.", option);
	*file = value;
	return true;
}

/* The results are in one piece, in the current memory context. */
bool
sf_etcd_url_parse(SfEtcdUrl *url, const char *text, char *reason,
				  size_t reason_size)
{
	const char *rest = strstr(text, "://");
	char	   *hosts;
	char	   *options;
	char	   *next;
	bool		is_tls = strncmp(text, "etcds://", 8) == 0;

	memset(url, 0, sizeof(SfEtcdUrl));
	if (rest == NULL || (!is_tls && strncmp(text, "etcd://", 7) != 0))
		refuse("It does not begin with etcd:// or etcds://.");
	hosts = pstrdup(rest + 3);
	options = strchr(hosts, '?');
	if (options != NULL)
		*options++ = '\0';
	url->prefix = strchr(hosts, '/');
	if (url->prefix != NULL)
		*url->prefix++ = '\0';
	if (strchr(hosts, '@') != NULL)
		refuse("A user and a password do not belong into a setting, but into a file: ?credentials=/path.");

	for (char *p = options; p != NULL && *p != '\0'; p = next)
	{
		next = strchr(p, '&');
		if (next != NULL)
			*next++ = '\0';
		if (!parse_option(url, p, reason, reason_size))
			return false;
	}
	if ((url->cert == NULL) != (url->key == NULL))
		refuse("The options \"cert\" and \"key\" go together.");
	is_tls = is_tls || url->cacert != NULL || url->cert != NULL;

	if (url->prefix == NULL || url->prefix[strspn(url->prefix, "/")] == '\0')
		url->prefix = pstrdup(DEFAULT_PREFIX);
	while (url->prefix[strlen(url->prefix) - 1] == '/')
		url->prefix[strlen(url->prefix) - 1] = '\0';
	return parse_endpoints(url, hosts, is_tls, reason, reason_size);
}

/* ---- the file with the password ---- */

/*
 * Read user and password, each time that they are needed, so that they can be
 * changed while the server runs.
 */
bool
sf_etcd_credentials(const SfEtcdUrl *url, char **user, char **password,
					char *reason, size_t reason_size)
{
	char	   *text = palloc0(CREDENTIALS_SIZE + 1);
	int			fd = open(url->credentials, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t		n;

	if (fd < 0)
		refuse("Could not open \"%s\": %s.", url->credentials,
			   strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
		(st.st_mode & (S_IRWXO | S_IWGRP | S_IXGRP)) != 0 ||
		((st.st_mode & S_IRGRP) != 0 && st.st_uid != 0))
	{
		close(fd);
		refuse("\"%s\" must be a file that nobody else can read (0600), or root's and its group's (0640).",
			   url->credentials);
	}
	n = read(fd, text, CREDENTIALS_SIZE);
	close(fd);
	*user = text;
	*password = n > 0 ? strchr(text, '\n') : NULL;
	if (*password == NULL || n == CREDENTIALS_SIZE)
		refuse("\"%s\" does not have two lines, the user's name and the password.",
			   url->credentials);
	*(*password)++ = '\0';
	(*password)[strcspn(*password, "\r\n")] = '\0';
	text[strcspn(text, "\r")] = '\0';
	return true;
}
