/*-------------------------------------------------------------------------
 *
 * digits.h
 *	  IDs as texts: numbers in base 32, 58 and 62.
 *
 * Pure: needs no server, allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DIGITS_H
#define SF_DIGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for any ID's text, with its terminating zero. */
#define SF_DIGITS_SIZE	14

/* Numbers in one base. */
typedef struct SfDigits
{
	const char *name;			/* of the format */
	const char *digits;			/* ascending, also in ASCII */
	int			base;			/* how many of them */
	int			width;			/* characters of each text; 0: no more than it
								 * takes */
	const char *rules;			/* what is taken, as a sentence */
} SfDigits;

/* Why a text is refused. */
typedef struct SfDigitsFault
{
	int			position;		/* of the first wrong character, from 1 */
	bool		out_of_range;	/* a number, but too large */
	char		reason[120];	/* a sentence that names the position */
} SfDigitsFault;

extern const SfDigits sf_digits[];
extern const int sf_ndigits;

extern const SfDigits *sf_digits_find(const char *name, size_t len);
extern void sf_digits_print(const SfDigits *digits, int64_t id, char *buf);
extern bool sf_digits_parse(const SfDigits *digits, int64_t *id,
							const char *text, size_t len,
							SfDigitsFault *fault);

#endif							/* SF_DIGITS_H */
