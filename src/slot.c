/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The slots of databases: which is ours, and who may change its mark.
 *
 * The lock of a slot is held across the flush of its mark, but never waited
 * for: who must wait sleeps on the slot's condition variable, where it can be
 * cancelled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "slot.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/* Wake up as often to see whether the slot's lock was lost to an error. */
#define LOCK_RETRY_MS	100

/* The slot of a register that was made in this transaction: nobody else's. */
static SfDatabase own_slot;

static uint32 wait_event_mark = 0;

static SfDatabase *
find_slot(Oid oid)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		if (sf_databases[i].database.oid == oid)
			return &sf_databases[i].database;
	}
	return NULL;
}

/* A slot of a database that is gone, as its OID and its count; or false. */
static bool
find_gone(Oid *oid, uint32 *attached)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;

		LWLockAcquire(sf_state->lock, LW_SHARED);
		*oid = database->oid;
		*attached = database->attached;
		LWLockRelease(sf_state->lock);

		/* what was created since is not to be taken for gone */
		AcceptInvalidationMessages();
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(*oid)))
			return true;
	}
	return false;
}

/*
 * Find this database's slot, or take one: a free one, or that of a database
 * that is gone.  Nobody is connected to such a database, so nobody uses the
 * slot; should a new database have got its OID meanwhile and have attached,
 * the count tells.
 */
SfDatabase *
sf_slot_take(void)
{
	SfDatabase *slot;
	Oid			gone = InvalidOid;
	uint32		attached = 0;

	for (;;)
	{
		LWLockAcquire(sf_state->lock, LW_EXCLUSIVE);
		slot = find_slot(MyDatabaseId);
		if (slot == NULL)
		{
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
		LWLockRelease(sf_state->lock);
		if (slot != NULL)
			return slot;

		CHECK_FOR_INTERRUPTS();
		if (!find_gone(&gone, &attached))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many databases generate IDs on this server"),
					 errdetail("snowflake.max_databases is %d.",
							   sf_state->ndatabases),
					 errhint("Increase snowflake.max_databases, and restart the server.")));
	}
}

/* This database's slot, which it keeps; NULL if nobody has taken one yet. */
SfDatabase *
sf_slot_find(void)
{
	SfDatabase *slot;

	LWLockAcquire(sf_state->lock, LW_SHARED);
	slot = find_slot(MyDatabaseId);
	LWLockRelease(sf_state->lock);
	return slot;
}

/* The mark that is published for this database; 0 if there is none. */
int64
sf_slot_published_mark(void)
{
	SfDatabase *slot = sf_slot_find();

	return slot == NULL ? 0 : (int64) pg_atomic_read_u64(&slot->mark);
}

/* A slot of our own, that begins where the published mark is. */
SfDatabase *
sf_slot_make_own(void)
{
	int64		mark = sf_slot_published_mark();

	own_slot.oid = MyDatabaseId;
	LWLockInitialize(&own_slot.lock, sf_state->lock->tranche);
	ConditionVariableInit(&own_slot.changed);
	pg_atomic_init_u64(&own_slot.mark, mark);
	pg_atomic_init_u64(&own_slot.early, 0);
	return &own_slot;
}

/*
 * Take the slot's lock.  Returns false instead if meanwhile the mark was
 * published at need_ms or above; 0 waits for the lock whatever happens.
 */
bool
sf_slot_lock(SfDatabase *slot, uint64 need_ms)
{
	bool		locked;

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

/* Let the next one at it, and wake all who wait. */
void
sf_slot_unlock(SfDatabase *slot)
{
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->changed);
}
