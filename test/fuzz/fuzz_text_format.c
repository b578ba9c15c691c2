/*-------------------------------------------------------------------------
 *
 * fuzz_text_format.c
 *	  Texts of IDs.  A regular expression and a sum of powers decide which
 *	  texts are accepted, and with which number.  Trying the beginnings of a
 *	  refused text finds where it is wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/text_format.h"
#include "fuzz.h"

#include <regex.h>

typedef unsigned __int128 Big;

/* The formats in another notation: what each digit accepts. */
typedef struct Expected
{
	const char *name;
	const char *pattern;
	const char *digits[62];
} Expected;

static const Expected formats[] = {
	{"base32", "^[0-9a-tv-zA-TV-Z]{13}$",
		{"0oO", "1iIlL", "2", "3", "4", "5", "6", "7", "8", "9", "Aa", "Bb",
			"Cc", "Dd", "Ee", "Ff", "Gg", "Hh", "Jj", "Kk", "Mm", "Nn", "Pp",
	"Qq", "Rr", "Ss", "Tt", "Vv", "Ww", "Xx", "Yy", "Zz"}},
	{"base58", "^(1|[2-9A-HJ-NP-Za-km-z][1-9A-HJ-NP-Za-km-z]*)$",
		{"1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D", "E",
			"F", "G", "H", "J", "K", "L", "M", "N", "P", "Q", "R", "S", "T",
			"U", "V", "W", "X", "Y", "Z", "a", "b", "c", "d", "e", "f", "g",
			"h", "i", "j", "k", "m", "n", "o", "p", "q", "r", "s", "t", "u",
	"v", "w", "x", "y", "z"}},
	{"base62", "^(0|[1-9A-Za-z][0-9A-Za-z]*)$",
		{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D",
			"E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q",
			"R", "S", "T", "U", "V", "W", "X", "Y", "Z", "a", "b", "c", "d",
			"e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
	"r", "s", "t", "u", "v", "w", "x", "y", "z"}},
};

static int
base_of(const Expected *e)
{
	int			n = 0;

	while (n < LENGTH(e->digits) && e->digits[n] != NULL)
		n++;
	return n;
}

static bool
matches(int format, const char *text)
{
	static regex_t regex[LENGTH(formats)];
	static bool compiled[LENGTH(formats)];

	if (!compiled[format])
		REQUIRE(regcomp(&regex[format], formats[format].pattern,
						REG_EXTENDED | REG_NOSUB) == 0);
	compiled[format] = true;
	return regexec(&regex[format], text, 0, NULL, 0) == 0;
}

/*
 * Return the number of these digits, from the last to the first; a number
 * beyond bigint counts as its bound.
 */
static Big
sum(const Expected *e, const char *text, size_t len)
{
	const Big	bound = (Big) 1 << 63;
	Big			power = 1;
	Big			n = 0;

	while (len-- > 0)
	{
		int			digit = 0;

		while (strchr(e->digits[digit], text[len]) == NULL)
			digit++;
		if (digit > 0 && (power >= bound || n + power * digit >= bound))
			return bound;
		n += power * digit;
		if (power < bound)
			power *= base_of(e);
	}
	return n;
}

/* Check that a refusal points at the first impossible character. */
static void
require_position(int format, const char *text, const SfTextFault *fault)
{
	const Expected *e = &formats[format];
	size_t		before = fault->position - 1;
	char		start[400] = "";

	REQUIRE(fault->position >= 1 && before <= strlen(text));
	if (fault->out_of_range)
	{
		REQUIRE(matches(format, text));
		REQUIRE(sum(e, text, before) < (Big) 1 << 63);
		if (format != 0)
			REQUIRE(sum(e, text, before + 1) == (Big) 1 << 63);
		else
			REQUIRE(before == 0 && strchr("01234567iIlLoO", text[0]) == NULL);
		return;
	}
	REQUIRE(!matches(format, text));
	memcpy(start, text, before);
	if (format == 0)
	{
		/* the part before can be completed, but not with this character */
		memset(start + before, '0', before < 13 ? 13 - before : 0);
		REQUIRE(matches(format, start));
		start[before] = text[before];
		REQUIRE(!matches(format, start));
		return;
	}
	if (before > 0 || text[0] == '\0')
	{
		start[before] = text[before];
		REQUIRE(!matches(format, start));
		start[before] = '\0';
		REQUIRE(before == 0 || matches(format, start));
	}
	else
	{
		start[0] = text[0];
		REQUIRE(strchr(e->digits[0], text[0]) != NULL ||
				!matches(format, start));
	}
}

static void
try_format(int format, const char *text)
{
	const Expected *e = &formats[format];
	const SfTextFormat *digits = sf_text_format_find(e->name, strlen(e->name));
	size_t		len = strlen(text);
	bool		good = matches(format, text) &&
		sum(e, text, len) < (Big) 1 << 63;
	char	   *bytes = malloc(len > 0 ? len : 1);
	SfTextFault fault = {0};
	int64_t		id = -1;
	char		printed[SF_DIGITS_SIZE];

	/* without the zero at the end, which must not be read */
	memcpy(bytes, text, len);
	REQUIRE(sf_text_format_parse(digits, &id, bytes, len, &fault) == good);
	free(bytes);
	if (!good)
	{
		REQUIRE(id == -1);
		require_reason(fault.reason, text, sizeof(fault.reason));
		require_position(format, text, &fault);
		return;
	}
	REQUIRE((Big) id == sum(e, text, len));
	sf_text_format_print(digits, id, printed);
	REQUIRE(strlen(printed) == len);
	REQUIRE(sum(e, printed, len) == (Big) id);
	REQUIRE(format == 0 || strcmp(printed, text) == 0);
	for (size_t i = 0; i < len; i++)
		REQUIRE(strchr(digits->digits, printed[i]) != NULL);
}

/* Check that a number is printed and read again. */
static void
try_number(int format, int64_t id)
{
	const Expected *e = &formats[format];
	const SfTextFormat *digits = sf_text_format_find(e->name, strlen(e->name));
	char		text[SF_DIGITS_SIZE];
	SfTextFault fault;
	int64_t		back = -1;

	sf_text_format_print(digits, id, text);
	REQUIRE(matches(format, text));
	REQUIRE(sum(e, text, strlen(text)) == (Big) id);
	REQUIRE(sf_text_format_parse(digits, &back, text, strlen(text), &fault));
	REQUIRE(back == id);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	uint64_t	number = 0;

	memcpy(&number, data, size < sizeof(number) ? size : sizeof(number));
	for (int i = 0; i < LENGTH(formats); i++)
	{
		try_format(i, text);
		try_number(i, (int64_t) (number >> 1));
	}
	free(text);
	return 0;
}
