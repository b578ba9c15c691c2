/*-------------------------------------------------------------------------
 *
 * function.h
 *	  Which functions of SQL are ours?
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FUNCTION_H
#define SF_FUNCTION_H

#include "access/htup.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "nodes/pg_list.h"

/* The schema of functions that nobody calls by hand. */
#define SF_SCHEMA	"snowflake_internal"

extern PGFunction sf_function_code(Oid oid);
extern PGFunction sf_function_direct(Oid oid);
extern bool sf_function_is_call(HeapTuple proc, Form_pg_proc ours);
extern List *sf_function_callers(Oid oid);
extern Oid	sf_function_find(Oid schema, const char *name, int n,
							 const Oid *types);

#endif							/* SF_FUNCTION_H */
