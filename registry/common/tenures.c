/*-------------------------------------------------------------------------
 *
 * tenures.c
 *	  Who held a slot or shards before, for registries that store texts.
 *
 * Servers extend their lines in the one record of the shards all the time,
 * which can have a thousand lines.  So both texts are parsed once, and most
 * lines are found again.  A server that gives back shards, or takes others,
 * ends its line and begins another.  Who holds the first shard of a line now
 * tells why it ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <time.h>

#include "utils/json.h"

#include "tenures.h"

#define DAY_MS			INT64CONST(86400000)
#define DEFAULT_DAYS	7

/* A longer text could make a write fail, which is too large then. */
#define MAX_TEXT		100000

/* Shards are below this (src/layout/ranges.h). */
#define MAX_SHARDS		65536

/* A line of the record that has a holder (src/lease/shard_map.h). */
typedef struct Line
{
	const char *shards;			/* as ranges */
	int			length;			/* of these */
	int64		until;
	int64		since_ms;		/* 0: unknown */
	uint64		server;
	const char *host;
	int			host_length;
} Line;

/* Print a time in UTC, as it sorts. */
void
sf_tenures_print_time(char text[SF_TENURES_TIME_SIZE], int64 ms)
{
	time_t		seconds;
	struct tm	tm;
	size_t		len = 0;

	ms = Max(0, Min(ms, SF_HISTORY_LAST_MS));
	seconds = ms / 1000;
	if (gmtime_r(&seconds, &tm) != NULL)
		len = strftime(text, SF_TENURES_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, SF_TENURES_TIME_SIZE - len, ".%03dZ",
			 (int) (ms % 1000));
}

/* Read for how many days tenures are kept: 7, if the text says nothing. */
int64
sf_tenures_parse_days(const char *text)
{
	char	   *end;
	long		days = strtol(text, &end, 10);

	if (end == text || strspn(end, " \n") != strlen(end) || days < 0)
		return DEFAULT_DAYS;
	return Min(days, 36500);
}

/* Print the time at which what is kept begins. */
void
sf_tenures_print_first(int64 wall_ms, int64 keep_days,
					   char first[SF_TENURES_TIME_SIZE])
{
	sf_tenures_print_time(first, wall_ms - keep_days * DAY_MS);
}

/*
 * Append when a tenure began and ended, and why; "ended" NULL: it has not.  A
 * time of 0 is unknown.
 */
static void
append_times(StringInfo buf, int64 since_ms, const SfLayout *layout,
			 int64 until, int64 ended_ms, const char *ended)
{
	char		at[SF_TENURES_TIME_SIZE];

	until = Max(0, Min(until, SF_END_OF_TICKS));
	sf_tenures_print_time(at, (layout->epoch_tick + until) * layout->tick_ms);
	appendStringInfo(buf, ",\"until\":\"%s\"", at);

	if (since_ms > 0)
	{
		sf_tenures_print_time(at, since_ms);
		appendStringInfo(buf, ",\"since\":\"%s\"", at);
	}
	if (ended != NULL)
		appendStringInfo(buf, ",\"ended\":\"%s\"", ended);
	if (ended != NULL && ended_ms > 0)
	{
		sf_tenures_print_time(at, ended_ms);
		appendStringInfo(buf, ",\"ended_at\":\"%s\"", at);
	}
	appendStringInfoChar(buf, '}');
}

/* ---- slots ---- */

/* Append the tenure of this record; "ended" is why if nobody gave it back. */
static void
append_slot(StringInfo buf, const SfSlotRecord *record,
			const SfLayout *layout, const char *ended)
{
	if (record->released)
		ended = record->owner != 0 ? "released" : "displaced";
	appendStringInfo(buf, "{\"slot\":%u,\"host\":", record->node);
	escape_json(buf, record->host);
	appendStringInfoString(buf, ",\"address\":");
	escape_json(buf, record->address);
	appendStringInfo(buf, ",\"process\":%d", record->process);
	append_times(buf, record->since_ms, layout, record->until,
				 record->ended_ms, ended);
}

/* ---- shards ---- */

/* Parse a line; return false if it has no holder. */
static bool
parse_line(const char *text, const char *end, Line *line)
{
	char		rest[SF_HOST_SIZE + 160];
	size_t		room;
	long long	number;
	unsigned long long server;
	int			at = 0;
	int			n = 0;

	if (strncmp(text, "held ", 5) != 0)
		return false;
	line->shards = text + 5;
	line->length = (int) strcspn(line->shards, " \n");
	text = line->shards + line->length;

	/* strlcpy() would read the whole record for each line */
	room = Min(sizeof(rest) - 1, (size_t) (end - text));
	memcpy(rest, text, room);
	rest[room] = '\0';

	if (sscanf(rest, " until %lld%n", &number, &at) != 1)
		return false;
	line->until = number;
	line->since_ms = 0;
	if (sscanf(rest + at, " reserve %lld%n", &number, &n) == 1)
		at += n;
	if (sscanf(rest + at, " since %lld%n", &number, &n) == 1)
	{
		at += n;
		line->since_ms = number;
	}
	n = 0;
	if (sscanf(rest + at, " write %*16s server %llx host %n", &server,
			   &n) != 1 || n == 0)
		return false;
	line->server = server;
	line->host = text + at + n;
	line->host_length = (int) (end - line->host);
	return true;
}

/* Return the lines of a record that have holders. */
static Line *
parse_lines(const char *text, int *n)
{
	int			room = 16;
	Line	   *lines = palloc(room * sizeof(Line));
	const char *end;

	*n = 0;
	for (; (end = strchr(text, '\n')) != NULL; text = end + 1)
	{
		if (*n == room)
		{
			room *= 2;
			lines = repalloc(lines, room * sizeof(Line));
		}
		*n += parse_line(text, end, &lines[*n]);
	}
	return lines;
}

static bool
has_same_shards(const Line *a, const Line *b)
{
	return a->length == b->length &&
		memcmp(a->shards, b->shards, a->length) == 0;
}

/* Read the next range of shards, up to the end of a line; false: no more. */
static bool
next_range(const Line *line, const char **at, unsigned long *first,
		   unsigned long *last)
{
	char	   *end;

	if (*at >= line->shards + line->length)
		return false;
	*first = *last = strtoul(*at, &end, 10);
	if (*end == '-')
		*last = strtoul(end + 1, &end, 10);
	*at = end + 1;
	return true;
}

/* Return the line that holds a shard now, or NULL. */
static const Line *
find_holder(unsigned long shard, const Line *lines, int n)
{
	for (int i = 0; i < n; i++)
	{
		const char *at = lines[i].shards;
		unsigned long first;
		unsigned long last;

		while (next_range(&lines[i], &at, &first, &last))
		{
			if (first <= shard && shard <= last)
				return &lines[i];
		}
	}
	return NULL;
}

/*
 * Return the line in which this one goes on, or NULL.  A server that changes
 * its own line gives it another time.  If the line has fewer shards now,
 * somebody has taken the others: another server, or itself after it forgot the
 * line in a crash.
 */
static const Line *
find_rest(const Line *line, const Line *lines, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (lines[i].server == line->server &&
			lines[i].since_ms == line->since_ms &&
			(line->since_ms != 0 || has_same_shards(&lines[i], line)))
			return &lines[i];
	}
	return NULL;
}

/* Add a number to the steps at the beginnings of a line's ranges and ends. */
static void
add_steps(int64 *steps, const Line *line, int64 number)
{
	const char *at = line->shards;
	unsigned long first;
	unsigned long last;

	while (next_range(line, &at, &first, &last))
	{
		steps[Min(first, MAX_SHARDS)] += number;
		steps[Min(last, MAX_SHARDS - 1) + 1] -= number;
	}
}

/* Return the shards of a line that are not in its rest, as ranges. */
static char *
print_lost(const Line *line, const Line *rest)
{
	int64	   *steps = palloc0((MAX_SHARDS + 1) * sizeof(int64));
	int64		held = 0;
	int			first = -1;
	StringInfoData buf;

	initStringInfo(&buf);
	add_steps(steps, line, 1);
	/* more than a line can have ranges */
	add_steps(steps, rest, -PG_INT32_MAX);
	for (int i = 0; i <= MAX_SHARDS; i++)
	{
		held += steps[i];
		if (held > 0 && first < 0)
			first = i;
		else if (held <= 0 && first >= 0)
		{
			appendStringInfo(&buf, first < i - 1 ? "%s%d-%d" : "%s%d",
							 buf.len > 0 ? "," : "", first, i - 1);
			first = -1;
		}
	}
	pfree(steps);
	return buf.data;
}

/* Append a tenure of shards; "ended" NULL: it has not. */
static void
append_shards(StringInfo buf, const SfAsk *ask, const Line *line,
			  const char *ended)
{
	const SfLayout *layout = ask->shard_layout;
	int64		ended_ms = ask->wall_ms;
	char	   *host = pnstrdup(line->host, line->host_length);

	if (ended != NULL && strcmp(ended, "expired") == 0)
		ended_ms = Min(ended_ms,
					   (layout->epoch_tick + line->until) * layout->tick_ms);
	appendStringInfo(buf, "%s{\"shards\":\"%.*s\",\"host\":",
					 buf->len > 0 ? "\n" : "", line->length, line->shards);
	escape_json(buf, host);
	append_times(buf, line->since_ms, layout, line->until, ended_ms, ended);
	pfree(host);
}

/* Return why a line has ended. */
static const char *
find_reason(const Line *line, const Line *lines, int n)
{
	const Line *holder = find_holder(strtoul(line->shards, NULL, 10), lines,
									 n);

	if (holder == NULL)
		return "released";
	if (holder->server != line->server)
		return "expired";
	return has_same_shards(holder, line) ? "displaced" : "released";
}

/* Return true if the lease of a line is over. */
static bool
is_over(const SfAsk *ask, const Line *line)
{
	const SfLayout *layout = ask->shard_layout;
	int64		until = layout->epoch_tick + line->until;

	return until * layout->tick_ms <= ask->wall_ms;
}

/* Append the shards that a line has lost. */
static void
append_lost_shards(StringInfo buf, const SfAsk *ask, const Line *line,
				   const Line *rest, const Line *lines, int n)
{
	Line		lost = *line;
	const Line *holder;

	lost.shards = print_lost(line, rest);
	lost.length = (int) strlen(lost.shards);
	holder = find_holder(strtoul(lost.shards, NULL, 10), lines, n);
	append_shards(buf, ask, &lost,
				  holder != NULL && holder->server == lost.server &&
				  !is_over(ask, &lost) ? "displaced" : "expired");
}

static void
append_ended_shards(StringInfo buf, const SfAsk *ask)
{
	int			nold;
	int			nnew;
	Line	   *old = parse_lines(ask->replaced_shards, &nold);
	Line	   *new = parse_lines(ask->shards, &nnew);

	for (int i = 0; i < nold; i++)
	{
		const Line *rest = find_rest(&old[i], new, nnew);

		if (rest == NULL)
			append_shards(buf, ask, &old[i],
						  find_reason(&old[i], new, nnew));
		else if (!has_same_shards(rest, &old[i]))
			append_lost_shards(buf, ask, &old[i], rest, new, nnew);
	}
	pfree(old);
	pfree(new);
}

/* ---- both ---- */

/*
 * Return true if a claim replaces a holder that is present, or that is this
 * server itself, before others may claim the slot.
 */
static bool
is_displaced(const SfAsk *ask)
{
	const SfSlotRecord *slot = &ask->replaced;
	const SfLayout *layout = ask->layout;
	int64		until = layout->epoch_tick + slot->until;

	return slot->present != 0 || (slot->server == ask->record.server &&
								  slot->ended_ms < until * layout->tick_ms);
}

/* Find out what a write ends; false: nothing, or too much to be kept. */
bool
sf_tenures_find(const SfAsk *ask, SfTenures *ended)
{
	StringInfoData buf;
	bool		is_slot = ask->kind == SF_ASK_CLAIM;
	const SfSlotRecord *slot = &ask->replaced;

	if (is_slot ? slot->version == 0 :
		ask->kind != SF_ASK_SHARDS || ask->replaced_shards == NULL)
		return false;
	initStringInfo(&buf);
	if (is_slot)
		append_slot(&buf, slot, ask->layout, is_displaced(ask) ?
					"displaced" : "expired");
	else
		append_ended_shards(&buf, ask);
	sf_tenures_print_time(ended->ended_at,
						  is_slot ? slot->ended_ms : ask->wall_ms);
	if (is_slot)
		snprintf(ended->name, sizeof(ended->name), "%u", slot->node);
	else
		strlcpy(ended->name, "shards", sizeof(ended->name));
	ended->version = is_slot ? slot->version : ask->version;
	ended->text = buf.data;
	return buf.len > 0 && buf.len <= MAX_TEXT;
}

/* ---- reading ---- */

/* Append a line for each tenure that still has its record. */
void
sf_tenures_append_held(StringInfo buf, const SfAsk *ask,
					   const SfRegistry *registry)
{
	int			n;
	Line	   *lines = parse_lines(registry->shards, &n);

	for (int i = 0; i < registry->nrecords; i++)
	{
		if (registry->records[i].version == 0)
			continue;			/* a presence alone */
		append_slot(buf, &registry->records[i], ask->layout, NULL);
		appendStringInfoChar(buf, '\n');
	}
	for (int i = 0; i < n; i++)
		append_shards(buf, ask, &lines[i], NULL);
	appendStringInfoChar(buf, '\n');
}

/* Append an entry of the history; return false if there is no room. */
bool
sf_tenures_append(StringInfo buf, const char *text)
{
	if (buf->len + strlen(text) > SF_HISTORY_MAX_SIZE)
		return false;
	appendStringInfo(buf, "%s\n", text);
	return true;
}
