/*-------------------------------------------------------------------------
 *
 * log.c
 *	  Log events, each kind no more often than is useful.
 *
 * A thousand sessions may meet the same event at once, a thousand times a
 * second.  So for each kind, a word in shared memory says when the next line
 * is due.  The process that advances it by compare-and-swap writes the line.
 * The other events are counted, and the next line says how many were left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/log.h"

#include "base/clock.h"
#include "runtime/shmem.h"

typedef struct Kind
{
	const char *code;
	int			level;
	int			burst;
	int			intervals;
} Kind;

#define KIND(id, code, level, burst, intervals) \
	{code, level, burst, intervals},

static const Kind kinds[SF_EVENTS] = {SF_EVENT_LIST(KIND)};

/*
 * Return true if this event may be logged now; set *left_out to the number
 * suppressed since the last line.
 */
static bool
is_due(SfEventLimit *limit, SfEvent event, uint64 *left_out)
{
	int64		now = sf_clock_monotonic_ms();
	int64		every = kinds[event].intervals *
		(int64) pg_atomic_read_u32(&sf_shmem->log_interval_ms);
	uint64		due = pg_atomic_read_u64(&limit->due_ms);
	int64		from;

	do
	{
		/* wait no longer than the current interval demands */
		from = Min((int64) due, now + every * kinds[event].burst);
		if (from > now + every * (kinds[event].burst - 1))
		{
			pg_atomic_fetch_add_u64(&limit->left_out, 1);
			return false;
		}
	} while (!pg_atomic_compare_exchange_u64(&limit->due_ms, &due,
											 Max(from, now) + every));
	*left_out = pg_atomic_exchange_u64(&limit->left_out, 0);
	return true;
}

/* Pack five characters as the server packs an SQLSTATE. */
static int
sqlstate(const char *code)
{
	return MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

/*
 * Write a record into the server's log, each time, and without its statement.
 * No client gets it.
 */
void
sf_log_record(SfEvent event, const char *record)
{
	ErrorContextCallback *callbacks = error_context_stack;

	/* they may look at what the transaction's end has taken away */
	error_context_stack = NULL;
	ereport(LOG_SERVER_ONLY,
			(errcode(sqlstate(kinds[event].code)),
			 errmsg_internal("snowflake %s: %s", kinds[event].code, record),
			 errhidestmt(true)));
	error_context_stack = callbacks;
}

/*
 * Log an event.  Detail and hint may be NULL, and so may the limit: then it is
 * that of the event's kind.  The format may contain %m.
 */
void
sf_log_event_within(SfEventLimit *limit, SfEvent event, const char *detail,
					const char *hint, const char *format, ...)
{
	const Kind *kind = &kinds[event];
	int			save_errno = errno;
	char		text[1000];
	char		more[100] = "";
	uint64		left_out;
	va_list		args;

	if (!is_due(limit != NULL ? limit : &sf_shmem->events[event], event,
				&left_out))
		return;
	errno = save_errno;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (left_out > 0)
		snprintf(more, sizeof(more),
				 "%s%llu lines of this kind were left out before.",
				 detail != NULL ? " " : "", (unsigned long long) left_out);
	ereport(kind->level,
			(errcode(sqlstate(kind->code)),
			 errmsg_internal("snowflake %s: %s", kind->code, text),
			 detail != NULL || left_out > 0 ?
			 errdetail_internal("%s%s", detail != NULL ? detail : "",
								more) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* Return "written"; if it is false, log that, since the file's writer did. */
bool
sf_log_file(bool written, const char *name, const char *detail)
{
	if (!written)
		sf_log_event(SF_EVENT_FILE_UNWRITTEN, detail,
					 "The line before says why. If the disk is full, make room; if permission is denied, the file must belong to the account of the server.",
					 "could not write file \"%s\"", name);
	return written;
}
