/*-------------------------------------------------------------------------
 *
 * location.h
 *	  Parser of snowflake.registry for a ZooKeeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_LOCATION_H
#define SF_ZOO_LOCATION_H

#include "uri.h"

typedef struct SfZooLocation
{
	SfUri		uri;
	char	   *prefix;			/* of all nodes, for example "/snowflake" */

	/* Without either of these, anybody may read and write the registry. */
	char	   *digest;			/* "user:password"; or NULL */
	char	   *credentials;	/* a file of two lines; or NULL */
} SfZooLocation;

extern bool sf_zoo_location_parse(SfZooLocation *location, const char *text,
								  char *reason, size_t reason_size);
extern bool sf_zoo_location_digest(const SfZooLocation *location,
								   char **digest, char *reason,
								   size_t reason_size);

#endif							/* SF_ZOO_LOCATION_H */
