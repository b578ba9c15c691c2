/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Work on somebody's table as its owner.
 *
 * Statements that change a table run what its owner has written: constraints,
 * defaults, the functions of indexes.  So whatever an administrator calls runs
 * them as the owner, like VACUUM and REINDEX: in an operation in which he can
 * become nobody else, with a search_path where nobody has planted anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "owner.h"

#include "miscadmin.h"
#include "utils/guc.h"

/* Until sf_owner_return(), or an error. */
void
sf_owner_become(SfOwner *before, Oid owner)
{
	before->settings = 0;
	GetUserIdAndSecContext(&before->user, &before->context);
	if (before->user == owner)
		return;
	before->settings = NewGUCNestLevel();
	SetUserIdAndSecContext(owner,
						   before->context | SECURITY_RESTRICTED_OPERATION);
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

void
sf_owner_return(const SfOwner *before)
{
	if (before->settings == 0)
		return;
	AtEOXact_GUC(false, before->settings);
	SetUserIdAndSecContext(before->user, before->context);
}
