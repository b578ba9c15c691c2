/*-------------------------------------------------------------------------
 *
 * registry_session.c
 *	  Calls of administrators: a session asks the registry by itself.
 *
 * The session loads the registry's client library, as the worker does.  For
 * each call it makes a connection of its own, and closes it at the end of the
 * call, also if the call is cancelled or the session is terminated.  So a call
 * needs no worker, and holds up no lease.
 *
 * To change the registry, read it, and write on the condition that it is as
 * it was read.  Each write carries a random number.  After a write of unknown
 * outcome, a reading shows by that number whether it was made.  If not, the
 * same write is requested again: a write that comes late then fails its
 * condition, or makes the wanted change.  If it was made, a failover may still
 * forget it (lease.c).  So another write is made on top of it, and the change
 * is done when that one is acknowledged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include "base/clock.h"
#include "lease/slot_choice.h"
#include "miscadmin.h"
#include "storage/ipc.h"

/* How often the registry may change meanwhile, or not answer a write. */
#define MAX_TRIES		5

/*
 * How often a reading may end without an answer.  A client that tries one host
 * after the other may need more than one time-out to reach the one that
 * answers.
 */
#define MAX_READINGS	3

/* The registry that is open, for the length of a call. */
static const SfBackend *backend;

/* A change under way. */
typedef struct Work
{
	SfRegistryChange *change;	/* NULL: nothing is changed */
	uint64		write_id;		/* the number of its last write, or next */
	int64		epoch;			/* of the claim to end; -1: not read yet */
	bool		unsure;			/* a write may have been made, or be yet */
	char		why_unsure[512];
	SfFailure	failure;		/* then the kind of the reason */
	char		layout_text[SF_LAYOUT_TEXT_SIZE];	/* of a new registry */
} Work;

/* ---- errors ---- */

/*
 * Throw SQLSTATE 55000 if there is no registry to ask.  The name is what
 * follows "snowflake_registry_" in the function's.  In the database of a
 * registry in PostgreSQL, it is the whole name of the function.
 */
void
sf_registry_session_require(const char *name)
{
	if (sf_core == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server leases from no registry"),
				 errhint("Set snowflake.registry, and restart the server. In the database of a registry in PostgreSQL, call snowflake_registry.%s() in place of snowflake_registry_%s().",
						 name, name)));
}

/*
 * Throw SQLSTATE 58000: nothing was changed, or if we are unsure, that is
 * unknown.  The reason is a sentence.
 */
static void
refuse_work(const Work *work, const char *reason, const char *remedy)
{
	char		name[200];

	sf_core->print_registry_for_role(name, sizeof(name));
	if (work->unsure)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("it is not known whether the registry was changed"),
				 errdetail("The registry is \"%s\". %s", name, reason),
				 errhint("When it answers again, look at snowflake_registry_slots(), or repeat the call.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the registry has not done what it was asked"),
			 errdetail("The registry is \"%s\". %s", name, reason),
			 errhint("Nothing was changed. %s", remedy)));
}

/* Do the same, without a remedy for what was refused. */
static void
refuse_here(const Work *work, const char *reason)
{
	refuse_work(work, reason, "Call the function again when the problem is over.");
}

/*
 * Do the same with a message of the registry's library, which may name roles,
 * hosts and paths.  Other roles get a public sentence instead.
 */
static void
refuse_failure(const Work *work, SfFailure failure, const char *message)
{
	refuse_work(work, sf_core->may_see_registry() ? message :
				sf_registry_failure(failure),
				sf_registry_remedy(sf_core->kind->name,
								   failure));
}

/* ---- requests ---- */

/* Say in the log and to the client for what the call was waiting. */
static void
explain_wait(void *arg)
{
	const SfAsk *ask = arg;

	errcontext(ask->kind == SF_ASK_READ ?
			   "waiting for the registry to answer" :
			   "waiting for the registry to confirm a write, which it may have made");
}

/* Send a request and wait for its answer, no longer than the time-out. */
static void
ask_registry(SfAsk *ask, SfAnswer *answer)
{
	static uint64 number = 0;
	ErrorContextCallback callback = {
		.previous = error_context_stack, .callback = explain_wait, .arg = ask
	};

	error_context_stack = &callback;
	ask->number = ++number;
	ask->deadline_ms = sf_clock_monotonic_ms() + *sf_core->timeout_ms;
	backend->send(ask);
	while (!sf_registry_library_receive(backend, answer) ||
		   answer->number != number)
	{
		int64		left = ask->deadline_ms - sf_clock_monotonic_ms();

		if (left <= 0)
		{
			memset(answer, 0, sizeof(SfAnswer));
			answer->result = SF_RESULT_UNKNOWN;
			answer->failure = SF_FAILURE_TIMEOUT;
			answer->message = "The registry did not answer in time.";
			break;
		}
		sf_registry_library_wait(backend, left);
		CHECK_FOR_INTERRUPTS();
	}
	error_context_stack = callback.previous;
}

/*
 * Read the registry.  One that has lost data refuses to be read, but a
 * recovery needs only what it still returns.
 */
static void
read_registry(const Work *work, SfAnswer *answer)
{
	bool		recovers = work->change != NULL &&
		work->change->kind == SF_ASK_RECOVER;

	for (int i = 0; i < MAX_READINGS; i++)
	{
		SfAsk		ask = {.kind = SF_ASK_READ};

		ask_registry(&ask, answer);
		if (answer->registry != NULL &&
			(answer->result == SF_RESULT_DONE || recovers))
			return;
		if (answer->result != SF_RESULT_UNKNOWN)
			break;
	}
	refuse_failure(work, answer->failure, answer->message);
}

/* Return the layout's first tick after this time. */
static int64
tick_after(const SfLayout *layout, int64 ms)
{
	return Max(0, sf_layout_ms_to_tick(layout, ms) + 1 - layout->epoch_tick);
}

/* Return the later of the registry's time and ours, as a tick. */
static int64
find_tick(const SfLayout *layout, const SfAnswer *answer, int64 ahead_ms)
{
	return tick_after(layout, ahead_ms +
					  Max(sf_clock_wall_ms(),
						  answer->clock_ms + answer->clock_step_ms));
}

/*
 * Compare the clocks before a floor is written, which cannot be undone.  If
 * the registry tells its time, it must be near ours, which is read later by up
 * to the duration of an answer.
 */
static void
require_equal_clocks(const Work *work, const SfAnswer *answer)
{
	int64		offset = sf_clock_wall_ms() - answer->clock_ms;

	if (answer->clock_ms == 0 ||
		(offset >= -SF_CLAIM_MAX_OFFSET_MS &&
		 offset <= SF_CLAIM_MAX_OFFSET_MS + *sf_core->timeout_ms))
		return;
	refuse_here(work,
				psprintf("The wall clock is %lld ms %s that of the registry: correct the one that is wrong.",
						 (long long) (offset < 0 ? -offset : offset),
						 offset < 0 ? "behind" : "ahead of"));
}

/*
 * Return how far ahead any server may have reserved: the given value, or more
 * if this server or the registry knows of more, within a limit.
 */
static int64
find_ahead_ms(const SfRegistryChange *change, const SfRegistry *registry)
{
	int64		largest = Max(change->reserve_ms, *sf_core->reserve_ms);

	largest = Max(largest, sf_age_file_reserve_ms());
	for (int i = 0; i < registry->nrecords; i++)
		largest = Max(largest, registry->records[i].reserve_ms);
	largest = Min(largest, Max(change->reserve_ms, SF_MAX_RESERVE_MS));
	return change->ahead_ms + largest - change->reserve_ms;
}

/*
 * Return the floor of a recovery, before which no claim begins.  It is not
 * below what the registry has promised this server.
 */
static int64
find_floor(SfRegistryChange *change, const SfLayout *layout,
		   const SfAnswer *answer)
{
	int64		ahead_ms = find_ahead_ms(change, answer->registry);

	change->floor_layout = *layout;
	return Max(find_tick(layout, answer, ahead_ms),
			   tick_after(layout, sf_age_file_promised_ms()));
}

/* ---- changes ---- */

/* Make it a registry; a recovery sets a floor as far ahead as any other. */
static void
prepare_new(Work *work, const SfAnswer *answer, SfAsk *ask)
{
	SfRegistryChange *change = work->change;

	if (change->kind == SF_ASK_INITIALIZE && sf_age_file_promised_ms() > 0)
		refuse_work(work, "It is empty, and this server has leased from it: it has lost its data.",
					"If snowflake.registry names the right one, run here: SELECT snowflake_registry_recover('90 s'), with the largest snowflake.lease_reserve of all servers.");
	require_equal_clocks(work, answer);
	sf_layout_print(&change->layout, work->layout_text,
					sizeof(work->layout_text));
	ask->kind = SF_ASK_INITIALIZE;
	ask->new_generation = work->write_id;
	ask->new_floor = change->kind == SF_ASK_INITIALIZE ?
		find_tick(&change->layout, answer, 0) :
		find_floor(change, &change->layout, answer);
	ask->new_layout = &change->layout;
	ask->new_layout_text = work->layout_text;
}

/*
 * Begin another generation: no claim begins before what may be forgotten.  A
 * slot whose until no server can have reserved keeps that to itself.
 */
static void
prepare_recovery(const Work *work, const SfAnswer *answer, SfAsk *ask)
{
	const SfRegistry *registry = answer->registry;
	SfLayout	layout;
	int64		limit;
	char		reason[SF_REASON_SIZE];

	require_equal_clocks(work, answer);
	if (!sf_layout_parse(&layout, registry->layout, reason, sizeof(reason)))
		refuse_here(work, "The registry's layout cannot be read.");
	ask->kind = SF_ASK_RECOVER;
	ask->generation = registry->generation;
	ask->new_generation = work->write_id;
	limit = find_tick(&layout, answer, SF_MAX_RESERVE_MS);
	ask->new_floor = Max(find_floor(work->change, &layout, answer),
						 registry->floor);
	for (int i = 0; i < registry->nrecords; i++)
	{
		if (registry->records[i].until <= limit)
			ask->new_floor = Max(ask->new_floor, registry->records[i].until);
	}
}

/* Begin another generation on top of our own, with the same floor. */
static void
prepare_confirmation(const Work *work, const SfRegistry *registry, SfAsk *ask)
{
	ask->kind = SF_ASK_RECOVER;
	ask->generation = registry->generation;
	ask->new_generation = work->write_id;
	ask->new_floor = registry->floor;
}

/*
 * Free the slot, unless its holder is gone, or another one has claimed it
 * since the first reading.  Return false if there is nothing to free.
 */
static bool
prepare_release(Work *work, const SfRegistry *registry,
				const SfSlotRecord *record, bool made, SfAsk *ask)
{
	if (record == NULL ||
		(!made && record->released && record->present == 0))
		return false;
	if (work->epoch < 0)
		work->epoch = record->epoch;
	if (record->epoch != work->epoch)
		return false;
	ask->kind = SF_ASK_RELEASE;
	ask->generation = registry->generation;
	ask->version = record->version;
	ask->displaced = record->present;
	ask->record = *record;
	ask->record.owner = 0;
	ask->record.write_id = work->write_id;
	ask->record.released = true;
	return true;
}

/* Return true if the reading shows that our last write was made. */
static bool
was_made(const Work *work, const SfRegistry *registry,
		 const SfSlotRecord *record)
{
	if (!work->unsure)
		return false;
	if (work->change->kind == SF_ASK_RELEASE)
		return record != NULL && record->write_id == work->write_id;
	return registry->initialized && registry->generation == work->write_id;
}

/*
 * Prepare the write that makes the change in the registry that was read.
 * Return false if there is nothing to change.
 */
static bool
prepare(Work *work, const SfAnswer *answer, SfAsk *ask)
{
	const SfRegistry *registry = answer->registry;
	const SfRegistryChange *change = work->change;
	const SfSlotRecord *record = sf_slot_record_find(registry, change->node);
	bool		made = was_made(work, registry, record);

	memset(ask, 0, sizeof(SfAsk));
	if (made)
		work->write_id = sf_core->random() | 1;
	if (change->kind == SF_ASK_RELEASE)
		return prepare_release(work, registry, record, made, ask);
	if (made)
		prepare_confirmation(work, registry, ask);
	else if (!registry->initialized)
		prepare_new(work, answer, ask);
	else if (change->kind == SF_ASK_INITIALIZE)
		return false;
	else
		prepare_recovery(work, answer, ask);
	return true;
}

/* Make the change; return false if there is nothing to change. */
static bool
make_change(Work *work)
{
	for (int i = 0; i < MAX_TRIES; i++)
	{
		SfAnswer	answer;
		SfAsk		ask;

		read_registry(work, &answer);
		if (!prepare(work, &answer, &ask))
			return false;
		ask_registry(&ask, &answer);
		if (answer.result == SF_RESULT_DONE)
		{
			work->change->floor = ask.new_floor;
			return true;
		}
		if (answer.result == SF_RESULT_UNKNOWN)
		{
			work->unsure = true;
			work->failure = answer.failure;
			strlcpy(work->why_unsure, answer.message,
					sizeof(work->why_unsure));
		}
		else if (answer.result != SF_RESULT_CONFLICT)
			refuse_failure(work, answer.failure, answer.message);
	}
	if (work->unsure)
		refuse_failure(work, work->failure, work->why_unsure);
	refuse_here(work, "The registry keeps changing.");
	return false;
}

/* ---- calls ---- */

static void
open_registry(const Work *work)
{
	static SfBackendConfig config;
	char		reason[SF_REASON_SIZE];

	config.presence_ms = *sf_core->presence_ms;
	config.timeout_ms = *sf_core->timeout_ms;
	config.slots = INT64CONST(1) << sf_core->layout->node_bits;
	backend = sf_registry_library_load();
	if (backend->open(sf_core->registry, &config, reason, sizeof(reason)))
		return;
	refuse_work(work, sf_core->may_see_registry() ? reason :
				"The value of snowflake.registry is not valid.",
				"Correct snowflake.registry, and restart the server.");
}

static void
close_registry(int code, Datum arg)
{
	backend->close();
}

/*
 * Make a change in the registry; return false if there is nothing to change.
 * Throws SQLSTATE 58000 if the registry fails.
 */
bool
sf_registry_session_change(SfRegistryChange *change)
{
	Work		work = {.change = change, .epoch = -1};
	bool		changed;

	work.write_id = sf_core->random() | 1;
	open_registry(&work);
	PG_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	{
		changed = make_change(&work);
	}
	PG_END_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	backend->close();
	return changed;
}

/*
 * Return a copy of the slots' records, and the layout of their ticks.  Throws
 * SQLSTATE 58000 if the registry fails.
 */
SfSlotRecord *
sf_registry_session_slots(SfLayout *layout, int *n)
{
	Work		work = {0};
	SfSlotRecord *records;

	open_registry(&work);
	PG_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	{
		SfAnswer	answer;
		char		reason[SF_REASON_SIZE];
		Size		size;

		read_registry(&work, &answer);
		*n = answer.registry->nrecords;
		size = *n * sizeof(SfSlotRecord);
		records = MemoryContextAllocHuge(CurrentMemoryContext, Max(size, 1));
		if (size > 0)			/* else it may be a null pointer */
			memcpy(records, answer.registry->records, size);
		if (!sf_layout_parse(layout, answer.registry->layout, reason,
							 sizeof(reason)))
			*layout = *sf_core->layout;
	}
	PG_END_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	backend->close();
	return records;
}
