/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings, and the two layouts computed from them.
 *
 * Except sf_time_ranges they are defined only if the library is preloaded.  A
 * value that must be the same in all processes is fixed at start, or read from
 * shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SETTINGS_H
#define SF_SETTINGS_H

#include "layout/layout.h"
#include "layout/server_number.h"
#include "nodes/pg_list.h"
#include "runtime/right.h"

/* The values of snowflake.sequence_start. */
typedef enum SfSequenceStart
{
	SF_START_ZERO,
	SF_START_RANDOM
} SfSequenceStart;

/* The values of snowflake.copy_check and snowflake.clock_check. */
typedef enum SfCheck
{
	SF_CHECK_OFF,
	SF_CHECK_WARN,
	SF_CHECK_ERROR
} SfCheck;

#define SF_MAX_DATABASES	10000

extern int	sf_max_clock_drift; /* ms */
extern int	sf_max_clock_wait;	/* ms */
extern int	sf_max_clock_jump;	/* s */
extern int	sf_reserve;			/* ms */
extern int	sf_sequence_start;	/* an SfSequenceStart */
extern int	sf_max_databases;	/* at most SF_MAX_DATABASES */
extern int	sf_max_layouts;
extern int	sf_copy_check;		/* an SfCheck; fixed at start */
extern int	sf_clock_check;		/* an SfCheck */
extern bool sf_time_ranges;		/* also defined if the library is not
								 * preloaded */
extern bool sf_audit;			/* see audit.c */
extern int	sf_log_interval;	/* ms; the postmaster's is in SfShmem */

/* Of feeds. */
extern char *sf_feed_databases; /* names, separated by commas */
extern int	sf_feed_interval;	/* ms */

/* Of the lease.  The first is fixed at start, and empty without a registry. */
extern char *sf_registry;		/* may hold a password */
extern int	sf_lease_reserve;	/* ms, at most SF_MAX_RESERVE_MS */
extern int	sf_lease_presence;	/* ms */
extern int	sf_lease_timeout;	/* ms */
extern int	sf_lease_wait;		/* ms */

/* Computed and fixed at start. */
extern SfLayout sf_node_layout; /* snowflake.layout */
extern SfLayout sf_shard_layout;	/* snowflake.shard_layout */
extern SfLayout sf_other_layouts[]; /* snowflake.layouts */
extern int	sf_nother_layouts;

extern void sf_settings_define(void);
extern void sf_settings_define_planner(void);
extern void sf_settings_publish(void);
extern bool sf_settings_has_shards(void);
extern List *sf_settings_feed_databases(void);
extern const SfRegistryKind *sf_settings_registry_kind(const char *url);
extern void sf_settings_registry_name(char *name, size_t size);
extern const char *sf_settings_file(void);
extern bool sf_settings_is_altered(const char *name);
extern bool sf_settings_is_in_file(const char *name);
extern bool sf_settings_awaits_restart(const char *name);
extern char *sf_settings_read_file(const char *name, bool *is_altered);
extern const char *sf_settings_pending_layout(bool shards);
extern bool sf_settings_is_argument(const char *name);
extern const char *sf_settings_unseen(void);

/* A line that a remedy asks for: the setting and its value. */
typedef const char *SfSettingLine[2];

/* How the server gets it; "reset" also if ALTER SYSTEM is not known. */
typedef enum SfApply
{
	SF_APPLY_RELOAD,
	SF_APPLY_RESET,
	SF_APPLY_RESTART
} SfApply;

extern char *sf_settings_step(SfSettingLine *lines, int n, SfApply apply);

/* Where a layout of shards is named as that of the node's IDs. */
#define SF_SHARD_LAYOUT_REMEDY \
	"Set it as snowflake.shard_layout, and call snowflake_shard_nextval()."

/*
 * A change of the configured node by a reload, which identity/node.c makes in
 * the postmaster.  The numbers are those of SfShmem.configured.  If the change
 * may not be, the reason is a sentence.
 */
typedef struct SfNodeChange
{
	bool		(*may) (uint64 numbers, char *reason, size_t reason_size);
	void		(*change) (uint64 numbers);
} SfNodeChange;

extern const SfNodeChange *sf_settings_node_change;

/* What the postmaster does after it has got other shards; or NULL. */
extern void (*sf_settings_shards_changed) (const uint32 *opening);

/* settings_node.c */
extern void sf_settings_define_node(void);
extern void sf_settings_publish_node(void);
extern bool sf_settings_fit(SfServerNumber datacenter, SfServerNumber node,
							char *reason, size_t reason_size);
extern void sf_settings_split_numbers(uint64 numbers,
									  SfServerNumber *datacenter,
									  SfServerNumber *node);
extern uint64 sf_settings_numbers(void);
extern char *sf_settings_print_numbers(uint64 numbers);
extern char *sf_settings_pending(void);
extern char *sf_settings_refused(void);

/* Return true if this server leases its node id. */
static inline bool
sf_settings_leases(void)
{
	return sf_registry[0] != '\0';
}

/* Set in SfShmem.configured once the node is published. */
#define SF_NODE_TAKEN	(UINT64CONST(1) << 63)

/* Set in SfShmem.pending beside the numbers. */
#define SF_NUMBER_PENDING	(UINT64CONST(1) << 63)

/* Return the node in SfShmem.right. */
static inline uint32
sf_settings_node_of(uint64 right)
{
	return right & ((UINT64CONST(1) << sf_node_layout.node_bits) - 1);
}

/* Return the first tick outside the right in SfShmem.right, since 1970. */
static inline int64
sf_settings_end_tick_of(uint64 right)
{
	return sf_node_layout.epoch_tick +
		(int64) (right >> sf_node_layout.node_bits);
}

/* the largest snowflake.max_clock_drift, and what an ID may be ahead by */
#define SF_MAX_DRIFT_MS	1000
#define SF_MAX_AHEAD_MS	(SF_MAX_DRIFT_MS + 2 * SF_MAX_TICK_MS)

/* Return the allowed drift in ticks, rounded up. */
static inline int64
sf_settings_drift_ticks(const SfLayout *layout)
{
	if (layout->tick_ms == 1)
		return sf_max_clock_drift;
	return (sf_max_clock_drift + layout->tick_ms - 1) / layout->tick_ms;
}

/*
 * Return by how many ms the IDs that any server has made are less ahead of its
 * clock: it counts the drift in ticks.
 */
static inline int64
sf_settings_farthest_ms(const SfLayout *layout)
{
	return (SF_MAX_DRIFT_MS / layout->tick_ms + 2) * layout->tick_ms;
}

/*
 * Return the lead: how far ahead of the clock an extension moves the mark.  It
 * is snowflake.reserve, but more than the drift, and at least 10 ticks.
 */
static inline int64
sf_settings_lead_ms(void)
{
	int64		tick = Max(sf_node_layout.tick_ms, sf_shard_layout.tick_ms);
	int64		least = Max(sf_max_clock_drift + 2 * tick, 10 * tick);

	return Max(sf_reserve, least);
}

#endif							/* SF_SETTINGS_H */
