/*-------------------------------------------------------------------------
 *
 * uri.h
 *	  The parts of snowflake.registry for a registry that is given by its
 *	  hosts, for example "etcd://a:2379,b:2379/prefix?cacert=/file".
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_URI_H
#define SF_URI_H

#define SF_URI_HOSTS	16

typedef struct SfUri
{
	char	   *user;			/* before the "@"; or NULL */
	int			nhosts;
	char	   *hosts[SF_URI_HOSTS];	/* "host:port", "[::1]:port" */
	char	   *path;			/* without slashes at the end; or NULL */
	char	   *options;		/* after the "?"; or NULL */
} SfUri;

extern bool sf_uri_refuse(char *reason, size_t reason_size,
						  const char *format, ...) pg_attribute_printf(3, 4);
extern bool sf_uri_parse(SfUri *uri, const char *text, const char *port,
						 const char *what, char *reason, size_t reason_size);
extern char *sf_uri_next_option(char **options, char **value);
extern bool sf_uri_credentials(const char *file, char **user,
							   char **password, char *reason,
							   size_t reason_size);

#endif							/* SF_URI_H */
