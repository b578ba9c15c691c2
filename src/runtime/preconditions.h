/*-------------------------------------------------------------------------
 *
 * preconditions.h
 *	  Checks that a call must pass before it makes an ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PRECONDITIONS_H
#define SF_PRECONDITIONS_H

#include "access/xact.h"
#include "runtime/shmem.h"
#include "layout/layout.h"

extern const char *sf_preload_hint(void);
extern const char *sf_preload_keep_remedy(void);
extern void sf_refuse_unloaded(void);
extern void sf_refuse_read_only(const char *function);
extern void sf_require_shard(uint32 shard);

/* Throw an error unless the library was preloaded. */
static inline void
sf_require_loaded(void)
{
	if (unlikely(sf_shmem == NULL))
		sf_refuse_unloaded();
}

/* Also throw an error, like nextval(), if the transaction is read-only. */
static inline void
sf_require_writable(const char *function)
{
	sf_require_loaded();
	if (unlikely(XactReadOnly))
		sf_refuse_read_only(function);
}

/* the two ends of a layout's life */
extern void sf_layout_end_refuse(const SfLayout *layout, int64 now_tick);
extern void sf_layout_start_refuse(const SfLayout *layout);
extern void sf_layout_end_require_life(const SfLayout *layout);
extern void sf_layout_end_warn(const SfLayout *layout, int slot);
extern char *sf_layout_end_remedy(const SfLayout *layout);
extern char *sf_layout_start_remedy(const SfLayout *layout);

#endif							/* SF_PRECONDITIONS_H */
