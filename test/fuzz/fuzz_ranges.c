/*-------------------------------------------------------------------------
 *
 * fuzz_ranges.c
 *	  Lists of ranges.  A regular expression and a naive reader of the numbers
 *	  decide which texts are accepted, and with which bits.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/ranges.h"
#include "fuzz.h"

#include <regex.h>

#define REASON_SIZE	200

static bool
is_list(const char *text)
{
	static regex_t regex;
	static bool compiled = false;

#define W		"[ \t\r\n]*"
#define RANGE	W "[0-9]+" W "(-" W "[0-9]+" W ")?"

	if (!compiled)
		REQUIRE(regcomp(&regex, "^(" RANGE "(," RANGE ")*|" W ")$",
						REG_EXTENDED | REG_NOSUB) == 0);
	compiled = true;
	return regexec(&regex, text, 0, NULL, 0) == 0;
}

/*
 * Compute the expected map of a well-formed list; return false if it must be
 * refused because of its numbers.
 */
static bool
expect_map(uint32_t *map, uint32_t limit, const char *text)
{
	bool	   *listed = calloc(limit, sizeof(bool));
	bool		good = true;

	text += strspn(text, " \t\r\n");
	while (good && *text != '\0')
	{
		char	   *end;
		uint64_t	first = strtoull(text, &end, 10);
		uint64_t	last = first;

		end += strspn(end, " \t\r\n");
		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		end += strspn(end, " \t\r\n,");
		text = end;
		good = first <= last && last < limit;
		for (uint64_t n = first; good && n <= last; n++)
		{
			good = !listed[n];
			listed[n] = true;
		}
	}
	memset(map, 0, SF_RANGES_WORDS(limit) * sizeof(uint32_t));
	for (uint32_t n = 0; n < limit; n++)
		map[n / 32] |= (uint32_t) listed[n] << n % 32;
	free(listed);
	return good;
}

static void
try_limit(const char *text, bool list, uint32_t limit)
{
	size_t		size = SF_RANGES_WORDS(limit) * sizeof(uint32_t);
	uint32_t   *map = malloc(size);
	uint32_t   *expected = malloc(size);
	char		reason[REASON_SIZE];
	size_t		small = 1 + strlen(text) % 20;
	char	   *small_reason = malloc(small);
	bool		good;

	memset(map, 0xff, size);
	good = sf_ranges_parse(map, limit, text, reason, sizeof(reason));
	REQUIRE(good == (list && expect_map(expected, limit, text)));
	if (good)
		REQUIRE(memcmp(map, expected, size) == 0);
	else
	{
		require_reason(reason, text, sizeof(reason));
		REQUIRE(!list || strstr(reason, "must be a list") == NULL);
	}
	REQUIRE(good == sf_ranges_parse(map, limit, text, small_reason, small));
	free(small_reason);
	free(expected);
	free(map);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t limits[] = {1, 33, 100, 8192, SF_RANGES_MAX};
	char	   *text = text_of(data, size);
	bool		list = is_list(text);

	/* large maps take long: try them only if they may be filled */
	for (int i = 0; i < LENGTH(limits); i++)
		if (list || limits[i] <= 100)
			try_limit(text, list, limits[i]);
	free(text);
	return 0;
}
