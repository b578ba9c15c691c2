/*-------------------------------------------------------------------------
 *
 * jump.h
 *	  Whether the wall clock has jumped forward further than is believed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_JUMP_H
#define SF_JUMP_H

/* A look at the wall clock. */
typedef struct SfClockLook
{
	int64		now_ms;			/* what it says, in Unix ms */
	int64		offset_ms;		/* its distance from the time since boot */
	int64		jump_ms;		/* that, from what was believed before */
	bool		jumped;			/* which is too far */
} SfClockLook;

extern void sf_jump_look(SfClockLook *look);
extern void sf_jump_judge(SfClockLook *look, bool believe);
extern void sf_jump_refuse(const SfClockLook *look);
extern void sf_jump_tell_far(const SfClockLook *look, int64 found_ms);
extern void sf_jump_check(void);
extern bool sf_jump_accept(void);

#endif							/* SF_JUMP_H */
