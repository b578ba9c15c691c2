/*-------------------------------------------------------------------------
 *
 * zookeeper.c
 *	  Registry of node ids in ZooKeeper, through the library for programs
 *	  without threads: the functions that the worker calls (lease/backend.h).
 *
 * No function here throws.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"

#include "harness.h"
#include "request.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

static void
zookeeper_begin(const void *ask)
{
	sf_request_begin(ask);
}

static void
continue_request(const void *unused)
{
	sf_request_continue();
}

static void
close_zookeeper(void)
{
	sf_session_close();
	sf_harness_close();
}

static bool
parse_and_open(const SfOpening *opening)
{
	SfZooLocation location;

	if (!sf_zoo_location_parse(&location, opening->text, opening->reason,
							   opening->reason_size))
		return false;
	sf_request_open(&location, opening->config, opening->lasting);
	return true;
}

static bool
open_zookeeper(const char *text, const SfBackendConfig *config, char *reason,
			   size_t reason_size)
{
	SfOpening	opening = {
		.text = text, .config = config, .reason = reason,
		.reason_size = reason_size
	};

	return sf_harness_open("snowflake zookeeper", opening, parse_and_open,
						   close_zookeeper);
}

static void
send_ask(const SfAsk *ask)
{
	sf_harness_reset();
	sf_harness_call(zookeeper_begin, ask, sf_request_fail);
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
	sf_harness_call(continue_request, NULL, sf_request_fail);
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
