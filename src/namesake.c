/*-------------------------------------------------------------------------
 *
 * namesake.c
 *	  pgEdge's extension has our name and a library of the same name.  Where
 *	  ours has taken that one's place, its functions lead here: say so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"

static void
refuse(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function \"%s\" is one of pgEdge's extension \"snowflake\"",
					function),
			 errdetail("The library that is installed is that of another extension of the same name."),
			 errhint("To go on with pgEdge's, install it again. To migrate, drop the defaults that call snowflake.nextval(), and the extension; then run: CREATE EXTENSION snowflake;")));
}

/*
 * The server asks a library for how a function is to be called when it is
 * created, and before a session calls it for the first time.  None of ours may
 * have such a name in C.
 */
#define NAMESAKE(name) \
	extern PGDLLEXPORT const Pg_finfo_record * \
	CppConcat(pg_finfo_, name) (void); \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	const Pg_finfo_record * \
	CppConcat(pg_finfo_, name) (void) \
	{ \
		refuse(CppAsString(name)); \
		return NULL; \
	} \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		refuse(CppAsString(name)); \
		PG_RETURN_NULL(); \
	} \
	extern int	no_such_variable

NAMESAKE(snowflake_nextval);
NAMESAKE(snowflake_currval);
NAMESAKE(snowflake_get_epoch);
NAMESAKE(snowflake_get_count);
NAMESAKE(snowflake_get_node);
