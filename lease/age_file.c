/*-------------------------------------------------------------------------
 *
 * age_file.c
 *	  The file in which the worker keeps what it remembers of the registry
 *	  (registry_age.h) over restarts.
 *
 * The content was true when it was written, and stays true.  So an older file,
 * or that of another server, does no harm; it only notices less.  Therefore
 * base backups and pg_rewind may copy it, and most changes may wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include "base/clock.h"
#include "base/durable_file.h"

#define AGE_MAGIC	0x53464131	/* also the version of this format */

#define KEEP_MS		(30 * 1000)

typedef struct AgeFile
{
	uint32		magic;
	uint32		unused;
	SfKnown		known;
} AgeFile;

/* What the file holds, and the last attempt to write it. */
typedef struct KeptFile
{
	SfKnown		known;
	int64		tried_ms;		/* monotonic */
	bool		failed;
} KeptFile;

static SfAge age;
static KeptFile kept;

/*
 * Share what is remembered, before a session issues an ID on what the registry
 * has promised.  The until of a slot that is claimed later may be lower.
 */
static void
share(void)
{
	uint64		ms = (uint64) sf_age_promised_ms(&age);

	sf_lease_shared->known = age.known;
	if (ms > pg_atomic_read_u64(&sf_lease_shared->promised_ms))
		pg_atomic_write_u64(&sf_lease_shared->promised_ms, ms);
}

/* Load what the worker before has shared, or the file, if there is one. */
SfAge *
sf_age_file_load(void)
{
	void	   *data;
	size_t		size;
	bool		whole = sf_durable_file_read(SF_AGE_FILE, &data, &size);
	AgeFile    *file = data;

	if (file != NULL && whole && size == sizeof(AgeFile) &&
		file->magic == AGE_MAGIC)
		kept.known = file->known;
	else if ((file != NULL || !whole) && !sf_lease_shared->begun)
		sf_core->log_event(SF_EVENT_FILE_DAMAGED,
						   "If the registry lost data before this start, this server does not notice.",
						   NULL,
						   "ignoring file \"%s\", which is damaged or of another version",
						   SF_AGE_FILE);
	if (data != NULL)
		pfree(data);
	sf_age_init(&age, sf_lease_shared->begun ? &sf_lease_shared->known :
				&kept.known, sf_core->registry, sf_core->layout);
	share();
	return &age;
}

/* Load the memory in a process other than the worker. */
static SfAge
look_into_file(void)
{
	AgeFile		file;
	SfAge		loaded;

	(void) sf_durable_file_read_struct(SF_AGE_FILE, &file, sizeof(file),
									   AGE_MAGIC);
	sf_age_init(&loaded, &file.known, sf_core->registry, sf_core->layout);
	return loaded;
}

/*
 * Return in any process what sf_age_promised_ms() says of this server.  What
 * was promised since a worker has loaded the file is published; the file has
 * what was promised before.
 */
int64_t
sf_age_file_promised_ms(void)
{
	SfAge		loaded = look_into_file();

	return Max(sf_age_promised_ms(&loaded), (int64)
			   pg_atomic_read_u64(&sf_lease_shared->promised_ms));
}

/* Return in any process what sf_age_reserve_ms() says of this server. */
int64_t
sf_age_file_reserve_ms(void)
{
	SfAge		loaded = look_into_file();

	return sf_age_reserve_ms(&loaded, sf_clock_wall_ms());
}

/*
 * Write what has changed.  Write at once which registry it is, what we have
 * claimed there and how far ahead, and whether it has lost data.  Write its
 * growth every 30 s, or if "now" is set.  After a failure, try again every 30 s.
 */
void
sf_age_file_keep(bool now)
{
	const SfKnown *known = &age.known;
	int64		now_ms = sf_clock_monotonic_ms();
	AgeFile		file;

	share();
	if (memcmp(known, &kept.known, sizeof(SfKnown)) == 0 ||
		(!now && now_ms - kept.tried_ms < KEEP_MS &&
		 (kept.failed || (known->text == kept.known.text &&
						  known->generation == kept.known.generation &&
						  known->node == kept.known.node &&
						  known->reserve_ms == kept.known.reserve_ms &&
						  known->lost == kept.known.lost))))
		return;
	memset(&file, 0, sizeof(file));
	file.magic = AGE_MAGIC;
	file.known = *known;
	kept.failed = !sf_core->log_file(sf_durable_file_write(SF_AGE_FILE, &file,
														   sizeof(file), LOG),
									 SF_AGE_FILE, "If this server restarts before it is written, it may not notice that the registry has lost data.");
	kept.tried_ms = now_ms;
	if (!kept.failed)
		kept.known = file.known;
}
