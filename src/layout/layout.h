/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  A layout: the division of a 64-bit ID into bit fields, as a value.
 *
 * Pure: needs no server, reads no clock, allocates nothing.
 *
 * Times are Unix milliseconds ("ms") or ticks; a tick is tick_ms milliseconds,
 * counted from the Unix epoch.  A position is (tick << sequence bits) |
 * sequence: time and sequence as one number.  So position + 1 is the next ID,
 * and the carry moves the tick by itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LAYOUT_H
#define SF_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fields.  Their numbers are part of layout codes: they never change. */
typedef enum SfFieldKind
{
	SF_TIMESTAMP,
	SF_DATACENTER,
	SF_WORKER,
	SF_PROCESS,					/* Discord's name for a part of a worker */
	SF_NODE,
	SF_SHARD,
	SF_SEQUENCE
} SfFieldKind;

#define SF_NFIELDS				7

#define SF_MAX_TIMESTAMP_BITS	48
#define SF_MAX_FIELD_BITS		31	/* fields are shown as integers */
#define SF_MAX_SEQUENCE_BITS	16
#define SF_MAX_TICK_MS			1000

/* In place of a shard: the IDs of the node. */
#define SF_NO_SHARD				(-1)

/* No position has a tick at or beyond this (year 6429 in ms). */
#define SF_END_OF_TICKS			(INT64_C(1) << 47)

/* Size of a buffer for any layout's text, with the terminating zero. */
#define SF_LAYOUT_TEXT_SIZE		160

/* Size of a buffer for the reason of a refusal. */
#define SF_REASON_SIZE			200

/* Size of a buffer for a remedy, which may contain commands. */
#define SF_REMEDY_SIZE			800

/* The epoch of a layout whose text names none: 2024-01-01 UTC. */
#define SF_DEFAULT_EPOCH_MS		INT64_C(1704067200000)

/* The last accepted epoch, the end of 2199; the first is 1970-01-01. */
#define SF_MAX_EPOCH_MS			INT64_C(7258118399999)

typedef struct SfField
{
	uint8_t		width;			/* in bits; 0: the layout has no such field */
	uint8_t		shift;			/* from the low end of the ID */
} SfField;

typedef struct SfLayout
{
	/* members that the text sets */
	int64_t		epoch_ms;		/* a multiple of tick_ms */
	int32_t		tick_ms;
	SfField		field[SF_NFIELDS];

	/* members derived from those */
	int64_t		epoch_tick;		/* the epoch, in ticks since 1970 */
	int64_t		end_tick;		/* the first tick whose IDs would be negative
								 * or too wide */
	uint8_t		bits;			/* width of the whole ID */
	uint8_t		low_bits;		/* width of all fields below the timestamp */
	uint8_t		node_bits;		/* width of datacenter, worker, process and
								 * node */
	uint8_t		sequence_bits;
	uint64_t	sequence_mask;
} SfLayout;

typedef struct SfPreset
{
	const char *name;
	const char *text;
	const char *source;			/* publication of the layout */
} SfPreset;

extern const SfPreset sf_presets[];
extern const int sf_npresets;

/* layout_text.c */
extern bool sf_layout_parse(SfLayout *layout, const char *text,
							char *reason, size_t reason_size);
extern void sf_layout_print(const SfLayout *layout, char *buf, size_t size);
extern bool sf_layout_is_preset(const SfLayout *layout);
extern const char *const sf_field_names[SF_NFIELDS];
extern bool sf_epoch_parse(int64_t *epoch_ms, const char *text,
						   char *reason, size_t reason_size);
extern void sf_epoch_print(int64_t epoch_ms, char *buf, size_t size);

/* layout.c */
extern const char *sf_layout_complete(SfLayout *layout);
extern int	sf_layout_order(const SfLayout *layout, SfFieldKind *kinds);
extern int64_t sf_layout_code(const SfLayout *layout);
extern bool sf_layout_from_code(SfLayout *layout, int64_t code,
								int64_t epoch_ms);
extern uint64_t sf_layout_place_node(const SfLayout *layout, uint64_t node);
extern uint64_t sf_layout_join_node(const SfLayout *layout,
									uint64_t datacenter, uint64_t within);
extern uint64_t sf_layout_node(const SfLayout *layout, int64_t id);
extern int64_t sf_layout_pack(const SfLayout *layout, int64_t tick,
							  uint64_t node, uint64_t shard,
							  uint64_t sequence);
extern int64_t sf_layout_tick(const SfLayout *layout, int64_t id);
extern bool sf_layout_fits(const SfLayout *layout, int64_t id);
extern int64_t sf_layout_min_id(const SfLayout *layout, int64_t tick);
extern int64_t sf_layout_max_id(const SfLayout *layout, int64_t tick);
extern uint64_t sf_layout_floor_position(const SfLayout *layout, int64_t ms);
extern int64_t sf_layout_end_of_position(const SfLayout *layout,
										 uint64_t position);

/* Return the value of a field of an ID; 0 if the layout lacks the field. */
static inline uint64_t
sf_layout_field(const SfLayout *layout, SfFieldKind kind, int64_t id)
{
	SfField		f = layout->field[kind];

	return ((uint64_t) id >> f.shift) & ((UINT64_C(1) << f.width) - 1);
}

/* Return true if both layouts make the same IDs. */
static inline bool
sf_layout_is_same(const SfLayout *a, const SfLayout *b)
{
	return sf_layout_code(a) == sf_layout_code(b) &&
		a->epoch_ms == b->epoch_ms;
}

static inline bool
sf_layout_has(const SfLayout *layout, SfFieldKind kind)
{
	return layout->field[kind].width > 0;
}

/*
 * Return the Unix ms at which a tick begins that is counted from the epoch, as
 * the ticks of leases are.
 */
static inline int64_t
sf_layout_after_epoch_ms(const SfLayout *layout, int64_t ticks)
{
	return (layout->epoch_tick + ticks) * layout->tick_ms;
}

/* Return the tick of a millisecond, rounding down, also before 1970. */
static inline int64_t
sf_layout_ms_to_tick(const SfLayout *layout, int64_t ms)
{
	int64_t		tick;

	if (layout->tick_ms == 1)
		return ms;
	tick = ms / layout->tick_ms;
	return (ms % layout->tick_ms < 0) ? tick - 1 : tick;
}

/* Return the ID of a position without its node and shard fields. */
static inline int64_t
sf_layout_compose(const SfLayout *layout, uint64_t position)
{
	uint64_t	tick = position >> layout->sequence_bits;
	uint64_t	sequence = position & layout->sequence_mask;

	return (int64_t) (((tick - (uint64_t) layout->epoch_tick)
					   << layout->low_bits) |
					  (sequence << layout->field[SF_SEQUENCE].shift));
}

#endif							/* SF_LAYOUT_H */
