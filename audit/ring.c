/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  Records of transactions, on their way from sessions to the log: a ring in
 *	  shared memory for each audited database.
 *
 * A session that ends a transaction never waits here, for nobody.  It takes a
 * position by compare-and-swap, fills its record, and marks the record as
 * complete.  If the ring is full, it drops the record and counts it.  There is
 * no lock that a session which was frozen could hold: then the reader stops
 * before its record, and at worst the ring becomes full.
 *
 * The ring's worker is its only reader that releases records.  A record stays
 * until another one takes its place, released or not.  A session that only
 * looks copies a record, and looks again whether it is still the same.
 *
 * A session finds its ring by the name of its database, which nobody can
 * change while it is connected.  A process without a client, such as
 * autovacuum, finds its ring by the OID that the ring's worker has set.  Until
 * a worker has begun, what such a process makes is not recorded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

/*
 * libpq-be.h would include Kerberos' headers, which a build may lack.  Port is
 * the same without them, as its comment says.
 */
#undef ENABLE_GSS

#include "ring.h"

#include <signal.h>

#include "common/ip.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

int			sf_ring_count = 0;

static NameData *names;			/* of the databases */
static char *rings = NULL;		/* in shared memory */

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* ---- shared memory ---- */

static Size
size_of_ring(void)
{
	return CACHELINEALIGN(add_size(offsetof(SfRing, record),
								   mul_size(sf_audit_ring_size,
											sizeof(SfRecord))));
}

SfRing *
sf_ring_get(int i)
{
	return (SfRing *) (rings + i * size_of_ring());
}

/* Return the ring of this process' database, or NULL. */
SfRing *
sf_ring_of_database(void)
{
	static int	known = -1;		/* a session's; sf_ring_count: none */

	if (rings == NULL)
		return NULL;
	if (MyProcPort != NULL && known < 0)
	{
		for (known = 0; known < sf_ring_count; known++)
		{
			if (strncmp(MyProcPort->database_name, NameStr(names[known]),
						NAMEDATALEN - 1) == 0)
				break;
		}
	}
	if (MyProcPort != NULL)
		return known < sf_ring_count ? sf_ring_get(known) : NULL;
	for (int i = 0; i < sf_ring_count; i++)
	{
		SfRing	   *ring = sf_ring_get(i);

		if (pg_atomic_read_u32(&ring->database) == MyDatabaseId)
			return ring;
	}
	return NULL;
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(mul_size(sf_ring_count, size_of_ring()));
}

static void
init_ring(SfRing *ring, const NameData *name)
{
	memset(ring, 0, size_of_ring());
	ring->name = *name;
	if (!pg_strong_random(&ring->life, sizeof(ring->life)))
		ring->life = (uint64) GetCurrentTimestamp();
	SpinLockInit(&ring->problem_lock);
	pg_atomic_init_u32(&ring->database, InvalidOid);
	pg_atomic_init_u32(&ring->pid, 0);
	pg_atomic_init_u64(&ring->head, 0);
	pg_atomic_init_u64(&ring->tail, 0);
	pg_atomic_init_u64(&ring->dropped, 0);
	pg_atomic_init_u64(&ring->dropped_ever, 0);
	pg_atomic_init_u64(&ring->skipped, 0);
	for (int i = 0; i < sf_audit_ring_size; i++)
		pg_atomic_init_u64(&ring->record[i].ready, 0);
}

static void
create_shared_memory(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	rings = ShmemInitStruct("snowflake_audit",
							mul_size(sf_ring_count, size_of_ring()), &found);
	for (int i = 0; !found && i < sf_ring_count; i++)
		init_ring(sf_ring_get(i), &names[i]);
	LWLockRelease(AddinShmemInitLock);
}

#ifdef SF_FAULTS
/* "exit" ends this process, "stop" freezes it until SIGCONT. */
void
sf_ring_fault(const char *place)
{
	const char *fault = GetConfigOption("snowflake.fault", true, false);
	size_t		length = strlen(place);

	if (fault == NULL || strncmp(fault, place, length) != 0)
		return;
	if (strcmp(fault + length, " exit") == 0)
		proc_exit(1);
	if (strcmp(fault + length, " stop") == 0)
		raise(SIGSTOP);
}
#endif

/* ---- sessions ---- */

/* Return the client's address, or an empty text. */
static const char *
client_addr(void)
{
	static char address[SF_ADDRESS_SIZE];
	static bool known = false;

	if (known || MyProcPort == NULL)
		return address;
	known = true;
	if (MyProcPort->raddr.addr.ss_family == AF_UNIX ||
		pg_getnameinfo_all(&MyProcPort->raddr.addr, MyProcPort->raddr.salen,
						   address, sizeof(address), NULL, 0,
						   NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		address[0] = '\0';
	/* the type inet takes no scope */
	clean_ipv6_addr(MyProcPort->raddr.addr.ss_family, address);
	return address;
}

/* Append a text with its end; return what is behind it. */
static char *
append_text(char *at, const char *text, size_t size)
{
	size_t		length = strnlen(text, size - 1);

	memcpy(at, text, length);
	at[length] = '\0';
	return at + length + 1;
}

/* Fill a record, but for "ready" and "dropped". */
static void
fill(SfRecord *record, XactEvent event, const SfMade *made)
{
	FullTransactionId xid = GetTopFullTransactionIdIfAny();
	char	   *at = record->texts;

	record->ended_at = GetCurrentTransactionStopTimestamp();
	record->xid = FullTransactionIdIsValid(xid) ?
		U64FromFullTransactionId(xid) : 0;
	record->first = made->first;
	record->last = made->last;
	record->count = made->count;
	record->shard = made->shard;
	record->event = event;
	record->database = MyDatabaseId;
	record->role = GetSessionUserId();
	record->pid = MyProcPid;
	at = append_text(at, made->layout, SF_LAYOUT_TEXT_SIZE);
	at = append_text(at, application_name != NULL ? application_name : "",
					 NAMEDATALEN);
	(void) append_text(at, client_addr(), SF_ADDRESS_SIZE);
}

static void
drop(SfRing *ring)
{
	pg_atomic_fetch_add_u64(&ring->dropped, 1);
	pg_atomic_fetch_add_u64(&ring->dropped_ever, 1);
}

/* Take the next position of the ring; false: it is full. */
static bool
take_position(SfRing *ring, uint64 *position)
{
	uint64		head = pg_atomic_read_u64(&ring->head);

	do
	{
		/* negative if others have gone on since: then the swap fails */
		int64		waiting = (int64)
			(head - pg_atomic_read_u64(&ring->tail));
		Latch	   *worker = ring->worker;

		if (waiting >= sf_audit_ring_size)
			return false;
		if (waiting == sf_audit_ring_size / 2 && worker != NULL)
			SetLatch(worker);
	} while (!pg_atomic_compare_exchange_u64(&ring->head, &head, head + 1));
	*position = head;
	return true;
}

static void
push(SfRing *ring, XactEvent event, const SfMade *made)
{
	uint64		position;
	SfRecord   *record;

	if (!take_position(ring, &position))
	{
		drop(ring);
		return;
	}
	record = &ring->record[position % sf_audit_ring_size];
	pg_atomic_write_u64(&record->ready, 0);
	pg_write_barrier();
	SF_AUDIT_FAULT("audit-taken");
	fill(record, event, made);
	record->dropped = 0;
	if (pg_atomic_read_u64(&ring->dropped) != 0)
		record->dropped = pg_atomic_exchange_u64(&ring->dropped, 0);
	pg_write_barrier();
	pg_atomic_write_u64(&record->ready, position + 1);
}

/*
 * Record an ended transaction, which is part of its end: no error may come
 * from here.  What the worker makes itself, by triggers of the log, would be
 * written for ever.
 */
static void
record_transaction(XactEvent event, const SfMade *made, int n, bool more)
{
	SfRing	   *ring = sf_ring_of_database();

	if (ring == NULL || pg_atomic_read_u32(&ring->pid) == (uint32) MyProcPid)
		return;
	for (int i = 0; i < n; i++)
		push(ring, event, &made[i]);
	if (more)
		drop(ring);
}

/* ---- readers ---- */

uint64
sf_ring_tail(SfRing *ring)
{
	return pg_atomic_read_u64(&ring->tail);
}

/*
 * Return the record at a position, or NULL if it is not complete.  For the
 * worker: it is valid until it is released.
 */
const SfRecord *
sf_ring_read(SfRing *ring, uint64 position)
{
	SfRecord   *record = &ring->record[position % sf_audit_ring_size];

	if (pg_atomic_read_u64(&record->ready) != position + 1)
		return NULL;
	pg_read_barrier();
	return record;
}

/* Copy the record at a position; false if it is not there any more, or yet. */
bool
sf_ring_copy(SfRing *ring, uint64 position, SfRecord *record)
{
	const SfRecord *shared = sf_ring_read(ring, position);

	if (shared == NULL)
		return false;
	*record = *shared;
	pg_read_barrier();
	return sf_ring_read(ring, position) != NULL;
}

const char *
sf_ring_text(const SfRecord *record, SfText which)
{
	const char *text = record->texts;

	for (int i = 0; i < (int) which; i++)
		text += strlen(text) + 1;
	return text;
}

/* Release the records below this position, for the worker. */
void
sf_ring_release(SfRing *ring, uint64 position)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&ring->tail, position);
}

/* ---- why records wait ---- */

/*
 * Note the first line of a message, for the worker; "" if all is well again.
 * Only ASCII: the reader's database may have another encoding.
 */
void
sf_ring_set_problem(SfRing *ring, const char *problem)
{
	char		line[SF_PROBLEM_SIZE] = "";

	for (int i = 0; i < SF_PROBLEM_SIZE - 1 &&
		 problem[i] != '\0' && problem[i] != '\n'; i++)
		line[i] = IS_HIGHBIT_SET(problem[i]) ? '?' : problem[i];
	SpinLockAcquire(&ring->problem_lock);
	memcpy(ring->problem, line, sizeof(line));
	SpinLockRelease(&ring->problem_lock);
}

/* Copy it; "problem" has SF_PROBLEM_SIZE bytes. */
void
sf_ring_get_problem(SfRing *ring, char *problem)
{
	SpinLockAcquire(&ring->problem_lock);
	memcpy(problem, ring->problem, SF_PROBLEM_SIZE);
	SpinLockRelease(&ring->problem_lock);
}

/* ---- start ---- */

/* Install the hooks, while shared_preload_libraries is processed. */
void
sf_ring_install(List *databases)
{
	ListCell   *cell;

	names = MemoryContextAllocZero(TopMemoryContext,
								   list_length(databases) * sizeof(NameData));
	foreach(cell, databases)
		namestrcpy(&names[sf_ring_count++], lfirst(cell));
	*find_rendezvous_variable(SF_MADE_HOOK) = (void *) record_transaction;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}
