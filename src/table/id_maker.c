/*-------------------------------------------------------------------------
 *
 * id_maker.c
 *	  The functions that make IDs, as a column's default may call them: those
 *	  of the extension, and portable functions that call these.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "table/table.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "generate/generator.h"
#include "runtime/function.h"
#include "utils/catcache.h"
#include "utils/syscache.h"

/* The names that these functions have. */
static const char *const names[] = {
	"snowflake_nextval", "snowflake_generate", "snowflake_shard_nextval"
};

/*
 * What a function makes that runs one of our C functions.  A superuser may
 * have made it beside the extension: it makes the same IDs.
 */
static SfIdMaker
maker_of_ours(Oid function)
{
	PGFunction	code = sf_function_code(function);

	if (code == snowflake_next_id || code == snowflake_nextval_layout)
		return SF_MAKES_NODE_IDS;
	return code == snowflake_shard_nextval ?
		SF_MAKES_SHARD_IDS : SF_MAKES_NO_IDS;
}

/* What a portable function makes: look for ours among those of its name. */
static SfIdMaker
maker_of_portable(HeapTuple proc)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(proc);
	CatCList   *namesakes;
	SfIdMaker	maker = SF_MAKES_NO_IDS;

	namesakes = SearchSysCacheList1(PROCNAMEARGSNSP,
									NameGetDatum(&form->proname));
	for (int i = 0; i < namesakes->n_members; i++)
	{
		Form_pg_proc ours = (Form_pg_proc)
			GETSTRUCT(&namesakes->members[i]->tuple);

		if (ours->prolang == ClanguageId &&
			sf_function_is_call(proc, ours))
			maker = maker_of_ours(ours->oid);
	}
	ReleaseSysCacheList(namesakes);
	return maker;
}

/* Return true if a function has the name of one that makes IDs. */
static bool
has_name(Form_pg_proc proc)
{
	for (size_t i = 0; i < lengthof(names); i++)
	{
		if (strcmp(NameStr(proc->proname), names[i]) == 0)
			return true;
	}
	return false;
}

/* Return whose IDs a function makes. */
SfIdMaker
sf_id_maker(Oid function)
{
	HeapTuple	proc = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	SfIdMaker	maker = SF_MAKES_NO_IDS;
	Form_pg_proc form;

	if (!HeapTupleIsValid(proc))
		return maker;
	form = (Form_pg_proc) GETSTRUCT(proc);
	if (form->prolang == ClanguageId)
		maker = maker_of_ours(function);
	else if (form->prolang == SQLlanguageId && has_name(form))
		maker = maker_of_portable(proc);
	ReleaseSysCache(proc);
	return maker;
}

/* Return all functions of this database that make IDs, in any schema. */
List *
sf_id_makers(void)
{
	List	   *makers = NIL;

	for (size_t i = 0; i < lengthof(names); i++)
	{
		CatCList   *found = SearchSysCacheList1(PROCNAMEARGSNSP,
												CStringGetDatum(names[i]));

		for (int k = 0; k < found->n_members; k++)
		{
			Oid			function = ((Form_pg_proc)
									GETSTRUCT(&found->members[k]->tuple))->oid;

			if (sf_id_maker(function) != SF_MAKES_NO_IDS)
				makers = lappend_oid(makers, function);
		}
		ReleaseSysCacheList(found);
	}
	return makers;
}
