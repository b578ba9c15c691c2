/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Switch to the owner of a table, so that its code runs with no more than
 *	  the owner's rights.
 *
 * Changing a table runs code of its owner: CHECK constraints, generated
 * columns, the functions of indexes.  So statements on another user's table
 * run as its owner, in an operation that cannot switch to any other role, like
 * those of VACUUM, ANALYZE and REINDEX.  If an error ends it, the server
 * itself restores the previous role.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table/table.h"

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
 * Become the owner; settings that its code changes are restored later.  A role
 * that was taken by SET ROLE alone does not suffice: the owner's code could
 * leave it by RESET ROLE.
 */
void
sf_owner_become(SfOwner *before, Oid owner)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	before->guc_level = NewGUCNestLevel();
	if (owner != before->user || owner != GetSessionUserId())
		sf_owner_switch(owner);
}

/* Become another role.  SET ROLE is not possible during such an operation. */
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
