/*-------------------------------------------------------------------------
 *
 * pgedge_stubs.c
 *	  Stubs for the functions of pgEdge's extension, whose name and library
 *	  name are ours too.  If our library has replaced that one, its functions
 *	  lead here, and the stubs say so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"

static void
refuse_pgedge_function(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function \"%s\" is one of pgEdge's extension \"snowflake\"",
					function),
			 errdetail("The library that is installed is that of another extension of the same name."),
			 errhint("To go on with pgEdge's, install it again. To migrate, drop the defaults that call snowflake.nextval(), and the extension; then run: CREATE EXTENSION snowflake;")));
}

/*
 * Define a stub.  The server asks a library how to call a function when the
 * function is created, and before a session's first call.  No function of ours
 * may have such a name in C.
 */
#define PGEDGE_STUB(name) \
	extern PGDLLEXPORT const Pg_finfo_record * \
	CppConcat(pg_finfo_, name) (void); \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	const Pg_finfo_record * \
	CppConcat(pg_finfo_, name) (void) \
	{ \
		refuse_pgedge_function(CppAsString(name)); \
		return NULL; \
	} \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		refuse_pgedge_function(CppAsString(name)); \
		PG_RETURN_NULL(); \
	} \
	extern int	no_such_variable

PGEDGE_STUB(snowflake_nextval);
PGEDGE_STUB(snowflake_currval);
PGEDGE_STUB(snowflake_get_epoch);
PGEDGE_STUB(snowflake_get_count);
PGEDGE_STUB(snowflake_get_node);
