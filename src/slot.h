/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  The slots of databases: which is ours, and who may change its mark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SLOT_H
#define SF_SLOT_H

#include "state.h"

extern SfDatabase *sf_slot_take(void);
extern SfDatabase *sf_slot_make_own(void);
extern SfDatabase *sf_slot_find(void);
extern int64 sf_slot_published_mark(void);
extern bool sf_slot_lock(SfDatabase *slot, uint64 need_ms);
extern void sf_slot_unlock(SfDatabase *slot);

#endif							/* SF_SLOT_H */
