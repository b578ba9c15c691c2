/*-------------------------------------------------------------------------
 *
 * url.c
 *	  Parser of snowflake.registry for an etcd:
 *
 *		etcd://host:2379,host2:2379/prefix?credentials=/file&cacert=/file
 *
 * The text holds no secret: the password is in a file (uri.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "url.h"

#define DEFAULT_PORT		"2379"
#define DEFAULT_PREFIX		"snowflake"

static bool
set_option(SfEtcdUrl *url, const char *option, char *value, char *reason,
		   size_t reason_size)
{
	char	  **file;

	if (strcmp(option, "credentials") == 0)
		file = &url->credentials;
	else if (strcmp(option, "cacert") == 0)
		file = &url->cacert;
	else if (strcmp(option, "cert") == 0)
		file = &url->cert;
	else if (strcmp(option, "key") == 0)
		file = &url->key;
	else
		return sf_uri_refuse(reason, reason_size,
							 "There is no option \"%s\". The options are credentials, cacert, cert and key.",
							 option);
	if (value == NULL || value[0] != '/')
		return sf_uri_refuse(reason, reason_size,
							 "The option \"%s\" needs the full path of a file.", option);
	*file = value;
	return true;
}

/* Parse a setting.  The results are in the current memory context. */
bool
sf_etcd_url_parse(SfEtcdUrl *url, const char *text, char *reason,
				  size_t reason_size)
{
	SfUri		uri;
	char	   *option;
	char	   *value;
	bool		is_tls = strncmp(text, "etcds://", 8) == 0;

	memset(url, 0, sizeof(SfEtcdUrl));
	if (!is_tls && strncmp(text, "etcd://", 7) != 0)
		return sf_uri_refuse(reason, reason_size,
							 "It does not begin with etcd:// or etcds://.");
	if (!sf_uri_parse(&uri, text, DEFAULT_PORT, "an etcd", reason,
					  reason_size))
		return false;
	if (uri.user != NULL)
		return sf_uri_refuse(reason, reason_size,
							 "A setting must not hold the user and the password. Put them into a file, and name the file: ?credentials=/path.");
	while ((option = sf_uri_next_option(&uri.options, &value)) != NULL)
	{
		if (!set_option(url, option, value, reason, reason_size))
			return false;
	}
	if ((url->cert == NULL) != (url->key == NULL))
		return sf_uri_refuse(reason, reason_size,
							 "The options \"cert\" and \"key\" go together.");
	is_tls = is_tls || url->cacert != NULL || url->cert != NULL;
	url->prefix = uri.path != NULL ? uri.path : pstrdup(DEFAULT_PREFIX);
	for (int i = 0; i < uri.nhosts; i++)
		url->endpoints[i] = psprintf("%s://%s", is_tls ? "https" : "http",
									 uri.hosts[i]);
	url->nendpoints = uri.nhosts;
	return true;
}
