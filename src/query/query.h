/*-------------------------------------------------------------------------
 *
 * query.h
 *	  Reading of IDs: layouts as arguments (layout_arg.c), the time of an ID
 *	  (id_time.c), and what the planner is told (planner_hook.c, key_type.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_QUERY_H
#define SF_QUERY_H

#include "fmgr.h"
#include "layout/layout.h"
#include "nodes/nodes.h"
#include "utils/timestamp.h"

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
extern void sf_layout_arg_require_fit(const SfLayout *layout, int64 id);
extern int32 sf_layout_arg_number(FunctionCallInfo fcinfo, int n,
								  const char *name);
extern uint32 sf_layout_arg_shard(FunctionCallInfo fcinfo, int n);

/* id_time.c */
typedef enum SfBound
{
	SF_FROM,					/* first ID not before a time */
	SF_AFTER,					/* first ID after a time */
	SF_BEFORE,					/* last ID before a time */
	SF_UNTIL					/* last ID not after a time */
} SfBound;

extern int64 sf_id_time_tick_ms(const SfLayout *layout, int64 tick);
extern TimestampTz sf_id_time_of(const SfLayout *layout, int64 id);
extern void sf_id_time_refuse(const SfLayout *layout, const char *hint);
extern int64 sf_id_time_require_tick(const SfLayout *layout, TimestampTz time,
									 const char *hint);
extern bool sf_id_time_bound(const SfLayout *layout, SfBound bound,
							 TimestampTz time, int64 *id);
extern const char *sf_id_time_side(SfBound bound);

/* functions in conditions, and those that replace them in plans */
extern PGDLLEXPORT Datum snowflake_timestamp(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_bound(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_is_at(PG_FUNCTION_ARGS);

/* planner_hook.c */
extern void sf_planner_hook_install(void);

/* key_type.c */
extern bool sf_key_type_is_order(Oid opfamily);
extern void sf_key_type_install(void);

/* Where an ID is not one of the layout; arguments: sf_extschema(), the ID. */
#define SF_INSPECT_REMEDY \
	"See what the ID says in each layout: SELECT * FROM %s.snowflake_inspect('" INT64_FORMAT "'::bigint);"

#endif							/* SF_QUERY_H */
