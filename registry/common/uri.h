/*-------------------------------------------------------------------------
 *
 * uri.h
 *	  The parts of a text of snowflake.registry that names hosts:
 *	  scheme://user@host:port,host2/path?options
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_URI_H
#define SF_URI_H

#define SF_URI_HOSTS	16

typedef struct SfUri
{
	char	   *user;			/* what is before "@"; or NULL */
	int			nhosts;
	char	   *hosts[SF_URI_HOSTS];	/* "host:port", "[::1]:port" */
	char	   *path;			/* without slashes at its end; or NULL */
	char	   *options;		/* what is behind "?"; or NULL */
} SfUri;

extern bool sf_uri_parse(SfUri *uri, const char *text, const char *port,
						 const char *what, char *reason, size_t reason_size);
extern char *sf_uri_next_option(char **options, char **value);
extern bool sf_uri_credentials(const char *file, char **user,
							   char **password, char *reason,
							   size_t reason_size);

#endif							/* SF_URI_H */
