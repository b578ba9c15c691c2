/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Running what belongs to somebody with no more than that one's rights.
 *
 * Whoever changes a table runs what its owner has written: CHECK constraints,
 * generated columns, the functions of indexes.  So statements on a table of
 * somebody else's run as its owner, in an operation that cannot become anybody
 * else again, as VACUUM, ANALYZE and REINDEX run theirs.  Where an error ends
 * it, the server itself goes back to who it was.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "owner.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/syscache.h"

Oid
sf_owner_of_relation(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relation);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Become the owner, whose code leaves no setting behind.  Who is it by SET
 * ROLE alone could become somebody else by RESET ROLE, and so could the
 * owner's code.
 */
void
sf_owner_become(SfOwner *before, Oid owner)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	before->guc_level = NewGUCNestLevel();
	if (owner != before->user || owner != GetSessionUserId())
		sf_owner_switch(owner);
}

/* Become another role, in place of SET ROLE, which is not possible then. */
void
sf_owner_switch(Oid role)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(role, context | SECURITY_RESTRICTED_OPERATION |
						   SECURITY_LOCAL_USERID_CHANGE);
}

void
sf_owner_leave(const SfOwner *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->context);
}
