/*-------------------------------------------------------------------------
 *
 * uri.c
 *	  The parts of snowflake.registry for a registry that is given by its
 *	  hosts, and the file with the password.
 *
 * Other users can read the setting too.  So a password is better kept in a
 * file that only the server's account can read, like a private key.
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

#include "common.h"

#define CREDENTIALS_SIZE	1024

#define ESCAPE \
	"In a user and a password \"/\" is written as %%2F, and \"?\" as %%3F."

/* Write the reason why a text is refused, and return false. */
bool
sf_uri_refuse(char *reason, size_t reason_size, const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(reason, reason_size, format, args);
	va_end(args);
	return false;
}

/* ---- the text ---- */

/* Return true if a host (also an IPv6 one in brackets) has a port. */
static bool
has_port(const char *host)
{
	const char *bracket = strrchr(host, ']');

	return strchr(bracket == NULL ? host : bracket, ':') != NULL;
}

/* Return true if a text has only characters of names, addresses and ports. */
static bool
is_host(const char *text)
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
parse_hosts(SfUri *uri, char *text, const char *port, const char *what,
			char *reason, size_t reason_size)
{
	char	   *next;

	for (char *p = text; p != NULL; p = next)
	{
		next = strchr(p, ',');
		if (next != NULL)
			*next++ = '\0';
		if (!is_host(p))
			return sf_uri_refuse(reason, reason_size,
								 "\"%s\" is neither a host of %s nor a host and a port.",
								 p, what);
		if (uri->nhosts == SF_URI_HOSTS)
			return sf_uri_refuse(reason, reason_size,
								 "There are more than %d hosts in it.", SF_URI_HOSTS);
		uri->hosts[uri->nhosts++] = has_port(p) ? p :
			psprintf("%s:%s", p, port);
	}
	return true;
}

/*
 * Return true if the end of a password seems to be among the options.  An
 * option has an "@" only in its value, which is the full path of a file.
 */
static bool
has_stray_at(const char *options)
{
	const char *at = options == NULL ? NULL : strchr(options, '@');
	const char *option = at;
	const char *value;

	if (at == NULL)
		return false;
	while (option > options && option[-1] != '&')
		option--;
	value = strstr(option, "=/");
	return value == NULL || value > at;
}

/*
 * Parse a setting; the results are in the current memory context.  "what" says
 * in an error which host was expected.  The error does not repeat a text that
 * may be part of a password.
 */
bool
sf_uri_parse(SfUri *uri, const char *text, const char *port, const char *what,
			 char *reason, size_t reason_size)
{
	const char *scheme_end = strstr(text, "://");
	char	   *hosts;
	char	   *at;
	bool		ends_early;		/* the "/" or "?" may be in a password */

	memset(uri, 0, sizeof(SfUri));
	if (scheme_end == NULL)
		return sf_uri_refuse(reason, reason_size,
							 "There is no \"://\" in it.");
	hosts = pstrdup(scheme_end + 3);
	uri->options = strchr(hosts, '?');
	if (uri->options != NULL)
		*uri->options++ = '\0';
	uri->path = strchr(hosts, '/');
	if (uri->path != NULL)
		*uri->path++ = '\0';
	at = strrchr(hosts, '@');
	if (at != NULL)
	{
		*at = '\0';
		uri->user = hosts;
		hosts = at + 1;
	}
	ends_early = at == NULL && strchr(text, '@') != NULL;
	if (has_stray_at(uri->options))
		return sf_uri_refuse(reason, reason_size, ESCAPE);
	if (uri->path != NULL)
	{
		while (uri->path[0] != '\0' && uri->path[strlen(uri->path) - 1] == '/')
			uri->path[strlen(uri->path) - 1] = '\0';
		if (uri->path[0] == '\0')
			uri->path = NULL;
	}
	if (parse_hosts(uri, hosts, port, what, reason, reason_size))
		return true;
	if (ends_early)
		return sf_uri_refuse(reason, reason_size, ESCAPE);
	return false;
}

/*
 * Parse the options.  Each is the full path of a file, and sets the one of
 * "files" that has the place of its name in "names", a list that ends in NULL.
 * "known" says in an error which options there are.
 */
bool
sf_uri_options(char *options, const char *const *names, char **files,
			   const char *known, char *reason, size_t reason_size)
{
	while (options != NULL && options[0] != '\0')
	{
		char	   *option = options;
		char	   *value;
		int			i = 0;

		options = strchr(option, '&');
		if (options != NULL)
			*options++ = '\0';
		value = strchr(option, '=');
		if (value != NULL)
			*value++ = '\0';
		while (names[i] != NULL && strcmp(option, names[i]) != 0)
			i++;
		if (names[i] == NULL)
			return sf_uri_refuse(reason, reason_size,
								 "There is no option \"%s\". %s", option, known);
		if (value == NULL || value[0] != '/')
			return sf_uri_refuse(reason, reason_size,
								 "The option \"%s\" needs the full path of a file.", option);
		files[i] = value;
	}
	return true;
}

/* Join hosts for a command. */
char *
sf_uri_hosts(char *const *hosts, int nhosts)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < nhosts; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? "," : "", hosts[i]);
	return buf.data;
}

/* ---- the file with the password ---- */

/*
 * Read user and password.  This is done at each use, so that they can be
 * changed while the server runs.
 */
bool
sf_uri_credentials(const char *file, char **user, char **password,
				   char *reason, size_t reason_size)
{
	char	   *text = palloc0(CREDENTIALS_SIZE + 1);
	int			fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t		n;

	if (fd < 0)
		return sf_uri_refuse(reason, reason_size,
							 "Could not open \"%s\": %s.", file, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
		(st.st_mode & (S_IRWXO | S_IWGRP | S_IXGRP)) != 0 ||
		((st.st_mode & S_IRGRP) != 0 && st.st_uid != 0))
	{
		close(fd);
		return sf_uri_refuse(reason, reason_size,
							 "\"%s\" must be a file that nobody else can read (0600), or root's and its group's (0640).",
							 file);
	}
	n = read(fd, text, CREDENTIALS_SIZE);
	close(fd);
	*user = text;
	*password = n > 0 ? strchr(text, '\n') : NULL;
	if (*password == NULL || n == CREDENTIALS_SIZE)
		return sf_uri_refuse(reason, reason_size,
							 "\"%s\" does not have two lines, the user's name and the password.",
							 file);
	*(*password)++ = '\0';
	(*password)[strcspn(*password, "\r\n")] = '\0';
	text[strcspn(text, "\r")] = '\0';
	return true;
}

/* Return the user in such a file, quoted for a shell; or NULL. */
char *
sf_uri_user(const char *file)
{
	char		reason[SF_REASON_SIZE];
	char	   *user;
	char	   *password;

	if (file == NULL ||
		!sf_uri_credentials(file, &user, &password, reason, sizeof(reason)))
		return NULL;
	return sf_harness_quote(user, '\'');
}
