/*-------------------------------------------------------------------------
 *
 * tell.c
 *	  Lines for the log: events, each kind no more often than is useful.
 *
 * A thousand sessions may meet one thing at once, a thousand times in a
 * second.  So each kind has a word in shared memory that says from when on the
 * next line is due, and whoever moves that on by compare-and-swap writes it.
 * What is left out meanwhile is counted, and the next line says how much it
 * was.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "tell.h"

#include "clock.h"
#include "state.h"

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

/* Is a line due?  Then also how many have been left out before it. */
static bool
is_due(SfEvent event, uint64 *left_out)
{
	SfEventLimit *limit = &sf_state->events[event];
	int64		now = sf_clock_monotonic_ms();
	int64		every = kinds[event].intervals *
		(int64) pg_atomic_read_u32(&sf_state->log_interval_ms);
	uint64		due = pg_atomic_read_u64(&limit->due_ms);
	int64		from;

	do
	{
		/* not for longer than by the interval as it is now */
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

/* Five characters as the server packs them. */
static int
sqlstate(const char *code)
{
	return MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

/* Detail and hint may be NULL.  The format may have %m. */
void
sf_tell(SfEvent event, const char *detail, const char *hint,
		const char *format, ...)
{
	const Kind *kind = &kinds[event];
	int			save_errno = errno;
	char		text[1000];
	char		more[100] = "";
	uint64		left_out;
	va_list		args;

	if (!is_due(event, &left_out))
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
