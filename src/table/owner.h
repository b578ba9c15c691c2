/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Switch to the owner of a table, so that its code runs with no more than
 *	  the owner's rights.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OWNER_H
#define SF_OWNER_H

/* The role and settings to restore. */
typedef struct SfOwner
{
	Oid			user;
	int			context;
	int			guc_level;
} SfOwner;

extern Oid	sf_owner_of_relation(Oid relation);
extern void sf_owner_become(SfOwner *before, Oid owner);
extern void sf_owner_switch(Oid role);
extern void sf_owner_leave(const SfOwner *before);

#endif							/* SF_OWNER_H */
