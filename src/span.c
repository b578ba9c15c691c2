/*-------------------------------------------------------------------------
 *
 * span.c
 *	  Spans of IDs: those of a time, and those of a table's partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "span.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_type_d.h"
#include "idtime.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "times.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* SQLSTATE 22008 */
void
sf_span_require_life(const SfLayout *layout, TimestampTz time,
					 bool end_allowed)
{
	int64		end_ms = sf_idtime_tick_ms(layout, layout->end_tick);
	TimestampTz end = sf_times_from_ms(end_ms);

	if (!TIMESTAMP_NOT_FINITE(time) &&
		time >= sf_times_from_ms(layout->epoch_ms) &&
		(time < end || (end_allowed && time == end)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp is out of the layout's range"),
			 errdetail("The layout's IDs lie from %s up to, not including, %s.",
					   sf_times_show(layout->epoch_ms),
					   sf_times_show(end_ms)),
			 errhint("Use \"from\" and \"until\" within that range; partitions for other IDs are made with CREATE TABLE ... PARTITION OF.")));
}

/*
 * The IDs of a step.  One that began before the epoch begins with the first
 * ID, and one that outlasts the layout has no end.
 */
void
sf_span_of_step(SfSpan *span, const SfLayout *layout,
				TimestampTz start, TimestampTz end)
{
	int64		tick = sf_layout_ms_to_tick(layout, sf_times_to_ms(start));

	span->first = sf_layout_min_id(layout, Max(tick, layout->epoch_tick));
	span->last = PG_INT64_MAX;
	if (TIMESTAMP_NOT_FINITE(end))
		return;
	tick = sf_layout_ms_to_tick(layout, sf_times_to_ms(end));
	if (tick < layout->end_tick)
		span->last = sf_layout_min_id(layout, tick) - 1;
}

/* For messages: the times of a partition. */
const char *
sf_span_show(const SfLayout *layout, const SfSpan *span)
{
	const char *from = "the beginning";
	const char *until = "the end";

	if (span->first != PG_INT64_MIN)
		from = timestamptz_to_str(sf_idtime_of(layout, span->first));
	from = pstrdup(from);
	if (span->last != PG_INT64_MAX)
		until = timestamptz_to_str(sf_idtime_of(layout, span->last + 1));
	return psprintf("from %s up to, not including, %s", from, until);
}

/*
 * Has it a key of columns alone?  Whoever loads an expression of a key
 * evaluates what its owner has called IMMUTABLE there.
 */
static bool
has_plain_key(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	bool		is_plain;

	if (!HeapTupleIsValid(tuple))
		return false;
	is_plain = heap_attisnull(tuple, Anum_pg_partitioned_table_partexprs,
							  NULL);
	ReleaseSysCache(tuple);
	return is_plain;
}

/* SQLSTATE 42P01, 42809 */
Relation
sf_span_open_parent(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);
	PartitionKey key = NULL;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("Name the partitioned table: 'orders'::regclass.")));
	if (has_plain_key(relid))
		key = RelationGetPartitionKey(rel);
	if (key == NULL || key->strategy != PARTITION_STRATEGY_RANGE ||
		key->partnatts != 1 ||
		key->partopfamily[0] != INTEGER_BTREE_FAM_OID ||
		getBaseType(key->parttypid[0]) != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not partitioned by range of one bigint column",
						RelationGetRelationName(rel)),
				 errhint("Create the table with PARTITION BY RANGE (id), id being its column of type bigint that holds the IDs.")));
	return rel;
}

/* All partitions but the default one, in the order of their IDs. */
SfSpan *
sf_span_read(Relation parent, int *count, Oid *default_relid)
{
	PartitionDesc desc = RelationGetPartitionDesc(parent, true);
	PartitionBoundInfo info = desc->boundinfo;
	SfSpan	   *spans = palloc0(sizeof(SfSpan) * (desc->nparts + 1));

	*count = 0;
	*default_relid = InvalidOid;
	if (info == NULL)
		return spans;
	if (info->default_index >= 0)
		*default_relid = desc->oids[info->default_index];

	/* a bound ends a partition, or none */
	for (int i = 1; i < info->ndatums; i++)
	{
		SfSpan	   *span = &spans[*count];

		if (info->indexes[i] < 0)
			continue;
		span->relid = desc->oids[info->indexes[i]];
		span->first = PG_INT64_MIN;
		if (info->kind[i - 1][0] == PARTITION_RANGE_DATUM_VALUE)
			span->first = DatumGetInt64(info->datums[i - 1][0]);
		span->last = PG_INT64_MAX;
		if (info->kind[i][0] == PARTITION_RANGE_DATUM_VALUE)
			span->last = DatumGetInt64(info->datums[i][0]) - 1;
		(*count)++;
	}
	return spans;
}
