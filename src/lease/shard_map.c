/*-------------------------------------------------------------------------
 *
 * shard_map.c
 *	  Printing, parsing and compaction of the shard record.
 *
 * A text is accepted only if all of it makes sense.  A damaged text must never
 * count as an empty one, because then leased shards would be claimed again.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEADER		"snowflake shards 1\n"

static void
set_room(SfShardMap *map, const SfLayout *layout)
{
	map->nshards = UINT32_C(1) << layout->field[SF_SHARD].width;
	memset(map->line_of, 0, map->nshards * sizeof(map->line_of[0]));
}

/* ---- texts ---- */

/* Remove this word from the front; false if it is not there. */
static bool
take_word(const char **cursor, const char *word)
{
	size_t		length = strlen(word);

	if (strncmp(*cursor, word, length) != 0)
		return false;
	*cursor += length;
	return true;
}

static bool
take_number(const char **cursor, int64_t most, int64_t *number)
{
	const char *s = *cursor;

	if (*s < '0' || *s > '9')
		return false;
	for (*number = 0; *s >= '0' && *s <= '9'; s++)
	{
		*number = *number * 10 + (*s - '0');
		if (*number > most)
			return false;
	}
	*cursor = s;
	return true;
}

/* Read sixteen hexadecimal digits in lower case. */
static bool
take_hex(const char **cursor, uint64_t *number)
{
	*number = 0;
	for (int i = 0; i < 16; i++)
	{
		const char *digits = "0123456789abcdef";
		char		c = *(*cursor)++;
		const char *digit = c == '\0' ? NULL : strchr(digits, c);

		if (digit == NULL)
			return false;
		*number = *number << 4 | (uint64_t) (digit - digits);
	}
	return true;
}

/* Read the rest of a line, which must fit into the buffer. */
static bool
take_rest(const char **cursor, char *buf, size_t size)
{
	size_t		length = strcspn(*cursor, "\n");

	if ((*cursor)[length] != '\n' || length >= size)
		return false;
	memcpy(buf, *cursor, length);
	buf[length] = '\0';
	*cursor += length + 1;
	return true;
}

/* Read the shards of the last line; no earlier line may list them. */
static bool
take_shards(SfShardMap *map, const char **cursor)
{
	do
	{
		int64_t		first;
		int64_t		last;

		if (!take_number(cursor, map->nshards - 1, &first))
			return false;
		last = first;
		if (take_word(cursor, "-") &&
			!take_number(cursor, map->nshards - 1, &last))
			return false;
		if (first > last)
			return false;
		for (int64_t i = first; i <= last; i++)
		{
			if (map->line_of[i] != 0)
				return false;
			map->line_of[i] = (uint16_t) map->nlines;
		}
	} while (take_word(cursor, ","));
	return true;
}

static bool
take_line(SfShardMap *map, const char **cursor)
{
	bool		held = take_word(cursor, "held ");
	SfShardLine *line;

	if (!held && !take_word(cursor, "free "))
		return false;
	if (map->nlines == SF_SHARDMAP_LINES)
		return false;
	line = &map->line[map->nlines++];
	memset(line, 0, sizeof(SfShardLine));
	if (!take_shards(map, cursor) || !take_word(cursor, " until ") ||
		!take_number(cursor, SF_END_OF_TICKS, &line->until))
		return false;
	if (!held)
		return take_word(cursor, "\n");
	if (take_word(cursor, " reserve ") &&
		!take_number(cursor, SF_END_OF_TICKS, &line->reserve_ms))
		return false;
	if (take_word(cursor, " since ") &&
		!take_number(cursor, SF_END_OF_TICKS, &line->since_ms))
		return false;
	return take_word(cursor, " write ") &&
		take_hex(cursor, &line->write_id) && line->write_id != 0 &&
		take_word(cursor, " server ") && take_hex(cursor, &line->server) &&
		take_word(cursor, " host ") &&
		take_rest(cursor, line->host, sizeof(line->host));
}

static bool
take_layout(SfShardMap *map, const char **cursor)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	if (!take_word(cursor, "layout ") ||
		!take_rest(cursor, map->layout, sizeof(map->layout)) ||
		!sf_layout_parse(&layout, map->layout, reason, sizeof(reason)) ||
		!sf_layout_has(&layout, SF_SHARD) ||
		layout.field[SF_SHARD].width > 16)
		return false;
	set_room(map, &layout);
	return true;
}

/*
 * Parse a record.  If the text is none, return false, with the reason as a
 * sentence; then the map must not be used.
 */
bool
sf_shard_map_parse(SfShardMap *map, const char *text,
				   char *reason, size_t reason_size)
{
	const char *cursor = text;
	int			line = 2;

	map->nlines = 0;
	if (!take_word(&cursor, HEADER))
	{
		snprintf(reason, reason_size,
				 "It does not begin with \"snowflake shards 1\".");
		return false;
	}
	if (!take_layout(map, &cursor))
	{
		snprintf(reason, reason_size, "Its line 2 is no layout of shards.");
		return false;
	}
	while (*cursor != '\0')
	{
		line++;
		if (take_line(map, &cursor))
			continue;
		snprintf(reason, reason_size,
				 "Its line %d makes no sense, or lists a shard again.", line);
		return false;
	}
	return true;
}

/*
 * Print a map; SF_SHARDMAP_TEXT_SIZE bytes are enough.  Lines without shards
 * are left out.
 */
void
sf_shard_map_print(const SfShardMap *map, char *buf, size_t size)
{
	size_t		length = snprintf(buf, size, HEADER "layout %s\n",
								  map->layout);

	for (int i = 0; i < map->nlines; i++)
	{
		const SfShardLine *line = &map->line[i];
		uint32_t	shards[SF_RANGES_WORDS(SF_RANGES_MAX)];
		size_t		before = length;
		size_t		listed;

		sf_shard_map_shards(map, i, shards);
		length += snprintf(buf + length, size - length,
						   line->write_id != 0 ? "held " : "free ");
		listed = sf_ranges_print(shards, map->nshards, buf + length,
								 size - length);
		if (listed == 0)
		{
			length = before;
			buf[length] = '\0';
			continue;
		}
		length += listed;
		length += snprintf(buf + length, size - length, " until %" PRId64,
						   line->until);
		if (line->reserve_ms != 0)
			length += snprintf(buf + length, size - length,
							   " reserve %" PRId64, line->reserve_ms);
		if (line->since_ms > 0 && line->since_ms <= SF_END_OF_TICKS)
			length += snprintf(buf + length, size - length,
							   " since %" PRId64, line->since_ms);
		if (line->write_id != 0)
			length += snprintf(buf + length, size - length,
							   " write %016" PRIx64 " server %016" PRIx64
							   " host %s", line->write_id, line->server,
							   line->host);
		length += snprintf(buf + length, size - length, "\n");
	}
}

/* ---- maps ---- */

/* Initialize an empty map: no shard was ever leased. */
void
sf_shard_map_init(SfShardMap *map, const SfLayout *layout)
{
	map->nlines = 0;
	sf_layout_print(layout, map->layout, sizeof(map->layout));
	set_room(map, layout);
}

/* Return the line with this write_id, or -1. */
int
sf_shard_map_find(const SfShardMap *map, uint64_t write_id)
{
	for (int i = 0; i < map->nlines; i++)
	{
		if (map->line[i].write_id == write_id && write_id != 0)
			return i;
	}
	return -1;
}

/* Add a line without shards; return -1 if there is no room. */
int
sf_shard_map_add(SfShardMap *map)
{
	if (map->nlines == SF_SHARDMAP_LINES)
		return -1;
	memset(&map->line[map->nlines], 0, sizeof(SfShardLine));
	return map->nlines++;
}

/* Return the largest reserve of all lines. */
int64_t
sf_shard_map_reserve_ms(const SfShardMap *map)
{
	int64_t		largest = 0;

	for (int i = 0; i < map->nlines; i++)
	{
		if (map->line[i].reserve_ms > largest)
			largest = map->line[i].reserve_ms;
	}
	return largest;
}

/* Return the shards of a line as a bitmap of the layout's size. */
void
sf_shard_map_shards(const SfShardMap *map, int line, uint32_t *shards)
{
	memset(shards, 0, SF_RANGES_WORDS(map->nshards) * sizeof(uint32_t));
	for (uint32_t i = 0; i < map->nshards; i++)
	{
		if (map->line_of[i] == line + 1)
			sf_ranges_add(shards, i);
	}
}

/*
 * Drop lines without shards.  Merge returned shards whose until has passed
 * into one line, with the latest until of them.  That delays no server, and
 * keeps the record short.
 */
void
sf_shard_map_compact(SfShardMap *map, int64_t now_tick)
{
	uint16_t	moved[SF_SHARDMAP_LINES + 1] = {0};
	bool		used[SF_SHARDMAP_LINES + 1] = {false};
	int			past = -1;
	int			n = 0;

	for (uint32_t i = 0; i < map->nshards; i++)
		used[map->line_of[i]] = true;
	for (int i = 0; i < map->nlines; i++)
	{
		SfShardLine line = map->line[i];

		if (!used[i + 1])
			continue;
		if (line.write_id == 0 && line.until <= now_tick && past >= 0)
		{
			if (map->line[past].until < line.until)
				map->line[past].until = line.until;
			moved[i + 1] = (uint16_t) (past + 1);
			continue;
		}
		if (line.write_id == 0 && line.until <= now_tick)
			past = n;
		map->line[n] = line;
		moved[i + 1] = (uint16_t) ++n;
	}
	map->nlines = n;
	for (uint32_t i = 0; i < map->nshards; i++)
		map->line_of[i] = moved[map->line_of[i]];
}
