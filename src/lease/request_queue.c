/*-------------------------------------------------------------------------
 *
 * request_queue.c
 *	  Multiplexes one registry connection: one request in flight at a time.
 *
 * Each requester numbers its requests; the registry sees this file's numbers.
 *
 * A request under way is not interrupted, because a library may have to
 * reconnect for that: on a busy machine, requesters would keep taking the
 * connection from each other, and none would finish.  A request ends at its
 * deadline.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/request_queue.h"

static SfRequester *served;		/* requester whose request is under way, or
								 * NULL */
static uint64_t number;			/* that request's number for the registry */

/* Return true if the requester still waits for this answer. */
static bool
is_awaited(const SfRequester *requester)
{
	return requester->ask->kind != SF_ASK_NOTHING &&
		requester->ask->number == requester->sent;
}

static void
pass_on(SfAnswer *answer)
{
	SfRequester *requester = served;

	served = NULL;
	answer->number = requester->sent;
	if (is_awaited(requester))
		requester->answered(answer);
}

/* Continue the request under way, and pass on its answer if it has come. */
void
sf_request_queue_receive(const SfBackend *backend)
{
	SfAnswer	answer;

	if (backend->receive(&answer) && served != NULL &&
		answer.number == number)
		pass_on(&answer);
}

/* Send the next request, if one is due. */
void
sf_request_queue_send(SfRequester *requesters, int n, const SfBackend *backend)
{
	for (int i = 0; i < n; i++)
	{
		SfRequester *requester = &requesters[i];
		SfAsk		ask = *requester->ask;

		if (ask.kind == SF_ASK_NOTHING)
			continue;
		if (ask.number == requester->sent)
		{
			if (served == requester)
				return;			/* under way; the others wait */
			continue;
		}
		if (served != NULL && served != requester && is_awaited(served))
			return;				/* this one waits for the request under way */
		requester->sent = ask.number;
		ask.number = ++number;
		served = requester;
		backend->send(&ask);
		return;
	}
}
