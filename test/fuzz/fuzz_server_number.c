/*-------------------------------------------------------------------------
 *
 * fuzz_server_number.c
 *	  Numbers of servers: a text and, after a line break, the host's name.  A
 *	  regular expression and a naive reader decide which texts are accepted,
 *	  and with which number.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/server_number.h"
#include "fuzz.h"

#include <regex.h>

#define VARIABLE	"SF_FUZZ_NUMBER"
#define VALUE		42

static bool
matches(const char *text, const char *pattern, regmatch_t *match)
{
	regex_t		regex;
	bool		found;

	REQUIRE(regcomp(&regex, pattern, REG_EXTENDED) == 0);
	found = regexec(&regex, text, 3, match, 0) == 0;
	regfree(&regex);
	return found;
}

/* The number that the text should give, or -1 for none. */
static int64_t
expect(const char *text, const char *hostname)
{
	regmatch_t	match[3];
	int64_t		number;
	int64_t		offset = 0;

	if (matches(text, "^[0-9]{1,10}$", match))
		number = atoll(text);
	else if (matches(text, "^hostname:ordinal([+][0-9]{1,10})?$", match))
	{
		if (match[1].rm_so >= 0)
			offset = atoll(text + match[1].rm_so + 1);
		if (!matches(hostname, "^[^.]+-([0-9]{1,10})([.].*)?$", match))
			return -1;
		number = atoll(hostname + match[1].rm_so);
	}
	else if (matches(text, "^env:" VARIABLE "([+][0-9]{1,10})?$", match))
	{
		if (match[1].rm_so >= 0)
			offset = atoll(text + match[1].rm_so + 1);
		number = VALUE;
	}
	else
		return -1;
	if (number > INT32_MAX || offset > INT32_MAX ||
		number + offset > INT32_MAX)
		return -1;
	return number + offset;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	char	   *line = strchr(text, '\n');
	char	   *hostname = strdup(line == NULL ? "db-3" : line + 1);
	char		reason[200];
	size_t		small = 1 + size % 20;
	char	   *small_reason = malloc(small);
	SfServerNumber number;
	bool		good;

	setenv(VARIABLE, "42", 1);
	if (line != NULL)
		*line = '\0';
	good = sf_server_number_parse(&number, text, hostname, reason, sizeof(reason));
	if (text[0] == '\0')
		REQUIRE(good && number == 0);
	else if (strncmp(text, "env:", 4) != 0 || strstr(text, VARIABLE) != NULL)
	{
		REQUIRE(good == (expect(text, hostname) >= 0));
		REQUIRE(!good || (int64_t) number - 1 == expect(text, hostname));
	}
	REQUIRE(good == sf_server_number_parse(&number, text, hostname, small_reason, small));
	free(small_reason);
	free(hostname);
	free(text);
	return 0;
}
