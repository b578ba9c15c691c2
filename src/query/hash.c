/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  The hash functions of the type snowflake, and of the integers that can
 *	  equal one: id_hash.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "layout/id_hash.h"

SF_FUNCTION(snowflake_hash8);
SF_FUNCTION(snowflake_hash4);
SF_FUNCTION(snowflake_hash2);
SF_FUNCTION(snowflake_hash8_extended);
SF_FUNCTION(snowflake_hash4_extended);
SF_FUNCTION(snowflake_hash2_extended);

/* snowflake_internal.hash(snowflake) returns integer; also of bigint */
Datum
snowflake_hash8(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash(PG_GETARG_INT64(0), 0));
}

/* snowflake_internal.hash(integer) returns integer */
Datum
snowflake_hash4(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash((int64) PG_GETARG_INT32(0), 0));
}

/* snowflake_internal.hash(smallint) returns integer */
Datum
snowflake_hash2(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) sf_id_hash((int64) PG_GETARG_INT16(0), 0));
}

/* snowflake_internal.hash(id snowflake, seed bigint) returns bigint */
Datum
snowflake_hash8_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash(PG_GETARG_INT64(0), PG_GETARG_INT64(1)));
}

/* snowflake_internal.hash(id integer, seed bigint) returns bigint */
Datum
snowflake_hash4_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash((int64) PG_GETARG_INT32(0),
							   PG_GETARG_INT64(1)));
}

/* snowflake_internal.hash(id smallint, seed bigint) returns bigint */
Datum
snowflake_hash2_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_id_hash((int64) PG_GETARG_INT16(0),
							   PG_GETARG_INT64(1)));
}
