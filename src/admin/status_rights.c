/*-------------------------------------------------------------------------
 *
 * status_rights.c
 *	  Checks of snowflake_status() about the catalogs: which roles may write or
 *	  lock the data on which the uniqueness of IDs rests.
 *
 * By design that is the extension's owner, which owns the durable numbers.  In
 * a registry, roles that may execute the workers' functions write its tables
 * (doc/leases.md).
 *
 * A privilege on a column counts as one on its table: REVOKE removes both.  On
 * a column of a sequence the server grants nothing but SELECT.
 *
 * Each role that was granted a function for administrators shows, also one
 * that an administrator chose: GRANT ... ON ALL ROUTINES IN SCHEMA leaves the
 * same entries.
 *
 * A role that may use the schema of a table or sequence can lock it, since the
 * parser locks before any other right is checked.  The install script lets the
 * owner of the database do so, for pg_dump.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"
#include "admin/status_rights.sql.inc"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"

/* What a query has found. */
typedef struct Findings
{
	Oid			extension;
	MemoryContext context;
	char	   *found;			/* NULL: there are none */
	char	   *remedy;
} Findings;

static void
find_rights(void *arg)
{
	Findings   *rights = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(rights->extension)};
	HeapTuple	row;

	SPI_connect();
	if (SPI_execute_with_args(SQL_RIGHTS, 1, types, values, NULL, true,
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

/* Report roles that may write or lock what guards the IDs. */
void
sf_status_rights(SfStatus *status)
{
	Findings	rights = {0};
	ErrorData  *error;

	rights.extension = getExtensionOfObject(ProcedureRelationId,
											status->function);
	rights.context = CurrentMemoryContext;
	error = sf_status_try(find_rights, &rights);
	if (error != NULL)
		sf_status_put(status, SF_STATUS_ERROR,
					  psprintf("the catalogs cannot be read: %s",
							   error->message),
					  sf_status_log_error(error));
	else if (rights.found != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("roles other than the extension's owner may write or lock what guards the IDs: %s",
							   rights.found),
					  rights.remedy);
	else
		sf_status_ok(status, "no role was granted more than CREATE EXTENSION grants");
}
