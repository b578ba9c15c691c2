/*-------------------------------------------------------------------------
 *
 * layout_end.h
 *	  The two ends of a layout's life.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LAYOUT_END_H
#define SF_LAYOUT_END_H

#include "layout/layout.h"

extern void sf_layout_end_refuse(const SfLayout *layout, int64 now_tick);
extern void sf_layout_start_refuse(const SfLayout *layout);
extern void sf_layout_end_require_life(const SfLayout *layout);
extern void sf_layout_end_warn(const SfLayout *layout, int slot);

#endif							/* SF_LAYOUT_END_H */
