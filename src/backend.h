/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  What the library of a kind of registry offers to the worker.
 *
 * There is one library for each scheme of snowflake.registry, and only the
 * worker loads it, so that no session maps a client for anything.  It is
 * "$libdir/snowflake_<kind>", and exports one function,
 *
 *		const SfBackend *snowflake_backend(void);
 *
 * There is one registry, and one request at a time; what the library has to
 * remember is its own.  None of the functions blocks, and none throws.  They
 * are called in the worker only, which is connected to no database: there is
 * no catalogue and no transaction, and CurrentMemoryContext lives as long as
 * the process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "registry.h"

/* What else it may need to know; lives on, and may change with a reload. */
typedef struct SfBackendConfig
{
	int64_t		presence_ms;	/* TTL of presence, since it was last kept */
	int64_t		timeout_ms;		/* of a request, as in its deadline */
} SfBackendConfig;

/* A socket to wait for. */
typedef struct SfSocket
{
	int			fd;
	bool		readable;		/* what to wait for: one of these, or both */
	bool		writeable;
} SfSocket;

#define SF_BACKEND_SOCKETS	16

typedef struct SfBackend
{
	/*
	 * Take the text of snowflake.registry.  Connects to nothing yet.  False
	 * if the text makes no sense, with the reason as a sentence.  The reason
	 * holds no secret that the text may hold.
	 */
	bool		(*open) (const char *url, const SfBackendConfig *config,
						 char *reason, size_t reason_size);

	/*
	 * Begin this request, connecting where need be, and abandon the one that
	 * is under way: its answer must not come any more, or not as this one's.
	 * What fails at once is reported by the next receive().
	 */
	void		(*send) (const SfAsk *ask);

	/*
	 * What to wait for now, at most SF_BACKEND_SOCKETS; returns how many.
	 * Asked anew before each wait.  Call receive() after *timeout_ms at the
	 * latest; it is not touched if there is no such time.
	 */
	int			(*sockets) (SfSocket *sockets, int64_t *timeout_ms);

	/*
	 * Go on with the request as far as that can be done without waiting; to
	 * be called when a socket is ready, and as often besides as one likes.
	 * True if there is an answer, once for each request.  What it points to
	 * lives until the next call of any of these functions.
	 */
	bool		(*receive) (SfAnswer *answer);

	/* The end: drop connections. */
	void		(*close) (void);
} SfBackend;

typedef const SfBackend *(*SfBackendFunction) (void);

#define SF_BACKEND_FUNCTION	"snowflake_backend"

#endif							/* SF_BACKEND_H */
