/*-------------------------------------------------------------------------
 *
 * layout_arg.h
 *	  Layouts as arguments of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LAYOUT_ARG_H
#define SF_LAYOUT_ARG_H

#include "fmgr.h"
#include "layout/layout.h"
#include "nodes/nodes.h"

extern const SfLayout *sf_layout_arg(FunctionCallInfo fcinfo, int n);
extern const SfLayout *sf_layout_arg_of_ids(const text *t);
extern const SfLayout *sf_layout_arg_node(FunctionCallInfo fcinfo, int n);
extern void sf_layout_arg_require_text(FunctionCallInfo fcinfo, int n);
extern void sf_layout_arg_require_node(const SfLayout *layout);

/* What a call site remembers: the last text, and what it names. */
typedef struct SfNamed
{
	text	   *text;
	bool		is_constant;	/* in the query: it stays the same */
	int			slot;			/* for calls that make IDs */
	SfLayout	layout;			/* for the others */
} SfNamed;

extern const SfNamed *sf_layout_arg_recall(FunctionCallInfo fcinfo, int n);
extern const SfNamed *sf_layout_arg_remember(FunctionCallInfo fcinfo, int n,
											 const SfNamed *what);
extern Oid	sf_layout_arg_function(void);
extern const SfLayout *sf_layout_arg_named(Node *node);
extern bool sf_layout_arg_readable(void);
extern bool sf_layout_arg_parse(SfLayout *layout, const text *t);
extern void sf_layout_arg_read(SfLayout *layout, const text *t);
extern void sf_layout_arg_require_fit(const SfLayout *layout, int64 id);
extern int32 sf_layout_arg_number(FunctionCallInfo fcinfo, int n,
								  const char *name);
extern uint32 sf_layout_arg_shard(FunctionCallInfo fcinfo, int n);

#endif							/* SF_LAYOUT_ARG_H */
