/*-------------------------------------------------------------------------
 *
 * zookeeper.h
 *	  What the files of the library for ZooKeeper share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOOKEEPER_H
#define SF_ZOOKEEPER_H

#include <zookeeper/zookeeper.h>

#include "common.h"

/* session.c: a session, and its connection */

typedef enum SfSessionState
{
	SF_SESSION_DOWN,			/* no connection: sf_session_problem() */
	SF_SESSION_CONNECTING,
	SF_SESSION_UP
} SfSessionState;

/* Read by all files, and written by session.c. */
typedef struct SfSession
{
	zhandle_t  *handle;			/* of the connection; or NULL */
	clientid_t	id;				/* its client_id is 0 if there is none */
	const char *host;			/* the one in use */
	char		address[SF_ADDRESS_SIZE];	/* our end of the last connection,
											 * or empty */
	bool		has_digest;		/* nodes are for our user alone */
	char		problem[400];	/* why there is no connection, without a full
								 * stop */
	SfFailure	failure;		/* the kind of the problem */
} SfSession;

extern SfSession sf_session;

extern bool sf_session_open(const char *text, const SfBackendConfig *config,
							char **prefix, char *reason, size_t reason_size);
extern void sf_session_close(void);
extern char *sf_session_part(const char *part);

extern void sf_session_connect(void);
extern bool sf_session_next_host(void);
extern void sf_session_count_hosts(void);
extern bool sf_session_has_hosts(void);
extern void sf_session_disconnect(const char *problem);
extern void sf_session_end(void);

extern SfSessionState sf_session_continue(void);
extern int	sf_session_sockets(SfSocket *sockets, int64 *timeout_ms);

/* nodes.c: a batch of requests that are sent together, and their replies */

typedef struct SfZooReply
{
	int			rc;				/* ZOK, or an error of zookeeper.h */
	struct Stat stat;
	char	   *data;			/* of a node; ends in a zero byte */
	struct String_vector names; /* of children */
	zoo_op_result_t *results;	/* of the operations of a multi */
	int			nresults;

	/* Used by nodes.c only. */
	bool		is_done;
	bool		is_forgotten;
} SfZooReply;

extern void sf_batch_begin(zhandle_t *handle);
extern bool sf_batch_is_done(void);
extern const SfZooReply *sf_batch_reply(int i);
extern int	sf_batch_size(void);

/* The registry as nodes of ZooKeeper: what reads and writes it. */

typedef enum SfReading
{
	SF_READING_DONE,
	SF_READING_MOVED,			/* something has changed during the reading */
	SF_READING_FAILED			/* sf_request.message says why */
} SfReading;

typedef enum SfWriting
{
	SF_WRITING_DONE,
	SF_WRITING_CONFLICT,
	SF_WRITING_LOOK,			/* presence has changed: look again */
	SF_WRITING_REFUSED,			/* nothing was done; the message says why */
	SF_WRITING_UNKNOWN
} SfWriting;

/* The owner that is present, and its session. */
typedef struct SfPresent
{
	uint64		owner;			/* 0: nobody */
	int64		session;
} SfPresent;

extern void sf_nodes_open(const char *prefix);
extern void sf_nodes_ask_names(void);
extern SfReading sf_nodes_take_names(SfRegistry *registry, int64 *clock_ms);
extern void sf_nodes_ask_values(void);
extern SfReading sf_nodes_take_values(SfRegistry *registry);

extern void sf_nodes_ask_present(uint32 node);
extern SfReading sf_nodes_take_present(SfPresent *present);

extern void sf_nodes_ask_parents(const struct ACL_vector *acl);
extern void sf_nodes_ask_write(const SfAsk *ask, const SfPresent *present,
							   int64 session, const char *address,
							   const char *layout,
							   const struct ACL_vector *acl);
extern SfWriting sf_nodes_take_written(const SfAsk *ask, SfAnswer *answer);

#endif							/* SF_ZOOKEEPER_H */
