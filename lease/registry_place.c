/*-------------------------------------------------------------------------
 *
 * registry_place.c
 *	  Identity of the files that hold a registry in PostgreSQL, to notice a
 *	  copy of them.
 *
 * A base backup that starts without a recovery.signal keeps the system
 * identifier and the timeline, and has lost what was written since.  Two
 * things distinguish it: the place of the data directory, and a random number
 * in a file that base backups leave out (place.h).  Making a database a
 * registry, or recovering one, creates and records both.
 *
 * The machine and the directory's inode prove nothing: a container that is
 * made again, a disk that another machine takes over, and some file systems
 * change them, and a false alarm would stop all servers.  If files are copied
 * back to their old place, the leasing servers notice it, because they
 * remember what the registry had (registry_age.c).
 *
 * A registry's server need not preload the library: none of this uses shared
 * memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xact.h"
#include "base/durable_file.h"
#include "base/place.h"
#include "base/read_only.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"

#define MARK_FILE	SF_PLACE_DIR "/snowflake_registry"

SF_FUNCTION(snowflake_registry_files);

/*
 * Return the random number, or 0 if there is none.  If its file is unreadable,
 * throw an error: a new number would turn this directory into a copy.
 */
static uint64
read_mark(void)
{
	void	   *data;
	size_t		size;
	uint64		mark = 0;

	if (sf_durable_file_read(MARK_FILE, &data, &size) && size == sizeof(mark))
		memcpy(&mark, data, sizeof(mark));
	if (data != NULL)
		pfree(data);
	if (mark == 0 && sf_durable_file_exists(MARK_FILE))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\" in the data directory",
						MARK_FILE),
				 errhint("Make it readable for the server. If it is damaged, remove it, and run in the registry's database: SELECT snowflake_registry.recover();")));
	return mark;
}

/* Create the number, unless another session has done so meanwhile. */
static uint64
make_mark(void)
{
	uint64		mark;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mark = read_mark();
	if (mark == 0)
	{
		if (!pg_strong_random(&mark, sizeof(mark)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random number")));
		mark |= 1;
		(void) sf_place_make_dir(ERROR);
		(void) sf_durable_file_write(MARK_FILE, &mark, sizeof(mark), ERROR);
	}
	LWLockRelease(AddinShmemInitLock);
	return mark;
}

/*
 * snowflake_registry.files(make boolean) returns bigint
 *
 * Return a number that no copy of this data directory has; 0 if it has none
 * and "make" is false.  A number, once made, stays, so making one gives a
 * caller no advantage.
 *
 * Only a transaction that begins or recovers a registry sets "make".  It must
 * see what workers have written while it waited for them.
 *
 * Throws SQLSTATE 25000, 25006, XX001, and errors of files.
 */
Datum
snowflake_registry_files(PG_FUNCTION_ARGS)
{
	bool		make = PG_GETARG_BOOL(0);
	uint64		mark = read_mark();
	SfPlace		here;

	if (make && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot begin or recover a registry at this isolation level"),
				 errdetail("The snapshot may be older than the lock on the registry, and miss what servers have reserved."),
				 errhint("Use READ COMMITTED.")));
	if (mark == 0 && !make)
		PG_RETURN_INT64(0);
	if (mark == 0)
	{
		if (XactReadOnly)
			sf_read_only_refuse("snowflake_registry.files()");
		mark = make_mark();
	}
	sf_place_find(&here);
	PG_RETURN_INT64((int64) (hash_bytes_extended((unsigned char *) here.path,
												 (int) strlen(here.path),
												 mark) | 1));
}
