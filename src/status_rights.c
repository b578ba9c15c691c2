/*-------------------------------------------------------------------------
 *
 * status_rights.c
 *	  What snowflake_status() finds in the privileges: who may write what the
 *	  uniqueness of IDs rests on.
 *
 * By design that is the extension's owner: the registers are his, and in a
 * registry those write to its tables who may execute what workers call
 * (doc/leases.md).  Only the catalogues are read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "status.h"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"

#define EQ	" OPERATOR(pg_catalog.=) "
#define NE	" OPERATOR(pg_catalog.<>) "

/*
 * Of the extension $1: what is granted to whom beyond that, and the command
 * that takes it back.
 */
static const char query[] =
"WITH member AS ("
" SELECT d.classid, d.objid FROM pg_catalog.pg_depend d"
" WHERE d.refclassid" EQ "'pg_catalog.pg_extension'::pg_catalog.regclass"
"  AND d.refobjid" EQ "$1 AND d.deptype" EQ "'e'),"
" worker AS ("
" SELECT p.oid FROM pg_catalog.pg_proc p JOIN member m ON m.objid" EQ "p.oid"
"  AND m.classid" EQ "'pg_catalog.pg_proc'::pg_catalog.regclass"
" WHERE p.proname" EQ "'snowflake_registry_write'),"
" given AS ("
" SELECT CASE WHEN c.relkind" EQ "'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,"
"  pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,"
"  CASE WHEN a.grantee" EQ "0::pg_catalog.oid THEN 'PUBLIC'"
"   ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS role,"
"  pg_catalog.string_agg(a.privilege_type, ', '"
"   ORDER BY a.privilege_type) AS privileges"
" FROM pg_catalog.pg_class c JOIN member m ON m.objid" EQ "c.oid"
"  AND m.classid" EQ "'pg_catalog.pg_class'::pg_catalog.regclass"
"  JOIN pg_catalog.pg_namespace n ON n.oid" EQ "c.relnamespace,"
"  LATERAL pg_catalog.aclexplode(c.relacl) a"
" WHERE a.grantee" NE "c.relowner"
"  AND (c.relkind" EQ "'S'"
"    AND a.privilege_type" EQ "ANY ('{UPDATE,USAGE}'::pg_catalog.text[])"
"   OR c.relkind" EQ "'r'"
"    AND a.privilege_type" EQ "ANY"
"     ('{DELETE,INSERT,TRIGGER,TRUNCATE,UPDATE}'::pg_catalog.text[])"
"    AND NOT (a.grantee" NE "0::pg_catalog.oid"
"     AND a.privilege_type" EQ "ANY ('{INSERT,UPDATE}'::pg_catalog.text[])"
"     AND EXISTS (SELECT FROM worker w WHERE"
"      pg_catalog.has_function_privilege(a.grantee, w.oid, 'EXECUTE'))))"
" GROUP BY 1, 2, 3),"
" joined AS ("
" SELECT kind, role, privileges,"
"  pg_catalog.string_agg(name, ', ' ORDER BY name) AS names"
" FROM given GROUP BY 1, 2, 3)"
" SELECT pg_catalog.string_agg(pg_catalog.format("
"   '%s may %s %s', role, privileges, names), '; ' ORDER BY names, role),"
"  pg_catalog.string_agg(pg_catalog.format("
"   'REVOKE %s ON %s %s FROM %s;', privileges, kind, names, role), ' '"
"   ORDER BY names, role)"
" FROM joined";

typedef struct Rights
{
	Oid			extension;
	MemoryContext context;
	char	   *found;			/* NULL: nobody has any */
	char	   *remedy;
} Rights;

static void
find_rights(void *arg)
{
	Rights	   *rights = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(rights->extension)};
	HeapTuple	row;

	SPI_connect();
	if (SPI_execute_with_args(query, 1, types, values, NULL, true,
							  0) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "catalogs could not be read");
	row = SPI_tuptable->vals[0];
	rights->found = SPI_getvalue(row, SPI_tuptable->tupdesc, 1);
	if (rights->found != NULL)
	{
		char	   *remedy = SPI_getvalue(row, SPI_tuptable->tupdesc, 2);

		rights->found = MemoryContextStrdup(rights->context, rights->found);
		rights->remedy = MemoryContextStrdup(rights->context, remedy);
	}
	SPI_finish();
}

void
sf_status_rights(ReturnSetInfo *result, Oid function)
{
	Rights		rights = {0};
	char	   *error;

	rights.extension = getExtensionOfObject(ProcedureRelationId, function);
	rights.context = CurrentMemoryContext;
	error = sf_status_try(find_rights, &rights, NULL);
	if (error != NULL)
		sf_status_put(result, "privileges", SF_STATUS_ERROR,
					  psprintf("the catalogs cannot be read: %s", error),
					  "See the server's log.");
	else if (rights.found != NULL)
		sf_status_put(result, "privileges", SF_STATUS_WARNING,
					  psprintf("others than the extension's owner may write what guards the IDs: %s",
							   rights.found),
					  rights.remedy);
	else
		sf_status_ok(result, "privileges",
					 "none but the extension's owner may write what guards the IDs");
}
