/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  One server's lease of a node id, as a state machine without clock,
 *	  network or memory of its own.
 *
 * The caller passes in the time, the registry's answers, and the order to end.
 * Each call returns what it has changed, which the caller publishes and sends,
 * and says when to call again.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_H
#define SF_LEASE_H

#include "lease/client.h"
#include "lease/registry_age.h"
#include "lease/slot_choice.h"

typedef struct SfLeaseConfig
{
	SfClaimant	claimant;
	int64_t		reserve_ms;		/* how far ahead of the clock to set until */
	int64_t		keepalive_ms;	/* a third of the TTL of presence */
	int64_t		look_ms;		/* call at least this often while it is held */
	const char *initialize;		/* how to initialize; ends a sentence */
	const char *registry_kind;	/* for remedies */
	SfPartFunction part;		/* for remedies; NULL in a test */
	SfAge	   *age;			/* what is remembered of the registry */
} SfLeaseConfig;

/* The states; lease.c draws them. */
typedef enum SfLeaseState
{
	SF_LEASE_SEARCHING,			/* holds no slot */
	SF_LEASE_CLAIMING,			/* a claim is in flight */
	SF_LEASE_HALTED,			/* holds a slot, but may issue nothing before
								 * the next acknowledged write */
	SF_LEASE_HELD,				/* may issue */
	SF_LEASE_RELEASING,			/* issues nothing any more */
	SF_LEASE_ENDED
} SfLeaseState;

/*
 * The right to issue timestamps as a node, from start up to until, in ticks
 * since the layout's epoch.  It is valid while the state is SF_LEASE_HELD; at
 * any other time nothing may be issued.  Before it is published, all counters
 * must be at start or above.
 *
 * The write_id is that of the last acknowledged write, for the next life of
 * this server (SfClaimant); 0 if there is nothing to resume.
 */
typedef struct SfRight
{
	uint32_t	node;
	int64_t		start;
	int64_t		until;
	uint64_t	write_id;
} SfRight;

/* In place of the write_id, which is random: it is to be told anew. */
#define SF_RIGHT_UNKNOWN	UINT64_MAX

/* What a call has changed, as bits, with what its caller then does. */
typedef enum SfLeaseChange
{
	SF_CHANGED_RIGHT = 1,		/* publish the right; unless the state is
								 * SF_LEASE_HELD, withdraw it */
	SF_CHANGED_REMAINS = 2,		/* keep right.write_id for the next life */
	SF_CHANGED_ASK = 4			/* send client.ask */
} SfLeaseChange;

/* The longest wait before a slot that will be free is looked at again. */
#define SF_LEASE_RETRY_MS	5000

typedef struct SfLease
{
	/* Read by the caller, as is the client's request and its problem. */
	SfLeaseState state;
	SfRight		right;
	int64_t		wake_ms;		/* monotonic: the time of the next
								 * sf_lease_step() */
	SfRegistryClient client;

	/* Internal.  The record is the last one known to be in the registry. */
	SfLeaseConfig config;
	char		layout[SF_LAYOUT_TEXT_SIZE];
	SfSlotRecord record;
	uint64_t	generation;
	SfLoss		loss;			/* as it was read last */
	bool		unsure;			/* read before the next write */
	bool		absent;			/* the presence is gone */
	bool		expired;		/* the expiry of the right was logged */
	int64_t		last_issued;	/* during the release */
	int64_t		keepalive_ms;	/* when the next keepalive is due */

	/* What the caller knows by the changes that it was told; 0: none. */
	uint64_t	published;		/* write_id of the right that is published, or
								 * SF_RIGHT_UNKNOWN */
	uint64_t	kept;			/* the same of that for the next life */
	uint64_t	sent;			/* number of the request */
} SfLease;

/* lease.c: each returns what it has changed, bits of SfLeaseChange */
extern int	sf_lease_init(SfLease *lease, const SfLeaseConfig *config,
						  const SfClientConfig *client, SfMoment now);
extern int	sf_lease_resume(SfLease *lease, const SfLeaseConfig *config,
							const SfClientConfig *client, SfMoment now);
extern int	sf_lease_step(SfLease *lease, SfMoment now);
extern int	sf_lease_answer(SfLease *lease, SfMoment now,
							const SfAnswer *answer);
extern int	sf_lease_release(SfLease *lease, SfMoment now,
							 int64_t last_issued);

extern int64_t sf_lease_next_write_ms(const SfLease *lease);

#endif							/* SF_LEASE_H */
