/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  Helpers of the fuzzers.
 *
 * Each fuzzer feeds one parser with what libFuzzer makes of the seeds, and
 * checks properties of the result; test/fuzz/run builds and runs them.
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

/* Abort if this fails: libFuzzer keeps the input. */
#define REQUIRE(cond) \
	((void) ((cond) || require_failed(__FILE__, __LINE__, #cond)))

static inline bool
require_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s is false\n", file, line, what);
	abort();
}

/*
 * Return the input as a text, to be freed.  Its memory ends with the text, so
 * that the sanitizer notices a read beyond it.
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

/* Return true if a text has whole characters only, as messages must. */
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

/* Check that a reason is a sentence, and cuts no character of the text. */
static inline void
require_reason(const char *reason, const char *text, size_t size)
{
	size_t		len = strnlen(reason, size);

	REQUIRE(len > 0 && len + 1 < size);
	REQUIRE(reason[len - 1] == '.');
	REQUIRE(!is_utf8(text) || is_utf8(reason));
}

#endif							/* SF_FUZZ_H */
