/*-------------------------------------------------------------------------
 *
 * etcd.c
 *	  A registry of node ids in etcd, by its JSON gateway: what the worker
 *	  calls (backend.h).
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
guarded(const SfAsk *ask, const SfHttpAnswer *http)
{
	MemoryContext before = MemoryContextSwitchTo(passing);

	PG_TRY();
	{
		if (http != NULL)
			sf_request_take(http);
		else
			sf_request_begin(ask);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(passing);
		error = CopyErrorData();
		FlushErrorState();
		sf_http_cancel();
		sf_request_fail(error->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
}

static void
close_etcd(void)
{
	sf_http_close();
	if (passing != NULL)
		MemoryContextDelete(passing);
	if (lasting != NULL)
		MemoryContextDelete(lasting);
	passing = lasting = NULL;
}

static bool
open_etcd(const char *text, const SfBackendConfig *config, char *reason,
		  size_t reason_size)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool ok = false;
	SfEtcdUrl	url;

	close_etcd();
	snprintf(reason, reason_size, "There is not enough memory.");
	PG_TRY();
	{
		lasting = AllocSetContextCreate(TopMemoryContext, "snowflake etcd",
										ALLOCSET_SMALL_SIZES);
		passing = AllocSetContextCreate(TopMemoryContext,
										"snowflake etcd request",
										ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(lasting);
		ok = sf_etcd_url_parse(&url, text, reason, reason_size);
		if (ok && !sf_http_open(url.cacert, url.cert, url.key))
		{
			snprintf(reason, reason_size, "libcurl could not be set up.");
			ok = false;
		}
		if (ok)
			sf_request_open(&url, config, lasting);
	}
	PG_CATCH();
	{
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	if (!ok)
		close_etcd();
	return ok;
}

static void
send_ask(const SfAsk *ask)
{
	sf_http_cancel();
	MemoryContextReset(passing);
	guarded(ask, NULL);
}

static int
get_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	if (sf_request_is_answered())
		*timeout_ms = 0;
	return sf_http_sockets(sockets, timeout_ms);
}

static bool
receive_answer(SfAnswer *answer)
{
	SfHttpAnswer http;

	while (sf_http_receive(&http))
		guarded(NULL, &http);
	return sf_request_answer(answer);
}

const SfBackend *
snowflake_backend(void)
{
	static const SfBackend backend = {
		.open = open_etcd,
		.send = send_ask,
		.sockets = get_sockets,
		.receive = receive_answer,
		.close = close_etcd
	};

	return &backend;
}
