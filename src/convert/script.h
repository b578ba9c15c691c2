/*-------------------------------------------------------------------------
 *
 * script.h
 *	  A column whose default changes: its dependents, and the statements around
 *	  its widening.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SCRIPT_H
#define SF_SCRIPT_H

#include "access/attnum.h"
#include "convert/given.sql.inc"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "table/table.h"

/* With this search_path, names read from catalogues have a schema. */
#define SF_CONVERSION_PATH	"pg_catalog, pg_temp"

typedef struct SfConversion
{
	Oid			relation;
	AttrNumber	number;
	const char *table;			/* as in statements, like the next */
	const char *column;
	const char *schema;			/* of the extension */
	Oid			type;			/* that the columns get: bigint or snowflake */
	Oid			other;			/* of the two */
	Datum		given[5];		/* arguments of the queries: columns, types,
								 * views */
	List	   *steps;			/* of SfStatement */
	const char *path;			/* the session's search_path */
	int			guc_level;
	SfOwner		caller;
	LOCKMODE	lock;			/* of the tables; and queries for the script's
								 * beginning.  These are for what changes a
								 * column's type */
	const char *lock_tables;
	const char *other_owners;
	const char *not_one_owner;
	const char *overloads;		/* NULL: nothing is read anew */
} SfConversion;

typedef struct SfStatement
{
	const char *text;
	const char *locks;			/* or NULL */
	const char *note;			/* or NULL */
	Oid			role;			/* to become, in place of SET ROLE; or 0 */
	const char *target;			/* what it names, of the owner; or NULL */
	void		(*check) (const void *arg); /* looks at the result; or NULL */
	const void *arg;
	const char *if_unique;		/* HINT of a key that is there; or NULL */
} SfStatement;

/* Call the first before SPI_connect(), and the others within SPI. */
extern void sf_conversion_arguments(FunctionCallInfo fcinfo, int dry_run,
									const char *name);
extern SfConversion *sf_conversion_open(FunctionCallInfo fcinfo,
										bool to_snowflake, bool dry_run);
extern void sf_conversion_keep_meaning(void);
extern char *sf_conversion_advance(int64 id, const char *layout, bool force);
extern bool sf_conversion_is_snowflake(FunctionCallInfo fcinfo);
extern void sf_conversion_require(SfConversion *conversion);
extern bool sf_conversion_widens(SfConversion *conversion);
extern char *sf_conversion_value(const char *query, int nargs, Oid *types,
								 Datum *values);
extern void sf_conversion_query_column(SfConversion *conversion,
									   const char *query);
extern void sf_conversion_add(SfConversion *conversion, const char *text,
							  const char *locks, const char *note);
extern char *sf_conversion_ask(const SfConversion *conversion,
							   const char *query);
extern bool sf_conversion_outermost(const SfConversion *conversion,
									int64 lowest, bool ascending, int64 *id);
extern void sf_conversion_alter(SfConversion *conversion, const char *action,
								const char *note);
extern void sf_conversion_refuse_foreign_key(const SfConversion *conversion);
extern void sf_conversion_path_begin(SfConversion *conversion);
extern void sf_conversion_path_end(SfConversion *conversion);
extern void sf_conversion_take_away(SfConversion *conversion);
extern void sf_conversion_widen(SfConversion *conversion);
extern void sf_conversion_put_back(SfConversion *conversion);
extern void sf_conversion_start(SfConversion *conversion, bool dry_run);
extern void sf_conversion_finish(SfConversion *conversion,
								 ReturnSetInfo *rsinfo, bool dry_run);

#endif							/* SF_SCRIPT_H */
