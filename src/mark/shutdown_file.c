/*-------------------------------------------------------------------------
 *
 * shutdown_file.c
 *	  The shutdown file: tells the next start where the IDs of a life ended.
 *
 * The mark lies ahead of the issued IDs, by up to a lead, and after a crash
 * no process knows by how much.  But a postmaster that was told to stop, also
 * immediately, knows it when all other processes have ended.  It writes a time
 * below which all IDs of its life lie, so that the next start need not wait
 * for the mark.
 *
 * A file that is wrongly believed causes a duplicate.  The file states a fact
 * about a life that is over.  So it stays true, also in a copy of the file.
 * We must also show that it covers this database's IDs; the stamp does.  It
 * lies beside the mark (mark.c), and says that the counters of its life have
 * reached every ID of the database.  So the file counts for a mark with the
 * stamp of the very life that the file names.  Then the data may be those of
 * that shutdown, or come from a backup or a standby, or have been rolled back.
 *
 * The argument needs five facts:
 *
 * - No other life has made an ID beside that stamp.  A life that finds it
 *   begins at the mark, and must write a later one, with its own stamp, before
 *   it makes an ID.  A life that believes the file writes its own stamp before
 *   it begins below the mark (reconcile() in mark.c).
 *
 * - All IDs of the named life are below the values of its counters, because no
 *   process is left that could swap one.  A postmaster that is killed cannot
 *   know that, and writes no file.
 *
 * - The counters are not damaged.  After a crash of any process the server
 *   distrusts its shared memory; so the postmaster writes no file then.
 *   But once the postmaster was told to stop immediately, it no longer asks
 *   how a process ended.  It does not notice a crash in that moment.
 *
 * - All other ways of writing the mark, such as setval(), remove the stamp.
 *
 * - Layouts and epochs are the same: the time of the last ID says nothing
 *   about IDs of another layout.
 *
 * A start removes the file before it uses it, and no base backup contains it.
 * In all other cases the mark alone counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "mark/mark.h"

#include "base/durable_file.h"
#include "layout/layout.h"
#include "runtime/shmem.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "storage/fd.h"
#include "storage/ipc.h"

/* In the data directory, which is the working directory. */
#define SHUTDOWN_FILE	"snowflake.shutdown"
#define FILE_MAGIC	0x53464e32	/* also the version of this format */

typedef struct Content
{
	uint64		magic;
	int64		life;			/* the stamp of the life; not 0 */
	int64		issued_ms;		/* all IDs of that life are below */

	/* the configuration of that life: codes and epochs */
	int64		layout[2];
	int64		shard_layout[2];
} Content;

/* Fill in a file's content for this life and the present configuration. */
static void
make_content(Content *content, int64 life, int64 issued_ms)
{
	content->magic = FILE_MAGIC;
	content->life = life;
	content->issued_ms = issued_ms;
	content->layout[0] = sf_layout_code(&sf_node_layout);
	content->layout[1] = sf_node_layout.epoch_ms;
	content->shard_layout[0] = sf_layout_code(&sf_shard_layout);
	content->shard_layout[1] = sf_shard_layout.epoch_ms;
}

/* ---- writing ---- */

/*
 * Return a time, in Unix ms, above all IDs of this life, and above the marks
 * that its counters were raised to; 0 without either.
 */
int64
sf_shutdown_file_issued_below(void)
{
	int64		end = sf_layout_slots_issued_below();

	for (int i = 0; i < sf_shmem->nshards; i++)
		end = Max(end, sf_layout_end_of_position(&sf_shard_layout,
												 sf_shard_position(i)));
	return end;
}

/*
 * Write the file when the postmaster ends, after all other processes.  The
 * code is 0 after a shutdown, also after an immediate one.  After a crash it
 * is not: then do not even read the counters, and let the next start wait.
 */
static void
write_shutdown_file(int code, Datum arg)
{
	Content		content;

	Assert(!IsUnderPostmaster);
	if (code != 0 || sf_shmem->life == 0)
		return;
	make_content(&content, sf_shmem->life, sf_shutdown_file_issued_below());
	if (content.issued_ms != 0)
		(void) sf_log_file(sf_durable_file_write(SHUTDOWN_FILE, &content,
												 sizeof(content), LOG),
						   SHUTDOWN_FILE, "After the next start, the first ID may come up to snowflake.reserve later.");
}

/* ---- reading ---- */

/* Read the file; return false if there is none, or it is damaged. */
static bool
read_shutdown_file(Content *content)
{
	void	   *data;
	size_t		size;
	bool		whole = sf_durable_file_read(SHUTDOWN_FILE, &data, &size);

	if (whole && data == NULL)
		return false;
	whole = whole && size == sizeof(Content) &&
		((Content *) data)->magic == FILE_MAGIC;
	if (whole)
		memcpy(content, data, sizeof(Content));
	else
		sf_log_event(SF_EVENT_FILE_DAMAGED,
					 "The first ID may come up to snowflake.reserve later.", NULL,
					 "ignoring file \"%s\", which is damaged or of another version",
					 SHUTDOWN_FILE);
	if (data != NULL)
		pfree(data);
	return whole;
}

/* Return true if the file names a life with the present configuration. */
static bool
is_valid(const Content *content)
{
	Content		present;

	make_content(&present, content->life, content->issued_ms);
	return content->life != 0 &&
		memcmp(&present, content, sizeof(Content)) == 0;
}

/*
 * Load the file of an earlier life into new shared memory, and arrange that
 * this life's is written.  Called in the postmaster.
 */
void
sf_shutdown_file_at_start(void)
{
	Content		content;
	bool		whole = read_shutdown_file(&content);

	Assert(!IsUnderPostmaster);
	if (sf_durable_file_exists(SHUTDOWN_FILE) &&
		durable_unlink(SHUTDOWN_FILE, LOG) == 0 &&
		whole && is_valid(&content))
	{
		sf_shmem->shutdown_life = content.life;
		sf_shmem->shutdown_ms = content.issued_ms;
	}
	on_shmem_exit(write_shutdown_file, (Datum) 0);
}
