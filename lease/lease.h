/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  One server's lease of a node id, as a state machine without clock,
 *	  network or memory of its own.
 *
 * The caller passes in the time, the registry's answers, and the order to end.
 * After each call, it looks up what to ask the registry, what to publish, and
 * when to call again.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASE_H
#define SF_LEASE_H

#include "lease/registry_age.h"
#include "lease/slot_choice.h"

/*
 * A reading of the clocks, in ms.  The monotonic clock must continue while the
 * machine is suspended.
 */
typedef struct SfMoment
{
	int64_t		monotonic_ms;
	int64_t		wall_ms;
} SfMoment;

/* The kinds of lines for the log. */
typedef enum SfLeaseEvent
{
	SF_LEASE_EVENT_LEASED,
	SF_LEASE_EVENT_LOST,
	SF_LEASE_EVENT_RETURNED,
	SF_LEASE_EVENT_EXPIRED,
	SF_LEASE_EVENT_PROBLEM,
	SF_LEASE_EVENT_BEHIND,		/* the registry has lost data */
	SF_LEASE_EVENT_SOLVED,
	SF_LEASE_EVENT_FROZEN,
	SF_LEASE_EVENT_CLOCK
} SfLeaseEvent;

typedef struct SfLeaseConfig
{
	SfClaimant	claimant;
	int64_t		reserve_ms;		/* how far ahead of the clock to set until */
	int64_t		keepalive_ms;	/* a third of the TTL of presence */
	int64_t		timeout_ms;		/* of a request */
	int64_t		max_offset_ms;	/* with a larger one, do not claim or extend */
	int64_t		warn_offset_ms; /* warn of an offset larger than this */
	int64_t		peers_ms;		/* how often to compare with the peers; 0:
								 * never */
	int64_t		look_ms;		/* call at least this often while it is held */
	int64_t		frozen_ms;		/* a longer gap counts as frozen */
	const char *initialize;		/* how to initialize; ends a sentence */
	const char *recover;		/* how to recover after a loss, up to the
								 * function's arguments */
	const char *recreate;		/* the same after a total loss */
	const char *recreated;		/* and the text behind the arguments */
	const char *registry_kind;	/* for remedies; or NULL */
	SfAge	   *age;			/* what is remembered of the registry */

	/* A generator that a copy of this machine does not repeat. */
	uint64_t	(*random) (void);

	/* Writes a line to the log. */
	void		(*log_event) (SfLeaseEvent what, const char *text);
} SfLeaseConfig;

/*
 * The registry's clock as it was read, relative to the monotonic clock.  So it
 * does not change when our wall clock is set.
 */
typedef struct SfRegistryClock
{
	bool		known;
	int64_t		ahead_ms;		/* of the monotonic clock */
	int64_t		slack_ms;		/* or more, at most by this */
	int			endpoint;		/* the clock's endpoint (SfAnswer) */
} SfRegistryClock;

typedef enum SfLeaseState
{
	SF_LEASE_SEARCHING,			/* holds no slot */
	SF_LEASE_CLAIMING,			/* a claim is in flight */
	SF_LEASE_HELD,
	SF_LEASE_RELEASING,
	SF_LEASE_ENDED
} SfLeaseState;

/*
 * The right to issue timestamps as a node, from start up to until, in ticks
 * since the layout's epoch.  Before it is published, all counters must be at
 * start or above.  While it is not valid, nothing may be issued.
 *
 * The write_id is that of the last acknowledged write, for the next life of
 * this server (SfClaimant); 0 if there is nothing to resume.
 */
typedef struct SfRight
{
	bool		valid;
	uint32_t	node;
	int64_t		start;
	int64_t		until;
	uint64_t	write_id;
} SfRight;

/* The longest wait before a slot that will be free is looked at again. */
#define SF_LEASE_RETRY_MS	5000

/* Number of pending writes: they may have been made, or be made yet. */
#define SF_LEASE_PENDING	8

typedef struct SfLease
{
	/* Read by the caller. */
	SfLeaseState state;
	SfAsk		ask;			/* send it if its number is new */
	SfRight		right;
	int64_t		wake_ms;		/* monotonic: the time of the next
								 * sf_lease_step() */
	char		problem[SF_REASON_SIZE];	/* empty: no problem */
	char		public_problem[SF_REASON_SIZE]; /* without names and places */
	char		remedy[SF_REMEDY_SIZE];

	/* Internal.  The record is the last one known to be in the registry. */
	SfLeaseConfig config;
	char		layout[SF_LAYOUT_TEXT_SIZE];
	SfSlotRecord record;
	uint64_t	generation;
	struct
	{
		uint64_t	write_id;
		int64_t		start;
	}			pending[SF_LEASE_PENDING];
	int			npending;
	SfLoss		loss;			/* as it was read last */
	bool		unsure;			/* read before the next write */
	bool		halted;			/* issue nothing before the next write */
	bool		absent;			/* the presence is gone */
	bool		expired;		/* the expiry of the right was logged */
	bool		peers_agree;	/* at the last reading before the next write */
	int64_t		last_issued;	/* during the release */

	int64_t		keepalive_ms;	/* when the next keepalive is due */
	int64_t		peers_due_ms;	/* when the next look at the peers is due */
	int64_t		retry_ms;		/* send nothing before */
	int64_t		backoff_ms;		/* 0: no failure */
	uint32_t	logged;			/* the problem logged last, hashed */
	int64_t		logged_ms;		/* when that was */
	SfAskKind	failed;			/* the request that met the problem */

	SfMoment	looked;			/* time of the last call */
	int64_t		asked_ms;
	SfRegistryClock clock;		/* the last reading */
	SfRegistryClock near_clock; /* the last reading near our clock, unless two
								 * endpoints have denied it since */
	int			confirmed_by;	/* the endpoint before that said the same; or
								 * 0 */
	int			avoid;			/* for the next request, as in SfAsk */
	int			clock_logged;	/* what was logged about it */
	bool		peers_right;	/* most peers are near the registry's clock */
} SfLease;

/* lease.c */
extern void sf_lease_init(SfLease *lease, const SfLeaseConfig *config,
						  SfMoment now);
extern void sf_lease_step(SfLease *lease, SfMoment now);
extern void sf_lease_answer(SfLease *lease, SfMoment now,
							const SfAnswer *answer);
extern void sf_lease_release(SfLease *lease, SfMoment now,
							 int64_t last_issued);

/* lease.c, used by lease_clock.c */
extern void sf_lease_set_problem(SfLease *lease, SfMoment now,
								 const char *problem, const char *remedy);

/* lease_clock.c, used by lease.c */
extern bool sf_lease_was_interrupted(SfLease *lease, SfMoment now);
extern int64_t sf_lease_clock_offset(const SfLease *lease, SfMoment now);
extern bool sf_lease_registry_moved(const SfLease *lease, SfMoment now);
extern void sf_lease_take_clock(SfLease *lease, SfMoment now,
								const SfAnswer *answer);
extern bool sf_lease_clock_is_good(SfLease *lease, SfMoment now);

#endif							/* SF_LEASE_H */
