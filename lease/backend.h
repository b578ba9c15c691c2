/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  The functions that a registry's client library offers to the worker, and
 *	  to a session in which an administrator asks the registry.
 *
 * There is one library for each kind of registry, which is loaded when it is
 * needed.  It is "$libdir/snowflake_<kind>", and exports one function:
 *
 *		const SfBackend *snowflake_backend(void);
 *
 * A library serves one registry, with one request at a time, and keeps its own
 * state from open() to close().  None of the functions blocks, and none
 * throws.  The worker is connected to no database: there is no catalogue and
 * no transaction.  In a session, CurrentMemoryContext does not live as long as
 * the library's state.  Threads that a library makes handle no signals.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "lease/registry.h"

/* Settings for the library.  They stay valid, and may change with a reload. */
typedef struct SfBackendConfig
{
	int64_t		presence_ms;	/* presence ends this long after its last
								 * keepalive */
	int64_t		timeout_ms;		/* of a request, as in its deadline */
	int64_t		slots;			/* how many node ids the layout has */
} SfBackendConfig;

/* A socket to wait for. */
typedef struct SfSocket
{
	int			fd;
	bool		readable;		/* what to wait for: at least one of these */
	bool		writeable;
} SfSocket;

#define SF_BACKEND_SOCKETS	16

/* Of whom an SfBackend is; libraries of one build have the same size. */
#define SF_BACKEND_VERSION	"snowflake " SF_VERSION
#define SF_BACKEND_SIZE \
	(sizeof(SfBackend) + sizeof(SfBackendConfig) + sizeof(SfSocket) + \
	 sizeof(SfAsk) + sizeof(SfAnswer) + sizeof(SfRegistry) + \
	 sizeof(SfSlotRecord))

/*
 * The first two members are the first ones in each version: a server that runs
 * may find the library of a package that was installed meanwhile.
 */
typedef struct SfBackend
{
	const char *version;		/* SF_BACKEND_VERSION */
	size_t		size;			/* SF_BACKEND_SIZE */

	/*
	 * Take the text of snowflake.registry, and connect to nothing yet.  If
	 * the text makes no sense, return false, with the reason as a sentence.
	 * The reason must not hold a secret of the text.
	 */
	bool		(*open) (const char *url, const SfBackendConfig *config,
						 char *reason, size_t reason_size);

	/*
	 * Begin this request, connecting if necessary.  Abandon the request under
	 * way: its answer must not come any more, at least not as this request's.
	 * The next receive() reports an immediate failure.
	 */
	void		(*send) (const SfAsk *ask);

	/*
	 * Return the number of sockets to wait for now, at most
	 * SF_BACKEND_SOCKETS; called before each wait. receive() must be called
	 * after *timeout_ms at the latest.  Without such a limit, leave
	 * *timeout_ms alone.
	 */
	int			(*sockets) (SfSocket *sockets, int64_t *timeout_ms);

	/*
	 * Continue the request as far as that is possible without waiting. Called
	 * when a socket is ready, and possibly at any other time.  Return true,
	 * once for each request, if there is an answer.  Its pointers are valid
	 * until the next call of any of these functions.
	 */
	bool		(*receive) (SfAnswer *answer);

	/* The text is valid until the next send() or close(). */
	SfPartFunction part;

	/* Drop all connections; called last. */
	void		(*close) (void);
} SfBackend;

typedef const SfBackend *(*SfBackendFunction) (void);

#define SF_BACKEND_FUNCTION	"snowflake_backend"

#endif							/* SF_BACKEND_H */
