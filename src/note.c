/*-------------------------------------------------------------------------
 *
 * note.c
 *	  What a clean shutdown leaves for the next start.
 *
 * The mark lies ahead of the IDs that were issued, by up to a reserve, and
 * after a crash nobody knows by how much.  When the postmaster ends after the
 * shutdown checkpoint, it does know: it leaves a note of the time below which
 * all IDs of its life lie, so that the next start needs not wait for the mark.
 *
 * A note that is wrongly believed is a duplicate.  So it counts only
 *
 * - for the very shutdown that wrote it: system identifier and checkpoint are
 *   those of pg_control, and that says that the server was shut down.  IDs
 *   that were issued since, under the same mark, would have left no trace but
 *   this.
 *
 * - once: it is durably removed at the start, before it is used.  No base
 *   backup has it.
 *
 * - not on a standby or in a recovery: more WAL may come, with IDs below the
 *   same mark.
 *
 * - for a database whose mark had been published in that life, since the
 *   counters cover no other, and whose register still says the same.
 *
 * - under the configuration that wrote it.
 *
 * In all other cases the mark alone rules, as after a crash.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "note.h"

#include "access/xlog.h"
#include "common/controldata_utils.h"
#include "file.h"
#include "layout.h"
#include "miscadmin.h"
#include "settings.h"
#include "shard.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "tell.h"

/* In the data directory, which is the working directory. */
#define NOTE_FILE	"snowflake.note"
#define NOTE_MAGIC	0x53464e31	/* also the version of this format */

/* Which shutdown, and under which configuration. */
typedef struct Shutdown
{
	uint64		system_identifier;
	uint64		checkpoint;		/* LSN */
	int64		layout[2];		/* code and epoch of the node's layout */
	int64		shard_layout[2];
} Shutdown;

typedef struct Header
{
	uint32		magic;
	uint32		ndatabases;		/* entries that follow */
	Shutdown	shutdown;
	int64		issued_ms;		/* all IDs of that life are below */
} Header;

typedef struct Entry
{
	uint32		oid;
	uint32		unused;
	int64		mark_ms;
} Entry;

/* The shutdown that pg_control tells of; false if it tells of none. */
static bool
last_shutdown(Shutdown *shutdown)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		clean = crc_ok && control->state == DB_SHUTDOWNED;

	memset(shutdown, 0, sizeof(*shutdown));
	shutdown->system_identifier = control->system_identifier;
	shutdown->checkpoint = control->checkPoint;
	shutdown->layout[0] = sf_layout_code(&sf_node_layout);
	shutdown->layout[1] = sf_node_layout.epoch_ms;
	shutdown->shard_layout[0] = sf_layout_code(&sf_shard_layout);
	shutdown->shard_layout[1] = sf_shard_layout.epoch_ms;
	pfree(control);
	return clean;
}

/* ---- writing ---- */

/* The end of the tick of a counter's position, in Unix ms. */
static int64
issued_below(uint64 position, const SfLayout *layout)
{
	if (position == 0)
		return 0;
	return ((int64) (position >> layout->sequence_bits) + 1) * layout->tick_ms;
}

/* All IDs of this life lie below, in Unix ms; 0 if there are none. */
int64
sf_note_issued_below(void)
{
	int64		end = issued_below(sf_state_last_position(), &sf_node_layout);

	for (int i = 0; i < sf_state->nshards; i++)
		end = Max(end, issued_below(sf_shard_position(i), &sf_shard_layout));
	return end;
}

/*
 * The postmaster ends, all others have ended.  Without a clean end, and after
 * any failure here, there is no note, and the next start may have to wait.
 */
static void
write_note(int code, Datum arg)
{
	Header	   *header;
	Entry	   *entry;
	size_t		size;

	if (code != 0)
		return;
	header = palloc0(sizeof(Header) + sf_state->ndatabases * sizeof(Entry));
	if (!last_shutdown(&header->shutdown))
		return;
	header->magic = NOTE_MAGIC;
	header->issued_ms = sf_note_issued_below();
	entry = (Entry *) (header + 1);
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;

		/* a mark that is not loaded is not covered by the counters */
		entry->mark_ms = (int64) pg_atomic_read_u64(&database->mark);
		if (!OidIsValid(database->oid) || entry->mark_ms == 0)
			continue;
		entry->oid = database->oid;
		entry++;
	}
	size = (char *) entry - (char *) header;
	header->ndatabases = entry - (Entry *) (header + 1);
	if (header->ndatabases > 0)
		(void) sf_file_write(NOTE_FILE, header, size, LOG);
}

/* ---- reading ---- */

/* The note; NULL if there is none, or a broken one. */
static Header *
read_note(void)
{
	void	   *data;
	size_t		size;
	Header	   *header;
	bool		whole = sf_file_read(NOTE_FILE, &data, &size);

	header = data;
	if (whole && header == NULL)
		return NULL;
	if (whole && size >= sizeof(Header) && header->magic == NOTE_MAGIC &&
		size == sizeof(Header) + header->ndatabases * sizeof(Entry))
		return header;
	sf_tell(SF_EVENT_NOTE_DAMAGED,
			"Generation may begin up to snowflake.reserve later.", NULL,
			"ignoring file \"%s\", which is damaged or of another version",
			NOTE_FILE);
	return NULL;
}

/* Is the note about the state in which this server starts? */
static bool
is_ours(const Header *header)
{
	Shutdown	shutdown;

	return !sf_file_exists(STANDBY_SIGNAL_FILE) &&
		!sf_file_exists(RECOVERY_SIGNAL_FILE) &&
		last_shutdown(&shutdown) &&
		memcmp(&shutdown, &header->shutdown, sizeof(shutdown)) == 0;
}

static void
take_up(const Header *header)
{
	const Entry *entry = (const Entry *) (header + 1);
	int			n = Min((int) header->ndatabases, sf_state->ndatabases);

	for (int i = 0; i < n; i++)
	{
		sf_noted[i].oid = entry[i].oid;
		sf_noted[i].mark = entry[i].mark_ms;
	}
	sf_state->noted_ms = header->issued_ms;
}

/*
 * In the postmaster, when the shared memory is new: take up the note of the
 * last shutdown, and see to it that this life's is written.
 */
void
sf_note_at_start(void)
{
	Header	   *header = read_note();

	if (sf_file_exists(NOTE_FILE) && durable_unlink(NOTE_FILE, LOG) == 0 &&
		header != NULL && is_ours(header))
		take_up(header);
	if (header != NULL)
		pfree(header);
	on_shmem_exit(write_note, (Datum) 0);
}

/* ---- use ---- */

/*
 * Where IDs of a database may begin when its mark is loaded, which is at
 * found_ms: there, or earlier if the note says so.  That stays true for the
 * whole life of the server, since the counters know what it has issued, unless
 * the database has got IDs that they know nothing of.
 */
int64
sf_note_floor(Oid database, int64 found_ms)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		if (sf_noted[i].oid == database && sf_noted[i].mark == found_ms)
			return Min(found_ms, sf_state->noted_ms);
	}
	return found_ms;
}

/* What the note says of a database is not true any more. */
void
sf_note_forget(Oid database)
{
	for (int i = 0; i < sf_state->ndatabases; i++)
	{
		if (sf_noted[i].oid == database)
			sf_noted[i].mark = 0;
	}
}
