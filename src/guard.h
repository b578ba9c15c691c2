/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  What a call needs before it may begin.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_GUARD_H
#define SF_GUARD_H

#include "access/xact.h"
#include "state.h"

extern const char *sf_guard_preload_hint(void);
extern void sf_guard_refuse_unloaded(void);
extern void sf_guard_refuse_read_only(const char *function);

/* The library must be preloaded. */
static inline void
sf_guard_loaded(void)
{
	if (unlikely(sf_state == NULL))
		sf_guard_refuse_unloaded();
}

/* Besides, the transaction must be one that may write, as for nextval(). */
static inline void
sf_guard_writable(const char *function)
{
	sf_guard_loaded();
	if (unlikely(XactReadOnly))
		sf_guard_refuse_read_only(function);
}

#endif							/* SF_GUARD_H */
