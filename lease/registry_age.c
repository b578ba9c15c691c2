/*-------------------------------------------------------------------------
 *
 * registry_age.c
 *	  Detection of another registry, and of one that has lost data, by what
 *	  this server remembers.
 *
 * Two registries give away the same timestamps.  So a server that has leased
 * from one uses no other, until an administrator has said there that no server
 * leases from the former one any more.  The name of a registry is its
 * generation, which is random.  Each registry lists the generations that it
 * succeeds: its own before a recovery, and those of other registries that an
 * administrator has named to the recovery.  A server uses the generation that
 * it knows, or one that succeeds it.  A server that knows none uses any.
 *
 * A registry only grows: within one generation no version of a record goes
 * down, and each recovery begins another generation, whose floor is not below
 * the one before, nor below an until whose record is lost.  So a server
 * remembers the highest version that it has read or that was acknowledged, the
 * record that had it, its own record, and the generation with its floor, and
 * each until that was confirmed to it.  A registry that shows less has lost
 * data.  What other servers have reserved is not remembered: they may have
 * given it back.
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

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A day is the most that snowflake.lease_reserve can be; clocks may differ. */
#define MAX_RESERVE_MS	(INT64_C(25) * 3600 * 1000)

/*
 * List what a recovery of this registry succeeds: its generation, then
 * "former", which may be empty, then what it succeeds already.  Of too many,
 * the oldest are dropped: servers that know no later one have to be admitted
 * by another recovery.
 */
void
sf_registry_succeed(char *list, const SfRegistry *registry, const char *former)
{
	/* 30 of the latter */
	snprintf(list, SF_FORMER_SIZE, "%016" PRIx64 "%s%.16s%s%.509s",
			 registry->generation, former[0] != '\0' ? " " : "", former,
			 registry->former[0] != '\0' ? " " : "", registry->former);
}

static bool
succeeds(const SfRegistry *registry, uint64_t generation)
{
	char		text[17];

	snprintf(text, sizeof(text), "%016" PRIx64, generation);
	return generation == 0 || strstr(registry->former, text) != NULL;
}

/* Begin with what an earlier life of the server knew, or with NULL. */
void
sf_age_init(SfAge *age, const SfKnown *known, const SfLayout *layout)
{
	memset(age, 0, sizeof(SfAge));
	if (known != NULL)
		age->known = *known;
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
 * Return a time, in Unix ms, below which the registry gives nothing away:
 * claims begin later, or it has promised these times to us.  0 if this server
 * has never leased.
 */
int64_t
sf_age_promised_ms(const SfAge *age)
{
	const SfKnown *known = &age->known;
	int64_t		ms = known->floor_ms > known->node_until_ms ?
		known->floor_ms : known->node_until_ms;

	return ms > age->promised_ms ? ms : age->promised_ms;
}

/*
 * Return what a recovery's floor must not be below, in Unix ms, of what this
 * server was promised.  If the registry still has the last record of our
 * claim, with the promised until or released, no claim of that slot begins
 * below what we issued.  Then the floor need not be so high: it holds up all
 * servers, and the until may lie far ahead, reserved while all clocks were
 * wrong.  Another registry has no record with the owner of our claim, which is
 * random, unless it is a copy, made after our last write.
 */
int64_t
sf_age_missing_ms(const SfAge *age, const SfRegistry *registry)
{
	const SfKnown *known = &age->known;
	const SfSlotRecord *record;
	int64_t		promised_ms = sf_age_promised_ms(age);

	record = sf_slot_record_find(registry, (uint32_t) known->node);
	if (promised_ms > known->floor_ms && known->node_owner != 0 &&
		record != NULL &&
		(record->owner == known->node_owner || record->owner == 0) &&
		strcmp(registry->layout, age->layout_text) == 0 &&
		(to_ms(age, record->until) >= promised_ms ||
		 (record->owner != 0 && record->released &&
		  promised_ms <= known->node_until_ms)))
		return known->floor_ms;
	return promised_ms;
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
 * Print the arguments with which a recovery lets this server in: how far ahead
 * it reserves, at least the default and what this server knows of; and the
 * generation that it knows, if it has leased before.  The registry that was
 * read may lack what it has promised; NULL if it was not read.
 */
const char *
sf_age_print_recovery(const SfAge *age, const SfRegistry *registry,
					  int64_t reserve_ms, int64_t now_ms, char *text)
{
	int64_t		known = sf_age_reserve_ms(age, now_ms);
	int64_t		missing = registry == NULL ? 0 :
		sf_age_missing_ms(age, registry) - now_ms;
	int			len;

	if (reserve_ms < missing)
		reserve_ms = missing;
	if (reserve_ms < known)
		reserve_ms = known;
	if (reserve_ms < SF_RECOVER_S * 1000)
		reserve_ms = SF_RECOVER_S * 1000;
	if (reserve_ms > SF_RECOVER_MAX_S * 1000)
		reserve_ms = SF_RECOVER_MAX_S * 1000;
	len = snprintf(text, SF_RECOVERY_SIZE, "interval '%d s'",
				   (int) ((reserve_ms + 999) / 1000));
	if (age->known.generation != 0)
		snprintf(text + len, SF_RECOVERY_SIZE - len,
				 ", interval '%d s', '%016" PRIx64 "'", SF_RECOVER_OFFSET_S,
				 age->known.generation);
	return text;
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

/* Accept another generation, which succeeds the known one. */
static void
accept_generation(SfAge *age, const SfRegistry *registry)
{
	SfKnown		old = age->known;
	SfKnown    *known = &age->known;

	memset(known, 0, sizeof(SfKnown));
	known->generation = registry->generation;
	known->floor_ms = to_ms(age, registry->floor);
	if (old.node_until_ms > known->floor_ms)
	{
		/* our record keeps this promise, so the next generation must, too */
		known->node = old.node;
		known->node_until_ms = old.node_until_ms;
		known->node_owner = old.node_owner;
	}
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
		return known->generation != 0 ? SF_LOSS_ALL : SF_LOSS_NONE;
	if (strcmp(registry->layout, age->layout_text) != 0)
		return SF_LOSS_NONE;
	if (registry->generation != known->generation)
	{
		if (!succeeds(registry, known->generation))
			return SF_LOSS_OTHER;
		if (to_ms(age, registry->floor) < sf_age_missing_ms(age, registry))
			return SF_LOSS_FLOOR;
		accept_generation(age, registry);
	}
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
	known->node_owner = record->owner;
	remember_reserve(age, record);
	return true;
}
