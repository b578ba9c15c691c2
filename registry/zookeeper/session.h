/*-------------------------------------------------------------------------
 *
 * session.h
 *	  A session of ZooKeeper, and its connection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_SESSION_H
#define SF_ZOO_SESSION_H

#include "lease/backend.h"
#include "batch.h"
#include "location.h"

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
