/*-------------------------------------------------------------------------
 *
 * status_server.c
 *	  What snowflake_status() finds in the server: its mark, and what it has
 *	  counted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "status.h"

#include "access/xlog.h"
#include "clock.h"
#include "identity.h"
#include "lib/stringinfo.h"
#include "mark.h"
#include "miscadmin.h"
#include "record.h"
#include "settings.h"
#include "shard.h"
#include "slot.h"
#include "times.h"
#include "utils/syscache.h"

#define DAY_MS				(INT64CONST(24) * 3600 * 1000)
#define YEAR_MS				(365 * DAY_MS)
#define CAPACITY_WARNS		0.01	/* of the time */
#define SEE_LOG				"See the server's log for this error."
#define DATABASES_WARN		0.8 /* of snowflake.max_databases */

/* ---- what there is room for ---- */

static void
put_capacity(ReturnSetInfo *result)
{
	SfStats    *stats = &sf_state->stats;
	double		waited = (double)
		pg_atomic_read_u64(&stats->sum[SF_STAT_SEQUENCE_WAIT_US]) / 1000;
	int64		since = sf_clock_monotonic_ms() -
		(int64) pg_atomic_read_u64(&stats->since_ms);
	double		share = waited / (double) Max(since, 1);
	char	   *found;

	if (sf_status_standby(result, "capacity"))
		return;
	found = psprintf("in the last %s all sessions together have waited %s for a full sequence",
					 sf_times_span(since), sf_times_span((int64) waited));
	if (share <= CAPACITY_WARNS)
		sf_status_ok(result, "capacity", found);
	else
		sf_status_put(result, "capacity", SF_STATUS_WARNING, found,
					  "Ask for IDs where they are needed only; let other servers make some; or choose a layout with more bits for the sequence.");
}

static void
put_life(ReturnSetInfo *result, const char *check, const SfLayout *layout)
{
	int64		end_ms = layout->end_tick * layout->tick_ms;
	int64		left = end_ms - sf_clock_wall_ms();
	char	   *found = psprintf("%.1f years are left, until %s",
								 (double) Max(left, 0) / (double) YEAR_MS,
								 sf_times_show(end_ms));

	if (left >= YEAR_MS)
		sf_status_ok(result, check, found);
	else
		sf_status_put(result, check, left < 30 * DAY_MS ?
					  SF_STATUS_ERROR : SF_STATUS_WARNING, found,
					  "Choose a layout that lasts longer, or a later epoch in a new column.");
}

static void
put_lives(ReturnSetInfo *result)
{
	put_life(result, "layout", &sf_node_layout);
	if (sf_status_has_shards())
		put_life(result, "shard layout", &sf_shard_layout);
	else
		sf_status_ok(result, "shard layout", "snowflake.shards is empty");
}

static void
put_databases(ReturnSetInfo *result)
{
	int			used = 0;
	int			all = sf_state->ndatabases;
	char	   *found;

	if (sf_status_standby(result, "databases"))
		return;
	for (int i = 0; i < all; i++)
	{
		Oid			oid;

		LWLockAcquire(sf_state->lock, LW_SHARED);
		oid = sf_databases[i].database.oid;
		LWLockRelease(sf_state->lock);
		/* that of one that is gone can be taken */
		if (OidIsValid(oid) &&
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(oid)))
			used++;
	}
	found = psprintf("%d of %d databases that may generate have done so",
					 used, all);
	if (used <= all * DATABASES_WARN)
		sf_status_ok(result, "databases", found);
	else
		sf_status_put(result, "databases", SF_STATUS_WARNING, found,
					  "Increase snowflake.max_databases, and restart the server.");
}

/* ---- the mark ---- */

typedef struct MarkRead
{
	Oid			function;
	int64		value;			/* Unix ms; 0: never written */
} MarkRead;

static void
read_mark(void *arg)
{
	MarkRead   *mark = arg;

	sf_register_find(mark->function, NULL);
	mark->value = sf_register_read(SF_REG_MARK);
}

/* What is recorded, if no error is returned.  Nothing is loaded for this. */
char *
sf_status_read_mark(Oid function, int64 *value, char **hint)
{
	MarkRead	mark = {.function = function};
	char	   *error = sf_status_try(read_mark, &mark, hint);

	*value = mark.value;
	return error;
}

static void
put_mark(ReturnSetInfo *result, Oid function)
{
	int64		published = sf_slot_published_mark();
	int64		value;
	int64		ahead;
	int64		reserve = sf_settings_reserve_ms();
	char	   *error;
	char	   *found;
	char	   *remedy = SEE_LOG;

	if (sf_status_standby(result, "mark"))
		return;
	error = sf_status_read_mark(function, &value, &remedy);
	if (error != NULL)
	{
		sf_status_put(result, "mark", SF_STATUS_ERROR,
					  psprintf("it cannot be read: %s", error),
					  remedy);
		return;
	}
	if (value == 0 && published == 0)
	{
		sf_status_ok(result, "mark", "not loaded: no ID was made in this database");
		return;
	}
	value = Max(value, published);
	ahead = value - sf_clock_wall_ms();
	found = psprintf("%s at %s, which is %s %s the clock",
					 published == 0 ? "not loaded;" : "loaded,",
					 sf_times_show(value), sf_times_span(llabs(ahead)),
					 ahead < 0 ? "behind" : "ahead of");
	if (ahead <= reserve)
		sf_status_ok(result, "mark", found);
	else
		sf_status_put(result, "mark", ahead <= reserve + sf_max_clock_wait ?
					  SF_STATUS_WARNING : SF_STATUS_ERROR, found,
					  SF_STATUS_SET_CLOCK " " SF_REG_MARK_REMEDY);
}

/* ---- the record ---- */

typedef struct RecordRead
{
	Oid			function;
	bool		exists;
	StringInfoData differs;		/* empty: it does not */
	const char *remedy;
} RecordRead;

static void
read_record(void *arg)
{
	RecordRead *record = arg;

	sf_register_find(record->function, NULL);
	record->exists = sf_record_exists() || sf_record_is_other();
	if (record->exists)
		(void) sf_record_differs(&record->differs);
	record->remedy = sf_record_remedy();
}

/* Also on a standby, which reads IDs by its own layouts. */
static void
put_record(ReturnSetInfo *result, Oid function)
{
	RecordRead	record = {.function = function};
	char	   *error;
	char	   *remedy = SEE_LOG;

	initStringInfo(&record.differs);
	error = sf_status_try(read_record, &record, &remedy);
	if (error != NULL)
		sf_status_put(result, "recorded configuration", SF_STATUS_ERROR,
					  psprintf("it cannot be read: %s", error),
					  remedy);
	else if (!record.exists)
		sf_status_ok(result, "recorded configuration",
					 "none: no ID was made in this database");
	else if (record.differs.len == 0)
		sf_status_ok(result, "recorded configuration",
					 "the layouts are those that this database was filled with");
	else
		sf_status_put(result, "recorded configuration", SF_STATUS_ERROR,
					  psprintf("IDs are refused here: %s", record.differs.data),
					  record.remedy);
}

/* ---- what was refused, and whose data these are ---- */

static void
put_refusals(ReturnSetInfo *result)
{
	static const struct
	{
		SfStat		stat;
		const char *name;
	}			kinds[] = {
		{SF_STAT_REFUSED_CLOCK, "for the clock"},
		{SF_STAT_REFUSED_LEASE, "without a lease"},
		{SF_STAT_REFUSED_CONFIGURATION, "for the configuration"},
		{SF_STAT_REFUSED_READ_ONLY, "read-only"},
		{SF_STAT_REFUSED_END, "at the layout's end"}
	};
	SfStats    *stats = &sf_state->stats;
	int64		last_ms = (int64) pg_atomic_read_u64(&stats->refused_ms);
	int64		ago = Max(sf_clock_monotonic_ms() - last_ms, 0);
	StringInfoData found;

	initStringInfo(&found);
	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		uint64		n = pg_atomic_read_u64(&stats->sum[kinds[i].stat]);

		if (n > 0)
			appendStringInfo(&found, "%s%llu %s", found.len > 0 ? ", " : "",
							 (unsigned long long) n, kinds[i].name);
	}
	if (found.len == 0)
		sf_status_ok(result, "refusals", "none since the counts began");
	else if (last_ms == 0 || ago > DAY_MS)
		sf_status_ok(result, "refusals",
					 psprintf("none within a day but for read-only transactions; since the counts began %s",
							  found.data));
	else
		sf_status_put(result, "refusals", SF_STATUS_WARNING,
					  psprintf("%s; the last one that was not read-only %s ago",
							   found.data, sf_times_span(ago)),
					  "See the server's log for what these calls were told. Once that is settled, have an administrator call snowflake_stat_reset().");
}

static void
put_copy(ReturnSetInfo *result)
{
	if (!sf_identity_is_copy())
		sf_status_ok(result, "copied data directory",
					 "this data directory is no copy, or one that may do what it does");
	else
		sf_status_put(result, "copied data directory",
					  sf_identity_refuses() ?
					  SF_STATUS_ERROR : SF_STATUS_WARNING,
					  "this data directory is a copy of another server's, which may have the same node id or shards",
					  "If no other server has this data any more, have an administrator call snowflake_accept_copy(). If one has, set another snowflake.node_id here, and other snowflake.shards, and restart the server. If ALTER SYSTEM has set the number, reset that first.");
}

/* Needs shared memory. */
void
sf_status_server(ReturnSetInfo *result, Oid function)
{
	sf_status_node(result);
	sf_status_clock(result);
	put_capacity(result);
	put_lives(result);
	put_mark(result, function);
	put_record(result, function);
	put_refusals(result);
	put_copy(result);
	put_databases(result);
}
