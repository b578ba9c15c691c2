/*-------------------------------------------------------------------------
 *
 * function.c
 *	  Which functions of SQL are ours?
 *
 * Anybody may make a function with the name of one of ours, and text like that
 * of its definition.  Another extension may be called as ours is, and another
 * library may have a C function of the same name.  So a function of SQL is
 * ours if the server finds the address of our C function for it.  That holds
 * in any schema, and in each version of the extension.
 *
 * To find an address, the server may load a library.  So the name of the C
 * function is compared first: all of ours begin alike, and no other library is
 * loaded for the functions that users have.
 *
 * These look-ups read the catalogue.  They are for plans, for the start of a
 * COPY, and for what administrators call; a call that makes an ID does not
 * need them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/function.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

/* How the names of our C functions begin. */
#define PREFIX	"snowflake_"

/* How a portable function calls one of ours. */
#define CALL	"SELECT "

/* Bytes of such a call at most: two quoted names, and the arguments. */
#define BODY_MAX	(VARHDRSZ + sizeof(CALL) + 2 * (2 * NAMEDATALEN + 1) + \
					 FUNC_MAX_ARGS * sizeof("$100, "))

/* Return a text of the catalogue; NULL if it is null. */
static char *
get_text(HeapTuple proc, AttrNumber attribute)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(PROCOID, proc, attribute, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/*
 * Return the name of a function in C, if it may be one of ours; set *library,
 * unless it is NULL.
 */
static char *
find_symbol(Oid oid, char **library)
{
	HeapTuple	proc = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	char	   *symbol = NULL;

	if (!HeapTupleIsValid(proc))
		return NULL;
	if (((Form_pg_proc) GETSTRUCT(proc))->prolang == ClanguageId)
		symbol = get_text(proc, Anum_pg_proc_prosrc);

	if (symbol !=NULL && strncmp(symbol, PREFIX, strlen(PREFIX)) != 0)
		symbol = NULL;

	if (symbol !=NULL && library != NULL)
		*library = get_text(proc, Anum_pg_proc_probin);
	ReleaseSysCache(proc);
	return symbol;
}

/*
 * Return the C function that a function of SQL runs in the end, also through
 * what ALTER FUNCTION ... SET or SECURITY DEFINER puts before it; or NULL.
 * The caller compares it with one of ours.
 */
PGFunction
sf_function_code(Oid oid)
{
	char	   *library = NULL;
	char	   *symbol = find_symbol(oid, &library);

	if (symbol == NULL || library == NULL)
		return NULL;
	return (PGFunction) load_external_function(library, symbol, false, NULL);
}

/*
 * Return the C function that a call of a function of SQL runs without anything
 * before it; or NULL.  Only such a call may be replaced by one of another
 * function, or take its place.  The caller checks the right to EXECUTE.
 */
PGFunction
sf_function_direct(Oid oid)
{
	FmgrInfo	finfo;

	if (find_symbol(oid, NULL) == NULL)
		return NULL;
	fmgr_info(oid, &finfo);
	return finfo.fn_addr;
}

/*
 * Return true if this is a portable function that calls this one of ours.
 * sql/portable-to-extension.sql gives each portable function a body that calls
 * the function of the extension with the same name and arguments, and nothing
 * else.  Such a body is recognized by its text, which names the schema of the
 * extension, in quotes or not: that depends on the session and the major that
 * wrote it.  A function that the planner does not inline is not meant.
 */
bool
sf_function_is_call(HeapTuple proc, Form_pg_proc ours)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(proc);
	char	   *body;
	char	   *schema;
	bool		isnull;
	Datum		source;
	StringInfoData arguments;
	List	   *names;
	size_t		length;

	if (form->prolang != SQLlanguageId || form->prosecdef ||
		form->proretset != ours->proretset ||
		form->prorettype != ours->prorettype ||
		form->pronargs != ours->pronargs ||
		memcmp(form->proargtypes.values, ours->proargtypes.values,
			   form->pronargs * sizeof(Oid)) != 0 ||
		!heap_attisnull(proc, Anum_pg_proc_proconfig, NULL))
		return false;

	/* another role's function of this name may have megabytes */
	source = SysCacheGetAttr(PROCOID, proc, Anum_pg_proc_prosrc, &isnull);
	if (isnull || toast_raw_datum_size(source) > BODY_MAX)
		return false;
	body = TextDatumGetCString(source);
	/* another session may have dropped the schema by now */
	schema = get_namespace_name(ours->pronamespace);
	if (schema == NULL)
		return false;
	initStringInfo(&arguments);
	appendStringInfoChar(&arguments, '(');
	for (int i = 1; i <= ours->pronargs; i++)
		appendStringInfo(&arguments, "%s$%d", i > 1 ? ", " : "", i);
	appendStringInfoChar(&arguments, ')');
	length = strlen(body);
	if (length < strlen(CALL) + arguments.len ||
		strncmp(body, CALL, strlen(CALL)) != 0 ||
		strcmp(body + length - arguments.len, arguments.data) != 0)
		return false;
	body[length - arguments.len] = '\0';
	return SplitIdentifierString(body + strlen(CALL), '.', &names) &&
		list_length(names) == 2 && strcmp(linitial(names), schema) == 0 &&
		strcmp(lsecond(names), NameStr(ours->proname)) == 0;
}

/* Return this function of ours, and the portable functions that call it. */
List *
sf_function_callers(Oid oid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	List	   *callers = list_make1_oid(oid);
	Form_pg_proc ours;
	CatCList   *namesakes;

	if (!HeapTupleIsValid(tuple))
		return callers;
	ours = (Form_pg_proc) GETSTRUCT(tuple);
	namesakes = SearchSysCacheList1(PROCNAMEARGSNSP,
									NameGetDatum(&ours->proname));
	for (int i = 0; i < namesakes->n_members; i++)
	{
		HeapTuple	proc = &namesakes->members[i]->tuple;

		if (sf_function_is_call(proc, ours))
			callers = lappend_oid(callers,
								  ((Form_pg_proc) GETSTRUCT(proc))->oid);
	}
	ReleaseSysCacheList(namesakes);
	ReleaseSysCache(tuple);
	return callers;
}

/* Find a function by its name and the types of its arguments. */
Oid
sf_function_find(Oid schema, const char *name, int n, const Oid *types)
{
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(types, n)),
						   ObjectIdGetDatum(schema));
}
