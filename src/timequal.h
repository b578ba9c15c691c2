/*-------------------------------------------------------------------------
 *
 * timequal.h
 *	  Conditions on the time of an ID, planned as conditions on the ID.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TIMEQUAL_H
#define SF_TIMEQUAL_H

extern void sf_timequal_install(void);

#endif							/* SF_TIMEQUAL_H */
