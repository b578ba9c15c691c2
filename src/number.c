/*-------------------------------------------------------------------------
 *
 * number.c
 *	  Find the number that a text gives a server.
 *
 *	7						itself
 *	hostname:ordinal		N of a host's name db-N or db-N.domain, as the
 *							pods of a StatefulSet have them
 *	env:NAME				what the environment variable NAME says
 *
 * The latter two may have an offset: hostname:ordinal+100.  A name that gives
 * no number is refused, and never made into one by a hash: two names with one
 * hash are two servers with one number.
 *
 *-------------------------------------------------------------------------
 */
#include "number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDINAL		"hostname:ordinal"
#define ENV			"env:"
#define NAME_MAX_LEN	63
#define DIGITS		"0123456789"
#define NAME_CHARS	DIGITS "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* The number that so many bytes are, and no more than INT32_MAX. */
static bool
read_number(const char *s, size_t len, int64_t *number)
{
	*number = 0;
	if (len == 0 || len > 10 || strspn(s, DIGITS) < len)
		return false;
	for (size_t i = 0; i < len; i++)
		*number = *number * 10 + (s[i] - '0');
	return *number <= INT32_MAX;
}

/* What follows the last hyphen of the name, without its domain. */
static bool
read_ordinal(const char *hostname, int64_t *number)
{
	size_t		len = strcspn(hostname, ".");
	size_t		start = len;

	while (start > 0 && hostname[start - 1] != '-')
		start--;
	return start > 1 && read_number(hostname + start, len - start, number);
}

/* The variable's value is no business of who reads the message. */
static bool
read_environment(const char *name, size_t len, int64_t *number,
				 char *reason, size_t reason_size)
{
	char		copy[NAME_MAX_LEN + 1];
	const char *value;

	if (len == 0 || len > NAME_MAX_LEN || strspn(name, NAME_CHARS) < len)
	{
		snprintf(reason, reason_size,
				 "After \"%s\" the name of an environment variable must follow.",
				 ENV);
		return false;
	}
	memcpy(copy, name, len);
	copy[len] = '\0';
	value = getenv(copy);
	if (value != NULL && read_number(value, strlen(value), number))
		return true;
	snprintf(reason, reason_size,
			 "The environment variable \"%s\" of the server %s.", copy,
			 value == NULL ? "is not set" : "holds no number");
	return false;
}

/*
 * The number + 1, or 0 for an empty text.  If the text is refused, the reason
 * is a sentence, or empty where the text does not look like any of these.
 */
bool
sf_number_parse(uint32_t *number_plus_1, const char *text,
				const char *hostname, char *reason, size_t reason_size)
{
	size_t		len = strcspn(text, "+");
	int64_t		number = 0;
	int64_t		offset = 0;

	*number_plus_1 = 0;
	reason[0] = '\0';
	if (text[0] == '\0')
		return true;
	if (text[len] == '+' &&
		!read_number(text + len + 1, strlen(text + len + 1), &offset))
		return false;

	if (len == strlen(ORDINAL) && memcmp(text, ORDINAL, len) == 0)
	{
		if (!read_ordinal(hostname, &number))
		{
			snprintf(reason, reason_size,
					 "The host's name \"%.64s\" does not end in a hyphen and a number, as \"db-0\" does.",
					 hostname);
			return false;
		}
	}
	else if (strncmp(text, ENV, strlen(ENV)) == 0)
	{
		if (!read_environment(text + strlen(ENV), len - strlen(ENV), &number,
							  reason, reason_size))
			return false;
	}
	else if (text[len] == '+' || !read_number(text, len, &number))
		return false;

	if (number + offset > INT32_MAX)
		return false;
	*number_plus_1 = (uint32_t) (number + offset) + 1;
	return true;
}
