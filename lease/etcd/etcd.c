/*-------------------------------------------------------------------------
 *
 * etcd.c
 *	  Registry of node ids in etcd, through its JSON gateway: the functions
 *	  that the worker calls (lease/backend.h).
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
etcd_begin(const void *ask)
{
	sf_request_begin(ask);
}

static void
take_http(const void *http)
{
	sf_request_take(http);
}

static void
etcd_fail(const char *problem)
{
	sf_http_cancel();
	sf_request_fail(problem);
}

static void
close_etcd(void)
{
	sf_http_close();
	sf_harness_close();
}

static bool
parse_and_open(const SfOpening *opening)
{
	SfEtcdUrl	url;

	if (!sf_etcd_url_parse(&url, opening->text, opening->reason,
						   opening->reason_size))
		return false;
	if (!sf_http_open(url.cacert, url.cert, url.key,
					  opening->config->slots))
	{
		snprintf(opening->reason, opening->reason_size,
				 "libcurl could not be set up.");
		return false;
	}
	sf_request_open(&url, opening->config, opening->lasting);
	return true;
}

static bool
open_etcd(const char *text, const SfBackendConfig *config, char *reason,
		  size_t reason_size)
{
	SfOpening	opening = {
		.text = text, .config = config, .reason = reason,
		.reason_size = reason_size
	};

	return sf_harness_open("snowflake etcd", opening, parse_and_open,
						   close_etcd);
}

static void
send_ask(const SfAsk *ask)
{
	sf_http_cancel();
	sf_harness_reset();
	sf_harness_call(etcd_begin, ask, etcd_fail);
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
		sf_harness_call(take_http, &http, etcd_fail);
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
