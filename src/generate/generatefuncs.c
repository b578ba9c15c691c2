/*-------------------------------------------------------------------------
 *
 * generatefuncs.c
 *	  SQL functions that make IDs: check arguments, call, return.
 *
 * In C, snowflake_nextval() of SQL is snowflake_next_id().  The C function
 * snowflake_nextval is a stub for users of pgEdge's extension, in
 * admin/pgedge_stubs.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "funcapi.h"
#include "generate/generator.h"
#include "miscadmin.h"
#include "query/query.h"
#include "runtime/counts.h"
#include "runtime/preconditions.h"

/* The largest batch of one call. */
#define MAX_BATCH	10000000

/* The session's last ID, from any source: node, layout or shard; -1: none. */
static int64 last_id = -1;

SF_FUNCTION(snowflake_next_id);
SF_FUNCTION(snowflake_nextval_layout);
SF_FUNCTION(snowflake_nextval_batch);
SF_FUNCTION(snowflake_nextval_batch_layout);
SF_FUNCTION(snowflake_shard_nextval);
SF_FUNCTION(snowflake_shard_nextval_batch);
SF_FUNCTION(snowflake_last_id);

static inline int64
remember(int64 id)
{
	last_id = id;
	return id;
}

static int32
require_count(FunctionCallInfo fcinfo, int n)
{
	int32		count = sf_layout_arg_number(fcinfo, n, "count");

	if (count < 1 || count > MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count %d is out of range", count),
				 errhint("A batch has 1 to %d IDs. Call again for more.",
						 MAX_BATCH)));
	return count;
}

/* A batch that is being returned. */
typedef struct Batch
{
	SfIdRange  *range;
	int			nranges;
	int			current;
} Batch;

static int64
id_of(const SfIdRange *range, int64 position)
{
	return range->maker | sf_layout_compose(range->layout, position);
}

/*
 * Make all IDs of a batch before the first is returned, so that the session's
 * later IDs are above them.  For SF_NO_SHARD they are the node's, of the
 * layout in this slot.
 */
static Batch *
make_batch(int shard, int slot, int64 count)
{
	Batch	   *batch = palloc0(sizeof(Batch));
	int			room = 4;

	sf_stats_count(shard == SF_NO_SHARD ? SF_STAT_NODE_BATCHES :
				   SF_STAT_SHARD_BATCHES);
	batch->range = palloc(room * sizeof(SfIdRange));
	while (count > 0)
	{
		SfIdRange  *range;

		CHECK_FOR_INTERRUPTS();
		if (batch->nranges == room)
		{
			room *= 2;
			batch->range = repalloc(batch->range, room * sizeof(SfIdRange));
		}
		range = &batch->range[batch->nranges++];
		sf_generator_take(range, shard, slot, count);
		count -= range->last - range->next + 1;
		remember(id_of(range, range->last));
	}
	return batch;
}

/* At the first call: make a batch whose size is in argument n. */
static void
start_batch(FunctionCallInfo fcinfo, int shard, int slot, int n)
{
	FuncCallContext *context = SRF_FIRSTCALL_INIT();
	MemoryContext old;

	old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
	context->user_fctx = make_batch(shard, slot, require_count(fcinfo, n));
	MemoryContextSwitchTo(old);
}

/* Return the next ID of the batch, or the end. */
static Datum
next_of_batch(FunctionCallInfo fcinfo)
{
	FuncCallContext *context = SRF_PERCALL_SETUP();
	Batch	   *batch = context->user_fctx;
	SfIdRange  *range = &batch->range[batch->current];
	int64		position;

	if (batch->current == batch->nranges)
		SRF_RETURN_DONE(context);
	position = range->next++;
	if (position == range->last)
		batch->current++;
	SRF_RETURN_NEXT(context, Int64GetDatum(id_of(range, position)));
}

/*
 * snowflake_nextval() returns bigint, and snowflake_generate()
 *
 * Return the next ID of this node.  Throws the errors of
 * sf_generator_next_node(), and SQLSTATE 55000 (not preloaded), 25006
 * (read-only).
 */
Datum
snowflake_next_id(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_nextval()");
	PG_RETURN_INT64(remember(sf_generator_next_node()));
}

/*
 * Return the slot of the layout in argument n.  Throws SQLSTATE 22004, 22023,
 * 53400.
 */
static int
slot_argument(FunctionCallInfo fcinfo, int n)
{
	sf_layout_arg_require_text(fcinfo, n);
	return sf_generator_slot_of(sf_layout_arg_of_ids(PG_GETARG_TEXT_PP(n)));
}

/*
 * snowflake_nextval(layout text) returns bigint, and
 * snowflake_generate(layout text)
 *
 * Return the next ID of this node in a layout: a preset's name, fields, or
 * 'node' for snowflake.layout.  Throws what snowflake_nextval() throws, and
 * SQLSTATE 22004 (null), 22023 (not a layout, or one with shards), 53400 (too
 * many layouts), 55000 (the node id does not fit the layout).
 */
Datum
snowflake_nextval_layout(PG_FUNCTION_ARGS)
{
	const SfNamed *named = sf_layout_arg_recall(fcinfo, 0);

	sf_require_writable("snowflake_nextval()");
	if (named == NULL)
	{
		SfNamed		what = {.slot = slot_argument(fcinfo, 0)};

		named = sf_layout_arg_remember(fcinfo, 0, &what);
	}
	PG_RETURN_INT64(remember(sf_generator_next(named->slot)));
}

/*
 * snowflake_nextval_batch(count integer, layout text) returns setof bigint
 *
 * Return IDs of this node in a layout.
 */
Datum
snowflake_nextval_batch_layout(PG_FUNCTION_ARGS)
{
	if (SRF_IS_FIRSTCALL())
	{
		sf_require_writable("snowflake_nextval_batch()");
		start_batch(fcinfo, SF_NO_SHARD, slot_argument(fcinfo, 1), 0);
	}
	return next_of_batch(fcinfo);
}

/*
 * snowflake_nextval_batch(count integer) returns setof bigint
 *
 * Return IDs of this node.  Also throws 22023 and 22004.
 */
Datum
snowflake_nextval_batch(PG_FUNCTION_ARGS)
{
	if (SRF_IS_FIRSTCALL())
	{
		sf_require_writable("snowflake_nextval_batch()");
		start_batch(fcinfo, SF_NO_SHARD, 0, 0);
	}
	return next_of_batch(fcinfo);
}

/*
 * snowflake_shard_nextval(shard bigint) returns bigint
 *
 * Return the next ID of a shard, which has its own counter.  Also throws
 * 22023, 22004, and 55000 for a shard that this server does not have.
 */
Datum
snowflake_shard_nextval(PG_FUNCTION_ARGS)
{
	uint32		shard;

	sf_require_writable("snowflake_shard_nextval()");
	shard = sf_layout_arg_shard(fcinfo, 0);
	PG_RETURN_INT64(remember(sf_generator_next_shard(shard)));
}

/*
 * snowflake_shard_nextval_batch(shard bigint, count integer)
 *		returns setof bigint
 */
Datum
snowflake_shard_nextval_batch(PG_FUNCTION_ARGS)
{
	if (SRF_IS_FIRSTCALL())
	{
		sf_require_writable("snowflake_shard_nextval_batch()");
		start_batch(fcinfo, (int) sf_layout_arg_shard(fcinfo, 0), 0, 1);
	}
	return next_of_batch(fcinfo);
}

/*
 * snowflake_currval() returns bigint
 *
 * Return the last ID that this session made by any of the functions above.
 * Throws SQLSTATE 55000 before the first, as currval() does.
 */
Datum
snowflake_last_id(PG_FUNCTION_ARGS)
{
	if (last_id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_currval is not yet defined in this session"),
				 errhint("Call snowflake_nextval() first, or use INSERT ... RETURNING.")));
	PG_RETURN_INT64(last_id);
}
