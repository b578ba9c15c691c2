/*-------------------------------------------------------------------------
 *
 * clock_sync.h
 *	  The kernel's opinion of its clock, as a condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLOCK_SYNC_H
#define SF_CLOCK_SYNC_H

extern void sf_clock_sync_require(void);
extern bool sf_clock_sync_allows(void);

#endif							/* SF_CLOCK_SYNC_H */
