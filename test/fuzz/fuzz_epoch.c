/*-------------------------------------------------------------------------
 *
 * fuzz_epoch.c
 *	  Epochs.  A regular expression and the C library's calendar decide which
 *	  texts are accepted, and with which value; the printed form is read again.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/layout.h"
#include "fuzz.h"

#include <regex.h>
#include <time.h>

/* Match a pattern, which is compiled once. */
static bool
matches(regex_t *regex, bool *compiled, const char *pattern, const char *text,
		regmatch_t *part, size_t nparts)
{
	if (!*compiled)
		REQUIRE(regcomp(regex, pattern, REG_EXTENDED) == 0);
	*compiled = true;
	return regexec(regex, text, nparts, part, 0) == 0;
}

/* Return the number in a part of the text; 0 without that part. */
static int
number_of(const char *text, regmatch_t part)
{
	return part.rm_so < 0 ? 0 : atoi(text + part.rm_so);
}

/* Compute the expected result of sf_epoch_parse() by other means. */
static bool
expect_epoch(const char *text, int64_t *ms)
{
	static regex_t integer,
				iso;
	static bool integer_compiled,
				iso_compiled;
	regmatch_t	part[10];
	struct tm	tm = {0},
				asked;

	if (matches(&integer, &integer_compiled, "^[0-9]{1,15}$", text, part, 1))
	{
		*ms = strtoll(text, NULL, 10);
		return *ms == 0 || (*ms >= 100000000000 && *ms <= SF_MAX_EPOCH_MS);
	}
	if (!matches(&iso, &iso_compiled,
				 "^([0-9]{4})-([0-9]{2})-([0-9]{2})"
				 "([Zz]|[Tt ]([0-9]{2}):([0-9]{2})"
				 "(:([0-9]{2})([.][0-9]{1,3})?)?([Zz]|[+]00(:00)?)?)?$",
				 text, part, LENGTH(part)))
		return false;
	tm.tm_year = number_of(text, part[1]) - 1900;
	tm.tm_mon = number_of(text, part[2]) - 1;
	tm.tm_mday = number_of(text, part[3]);
	tm.tm_hour = number_of(text, part[5]);
	tm.tm_min = number_of(text, part[6]);
	tm.tm_sec = number_of(text, part[8]);
	asked = tm;
	*ms = (int64_t) timegm(&tm) * 1000;
	if (part[9].rm_so >= 0)
		*ms += (int64_t) (strtod(text + part[9].rm_so, NULL) * 1000 + 0.5);

	/* timegm() takes 31 February for a day in March */
	return tm.tm_mon == asked.tm_mon && tm.tm_mday == asked.tm_mday &&
		tm.tm_hour == asked.tm_hour && tm.tm_min == asked.tm_min &&
		tm.tm_sec == asked.tm_sec && asked.tm_year >= 70 &&
		*ms <= SF_MAX_EPOCH_MS;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	char		reason[SF_REASON_SIZE];
	size_t		small = 1 + size % 20;
	char	   *small_reason = malloc(small);
	int64_t		ms = -1,
				again = -1,
				expected = -1;
	bool		good = sf_epoch_parse(&ms, text, reason, sizeof(reason));

	REQUIRE(good == expect_epoch(text, &expected));
	REQUIRE(good == sf_epoch_parse(&again, text, small_reason, small));
	if (good)
	{
		/* 24 characters, as in 2024-01-01T12:00:00.000Z, and a zero */
		char	   *printed = malloc(25);

		REQUIRE(ms == expected && ms == again);
		sf_epoch_print(ms, printed, 25);
		REQUIRE(sf_epoch_parse(&again, printed, reason, sizeof(reason)));
		REQUIRE(again == ms);
		free(printed);
	}
	else
		require_reason(reason, text, sizeof(reason));
	free(small_reason);
	free(text);
	return 0;
}
