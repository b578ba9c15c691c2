/*-------------------------------------------------------------------------
 *
 * registryfuncs.c
 *	  SQL functions that administer a registry, and two for the database of a
 *	  registry in PostgreSQL: snowflake_registry.layout() and .files().
 *
 * The first ones ask the registry in snowflake.registry, of whatever kind.  In
 * the database of a registry in PostgreSQL, administrators call functions of
 * the extension snowflake_registry: sql/snowflake_registry--1.0.sql.  Its
 * server need not preload the library, so the two use no shared memory.
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

#include <arpa/inet.h>
#include <sys/socket.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/durable_file.h"
#include "base/message.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease_worker.h"
#include "lease/slot_choice.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#define SLOT_COLUMNS	10

SF_FUNCTION(snowflake_registry_init);
SF_FUNCTION(snowflake_registry_recover);
SF_FUNCTION(snowflake_registry_slots);
SF_FUNCTION(snowflake_registry_release);
SF_FUNCTION(snowflake_registry_layout);
SF_FUNCTION(snowflake_registry_files);

/* A message shows at most this many bytes of a text. */
#define MAX_SHOWN	200

#define MARK_FILE	SF_PLACE_DIR "/snowflake_registry"

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

/* The longest wait that a recovery imposes. */
#define RECOVERY_MAX_MS	(INT64CONST(31) * 24 * 3600 * 1000)

/* What a call does.  A call that only reads leaves the kind SF_ASK_NOTHING. */
typedef struct Work
{
	SfAskKind	kind;			/* SF_ASK_INITIALIZE, _RECOVER or _RELEASE */
	SfLayout	layout;			/* for a new registry */
	int64		reserve_ms;		/* for a recovery: the first argument */
	int64		ahead_ms;		/* both arguments together, from the
								 * registry's clock on */
	char	   *former;			/* another registry that it succeeds; or "" */
	uint32		node;			/* for a release */

	/* Set by a recovery. */
	int64		floor;			/* in ticks of the registry's layout */
	SfLayout	floor_layout;

	/* The writes. */
	uint64		write_id;		/* the number of the last one, or next */
	int64		epoch;			/* of the claim to end; -1: not read yet */
	bool		unsure;			/* a write may have been made, or be yet */
	char		why_unsure[512];
	SfFailure	failure;		/* then the kind of the reason */
	char		layout_text[SF_LAYOUT_TEXT_SIZE];	/* of a new registry */
	char		succeeded[SF_FORMER_SIZE];	/* by another generation */
} Work;

/* ---- errors ---- */

/*
 * Throw SQLSTATE 55000 if there is no registry to ask.  The name is what
 * follows "snowflake_registry_" in the function's.  In the database of a
 * registry in PostgreSQL, it is the whole name of the function.
 */
static void
require_registry(const char *name)
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
 * hosts and paths.  Other roles get a public sentence instead.  The registry
 * is NULL if it was not read.
 */
static void
refuse_failure(const Work *work, SfFailure failure, const char *message,
			   const SfRegistry *registry)
{
	SfAge		age = sf_age_load();
	char		recovery[SF_RECOVERY_SIZE];
	char		remedy[SF_REMEDY_SIZE];

	if (!sf_core->may_see_registry())
		refuse_work(work, sf_registry_failure(failure),
					"Repeat the call as a member of pg_read_all_settings, who is told more.");
	sf_registry_remedy(remedy, sizeof(remedy), sf_core->kind->name, failure,
					   backend->part,
					   sf_age_print_recovery(&age, registry,
											 *sf_core->reserve_ms,
											 sf_clock_wall_ms(), recovery));
	sf_text_make_valid(remedy);
	refuse_work(work, message, sf_extschema_expand(remedy));
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
	bool		recovers = work->kind == SF_ASK_RECOVER;

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
	refuse_failure(work, answer->failure, answer->message, NULL);
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
find_ahead_ms(const Work *work, const SfRegistry *registry, const SfAge *age)
{
	int64		largest = Max(work->reserve_ms, *sf_core->reserve_ms);

	largest = Max(largest, sf_age_reserve_ms(age, sf_clock_wall_ms()));
	for (int i = 0; i < registry->nrecords; i++)
		largest = Max(largest, registry->records[i].reserve_ms);
	largest = Min(largest, Max(work->reserve_ms, SF_MAX_RESERVE_MS));
	return work->ahead_ms + largest - work->reserve_ms;
}

/*
 * Return the floor of a recovery, before which no claim begins: beyond what
 * lost records may have reserved by clocks that were right, and what is known
 * to be lost of this server's.  The until of a record that is there counts for
 * its slot alone (slot_choice.c): it may lie far ahead, reserved while all
 * clocks were wrong.
 */
static int64
find_floor(Work *work, const SfLayout *layout,
		   const SfAnswer *answer)
{
	SfAge		age = sf_age_load();
	int64		ahead_ms = find_ahead_ms(work, answer->registry, &age);

	work->floor_layout = *layout;
	return Max(Max(find_tick(layout, answer, ahead_ms),
				   answer->registry->floor),
			   tick_after(layout, sf_age_missing_ms(&age, answer->registry)));
}

/* ---- changes ---- */

/* Make it a registry; a recovery sets a floor as far ahead as any other. */
static void
prepare_new(Work *work, const SfAnswer *answer, SfAsk *ask)
{
	SfAge		age = sf_age_load();

	if (work->kind == SF_ASK_INITIALIZE && sf_age_promised_ms(&age) > 0)
		refuse_failure(work, SF_FAILURE_ANOTHER,
					   "It is empty, and this server has leased from one: it has lost its data, or is another one.",
					   answer->registry);
	require_equal_clocks(work, answer);
	sf_layout_print(&work->layout, work->layout_text,
					sizeof(work->layout_text));
	ask->kind = SF_ASK_INITIALIZE;
	ask->new_generation = work->write_id;
	ask->new_former = work->former;
	ask->new_floor = work->kind == SF_ASK_INITIALIZE ?
		find_tick(&work->layout, answer, 0) :
		find_floor(work, &work->layout, answer);
	ask->new_layout = &work->layout;
	ask->new_layout_text = work->layout_text;
}

/* Replace the generation; the caller adds the floor. */
static void
begin_generation(Work *work, const SfRegistry *registry, SfAsk *ask)
{
	sf_registry_succeed(work->succeeded, registry, work->former);
	ask->kind = SF_ASK_RECOVER;
	ask->generation = registry->generation;
	ask->new_generation = work->write_id;
	ask->new_former = work->succeeded;
}

/* Begin another generation: no claim begins before what may be forgotten. */
static void
prepare_recovery(Work *work, const SfAnswer *answer, SfAsk *ask)
{
	const SfRegistry *registry = answer->registry;
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	require_equal_clocks(work, answer);
	if (!sf_layout_parse(&layout, registry->layout, reason, sizeof(reason)))
		refuse_here(work, "The registry's layout cannot be read.");
	begin_generation(work, registry, ask);
	ask->new_floor = find_floor(work, &layout, answer);
}

/* Begin another generation on top of our own, with the same floor. */
static void
prepare_confirmation(Work *work, const SfRegistry *registry, SfAsk *ask)
{
	begin_generation(work, registry, ask);
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
	if (work->kind == SF_ASK_RELEASE)
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
	const SfSlotRecord *record = sf_slot_record_find(registry, work->node);
	bool		made = was_made(work, registry, record);

	memset(ask, 0, sizeof(SfAsk));
	if (made)
		work->write_id = sf_core->random() | 1;
	if (work->kind == SF_ASK_RELEASE)
		return prepare_release(work, registry, record, made, ask);
	if (made)
		prepare_confirmation(work, registry, ask);
	else if (!registry->initialized)
		prepare_new(work, answer, ask);
	else if (work->kind == SF_ASK_INITIALIZE)
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
			work->floor = ask.new_floor;
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
			refuse_failure(work, answer.failure, answer.message, NULL);
	}
	if (work->unsure)
		refuse_failure(work, work->failure, work->why_unsure, NULL);
	refuse_here(work, "The registry keeps changing.");
	return false;
}

/* ---- a call ---- */

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

/* Connect, and make the change; return false if there is none to make. */
static bool
change_registry(Work *work)
{
	bool		changed;

	work->epoch = -1;
	work->write_id = sf_core->random() | 1;
	open_registry(work);
	PG_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	{
		changed = make_change(work);
	}
	PG_END_ENSURE_ERROR_CLEANUP(close_registry, (Datum) 0);
	backend->close();
	return changed;
}

/* Return a copy of the slots' records, and the layout of their ticks. */
static SfSlotRecord *
read_slots(SfLayout *layout, int *n)
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

/* ---- the SQL functions ---- */

static void
require_writable(const char *function)
{
	if (XactReadOnly)
		sf_read_only_refuse(function);
}

/*
 * Read a layout of which node ids can be leased.  The names "node" and "shard"
 * are refused: the layout is that of the servers.  Throws SQLSTATE 22023.
 */
static void
read_layout(SfLayout *layout, const text *t)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);

	if (!sf_layout_parse(layout, str, reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid layout: \"%.*s\"",
						pg_mbcliplen(str, strlen(str), MAX_SHOWN), str),
				 errdetail("%s", reason),
				 errhint("Give the layout \"node\" of snowflake_layouts() on a server that leases.")));
	if (layout->node_bits == 0 || sf_layout_has(layout, SF_SHARD))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no server can lease a node id of this layout"),
				 layout->node_bits == 0 ?
				 errdetail("It has no field for a node.") :
				 errdetail("It has the field \"shard\"."),
				 errhint("Give the layout that the servers have as snowflake.layout. Shards are not leased.")));
}

/*
 * snowflake_registry.layout(layout text) returns a row: the text that workers
 * compare, the epoch, and the tick.  The server of a registry in PostgreSQL
 * need not have the library preloaded.  Throws SQLSTATE 22023.
 */
Datum
snowflake_registry_layout(PG_FUNCTION_ARGS)
{
	SfLayout	layout;
	char		spelled[SF_LAYOUT_TEXT_SIZE];
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	read_layout(&layout, PG_GETARG_TEXT_PP(0));
	sf_layout_print(&layout, spelled, sizeof(spelled));
	values[0] = CStringGetTextDatum(spelled);
	values[1] = Int64GetDatum(layout.epoch_ms);
	values[2] = Int32GetDatum(layout.tick_ms);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * snowflake_registry_init([layout text]) returns boolean
 *
 * Create a registry for servers with this layout, by default this server's;
 * return false if there is one.  Throws SQLSTATE 22023, 25006, 55000, 58000
 */
Datum
snowflake_registry_init(PG_FUNCTION_ARGS)
{
	Work		work = {.kind = SF_ASK_INITIALIZE, .former = ""};

	require_writable("snowflake_registry_init()");
	require_registry("init");
	if (PG_NARGS() < 1 || PG_ARGISNULL(0))
		work.layout = *sf_core->layout;
	else
		read_layout(&work.layout, PG_GETARG_TEXT_PP(0));
	PG_RETURN_BOOL(change_registry(&work));
}

/* Convert a registry's tick, which may be any number, into Unix ms. */
static int64
get_ms(const SfLayout *layout, int64 tick)
{
	tick = Max(0, Min(tick, SF_END_OF_TICKS));
	return sf_layout_after_epoch_ms(layout, tick);
}

/*
 * Convert the arguments into ms from now on: to the end of the first, and of
 * both.  SQLSTATE 22004, 22023.
 */
static void
get_ahead_ms(FunctionCallInfo fcinfo, Work *work)
{
	/* the defaults of the arguments */
	Interval	defaults[2] = {{.time = SF_RECOVER_S * USECS_PER_SEC},
	{.time = SF_RECOVER_OFFSET_S * USECS_PER_SEC}};

	/* in UTC, where each day has 24 hours */
	Timestamp	now = GetCurrentTimestamp();
	Datum		then = TimestampGetDatum(now);

	for (int i = 0; i < 2; i++)
	{
		Datum		ahead = i < PG_NARGS() ? PG_GETARG_DATUM(i) :
			IntervalPGetDatum(&defaults[i]);

		if (i < PG_NARGS() && PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("largest_reserve and largest_offset must not be null"),
					 errhint("Leave an argument out to get its default.")));
		then = DirectFunctionCall2(timestamp_pl_interval, then, ahead);
		if (DatumGetTimestamp(then) < now ||
			DatumGetTimestamp(then) - now > RECOVERY_MAX_MS * 1000)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("largest_reserve and largest_offset must be from 0 to 31 days together"),
					 errhint("Give the largest snowflake.lease_reserve of all servers, and how far clocks may be off.")));
		work->ahead_ms = (DatumGetTimestamp(then) - now + 999) / 1000;
		if (i == 0)
			work->reserve_ms = work->ahead_ms;
	}
}

/* Read the generation of another registry.  SQLSTATE 22023. */
static char *
read_former(FunctionCallInfo fcinfo)
{
	char	   *former = PG_ARGISNULL(2) ? "" :
		text_to_cstring(PG_GETARG_TEXT_PP(2));

	if (strlen(former) != 16 || strspn(former, "0123456789abcdef") != 16)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("former must have 16 hexadecimal digits"),
				 errhint("On a server that has leased from the former registry, the column \"remedy\" of snowflake_lease() has the arguments.")));
	return former;
}

/*
 * snowflake_registry_recover([largest_reserve interval
 *							   [, largest_offset interval [, former text]]])
 *		returns timestamptz
 *
 * Recover after a loss of data: no claim begins before what any server may
 * have reserved, which is what is given, or more if the registry knows of
 * more.  Servers of the former registry may lease from this one.  A registry
 * that is empty is created, with this server's layout.
 *
 * Throws SQLSTATE 22004, 22023, 25006, 55000, 58000.
 */
Datum
snowflake_registry_recover(PG_FUNCTION_ARGS)
{
	Work		work = {.kind = SF_ASK_RECOVER, .former = ""};
	int64		floor_ms;

	require_writable("snowflake_registry_recover()");
	require_registry("recover");
	work.layout = *sf_core->layout;
	get_ahead_ms(fcinfo, &work);
	if (PG_NARGS() > 2)
		work.former = read_former(fcinfo);
	change_registry(&work);
	floor_ms = get_ms(&work.floor_layout, work.floor);
	PG_RETURN_TIMESTAMPTZ(sf_timefmt_from_ms(floor_ms));
}

/* Return an address; NULL if the text is none. */
static Datum
get_address(const SfSlotRecord *record, bool *isnull)
{
	unsigned char address[sizeof(struct in6_addr)];
	int			family = strchr(record->address, ':') != NULL ?
		AF_INET6 : AF_INET;

	*isnull = inet_pton(family, record->address, address) != 1;
	return *isnull ? (Datum) 0 :
		DirectFunctionCall1(inet_in, CStringGetDatum(record->address));
}

static void
put_slot(ReturnSetInfo *rsinfo, const SfLayout *layout, SfSlotRecord *record)
{
	Datum		values[SLOT_COLUMNS];
	bool		nulls[SLOT_COLUMNS] = {0};
	bool		written = record->version != 0;
	int64		until_ms = get_ms(layout, record->until);
	char	   *holder = psprintf("%llx", (unsigned long long) record->owner);
	Interval	offset = {.time = record->offset_ms * 1000};

	values[0] = Int64GetDatum(record->node);
	values[1] = CStringGetTextDatum(record->host);
	values[2] = get_address(record, &nulls[2]);
	values[3] = Int32GetDatum(record->process);
	values[4] = CStringGetTextDatum(holder);
	values[5] = TimestampTzGetDatum(sf_timefmt_from_ms(record->since_ms));
	values[6] = TimestampTzGetDatum(sf_timefmt_from_ms(until_ms));
	values[7] = BoolGetDatum(record->present != 0);
	values[8] = BoolGetDatum(record->released);
	values[9] = IntervalPGetDatum(&offset);
	nulls[1] = nulls[4] = nulls[6] = nulls[9] = !written;
	nulls[3] = nulls[5] = record->since_ms == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_registry_slots() returns rows, by slot
 *
 * List the holders.  Throws SQLSTATE 55000, 58000.
 */
Datum
snowflake_registry_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfSlotRecord *records;
	SfLayout	layout;
	int			n;

	require_registry("slots");
	InitMaterializedSRF(fcinfo, 0);
	records = read_slots(&layout, &n);
	for (int i = 0; i < n; i++)
		put_slot(rsinfo, &layout, &records[i]);
	return (Datum) 0;
}

/*
 * snowflake_registry_release(slot bigint) returns boolean
 *
 * Free the slot of a holder that is gone; return false if it had no holder.
 * Throws SQLSTATE 22004, 25006; 55000, 58000.
 */
Datum
snowflake_registry_release(PG_FUNCTION_ARGS)
{
	Work		work = {.kind = SF_ASK_RELEASE};
	int64		slot;

	require_writable("snowflake_registry_release()");
	require_registry("release");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("slot must not be null"),
				 errhint("See the slots: SELECT * FROM %s.snowflake_registry_slots();",
						 sf_extschema())));
	slot = PG_GETARG_INT64(0);
	if (slot < 0 || slot > PG_UINT32_MAX)
		PG_RETURN_BOOL(false);
	work.node = (uint32) slot;
	PG_RETURN_BOOL(change_registry(&work));
}

/* ---- which data directory a registry in PostgreSQL is in ---- */

/*
 * A base backup that starts without a recovery.signal keeps the system
 * identifier and the timeline, and has lost what was written since.  Two
 * things distinguish it: the place of the data directory, and a random number
 * in a file that base backups leave out (durable_file.h).  Making a database a
 * registry, or recovering one, creates and records both.
 *
 * The machine and the directory's inode prove nothing: a container that is
 * made again, a disk that another machine takes over, and some file systems
 * change them, and a false alarm would stop all servers.  If files are copied
 * back to their old place, the leasing servers notice it, because they
 * remember what the registry had (registry_age.c).
 */

/*
 * Return the random number, or 0 if there is none.  If its file is unreadable,
 * throw an error: a new number would turn this directory into a copy.
 */
static uint64
read_mark(void)
{
	void	   *data;
	size_t		size;
	uint64		mark = 0;

	if (sf_durable_file_read(MARK_FILE, &data, &size) && size == sizeof(mark))
		memcpy(&mark, data, sizeof(mark));
	if (data != NULL)
		pfree(data);
	if (mark == 0 && sf_durable_file_exists(MARK_FILE))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\" in the data directory",
						MARK_FILE),
				 errhint("Make it readable for the server. If it is damaged, remove it: a server that leases from this registry then says what is to be done.")));
	return mark;
}

/* Create the number, unless another session has done so meanwhile. */
static uint64
make_mark(void)
{
	uint64		mark;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mark = read_mark();
	if (mark == 0)
	{
		if (!pg_strong_random(&mark, sizeof(mark)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random number")));
		mark |= 1;
		(void) sf_place_make_dir(ERROR);
		(void) sf_durable_file_write(MARK_FILE, &mark, sizeof(mark), ERROR);
	}
	LWLockRelease(AddinShmemInitLock);
	return mark;
}

/*
 * snowflake_registry.files(make boolean) returns bigint
 *
 * Return a number that no copy of this database or of the data directory has;
 * 0 if it has none and "make" is false.  A number, once made, stays, so making one gives a
 * caller no advantage.
 *
 * Only a transaction that begins or recovers a registry sets "make".  It must
 * see what workers have written while it waited for them.
 *
 * Throws SQLSTATE 25000, 25006, XX001, and errors of files.
 */
Datum
snowflake_registry_files(PG_FUNCTION_ARGS)
{
	bool		make = PG_GETARG_BOOL(0);
	uint64		mark = read_mark();
	SfPlace		here;

	if (make && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot begin or recover a registry at this isolation level"),
				 errdetail("The snapshot may be older than the lock on the registry, and miss what servers have reserved."),
				 errhint("Use READ COMMITTED.")));
	if (mark == 0 && !make)
		PG_RETURN_INT64(0);
	if (mark == 0)
	{
		if (XactReadOnly)
			sf_read_only_refuse("snowflake_registry.files()");
		mark = make_mark();
	}
	sf_place_find(&here);
	mark = hash_combine64(mark, MyDatabaseId);
	PG_RETURN_INT64((int64) (hash_bytes_extended((unsigned char *) here.path,
												 (int) strlen(here.path),
												 mark) | 1));
}
