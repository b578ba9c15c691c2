/*-------------------------------------------------------------------------
 *
 * harness.c
 *	  The functions of a registry's client library (lease/backend.h), for
 *	  libraries whose own functions may throw.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "common.h"

SfRequest	sf_request;

static const SfKind *kind;
static const int64_t *request_ms;	/* how long a request may take */
static MemoryContext lasting;	/* from open to close */
static MemoryContext passing;	/* one request and its answer */

/* ---- for the library ---- */

/* Return a time in ms that nobody can set. */
int64
sf_harness_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Replace a lasting text by a copy of this one, which may be NULL. */
void
sf_harness_keep(char **place, const char *text)
{
	if (*place != NULL)
		pfree(*place);
	*place = text == NULL ? NULL : MemoryContextStrdup(lasting, text);
}

bool
sf_harness_is_write(void)
{
	return sf_request.asked.kind != SF_ASK_READ &&
		sf_request.asked.kind != SF_ASK_KEEPALIVE;
}

/*
 * Check the times of a registry: a lease begins above them, and counters hold
 * no time below 0.  Nobody claims a slot before one that is too large.  Return
 * false, and say which one is wrong.
 */
static bool
are_times_valid(const SfRegistry *registry)
{
	if (registry->floor < 0)
	{
		snprintf(sf_request.message, SF_MESSAGE_SIZE,
				 "The registry's floor is negative.");
		return false;
	}
	for (int i = 0; i < registry->nrecords; i++)
	{
		const SfSlotRecord *record = &registry->records[i];

		if (record->until >= 0)
			continue;
		snprintf(sf_request.message, SF_MESSAGE_SIZE,
				 "The end of the reservation of slot %u is negative.",
				 record->node);
		return false;
	}
	return true;
}

/* End the request with this answer. */
void
sf_harness_conclude(SfResult result)
{
	const SfRegistry *registry = sf_request.answer.registry;

	if (registry != NULL && !are_times_valid(registry))
	{
		sf_request.answer.registry = NULL;
		sf_request.answer.failure = SF_FAILURE_OTHER;
		result = SF_RESULT_REFUSED;
	}
	sf_request.answer.result = result;
	sf_request.answer.message = result == SF_RESULT_REFUSED ||
		result == SF_RESULT_UNKNOWN ? sf_request.message : NULL;
	sf_request.is_under_way = false;
	sf_request.is_answered = true;
}

/* End it with a failure, after which its outcome may be unknown. */
void
sf_harness_conclude_failure(SfFailure failure, bool is_unknown)
{
	sf_request.answer.failure = failure;
	sf_harness_conclude(is_unknown ? SF_RESULT_UNKNOWN : SF_RESULT_REFUSED);
}

/*
 * Quote a text for SQL, with each quote in it doubled, or for a shell, which
 * then reads the text without them.
 */
char *
sf_harness_quote(const char *text, char quote)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, quote);
	for (const char *p = text; *p != '\0'; p++)
	{
		if (*p == quote)
			appendStringInfoChar(&buf, quote);
		appendStringInfoChar(&buf, *p);
	}
	appendStringInfoChar(&buf, quote);
	return buf.data;
}

/* ---- the functions of the library; none throws ---- */

static void
close_registry(void)
{
	kind->close();
	if (passing != NULL)
		MemoryContextDelete(passing);
	if (lasting != NULL)
		MemoryContextDelete(lasting);
	passing = lasting = NULL;
	sf_request.is_under_way = sf_request.is_answered = false;
}

static bool
open_registry(const char *text, const SfBackendConfig *config, char *reason,
			  size_t reason_size)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool ok = false;

	close_registry();
	snprintf(reason, reason_size, "There is not enough memory.");
	PG_TRY();
	{
		/* the macro accepts only a literal */
		lasting = AllocSetContextCreateInternal(TopMemoryContext, kind->name,
												ALLOCSET_SMALL_SIZES);
		passing = AllocSetContextCreateInternal(TopMemoryContext, kind->name,
												ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(lasting);
		ok = kind->open(text, config, reason, reason_size);
	}
	PG_CATCH();
	{
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	request_ms = &config->timeout_ms;
	if (!ok)
		close_registry();
	return ok;
}

/* Call work() in the memory of the request, which ends if work() throws. */
static void
call(void (*work) (void))
{
	MemoryContext before = MemoryContextSwitchTo(passing);
	uint32		holdoff = InterruptHoldoffCount;

	/* what is caught below must not be a cancel, or the end of the session */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		work();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(passing);
		error = CopyErrorData();
		FlushErrorState();
		if (sf_request.is_under_way)	/* else there is nothing to answer */
			kind->fail(error->message);
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	MemoryContextSwitchTo(before);
}

/* Forget the request before, and begin this one. */
static void
send_ask(const SfAsk *ask)
{
	int64		now_ms = sf_harness_now_ms();
	int64		silent_ms = sf_request.is_under_way ?
		now_ms - sf_request.begun_ms : 0;

	MemoryContextReset(passing);
	memset(&sf_request, 0, sizeof(sf_request));
	sf_request.asked = *ask;
	sf_request.is_under_way = true;
	sf_request.begun_ms = now_ms;
	sf_request.deadline_ms = now_ms + *request_ms;
	sf_request.silent_ms = silent_ms;
	sf_request.answer.number = ask->number;
	call(kind->begin);
}

static int
get_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	int			n = kind->sockets(sockets, timeout_ms);

	if (sf_request.is_answered)
		*timeout_ms = 0;
	return n;
}

/* Return true once for each request, with its answer. */
static bool
receive_answer(SfAnswer *answer)
{
	call(kind->go_on);
	if (!sf_request.is_answered)
		return false;
	sf_request.is_answered = false;
	*answer = sf_request.answer;
	return true;
}

/* It throws only without memory. */
static const char *
print_part(const char *part)
{
	MemoryContext before = MemoryContextSwitchTo(passing);
	const char *text = kind->part(part);

	MemoryContextSwitchTo(before);
	return text;
}

const SfBackend *
sf_harness_backend(const SfKind *of)
{
	static const SfBackend backend = {
		.version = SF_BACKEND_VERSION,
		.size = SF_BACKEND_SIZE,
		.open = open_registry,
		.send = send_ask,
		.sockets = get_sockets,
		.receive = receive_answer,
		.part = print_part,
		.close = close_registry
	};

	kind = of;
	return &backend;
}
