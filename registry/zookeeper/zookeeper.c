/*-------------------------------------------------------------------------
 *
 * zookeeper.c
 *	  A registry of node ids in ZooKeeper, by the library for programs without
 *	  threads: what the worker calls (backend.h).
 *
 * Nothing is thrown from here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "utils/memutils.h"

#include "request.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

static MemoryContext lasting;	/* from open to close */
static MemoryContext passing;	/* of one request and its answer */

/* Begin a request, or go on with it; if that throws, there is no outcome. */
static void
guarded(const SfAsk *ask)
{
	MemoryContext before = MemoryContextSwitchTo(passing);

	PG_TRY();
	{
		if (ask != NULL)
			sf_request_begin(ask);
		else
			sf_request_go_on();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(passing);
		error = CopyErrorData();
		FlushErrorState();
		sf_request_fail(error->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
}

static void
close_zookeeper(void)
{
	sf_session_close();
	if (passing != NULL)
		MemoryContextDelete(passing);
	if (lasting != NULL)
		MemoryContextDelete(lasting);
	passing = lasting = NULL;
}

static bool
open_zookeeper(const char *text, const SfBackendConfig *config, char *reason,
			   size_t reason_size)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool ok = false;
	SfZooLocation location;

	close_zookeeper();
	snprintf(reason, reason_size, "There is not enough memory.");
	PG_TRY();
	{
		lasting = AllocSetContextCreate(TopMemoryContext,
										"snowflake zookeeper",
										ALLOCSET_SMALL_SIZES);
		passing = AllocSetContextCreate(TopMemoryContext,
										"snowflake zookeeper request",
										ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(lasting);
		ok = sf_zoo_location_parse(&location, text, reason, reason_size);
		if (ok)
			sf_request_open(&location, config, lasting);
	}
	PG_CATCH();
	{
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	if (!ok)
		close_zookeeper();
	return ok;
}

static void
send_ask(const SfAsk *ask)
{
	MemoryContextReset(passing);
	guarded(ask);
}

static int
get_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	int64		wait = -1;
	int64		patience = sf_request_patience();
	int			n = sf_session_sockets(sockets, &wait);

	if (patience >= 0 && (wait < 0 || wait > patience))
		wait = patience;
	if (wait >= 0)
		*timeout_ms = wait;
	return n;
}

static bool
receive_answer(SfAnswer *answer)
{
	guarded(NULL);
	return sf_request_answer(answer);
}

const SfBackend *
snowflake_backend(void)
{
	static const SfBackend backend = {
		.open = open_zookeeper,
		.send = send_ask,
		.sockets = get_sockets,
		.receive = receive_answer,
		.close = close_zookeeper
	};

	return &backend;
}
