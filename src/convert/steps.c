/*-------------------------------------------------------------------------
 *
 * steps.c
 *	  The statements that widen columns, and those before and after: objects
 *	  that the server refuses to alter are removed, and restored as they were.
 *
 * If an object can be changed instead of dropped, it keeps its owner, grants
 * and comment, and its dependents: this is so for policies and functions.
 * Views, rules and triggers are made again, with all that belongs to them.
 * Materialized views may call functions that are not restored yet.  So they
 * are made empty, and filled when everything else is there.
 *
 * ALTER TABLE makes indexes and constraints anew, those of partitions as if
 * they were new: they get their names and settings back.
 *
 * Each query returns statements, their locks, and notes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "convert/plan.h"
#include "convert/steps.sql.inc"
#include "convert/widen.sql.inc"

void
sf_conversion_lock(SfConversion *conversion)
{
	sf_conversion_query(conversion, SQL_LOCK_TABLES);
}

void
sf_conversion_take_away(SfConversion *conversion)
{
	const char *const queries[] = {
		SQL_WITHOUT_BODIES, SQL_LEAVE_PUBLICATIONS, SQL_EMPTY_FUNCTIONS,
		SQL_BLIND_POLICIES, SQL_DROP_TRIGGERS, SQL_DROP_RULES, SQL_DROP_VIEWS,
		SQL_DROP_INDEXES
	};

	sf_conversion_queries(conversion, queries, lengthof(queries));
}

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

void
sf_conversion_put_back(SfConversion *conversion)
{
	const char *const definitions[] = {
		SQL_MAKE_VIEWS, SQL_REVOKE_DEFAULTS, SQL_GRANT, SQL_SET_COLUMNS,
		SQL_MAKE_RULES, SQL_MAKE_TRIGGERS, SQL_OPEN_POLICIES,
		SQL_FILL_FUNCTIONS
	};
	const char *const rest[] = {
		SQL_MAKE_INDEXES, SQL_TARGET_INDEXES, SQL_DEPEND_ON_EXTENSIONS,
		SQL_MAKE_STATISTICS, SQL_COMMENT, SQL_LABEL, SQL_JOIN_PUBLICATIONS
	};

	sf_conversion_queries(conversion, definitions, lengthof(definitions));
	sf_conversion_query_with_path(conversion, SQL_REFRESH);
	sf_conversion_queries(conversion, rest, lengthof(rest));
}
