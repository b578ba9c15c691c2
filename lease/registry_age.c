/*-------------------------------------------------------------------------
 *
 * registry_age.c
 *	  Detection of a registry that has lost data, by what this server
 *	  remembers.
 *
 * A registry only grows: within one generation no version of a record goes
 * down, and each recovery begins another generation, whose floor is not below
 * the one before.  So a server remembers the highest version that it has read
 * or that was acknowledged, the record that had it, its own record, and the
 * generation with its floor, and each until that was confirmed to it.  A
 * registry that shows less has lost data.  What other servers have reserved is
 * not remembered: they may have given it back.
 *
 * The converse does not hold.  A server that knows nothing newer than the rest
 * cannot notice the loss.  Nor can a server that looks late, after others have
 * written as much to the older registry as it knows of.  So a generation that
 * was found to have lost data once stays refused.
 *
 * The memory is a lower bound, so an older memory is never wrong; it only
 * notices less.  Therefore a base backup may contain the file: the registry
 * has grown since, and everything that the copy remembers is still true.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/registry_age.h"

#include <stdio.h>
#include <string.h>

/* A day is the most that snowflake.lease_reserve can be; clocks may differ. */
#define MAX_RESERVE_MS	(INT64_C(25) * 3600 * 1000)

/* Hash a text (FNV-1a), so that the file need not hold its password. */
uint64_t
sf_age_hash(const char *text)
{
	uint64_t	hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * Begin with what an earlier life of the server knew, or with NULL.  "text" is
 * that of snowflake.registry.
 */
void
sf_age_init(SfAge *age, const SfKnown *known, const char *text,
			const SfLayout *layout)
{
	memset(age, 0, sizeof(SfAge));
	if (known != NULL)
		age->known = *known;
	age->text = sf_age_hash(text);
	age->layout = layout;
	sf_layout_print(layout, age->layout_text, sizeof(age->layout_text));
}

/* Convert a tick of the registry's layout since its epoch into Unix ms. */
static int64_t
to_ms(const SfAge *age, int64_t tick)
{
	const SfLayout *layout = age->layout;

	if (tick > SF_END_OF_TICKS)
		tick = SF_END_OF_TICKS;
	return sf_layout_after_epoch_ms(layout, tick);
}

/*
 * Return a time, in Unix ms, below which the configured registry gives nothing
 * away: claims begin later, or it has promised these times to us. 0 if this
 * server knows nothing of the registry.
 */
int64_t
sf_age_promised_ms(const SfAge *age)
{
	const SfKnown *known = &age->known;

	if (known->generation == 0 || known->text != age->text)
		return 0;
	return known->floor_ms > known->node_until_ms ?
		known->floor_ms : known->node_until_ms;
}

/*
 * Return how far ahead of its clock a server may still have reserved at this
 * time, in Unix ms, as far as we know.
 */
int64_t
sf_age_reserve_ms(const SfAge *age, int64_t now_ms)
{
	return now_ms < age->known.reserve_until_ms ? age->known.reserve_ms : 0;
}

/*
 * Remember how far ahead a record is reserved.  A smaller reserve replaces a
 * larger one when that has run out twice over: another server may have written
 * so much later.  What no server reserves comes from one that lies.
 */
static void
remember_reserve(SfAge *age, const SfSlotRecord *record)
{
	int64_t		until_ms = to_ms(age, record->until);
	SfKnown    *known = &age->known;

	if (record->released || record->reserve_ms > MAX_RESERVE_MS ||
		(record->reserve_ms < known->reserve_ms &&
		 until_ms - record->reserve_ms < known->reserve_until_ms))
		return;
	known->reserve_ms = record->reserve_ms;
	known->reserve_until_ms = until_ms + record->reserve_ms;
}

static bool
is_superseded(const SfKnown *known, uint64_t generation)
{
	for (int i = 0; i < SF_AGE_SUPERSEDED; i++)
	{
		if (known->superseded[i] == generation)
			return true;
	}
	return false;
}

/* Accept another generation as the registry's. */
static void
accept_generation(SfAge *age, const SfRegistry *registry)
{
	SfKnown		old = age->known;
	SfKnown    *known = &age->known;

	memset(known, 0, sizeof(SfKnown));
	known->text = age->text;
	known->generation = registry->generation;
	known->floor_ms = to_ms(age, registry->floor);
	memcpy(known->superseded, old.superseded, sizeof(known->superseded));
	if (old.generation == 0)
		return;
	memmove(&known->superseded[1], &known->superseded[0],
			sizeof(known->superseded) - sizeof(known->superseded[0]));
	known->superseded[0] = old.generation;
}

/* Return the version of a slot's record; 0: it was never written. */
static int64_t
version_of(const SfRegistry *registry, int64_t node)
{
	const SfSlotRecord *record = sf_slot_record_find(registry,
													 (uint32_t) node);

	return record == NULL ? 0 : record->version;
}

/*
 * Return true if the registry shows less of this generation than we know.  If
 * others have written more to an older registry than it had lost, the highest
 * version no longer shows the loss, but these two records do.
 */
static bool
is_older(const SfKnown *known, const SfRegistry *registry)
{
	return registry->version < known->version ||
		version_of(registry, known->newest) < known->newest_version ||
		version_of(registry, known->node) < known->node_version;
}

/*
 * Compare a registry that was read with the memory, and remember what is new.
 * A registry for another layout is ignored: it will not be used anyway.
 */
SfLoss
sf_age_take_reading(SfAge *age, const SfRegistry *registry)
{
	SfKnown    *known = &age->known;

	if (!registry->initialized)
		return known->generation != 0 && known->text == age->text ?
			SF_LOSS_ALL : SF_LOSS_NONE;
	if (strcmp(registry->layout, age->layout_text) != 0)
		return SF_LOSS_NONE;
	if (is_superseded(known, registry->generation))
		return SF_LOSS_SUPERSEDED;
	if (registry->generation != known->generation)
	{
		if (to_ms(age, registry->floor) < sf_age_promised_ms(age))
			return SF_LOSS_FLOOR;
		accept_generation(age, registry);
	}
	known->text = age->text;
	if (is_older(known, registry))
		known->lost = 1;
	if (known->lost)
		return SF_LOSS_SOME;
	for (int i = 0; i < registry->nrecords; i++)
		remember_reserve(age, &registry->records[i]);
	known->version = registry->version;
	known->newest = registry->newest;
	known->newest_version = version_of(registry, registry->newest);
	return SF_LOSS_NONE;
}

/*
 * Remember an acknowledged write of a slot, and the version that it gave the
 * registry: each write gets one above those known, or the registry has lost
 * data.  Return false if it has, and for a write to another generation: then
 * the write must not be relied upon.
 */
bool
sf_age_take_write(SfAge *age, uint64_t generation, const SfSlotRecord *record,
				  int64_t registry_version)
{
	SfKnown    *known = &age->known;

	if (generation != known->generation)
		return false;
	if (registry_version <= known->version)
		known->lost = 1;
	if (known->lost)
		return false;
	known->version = registry_version;
	known->node = record->node;
	known->node_version = record->version;
	known->node_until_ms = to_ms(age, record->until);
	remember_reserve(age, record);
	return true;
}
