/*-------------------------------------------------------------------------
 *
 * widen.c
 *	  The statements that widen columns, and properties that the server loses.
 *
 * ALTER TABLE makes indexes and constraints anew, those of partitions as if
 * they were new: they get their names and settings back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "convert/plan.h"
#include "convert/widen.sql.inc"

void
sf_conversion_widen(SfConversion *conversion)
{
	const char *const queries[] = {
		SQL_ALTER_READERS, SQL_ADD_GENERATED, SQL_RESTORE_PARTS
	};

	sf_conversion_query(conversion, SQL_DROP_GENERATED);
	sf_conversion_query_with_path(conversion, SQL_ALTER_OTHERS);
	sf_conversion_queries(conversion, queries, lengthof(queries));
}
