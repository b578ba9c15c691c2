/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Work on somebody's table as its owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OWNER_H
#define SF_OWNER_H

/* Who it was before. */
typedef struct SfOwner
{
	Oid			user;
	int			context;
	int			settings;		/* 0: it is the owner */
} SfOwner;

extern void sf_owner_become(SfOwner *before, Oid owner);
extern void sf_owner_return(const SfOwner *before);

#endif							/* SF_OWNER_H */
