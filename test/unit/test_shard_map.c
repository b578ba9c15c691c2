/*-------------------------------------------------------------------------
 *
 * test_shard_map.c
 *	  The registry's record of the shards: its text, which texts are refused,
 *	  and which lines are merged.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/shard_map.h"
#include "harness.h"

#define LAYOUT	"timestamp:41 shard:13 sequence:10 epoch:2011-08-24"
#define START	"snowflake shards 1\nlayout " LAYOUT "\n"
#define WRITE	" write 00000000000000ab server 00000000000000cd host db-1\n"

static SfLayout layout;
static char text[SF_SHARDMAP_TEXT_SIZE];
static char again[SF_SHARDMAP_TEXT_SIZE];
static SfShardMap map;
static SfShardMap other;

static bool
parse(const char *s)
{
	static char reason[SF_REASON_SIZE];
	size_t		length;
	bool		good;

	reason[0] = '\0';
	good = sf_shard_map_parse(&map, s, reason, sizeof(reason));
	length = strlen(reason);
	CHECK(good == (length == 0));
	CHECK(good || reason[length - 1] == '.');
	return good;
}

static void
test_text(void)
{
	static const char record[] = START
		"held 0-4095,5000 until 480100200300" WRITE
		"free 4096,4098-4099 until 7\n"
		"held 6000 until 8 reserve 90000 since 1776000000000" WRITE;

	CHECK(parse(record));
	CHECK_EQ(map.nshards, 8192);
	CHECK_EQ(map.nlines, 3);
	CHECK_EQ(map.line[0].reserve_ms, 0);
	CHECK_EQ(map.line[2].reserve_ms, 90000);
	CHECK_EQ(map.line[0].since_ms, 0);
	CHECK_EQ(map.line[2].since_ms, INT64_C(1776000000000));
	CHECK_EQ(sf_shard_map_reserve_ms(&map), 90000);
	CHECK_EQ(map.line[0].write_id, 0xab);
	CHECK_EQ(map.line[0].server, 0xcd);
	CHECK_EQ(map.line[0].until, INT64_C(480100200300));
	CHECK_STR(map.line[0].host, "db-1");
	CHECK_EQ(map.line[1].write_id, 0);
	CHECK_EQ(map.line_of[0], 1);
	CHECK_EQ(map.line_of[5000], 1);
	CHECK_EQ(map.line_of[4096], 2);
	CHECK_EQ(map.line_of[4097], 0);
	CHECK_EQ(sf_shard_map_find(&map, 0xab), 0);
	CHECK_EQ(sf_shard_map_find(&map, 0xac), -1);
	CHECK_EQ(sf_shard_map_find(&map, 0), -1);
	sf_shard_map_print(&map, text, sizeof(text));
	CHECK_STR(text, record);

	sf_shard_map_init(&map, &layout);
	sf_shard_map_print(&map, text, sizeof(text));
	CHECK(parse(text));
	CHECK_EQ(map.nlines, 0);
	CHECK_STR(map.layout, other.layout);
}

/* A record that cannot be parsed never counts as empty. */
static void
test_refused(void)
{
	static const char *const bad[] = {
		"", "\n", "snowflake shards 2\nlayout " LAYOUT "\n",
		"snowflake shards 1", "snowflake shards 1\n",
		"snowflake shards 1\nlayout " LAYOUT,
		"snowflake shards 1\nlayout timestamp:41 sequence:22\n",
		"snowflake shards 1\nlayout timestamp:30 shard:17 sequence:10\n",
		START "free 1 until 7", START "free 1 until 7 \n",
		START "free 1 until 7\n\n", START "free 1 until -7\n",
		START "free 1 until 999999999999999\n",
		START "free 1 until 99999999999999999999\n",
		START "free 1 until \n", START "free until 7\n",
		START "free 1, until 7\n", START "free 1,,2 until 7\n",
		START "free 2-1 until 7\n", START "free 1- until 7\n",
		START "free 8192 until 7\n", START "free 0-8192 until 7\n",
		START "free 4294967296 until 7\n", START "free 1 2 until 7\n",
		START "free 1,1 until 7\n", START "free 1-5,3 until 7\n",
		START "free 1 until 7\nfree 1 until 8\n",
		START "free 1 until 7\nheld 0-9 until 8" WRITE,
		START "free 1 until 7 reserve 9\n", START "held 1 until 7 reserve" WRITE,
		START "held 1 until 7 reserve 99999999999999999999" WRITE,
		START "held 1 until 7 since" WRITE,
		START "held 1 until 7 since 5 reserve 9" WRITE,
		START "held 1 until 7 since 99999999999999999999" WRITE,
		START "held 1 until 7\n", START "free 1 until 7" WRITE,
		START "held 1 until 7 write 0000000000000000 server 00000000000000cd host h\n",
		START "held 1 until 7 write 00000000000000AB server 00000000000000cd host h\n",
		START "held 1 until 7 write 00000000000000a server 00000000000000cd host h\n",
		START "held 1 until 7 write 00000000000000ab host h\n",
		START "held 1 until 7 write 00000000000000ab server 00000000000000cd host 1234567890123456789012345678901234567890123456789012345678901234\n",
		START "kept 1 until 7\n", START "HELD 1 until 7" WRITE,
	};

	for (int i = 0; i < LENGTH(bad); i++)
	{
		snprintf(context, sizeof(context), "%s", bad[i]);
		CHECK(!parse(bad[i]));
	}
	context[0] = '\0';
	CHECK(parse(START));

	/* a text that is cut is refused, unless it is cut at the end of a line */
	snprintf(text, sizeof(text), START "held 1-7 until 480100200300" WRITE
			 "free 8 until 7\n");
	for (size_t n = strlen(text); n-- > 0;)
	{
		bool		whole = n >= strlen(START) && text[n - 1] == '\n';

		text[n] = '\0';
		CHECK(parse(text) == whole);
	}

	/* one line too many */
	{
		size_t		length = sprintf(text, START);

		for (int i = 0; i < SF_SHARDMAP_LINES + 1; i++)
		{
			CHECK(parse(text));
			length += sprintf(text + length, "free %d until %d\n", i, i);
		}
		CHECK(!parse(text));
	}
}

static int64_t
until_of(const SfShardMap *m, uint32_t shard)
{
	return m->line_of[shard] == 0 ? -1 : m->line[m->line_of[shard] - 1].until;
}

/* Draw a map. */
static void
draw(void)
{
	sf_shard_map_init(&map, &layout);
	for (int n = rnd_edge(SF_SHARDMAP_LINES + 1); n > 0; n--)
	{
		SfShardLine *line = &map.line[sf_shard_map_add(&map)];

		line->until = rnd_edge(20) == 0 ? SF_END_OF_TICKS : rnd_below(2000);
		line->write_id = rnd_below(2) ? 0 : rnd() | 1;
		line->server = line->write_id == 0 ? 0 : rnd();
		memset(line->host, line->write_id == 0 ? '\0' : 'h',
			   rnd_below(SF_HOST_SIZE));
	}
	for (uint32_t i = 0; i < map.nshards; i++)
	{
		if (i > 0 && rnd_below(4) != 0)
			map.line_of[i] = map.line_of[i - 1];
		else
			map.line_of[i] = rnd_below(map.nlines + 1);
	}
}

/* Any map that is printed and parsed is the same map. */
static void
test_round_trip(void)
{
	for (int n = 0; n < 60; n++)
	{
		draw();
		sf_shard_map_print(&map, text, sizeof(text));
		other = map;
		CHECK(parse(text));
		sf_shard_map_print(&map, again, sizeof(again));
		CHECK(strcmp(text, again) == 0);
		for (uint32_t i = 0; i < map.nshards; i++)
		{
			CHECK_EQ(until_of(&map, i), until_of(&other, i));
			CHECK_EQ(map.line_of[i] == 0, other.line_of[i] == 0);
		}
	}

	/* the longest text */
	sf_shard_map_init(&map, &layout);
	for (int i = 0; i < SF_SHARDMAP_LINES; i++)
	{
		SfShardLine *line = &map.line[sf_shard_map_add(&map)];

		line->until = SF_END_OF_TICKS;
		line->write_id = line->server = UINT64_MAX;
		memset(line->host, 'h', SF_HOST_SIZE - 1);
	}
	CHECK_EQ(sf_shard_map_add(&map), -1);
	map.nshards = SF_RANGES_MAX;
	for (uint32_t i = 0; i < map.nshards; i++)
		map.line_of[i] = 1 + i % SF_SHARDMAP_LINES;
	sf_shard_map_print(&map, text, sizeof(text));
	CHECK(strlen(text) + SF_LAYOUT_TEXT_SIZE < sizeof(text));
}

/*
 * Merging lowers no until.  Lines that are not in the past, or that are held,
 * stay as they are.  Shards that were given back in the past share one line.
 */
static void
test_compact(void)
{
	for (int n = 0; n < 60; n++)
	{
		int64_t		now = rnd_below(2500);
		int			past = 0;

		draw();
		other = map;
		sf_shard_map_compact(&map, now);
		for (int i = 0; i < map.nlines; i++)
			past += map.line[i].write_id == 0 && map.line[i].until <= now;
		CHECK(past <= 1);
		for (uint32_t i = 0; i < map.nshards; i++)
		{
			const SfShardLine *line;
			const SfShardLine *before;

			CHECK_EQ(map.line_of[i] == 0, other.line_of[i] == 0);
			if (map.line_of[i] == 0 || other.line_of[i] == 0)
				continue;
			line = &map.line[map.line_of[i] - 1];
			before = &other.line[other.line_of[i] - 1];
			CHECK(map.line_of[i] <= map.nlines);
			if (before->write_id == 0 && before->until <= now)
				CHECK(line->write_id == 0 && line->until >= before->until &&
					  line->until <= now);
			else
				CHECK(memcmp(line, before, sizeof(SfShardLine)) == 0);
		}
		sf_shard_map_print(&map, text, sizeof(text));
		CHECK(parse(text));
	}
}

/* No text makes it crash, or gives a wrong map. */
static void
test_garbage(void)
{
	static const char *const pieces[] = {
		START, "held ", "free ", "1", "0-9", ",", "-", " until ", "7", WRITE,
		"\n", " write ", " server ", " host ", "00000000000000ab", "layout ",
		"snowflake shards 1\n", LAYOUT, "8191"
	};
	int			taken = 0;

	for (int n = 0; n < 30000; n++)
	{
		char	   *s = garbage(pieces, LENGTH(pieces));
		char	   *t = malloc(strlen(s) + sizeof(START));

		sprintf(t, "%s%s", rnd_below(3) == 0 ? "" : START, s);
		if (parse(t))
		{
			taken++;
			sf_shard_map_print(&map, text, sizeof(text));
			CHECK(parse(text));
			sf_shard_map_print(&map, again, sizeof(again));
			CHECK(strcmp(text, again) == 0);
		}
		free(s);
		free(t);
	}
	CHECK(taken > 100);
}

int
main(void)
{
	char		reason[SF_REASON_SIZE];

	start_tests();
	if (!sf_layout_parse(&layout, LAYOUT, reason, sizeof(reason)))
		return 1;
	sf_shard_map_init(&other, &layout);
	RUN(test_text);
	RUN(test_refused);
	RUN(test_round_trip);
	RUN(test_compact);
	RUN(test_garbage);
	return finish_tests("test_shard_map");
}
