/*-------------------------------------------------------------------------
 *
 * text_format.h
 *	  IDs as texts: numbers in base 32, 58 and 62.
 *
 * Pure: needs no server, allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TEXT_FORMAT_H
#define SF_TEXT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of a buffer for any ID's text, with the terminating zero. */
#define SF_DIGITS_SIZE	14

/* A text format: numbers in one base. */
typedef struct SfTextFormat
{
	const char *name;			/* the format's name */
	const char *digits;			/* ascending, in ASCII too */
	int			base;			/* number of digits */
	int			width;			/* characters of each text; 0: as many as
								 * needed */
	const char *rules;			/* the accepted texts, as a sentence */
} SfTextFormat;

/* The reason why a text is refused. */
typedef struct SfTextFault
{
	int			position;		/* of the first wrong character, from 1 */
	bool		out_of_range;	/* a number, but too large */
	char		reason[120];	/* a sentence that names the position */
} SfTextFault;

extern const SfTextFormat sf_text_formats[];
extern const int sf_ntext_formats;

extern const SfTextFormat *sf_text_format_find(const char *name, size_t len);
extern void sf_text_format_print(const SfTextFormat *digits, int64_t id,
								 char *buf);
extern bool sf_text_format_parse(const SfTextFormat *digits, int64_t *id,
								 const char *text, size_t len,
								 SfTextFault *fault);

#endif							/* SF_TEXT_FORMAT_H */
