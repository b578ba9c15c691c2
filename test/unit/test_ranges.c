/*-------------------------------------------------------------------------
 *
 * test_ranges.c
 *	  Lists of ranges: which are accepted, which are refused, and the bits.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/ranges.h"
#include "harness.h"

#define NLISTS		20000

/*
 * Parse into memory of exactly the size for the limit, filled with ones.  The
 * parser must clear it, and the sanitizer notices a write beyond it.
 */
static uint32_t *
parse(const char *text, uint32_t limit, bool *good, char *reason)
{
	size_t		size = SF_RANGES_WORDS(limit) * sizeof(uint32_t);
	uint32_t   *map = malloc(size);

	memset(map, 0xff, size);
	reason[0] = '\0';
	snprintf(context, sizeof(context), "\"%.300s\" below %u", text, limit);
	*good = sf_ranges_parse(map, limit, text, reason, 200);
	return map;
}

/* Check that the map is printed as the shortest list that means the same. */
static void
check_printed(const uint32_t *map, uint32_t limit)
{
	size_t		size = SF_RANGES_TEXT_SIZE(limit);
	char	   *text = malloc(size);
	char		reason[200];
	bool		good;
	uint32_t   *again;
	int			runs = 0;
	int			commas = 0;

	size = sf_ranges_print(map, limit, text, size);
	CHECK_EQ(size, strlen(text));
	for (uint32_t i = 0; i < limit; i++)
		runs += sf_ranges_has(map, i) && (i == 0 || !sf_ranges_has(map, i - 1));
	for (const char *p = text; *p != '\0'; p++)
		commas += *p == ',';
	CHECK_EQ(commas, runs > 0 ? runs - 1 : 0);
	again = parse(text, limit, &good, reason);
	CHECK(good);
	CHECK(memcmp(again, map, SF_RANGES_WORDS(limit) * sizeof(uint32_t)) == 0);
	free(again);
	free(text);
}

/* Check that the list is accepted, and means exactly these numbers. */
static void
check_list(const char *text, uint32_t limit, const bool *expected)
{
	char		reason[200];
	bool		good;
	uint32_t   *map = parse(text, limit, &good, reason);

	CHECK(good);
	CHECK_STR(reason, "");
	for (uint32_t i = 0; good && i < SF_RANGES_WORDS(limit) * 32; i++)
		CHECK_EQ(map[i / 32] >> (i % 32) & 1, i < limit && expected[i]);
	if (good)
		check_printed(map, limit);
	free(map);
}

static void
check_refused(const char *text, uint32_t limit, const char *why)
{
	char		reason[200];
	bool		good;

	free(parse(text, limit, &good, reason));
	CHECK(!good);
	CHECK_CONTAINS(reason, why);
}

static void
test_lists_are_taken(void)
{
	static const struct
	{
		const char *text;
		int			first[2];
		int			last[2];
	}			lists[] = {
		{"", {1, 1}, {0, 0}},
		{" \t\r\n", {1, 1}, {0, 0}},
		{"0", {0, 1}, {0, 0}},
		{"31", {31, 1}, {31, 0}},
		{"32", {32, 1}, {32, 0}},
		{"65535", {65535, 1}, {65535, 0}},
		{"5-5", {5, 1}, {5, 0}},
		{"0-31", {0, 1}, {31, 0}},
		{"0-32", {0, 1}, {32, 0}},
		{"31-64", {31, 1}, {64, 0}},
		{"0-65535", {0, 1}, {65535, 0}},
		{"0-4095,5000", {0, 5000}, {4095, 5000}},
		{"5000,0-4095", {0, 5000}, {4095, 5000}},
		{"1-2,3-4", {1, 3}, {2, 4}},
		{" 1 - 2 , 3-4 ", {1, 3}, {2, 4}},
		{"1\t-\n2\r,\t7", {1, 7}, {2, 7}},
		{"007", {7, 1}, {7, 0}},
	};
	static bool expected[SF_RANGES_MAX];

	for (int i = 0; i < LENGTH(lists); i++)
	{
		memset(expected, 0, sizeof(expected));
		for (int j = 0; j < 2; j++)
			for (int n = lists[i].first[j]; n <= lists[i].last[j]; n++)
				expected[n] = true;
		check_list(lists[i].text, SF_RANGES_MAX, expected);
	}
}

static void
test_lists_are_refused(void)
{
	static const char *const garbled[] = {
		",", "1,", "1, ", "1,,2", ",1", "1-", "-1", "1--2", "1-2-3", "1 2",
		"1-2 3", "x", "1x", "1,x", "0x10", "1.5", "1;2", "+1", "1-x", "-", "*",
		"1,2,\n", "all", "\x80", "1\xc2\xa0"
	};

	for (int i = 0; i < LENGTH(garbled); i++)
		check_refused(garbled[i], 100, "list of numbers and ranges");
	check_refused("5-4", 100, "5-4 is reversed");
	check_refused("99-0", 100, "99-0 is reversed");
	check_refused("1,1", 100, "1 is listed twice");
	check_refused("0-5,5-9", 100, "5 is listed twice");
	check_refused("5,0-9", 100, "5 is listed twice");
	check_refused("0-65535,65535", 65536, "65535 is listed twice");
}

static void
test_numbers_out_of_limit_are_refused(void)
{
	/* some of these wrap around to small numbers in 32 or 64 bits */
	static const char *const large[] = {
		"100", "0-100", "65536", "99999", "655360", "4294967295", "4294967296",
		"4294967297", "0-4294967297", "18446744073709551616",
		"18446744073709551617", "100000000000000000000000000000000000000001"
	};
	char		long_number[1001];

	for (int i = 0; i < LENGTH(large); i++)
		check_refused(large[i], 100, "between 0 and 99.");
	check_refused("65536", 65536, "between 0 and 65535.");
	check_refused("0-65536", 65536, "between 0 and 65535.");
	check_refused("1", 1, "between 0 and 0.");
	memset(long_number, '9', 1000);
	long_number[1000] = '\0';
	check_refused(long_number, 65536, "between 0 and 65535.");
}

/*
 * Cut the numbers below a limit at random places.  Every other piece is in
 * the list, in any order, with blanks anywhere.  Then list one number twice.
 */
static void
test_random_lists(void)
{
	static const char *const blanks[] = {"", "", "", " ", "\t\n ", "\r"};
	static bool expected[SF_RANGES_MAX];

	for (int i = 0; i < NLISTS; i++)
	{
		uint32_t	limit = 1 + rnd_edge(rnd_below(20) ? 200 : SF_RANGES_MAX);
		char		text[2000] = "";
		size_t		len = 0;
		uint32_t	last = 0;

		memset(expected, 0, limit);
		for (uint32_t at = rnd_below(limit + 1); at < limit && len < 500;
			 at = last + 1 + rnd_below(10))
		{
			char		piece[60];
			int			n;

			last = at + rnd_below(3) * rnd_below(limit - at) / 2;
			memset(expected + at, 1, last - at + 1);
			n = sprintf(piece, "%s%u%s", blanks[rnd_below(6)], at,
						blanks[rnd_below(6)]);
			if (last > at || rnd_below(2))
				n += sprintf(piece + n, "-%s%u%s", blanks[rnd_below(6)], last,
							 blanks[rnd_below(6)]);
			if (len > 0 && rnd_below(2))
				len += sprintf(text + len, ",%s", piece);
			else
			{
				n += sprintf(piece + n, "%s", len > 0 ? "," : "");
				memmove(text + n, text, len + 1);
				memcpy(text, piece, n);
				len += n;
			}
		}
		check_list(text, limit, expected);
		if (len > 0)
		{
			sprintf(text + len, ",%u", last);
			check_refused(text, limit, "is listed twice");
		}
	}
}

int
main(void)
{
	start_tests();
	RUN(test_lists_are_taken);
	RUN(test_lists_are_refused);
	RUN(test_numbers_out_of_limit_are_refused);
	RUN(test_random_lists);
	return finish_tests("test_ranges");
}
