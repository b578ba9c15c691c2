/*-------------------------------------------------------------------------
 *
 * lifetime.h
 *	  The two ends of a layout's life.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LIFETIME_H
#define SF_LIFETIME_H

#include "layout.h"

extern void sf_lifetime_refuse_end(const SfLayout *layout, int64 now_tick);
extern void sf_lifetime_refuse_start(const SfLayout *layout);
extern void sf_lifetime_remind(const SfLayout *layout);

#endif							/* SF_LIFETIME_H */
