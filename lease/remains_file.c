/*-------------------------------------------------------------------------
 *
 * remains_file.c
 *	  The file with which the next life of a killed server resumes the lease of
 *	  its pinned node id at once.
 *
 * Without it no server may claim the slot before its reserve is over, not even
 * the same server, because the registry cannot tell it from a copy.  A server
 * without a pinned node id claims another slot, and does not need this.
 *
 * The file says which write the registry has acknowledged last.  If the
 * registry's record still has that write_id, no server has claimed the slot
 * since.  The claim, which is conditional on that, takes the slot from the
 * previous life (SfClaimant).  Two things must be certain:
 *
 * - That life has ended, and is not the original of which this is a copy.  So
 *   the file counts only in the same directory, by device and inode, under the
 *   same kernel, by its boot ID, with the marker of this server (identity.c).
 *   There the server's own interlock admits one postmaster, and only after all
 *   processes of the previous one have ended.  A base backup does not contain
 *   the file, a copied file lies in another directory, a snapshot of the
 *   volume is another device, and a machine that was cloned or moved with its
 *   disk has booted.  A machine that is cloned while it runs has the right
 *   twice in any case, until one of the two writes next.  The next life of one
 *   of them changes nothing about that, because it begins with such a write.
 *
 * - Nothing is issued twice.  In each database the mark ensures that, as for a
 *   node id that is not leased: under the same kernel no WAL was lost, and on
 *   the same timeline none was discarded.  Two databases might still share
 *   IDs; so the claim begins above what the previous life may have issued by
 *   its clock.  If the clock was set back since, that counts as far as it was
 *   ahead when the file was last written; after that, two databases of the
 *   server may share IDs (doc/node-ids.md).  Within one life, the counter
 *   knows what was issued.
 *
 * If the file cannot be written, the one before stays: it has the write_id of
 * an older record, and does not count.
 *
 * The file need not be on disk: after a crash of the machine it would not
 * count anyway.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/durable_file.h"
#include "common/file_utils.h"
#include "storage/fd.h"

/* Beside the marker, where base backups do not look; pg_rewind removes it. */
#define REMAINS_FILE	"global/" PG_TEMP_FILES_DIR "/snowflake_lease"
#define REMAINS_MAGIC	0x53464c32	/* also the version of this format */

#define BOOT_FILE		"/proc/sys/kernel/random/boot_id"

/*
 * The largest snowflake.max_clock_drift, which is rounded up to the ticks of
 * each layout in use: by less than SF_MAX_TICK_MS.
 */
#define MAX_DRIFT_MS	1000

/* The directory, the running kernel, and the directory's history. */
typedef struct Place
{
	char		boot[40];		/* empty: unknown */
	uint64		device;
	uint64		inode;
	uint64		server;			/* 0: a copy */
	uint64		timeline;
} Place;

/* The lease; the write_id is 0 if there is nothing to resume. */
typedef struct Left
{
	uint64		write_id;
	int64		start_ms;		/* start of the lease; Unix ms */
	int64		node;
} Left;

typedef struct Remains
{
	uint32		magic;
	uint32		unused;
	Place		place;
	int64		offset_ms;		/* highest wall clock - time since boot */
	Left		left;
} Remains;

static int64 highest_offset_ms = PG_INT64_MIN;	/* of this life */

/* Find our place; return false if that is impossible. */
static bool
find_place(Place *here)
{
	FILE	   *file = AllocateFile(BOOT_FILE, PG_BINARY_R);
	struct stat st;

	memset(here, 0, sizeof(Place));
	if (file != NULL)
	{
		if (fread(here->boot, 1, sizeof(here->boot) - 1, file) == 0)
			here->boot[0] = '\0';
		FreeFile(file);
	}
	if (stat(".", &st) != 0)
		return false;
	here->device = (uint64) st.st_dev;
	here->inode = (uint64) st.st_ino;
	here->server = sf_core->server();
	here->timeline = GetWALInsertionTimeLine();
	return here->boot[0] != '\0' && here->server != 0;
}

/*
 * Return the first tick since the layout's epoch above all that the previous
 * life may have issued.
 */
static int64
find_end(const Remains *remains, const SfLayout *layout)
{
	SfMoment	now = sf_lease_worker_clocks();
	int64		ms = Max(now.wall_ms, now.monotonic_ms + remains->offset_ms);

	ms = Max(ms + MAX_DRIFT_MS + SF_MAX_TICK_MS, remains->left.start_ms);
	return sf_layout_ms_to_tick(layout, ms) + 1 - layout->epoch_tick;
}

static bool
is_pinned(const SfClaimant *claimant)
{
	return claimant->first_node == claimant->last_node;
}

/* Load what may be resumed of the previous life's lease. */
void
sf_remains_file_load(SfClaimant *claimant)
{
	Remains		remains;
	Place		here;

	claimant->last_write_id = 0;
	if (!is_pinned(claimant) ||
		!sf_durable_file_read_struct(REMAINS_FILE, &remains, sizeof(remains),
									 REMAINS_MAGIC) ||
		!find_place(&here) ||
		memcmp(&here, &remains.place, sizeof(Place)) != 0)
		return;
	highest_offset_ms = Max(highest_offset_ms, remains.offset_ms);
	claimant->last_held = (uint32) remains.left.node;
	claimant->last_write_id = remains.left.write_id;
	claimant->last_until = find_end(&remains, claimant->layout);
}

/* Follow how far ahead the wall clock was in this life. */
void
sf_remains_file_see_clock(void)
{
	SfMoment	now = sf_lease_worker_clocks();

	highest_offset_ms = Max(highest_offset_ms,
							now.wall_ms - now.monotonic_ms);
}

/*
 * Keep this right for the next life; a write_id of 0 says that there is
 * nothing to resume.  Until this life has had a right, the file has what the
 * previous one left.
 */
void
sf_remains_file_keep(const SfClaimant *claimant, const SfRight *right)
{
	Remains		remains;

	if (!is_pinned(claimant))
		return;
	memset(&remains, 0, sizeof(remains));
	if (right->write_id == 0)
	{
		(void) unlink(REMAINS_FILE);
		return;
	}
	if (!find_place(&remains.place))
		return;
	remains.magic = REMAINS_MAGIC;
	remains.offset_ms = highest_offset_ms;
	remains.left.write_id = right->write_id;
	remains.left.node = right->node;
	remains.left.start_ms = sf_layout_after_epoch_ms(claimant->layout,
													 right->start);
	(void) sf_core->log_file(sf_file_write_behind(REMAINS_FILE, &remains,
												  sizeof(remains), LOG),
							 REMAINS_FILE, "After a crash, this server gets its node id again only when its reservation is over.");
}
