/*-------------------------------------------------------------------------
 *
 * clock_jump.h
 *	  Detection of a wall clock that has jumped forward too far to be trusted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLOCK_JUMP_H
#define SF_CLOCK_JUMP_H

/* A reading of the wall clock. */
typedef struct SfClockLook
{
	int64		now_ms;			/* the wall clock, in Unix ms */
	int64		offset_ms;		/* its distance from the time since boot */
	int64		jump_ms;		/* the distance above the baseline */
	bool		jumped;			/* jump_ms is over the limit */
} SfClockLook;

extern void sf_clock_jump_look(SfClockLook *look);
extern void sf_clock_jump_judge(SfClockLook *look, bool believe);
extern void sf_clock_jump_refuse(const SfClockLook *look);
extern void sf_clock_jump_warn_far(const SfClockLook *look, int64 found_ms);
extern int64 sf_clock_jump_past_ms(void);
extern void sf_clock_jump_check(void);
extern bool sf_clock_jump_accept(void);

#endif							/* SF_CLOCK_JUMP_H */
