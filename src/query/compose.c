/*-------------------------------------------------------------------------
 *
 * compose.c
 *	  The SQL function that makes an ID of given fields: the inverse of
 *	  snowflake_decode().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "query/id_time.h"
#include "query/layout_arg.h"

SF_FUNCTION(snowflake_compose);

/* Return the value of a field of this width.  Throws SQLSTATE 22003. */
static uint64
require_field(const SfLayout *layout, const char *name, int width, int32 value)
{
	int64		last = (INT64CONST(1) << width) - 1;
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	if (value >= 0 && value <= last)
		return value;
	sf_layout_print(layout, spelled, sizeof(spelled));
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%s %d is out of range 0 to " INT64_FORMAT,
					name, value, last),
			 errdetail("The layout is \"%s\".", spelled),
			 width == 0 ?
			 errhint("Use 0, or a layout that has this field.") :
			 errhint("Use a number in that range, or a layout with more bits for this field.")));
}

/*
 * snowflake_compose(created_at timestamptz, node integer,
 *					 sequence integer DEFAULT 0) returns bigint
 * snowflake_compose(created_at timestamptz, node integer, sequence integer,
 *					 layout text, shard integer DEFAULT 0) returns bigint
 *
 * Return the ID with these fields, in the tick that holds created_at.  In a
 * layout that has a shard and no node, the argument "node" is the shard; the
 * argument "shard" is for a layout that has both.  Throws SQLSTATE 22003 (a
 * number does not fit its field), 22008 (out of the layout's life), and what
 * sf_layout_arg() throws.
 */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 3);
	int			shard_bits = layout->field[SF_SHARD].width;
	int64		tick;
	uint64		node = 0;
	uint64		shard = 0;
	uint64		sequence;

	tick = sf_id_time_require_tick(layout, PG_GETARG_TIMESTAMPTZ(0),
								   "Use a time within that range, or a layout with another epoch.");
	if (layout->node_bits == 0 && shard_bits > 0)
		shard = require_field(layout, "shard", shard_bits, PG_GETARG_INT32(1));
	else
		node = require_field(layout, "node", layout->node_bits,
							 PG_GETARG_INT32(1));
	sequence = require_field(layout, "sequence", layout->sequence_bits,
							 PG_GETARG_INT32(2));
	if (PG_NARGS() > 4)
		shard |= require_field(layout, "shard",
							   layout->node_bits > 0 ? shard_bits : 0,
							   PG_GETARG_INT32(4));
	PG_RETURN_INT64(sf_layout_pack(layout, tick, node, shard, sequence));
}
