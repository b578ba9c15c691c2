/*-------------------------------------------------------------------------
 *
 * generate.c
 *	  The SQL functions that make IDs: check arguments, call, return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "funcapi.h"
#include "generator.h"
#include "guard.h"
#include "layout_arg.h"
#include "miscadmin.h"
#include "settings.h"
#include "state.h"
#include "utils/tuplestore.h"

/* The largest batch of one call. */
#define MAX_BATCH	10000000

/* What snowflake_currval() returns. */
static bool have_last_id = false;
static int64 last_id;

SF_FUNCTION(snowflake_nextval);
SF_FUNCTION(snowflake_nextval_batch);
SF_FUNCTION(snowflake_shard_nextval);
SF_FUNCTION(snowflake_shard_nextval_batch);
SF_FUNCTION(snowflake_currval);

static inline int64
remember(int64 id)
{
	last_id = id;
	have_last_id = true;
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

/* Return the IDs of a piece, in order. */
static void
put_piece(ReturnSetInfo *rsinfo, const SfPiece *piece)
{
	for (int64 position = piece->next; position <= piece->last; position++)
	{
		int64		id = piece->maker |
			sf_layout_compose(piece->layout, position);
		Datum		value = Int64GetDatum(id);
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 &value, &isnull);
		remember(id);
	}
}

/*
 * snowflake_nextval() returns bigint
 *
 * The next ID of this node.  Beside what sf_generator_next_node() throws:
 * SQLSTATE 55000 (not preloaded), 25006 (read-only).
 */
Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	sf_guard_writable("snowflake_nextval()");
	PG_RETURN_INT64(remember(sf_generator_next_node(fcinfo->flinfo->fn_oid)));
}

/*
 * snowflake_nextval_batch(count integer) returns setof bigint
 *
 * All IDs of a batch are made before the first is returned, so that whatever
 * the session makes next is above them.  Also throws 22023 and 22004.
 */
Datum
snowflake_nextval_batch(PG_FUNCTION_ARGS)
{
	int64		left;
	SfPiece		piece;

	sf_guard_writable("snowflake_nextval_batch()");
	left = require_count(fcinfo, 0);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (; left > 0; left -= piece.last - piece.next + 1)
	{
		CHECK_FOR_INTERRUPTS();
		sf_generator_take_node(&piece, left, fcinfo->flinfo->fn_oid);
		put_piece((ReturnSetInfo *) fcinfo->resultinfo, &piece);
	}
	return (Datum) 0;
}

/*
 * snowflake_shard_nextval(shard integer) returns bigint
 *
 * The next ID of a shard, which has its own counter.  Also throws 22023,
 * 22004, and 55000 for a shard that this server does not have.
 */
Datum
snowflake_shard_nextval(PG_FUNCTION_ARGS)
{
	uint32		shard;

	sf_guard_writable("snowflake_shard_nextval()");
	shard = sf_layout_arg_shard(fcinfo, 0);
	PG_RETURN_INT64(remember(sf_generator_next_shard(shard,
													 fcinfo->flinfo->fn_oid)));
}

/* snowflake_shard_nextval_batch(shard, count integer) returns setof bigint */
Datum
snowflake_shard_nextval_batch(PG_FUNCTION_ARGS)
{
	uint32		shard;
	int64		left;
	SfPiece		piece;

	sf_guard_writable("snowflake_shard_nextval_batch()");
	shard = sf_layout_arg_shard(fcinfo, 0);
	left = require_count(fcinfo, 1);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (; left > 0; left -= piece.last - piece.next + 1)
	{
		CHECK_FOR_INTERRUPTS();
		sf_generator_require_shard(shard);	/* still, after a reload */
		sf_generator_take_shard(&piece, shard, left, fcinfo->flinfo->fn_oid);
		put_piece((ReturnSetInfo *) fcinfo->resultinfo, &piece);
	}
	return (Datum) 0;
}

/*
 * snowflake_currval() returns bigint
 *
 * The last ID that this session made by any of the functions above.  Throws
 * SQLSTATE 55000 before the first, as currval() does.
 */
Datum
snowflake_currval(PG_FUNCTION_ARGS)
{
	if (!have_last_id)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_currval is not yet defined in this session"),
				 errhint("Call snowflake_nextval() first, or use INSERT ... RETURNING.")));
	PG_RETURN_INT64(last_id);
}
