/*-------------------------------------------------------------------------
 *
 * db_slot.h
 *	  Database slots: which one is ours, and which backend may change its mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DB_SLOT_H
#define SF_DB_SLOT_H

#include "runtime/shmem.h"

extern SfDatabase *sf_db_slot_take(void);
extern SfDatabase *sf_db_slot_make_own(void);
extern SfDatabase *sf_db_slot_find(void);
extern int64 sf_db_slot_published_mark(void);
extern bool sf_db_slot_lock(SfDatabase *slot, uint64 need_ms);
extern void sf_db_slot_unlock(SfDatabase *slot);

#endif							/* SF_DB_SLOT_H */
