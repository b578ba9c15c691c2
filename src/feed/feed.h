/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  The table of horizons, by which a feed reads rows of several servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FEED_H
#define SF_FEED_H

#include "datatype/timestamp.h"
#include "layout/layout.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/acl.h"
#include "utils/relcache.h"

/* A row of the table. */
typedef struct SfFeedRow
{
	int64		server;
	char	   *layout;			/* its text */
	int64		horizon;
	bool		has_node;
	int64		node;
	char	   *name;			/* of the host; or NULL */
	TimestampTz published;		/* by the clock of that server */
	bool		is_first;		/* of its layout, in the list */
	bool		is_least;		/* no row of its layout has a lower horizon */
} SfFeedRow;

/* Where a server has no row, or an old one. */
#define SF_FEED_PUBLISH_REMEDY \
	"Publish, or see why that fails: SELECT %s;"

/*
 * The lock to write the table.  Sessions that publish wait for each other.
 * And the table gets no index (CREATE INDEX CONCURRENTLY): to open an index on
 * an expression runs its owner's code.
 */
#define SF_FEED_WRITE_LOCK	ShareUpdateExclusiveLock

extern Oid	sf_feed_locked(void);
extern Relation sf_feed_open(LOCKMODE lock, AclMode rights);
extern List *sf_feed_rows(Relation table);
extern char *sf_feed_show_server(const SfFeedRow *row);
extern int64 sf_feed_server(void);
extern char *sf_feed_publish_call(const char *layout);
extern bool sf_feed_go_on(Relation table, SfLayout *missing);

/* feed_worker.c */
extern void sf_feed_at_load(void);
extern bool sf_feed_has_worker(void);

#endif							/* SF_FEED_H */
