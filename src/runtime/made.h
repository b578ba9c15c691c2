/*-------------------------------------------------------------------------
 *
 * made.h
 *	  What a transaction has made, for a library that wants to know it.
 *
 * Such a library is preloaded too, and puts its function where
 * find_rendezvous_variable(SF_MADE_HOOK) says, in its _PG_init().  Neither
 * library needs the other one to be loaded before it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MADE_H
#define SF_MADE_H

#include "access/xact.h"
#include "layout/layout.h"

#define SF_MADE_HOOK	"snowflake_made"

/* The most sources that one transaction reports. */
#define SF_MADE_SOURCES	16

/* What a transaction has made from one source: a layout, or a shard. */
typedef struct SfMade
{
	int			slot;			/* of the node's layout; 0: snowflake.layout */
	int			shard;			/* or SF_NO_SHARD */
	char		layout[SF_LAYOUT_TEXT_SIZE];	/* empty: the configured one */
	int64		first;			/* IDs */
	int64		last;			/* inclusive; others have made some between */
	uint64		count;
} SfMade;

/*
 * Called at the end of each transaction that has made IDs, for
 * XACT_EVENT_COMMIT, _ABORT and _PREPARE.  IDs of rolled back subtransactions
 * count too.  "more": it used more sources than there is room for.  The hook
 * must not throw an error, and must not look at catalogues.
 */
typedef void (*SfMadeHook) (XactEvent event, const SfMade *made, int n,
							bool more);

/* Set at the start of the server; NULL: nobody wants to know. */
extern SfMadeHook sf_made_hook;

/* The last ID of this session, whose ever it is. */
extern int64 sf_made_last_id;

extern void sf_made_find_hook(void);
extern void sf_made_note(const SfMade *made);
extern void sf_made_report(XactEvent event);

#endif							/* SF_MADE_H */
