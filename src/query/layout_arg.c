/*-------------------------------------------------------------------------
 *
 * layout_arg.c
 *	  Layouts as arguments of SQL functions: a text, or the configured layout.
 *
 * A text spells a layout out, or it is "node" or "shard": the configured
 * layout of either.  The functions with a layout argument are IMMUTABLE, so
 * that they can stand in an index, but a restart can configure another layout.
 * So their support function replaces such a name by a call of
 * snowflake_internal.layout(), which is STABLE.  That happens before the
 * server checks whether an expression is immutable.  So the server refuses
 * these names in indexes, partition keys and generated columns, as it refuses
 * the functions without a layout.
 *
 * With constant arguments the server folds the call first.  So a partial index
 * WHERE id >= snowflake_min_id('2026-01-01', 'shard') is accepted.  REINDEX it
 * after a change of the configuration, which leaves it with the wrong rows.  A
 * plan that is kept has such a constant too, until the session ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "query/query.h"

#include "base/message.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "mark/mark.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "runtime/function.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "utils/builtins.h"

/* A message shows at most this many bytes of a layout. */
#define MAX_SHOWN	200

SF_FUNCTION(snowflake_layout);
SF_FUNCTION(snowflake_layout_support);

/* Return true if argument n is a constant of the query. */
static bool
is_constant(const FmgrInfo *flinfo, int n)
{
	FuncExpr   *call = (FuncExpr *) flinfo->fn_expr;

	return call != NULL && IsA(call, FuncExpr) &&
		list_length(call->args) > n && IsA(list_nth(call->args, n), Const);
}

static bool
is_same(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/*
 * Return what this call site remembers of the text in argument n; NULL if it
 * is another one, as a call site in PL/pgSQL may have at each call.
 */
const SfNamed *
sf_layout_arg_recall(FunctionCallInfo fcinfo, int n)
{
	const SfNamed *named = fcinfo->flinfo->fn_extra;

	if (named == NULL || named->is_constant)
		return named;
	if (PG_ARGISNULL(n) || !is_same(named->text, PG_GETARG_TEXT_PP(n)))
		return NULL;
	return named;
}

/*
 * Remember at this call site what the text in argument n names.  Text and
 * layout are one allocation: an error leaves no half.
 */
const SfNamed *
sf_layout_arg_remember(FunctionCallInfo fcinfo, int n, const SfNamed *what)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;
	text	   *t = PG_GETARG_TEXT_PP(n);
	Size		size = VARSIZE_ANY(t);
	SfNamed    *named = MemoryContextAlloc(flinfo->fn_mcxt,
										   sizeof(*named) + size);

	*named = *what;
	named->text = memcpy(named + 1, t, size);
	named->is_constant = is_constant(flinfo, n);
	if (flinfo->fn_extra != NULL)
		pfree(flinfo->fn_extra);
	return flinfo->fn_extra = named;
}

/* Parse a layout; return false if the text is not a layout. */
bool
sf_layout_arg_parse(SfLayout *layout, const text *t)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);
	bool		ok = sf_layout_parse(layout, str, reason, sizeof(reason));

	pfree(str);
	return ok;
}

/* Parse a layout, or throw SQLSTATE 22023 with this hint. */
static void
parse_or_refuse(SfLayout *layout, const text *t, const char *hint)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);

	if (!sf_layout_parse(layout, str, reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid layout: \"%.*s\"",
						pg_mbcliplen(str, strlen(str), MAX_SHOWN), str),
				 errdetail("%s", reason),
				 errhint("%sSee the presets: SELECT * FROM %s.snowflake_layouts();",
						 hint, sf_extschema())));
	pfree(str);
}

/* Throw an error if this database was filled with another layout. */
static void
require_configured(void)
{
	sf_require_loaded();
	sf_config_record_require();
}

/* Return the configured layout, if this database was filled with it. */
static const SfLayout *
configured(FunctionCallInfo fcinfo)
{
	/* check once per query: a standby may replay another config record */
	if (fcinfo->flinfo->fn_extra == NULL)
	{
		require_configured();
		fcinfo->flinfo->fn_extra = &sf_node_layout;
	}
	return &sf_node_layout;
}

/* Return the configured layout that a text names, or NULL. */
static const SfLayout *
find_named(const text *t)
{
	int			len = VARSIZE_ANY_EXHDR(t);

	if (len == 4 && memcmp(VARDATA_ANY(t), "node", 4) == 0)
		return &sf_node_layout;
	if (len == 5 && memcmp(VARDATA_ANY(t), "shard", 5) == 0)
		return &sf_shard_layout;
	return NULL;
}

/*
 * Read the layout of argument n.  "node" or "shard" must be a constant or a
 * parameter: in an index, the support function would not see the name that a
 * column holds.
 */
static void
read_layout(FunctionCallInfo fcinfo, int n, SfLayout *layout, const text *t)
{
	const SfLayout *named = find_named(t);

	if (named == NULL)
	{
		parse_or_refuse(layout, t, "");
		return;
	}
	if (!get_fn_expr_arg_stable(fcinfo->flinfo, n))
	{
		char		spelled[SF_LAYOUT_TEXT_SIZE];

		sf_layout_print(named, spelled, sizeof(spelled));
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("layout \"node\" or \"shard\" must be a constant or a parameter"),
				 errhint("Spell the layout out: '%s'", spelled)));
	}
	require_configured();
	*layout = *named;
}

/*
 * Read the layout of the IDs that a call makes; "node" and "shard" are the
 * configured ones.  The next call overwrites the result.  Throws SQLSTATE
 * 22023.
 */
const SfLayout *
sf_layout_arg_of_ids(const text *t)
{
	static SfLayout layout;
	const SfLayout *named = find_named(t);

	if (named != NULL)
		return named;
	parse_or_refuse(&layout, t, "No sequence is needed, and snowflake.layout need not be named: call snowflake_nextval() without an argument. ");
	return &layout;
}

/* Return true if IDs may be read without a layout. */
bool
sf_layout_arg_readable(void)
{
	SfDurableNumbers numbers;

	if (sf_shmem == NULL)
		return false;
	sf_durable_numbers_find(NULL);
	(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
	return !sf_config_record_exists(&numbers) ||
		!sf_config_record_is_other(&numbers);
}

/* Look up the layout that argument n names, and remember it. */
static pg_noinline const SfNamed *
look_up_preset(FunctionCallInfo fcinfo, int n)
{
	SfNamed		what = {0};

	read_layout(fcinfo, n, &what.layout, PG_GETARG_TEXT_PP(n));
	return sf_layout_arg_remember(fcinfo, n, &what);
}

/*
 * Return the layout that argument n names, or the configured one if the
 * function was called without it.  Throws SQLSTATE 22023 (not a layout), or
 * 55000 (not preloaded, or the config record differs).
 */
const SfLayout *
sf_layout_arg(FunctionCallInfo fcinfo, int n)
{
	const SfNamed *named;

	if (n >= PG_NARGS())
		return configured(fcinfo);
	named = sf_layout_arg_recall(fcinfo, n);
	if (named == NULL)
		named = look_up_preset(fcinfo, n);
	return &named->layout;
}

/* Throw SQLSTATE 22004 if the layout in argument n is null. */
void
sf_layout_arg_require_text(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("layout must not be null"),
				 errhint("Name a layout, or call the function without one for snowflake.layout.")));
}

/* Throw SQLSTATE 22023 if the IDs of this layout are those of shards. */
void
sf_layout_arg_require_node(const SfLayout *layout)
{
	if (sf_layout_has(layout, SF_SHARD))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a layout with the field \"shard\" makes no IDs of the node"),
				 errhint(SF_SHARD_LAYOUT_REMEDY)));
}

/*
 * Return the layout of the node's IDs that argument n names.  Throws SQLSTATE
 * 22004, 22023, 55000.
 */
const SfLayout *
sf_layout_arg_node(FunctionCallInfo fcinfo, int n)
{
	const SfLayout *layout;

	sf_layout_arg_require_text(fcinfo, n);
	layout = sf_layout_arg(fcinfo, n);
	sf_layout_arg_require_node(layout);
	return layout;
}

/* What a call site of layout() remembers: its last answer. */
typedef struct Spelled
{
	const SfLayout *layout;
	char		answer[FLEXIBLE_ARRAY_MEMBER];	/* a text */
} Spelled;

/*
 * snowflake_internal.layout(name text) returns text
 *
 * Spell out the configured layout 'node' or 'shard'.  Throws SQLSTATE 22023
 * (no such name), or 55000 like functions without a layout.
 */
Datum
snowflake_layout(PG_FUNCTION_ARGS)
{
	text	   *t = PG_GETARG_TEXT_PP(0);
	const SfLayout *named = find_named(t);
	Spelled    *spelled = fcinfo->flinfo->fn_extra;

	if (named == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no configured layout has this name"),
				 errhint("The names are \"node\" and \"shard\".")));

	if (spelled == NULL || spelled->layout != named)
	{
		char		printed[SF_LAYOUT_TEXT_SIZE];

		require_configured();
		sf_layout_print(named, printed, sizeof(printed));
		spelled = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt,
									 sizeof(*spelled) + VARHDRSZ +
									 sizeof(printed));
		spelled->layout = named;
		SET_VARSIZE(spelled->answer, VARHDRSZ + strlen(printed));
		memcpy(VARDATA(spelled->answer), printed, strlen(printed));
		if (fcinfo->flinfo->fn_extra != NULL)
			pfree(fcinfo->flinfo->fn_extra);
		fcinfo->flinfo->fn_extra = spelled;
	}
	PG_RETURN_POINTER(spelled->answer);
}

/* Return the OID of layout(), or 0 if there is no such function. */
Oid
sf_layout_arg_function(void)
{
	const Oid	types[] = {TEXTOID};
	Oid			oid = sf_function_find(get_namespace_oid(SF_SCHEMA, true),
									   "layout", lengthof(types), types);

	return sf_function_direct(oid) == snowflake_layout ? oid : InvalidOid;
}

/* Make a call of layout(); NULL if there is no such function. */
static Node *
make_layout_call(Const *name)
{
	Oid			oid = sf_layout_arg_function();

	if (!OidIsValid(oid))
		return NULL;
	return (Node *) makeFuncExpr(oid, TEXTOID, list_make1(name),
								 DEFAULT_COLLATION_OID, DEFAULT_COLLATION_OID,
								 COERCE_EXPLICIT_CALL);
}

/* Return the layout that a call of layout() names; NULL for other nodes. */
const SfLayout *
sf_layout_arg_named(Node *node)
{
	FuncExpr   *call = (FuncExpr *) node;
	Const	   *name;

	if (!IsA(node, FuncExpr) ||
		sf_function_direct(call->funcid) != snowflake_layout)
		return NULL;
	name = linitial(call->args);
	if (!IsA(name, Const))
		return NULL;
	return find_named(DatumGetTextPP(name->constvalue));
}

/*
 * snowflake_internal.layout_support(internal) returns internal
 *
 * Simplify f(..., 'shard') to f(..., snowflake_internal.layout('shard')).  No
 * other argument of these functions is a text.
 */
Datum
snowflake_layout_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	FuncExpr   *call;
	ListCell   *lc;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	call = ((SupportRequestSimplify *) request)->fcall;
	foreach(lc, call->args)
	{
		Const	   *name = lfirst(lc);
		Node	   *layout;

		if (!IsA(name, Const) || name->constisnull ||
			name->consttype != TEXTOID ||
			find_named(DatumGetTextPP(name->constvalue)) == NULL)
			continue;
		layout = make_layout_call(name);
		if (layout == NULL)
			break;
		call = copyObject(call);
		lfirst(list_nth_cell(call->args, foreach_current_index(lc))) = layout;
		PG_RETURN_POINTER(call);
	}
	PG_RETURN_POINTER(NULL);
}

/* Throw SQLSTATE 22003 unless this is an ID of this layout. */
void
sf_layout_arg_require_fit(const SfLayout *layout, int64 id)
{
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	if (sf_layout_fits(layout, id))
		return;
	sf_layout_print(layout, spelled, sizeof(spelled));
	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("ID " INT64_FORMAT " is negative", id),
				 errdetail("No layout makes such IDs."),
				 errhint("Use an ID that a layout has made; only snowflake_timestamp() and the functions for one field take any bigint.")));
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("ID " INT64_FORMAT " does not fit the layout", id),
			 errdetail("The layout \"%s\" has %d bits.", spelled, layout->bits),
			 errhint(SF_INSPECT_REMEDY, sf_extschema(), id)));
}

/* Throw SQLSTATE 22004 if this argument, which is a number, is null. */
static void
require_number(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name),
				 errhint("Give a number, for instance by COALESCE().")));
}

/* Return an integer that must not be null.  Throws SQLSTATE 22004. */
int32
sf_layout_arg_number(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_number(fcinfo, n, name);
	return PG_GETARG_INT32(n);
}

/*
 * Return a shard, a bigint, for which snowflake.shard_layout has room.  Throws
 * SQLSTATE 22004, 22023.
 */
uint32
sf_layout_arg_shard(FunctionCallInfo fcinfo, int n)
{
	int64		shard;

	require_number(fcinfo, n, "shard");
	shard = PG_GETARG_INT64(n);
	if (shard < 0 || shard >= sf_shmem->nshards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard " INT64_FORMAT " is out of range", shard),
				 errdetail("snowflake.shard_layout has room for shards 0 to %d.",
						   sf_shmem->nshards - 1),
				 errhint("Use a shard in that range, or a shard layout with more bits for the shard.")));
	return shard;
}
