/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the fuzzers share.
 *
 * Each feeds one parser with whatever libFuzzer makes of the seeds, and
 * requires what must hold of the answer; test/fuzz/run builds and runs them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FUZZ_H
#define SF_FUZZ_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LENGTH(a)	((int) (sizeof(a) / sizeof((a)[0])))

/* libFuzzer keeps the input that made the process abort. */
#define REQUIRE(cond) \
	((void) ((cond) || require_failed(__FILE__, __LINE__, #cond)))

static inline bool
require_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s is false\n", file, line, what);
	abort();
}

/*
 * The input as a text, to be freed.  Its memory ends where the text does, so
 * that the sanitizer sees who reads on.
 */
static inline char *
text_of(const uint8_t *data, size_t size)
{
	size_t		len = strnlen((const char *) data, size);
	char	   *text = malloc(len + 1);

	memcpy(text, data, len);
	text[len] = '\0';
	return text;
}

/* Whole characters only, as a message of the server must have. */
static inline bool
is_utf8(const char *text)
{
	const unsigned char *s = (const unsigned char *) text;

	while (*s != '\0')
	{
		int			more = *s < 0x80 ? 0 : *s >= 0xC2 && *s < 0xE0 ? 1 :
			*s >= 0xE0 && *s < 0xF0 ? 2 : *s >= 0xF0 && *s < 0xF5 ? 3 : -1;

		if (more < 0)
			return false;
		for (s++; more > 0; more--, s++)
			if ((*s & 0xC0) != 0x80)
				return false;
	}
	return true;
}

/* A reason is a sentence, whole, and does not break the text's characters. */
static inline void
require_reason(const char *reason, const char *text, size_t size)
{
	size_t		len = strnlen(reason, size);

	REQUIRE(len > 0 && len + 1 < size);
	REQUIRE(reason[len - 1] == '.');
	REQUIRE(!is_utf8(text) || is_utf8(reason));
}

#endif							/* SF_FUZZ_H */
