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
 * finds in the table.
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
#include "storage/lmgr.h"
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
}			columns[NCOLUMNS] = {
	{"server", INT8OID},
	{"layout", TEXTOID},
	{"horizon", INT8OID},
	{"node", INT8OID},			/* null for shards */
	{"name", TEXTOID},
	{"published", TIMESTAMPTZOID}
};

#define CREATE \
	"CREATE TABLE %s." TABLE " (" \
	"server pg_catalog.int8 NOT NULL, " \
	"layout pg_catalog.text NOT NULL, " \
	"horizon pg_catalog.int8 NOT NULL, " \
	"node pg_catalog.int8, name pg_catalog.text, " \
	"published pg_catalog.timestamptz NOT NULL, " \
	"PRIMARY KEY (server, layout))"

/* Return true if a change of a row is all that happens. */
static bool
is_plain(Relation table)
{
	TriggerDesc *triggers = table->trigdesc;
	bool		plain = table->rd_rel->relchecks == 0;
	ListCell   *cell;

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

		if (!HeapTupleIsValid(tuple))
			continue;			/* dropped */
		form = (Form_pg_index) GETSTRUCT(tuple);
		plain = plain && form->indimmediate && !form->indisexclusion &&
			heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
		ReleaseSysCache(tuple);
	}
	return plain;
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
			(column->attnotnull && i == COLUMN_NODE) ||
			strcmp(NameStr(column->attname), columns[i].name) != 0)
			return false;
	}
	return is_plain(table);
}

/* Check rights of the current role, each of them. */
static void
require_rights(Oid table, AclMode rights)
{
	AclResult	result = sf_schema_aclcheck(get_rel_namespace(table),
											GetUserId(), ACL_USAGE);

	if (result == ACLCHECK_OK &&
		pg_class_aclmask(table, GetUserId(), rights, ACLMASK_ALL) != rights)
		result = ACLCHECK_NO_PRIV;
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, TABLE);
}

static Oid
find_table(void)
{
	return get_relname_relid(TABLE, sf_extschema_find());
}

/*
 * Open the table for these rights, and lock it; return NULL if there is none.
 * Throws SQLSTATE 42809: it is something else; 42501, before the lock.
 */
Relation
sf_feed_open(LOCKMODE lock, AclMode rights)
{
	Relation	table = NULL;
	Oid			found;

	/* before the lock is there, another table may get the name */
	while (OidIsValid(found = find_table()))
	{
		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(get_rel_namespace(found)))
			continue;
		if (rights != ACL_NO_RIGHTS)
			require_rights(found, rights);
		table = try_relation_open(found, lock);
		if (table != NULL && find_table() == found)
			break;
		if (table != NULL)
			relation_close(table, lock);
		table = NULL;
	}
	if (table != NULL && !is_usable(table))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table as snowflake_create_feed() makes it",
						TABLE),
				 errdetail("It must be an ordinary logged table with the same columns, without triggers, rules, row-level security, further constraints, generated columns, and indexes with expressions or conditions."),
				 errhint("Drop the triggers, columns, constraints or indexes that were added to it. Only if no publication has it, run instead as its owner: ALTER TABLE %s." TABLE " RENAME TO " TABLE "_old; SELECT %s.snowflake_create_feed();",
						 sf_extschema(), sf_extschema())));
	return table;
}

/*
 * Return the table if another session has locked it, so that a reader waits.
 * Otherwise keep a reader's lock.
 */
Oid
sf_feed_locked(void)
{
	Oid			table = find_table();

	return !OidIsValid(table) ||
		ConditionalLockRelationOid(table, AccessShareLock) ?
		InvalidOid : table;
}

/* Open the table for these rights, or throw SQLSTATE 55000, 42501. */
static Relation
require_table(LOCKMODE lock, AclMode rights)
{
	Relation	table = sf_feed_open(lock, rights);

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no table \"%s\" in this database", TABLE),
				 errhint("On each primary that makes or collects the rows, run: SELECT %s.snowflake_create_feed();",
						 sf_extschema())));
	return table;
}

/* No text of ours is longer: a layout, or a host and a port. */
#define TEXT_SIZE	320

/*
 * Return a text in this column, fit to be shown, or NULL.  One that is too
 * long is not of this extension, and could take all memory.
 */
static char *
read_text(TupleTableSlot *slot, int column)
{
	char	   *shown;

	if (slot->tts_isnull[column] ||
		toast_raw_datum_size(slot->tts_values[column]) > TEXT_SIZE)
		return NULL;
	shown = TextDatumGetCString(slot->tts_values[column]);
	sf_text_make_printable(shown);
	return shown;
}

/* Return a row that can be used: the owner may have made columns nullable. */
static SfFeedRow *
read_row(TupleTableSlot *slot)
{
	SfFeedRow  *row = palloc0(sizeof(SfFeedRow));

	slot_getallattrs(slot);
	row->layout = read_text(slot, COLUMN_LAYOUT);
	if (row->layout == NULL || slot->tts_isnull[COLUMN_SERVER] ||
		slot->tts_isnull[COLUMN_HORIZON] || slot->tts_isnull[COLUMN_PUBLISHED])
		return NULL;
	row->server = DatumGetInt64(slot->tts_values[COLUMN_SERVER]);
	row->horizon = DatumGetInt64(slot->tts_values[COLUMN_HORIZON]);
	row->has_node = !slot->tts_isnull[COLUMN_NODE];
	if (row->has_node)
		row->node = DatumGetInt64(slot->tts_values[COLUMN_NODE]);
	row->name = read_text(slot, COLUMN_NAME);
	row->published =
		DatumGetTimestampTz(slot->tts_values[COLUMN_PUBLISHED]);
	return row;
}

/* Return the number and the name of a server. */
char *
sf_feed_show_server(const SfFeedRow *row)
{
	return psprintf(INT64_FORMAT " (%s)", row->server,
					row->name == NULL ? "?" : row->name);
}

/* Order the rows by layout, and the least horizon first. */
static int
compare(const ListCell *a, const ListCell *b)
{
	const SfFeedRow *first = lfirst(a);
	const SfFeedRow *second = lfirst(b);
	int			order = strcmp(first->layout, second->layout);

	return order != 0 ? order : (first->horizon > second->horizon) -
		(first->horizon < second->horizon);
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

	require_rights(RelationGetRelid(table), ACL_SELECT);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		SfFeedRow  *row = read_row(slot);

		if (row != NULL)
			rows = lappend(rows, row);
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

/*
 * Return the newest rows, for a writer: the caller's snapshot may be older
 * than the lock, for which this session may have waited.
 */
static List *
newest_rows(Relation table)
{
	List	   *rows;

	PushActiveSnapshot(GetLatestSnapshot());
	rows = sf_feed_rows(table);
	PopActiveSnapshot();
	return rows;
}

/* Return true for a row of a server and layout. */
static bool
is_row_of(TupleTableSlot *slot, int64 server, const char *layout)
{
	const char *found;

	slot_getallattrs(slot);
	found = read_text(slot, COLUMN_LAYOUT);
	return found != NULL && strcmp(found, layout) == 0 &&
		!slot->tts_isnull[COLUMN_SERVER] &&
		DatumGetInt64(slot->tts_values[COLUMN_SERVER]) == server;
}

/*
 * Lock the newest version of such a row, and return it, or NULL.  Replication,
 * and whoever writes the table without us, may change a row between the two
 * steps; or the command that runs has changed it before, and then counts.
 */
static HeapTuple
lock_row(Relation table, int64 server, const char *layout)
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	HeapTuple	tuple = NULL;
	bool		found;

	do
	{
		Snapshot	snapshot;
		TableScanDesc scan;

		CHECK_FOR_INTERRUPTS();
		CommandCounterIncrement();
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		scan = table_beginscan_strat(table, snapshot, 0, NULL, true, false);
		while ((found = table_scan_getnextslot(scan, ForwardScanDirection,
											   slot)) &&
			   !is_row_of(slot, server, layout));
		if (found)
		{
			ItemPointerData tid = slot->tts_tid;
			TM_FailureData failure;

			ExecClearTuple(slot);
			if (table_tuple_lock(table, &tid, snapshot, slot,
								 GetCurrentCommandId(true),
								 LockTupleExclusive, LockWaitBlock, 0,
								 &failure) == TM_Ok)
				tuple = ExecCopySlotHeapTuple(slot);
		}
		table_endscan(scan);
		UnregisterSnapshot(snapshot);
	} while (found && tuple == NULL);
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
	Relation	table = sf_feed_open(AccessShareLock, ACL_NO_RIGHTS);

	if (table != NULL)
	{
		Oid			owner = table->rd_rel->relowner;

		relation_close(table, AccessShareLock);
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("table \"%s\" already exists", TABLE),
				 errdetail("It belongs to \"%s\".",
						   GetUserNameFromId(owner, false))));
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
	return hash_combine64(sf_identity_server(), MyDatabaseId) & PG_INT64_MAX;
}

/* Return true if this server makes IDs of a node, or of one that it leases. */
static bool
has_node(void)
{
	return sf_settings_leases() || sf_shmem_right() != 0 ||
		sf_node_configured() != SF_NO_NUMBER;
}

/*
 * Return the call that publishes the horizon of a layout; without one, the
 * call with which this server joins.
 */
char *
sf_feed_publish_call(const char *layout)
{
	char		node[SF_LAYOUT_TEXT_SIZE];
	char		shard[SF_LAYOUT_TEXT_SIZE];

	sf_layout_print(&sf_node_layout, node, sizeof(node));
	sf_layout_print(&sf_shard_layout, shard, sizeof(shard));
	if (layout == NULL)
		layout = sf_settings_has_shards() && !has_node() ? shard : node;
	if (strcmp(layout, shard) == 0)
		return psprintf("%s.snowflake_publish_shard_horizon()",
						sf_extschema());
	if (strcmp(layout, node) == 0)
		return psprintf("%s.snowflake_publish_horizon()", sf_extschema());
	return psprintf("%s.snowflake_publish_horizon(%s::pg_catalog.text)",
					sf_extschema(), quote_literal_cstr(layout));
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

/* Return true if no clock that is right can have led to this horizon. */
static bool
is_far_ahead(const SfFeedRow *row)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];

	return sf_layout_parse(&layout, row->layout, reason, sizeof(reason)) &&
		sf_id_time_tick_ms(&layout, sf_layout_tick(&layout, row->horizon)) >
		sf_clock_wall_ms() + 1000 * (int64) sf_max_clock_jump;
}

/*
 * Refuse to join with a horizon that is below another: SQLSTATE 55000.  To
 * raise the mark instead would let whoever writes the table drive it into the
 * far future.  Which of two clocks is wrong, only a person knows.
 *
 * A server that is being taken out counts, too: readers may have gone as far
 * as its horizon.
 */
static void
require_ahead(const List *rows, const SfLayout *layout, const char *text,
			  int64 horizon)
{
	const SfFeedRow *highest = NULL;
	ListCell   *cell;
	int64		tick;

	/* the last one of a layout has the highest */
	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->horizon > horizon && strcmp(row->layout, text) == 0)
			highest = row;
	}
	if (highest == NULL)
		return;
	tick = sf_layout_tick(layout, highest->horizon);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server is behind the feed, and cannot join yet"),
			 errdetail("Server %s has published horizon " INT64_FORMAT ", of %s. This server's is " INT64_FORMAT ".",
					   sf_feed_show_server(highest), highest->horizon,
					   sf_timefmt_show(sf_id_time_tick_ms(layout, tick)),
					   horizon),
			 is_far_ahead(highest) ?
			 errhint("Let no application connect here yet. If this server's clock is behind, correct it, and publish again. If it is right, the other server's was wrong: correct that, and take its row out here: SELECT %s.snowflake_leave_feed('" INT64_FORMAT "'::bigint);",
					 sf_extschema(), highest->server) :
			 errhint("Let no application connect here yet. Correct the clock that is wrong, this server's or the other's, and run, again and again: SELECT %s;",
					 sf_feed_publish_call(text))));
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
			 errhint("Stop all clients, and join anew: SELECT %s.snowflake_leave_feed(); SELECT %s;",
					 sf_extschema(), sf_feed_publish_call(NULL))));
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
 * Delete the rows of a server and layout: one, unless the table has lost its
 * key.  Return the highest of their horizons, or -1 if there is none.
 */
static int64
delete_rows(Relation table, int64 server, const char *layout)
{
	HeapTuple	old;
	int64		highest = -1;

	CheckCmdReplicaIdentity(table, CMD_DELETE);
	while ((old = lock_row(table, server, layout)) != NULL)
	{
		bool		isnull;
		Datum		horizon = heap_getattr(old, COLUMN_HORIZON + 1,
										   RelationGetDescr(table), &isnull);

		highest = Max(Max(highest, 0), isnull ? 0 : DatumGetInt64(horizon));
		CatalogTupleDelete(table, &old->t_self);
	}
	return highest;
}

/*
 * Write this server's row; one that others have taken out has to join: then
 * return false.
 *
 * Logical replication skips an UPDATE of a row that a subscriber lacks, and
 * then that server would not hold the readers there back.  A new row always
 * arrives.
 */
static bool
set_row(Relation table, const char *layout, int64 horizon, bool is_shard,
		bool joins)
{
	uint64		right = sf_shmem_right();
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};
	int64		before = delete_rows(table, sf_feed_server(), layout);

	if (before < 0 && !joins)
		return false;
	values[COLUMN_SERVER] = Int64GetDatum(sf_feed_server());
	values[COLUMN_LAYOUT] = CStringGetTextDatum(layout);
	values[COLUMN_HORIZON] = Int64GetDatum(Max(before, horizon));
	nulls[COLUMN_NODE] = is_shard || right == 0;
	values[COLUMN_NODE] = Int64GetDatum(sf_settings_node_of(right));
	values[COLUMN_NAME] = CStringGetTextDatum(find_name());
	values[COLUMN_PUBLISHED] = TimestampTzGetDatum(GetCurrentTimestamp());
	CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values,
											  nulls));
	CommandCounterIncrement();
	return true;
}

/*
 * Publish the horizon of a layout, or of all shards.  "rows" are those of the
 * table.  Return -1 if somebody has taken out the own one since.  Throws
 * SQLSTATE 55000, and all that a call for an ID throws, except where it waits.
 */
static int64
try_publish(Relation table, const List *rows, const SfLayout *layout)
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

	sf_generator_pass_time(is_shard ? 0 : SF_NO_SHARD, slot,
						   own == NULL || has_node());
	horizon = sf_horizon_to_publish(is_shard ? SF_ALL_SHARDS : SF_NO_SHARD,
									slot, layout, &highest);
	if (own == NULL)
		require_ahead(rows, layout, text, horizon);
	else if (own->horizon > highest)
		refuse_above_mark(own);
	if (!set_row(table, text, horizon, is_shard, own == NULL))
		return -1;
	return horizon;
}

/* Do the same for a caller.  Throws SQLSTATE 55000 if it writes no row. */
static int64
publish(Relation table, const List *rows, const SfLayout *layout)
{
	int64		horizon = try_publish(table, rows, layout);
	char		text[SF_LAYOUT_TEXT_SIZE];

	sf_layout_print(layout, text, sizeof(text));
	if (horizon < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server has been taken out of the feed meanwhile"),
				 errhint("To join again, run: SELECT %s;",
						 sf_feed_publish_call(text))));
	return horizon;
}

/*
 * Return the layout with this text if this server can publish its horizon of
 * it, else NULL.
 */
static const SfLayout *
find_layout(const List *rows, const char *text)
{
	uint64		right = sf_shmem_right();
	uint32		node = sf_settings_node_of(right);
	SfServerNumber configured = sf_node_configured();
	bool		goes_on = find_own(rows, text) != NULL;
	SfLayout   *layout = palloc(sizeof(SfLayout));
	char		reason[SF_REASON_SIZE];
	int64		now;

	/* the node is taken with the first ID */
	if (right == 0 && configured != SF_NO_NUMBER)
		node = sf_server_number_value(configured);
	if (!sf_layout_parse(layout, text, reason, sizeof(reason)))
		return NULL;
	now = sf_layout_ms_to_tick(layout, sf_clock_wall_ms());
	if (sf_layout_is_same(layout, &sf_shard_layout))
		return goes_on || sf_settings_has_shards() ? &sf_shard_layout : NULL;
	return !sf_layout_has(layout, SF_SHARD) && (goes_on || has_node()) &&
		((uint64) node >> layout->node_bits) == 0 &&
		now >= layout->epoch_tick && now < layout->end_tick ? layout : NULL;
}

/*
 * Publish the horizon of snowflake.layout, and of all that the table has.  A
 * layout in which this server has made no ID takes a slot, like a call for an
 * ID: to pass it over could lose rows that are made here later.
 */
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
		const SfLayout *layout =
			row->is_first && strcmp(row->layout, text) != 0 ?
			find_layout(rows, row->layout) : NULL;

		if (layout != NULL)
			(void) publish(table, rows, layout);
	}
	return horizon;
}

/*
 * For the worker: go on where this server has joined.  A person decides when
 * it joins: see doc/feeds.md.  So no place is taken from other layouts because
 * of another server's row.  Return false if a layout has no slot yet, and set
 * it: to take one may fail, and would take the other rows along.
 */
bool
sf_feed_go_on(Relation table, SfLayout *missing)
{
	const List *rows = sf_feed_rows(table);
	bool		all = true;
	ListCell   *cell;

	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);
		const SfLayout *layout = row->server == sf_feed_server() ?
			find_layout(rows, row->layout) : NULL;

		if (layout == NULL)
			continue;
		if (layout == &sf_shard_layout || sf_layout_slot_exists(layout))
			(void) try_publish(table, rows, layout);
		else
		{
			*missing = *layout;
			all = false;
		}
	}
	return all;
}

#define WRITES	(ACL_SELECT | ACL_INSERT | ACL_DELETE)

/* Publish the horizon of a layout; without one, all. */
static int64
publish_in_table(const SfLayout *layout)
{
	Relation	table = require_table(SF_FEED_WRITE_LOCK, WRITES);
	const List *rows = newest_rows(table);
	int64		horizon = layout == NULL ? publish_all(table, rows) :
		publish(table, rows, layout);

	relation_close(table, NoLock);
	return horizon;
}

/*
 * snowflake_publish_horizon() returns bigint
 *
 * Write this server's horizons into the table: of snowflake.layout, and of
 * each other layout that the table has.  Return the first one.  Throws
 * SQLSTATE 25006, 42501, 42809, 53400, 55000, and the errors of a call that
 * makes an ID.
 */
Datum
snowflake_publish_horizon(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_publish_horizon()");
	PG_RETURN_INT64(publish_in_table(NULL));
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
	PG_RETURN_INT64(publish_in_table(sf_layout_arg_node(fcinfo, 0)));
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
	PG_RETURN_INT64(publish_in_table(&sf_shard_layout));
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
	if (has_node())
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
	const List *rows = newest_rows(table);
	bool		is_own = server == sf_feed_server();
	bool		is_far = false;
	bool		found = false;
	ListCell   *cell;

	/* a row that arrives from now on stays, and holds the feed back */
	foreach(cell, rows)
	{
		const SfFeedRow *row = lfirst(cell);

		if (row->server != server)
			continue;
		found = delete_rows(table, server, row->layout) >= 0 || found;
		if (is_own)
			continue;
		ereport(NOTICE,
				(errmsg("server " INT64_FORMAT " no longer holds the feed back",
						server),
				 errdetail("Feeds can pass over its rows with IDs from " INT64_FORMAT " on that have not arrived here (layout \"%s\").",
						   row->horizon, row->layout)));
		is_far = is_far || is_far_ahead(row);
	}
	/* the caller says that this clock is right: see require_ahead() */
	foreach(cell, is_far ? rows : NIL)
	{
		SfFeedRow  *row = lfirst(cell);

		if (row->server != sf_feed_server() && is_far_ahead(row))
			row->horizon = 0;
	}
	if (!found)
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
	uint64		running;		/* sf_horizon_hash_running() */
	LocalTransactionId lxid;
	TransactionId xmin;
	TransactionId xmax;
	CommandId	command;
	SubTransactionId subtransaction;
	Oid			user;
} Question;

/* Read the least horizon of a layout, or throw SQLSTATE 55000. */
static int64
read_least(const SfLayout *layout)
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
			 errhint("On each server that makes the IDs, run: SELECT %s;",
					 sf_feed_publish_call(text))));
}

/* Return the same; a filter may ask for each row, with the same snapshot. */
static int64
least_horizon(const SfLayout *layout)
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
	question.running = sf_horizon_hash_running(snapshot);
	question.command = snapshot->curcid;
	question.subtransaction = GetCurrentSubTransactionId();
	question.user = GetUserId();
	if (memcmp(&question, &last, sizeof(question)) != 0)
	{
		last.lxid = InvalidLocalTransactionId;	/* in case of an error */
		answer = read_least(layout);
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
	PG_RETURN_INT64(least_horizon(&sf_node_layout));
}

/*
 * snowflake_feed_horizon(layout text) returns bigint
 *
 * Return the same for the IDs of a layout.  Also throws 22004 and 22023.
 */
Datum
snowflake_feed_horizon_layout(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(least_horizon(sf_layout_arg_node(fcinfo, 0)));
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
	PG_RETURN_INT64(least_horizon(&sf_shard_layout));
}

/* Add a row to the result of feed_servers(). */
static void
show_row(ReturnSetInfo *result, const SfFeedRow *row)
{
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];
	bool		has_time = sf_layout_parse(&layout, row->layout, reason,
										   sizeof(reason));
	Datum		values[] = {
		Int64GetDatum(row->server),
		row->name == NULL ? (Datum) 0 : CStringGetTextDatum(row->name),
		Int64GetDatum(row->node),
		CStringGetTextDatum(row->layout),
		Int64GetDatum(row->horizon),
		has_time ?
		TimestampTzGetDatum(sf_id_time_of(&layout, row->horizon)) : (Datum) 0,
		TimestampTzGetDatum(row->published),
		BoolGetDatum(row->is_least)
	};
	bool		nulls[lengthof(values)] = {
		false, row->name == NULL, !row->has_node, false, false, !has_time
	};

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
	Relation	table = sf_feed_open(AccessShareLock, ACL_NO_RIGHTS);
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	if (table == NULL)
		return (Datum) 0;
	foreach(cell, sf_feed_rows(table))
		show_row((ReturnSetInfo *) fcinfo->resultinfo, lfirst(cell));
	relation_close(table, NoLock);
	return (Datum) 0;
}
