/*-------------------------------------------------------------------------
 *
 * client.h
 *	  A server's dialogue with the registry, without clock, network or memory
 *	  of its own: the part of a lease that knows nothing of nodes.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLIENT_H
#define SF_CLIENT_H

#include "lease/registry.h"

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

typedef struct SfClientConfig
{
	int64_t		timeout_ms;		/* of a request */
	int64_t		max_offset_ms;	/* with a larger one, do not claim or extend */
	int64_t		warn_offset_ms; /* warn of an offset larger than this */
	int64_t		peers_ms;		/* how often to compare with the peers; 0:
								 * never */
	int64_t		frozen_ms;		/* a longer gap counts as frozen */

	/* A generator that a copy of this machine does not repeat. */
	uint64_t	(*random) (void);

	/* Writes a line to the log. */
	void		(*log_event) (SfLeaseEvent what, const char *text);
} SfClientConfig;

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

/* Number of pending writes: they may have been made, or be made yet. */
#define SF_CLIENT_PENDING	8

typedef struct SfRegistryClient
{
	SfClientConfig config;

	/* The request in flight; its kind is SF_ASK_NOTHING if there is none. */
	SfAsk		ask;
	int64_t		asked_ms;

	/* The writes whose outcome is not known. */
	struct
	{
		uint64_t	write_id;
		int64_t		start;
	}			pending[SF_CLIENT_PENDING];
	int			npending;

	/* What is wrong, and when to ask again. */
	char		problem[SF_REASON_SIZE];	/* empty: no problem */
	char		public_problem[SF_REASON_SIZE]; /* without names and places */
	char		remedy[SF_REMEDY_SIZE];
	SfAskKind	failed;			/* the request that met the problem */
	uint32_t	logged;			/* the problem logged last, hashed */
	int64_t		logged_ms;		/* when that was */
	int64_t		retry_ms;		/* send nothing before */
	int64_t		backoff_ms;		/* 0: no failure */

	/* Clocks. */
	SfMoment	looked;			/* time of the last call */
	SfRegistryClock clock;		/* the last reading */
	SfRegistryClock near_clock; /* the last reading near our clock, unless two
								 * endpoints have denied it since */
	int			confirmed_by;	/* the endpoint before that said the same; or
								 * 0 */
	int			avoid;			/* for the next request, as in SfAsk */
	int			clock_logged;	/* what was logged about it */
	bool		peers_agree;	/* at the last reading before the next write */
	bool		peers_right;	/* most peers are near the registry's clock */
	int64_t		peers_due_ms;	/* when the next look at the peers is due */
} SfRegistryClient;

extern const char *sf_registry_failure(SfFailure failure);
extern void sf_registry_remedy(char *text, size_t size, const char *kind,
							   SfFailure failure, SfPartFunction part,
							   const char *recovery);

extern SfAsk *sf_client_ask(SfRegistryClient *client, SfMoment now,
							SfAskKind kind);
extern void sf_client_add_pending(SfRegistryClient *client, uint64_t write_id,
								  int64_t start);
extern int	sf_client_find_pending(const SfRegistryClient *client,
								   const SfSlotRecord *record);
extern void sf_client_report(SfRegistryClient *client, SfMoment now,
							 SfLeaseEvent what, const char *problem,
							 const char *public_problem, const char *remedy);
extern void sf_client_set_problem(SfRegistryClient *client, SfMoment now,
								  const char *problem, const char *remedy);
extern void sf_client_clear_problem(SfRegistryClient *client);
extern void sf_client_back_off(SfRegistryClient *client, SfMoment now);
extern bool sf_client_look(SfRegistryClient *client, SfMoment now);
extern int64_t sf_client_clock_offset(const SfRegistryClient *client,
									  SfMoment now);
extern bool sf_client_registry_moved(const SfRegistryClient *client,
									 SfMoment now);
extern void sf_client_take_clock(SfRegistryClient *client, SfMoment now,
								 const SfAnswer *answer);
extern bool sf_client_clock_is_good(SfRegistryClient *client, SfMoment now,
									bool is_held);

#endif							/* SF_CLIENT_H */
