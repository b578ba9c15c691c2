/*-------------------------------------------------------------------------
 *
 * planner_hook.c
 *	  Planning of conditions on the time of an ID as conditions on the ID.
 *
 * This file finds the conditions; time_clause.c replaces each.
 *
 * The planner has no callback between the pull-up of subqueries and the
 * distribution of conditions to relations.  Support functions do not help: the
 * planner asks that of the operator, and never that of a function which is an
 * argument of the operator.  So we use the callback that runs while a
 * RelOptInfo is built: get_relation_info_hook up to 18 (tables only), and
 * build_simple_rel_hook from 19 on (all base relations).  It changes four
 * things, all in the planner's own copy of the query:
 *
 * 1. root->parse->jointree, when the first relation of a query level is built.
 *	  By then subqueries and views are pulled up, constants are folded, and NOT
 *	  is pushed down.  Conditions are read first by deconstruct_jointree().
 *	  Before that query_planner() runs add_base_rels_to_query(), which calls us
 *	  and reads only the jointree's relations.  This holds in 15 to 19.
 *
 * 2. securityQuals of the range table's entries, at the same moment.  They are
 *	  read first by deconstruct_jointree(), and those of branches of UNION ALL
 *	  later, by apply_child_basequals().
 *
 * 3. rel->indexlist of the relation that is built.  We add a copy of each
 *	  partial index whose predicate is about the time, and change the copy's
 *	  predicate as we change conditions.  The callback exists to add indexes to
 *	  this list.  The original stays, for conditions that do not change.
 *
 * 4. Up to 18 only: the clauses in baserestrictinfo of a view of UNION ALL.
 *	  If a query level has no table of its own, the first call is for a branch,
 *	  after the distribution and right before apply_child_basequals() gives the
 *	  view's conditions to that branch.  From then on the planner reads nothing
 *	  of these RestrictInfos but their clause: apply_child_basequals() builds
 *	  new ones for each branch, is_parallel_safe() walks the expression, and
 *	  the view itself is not scanned.
 *
 * If an index of the user serves a condition as it stands, the condition does
 * not change (time_index.c).
 *
 * A second hook, ExecutorStart_hook, lets time_clause.c look again at what a
 * plan assumes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "query/planner_hook.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "runtime/settings.h"

static sf_rel_hook_type prev_rel_hook = NULL;
static ExecutorStart_hook_type prev_executor_start = NULL;

static List *replace_clause(PlannerInfo *root, Node *clause);

static bool
mentions_time(List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);

		if (sf_time_clause_may_be(clause) ||
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

/* Return a list of conditions joined by AND, with replacements in it. */
static List *
replace_clauses(PlannerInfo *root, List *clauses)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = lfirst(lc);
		List	   *parts = replace_clause(root, clause);
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

/* Replace in an OR.  Leave out arms that became false, as the planner does. */
static List *
replace_or(PlannerInfo *root, BoolExpr *or)
{
	List	   *arms = NIL;
	ListCell   *lc;

	foreach(lc, or->args)
	{
		Node	   *arm = lfirst(lc);
		List	   *parts = is_andclause(arm) ?
			((BoolExpr *) arm)->args : list_make1(arm);

		parts = replace_clauses(root, parts);
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
 * Return the replacement of a clause: a list joined by AND; NIL if the clause
 * stays.  Look only inside AND and OR: a bound may be NULL in place of false,
 * and elsewhere these differ.
 */
static List *
replace_clause(PlannerInfo *root, Node *clause)
{
	if (is_orclause(clause) && mentions_time(((BoolExpr *) clause)->args))
		return replace_or(root, (BoolExpr *) clause);
	return sf_time_clause_replace(root, clause);
}

static List *
replace_quals(PlannerInfo *root, List *quals)
{
	return mentions_time(quals) ? replace_clauses(root, quals) : quals;
}

static void
replace_in_jointree(PlannerInfo *root, Node *node)
{
	if (node == NULL)
		return;					/* the plan of an index build has none */
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;
		ListCell   *lc;

		from->quals = (Node *) replace_quals(root, (List *) from->quals);
		foreach(lc, from->fromlist)
			replace_in_jointree(root, lfirst(lc));
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		/* a full join needs conditions that can be hashed or merged */
		if (join->jointype != JOIN_FULL)
			join->quals = (Node *) replace_quals(root, (List *) join->quals);
		replace_in_jointree(root, join->larg);
		replace_in_jointree(root, join->rarg);
	}
}

/* Return true if this is the first call for the query level. */
static bool
is_first(PlannerInfo *root)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && SF_REL_HOOK_SEES(rel->rtekind))
			return false;
	}
	return true;
}

/* Make the changes 1 and 2 of the file's head. */
static void
replace_in_query(PlannerInfo *root)
{
	replace_in_jointree(root, (Node *) root->parse->jointree);
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RangeTblEntry *rte = root->simple_rte_array[i];
		ListCell   *lc;

		if (rte == NULL)
			continue;
		foreach(lc, rte->securityQuals)
			lfirst(lc) = replace_quals(root, lfirst(lc));
	}
}

/* Make the change 4 of the file's head. */
static void
replace_in_parent(PlannerInfo *root, RelOptInfo *rel)
{
	Index		relid = root->append_rel_array[rel->relid]->parent_relid;
	RelOptInfo *parent = root->simple_rel_array[relid];
	ListCell   *lc;

	if (SF_REL_HOOK_SEES(parent->rtekind))
		return;
	foreach(lc, parent->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst(lc);
		List	   *clauses = list_make1(rinfo->clause);

		rinfo->clause = make_ands_explicit(replace_quals(root, clauses));
	}
}

/* Make the change 3 of the file's head. */
static void
add_partial_indexes(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *added = NIL;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst(lc);
		List	   *predicate = replace_quals(root, index->indpred);
		IndexOptInfo *copy;

		if (equal(predicate, index->indpred))
			continue;
		copy = makeNode(IndexOptInfo);
		*copy = *index;
		copy->indpred = predicate;
		added = lappend(added, copy);
	}
	rel->indexlist = list_concat(rel->indexlist, added);
}

static void
plan_times(PlannerInfo *root, RelOptInfo *rel)
{
	if (!sf_time_ranges)
		return;
	add_partial_indexes(root, rel);
	if (rel->reloptkind != RELOPT_BASEREL)
		replace_in_parent(root, rel);
	else if (is_first(root))
		replace_in_query(root);
}

#ifdef SF_REL_HOOK_HAS_RTE
static void
on_rel(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	if (prev_rel_hook)
		prev_rel_hook(root, rel, rte);
	plan_times(root, rel);
}
#else
static void
on_rel(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	if (prev_rel_hook)
		prev_rel_hook(root, relation, inhparent, rel);
	plan_times(root, rel);
}
#endif

/* EXPLAIN without ANALYZE reads no row, and may show the plan. */
static void
on_executor_start(QueryDesc *query, int eflags)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		sf_time_clause_verify(query->plannedstmt);
	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sf_planner_hook_install(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = on_executor_start;
	prev_rel_hook = sf_rel_hook;
	sf_rel_hook = on_rel;
	sf_key_type_install();
}
