/*-------------------------------------------------------------------------
 *
 * layout_text.c
 *	  Texts of layouts and epochs: parser, printer and presets.
 *
 * A layout's text is a preset's name, or a list of fields from high to low,
 * each with its width in bits.  "tick:" and "epoch:" may follow either.
 *
 * The epoch is not parsed by the server's timestamptz input.  Its result
 * depends on settings (TimeZone, DateStyle) that may change, and it cannot run
 * as early as settings are read.
 *
 * Pure: compiles and is tested without a server (test/unit).
 *
 *-------------------------------------------------------------------------
 */
#include "layout/layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS_PER_DAY	INT64_C(86400000)

/* Smaller positive integers would be days, years or seconds, not ms. */
#define LEAST_INTEGER_EPOCH	INT64_C(100000000000)

const SfPreset sf_presets[] = {
	{"snowflake", "timestamp:41 node:10 sequence:12 epoch:2024-01-01",
	"this extension's default"},
	{"twitter", "timestamp:41 datacenter:5 worker:5 sequence:12 epoch:1288834974657",
	"github.com/twitter-archive/snowflake, IdWorker.scala"},
	{"discord", "timestamp:42 worker:5 process:5 sequence:12 epoch:2015-01-01",
	"Discord developer documentation, Snowflakes"},
	{"instagram", "timestamp:41 shard:13 sequence:10 epoch:1314220021721",
	"Instagram engineering, Sharding & IDs at Instagram (2012)"},
	{"mastodon", "timestamp:48 sequence:16 epoch:1970-01-01",
	"github.com/mastodon/mastodon, lib/mastodon/snowflake.rb"},
	{"javascript", "timestamp:41 node:7 sequence:5 epoch:2024-01-01",
	"53 bits: ECMAScript, Number.MAX_SAFE_INTEGER"},
	{"sonyflake", "timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01",
	"github.com/sony/sonyflake"},
	{"pgedge", "timestamp:41 node:10 sequence:12 epoch:2023-01-01",
	"github.com/pgEdge/snowflake, snowflake.c"},
};
const int	sf_npresets = sizeof(sf_presets) / sizeof(sf_presets[0]);

const char *const sf_field_names[SF_NFIELDS] = {
	"timestamp", "datacenter", "worker", "process", "node", "shard", "sequence"
};

/* A word of the text, not terminated. */
typedef struct Word
{
	const char *start;
	int			len;
} Word;

static bool refuse_layout(char *reason, size_t size, const char *fmt, ...)
			__attribute__((format(printf, 3, 4)));

/* Write the reason for a refusal, and return false. */
static bool
refuse_layout(char *reason, size_t size, const char *fmt, ...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(reason, size, fmt, args);
	va_end(args);
	return false;
}

static bool
word_is(Word word, const char *text)
{
	return strlen(text) == (size_t) word.len &&
		memcmp(word.start, text, word.len) == 0;
}

/* Return how much of a word a message shows, cut beside an ASCII byte. */
static int
shown(Word word)
{
	const char *s = word.start;
	int			len = word.len;

	if (len <= 40)
		return len;
	for (len = 40; len > 0 && (s[len] & s[len - 1] & 0x80); len--)
		;
	return len;
}

static bool
next_word(const char **cursor, Word *word)
{
	*cursor += strspn(*cursor, " \t\r\n");
	word->start = *cursor;
	word->len = strcspn(*cursor, " \t\r\n");
	*cursor += word->len;
	return word->len > 0;
}

/* Remove up to max_digits digits from the front; -1 if there are none. */
static int64_t
take_number(Word *word, int max_digits)
{
	int64_t		n = -1;

	while (word->len > 0 && max_digits-- > 0 &&
		   *word->start >= '0' && *word->start <= '9')
	{
		n = (n < 0 ? 0 : n) * 10 + (*word->start - '0');
		word->start++;
		word->len--;
	}
	return n;
}

/* Remove exactly this many digits from the front. */
static bool
take_digits(Word *word, int digits, int64_t *n)
{
	int			len = word->len;

	*n = take_number(word, digits);
	return len - word->len == digits;
}

static bool
take_char(Word *word, const char *chars)
{
	if (word->len == 0 || strchr(chars, *word->start) == NULL)
		return false;
	word->start++;
	word->len--;
	return true;
}

/* ---- epochs ---- */

/* Return the days from 1970-01-01 to a Gregorian day, 1970 or later. */
static int64_t
days_from_civil(int64_t year, int64_t month, int64_t day)
{
	/* count years from March, so that a leap day ends its year */
	int64_t		y = month > 2 ? year : year - 1;
	int64_t		m = month > 2 ? month - 3 : month + 9;

	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 +
		day - 1 - 719468;
}

static void
civil_from_days(int64_t days, int *year, int *month, int *day)
{
	static const int month_days[] = {
		31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31
	};
	int64_t		y = 1970 + days / 366;	/* the right year or an earlier one */
	int64_t		d;

	while (days_from_civil(y + 1, 1, 1) <= days)
		y++;
	d = days - days_from_civil(y, 1, 1);
	*year = (int) y;
	for (*month = 1; *month < 12; (*month)++)
	{
		int64_t		len = month_days[*month - 1];

		if (*month == 2)
			len = days_from_civil(y, 3, 1) - days_from_civil(y, 2, 1);
		if (d < len)
			break;
		d -= len;
	}
	*day = (int) d + 1;
}

/* Parse [T or space]HH:MM[:SS[.fff]][Z], the end of an ISO 8601 time. */
static bool
parse_time_of_day(Word *rest, int64_t *ms)
{
	int64_t		hour,
				minute,
				second = 0,
				fraction = 0;

	if (!take_char(rest, "Tt "))
		return false;
	if (!take_digits(rest, 2, &hour) || hour > 23 || !take_char(rest, ":"))
		return false;
	if (!take_digits(rest, 2, &minute) || minute > 59)
		return false;
	if (take_char(rest, ":"))
	{
		if (!take_digits(rest, 2, &second) || second > 59)
			return false;
		if (take_char(rest, "."))
		{
			int			digits = rest->len;

			fraction = take_number(rest, 3);
			digits -= rest->len;
			if (fraction < 0)
				return false;
			while (digits++ < 3)
				fraction *= 10;
		}
	}
	*ms = ((hour * 60 + minute) * 60 + second) * 1000 + fraction;
	return true;
}

static bool
parse_date_and_time(Word word, int64_t *epoch_ms)
{
	int64_t		year,
				month,
				day,
				ms = 0;
	int64_t		days;
	int			y,
				m,
				d;

	if (!take_digits(&word, 4, &year) || year < 1 || !take_char(&word, "-"))
		return false;
	if (!take_digits(&word, 2, &month) || month < 1 || month > 12 ||
		!take_char(&word, "-"))
		return false;
	if (!take_digits(&word, 2, &day) || day < 1 || day > 31)
		return false;
	if (year < 1970)
	{
		*epoch_ms = -1;			/* any value out of range */
		return true;
	}
	days = days_from_civil(year, month, day);
	civil_from_days(days, &y, &m, &d);
	if (m != month || d != day)
		return false;			/* no such day */
	if (word.len > 0 && *word.start != 'Z' && *word.start != 'z' &&
		!parse_time_of_day(&word, &ms))
		return false;
	if (word.len > 0 && !word_is(word, "Z") && !word_is(word, "z") &&
		!word_is(word, "+00") && !word_is(word, "+00:00"))
		return false;
	*epoch_ms = days * MS_PER_DAY + ms;
	return true;
}

static bool
parse_epoch_word(Word word, int64_t *epoch_ms, char *reason, size_t size)
{
	Word		rest = word;

	*epoch_ms = take_number(&rest, 15);
	if (rest.len == 0 && *epoch_ms > 0 && *epoch_ms < LEAST_INTEGER_EPOCH)
		return refuse_layout(reason, size,
							 "An epoch that is an integer is in milliseconds since 1970: 0, or at least 100000000000 (in 1973). %.*s is too small for that.",
							 shown(word), word.start);
	if (rest.len != 0 || *epoch_ms < 0)
	{
		if (!parse_date_and_time(word, epoch_ms))
			return refuse_layout(reason, size,
								 "\"%.*s\" is neither an ISO 8601 time in UTC, such as 2024-01-01 or 2024-01-01T12:00:00.000Z, nor Unix milliseconds.",
								 shown(word), word.start);
	}
	if (*epoch_ms < 0 || *epoch_ms > SF_MAX_EPOCH_MS)
		return refuse_layout(reason, size,
							 "The epoch must be between 1970-01-01 and 2199-12-31.");
	return true;
}

/*
 * Parse an epoch: ISO 8601 in UTC from 1970 to 2199, or Unix milliseconds.  If
 * it is refused, the reason is a sentence.
 */
bool
sf_epoch_parse(int64_t *epoch_ms, const char *text, char *reason, size_t size)
{
	Word		word = {text, (int) strlen(text)};

	return parse_epoch_word(word, epoch_ms, reason, size);
}

/* Print an epoch for sf_epoch_parse(), as short as possible. */
void
sf_epoch_print(int64_t epoch_ms, char *buf, size_t size)
{
	int64_t		in_day = epoch_ms % MS_PER_DAY;
	int			year,
				month,
				day;
	int			n;

	civil_from_days(epoch_ms / MS_PER_DAY, &year, &month, &day);
	n = snprintf(buf, size, "%04d-%02d-%02d", year, month, day);
	if (in_day != 0)
		snprintf(buf + n, size - n, "T%02d:%02d:%02d.%03dZ",
				 (int) (in_day / 3600000), (int) (in_day / 60000 % 60),
				 (int) (in_day / 1000 % 60), (int) (in_day % 1000));
}

static bool
parse_tick(SfLayout *layout, Word value, char *reason, size_t size)
{
	Word		rest = value;
	int64_t		n = take_number(&rest, 6);

	if (word_is(rest, "s"))
		n *= 1000;
	else if (!word_is(rest, "ms"))
		n = 0;
	if (n < 1 || n > SF_MAX_TICK_MS)
		return refuse_layout(reason, size,
							 "The tick must be between 1ms and 1000ms, with its unit; it is \"%.*s\".",
							 shown(value), value.start);
	layout->tick_ms = (int32_t) n;
	return true;
}

static bool
parse_field(SfLayout *layout, SfFieldKind kind, Word value,
			char *reason, size_t size)
{
	Word		rest = value;
	int64_t		width = take_number(&rest, 6);
	int			most = kind == SF_TIMESTAMP ? SF_MAX_TIMESTAMP_BITS :
		kind == SF_SEQUENCE ? SF_MAX_SEQUENCE_BITS : SF_MAX_FIELD_BITS;

	if (sf_layout_has(layout, kind))
		return refuse_layout(reason, size, "The field \"%s\" is there twice.",
							 sf_field_names[kind]);
	if (kind != SF_TIMESTAMP && !sf_layout_has(layout, SF_TIMESTAMP))
		return refuse_layout(reason, size,
							 "A layout must begin with the field \"timestamp\".");
	if (rest.len > 0 || width < 1 || width > most)
		return refuse_layout(reason, size,
							 "The width of \"%s\" must be between 1 and %d bits; it is \"%.*s\".",
							 sf_field_names[kind], most, shown(value),
							 value.start);
	for (int i = 0; i < SF_NFIELDS; i++)
	{
		if (sf_layout_has(layout, i))
			layout->field[i].shift += width;
	}
	layout->field[kind].width = (uint8_t) width;
	return true;
}

/* Parse one word of the form name:value. */
static bool
parse_item(SfLayout *layout, Word item, char *reason, size_t size)
{
	const char *colon = memchr(item.start, ':', item.len);
	Word		name = item;
	Word		value = {"", 0};

	if (colon != NULL)
	{
		name.len = (int) (colon - item.start);
		value.start = colon + 1;
		value.len = item.len - name.len - 1;
	}
	if (word_is(name, "epoch"))
		return parse_epoch_word(value, &layout->epoch_ms, reason, size);
	if (word_is(name, "tick"))
		return parse_tick(layout, value, reason, size);
	for (int i = 0; i < SF_NFIELDS; i++)
	{
		if (word_is(name, sf_field_names[i]))
			return parse_field(layout, i, value, reason, size);
	}
	return refuse_layout(reason, size,
						 "\"%.*s\" is neither a preset nor a field; fields are timestamp, datacenter, worker, process, node, shard and sequence; tick and epoch may follow.",
						 shown(item), item.start);
}

static bool
parse_items(SfLayout *layout, const char *cursor, char *reason, size_t size)
{
	Word		item;

	while (next_word(&cursor, &item))
		if (!parse_item(layout, item, reason, size))
			return false;
	return true;
}

/*
 * Parse a layout's text.  If it is refused, the reason is one or two
 * sentences, and the layout must not be used.
 */
bool
sf_layout_parse(SfLayout *layout, const char *text,
				char *reason, size_t reason_size)
{
	const char *cursor = text;
	Word		first;
	const char *wrong;

	*layout = (SfLayout)
	{
		.epoch_ms = SF_DEFAULT_EPOCH_MS, .tick_ms = 1
	};
	if (!next_word(&cursor, &first))
		return refuse_layout(reason, reason_size,
							 "A layout must not be empty: name a preset, or fields such as \"timestamp:41 node:10 sequence:12\".");
	for (int i = 0; i < sf_npresets; i++)
	{
		if (!word_is(first, sf_presets[i].name))
			continue;
		if (!parse_items(layout, sf_presets[i].text, reason, reason_size))
			return false;
		text = cursor;			/* the text after the name */
	}
	if (!parse_items(layout, text, reason, reason_size))
		return false;
	wrong = sf_layout_complete(layout);
	if (wrong != NULL)
		return refuse_layout(reason, reason_size, "%s", wrong);
	return true;
}

/* Print a layout in its canonical form, which sf_layout_parse() accepts. */
void
sf_layout_print(const SfLayout *layout, char *buf, size_t size)
{
	SfFieldKind kinds[SF_NFIELDS];
	int			n = sf_layout_order(layout, kinds);
	size_t		at = 0;

	for (int i = 0; i < n && at < size; i++)
		at += snprintf(buf + at, size - at, "%s:%d ", sf_field_names[kinds[i]],
					   layout->field[kinds[i]].width);
	if (layout->tick_ms != 1 && at < size)
		at += snprintf(buf + at, size - at, "tick:%dms ", layout->tick_ms);
	if (at < size)
		at += snprintf(buf + at, size - at, "epoch:");
	if (at < size)
		sf_epoch_print(layout->epoch_ms, buf + at, size - at);
}

bool
sf_layout_is_preset(const SfLayout *layout)
{
	char		reason[SF_REASON_SIZE];
	SfLayout	preset;

	for (int i = 0; i < sf_npresets; i++)
	{
		if (sf_layout_parse(&preset, sf_presets[i].text,
							reason, sizeof(reason)) &&
			sf_layout_code(&preset) == sf_layout_code(layout) &&
			preset.epoch_ms == layout->epoch_ms)
			return true;
	}
	return false;
}
