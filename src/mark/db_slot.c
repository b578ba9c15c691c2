/*-------------------------------------------------------------------------
 *
 * db_slot.c
 *	  Database slots: which one is ours, and which backend may change its mark.
 *
 * A process holds the lock of a slot while it flushes the mark.  No process
 * waits for this lock itself: it sleeps on the slot's condition variable,
 * where it can be cancelled, and tries again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/settings.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/* How often to try again: an error releases the lock, and wakes nobody. */
#define LOCK_RETRY_MS	100

/* The private slot for durable numbers that this transaction has created. */
static SfDatabase own_slot;

/* Stands for no database: its mark is 0. */
SfDatabase	sf_no_database;

static uint32 wait_event_mark = 0;

SfDatabaseSlot *sf_databases = NULL;

/* Return the size of the slots in shared memory. */
Size
sf_db_slots_size(void)
{
	return mul_size(sf_max_databases, sizeof(SfDatabaseSlot));
}

/* Set up a slot: a free one, or one that is no part of the shared memory. */
static void
initialize(SfDatabase *database, Oid oid, int64 mark)
{
	database->oid = oid;
	database->attached = 0;
	LWLockInitialize(&database->lock, sf_shmem->lock->tranche);
	ConditionVariableInit(&database->changed);
	pg_atomic_init_u64(&database->mark, mark);
	pg_atomic_init_u64(&database->early, 0);
}

/* Create them, all free. */
void
sf_db_slots_create(void)
{
	bool		found;

	sf_databases = sf_shmem_create_part("snowflake databases",
										sf_db_slots_size(), &found);
	for (int i = 0; i < sf_max_databases && !found; i++)
		initialize(&sf_databases[i].database, InvalidOid, 0);
	initialize(&sf_no_database, InvalidOid, 0);
}

/*
 * Return the highest published mark: all IDs made so far are below, but those
 * of a transaction that has created the extension itself.
 */
int64
sf_db_slots_highest_mark(void)
{
	uint64		highest = 0;

	for (int i = 0; i < sf_max_databases; i++)
		highest = Max(highest,
					  pg_atomic_read_u64(&sf_databases[i].database.mark));
	return (int64) highest;
}

/*
 * Return true if another database has a published mark: since the start it has
 * made IDs with the configured layouts, which its record has.
 */
bool
sf_db_slots_others_issue(void)
{
	for (int i = 0; i < sf_max_databases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;
		Oid			oid;

		LWLockAcquire(sf_shmem->lock, LW_SHARED);
		oid = pg_atomic_read_u64(&database->mark) == 0 ?
			InvalidOid : database->oid;
		LWLockRelease(sf_shmem->lock);
		/* the slot of a dropped database can be reused */
		if (OidIsValid(oid) && oid != MyDatabaseId &&
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(oid)))
			return true;
	}
	return false;
}

static SfDatabase *
find_slot(Oid oid)
{
	Assert(LWLockHeldByMe(sf_shmem->lock));
	for (int i = 0; i < sf_max_databases; i++)
	{
		if (sf_databases[i].database.oid == oid)
			return &sf_databases[i].database;
	}
	return NULL;
}

/*
 * Find the slot of a dropped database.  Set its OID and its count of attached
 * sessions, or return false.
 */
static bool
find_gone(Oid *oid, uint32 *attached)
{
	for (int i = 0; i < sf_max_databases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;

		LWLockAcquire(sf_shmem->lock, LW_SHARED);
		*oid = database->oid;
		*attached = database->attached;
		LWLockRelease(sf_shmem->lock);

		/*
		 * A new database may be missing in our cache of the catalog, and must
		 * not count as dropped.  Only a database to which nobody is connected
		 * does.
		 */
		AcceptInvalidationMessages();
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(*oid)) &&
			CountDBBackends(*oid) == 0)
			return true;
	}
	return false;
}

/* Return how to get more slots. */
char *
sf_db_slots_remedy(void)
{
	SfSettingLine line = {"snowflake.max_databases"};

	line[1] = psprintf("%d", Min(2 * sf_max_databases, SF_MAX_DATABASES));
	return psprintf("For more, %s\nOr, without a restart, drop a database that a test has left, as a superuser, which frees its place at once: DROP DATABASE \"NAME\";",
					sf_settings_step(&line, 1, SF_APPLY_RESTART));
}

/* Throw SQLSTATE 53400: there is no slot for this database. */
static void
refuse_database(void)
{
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many databases generate IDs on this server"),
			 errdetail("snowflake.max_databases is %d.",
					   sf_max_databases),
			 errhint("%s", sf_db_slots_remedy())));
}

/*
 * Find this database's slot, or take a free one, or that of a dropped
 * database.  Nobody is connected to a dropped database, so no process uses its
 * slot.  A new database may have got the same OID meanwhile, and use the slot:
 * then the count of attached sessions has changed.
 */
SfDatabase *
sf_db_slot_take(void)
{
	SfDatabase *slot;
	Oid			gone = InvalidOid;
	uint32		attached = 0;

	for (;;)
	{
		LWLockAcquire(sf_shmem->lock, LW_EXCLUSIVE);
		slot = find_slot(MyDatabaseId);
		if (slot == NULL)
		{
			/* at first a free one, then that of a database that is gone */
			slot = find_slot(gone);
			if (slot != NULL && OidIsValid(gone) &&
				slot->attached != attached)
				slot = NULL;
			if (slot != NULL)
			{
				slot->oid = MyDatabaseId;
				pg_atomic_write_u64(&slot->mark, 0);
				pg_atomic_write_u64(&slot->early, 0);
			}
		}
		if (slot != NULL)
			slot->attached++;
		LWLockRelease(sf_shmem->lock);
		if (slot != NULL)
			return slot;

		CHECK_FOR_INTERRUPTS();
		if (!find_gone(&gone, &attached))
			refuse_database();
	}
}

/* Return this database's slot, or NULL if it has none yet. */
SfDatabase *
sf_db_slot_find(void)
{
	SfDatabase *slot;

	LWLockAcquire(sf_shmem->lock, LW_SHARED);
	slot = find_slot(MyDatabaseId);
	LWLockRelease(sf_shmem->lock);
	return slot;
}

/* Return the published mark of this database; 0 if there is none. */
int64
sf_db_slot_published_mark(void)
{
	SfDatabase *slot = sf_db_slot_find();

	return slot == NULL ? 0 : (int64) pg_atomic_read_u64(&slot->mark);
}

/* Set up the private slot.  Its mark begins at the published one. */
SfDatabase *
sf_db_slot_make_own(void)
{
	initialize(&own_slot, MyDatabaseId, sf_db_slot_published_mark());
	return &own_slot;
}

/*
 * Take the slot's lock.  Return false instead if meanwhile the mark was
 * published at need_ms or above.  With need_ms 0, always wait for the lock.
 */
bool
sf_db_slot_lock(SfDatabase *slot, uint64 need_ms)
{
	bool		locked;

	Assert(!LWLockHeldByMe(&slot->lock));
	if (LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return true;
	ConditionVariablePrepareToSleep(&slot->changed);
	for (;;)
	{
		locked = false;
		if (need_ms > 0 && pg_atomic_read_u64(&slot->mark) >= need_ms)
			break;
		locked = LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE);
		if (locked)
			break;
		(void) ConditionVariableTimedSleep(&slot->changed, LOCK_RETRY_MS,
										   sf_wait_event(&wait_event_mark,
														 "SnowflakeMark"));
	}
	ConditionVariableCancelSleep();
	return locked;
}

/* Release the slot's lock and wake all waiters. */
void
sf_db_slot_unlock(SfDatabase *slot)
{
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->changed);
}
