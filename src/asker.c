/*-------------------------------------------------------------------------
 *
 * asker.c
 *	  One connection to the registry for all who ask through the worker: there
 *	  is one request at a time.
 *
 * Everyone numbers requests by itself; the registry knows each by a number of
 * this file's.
 *
 * What is under way is not interrupted, since a library may have to connect
 * anew for that: on a busy machine the others would come to nothing, and take
 * the connection from the first again and again.  It ends at its deadline.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include "asker.h"

static SfAsker *served;			/* whose request is under way, or NULL */
static uint64_t number;			/* by which the registry knows it */

/* Does he who has asked it wait for the answer still? */
static bool
is_awaited(const SfAsker *asker)
{
	return asker->ask->kind != SF_ASK_NOTHING &&
		asker->ask->number == asker->sent;
}

static void
answer_it(SfAnswer *answer)
{
	SfAsker    *asker = served;

	served = NULL;
	answer->number = asker->sent;
	if (is_awaited(asker))
		asker->answered(answer);
}

/* Go on with what was asked, and hand on the answer if there is one. */
void
sf_asker_receive(const SfBackend *backend)
{
	SfAnswer	answer;

	if (backend->receive(&answer) && served != NULL &&
		answer.number == number)
		answer_it(&answer);
}

/* Send what is to be sent next. */
void
sf_asker_send(SfAsker *askers, int n, const SfBackend *backend)
{
	for (SfAsker *asker = askers; asker < askers + n; asker++)
	{
		SfAsk		ask = *asker->ask;

		if (ask.kind == SF_ASK_NOTHING)
			continue;
		if (ask.number == asker->sent)
		{
			if (served == asker)
				return;			/* the others wait for it */
			continue;
		}
		if (served != NULL && served != asker && is_awaited(served))
			return;				/* and it waits for them */
		asker->sent = ask.number;
		ask.number = ++number;
		served = asker;
		backend->send(&ask);
		return;
	}
}
