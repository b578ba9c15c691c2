/*-------------------------------------------------------------------------
 *
 * registry_age.h
 *	  What a server remembers of the registry, to notice another registry, and
 *	  data loss: an older snapshot, an older copy of its files, an old primary
 *	  that comes back, or an empty registry.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRY_AGE_H
#define SF_REGISTRY_AGE_H

#include "lease/registry.h"

/*
 * Arguments of snowflake_registry_recover(): room for them, the defaults, and
 * the largest reserve that it takes beside the default of the other one.
 */
#define SF_RECOVERY_SIZE	80
#define SF_RECOVER_S		90
#define SF_RECOVER_OFFSET_S	5
#define SF_RECOVER_MAX_S	(INT64_C(31) * 24 * 3600 - SF_RECOVER_OFFSET_S)

/* The memory, kept in a file over restarts (lease_worker.c). */
typedef struct SfKnown
{
	uint64_t	generation;		/* 0: nothing is known yet */
	int64_t		floor_ms;		/* of the generation, in Unix ms */
	int64_t		version;		/* highest slot version, read or written */

	/* The record written last, as it was read; version 0: none. */
	int64_t		newest;			/* its node */
	int64_t		newest_version;

	/* Our last record that the registry acknowledged; 0: none. */
	int64_t		node;
	int64_t		node_version;
	int64_t		node_until_ms;	/* Unix ms: our IDs are below */
	uint64_t	node_owner;		/* of the claim, random */

	/*
	 * How far ahead a server has lately reserved, as far as we know.  If
	 * lease_reserve is lowered everywhere, a server that is cut off can still
	 * issue what it reserved before.
	 */
	int64_t		reserve_ms;
	int64_t		reserve_until_ms;	/* Unix ms: by then all has run out */

	int64_t		lost;			/* 1: this generation has lost data */
} SfKnown;

typedef struct SfAge
{
	SfKnown		known;
	int64_t		promised_ms;	/* in Unix ms, since "known" was kept; 0: none */
	const SfLayout *layout;		/* of the registry's floor */
	char		layout_text[SF_LAYOUT_TEXT_SIZE];
} SfAge;

/* Why a registry is not the one that this server knows, as it knows it. */
typedef enum SfLoss
{
	SF_LOSS_NONE,
	SF_LOSS_ALL,				/* it is empty now */
	SF_LOSS_SOME,				/* it is older than it was */
	SF_LOSS_FLOOR,				/* it succeeds ours, and would give away what
								 * was promised */
	SF_LOSS_OTHER				/* it is another one, and does not succeed
								 * ours */
} SfLoss;

extern void sf_registry_succeed(char *list, const SfRegistry *registry,
								const char *former);
extern void sf_age_init(SfAge *age, const SfKnown *known,
						const SfLayout *layout);
extern int64_t sf_age_promised_ms(const SfAge *age);
extern int64_t sf_age_missing_ms(const SfAge *age, const SfRegistry *registry);
extern int64_t sf_age_reserve_ms(const SfAge *age, int64_t now_ms);
extern const char *sf_age_print_recovery(const SfAge *age,
										 const SfRegistry *registry,
										 int64_t reserve_ms, int64_t now_ms,
										 char *text);
extern SfLoss sf_age_take_reading(SfAge *age, const SfRegistry *registry);
extern bool sf_age_take_write(SfAge *age, uint64_t generation,
							  const SfSlotRecord *record,
							  int64_t registry_version);

#endif							/* SF_REGISTRY_AGE_H */
