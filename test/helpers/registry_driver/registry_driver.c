/*-------------------------------------------------------------------------
 *
 * registry_driver.c
 *	  SQL functions that call a registry's library as the worker does, one
 *	  request at a time.  They test the library without the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <poll.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "lease/backend.h"

PG_MODULE_MAGIC;

SF_FUNCTION(registry_open);
SF_FUNCTION(registry_close);
SF_FUNCTION(registry_ask);
SF_FUNCTION(registry_part);

static const SfBackend *backend;
static uint64 number;

/* open(library, url, presence_ms, timeout_ms) returns "ok", or the reason */
Datum
registry_open(PG_FUNCTION_ARGS)
{
	static SfBackendConfig config;
	char	   *url;
	char		reason[256];
	SfBackendFunction get;

	config.presence_ms = PG_GETARG_INT32(2);
	config.timeout_ms = PG_GETARG_INT32(3);
	config.slots = 1024;
	get = (SfBackendFunction)
		load_external_function(text_to_cstring(PG_GETARG_TEXT_PP(0)),
							   SF_BACKEND_FUNCTION, true, NULL);
	backend = get();
	/* the library keeps the pointer, as it does for the setting */
	url = MemoryContextStrdup(TopMemoryContext,
							  text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (backend->open(url, &config, reason, sizeof(reason)))
		strcpy(reason, "ok");
	PG_RETURN_TEXT_P(cstring_to_text(reason));
}

Datum
registry_close(PG_FUNCTION_ARGS)
{
	backend->close();
	PG_RETURN_VOID();
}

/* part(name) returns what a remedy says of the setting */
Datum
registry_part(PG_FUNCTION_ARGS)
{
	const char *part = backend->part(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	if (part == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(part));
}

static SfAskKind
get_kind(const char *name)
{
	static const char *const names[] = {
		"nothing", "read", "claim", "extend", "release", "keepalive",
		"initialize", "recover"
	};

	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return (SfAskKind) i;
	}
	elog(ERROR, "no such request: %s", name);
}

static void
wait_for_answer(SfAnswer *answer)
{
	while (!backend->receive(answer))
	{
		SfSocket	sockets[SF_BACKEND_SOCKETS];
		struct pollfd fds[SF_BACKEND_SOCKETS];
		int64_t		timeout_ms = 100;	/* the worker too calls receive()
										 * without an event */
		int			n = backend->sockets(sockets, &timeout_ms);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			fds[i].fd = sockets[i].fd;
			fds[i].events = (sockets[i].readable ? POLLIN : 0) |
				(sockets[i].writeable ? POLLOUT : 0);
		}
		poll(fds, n, (int) timeout_ms);
	}
}

/* Print a line for the registry, and one for each record. */
static char *
print_registry(const SfRegistry *registry)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "%s %lld %lld %s%s%s",
					 registry->initialized ? "initialized" : "uninitialized",
					 (long long) registry->generation,
					 (long long) registry->floor, registry->layout,
					 registry->former[0] != '\0' ? " after " : "",
					 registry->former);
	for (int i = 0; i < registry->nrecords; i++)
	{
		const SfSlotRecord *r = &registry->records[i];

		appendStringInfo(&buf, "\n%u: %s epoch %lld owner %lld server %lld write %lld until %lld offset %lld %s host '%s' process %d since %lld address '%s' present %lld",
						 r->node, r->version == 0 ? "unwritten" : "written",
						 (long long) r->epoch,
						 (long long) r->owner, (long long) r->server,
						 (long long) r->write_id, (long long) r->until,
						 (long long) r->offset_ms,
						 r->released ? "released" : "held", r->host,
						 r->process, (long long) r->since_ms, r->address,
						 (long long) r->present);
		if (r->reserve_ms != 0)
			appendStringInfo(&buf, " reserve %lld", (long long) r->reserve_ms);
	}
	return buf.data;
}

/*
 * ask(kind, node, generation, version, owner, displaced, presence, until,
 * write_id, host, twice, new_generation, new_floor, layout, address, reserve,
 * new_former);
 *
 * "twice" sends the request, continues it once, and sends it again, as if the
 * first one had taken too long.
 */
Datum
registry_ask(PG_FUNCTION_ARGS)
{
	static const char *const results[] = {
		"DONE", "CONFLICT", "ABSENT", "REFUSED", "UNKNOWN"
	};
	static const char *const failures[SF_FAILURES] = {
		"OTHER", "UNREACHABLE", "TIMEOUT", "CERTIFICATE", "LOGIN", "DATABASE",
		"EXTENSION", "PERMISSION", "READ_ONLY", "STANDBY", "FULL", "TOO_LONG",
		"LOST"
	};
	SfAsk		ask = {0};
	SfLayout	layout = {.epoch_ms = 1000, .tick_ms = 10};
	SfAnswer	answer = {0};
	TupleDesc	tupdesc;
	Datum		values[6];
	bool		nulls[6] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	ask.kind = get_kind(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	ask.number = ++number;
	ask.record.node = (uint32_t) PG_GETARG_INT32(1);
	ask.generation = PG_GETARG_INT64(2);
	ask.version = PG_GETARG_INT64(3);
	ask.record.owner = PG_GETARG_INT64(4);
	ask.displaced = PG_GETARG_INT64(5);
	ask.presence = PG_GETARG_BOOL(6);
	ask.record.until = PG_GETARG_INT64(7);
	ask.record.write_id = PG_GETARG_INT64(8);
	strlcpy(ask.record.host, text_to_cstring(PG_GETARG_TEXT_PP(9)),
			sizeof(ask.record.host));
	ask.record.epoch = 3;
	ask.record.server = 4;
	ask.record.offset_ms = -5;
	ask.record.released = ask.kind == SF_ASK_RELEASE;
	ask.record.process = 6;
	ask.record.since_ms = 7;
	ask.new_generation = PG_GETARG_INT64(11);
	ask.new_floor = PG_GETARG_INT64(12);
	ask.new_layout = &layout;
	ask.new_layout_text = text_to_cstring(PG_GETARG_TEXT_PP(13));
	strlcpy(ask.record.address, text_to_cstring(PG_GETARG_TEXT_PP(14)),
			sizeof(ask.record.address));
	ask.record.reserve_ms = PG_GETARG_INT64(15);
	ask.new_former = text_to_cstring(PG_GETARG_TEXT_PP(16));

	backend->send(&ask);
	if (PG_GETARG_BOOL(10))
	{
		backend->receive(&answer);
		ask.number = ++number;
		backend->send(&ask);
	}
	wait_for_answer(&answer);
	if (answer.number != number)
		elog(ERROR, "this is the answer to another request");
	if (backend->receive(&answer))
		elog(ERROR, "there is a second answer");

	values[0] = CStringGetTextDatum(results[answer.result]);
	values[1] = Int64GetDatum(answer.version);
	nulls[2] = answer.message == NULL || answer.message[0] == '\0';
	values[2] = nulls[2] ? 0 : CStringGetTextDatum(answer.message);
	nulls[3] = answer.registry == NULL;
	values[3] = nulls[3] ? 0 :
		CStringGetTextDatum(print_registry(answer.registry));
	values[4] = Int64GetDatum(answer.clock_ms);
	nulls[5] = nulls[2];
	values[5] = CStringGetTextDatum(failures[answer.failure]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}
