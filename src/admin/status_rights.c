/*-------------------------------------------------------------------------
 *
 * status_rights.c
 *	  Checks of snowflake_status() about privileges: which roles may write the
 *	  data on which the uniqueness of IDs rests.
 *
 * By design that is the extension's owner, which owns the durable numbers.  In
 * a registry, roles that may execute the workers' functions write its tables
 * (doc/leases.md).  Only the catalogues are read.
 *
 * A privilege on a column counts as one on its table: REVOKE removes both.  On
 * a column of a sequence the server grants nothing but SELECT.
 *
 * A function that the install script took from PUBLIC must not be PUBLIC's
 * again: pg_init_privs has what the script gave.  A role that was granted such
 * a function by name is an administrator's choice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"

#define EQ	" OPERATOR(pg_catalog.=) "
#define NE	" OPERATOR(pg_catalog.<>) "

/*
 * Find the further privileges on objects of the extension $1, and of a
 * registry in this database, and the commands that revoke them.
 */
static const char query[] =
"WITH member AS ("
" SELECT d.classid, d.objid, x.extowner FROM pg_catalog.pg_depend d"
"  JOIN pg_catalog.pg_extension x ON x.oid" EQ "d.refobjid"
" WHERE d.refclassid" EQ "'pg_catalog.pg_extension'::pg_catalog.regclass"
"  AND (x.oid" EQ "$1 OR x.extname" EQ "'snowflake_registry')"
"  AND d.deptype" EQ "'e'),"
" worker AS ("
" SELECT p.oid FROM pg_catalog.pg_proc p JOIN member m ON m.objid" EQ "p.oid"
"  AND m.classid" EQ "'pg_catalog.pg_proc'::pg_catalog.regclass"
" WHERE p.proname" EQ "'write'),"
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
"  LATERAL (SELECT r.grantee, r.privilege_type"
"    FROM pg_catalog.aclexplode(c.relacl) r"
"   UNION SELECT p.grantee, p.privilege_type"
"    FROM pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) p"
"    WHERE t.attrelid" EQ "c.oid AND NOT t.attisdropped) a"
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
" GROUP BY 1, 2, 3"
" UNION ALL"
" SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname),"
"  CASE WHEN a.grantee" EQ "0::pg_catalog.oid THEN 'PUBLIC'"
"   ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END, 'CREATE'"
" FROM pg_catalog.pg_namespace n JOIN member m ON m.objid" EQ "n.oid"
"  AND m.classid" EQ "'pg_catalog.pg_namespace'::pg_catalog.regclass,"
"  LATERAL pg_catalog.aclexplode(n.nspacl) a"
" WHERE a.grantee" NE "n.nspowner AND a.privilege_type" EQ "'CREATE'"
" UNION ALL"
" SELECT 'FUNCTION', pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,"
"  pg_catalog.pg_get_function_identity_arguments(p.oid)), 'PUBLIC', 'EXECUTE'"
" FROM pg_catalog.pg_proc p JOIN member m ON m.objid" EQ "p.oid"
"  AND m.classid" EQ "'pg_catalog.pg_proc'::pg_catalog.regclass"
"  JOIN pg_catalog.pg_namespace n ON n.oid" EQ "p.pronamespace"
"  JOIN pg_catalog.pg_init_privs i ON i.objoid" EQ "p.oid"
"   AND i.classoid" EQ "m.classid"
" WHERE NOT EXISTS (SELECT FROM pg_catalog.aclexplode(i.initprivs) a"
"   WHERE a.grantee" EQ "0::pg_catalog.oid)"
"  AND EXISTS (SELECT FROM pg_catalog.aclexplode(COALESCE(p.proacl,"
"    pg_catalog.acldefault('f', p.proowner))) a"
"   WHERE a.grantee" EQ "0::pg_catalog.oid)),"
" owned AS ("
" SELECT CASE WHEN c.relkind" EQ "'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,"
"  pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,"
"  c.relowner AS owner, m.extowner"
" FROM pg_catalog.pg_class c JOIN member m ON m.objid" EQ "c.oid"
"  AND m.classid" EQ "'pg_catalog.pg_class'::pg_catalog.regclass"
"  JOIN pg_catalog.pg_namespace n ON n.oid" EQ "c.relnamespace"
" WHERE c.relkind" EQ "ANY ('{S,r}'::pg_catalog.\"char\"[])"
" UNION ALL"
" SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname), n.nspowner,"
"  m.extowner"
" FROM pg_catalog.pg_namespace n JOIN member m ON m.objid" EQ "n.oid"
"  AND m.classid" EQ "'pg_catalog.pg_namespace'::pg_catalog.regclass),"
" joined AS ("
" SELECT kind, role, privileges,"
"  pg_catalog.string_agg(name, ', ' ORDER BY name) AS names"
" FROM given GROUP BY 1, 2, 3),"
" said AS ("
" SELECT names, role,"
"  pg_catalog.format('%s may %s %s', role, privileges, names) AS found,"
"  pg_catalog.format('REVOKE %s ON %s %s FROM %s;',"
"   privileges, kind, names, role) AS remedy"
" FROM joined"
" UNION ALL"
" SELECT o.name, r.rolname,"
"  pg_catalog.format('%I owns %s', r.rolname, o.name),"
"  pg_catalog.format('ALTER %s %s OWNER TO %s;', o.kind, o.name,"
"   o.extowner::pg_catalog.regrole)"
" FROM owned o JOIN pg_catalog.pg_roles r ON r.oid" EQ "o.owner"
" WHERE o.owner" NE "o.extowner AND NOT r.rolsuper)"
" SELECT pg_catalog.string_agg(found, '; ' ORDER BY names, role),"
"  pg_catalog.string_agg(remedy, ' ' ORDER BY names, role)"
" FROM said";

typedef struct Rights
{
	Oid			extension;
	MemoryContext context;
	char	   *found;			/* NULL: there are none */
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
					  psprintf("roles other than the extension's owner may write what guards the IDs: %s",
							   rights.found),
					  rights.remedy);
	else
		sf_status_ok(result, "privileges",
					 "only the extension's owner may write what guards the IDs");
}
