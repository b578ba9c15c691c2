/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The durable mark of this database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MARK_H
#define SF_MARK_H

#include "mark/durable_number.h"
#include "miscadmin.h"
#include "runtime/shmem.h"

/*
 * The slot of this backend's database.  Before sf_mark_attach(), and after a
 * change of the extension's sequences, an empty slot, whose mark is 0.
 */
extern SfDatabase *sf_mark_attached;

extern void sf_mark_attach(Oid function, int64 need_ms);
extern void sf_mark_extend_early(void);
extern void sf_mark_initialize(Oid function);
extern void sf_mark_advance(Oid function, int64 floor_ms);

/* Load the mark, so that the counters are above all IDs of this database. */
static inline void
sf_mark_require(Oid function)
{
	while (pg_atomic_read_u64(&sf_mark_attached->mark) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		sf_mark_attach(function, 0);
	}
}

/* clock_sync.c */
extern void sf_clock_sync_require(void);
extern bool sf_clock_sync_allows(void);

/* sequence_sync.c */
extern void sf_sequence_sync_install(void);

/* shutdown_file.c */
extern int64 sf_shutdown_file_issued_below(void);
extern void sf_shutdown_file_at_start(void);
extern int64 sf_shutdown_file_floor(int64 stamp, int64 found_ms);

#endif							/* SF_MARK_H */
