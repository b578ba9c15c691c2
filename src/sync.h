/*-------------------------------------------------------------------------
 *
 * sync.h
 *	  What the kernel says of its clock, as a condition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SYNC_H
#define SF_SYNC_H

extern void sf_sync_require(void);
extern bool sf_sync_allows(void);

#endif							/* SF_SYNC_H */
