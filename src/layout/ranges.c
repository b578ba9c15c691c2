/*-------------------------------------------------------------------------
 *
 * ranges.c
 *	  Lists of integer ranges: parsed into a bitmap, and printed.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/ranges.h"

#include <stdio.h>
#include <string.h>

static const char *
skip_space(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

/* Remove a number from the front, saturating; false if there is none. */
static bool
take_number(const char **cursor, uint32_t *n)
{
	const char *s = skip_space(*cursor);

	if (*s < '0' || *s > '9')
		return false;
	for (*n = 0; *s >= '0' && *s <= '9'; s++)
		*n = *n > SF_RANGES_MAX ? *n : *n * 10 + (*s - '0');
	*cursor = skip_space(s);
	return true;
}

/*
 * Set the bit of each number that the text lists.  The map has room for
 * "limit" bits, at most SF_RANGES_MAX.  An empty text lists none.  If the text
 * is refused, the reason is a sentence, and the map must not be used.
 */
bool
sf_ranges_parse(uint32_t *map, uint32_t limit, const char *text,
				char *reason, size_t reason_size)
{
	const char *cursor = skip_space(text);
	uint32_t	first = 0;
	uint32_t	last;

	memset(map, 0, SF_RANGES_WORDS(limit) * sizeof(uint32_t));
	while (*cursor != '\0')
	{
		bool		good = take_number(&cursor, &first);

		last = first;
		if (good && *cursor == '-')
		{
			cursor++;
			good = take_number(&cursor, &last);
		}
		if (good && *cursor == ',')
		{
			cursor++;
			good = *skip_space(cursor) != '\0';
		}
		else if (*cursor != '\0')
			good = false;
		if (!good)
		{
			snprintf(reason, reason_size,
					 "It must be a list of numbers and ranges such as 0-4095,5000.");
			return false;
		}
		if (first > last)
		{
			snprintf(reason, reason_size, "The range %u-%u is reversed.",
					 first, last);
			return false;
		}
		if (last >= limit)
		{
			snprintf(reason, reason_size,
					 "The numbers must be between 0 and %u.", limit - 1);
			return false;
		}
		for (uint32_t i = first; i <= last; i++)
		{
			if (sf_ranges_has(map, i))
			{
				snprintf(reason, reason_size,
						 "The number %u is listed twice.", i);
				return false;
			}
			sf_ranges_add(map, i);
		}
	}
	return true;
}

/*
 * Print the shortest list of the numbers in the map, as sf_ranges_parse()
 * accepts it.  Return its length; the buffer must have room for it.
 */
size_t
sf_ranges_print(const uint32_t *map, uint32_t limit, char *buf, size_t size)
{
	size_t		length = 0;

	buf[0] = '\0';
	for (uint32_t first = 0; first < limit; first++)
	{
		uint32_t	last = first;

		if (!sf_ranges_has(map, first))
			continue;
		while (last + 1 < limit && sf_ranges_has(map, last + 1))
			last++;
		length += snprintf(buf + length, size - length,
						   first == last ? "%s%u" : "%s%u-%u",
						   length == 0 ? "" : ",", first, last);
		first = last;
	}
	return length;
}
