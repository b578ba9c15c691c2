/*-------------------------------------------------------------------------
 *
 * session.h
 *	  A session of ZooKeeper, and its connection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_SESSION_H
#define SF_ZOO_SESSION_H

#include <zookeeper/zookeeper.h>

#include "lease/backend.h"
#include "uri.h"

/* lookup.c */
#define SF_LOOKUP_TEXT	128

typedef enum SfLookupState
{
	SF_LOOKUP_UNDER_WAY,
	SF_LOOKUP_DONE,
	SF_LOOKUP_FAILED
} SfLookupState;

extern void sf_lookup_begin(int number, const char *host);
extern SfLookupState sf_lookup_get(int number, int turn, char *text,
								   int *n);

/* location.c */
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

/* session.c */

typedef enum SfSessionState
{
	SF_SESSION_DOWN,			/* no connection: sf_session_problem() */
	SF_SESSION_CONNECTING,
	SF_SESSION_UP
} SfSessionState;

extern void sf_session_open(const SfZooLocation *location,
							const SfBackendConfig *config);
extern void sf_session_close(void);

extern void sf_session_connect(void);
extern bool sf_session_next_host(void);
extern void sf_session_count_hosts(void);
extern bool sf_session_has_hosts(void);
extern void sf_session_disconnect(const char *problem);
extern void sf_session_end(void);

extern SfSessionState sf_session_continue(void);
extern int	sf_session_sockets(SfSocket *sockets, int64 *timeout_ms);

extern zhandle_t *sf_session_handle(void);
extern int64 sf_session_id(void);
extern const char *sf_session_address(void);
extern const char *sf_session_host(void);
extern const char *sf_session_problem(void);
extern SfFailure sf_session_failure(void);
extern bool sf_session_has_digest(void);

#endif							/* SF_ZOO_SESSION_H */
