/*-------------------------------------------------------------------------
 *
 * tenures.h
 *	  Who held a slot or shards before, for registries that store texts.
 *
 * A write that replaces a record ends tenures: the claim of a slot ends its
 * last holder's, and a new record of the shards may end those of several
 * servers.  They are written for people, as JSON, a line for each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TENURES_H
#define SF_TENURES_H

#include "lib/stringinfo.h"

#include "lease/registry.h"

/* Buffer for a time, which sorts as text. */
#define SF_TENURES_TIME_SIZE	40

/* Buffer for the name of a slot, or of the shards. */
#define SF_TENURES_NAME_SIZE	12

typedef struct SfTenures
{
	char		ended_at[SF_TENURES_TIME_SIZE];
	char		name[SF_TENURES_NAME_SIZE]; /* the node, or "shards" */
	int64		version;		/* of the record that was replaced */
	char	   *text;			/* palloc()ed */
} SfTenures;

extern void sf_tenures_print_time(char text[SF_TENURES_TIME_SIZE], int64 ms);
extern int64 sf_tenures_parse_days(const char *text);
extern bool sf_tenures_find(const SfAsk *ask, SfTenures *ended);
extern void sf_tenures_print_first(int64 wall_ms, int64 keep_days,
								   char first[SF_TENURES_TIME_SIZE]);
extern void sf_tenures_append_held(StringInfo buf, const SfAsk *ask,
								   const SfRegistry *registry);
extern bool sf_tenures_append(StringInfo buf, const char *text);

#endif							/* SF_TENURES_H */
