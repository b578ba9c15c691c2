/*-------------------------------------------------------------------------
 *
 * timequal.c
 *	  Conditions on the time of an ID, planned as conditions on the ID.
 *
 * It is done when the planner makes a base relation.  By then subqueries and
 * views are pulled up, constants are folded and NOT is pushed down, while the
 * conditions still wait in the jointree for their distribution.  Each relation
 * takes care of the conditions on its own columns.  What a comparison becomes
 * is in timecmp.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "timequal.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "timecmp.h"

/* The relation that is being made. */
typedef struct Context
{
	PlannerInfo *root;
	RelOptInfo *rel;
} Context;

static sf_rel_hook_type prev_rel_hook = NULL;

static List *replace_clause(Context *context, Node *clause);

static bool
mentions_time(List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);

		if (sf_timecmp_may_be(clause) ||
			((is_andclause(clause) || is_orclause(clause)) &&
			 mentions_time(((BoolExpr *) clause)->args)))
			return true;
	}
	return false;
}

static bool
is_false(Node *clause)
{
	return IsA(clause, Const) && !((Const *) clause)->constisnull &&
		!DatumGetBool(((Const *) clause)->constvalue);
}

/* Replace in a list that is joined by AND.  The list itself is not changed. */
static List *
replace_clauses(Context *context, List *clauses)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);
		List	   *parts = replace_clause(context, clause);
		ListCell   *part;

		if (parts == NIL)
			result = lappend(result, clause);
		foreach(part, parts)
		{
			if (is_false(lfirst(part)))
				return list_make1(lfirst(part));
			result = lappend(result, lfirst(part));
		}
	}
	return result;
}

/* Arms that have become false go; the planner expects none. */
static List *
replace_or(Context *context, BoolExpr *or)
{
	List	   *arms = NIL;
	ListCell   *lc;

	foreach(lc, or->args)
	{
		Node	   *arm = lfirst(lc);
		List	   *parts = is_andclause(arm) ?
			((BoolExpr *) arm)->args : list_make1(arm);

		parts = replace_clauses(context, parts);
		if (!is_false(linitial(parts)))
			arms = lappend(arms, make_ands_explicit(parts));
	}
	if (arms == NIL)
		return list_make1(makeBoolConst(false, false));
	if (list_length(arms) > 1)
		return list_make1(make_orclause(arms));
	return make_ands_implicit(linitial(arms));
}

/*
 * What a clause becomes: a list, joined by AND; NIL if it stays.  Nothing but
 * AND and OR is looked into: elsewhere NULL is not as good as false.
 */
static List *
replace_clause(Context *context, Node *clause)
{
	if (is_orclause(clause) && mentions_time(((BoolExpr *) clause)->args))
		return replace_or(context, (BoolExpr *) clause);
	return sf_timecmp_replace(context->root, context->rel, clause);
}

static List *
replace_quals(Context *context, List *quals)
{
	return mentions_time(quals) ? replace_clauses(context, quals) : quals;
}

static void
replace_in_jointree(Context *context, Node *node)
{
	if (node == NULL)
		return;					/* an index build plans without */
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;
		ListCell   *lc;

		from->quals = (Node *) replace_quals(context, (List *) from->quals);
		foreach(lc, from->fromlist)
			replace_in_jointree(context, lfirst(lc));
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		/* a full join can do with few conditions, of which none is ours */
		if (join->jointype != JOIN_FULL)
			join->quals = (Node *) replace_quals(context,
												 (List *) join->quals);
		replace_in_jointree(context, join->larg);
		replace_in_jointree(context, join->rarg);
	}
}

/*
 * Before 19 a view of UNION ALL has no hook of its own, but its tables have,
 * just before each takes over the view's conditions.
 */
static void
replace_in_parent(PlannerInfo *root, RelOptInfo *rel)
{
	Index		relid = root->append_rel_array[rel->relid]->parent_relid;
	Context		context = {root, root->simple_rel_array[relid]};
	ListCell   *lc;

	if (root->simple_rte_array[relid]->rtekind != RTE_SUBQUERY)
		return;
	foreach(lc, context.rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst(lc);
		List	   *clauses = list_make1(rinfo->clause);

		rinfo->clause = make_ands_explicit(replace_quals(&context, clauses));
	}
}

/*
 * A partial index's predicate is compared with the conditions, and has to read
 * as they do, for the children of a table as well; theirs come from it.
 */
static void
plan_times(SF_REL_HOOK_ARGS)
{
	Context		context = {root, rel};
	ListCell   *lc;

	if (prev_rel_hook)
		prev_rel_hook(SF_REL_HOOK_PASS);

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst(lc);

		index->indpred = replace_quals(&context, index->indpred);
	}
	if (rel->reloptkind != RELOPT_BASEREL)
	{
		replace_in_parent(root, rel);
		return;
	}
	replace_in_jointree(&context, (Node *) root->parse->jointree);
	foreach(lc, root->simple_rte_array[rel->relid]->securityQuals)
		lfirst(lc) = replace_quals(&context, lfirst(lc));
}

void
sf_timequal_install(void)
{
	prev_rel_hook = sf_rel_hook;
	sf_rel_hook = plan_times;
}
