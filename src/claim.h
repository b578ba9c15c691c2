/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Which slot of a registry to claim, and from when on.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLAIM_H
#define SF_CLAIM_H

#include "registry.h"

/* One server may have no more slots than this with an unexpired until. */
#define SF_CLAIM_RESERVATIONS	3

/* So far a clock may be off, in ms, from the registry's and the others'. */
#define SF_CLAIM_MAX_OFFSET_MS	5000

/* Who claims, and what it may. */
typedef struct SfClaimant
{
	const SfLayout *layout;
	uint32_t	first_node;		/* of the datacenter, or of all */
	uint32_t	last_node;		/* the first, if it must be that one */
	uint64_t	owner;			/* random, another one for each claim */
	uint64_t	server;			/* stays over restarts; a copy has another */
	char		host[SF_HOST_SIZE];
	int32_t		process;		/* for people, as the host */
	int64_t		max_ahead_ms;	/* a claim may begin so far in the future */

	/*
	 * What the life before this has left, and the caller vouches for: this is
	 * not a copy of its data, and nobody issues any more what it might have
	 * issued.  Its write_id is 0 if there is nothing.
	 */
	uint32_t	last_held;
	uint64_t	last_write_id;
	int64_t		last_until;		/* all that it has issued is below */
} SfClaimant;

typedef struct SfClaim
{
	bool		found;

	/* if so: what is to be replaced, and the first timestamp to issue */
	SfRecord	record;
	int64_t		start;

	/* if not: why, and what to do about it, as sentences */
	char		problem[SF_REASON_SIZE];
	char		public_problem[SF_REASON_SIZE]; /* where that names a host:
												 * without it */
	char		remedy[SF_REASON_SIZE];
	int64_t		at_tick;		/* try again then; or INT64_MAX */
} SfClaim;

extern const SfRecord *sf_claim_find(const SfRegistry *registry,
									 uint32_t node);
extern void sf_claim_choose(SfClaim *claim, const SfClaimant *claimant,
							const SfRegistry *registry, int64_t now_tick,
							uint64_t (*random) (void));
extern int	sf_claim_peers_apart(const SfRegistry *registry, uint64_t owner,
								 int64_t offset_ms, int64_t slack_ms,
								 int64_t limit_ms, int *peers);
extern bool sf_claim_peers_agree(const SfRegistry *registry, uint64_t owner,
								 int64_t offset_ms, int64_t max_ms);

#endif							/* SF_CLAIM_H */
