/*-------------------------------------------------------------------------
 *
 * lookup.h
 *	  Non-blocking lookup of a host's addresses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_LOOKUP_H
#define SF_ZOO_LOOKUP_H

#define SF_LOOKUP_TEXT	128

typedef enum SfLookupState
{
	SF_LOOKUP_UNDER_WAY,
	SF_LOOKUP_DONE,
	SF_LOOKUP_FAILED
} SfLookupState;

extern void sf_lookup_begin(int number, const char *host);
extern SfLookupState sf_lookup_get(int number, int turn, char *text,
								   int *n);

#endif							/* SF_ZOO_LOOKUP_H */
