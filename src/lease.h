/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  One server's lease of a node id, as a state machine without clock,
 *	  network or memory of its own.
 *
 * The caller tells it what time it is, what the registry has answered, and
 * when to end; and looks, after each such call, at what to ask the registry,
 * what to publish, and when to call again.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_H
#define SF_LEASE_H

#include "claim.h"

/*
 * The clocks, in ms.  The monotonic one is to go on while the machine is
 * suspended.
 */
typedef struct SfMoment
{
	int64_t		monotonic_ms;
	int64_t		wall_ms;
} SfMoment;

/* What a line for the log is about. */
typedef enum SfSaid
{
	SF_SAID_LEASED,
	SF_SAID_LOST,
	SF_SAID_EXPIRED,
	SF_SAID_PROBLEM,
	SF_SAID_SOLVED,
	SF_SAID_FROZEN,
	SF_SAID_CLOCK
} SfSaid;

typedef struct SfLeaseConfig
{
	SfClaimant	claimant;
	int64_t		reserve_ms;		/* until is this far ahead of the clock */
	int64_t		keepalive_ms;	/* a third of the TTL of presence */
	int64_t		timeout_ms;		/* of a request */
	int64_t		max_offset_ms;	/* of the clock: neither claim nor extend */
	int64_t		warn_offset_ms; /* from the registry's clock, or the peers' */
	int64_t		peers_ms;		/* look at the peers so often; 0: never */
	int64_t		look_ms;		/* call at least so often while it is held */
	int64_t		frozen_ms;		/* what no healthy process sleeps over */
	const char *initialize;		/* how, at the end of a sentence */
	const char *registry_kind;	/* for remedies; or NULL */

	/* Not from a generator that a copy of this machine would repeat. */
	uint64_t	(*random) (void);

	/* A line for the log. */
	void		(*say) (SfSaid what, const char *text);
} SfLeaseConfig;

typedef enum SfLeaseState
{
	SF_LEASE_SEARCHING,			/* has none */
	SF_LEASE_CLAIMING,			/* has asked for one */
	SF_LEASE_HELD,
	SF_LEASE_RELEASING,
	SF_LEASE_ENDED
} SfLeaseState;

/*
 * The right to issue timestamps as a node, from start up to until, in ticks
 * since the layout's epoch.  All counters must be at start or above before it
 * is published.  While it is not valid, nothing may be.
 *
 * The write_id is what the registry has acknowledged last, for a next life of
 * this server (SfClaimant); 0 if there is nothing to be taken up again.
 */
typedef struct SfRight
{
	bool		valid;
	uint32_t	node;
	int64_t		start;
	int64_t		until;
	uint64_t	write_id;
} SfRight;

/* Writes that may have been made, or be made yet. */
#define SF_LEASE_PENDING	8

typedef struct SfLease
{
	/* For the caller. */
	SfLeaseState state;
	SfAsk		ask;			/* to be sent, if its number is a new one */
	SfRight		right;
	int64_t		wake_ms;		/* monotonic: call sf_lease_step() then */
	char		problem[SF_REASON_SIZE];	/* empty: there is none */
	char		public_problem[SF_REASON_SIZE]; /* without names and places */
	char		remedy[SF_REMEDY_SIZE];

	/* Its own.  The record is the last that the registry is known to have. */
	SfLeaseConfig config;
	char		layout[SF_LAYOUT_TEXT_SIZE];
	SfRecord	record;
	uint64_t	generation;
	struct
	{
		uint64_t	write_id;
		int64_t		start;
	}			pending[SF_LEASE_PENDING];
	int			npending;
	bool		unsure;			/* read before the next write */
	bool		halted;			/* issue nothing before the next write */
	bool		absent;			/* the presence is gone */
	bool		expired;		/* that the right has run out, was said */
	bool		peers_agree;	/* as read for the next write */
	int64_t		last_issued;	/* while it is being released */

	int64_t		keepalive_ms;	/* when the next one is due */
	int64_t		peers_due_ms;	/* likewise a look at the peers */
	int64_t		retry_ms;		/* ask nothing before */
	int64_t		backoff_ms;		/* 0: all is well */
	int64_t		logged_ms;		/* the last time that a problem was */
	SfAskKind	failed;			/* what has met the problem */

	SfMoment	looked;			/* when last called */
	bool		clock_known;
	bool		clock_warned;
	bool		peers_warned;
	int64_t		clock_ahead_ms; /* registry's clock - monotonic clock */
	int64_t		clock_slack_ms; /* or more, by up to this */
	int64_t		asked_ms;
} SfLease;

/* lease.c */
extern void sf_lease_init(SfLease *lease, const SfLeaseConfig *config,
						  SfMoment now);
extern void sf_lease_step(SfLease *lease, SfMoment now);
extern void sf_lease_answer(SfLease *lease, SfMoment now,
							const SfAnswer *answer);
extern void sf_lease_release(SfLease *lease, SfMoment now,
							 int64_t last_issued);

/* lease_state.c, for lease.c */
extern int64_t sf_lease_tick(const SfLease *lease, SfMoment now);
extern int64_t sf_lease_last_until(const SfLease *lease);
extern int64_t sf_lease_reserve(const SfLease *lease, SfMoment now,
								int64_t least);
extern void sf_lease_fail(SfLease *lease, SfMoment now, SfAskKind kind,
						  SfFailure failure, const char *problem);
extern void sf_lease_set_problem(SfLease *lease, SfMoment now,
								 const char *problem, const char *remedy);
extern void sf_lease_set_private_problem(SfLease *lease, SfMoment now,
										 const char *problem,
										 const char *public_problem,
										 const char *remedy);
extern void sf_lease_set_claim_problem(SfLease *lease, SfMoment now,
									   const SfClaim *claim);
extern void sf_lease_time_out(SfLease *lease, SfMoment now, SfAskKind kind);
extern void sf_lease_lose(SfLease *lease, SfMoment now, const char *problem,
						  const char *remedy);
extern void sf_lease_clear_problem(SfLease *lease);
extern void sf_lease_back_off(SfLease *lease, SfMoment now);
extern int64_t sf_lease_clock_offset(const SfLease *lease, SfMoment now);
extern void sf_lease_note_clock(SfLease *lease, SfMoment now,
								const SfAnswer *answer);
extern bool sf_lease_clock_is_good(SfLease *lease, SfMoment now);
extern bool sf_lease_was_interrupted(SfLease *lease, SfMoment now);
extern int	sf_lease_find_pending(const SfLease *lease,
								  const SfRecord *record);
extern void sf_lease_adopt(SfLease *lease, const SfRecord *record,
						   int64_t start);
extern void sf_lease_take(SfLease *lease, SfMoment now);
extern void sf_lease_watch_until(SfLease *lease, SfMoment now, bool valid,
								 int64_t until, const char *whose);
extern void sf_lease_watch_right(SfLease *lease, SfMoment now);
extern void sf_lease_fence(SfLease *lease, SfMoment now, const char *why);
extern bool sf_lease_registry_is_good(SfLease *lease, SfMoment now,
									  const SfRegistry *registry);

#endif							/* SF_LEASE_H */
