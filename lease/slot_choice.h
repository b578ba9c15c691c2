/*-------------------------------------------------------------------------
 *
 * slot_choice.h
 *	  Choice of the slot to claim, and of the claim's first timestamp.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SLOT_CHOICE_H
#define SF_SLOT_CHOICE_H

#include "lease/registry.h"

/*
 * A server that crashes again and again takes a slot each time.  It may leave
 * this many with an until in the future, or more while even more are free.
 */
#define SF_CLAIM_RESERVATIONS	3

/* Tolerated offset of a clock from the registry's and the others', in ms. */
#define SF_CLAIM_MAX_OFFSET_MS	5000

/* The claiming server, and what it may claim. */
typedef struct SfClaimant
{
	const SfLayout *layout;
	uint32_t	first_node;		/* of the datacenter, or of all */
	uint32_t	last_node;		/* equal to first_node if only that one will
								 * do */
	bool		is_altered;		/* ALTER SYSTEM has set snowflake.node_id */
	uint64_t	owner;			/* random, new for each claim */
	uint64_t	server;			/* kept over restarts; a copy has another */
	char		host[SF_HOST_SIZE];
	int32_t		process;		/* PID; for people, like the host */
	int64_t		max_ahead_ms;	/* how far ahead a claim may begin */

	/*
	 * What the previous life of this server has left.  The caller guarantees
	 * that this is no copy of its data, and that no process still issues what
	 * it might have issued.  The write_id is 0 if there is nothing.
	 */
	uint32_t	last_held;
	uint64_t	last_write_id;
	int64_t		last_until;		/* all that it issued is below */
} SfClaimant;

typedef struct SfSlotChoice
{
	bool		found;

	/* if found: the record to replace, and the first timestamp to issue */
	SfSlotRecord record;
	int64_t		start;

	/* if not: the reason and its remedy, as sentences */
	char		problem[SF_REASON_SIZE];
	char		public_problem[SF_REASON_SIZE]; /* empty: the same */
	char		remedy[SF_REMEDY_SIZE];
	int64_t		at_tick;		/* when to try again; or INT64_MAX */
} SfSlotChoice;

extern void sf_slot_choose(SfSlotChoice *claim, const SfClaimant *claimant,
						   const SfRegistry *registry, int64_t now_tick,
						   uint64_t (*random) (void));
extern bool sf_peers_agree(const SfRegistry *registry, uint64_t owner,
						   int64_t offset_ms, int64_t max_ms);

#endif							/* SF_SLOT_CHOICE_H */
