/*-------------------------------------------------------------------------
 *
 * rights.c
 *	  Owners of the objects that change with a column, and the rights needed.
 *
 * All of it is checked before anything runs, also in a dry run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "convert/plan.h"
#include "convert/rights.sql.inc"

static const SfObstacle obstacles[] = {
	{SQL_NOT_OWNED, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"must be owner of all objects that change with the column",
	"Call it as the owner of these, or as a superuser."},
	{SQL_OWNER_MAY_NOT, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"the table's owner cannot make the objects again that depend on the column",
	"GRANT CREATE or USAGE ON SCHEMA, or EXECUTE ON FUNCTION, to the owner, for as long as it takes."}
};

/* Return the other roles that own objects to change; NULL without any. */
char *
sf_conversion_owners(SfConversion *conversion)
{
	return sf_conversion_text(conversion, SQL_OTHER_OWNERS);
}

/*
 * Return why the script cannot run as the table's owner, or NULL.  That owner
 * must be able to give statistics back to their owners.
 */
char *
sf_conversion_not_one_owner(SfConversion *conversion)
{
	return sf_conversion_text(conversion, SQL_NOT_ONE_OWNER);
}

/* Throw SQLSTATE 42501 if the script cannot run as the table's owner. */
void
sf_conversion_require_one_owner(SfConversion *conversion)
{
	char	   *why = sf_conversion_not_one_owner(conversion);

	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("objects that change with the column have other owners than its table"),
				 errdetail_internal("%s", why),
				 errhint("Give them one owner. Or print the script by a dry run, and run the script: it runs these owners' code with your rights.")));
}

/* Throw SQLSTATE 42501 if rights are missing. */
void
sf_conversion_require_rights(SfConversion *conversion)
{
	sf_conversion_refuse(conversion, obstacles, lengthof(obstacles));
}
