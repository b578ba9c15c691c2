/*-------------------------------------------------------------------------
 *
 * audit.h
 *	  The audit: a line in the server's log for each source of a transaction's
 *	  IDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_AUDIT_H
#define SF_AUDIT_H

#include "layout/layout.h"

/* IDs from one source: a layout with a node in it, or a shard. */
typedef struct SfMade
{
	const SfLayout *layout;		/* one that the process keeps */
	int			shard;			/* or SF_NO_SHARD */
	int64		maker;			/* bits of the node or shard, as in an ID */
	int64		first;			/* IDs */
	int64		last;			/* inclusive; others have made some between */
	uint64		count;
} SfMade;

/* The IDs of this transaction are noted. */
extern bool sf_audit_notes;

/* The last ID in snowflake.layout, which each call stores. */
extern int64 sf_audit_last_id;

extern void sf_audit_register(void);
extern void sf_audit_begin(void);
extern void sf_audit_note(const SfMade *made);

#endif							/* SF_AUDIT_H */
