/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  One feed for the rows of several servers: each server writes its horizon
 *	  into a row of a replicated table, and the least one is that of all.
 *
 * Say that a transaction writes horizon H of its snapshot.  Each transaction
 * with an ID below H had ended for that snapshot, so its commit record was
 * written before the one of the transaction that writes H.  Replication, both
 * physical and logical, shows commits in the order of these records.  So
 * whoever sees the row sees all rows of that server below H, on any server.
 * The server makes no further ID below H (sf_horizon_to_publish()).
 *
 * An idle server must not hold the others back.  So before it computes its
 * horizon, it raises its counters to the clock (sf_generator_pass_time()).
 *
 * A server that joins may have a clock that is behind, and readers may be
 * above its IDs already.  So its first horizon must not be below one that it
 * finds in the table, but for those that lie too far ahead of its clock.
 *
 * The table is an ordinary one, of whoever made it: the extension's own would
 * be in no publication after a restore.  So it may be a trap.  It is read and
 * written by calls that run nobody's code, and name nothing: its schema may
 * get another name at any time, and another table the old one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "feed/feed.h"

#include <unistd.h>

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "generate/generator.h"
#include "horizon/horizon.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "query/query.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_create_feed);
SF_FUNCTION(snowflake_publish_horizon);
SF_FUNCTION(snowflake_publish_horizon_layout);
SF_FUNCTION(snowflake_publish_shard_horizon);
SF_FUNCTION(snowflake_leave_feed);
SF_FUNCTION(snowflake_leave_feed_server);
SF_FUNCTION(snowflake_feed_horizon);
SF_FUNCTION(snowflake_feed_horizon_layout);
SF_FUNCTION(snowflake_feed_shard_horizon);
SF_FUNCTION(snowflake_feed_servers);

/* ---- the table ---- */

#define TABLE	"snowflake_feed"

enum
{
	COLUMN_SERVER,
	COLUMN_LAYOUT,
	COLUMN_HORIZON,
	COLUMN_NODE,
	COLUMN_NAME,
	COLUMN_PUBLISHED,
	NCOLUMNS
};

static const struct
{
	const char *name;
	Oid			type;
	bool		nullable;
}			columns[NCOLUMNS] = {
	{"server", INT8OID, false},
	{"layout", TEXTOID, false},
	{"horizon", INT8OID, false},
	{"node", INT8OID, true},
	{"name", TEXTOID, false},
	{"published", TIMESTAMPTZOID, false}
};

#define CREATE \
	"CREATE TABLE %s." TABLE " (" \
	"server pg_catalog.int8 NOT NULL, " \
	"layout pg_catalog.text NOT NULL, " \
	"horizon pg_catalog.int8 NOT NULL, " \
	"node pg_catalog.int8, " \
	"name pg_catalog.text, " \
	"published pg_catalog.timestamptz NOT NULL, " \
	"PRIMARY KEY (server, layout))"

/* Return true if a change of a row is all that happens. */
static bool
is_plain(Relation table)
{
	TriggerDesc *triggers = table->trigdesc;
	ListCell   *cell;

	if (table->rd_rel->relchecks > 0)
		return false;
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		/* pglogical makes one for TRUNCATE */
		if ((triggers->triggers[i].tgtype & (TRIGGER_TYPE_INSERT |
											 TRIGGER_TYPE_UPDATE |
											 TRIGGER_TYPE_DELETE)) != 0)
			return false;
	}
	foreach(cell, RelationGetIndexList(table))
	{
		Oid			index = lfirst_oid(cell);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID,
											ObjectIdGetDatum(index));
		Form_pg_index form;
		bool		is_plain_index;

		if (!HeapTupleIsValid(tuple))
			continue;			/* dropped */
		form = (Form_pg_index) GETSTRUCT(tuple);
		is_plain_index = form->indimmediate && !form->indisexclusion &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
		ReleaseSysCache(tuple);
		if (!is_plain_index)
			return false;
	}
	return true;
}

/* Return true if this is an ordinary table with just these columns. */
static bool
is_usable(Relation table)
{
	TupleDesc	desc = RelationGetDescr(table);

	if (table->rd_rel->relkind != RELKIND_RELATION ||
		table->rd_rel->relam != HEAP_TABLE_AM_OID ||
		table->rd_rel->relispartition ||
		table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		table->rd_rel->relrowsecurity || table->rd_rules != NULL ||
		desc->natts != NCOLUMNS)
		return false;
	for (int i = 0; i < NCOLUMNS; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped || column->atttypid != columns[i].type ||
			column->attgenerated != '\0' ||
			(column->attnotnull && columns[i].nullable) ||
			strcmp(NameStr(column->attname), columns[i].name) != 0)
			return false;
	}
	return is_plain(table);
}

/*
 * Open and lock the table; return NULL if there is none.  Throws SQLSTATE
 * 42809: it is something else.
 */
Relation
sf_feed_open(LOCKMODE lock)
{
	Oid			schema = sf_extschema_find();
	Oid			found = OidIsValid(schema) ?
		get_relname_relid(TABLE, schema) : InvalidOid;
	Relation	table = OidIsValid(found) ?
		try_relation_open(found, lock) : NULL;

	if (table != NULL && !is_usable(table))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table as snowflake_create_feed() makes it",
						TABLE),
				 errdetail("It must be an ordinary logged table with the same columns, without triggers, rules, row-level security, further constraints, generated columns, and indexes with expressions or conditions."),
				 errhint("Run as its owner: ALTER TABLE %s." TABLE " RENAME TO " TABLE "_old; SELECT %s.snowflake_create_feed();",
						 sf_extschema(), sf_extschema())));
	return table;
}

/* Check rights of the current role, each of them. */
static void
require_rights(Relation table, AclMode rights)
{
	AclResult	result = sf_schema_aclcheck(RelationGetNamespace(table),
											GetUserId(), ACL_USAGE);

	if (result == ACLCHECK_OK &&
		pg_class_aclmask(RelationGetRelid(table), GetUserId(), rights,
						 ACLMASK_ALL) != rights)
		result = ACLCHECK_NO_PRIV;
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, TABLE);
}

/* Open the table for these rights, or throw SQLSTATE 55000, 42501. */
static Relation
require_table(LOCKMODE lock, AclMode rights)
{
	Relation	table = sf_feed_open(lock);

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no table \"%s\" in this database", TABLE),
				 errhint("On each primary that makes or collects the rows, run: SELECT %s.snowflake_create_feed();",
						 sf_extschema())));
	require_rights(table, rights);
	return table;
}

/* No text of ours is longer: a layout, or a host and a port. */
#define TEXT_SIZE	320

/*
 * Return a text in this column, or NULL.  One that is too long is not of this
 * extension, and could take all memory.
 */
static char *
read_text(TupleTableSlot *slot, int column)
{
	if (slot->tts_isnull[column] ||
		toast_raw_datum_size(slot->tts_values[column]) > TEXT_SIZE)
		return NULL;
	return TextDatumGetCString(slot->tts_values[column]);
}

static SfFeedRow *
read_row(TupleTableSlot *slot, char *layout)
{
	SfFeedRow  *row = palloc0(sizeof(SfFeedRow));

	row->server = DatumGetInt64(slot->tts_values[COLUMN_SERVER]);
	row->layout = layout;
	row->horizon = DatumGetInt64(slot->tts_values[COLUMN_HORIZON]);
	row->has_node = !slot->tts_isnull[COLUMN_NODE];
	row->node = DatumGetInt64(slot->tts_values[COLUMN_NODE]);
	row->name = read_text(slot, COLUMN_NAME);
	row->published =
		DatumGetTimestampTz(slot->tts_values[COLUMN_PUBLISHED]);
	return row;
}

/* Order the rows by layout, and the least horizon first. */
static int
compare(const ListCell *a, const ListCell *b)
{
	const SfFeedRow *first = lfirst(a);
	const SfFeedRow *second = lfirst(b);
	int			order = strcmp(first->layout, second->layout);

	if (order == 0)
		order = (first->horizon > second->horizon) -
			(first->horizon < second->horizon);
	return order;
}

/*
 * Return the rows that the active snapshot sees, in the order of layouts, so
 * that sessions that publish do not lock them in different orders.  Checks the
 * right to read them.
 */
List *
sf_feed_rows(Relation table)
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	TableScanDesc scan = table_beginscan_strat(table, GetActiveSnapshot(), 0,
											   NULL, true, false);
	List	   *rows = NIL;
	const SfFeedRow *least = NULL;
	ListCell   *cell;

	require_rights(table, ACL_SELECT);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		char	   *layout;

		/* the owner may have made the columns nullable */
		slot_getallattrs(slot);
		layout = read_text(slot, COLUMN_LAYOUT);
		if (layout != NULL && !slot->tts_isnull[COLUMN_SERVER] &&
			!slot->tts_isnull[COLUMN_HORIZON] &&
			!slot->tts_isnull[COLUMN_PUBLISHED])
			rows = lappend(rows, read_row(slot, layout));
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);

	list_sort(rows, compare);
	foreach(cell, rows)
	{
		SfFeedRow  *row = lfirst(cell);

		row->is_first = least == NULL ||
			strcmp(least->layout, row->layout) != 0;
		if (row->is_first)
			least = row;
		row->is_least = row->horizon == least->horizon;
	}
	return rows;
}

/* Return true for a row of a server and layout; NULL stands for any. */
static bool
is_row_of(TupleTableSlot *slot, int64 server, const char *layout)
{
	const char *found;

	slot_getallattrs(slot);
	if (slot->tts_isnull[COLUMN_SERVER] ||
		DatumGetInt64(slot->tts_values[COLUMN_SERVER]) != server)
		return false;
	found = read_text(slot, COLUMN_LAYOUT);
	return layout == NULL || (found != NULL && strcmp(found, layout) == 0);
}

/*
 * Lock the newest version of such a row, and return it, or NULL.  Replication,
 * and whoever writes the table without us, may change a row between the two
 * steps.
 */
static HeapTuple
lock_row(Relation table, int64 server, const char *layout)
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	HeapTuple	tuple = NULL;
	TM_Result	result;

	do
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		TableScanDesc scan = table_beginscan_strat(table, snapshot, 0, NULL,
												   true, false);
		bool		found = false;

		CHECK_FOR_INTERRUPTS();
		while (!found &&
			   table_scan_getnextslot(scan, ForwardScanDirection, slot))
			found = is_row_of(slot, server, layout);
		result = TM_Ok;
		if (found)
		{
			ItemPointerData tid = slot->tts_tid;
			TM_FailureData failure;

			ExecClearTuple(slot);
			result = table_tuple_lock(table, &tid, snapshot, slot,
									  GetCurrentCommandId(true),
									  LockTupleExclusive, LockWaitBlock, 0,
									  &failure);
			if (result == TM_Ok)
				tuple = ExecCopySlotHeapTuple(slot);
		}
		table_endscan(scan);
		UnregisterSnapshot(snapshot);
	} while (result == TM_Updated || result == TM_Deleted);
	if (result != TM_Ok)
		elog(ERROR, "could not lock a row of \"%s\"", TABLE);
	ExecDropSingleTupleTableSlot(slot);
	return tuple;
}

/*
 * snowflake_create_feed() returns void
 *
 * Make the table in the schema of the extension, with the rights of the
 * caller.  It may be there already.  If the schema is renamed meanwhile, the
 * caller gets the table in another one, which gives nobody a right.
 */
Datum
snowflake_create_feed(PG_FUNCTION_ARGS)
{
	Relation	table = sf_feed_open(AccessShareLock);

	if (table != NULL)
	{
		relation_close(table, AccessShareLock);
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("table \"%s\" already exists", TABLE)));
		PG_RETURN_VOID();
	}
	SPI_connect();
	(void) SPI_execute(psprintf(CREATE, sf_extschema()), false, 0);
	SPI_finish();
	PG_RETURN_VOID();
}

/* ---- publishing ---- */

/*
 * Return the number of this server, which no copy has, and which stays when
 * its node id changes.  Each database has another one: their rows may meet in
 * a table, and the horizon of one says nothing of the other's rows.
 */
int64
sf_feed_server(void)
{
	uint64		number = hash_combine64(sf_identity_server(), MyDatabaseId) &
		PG_INT64_MAX;

	return number == 0 ? 1 : (int64) number;
}

/* Return this server's row of a layout, or NULL. */
static const SfFeedRow *
find_own(const List *rows, const char *layout)
{
	ListCell   *cell;

	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->server == sf_feed_server() &&
			strcmp(row->layout, layout) == 0)
			return row;
	}
	return NULL;
}

/*
 * Refuse to join with a horizon that is below another: SQLSTATE 55000.
 * To raise the mark instead would let whoever writes the table drive it into
 * the far future.
 */
static void
require_ahead(const List *rows, const SfLayout *layout, const char *text,
			  int64 horizon)
{
	ListCell   *cell;

	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);
		int64		time_ms;

		if (row->horizon <= horizon || strcmp(row->layout, text) != 0)
			continue;
		time_ms = sf_id_time_tick_ms(layout,
									 sf_layout_tick(layout, row->horizon));
		/* no server has made IDs so far ahead: somebody wrote this */
		if (time_ms - sf_clock_wall_ms() > 1000 * (int64) sf_max_clock_jump)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server is behind the feed, and cannot join yet"),
				 errdetail("Server " INT64_FORMAT " has published horizon " INT64_FORMAT ", of %s. This server's is " INT64_FORMAT ".",
						   row->server, row->horizon,
						   sf_timefmt_show(time_ms), horizon),
				 errhint("Let no application connect here yet. Correct the clock if it is behind, and run, again and again if it is right: SELECT %s.snowflake_publish_horizon();",
						 sf_extschema())));
	}
}

/* Refuse what a mark that was lowered allows: SQLSTATE 55000. */
static void
refuse_above_mark(const SfFeedRow *own)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server has published a horizon above its mark"),
			 errdetail("The horizon is " INT64_FORMAT ". The mark was lowered since.",
					   own->horizon),
			 errhint("Stop all clients, and join anew: SELECT %s.snowflake_leave_feed(); SELECT %s.snowflake_publish_horizon();",
					 sf_extschema(), sf_extschema())));
}

static char *
find_name(void)
{
	char		host[256] = "";

	(void) gethostname(host, sizeof(host) - 1);
	sf_text_make_printable(host);
	return psprintf("%s:%d", host, PostPortNumber);
}

/*
 * Delete the rows of a server; "layout" may be NULL for all of them.  Raise
 * *horizon to theirs.  Return false if there is none.
 */
static bool
delete_rows(Relation table, int64 server, const char *layout, int64 *horizon)
{
	HeapTuple	old;
	bool		found = false;

	CheckCmdReplicaIdentity(table, CMD_DELETE);
	while ((old = lock_row(table, server, layout)) != NULL)
	{
		bool		isnull;
		Datum		before = heap_getattr(old, COLUMN_HORIZON + 1,
										  RelationGetDescr(table), &isnull);

		if (!isnull)
			*horizon = Max(*horizon, DatumGetInt64(before));
		CatalogTupleDelete(table, &old->t_self);
		CommandCounterIncrement();
		found = true;
	}
	return found;
}

/*
 * Write this server's row; one that others have taken out has to join.
 *
 * Logical replication skips an UPDATE of a row that a subscriber lacks, and
 * then that server would not hold the readers there back.  A new row always
 * arrives.
 */
static void
set_row(Relation table, const char *layout, int64 horizon, bool is_shard,
		bool joins)
{
	uint64		right = sf_shmem_right();
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};

	if (!delete_rows(table, sf_feed_server(), layout, &horizon) && !joins)
		return;
	values[COLUMN_SERVER] = Int64GetDatum(sf_feed_server());
	values[COLUMN_LAYOUT] = CStringGetTextDatum(layout);
	values[COLUMN_HORIZON] = Int64GetDatum(horizon);
	nulls[COLUMN_NODE] = is_shard || right == 0;
	values[COLUMN_NODE] = Int64GetDatum(sf_settings_node_of(right));
	values[COLUMN_NAME] = CStringGetTextDatum(find_name());
	values[COLUMN_PUBLISHED] = TimestampTzGetDatum(GetCurrentTimestamp());
	CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values,
											  nulls));
	CommandCounterIncrement();
}

/*
 * Publish the horizon of a layout, or of all shards.  "rows" are those of the
 * table.  Throws SQLSTATE 55000, and all that a call for an ID throws, except
 * where it waits.
 */
static int64
publish(Relation table, const List *rows, const SfLayout *layout)
{
	bool		is_shard = layout == &sf_shard_layout;
	int			slot = is_shard ? 0 : sf_generator_slot_of(layout);
	char		text[SF_LAYOUT_TEXT_SIZE];
	const SfFeedRow *own;
	int64		horizon;
	int64		highest;

	if (slot == 0 && !is_shard)
		layout = &sf_node_layout;
	sf_layout_print(layout, text, sizeof(text));
	own = find_own(rows, text);

	sf_generator_pass_time(is_shard ? 0 : SF_NO_SHARD, slot);
	horizon = sf_horizon_to_publish(is_shard ? SF_ALL_SHARDS : SF_NO_SHARD,
									slot, layout, &highest);
	if (own == NULL)
		require_ahead(rows, layout, text, horizon);
	else if (own->horizon > highest)
		refuse_above_mark(own);
	set_row(table, text, horizon, is_shard, own == NULL);
	return horizon;
}

/* Return true if this server can make IDs of a layout that it was told. */
static bool
is_possible(const SfLayout *layout)
{
	uint32		node = sf_settings_node_of(sf_shmem_right());
	int64		now = sf_layout_ms_to_tick(layout, sf_clock_wall_ms());

	return !sf_layout_has(layout, SF_SHARD) &&
		((uint64) node >> layout->node_bits) == 0 &&
		now >= layout->epoch_tick && now < layout->end_tick;
}

/*
 * Publish the horizon of a layout that the table has, if that is possible.
 * Take no place from other layouts, since whoever writes the table may name
 * any.
 */
static void
publish_named(Relation table, const List *rows, const char *text)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	if (!sf_layout_parse(&layout, text, reason, sizeof(reason)))
		return;
	if (sf_layout_is_same(&layout, &sf_shard_layout))
	{
		if (sf_settings_has_shards() || find_own(rows, text) != NULL)
			(void) publish(table, rows, &sf_shard_layout);
	}
	else if (is_possible(&layout) && sf_layout_slot_exists(&layout))
		(void) publish(table, rows, &layout);
}

/* Publish the horizon of snowflake.layout, and all others. */
static int64
publish_all(Relation table, const List *rows)
{
	int64		horizon = publish(table, rows, &sf_node_layout);
	char		text[SF_LAYOUT_TEXT_SIZE];
	ListCell   *cell;

	sf_layout_print(&sf_node_layout, text, sizeof(text));
	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->is_first && strcmp(row->layout, text) != 0)
			publish_named(table, rows, row->layout);
	}
	return horizon;
}

/*
 * For the worker: go on where this server has joined.  A person decides when
 * it joins: see doc/feeds.md.
 */
void
sf_feed_go_on(Relation table)
{
	const List *rows = sf_feed_rows(table);
	ListCell   *cell;

	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->server == sf_feed_server())
			publish_named(table, rows, row->layout);
	}
}

#define WRITES	(ACL_SELECT | ACL_INSERT | ACL_DELETE)

/*
 * snowflake_publish_horizon() returns bigint
 *
 * Write this server's horizons into the table: of snowflake.layout, and of
 * each other layout that the table has.  Return the first one.  Throws
 * SQLSTATE 25006, 42501, 42809, 55000, and the errors of a call that makes an
 * ID.
 */
Datum
snowflake_publish_horizon(PG_FUNCTION_ARGS)
{
	Relation	table;
	int64		horizon;

	sf_require_writable("snowflake_publish_horizon()");
	table = require_table(SF_FEED_WRITE_LOCK, WRITES);
	horizon = publish_all(table, sf_feed_rows(table));
	relation_close(table, NoLock);
	PG_RETURN_INT64(horizon);
}

static int64
publish_one(const SfLayout *layout)
{
	Relation	table = require_table(SF_FEED_WRITE_LOCK, WRITES);
	int64		horizon = publish(table, sf_feed_rows(table), layout);

	relation_close(table, NoLock);
	return horizon;
}

/*
 * snowflake_publish_horizon(layout text) returns bigint
 *
 * Do the same for one layout, also if the table does not have it.  Also throws
 * 22004, 22023, 53400, 55000, 58000 and 2200H.
 */
Datum
snowflake_publish_horizon_layout(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_publish_horizon()");
	PG_RETURN_INT64(publish_one(sf_layout_arg_node(fcinfo, 0)));
}

/*
 * snowflake_publish_shard_horizon() returns bigint
 *
 * Do the same for all shards of this server, which may have none yet.
 */
Datum
snowflake_publish_shard_horizon(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_publish_shard_horizon()");
	PG_RETURN_INT64(publish_one(&sf_shard_layout));
}

/* ---- leaving ---- */

/*
 * Publish the own horizon where another server is taken out.  This one may be
 * its successor, and may have made IDs: whoever sees the other one gone must
 * see this one.
 */
static void
stand_in(Relation table, const List *rows)
{
	if (sf_shmem_right() != 0 || sf_node_configured() != SF_NO_NUMBER)
		(void) publish_all(table, rows);
	else if (sf_settings_has_shards())
		(void) publish(table, rows, &sf_shard_layout);
	else
		return;
	ereport(NOTICE,
			(errmsg("this server has published its horizon, since it can make IDs"),
			 errhint("If it makes no IDs for this feed, run here: SELECT %s.snowflake_leave_feed();",
					 sf_extschema())));
}

/* Say what can be lost. */
static void
warn_of_loss(const SfFeedRow *row)
{
	char	   *layout = pstrdup(row->layout);

	sf_text_make_printable(layout);
	ereport(NOTICE,
			(errmsg("server " INT64_FORMAT " no longer holds the feed back",
					row->server),
			 errdetail("Feeds can pass over its rows with IDs from " INT64_FORMAT " on that have not arrived here (layout \"%s\").",
					   row->horizon, layout)));
}

/* Before this server leaves, all of its transactions with IDs must end. */
static void
require_no_ids(void)
{
	const char *ends = sf_horizon_end_holders();

	if (*ends != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("transactions of this database may still bring in IDs"),
				 errhint("Stop the application, and end its last transactions:%s",
						 ends)));
}

static void
leave(int64 server)
{
	Relation	table = require_table(SF_FEED_WRITE_LOCK, WRITES);
	const List *rows = sf_feed_rows(table);
	bool		is_own = server == sf_feed_server();
	int64		horizon = 0;
	ListCell   *cell;

	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->server == server && !is_own)
			warn_of_loss(row);
	}
	if (!delete_rows(table, server, NULL, &horizon))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server " INT64_FORMAT " is not in the feed", server),
				 errhint("See the servers: SELECT * FROM %s.snowflake_feed_servers;",
						 sf_extschema())));
	if (is_own)
		require_no_ids();
	else
		stand_in(table, rows);
	relation_close(table, NoLock);
}

/*
 * snowflake_leave_feed() returns void
 *
 * Take this server out of the feed, after its last ID.  Throws SQLSTATE 25006,
 * 42501, 42704, 42809, 55000, 55006 (a transaction has made IDs).
 */
Datum
snowflake_leave_feed(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_leave_feed()");
	leave(sf_feed_server());
	PG_RETURN_VOID();
}

/*
 * snowflake_leave_feed(server bigint) returns void
 *
 * Take another server out of the feed, which will not come back.
 */
Datum
snowflake_leave_feed_server(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_leave_feed()");
	leave(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}

/* ---- reading ---- */

/* What an answer depends on; with its padding, for memcmp(). */
typedef struct Question
{
	int64		code;			/* of the layout */
	int64		epoch_ms;
	LocalTransactionId lxid;
	TransactionId xmin;
	TransactionId xmax;
	uint32		xcnt;
	int32		subxcnt;
	CommandId	command;
	SubTransactionId subtransaction;
	Oid			user;
} Question;

/* Read the least horizon of a layout, or throw SQLSTATE 55000. */
static int64
read_least(const SfLayout *layout, const char *call)
{
	Relation	table = require_table(AccessShareLock, ACL_SELECT);
	const List *rows = sf_feed_rows(table);
	char		text[SF_LAYOUT_TEXT_SIZE];
	ListCell   *cell;

	/* keep the lock, like a query */
	relation_close(table, NoLock);
	sf_layout_print(layout, text, sizeof(text));
	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->is_least && strcmp(row->layout, text) == 0)
			return row->horizon;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("no server has published its horizon of the layout \"%s\"",
					text),
			 errhint("On each server that makes the IDs, run: SELECT %s.%s;",
					 sf_extschema(),
					 psprintf(call, text))));
}

/* Return the same; a filter may ask for each row, with the same snapshot. */
static int64
least_horizon(const SfLayout *layout, const char *call)
{
	static Question last = {0};
	static int64 answer;
	Snapshot	snapshot = GetActiveSnapshot();
	Question	question;

	memset(&question, 0, sizeof(question));
	question.code = sf_layout_code(layout);
	question.epoch_ms = layout->epoch_ms;
	question.lxid = sf_my_lxid();
	question.xmin = snapshot->xmin;
	question.xmax = snapshot->xmax;
	question.xcnt = snapshot->xcnt;
	question.subxcnt = snapshot->subxcnt;
	question.command = snapshot->curcid;
	question.subtransaction = GetCurrentSubTransactionId();
	question.user = GetUserId();
	if (memcmp(&question, &last, sizeof(question)) != 0)
	{
		last.lxid = InvalidLocalTransactionId;	/* in case of an error */
		answer = read_least(layout, call);
		last = question;
	}
	return answer;
}

/*
 * snowflake_feed_horizon() returns bigint
 *
 * Return the least horizon that a server has published, as far as the calling
 * statement sees them.  Throws SQLSTATE 42501, 42809, 55000.
 */
Datum
snowflake_feed_horizon(PG_FUNCTION_ARGS)
{
	sf_require_loaded();
	PG_RETURN_INT64(least_horizon(&sf_node_layout,
								  "snowflake_publish_horizon()"));
}

/*
 * snowflake_feed_horizon(layout text) returns bigint
 *
 * Return the same for the IDs of a layout.  Also throws 22004 and 22023.
 */
Datum
snowflake_feed_horizon_layout(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(least_horizon(sf_layout_arg_node(fcinfo, 0),
								  "snowflake_publish_horizon('%s')"));
}

/*
 * snowflake_feed_shard_horizon() returns bigint
 *
 * Return the same for the IDs of all shards.
 */
Datum
snowflake_feed_shard_horizon(PG_FUNCTION_ARGS)
{
	sf_require_loaded();
	PG_RETURN_INT64(least_horizon(&sf_shard_layout,
								  "snowflake_publish_shard_horizon()"));
}

/* The columns of feed_servers(). */
enum
{
	SHOWN_SERVER,
	SHOWN_NAME,
	SHOWN_NODE,
	SHOWN_LAYOUT,
	SHOWN_HORIZON,
	SHOWN_TIME,
	SHOWN_PUBLISHED,
	SHOWN_HOLDS_BACK,
	NSHOWN
};

static void
show_row(ReturnSetInfo *result, const SfFeedRow *row)
{
	Datum		values[NSHOWN] = {0};
	bool		nulls[NSHOWN] = {false};
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	values[SHOWN_SERVER] = Int64GetDatum(row->server);
	nulls[SHOWN_NAME] = row->name == NULL;
	if (row->name != NULL)
		values[SHOWN_NAME] = CStringGetTextDatum(row->name);
	nulls[SHOWN_NODE] = !row->has_node;
	values[SHOWN_NODE] = Int64GetDatum(row->node);
	values[SHOWN_LAYOUT] = CStringGetTextDatum(row->layout);
	values[SHOWN_HORIZON] = Int64GetDatum(row->horizon);
	nulls[SHOWN_TIME] =
		!sf_layout_parse(&layout, row->layout, reason, sizeof(reason));
	if (!nulls[SHOWN_TIME])
		values[SHOWN_TIME] = TimestampTzGetDatum(sf_id_time_of(&layout,
															   row->horizon));
	values[SHOWN_PUBLISHED] = TimestampTzGetDatum(row->published);
	values[SHOWN_HOLDS_BACK] = BoolGetDatum(row->is_least);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * snowflake_internal.feed_servers() returns setof record
 *
 * Show the rows of the table; none if there is no table.
 */
Datum
snowflake_feed_servers(PG_FUNCTION_ARGS)
{
	Relation	table = sf_feed_open(AccessShareLock);
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	if (table == NULL)
		return (Datum) 0;
	foreach(cell, sf_feed_rows(table))
		show_row((ReturnSetInfo *) fcinfo->resultinfo, lfirst(cell));
	relation_close(table, NoLock);
	return (Datum) 0;
}
