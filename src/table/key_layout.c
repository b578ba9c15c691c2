/*-------------------------------------------------------------------------
 *
 * key_layout.c
 *	  The layout of the IDs that a column's default makes: the default calls
 *	  a function that makes IDs, and may name a layout.
 *
 * The default is read as the catalogue has it, and not planned: that would run
 * functions of the table's owner.  So the name of a layout must be a constant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "table/table.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "base/message.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "generate/generator.h"
#include "nodes/nodeFuncs.h"
#include "query/query.h"
#include "runtime/function.h"
#include "runtime/settings.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* ---- the functions that make IDs ---- */

typedef enum Maker
{
	MAKES_NO_IDS,
	MAKES_NODE_IDS,
	MAKES_SHARD_IDS
} Maker;

/*
 * A column's default may call those of the extension, and portable functions
 * that call these.  They have these names.
 */
static const char *const names[] = {
	"snowflake_nextval", "snowflake_generate", "snowflake_shard_nextval"
};

/*
 * What a function makes that runs one of our C functions.  A superuser may
 * have made it beside the extension: it makes the same IDs.
 */
static Maker
maker_of_ours(Oid function)
{
	PGFunction	code = sf_function_code(function);

	if (code == snowflake_next_id || code == snowflake_nextval_layout)
		return MAKES_NODE_IDS;
	return code == snowflake_shard_nextval ?
		MAKES_SHARD_IDS : MAKES_NO_IDS;
}

/* What a portable function makes: look for ours among those of its name. */
static Maker
maker_of_portable(HeapTuple proc)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(proc);
	CatCList   *namesakes;
	Maker		maker = MAKES_NO_IDS;

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
static Maker
find_maker(Oid function)
{
	HeapTuple	proc = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Maker		maker = MAKES_NO_IDS;
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

			if (find_maker(function) != MAKES_NO_IDS)
				makers = lappend_oid(makers, function);
		}
		ReleaseSysCacheList(found);
	}
	return makers;
}

/* ---- the layout in a default ---- */

/* Bytes of an expression as the catalogue has it; a call has some hundred. */
#define DEFAULT_MAX		100000

/*
 * Return the expression of a column's default, or NULL.  One that is too long
 * is hidden.
 */
static Node *
read_default(Oid relation, AttrNumber number, bool *is_hidden)
{
	Relation	catalog = table_open(AttrDefaultRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Node	   *expression = NULL;

	ScanKeyInit(&key[0], Anum_pg_attrdef_adrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(relation));
	ScanKeyInit(&key[1], Anum_pg_attrdef_adnum, BTEqualStrategyNumber,
				F_INT2EQ, Int16GetDatum(number));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, NULL, 2, key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		tree = heap_getattr(tuple, Anum_pg_attrdef_adbin,
										RelationGetDescr(catalog), &isnull);

		/* to read a deep one may take more stack than its owner had */
		*is_hidden = !isnull && toast_raw_datum_size(tree) > DEFAULT_MAX;
		if (!isnull && !*is_hidden)
			expression = stringToNode(TextDatumGetCString(tree));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return expression;
}

/* Read the layout of a call's IDs.  A call for the node may name one. */
static void
read_call(SfKeyLayout *key, const FuncExpr *call)
{
	Const	   *name;

	key->layout = key->is_shard ? sf_shard_layout : sf_node_layout;
	if (key->is_shard || call->args == NIL)
		return;
	name = linitial(call->args);
	if (IsA(name, NamedArgExpr))
		name = (Const *) ((NamedArgExpr *) name)->arg;
	if (!IsA(name, Const) || name->constisnull || name->consttype != TEXTOID)
	{
		key->is_hidden = true;
		return;
	}
	key->name = TextDatumGetCString(name->constvalue);
	if (sf_layout_arg_parse(&key->layout, DatumGetTextPP(name->constvalue)))
		return;
	key->is_hidden = strcmp(key->name, "node") != 0;
	key->layout = sf_node_layout;
	key->name = NULL;
}

typedef struct Search
{
	SfKeyLayout *key;
	bool		found;
} Search;

/* Read all calls of functions that make IDs: two layouts are as none. */
static bool
find_calls(Node *node, void *arg)
{
	Search	   *search = arg;
	SfKeyLayout key = {0};
	Maker		maker = MAKES_NO_IDS;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr))
		maker = find_maker(((FuncExpr *) node)->funcid);
	if (maker != MAKES_NO_IDS)
	{
		key.is_shard = maker == MAKES_SHARD_IDS;
		read_call(&key, (FuncExpr *) node);
		if (!search->found)
			*search->key = key;
		else if (key.is_hidden || key.is_shard != search->key->is_shard ||
				 !sf_layout_is_same(&key.layout, &search->key->layout))
			search->key->is_hidden = true;
		search->found = true;
	}
	return expression_tree_walker(node, find_calls, arg);
}

/* Return true if a default is a call that makes IDs, but for its type. */
static bool
is_call(Node *node)
{
	for (;;)
	{
		node = strip_implicit_coercions(node);
		if (node == NULL || !IsA(node, RelabelType))
			break;
		node = (Node *) ((RelabelType *) node)->arg;
	}
	return node != NULL && IsA(node, FuncExpr) &&
		find_maker(((FuncExpr *) node)->funcid) != MAKES_NO_IDS;
}

/*
 * Find the layout of the IDs that a column's default makes; return false if it
 * makes none, or if their layout cannot be told.
 */
bool
sf_key_layout_find(SfKeyLayout *key, Oid relation, AttrNumber number)
{
	Search		search = {.key = key};
	Node	   *expression;

	memset(key, 0, sizeof(*key));
	expression = read_default(relation, number, &key->is_hidden);
	(void) find_calls(expression, &search);
	key->relation = relation;
	key->is_direct = is_call(expression);
	key->is_known = search.found && !key->is_hidden;
	return key->is_known;
}

/* Throw SQLSTATE 22023 if the default has a layout that cannot be told. */
void
sf_key_layout_require_shown(const SfKeyLayout *key)
{
	char	   *schema = get_namespace_name(get_rel_namespace(key->relation));
	char	   *name = get_rel_name(key->relation);

	if (key->is_hidden)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("could not determine the layout of the IDs of \"%s\"",
						name),
				 errdetail("The default of the column does not name one layout by a literal."),
				 errhint("Name it: ALTER TABLE %s ALTER COLUMN KEY SET DEFAULT %s.snowflake_nextval('LAYOUT'::pg_catalog.text); Functions for partitions also take it as their argument \"layout\".",
						 name == NULL ? "NAME" :
						 quote_qualified_identifier(schema, name),
						 sf_extschema())));
}

/* Return true if a default calls this function, and names this layout. */
static bool
is_named_in(Oid called, const SfLayout *layout)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_used = false;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ProcedureRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(called));
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, NULL, 2,
							  key);
	while (!is_used && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);
		ObjectAddress column;
		SfKeyLayout found;

		if (depend->classid != AttrDefaultRelationId)
			continue;
		column = GetAttrDefaultColumnAddress(depend->objid);
		is_used = sf_key_layout_find(&found, column.objectId,
									 column.objectSubId) &&
			found.name != NULL && sf_layout_is_same(&found.layout, layout);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return is_used;
}

/* Return true if a default in this database names this layout. */
bool
sf_key_layout_is_used(const SfLayout *layout)
{
	ListCell   *lc;

	foreach(lc, sf_id_makers())
	{
		if (is_named_in(lfirst_oid(lc), layout))
			return true;
	}
	return false;
}
