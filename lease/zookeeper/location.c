/*-------------------------------------------------------------------------
 *
 * location.c
 *	  Parser of snowflake.registry for a ZooKeeper:
 *
 *		zookeeper://user:password@host:2181,host2:2181/path?credentials=/file
 *
 * User and password are in the text or in the file.  In the text, every
 * character other than a letter or a digit can be written as %XX.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>

#include "session.h"

#define SCHEME			"zookeeper://"
#define DEFAULT_PORT	"2181"
#define DEFAULT_PREFIX	"/snowflake"

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
take_user(SfZooLocation *location, char *reason, size_t reason_size)
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
bool
sf_zoo_location_parse(SfZooLocation *location, const char *text, char *reason,
					  size_t reason_size)
{
	SfUri	   *uri = &location->uri;
	char	   *option;
	char	   *value;

	memset(location, 0, sizeof(SfZooLocation));
	if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
		return sf_uri_refuse(reason, reason_size,
							 "It does not begin with " SCHEME ".");
	if (!sf_uri_parse(uri, text, DEFAULT_PORT, "a ZooKeeper", reason,
					  reason_size))
		return false;
	while ((option = sf_uri_next_option(&uri->options, &value)) != NULL)
	{
		if (strcmp(option, "credentials") != 0)
			return sf_uri_refuse(reason, reason_size,
								 "There is no option \"%s\". The only option is credentials.", option);
		if (value == NULL || value[0] != '/')
			return sf_uri_refuse(reason, reason_size,
								 "The option \"%s\" needs the full path of a file.", option);
		location->credentials = value;
	}
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
bool
sf_zoo_location_digest(const SfZooLocation *location, char **digest,
					   char *reason, size_t reason_size)
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
