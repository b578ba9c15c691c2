/*-------------------------------------------------------------------------
 *
 * fuzz_shard_map.c
 *	  The shard record.  A regular expression for each line and a naive reader
 *	  of the numbers decide which texts are accepted, and with which contents.
 *	  The printed form is read again; compaction loses no lease of a shard.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_map.h"
#include "fuzz.h"

#include <regex.h>

#define REASON_SIZE	200

/* What a line says of a shard, as the naive reader found it. */
typedef struct Shard
{
	bool		listed;
	uint64_t	until;
	uint64_t	reserve_ms;
	uint64_t	since_ms;
	uint64_t	write_id;		/* 0: free */
	uint64_t	server;
	char		host[SF_HOST_SIZE];
} Shard;

static SfShardMap map;
static SfShardMap again;
static char printed[SF_SHARDMAP_TEXT_SIZE];
static char reprinted[SF_SHARDMAP_TEXT_SIZE];

/* ---- the naive reader ---- */

static bool
matches(const char *line, regmatch_t *match)
{
	static regex_t regex;
	static bool compiled = false;

#define RANGE	"[0-9]+(-[0-9]+)?"

	if (!compiled)
		REQUIRE(regcomp(&regex, "^(held|free) (" RANGE "(," RANGE ")*) "
						"until ([0-9]+)(( reserve ([0-9]+))?"
						"( since ([0-9]+))? "
						"write ([0-9a-f]{16}) "
						"server ([0-9a-f]{16}) host (.*))?$",
						REG_EXTENDED) == 0);
	compiled = true;
	return regexec(&regex, line, 15, match, 0) == 0;
}

/* Read a line without its end; return false if it makes the record invalid. */
static bool
expect_line(Shard *shards, uint32_t nshards, const char *line)
{
	regmatch_t	match[15];
	Shard		shard = {.listed = true};
	const char *list;

	if (!matches(line, match) ||
		(line[0] == 'h') != (match[7].rm_so >= 0))
		return false;
	shard.until = strtoull(line + match[6].rm_so, NULL, 10);
	if (shard.until > (uint64_t) SF_END_OF_TICKS)
		return false;
	if (line[0] == 'h')
	{
		if (match[9].rm_so >= 0)
			shard.reserve_ms = strtoull(line + match[9].rm_so, NULL, 10);
		if (match[11].rm_so >= 0)
			shard.since_ms = strtoull(line + match[11].rm_so, NULL, 10);
		shard.write_id = strtoull(line + match[12].rm_so, NULL, 16);
		shard.server = strtoull(line + match[13].rm_so, NULL, 16);
		if (shard.reserve_ms > (uint64_t) SF_END_OF_TICKS ||
			shard.since_ms > (uint64_t) SF_END_OF_TICKS ||
			shard.write_id == 0 ||
			strlen(line + match[14].rm_so) >= sizeof(shard.host))
			return false;
		strcpy(shard.host, line + match[14].rm_so);
	}
	list = line + match[2].rm_so;
	for (;;)
	{
		char	   *end;
		uint64_t	first = strtoull(list, &end, 10);
		uint64_t	last = *end == '-' ? strtoull(end + 1, &end, 10) : first;

		if (first > last || last >= nshards)
			return false;
		for (uint64_t i = first; i <= last; i++)
		{
			if (shards[i].listed)
				return false;
			shards[i] = shard;
		}
		if (*end != ',')
			return true;
		list = end + 1;
	}
}

/* Return the expected contents, to be freed; NULL for an invalid text. */
static Shard *
expect_record(const char *text)
{
	static const char header[] = "snowflake shards 1\nlayout ";
	bool		good = strncmp(text, header, strlen(header)) == 0;
	char	   *copy = strdup(good ? text + strlen(header) : "");
	char	   *next = copy;
	Shard	   *shards = NULL;
	uint32_t	nshards = 0;

	while (good && *next != '\0')
	{
		char	   *line = next;
		char	   *end = strchr(line, '\n');

		good = end != NULL;
		if (!good)
			break;
		*end = '\0';
		next = end + 1;
		if (shards == NULL)
		{
			SfLayout	layout;
			char		reason[SF_REASON_SIZE];

			good = strlen(line) < SF_LAYOUT_TEXT_SIZE &&
				sf_layout_parse(&layout, line, reason, sizeof(reason)) &&
				layout.field[SF_SHARD].width > 0 &&
				layout.field[SF_SHARD].width <= 16;
			nshards = good ? 1 << layout.field[SF_SHARD].width : 0;
			shards = calloc(good ? nshards : 1, sizeof(Shard));
		}
		else
			good = expect_line(shards, nshards, line);
	}
	free(copy);
	if (!good)
	{
		free(shards);
		shards = NULL;
	}
	return shards;
}

/* ---- properties ---- */

static void
require_shards(const SfShardMap *m, const Shard *shards)
{
	for (uint32_t i = 0; i < m->nshards; i++)
	{
		const SfShardLine *line;

		REQUIRE(m->line_of[i] <= m->nlines);
		REQUIRE((m->line_of[i] != 0) == shards[i].listed);
		if (!shards[i].listed)
			continue;
		line = &m->line[m->line_of[i] - 1];
		REQUIRE(line->until == (int64_t) shards[i].until);
		REQUIRE(line->reserve_ms == (int64_t) shards[i].reserve_ms);
		REQUIRE(line->since_ms == (int64_t) shards[i].since_ms);
		REQUIRE(line->write_id == shards[i].write_id);
		REQUIRE(line->server == shards[i].server);
		REQUIRE(strcmp(line->host, shards[i].host) == 0);
	}
}

/* Check that the line found has the number, if any line has it. */
static void
require_found(const SfShardMap *m)
{
	REQUIRE(sf_shard_map_find(m, 0) == -1);
	for (int i = 0; i < m->nlines; i++)
	{
		int			found = sf_shard_map_find(m, m->line[i].write_id);

		if (m->line[i].write_id != 0)
			REQUIRE(found >= 0 && found <= i &&
					m->line[found].write_id == m->line[i].write_id);
	}
}

/*
 * Check compaction: a held shard keeps its line.  A returned shard stays
 * known, and does not begin earlier than before; nor later than now, unless it
 * was later before.
 */
static void
require_compact(const SfShardMap *before, int64_t now)
{
	bool		used[SF_SHARDMAP_LINES + 1] = {false};
	int			npast = 0;

	again = *before;
	sf_shard_map_compact(&again, now);
	REQUIRE(again.nshards == before->nshards);
	REQUIRE(again.nlines <= before->nlines);
	REQUIRE(strcmp(again.layout, before->layout) == 0);
	for (uint32_t i = 0; i < before->nshards; i++)
	{
		const SfShardLine *was;
		const SfShardLine *is;

		REQUIRE(again.line_of[i] <= again.nlines);
		REQUIRE((before->line_of[i] == 0) == (again.line_of[i] == 0));
		used[again.line_of[i]] = true;
		if (before->line_of[i] == 0)
			continue;
		was = &before->line[before->line_of[i] - 1];
		is = &again.line[again.line_of[i] - 1];
		REQUIRE(is->write_id == was->write_id && is->server == was->server);
		REQUIRE(strcmp(is->host, was->host) == 0);
		REQUIRE(is->until == was->until ||
				(was->write_id == 0 && was->until < is->until &&
				 is->until <= now));
	}
	for (int i = 0; i < again.nlines; i++)
	{
		REQUIRE(used[i + 1]);
		npast += again.line[i].write_id == 0 && again.line[i].until <= now;
	}
	REQUIRE(npast <= 1);
}

static void
require_prints(const Shard *shards)
{
	char		reason[REASON_SIZE];

	sf_shard_map_print(&map, printed, sizeof(printed));
	REQUIRE(sf_shard_map_parse(&again, printed, reason, sizeof(reason)));
	REQUIRE(again.nshards == map.nshards && again.nlines == map.nlines);
	REQUIRE(strcmp(again.layout, map.layout) == 0);
	require_shards(&again, shards);
	sf_shard_map_print(&again, reprinted, sizeof(reprinted));
	REQUIRE(strcmp(printed, reprinted) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	char		reason[REASON_SIZE];
	char	   *small_reason = malloc(1);
	Shard	   *shards = expect_record(text);
	bool		good;

	/* the previous contents must not matter */
	memset(&map, 0xff, sizeof(map));
	good = sf_shard_map_parse(&map, text, reason, sizeof(reason));
	REQUIRE(good == (shards != NULL));
	if (good)
	{
		require_shards(&map, shards);
		require_found(&map);
		require_prints(shards);
		require_compact(&map, -1);
		require_compact(&map, SF_END_OF_TICKS);
		for (int i = 0; i < map.nlines && i < 4; i++)
			require_compact(&map, map.line[i].until);
	}
	else
		require_reason(reason, text, sizeof(reason));
	REQUIRE(good == sf_shard_map_parse(&map, text, small_reason, 1));
	free(small_reason);
	free(shards);
	free(text);
	return 0;
}
