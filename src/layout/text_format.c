/*-------------------------------------------------------------------------
 *
 * text_format.c
 *	  IDs as texts: numbers in base 32, 58 and 62.
 *
 * In each format, an ID has one text, and each accepted text has one ID.  So a
 * text can be a key by itself, and a link has one spelling.  Therefore formats
 * of variable width accept no leading zeros.  Only base32 is for people to
 * read aloud and type: it accepts several spellings of the one text that it
 * prints.
 *
 * All digits are ASCII.  In any encoding, each character before the first that
 * is not ASCII is one byte.  So a position in bytes is also one in characters.
 *
 * Pure: compiles and is tested without a server (test/unit).
 *
 *-------------------------------------------------------------------------
 */
#include "layout/text_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const SfTextFormat sf_text_formats[] = {
	/* Douglas Crockford, "Base 32", without hyphens and check symbol */
	{"base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 32, 13,
	"The digits are 0 to 9 and the letters except U, in either case; I and L count as 1, and O as 0."},
	/* Bitcoin's, src/base58.cpp: no characters that look alike */
	{"base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 58, 0,
	"The digits are 1 to 9, A to Z except I and O, and a to z except l; the digit 1 counts as zero."},
	/* of the orders in use, the one of ASCII */
	{"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 62, 0,
	"The digits are 0 to 9, A to Z and a to z; upper and lower case differ."},
};
const int	sf_ntext_formats = sizeof(sf_text_formats) /
sizeof(sf_text_formats[0]);

/* Return the format of this name, or NULL. */
const SfTextFormat *
sf_text_format_find(const char *name, size_t len)
{
	for (int i = 0; i < sf_ntext_formats; i++)
	{
		if (strlen(sf_text_formats[i].name) == len &&
			memcmp(sf_text_formats[i].name, name, len) == 0)
			return &sf_text_formats[i];
	}
	return NULL;
}

/* Print an ID, which must not be negative, into SF_DIGITS_SIZE bytes. */
void
sf_text_format_print(const SfTextFormat *digits, int64_t id, char *buf)
{
	char		reversed[SF_DIGITS_SIZE];
	int			n = 0;

	do
	{
		reversed[n++] = digits->digits[id % digits->base];
		id /= digits->base;
	} while (id > 0 || n < digits->width);
	while (n > 0)
		*buf++ = reversed[--n];
	*buf = '\0';
}

/* Map a character to its digit in base32, the same in every locale. */
static char
crockford(char c)
{
	if (c >= 'a' && c <= 'z')
		c += 'A' - 'a';
	if (c == 'I' || c == 'L')
		return '1';
	return c == 'O' ? '0' : c;
}

/* Return the value of a digit; -1 for any other character. */
static int
value_of(const SfTextFormat *digits, char c)
{
	const char *at;

	if (digits->base == 32)
		c = crockford(c);
	at = memchr(digits->digits, c, digits->base);
	return at == NULL ? -1 : (int) (at - digits->digits);
}

static bool refuse_text(SfTextFault *fault, size_t position, bool out_of_range,
						const char *fmt, ...)
			__attribute__((format(printf, 4, 5)));

/* Write the reason for a refusal, and return false. */
static bool
refuse_text(SfTextFault *fault, size_t position, bool out_of_range,
			const char *fmt, ...)
{
	va_list		args;

	fault->position = (int) position;
	fault->out_of_range = out_of_range;
	va_start(args, fmt);
	vsnprintf(fault->reason, sizeof(fault->reason), fmt, args);
	va_end(args);
	return false;
}

/* Check that all characters are digits, and that their number is right. */
static bool
check_digits(const SfTextFormat *digits, const char *text, size_t len,
			 SfTextFault *fault)
{
	size_t		width = digits->width;
	size_t		good = 0;

	while (good < len && (width == 0 || good < width) &&
		   value_of(digits, text[good]) >= 0)
		good++;
	if (len == 0)
		return refuse_text(fault, 1, false,
						   "Character 1 is missing: the text is empty.");
	if (width == 0 && len > 1 && value_of(digits, text[0]) == 0)
		return refuse_text(fault, 1, false,
						   "Character 1 is a leading zero, which no text in %s has.",
						   digits->name);
	if (width > 0 && good == width && len > width)
		return refuse_text(fault, good + 1, false,
						   "Character %d is one too many: a text in %s has %d.",
						   (int) good + 1, digits->name, digits->width);
	if (good < len)
		return refuse_text(fault, good + 1, false,
						   "Character %d is not a digit of %s.",
						   (int) good + 1, digits->name);
	if (good < width)
		return refuse_text(fault, good + 1, false,
						   "Character %d is missing: a text in %s has %d.",
						   (int) good + 1, digits->name, digits->width);
	return true;
}

/*
 * Parse the text of an ID.  It has len bytes and needs no terminating zero.
 * If it is refused, "fault" says why.
 */
bool
sf_text_format_parse(const SfTextFormat *digits, int64_t *id,
					 const char *text, size_t len, SfTextFault *fault)
{
	int64_t		n = 0;

	if (!check_digits(digits, text, len, fault))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		int			digit = value_of(digits, text[i]);

		if (n > (INT64_MAX - digit) / digits->base)
		{
			/* in a text of fixed width, the first digit is too high */
			size_t		position = digits->width > 0 ? 1 : i + 1;

			return refuse_text(fault, position, true,
							   "With character %d the number exceeds 9223372036854775807.",
							   (int) position);
		}
		n = n * digits->base + digit;
	}
	*id = n;
	return true;
}
