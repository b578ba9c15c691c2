/*-------------------------------------------------------------------------
 *
 * client.c
 *	  A server's dialogue with the registry: the request in flight, the writes
 *	  whose outcome is not known, problems, and when to ask again.
 *
 * The judgement about clocks is in client_clock.c, and what to ask in lease.c.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/client.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_MIN_MS	200
#define BACKOFF_MAX_MS	5000
#define LOG_EVERY_MS	60000

/* ---- problems ---- */

/* Hash a problem, ignoring its digits, so that times do not count. */
static uint32_t
kind_of(const char *problem)
{
	uint32_t	kind = UINT32_C(2166136261);	/* FNV-1a */

	for (const char *p = problem; *p != '\0'; p++)
	{
		if (*p < '0' || *p > '9')
			kind = (kind ^ (unsigned char) *p) * UINT32_C(16777619);
	}
	return kind;
}

/*
 * Return true if this problem shall be logged: at once if it is another one,
 * and once a minute if it lasts.  The log limits the lines of two that
 * alternate (log_event.h).
 */
static bool
is_to_be_logged(SfRegistryClient *client, SfMoment now, const char *problem)
{
	uint32_t	kind = kind_of(problem);

	if (client->problem[0] != '\0' && client->logged == kind &&
		now.monotonic_ms - client->logged_ms < LOG_EVERY_MS)
		return false;
	client->logged = kind;
	client->logged_ms = now.monotonic_ms;
	return true;
}

/*
 * Report a problem, which is logged when it begins or changes, and then once a
 * minute; the loss of a lease is always logged.  The public text is for roles
 * that may not see names.
 */
void
sf_client_report(SfRegistryClient *client, SfMoment now, SfLeaseEvent what,
				 const char *problem,
				 const char *public_problem, const char *remedy)
{
	bool		log = is_to_be_logged(client, now, problem);

	snprintf(client->problem, sizeof(client->problem), "%s", problem);
	snprintf(client->public_problem, sizeof(client->public_problem), "%s",
			 public_problem);
	snprintf(client->remedy, sizeof(client->remedy), "%s", remedy);
	if (log || what == SF_LEASE_EVENT_LOST)
		client->config.log_event(what, problem);
}

/* Report a problem that every role may see. */
void
sf_client_set_problem(SfRegistryClient *client, SfMoment now,
					  const char *problem, const char *remedy)
{
	sf_client_report(client, now, SF_LEASE_EVENT_PROBLEM, problem, problem,
					 remedy);
}

/* The registry has done what it was asked. */
void
sf_client_clear_problem(SfRegistryClient *client)
{
	if (client->problem[0] != '\0')
		client->config.log_event(SF_LEASE_EVENT_SOLVED, "The problem with the registry is over.");
	client->problem[0] = '\0';
	client->public_problem[0] = '\0';
	client->remedy[0] = '\0';
	client->backoff_ms = 0;
}

/* Try again later; wait longer after each failure. */
void
sf_client_back_off(SfRegistryClient *client, SfMoment now)
{
	int64_t		wait = client->backoff_ms * 2;

	if (wait < BACKOFF_MIN_MS)
		wait = BACKOFF_MIN_MS;
	if (wait > BACKOFF_MAX_MS)
		wait = BACKOFF_MAX_MS;
	client->backoff_ms = wait;
	client->retry_ms = now.monotonic_ms + wait / 2 +
		(int64_t) (client->config.random() % (uint64_t) (wait / 2 + 1));
}

/* ---- requests ---- */

/* Begin a request, and return it.  The caller adds the rest. */
SfAsk *
sf_client_ask(SfRegistryClient *client, SfMoment now, SfAskKind kind)
{
	SfAsk	   *ask = &client->ask;
	uint64_t	number = ask->number + 1;

	memset(ask, 0, sizeof(SfAsk));
	ask->kind = kind;
	ask->number = number;
	ask->deadline_ms = now.monotonic_ms + client->config.timeout_ms;
	ask->avoid = client->avoid;
	client->asked_ms = now.monotonic_ms;
	return ask;
}

/* Remember a write until its outcome is known. */
void
sf_client_add_pending(SfRegistryClient *client, uint64_t write_id,
					  int64_t start)
{
	/* if the list is full, drop the oldest: if it succeeded, we fence */
	if (client->npending == SF_CLIENT_PENDING)
		memmove(&client->pending[0], &client->pending[1],
				sizeof(client->pending[0]) * --client->npending);
	client->pending[client->npending].write_id = write_id;
	client->pending[client->npending++].start = start;
}

/* Return the index of our pending write that made the record; or -1. */
int
sf_client_find_pending(const SfRegistryClient *client,
					   const SfSlotRecord *record)
{
	for (int i = 0; record != NULL && i < client->npending; i++)
	{
		if (record->write_id == client->pending[i].write_id)
			return i;
	}
	return -1;
}
