/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  Packing and unpacking of IDs, and conversion between times and IDs.
 *
 * Pure: compiles and is tested without a server (test/unit).
 *
 *-------------------------------------------------------------------------
 */
#include "layout/layout.h"

/* Return true for a field that holds a part of the node's number. */
static inline bool
is_node_field(SfFieldKind kind)
{
	return kind == SF_DATACENTER || kind == SF_WORKER ||
		kind == SF_PROCESS || kind == SF_NODE;
}

/*
 * Compute the derived members, and check the layout.  Return NULL, or a
 * sentence about the fault.
 */
const char *
sf_layout_complete(SfLayout *layout)
{
	int			life_bits;
	int64_t		life;

	layout->bits = 0;
	layout->node_bits = 0;
	for (int i = 0; i < SF_NFIELDS; i++)
	{
		layout->bits += layout->field[i].width;
		if (is_node_field(i))
			layout->node_bits += layout->field[i].width;
	}
	layout->low_bits = layout->bits - layout->field[SF_TIMESTAMP].width;
	layout->sequence_bits = layout->field[SF_SEQUENCE].width;
	layout->sequence_mask = (UINT64_C(1) << layout->sequence_bits) - 1;

	if (!sf_layout_has(layout, SF_TIMESTAMP))
		return "A layout must begin with the field \"timestamp\".";
	if (!sf_layout_has(layout, SF_SEQUENCE))
		return "A layout must have the field \"sequence\".";
	if (layout->bits > 64)
		return "The widths of all fields together must be at most 64 bits.";
	if (sf_layout_has(layout, SF_NODE) &&
		layout->node_bits > layout->field[SF_NODE].width)
		return "The field \"node\" is the whole node number, and stands without \"datacenter\", \"worker\" and \"process\".";
	if (layout->node_bits > SF_MAX_FIELD_BITS)
		return "The node number must be at most 31 bits wide.";
	if (layout->epoch_ms % layout->tick_ms != 0)
		return "The epoch must be a multiple of the tick.";

	layout->epoch_tick = layout->epoch_ms / layout->tick_ms;

	/* IDs are bigint: using the sign bit halves a layout's life */
	life_bits = layout->field[SF_TIMESTAMP].width;
	if (layout->bits == 64)
		life_bits--;
	life = INT64_C(1) << life_bits;
	if (life > SF_END_OF_TICKS - layout->epoch_tick)
		life = SF_END_OF_TICKS - layout->epoch_tick;
	layout->end_tick = layout->epoch_tick + life;
	return NULL;
}

/* List the layout's fields from high to low.  Return their number. */
int
sf_layout_order(const SfLayout *layout, SfFieldKind *kinds)
{
	int			n = 0;

	for (int i = 0; i < SF_NFIELDS; i++)
	{
		int			at = n;

		if (!sf_layout_has(layout, i))
			continue;
		while (at > 0 &&
			   layout->field[kinds[at - 1]].shift < layout->field[i].shift)
		{
			kinds[at] = kinds[at - 1];
			at--;
		}
		kinds[at] = i;
		n++;
	}
	return n;
}

/*
 * Encode the fields and the tick (not the epoch) as one positive number.  From
 * high to low: 10 bits for the tick, 6 for the timestamp's width, for each
 * other field 3 bits for its kind and 5 for its width, and 3 bits for the
 * number of other fields.  Two layouts with the same code are the same.
 */
int64_t
sf_layout_code(const SfLayout *layout)
{
	SfFieldKind kinds[SF_NFIELDS];
	int			n = sf_layout_order(layout, kinds);
	uint64_t	code = layout->tick_ms;

	code = code << 6 | layout->field[SF_TIMESTAMP].width;
	for (int i = 1; i < n; i++)
		code = code << 8 | kinds[i] << 5 | layout->field[kinds[i]].width;
	return (int64_t) (code << 3 | (n - 1));
}

/* Decode sf_layout_code(); return false if no layout has this code. */
bool
sf_layout_from_code(SfLayout *layout, int64_t code, int64_t epoch_ms)
{
	uint64_t	rest = (uint64_t) code >> 3;
	int			shift = 0;

	*layout = (SfLayout)
	{
		.epoch_ms = epoch_ms
	};
	if (code <= 0 || epoch_ms < 0 || epoch_ms > SF_MAX_EPOCH_MS)
		return false;
	for (int i = code & 7; i > 0; i--)
	{
		SfFieldKind kind = (rest >> 5) & 7;
		int			width = rest & 31;

		if (kind == SF_TIMESTAMP || kind > SF_SEQUENCE || width == 0 ||
			layout->field[kind].width != 0)
			return false;
		layout->field[kind].width = width;
		layout->field[kind].shift = shift;
		shift += width;
		rest >>= 8;
	}
	layout->field[SF_TIMESTAMP].width = rest & 63;
	layout->field[SF_TIMESTAMP].shift = shift;
	if (rest >> 6 == 0 || rest >> 6 > SF_MAX_TICK_MS ||
		layout->field[SF_TIMESTAMP].width > SF_MAX_TIMESTAMP_BITS ||
		layout->field[SF_SEQUENCE].width > SF_MAX_SEQUENCE_BITS)
		return false;
	layout->tick_ms = rest >> 6;
	return sf_layout_complete(layout) == NULL;
}

/* Spread a node's number over the fields that hold it. */
uint64_t
sf_layout_place_node(const SfLayout *layout, uint64_t node)
{
	SfFieldKind kinds[SF_NFIELDS];
	uint64_t	bits = 0;

	for (int i = sf_layout_order(layout, kinds) - 1; i > 0; i--)
	{
		SfField		f = layout->field[kinds[i]];

		if (!is_node_field(kinds[i]))
			continue;
		bits |= (node & ((UINT64_C(1) << f.width) - 1)) << f.shift;
		node >>= f.width;
	}
	return bits;
}

/*
 * Combine a datacenter's number and the number within it, which fills the
 * other node fields, into the node's number.
 */
uint64_t
sf_layout_join_node(const SfLayout *layout, uint64_t datacenter,
					uint64_t within)
{
	SfFieldKind kinds[SF_NFIELDS];
	uint64_t	node = 0;
	int			at = 0;

	for (int i = sf_layout_order(layout, kinds) - 1; i > 0; i--)
	{
		int			width = layout->field[kinds[i]].width;

		if (kinds[i] == SF_DATACENTER)
			node |= datacenter << at;
		else if (is_node_field(kinds[i]))
		{
			node |= (within & ((UINT64_C(1) << width) - 1)) << at;
			within >>= width;
		}
		if (is_node_field(kinds[i]))
			at += width;
	}
	return node;
}

/* Return the node's number of an ID: its fields joined, high to low. */
uint64_t
sf_layout_node(const SfLayout *layout, int64_t id)
{
	SfFieldKind kinds[SF_NFIELDS];
	int			n = sf_layout_order(layout, kinds);
	uint64_t	node = 0;

	for (int i = 1; i < n; i++)
	{
		if (is_node_field(kinds[i]))
			node = node << layout->field[kinds[i]].width |
				sf_layout_field(layout, kinds[i], id);
	}
	return node;
}

/*
 * Make an ID.  The tick is counted from 1970 and must be within the layout's
 * life; the other values must fit their fields.
 */
int64_t
sf_layout_pack(const SfLayout *layout, int64_t tick, uint64_t node,
			   uint64_t shard, uint64_t sequence)
{
	uint64_t	position = (uint64_t) tick << layout->sequence_bits | sequence;

	return sf_layout_compose(layout, position) |
		(int64_t) sf_layout_place_node(layout, node) |
		(int64_t) (shard << layout->field[SF_SHARD].shift);
}

/*
 * Return the tick of an ID, counted from 1970.  Total and monotone over all of
 * bigint: a negative ID lies before the epoch, and an ID wider than the layout
 * lies after its end.
 */
int64_t
sf_layout_tick(const SfLayout *layout, int64_t id)
{
	/* all compilers that build PostgreSQL shift the sign along */
	return layout->epoch_tick + (id >> layout->low_bits);
}

/* Return true if this layout can have made this ID. */
bool
sf_layout_fits(const SfLayout *layout, int64_t id)
{
	return id >= 0 && (layout->bits >= 63 || id >> layout->bits == 0);
}

/* Return the first ID of a tick within the layout's life. */
int64_t
sf_layout_min_id(const SfLayout *layout, int64_t tick)
{
	return (int64_t) ((uint64_t) (tick - layout->epoch_tick)
					  << layout->low_bits);
}

/* Return the last ID of a tick within the layout's life. */
int64_t
sf_layout_max_id(const SfLayout *layout, int64_t tick)
{
	uint64_t	low = (UINT64_C(1) << layout->low_bits) - 1;

	return (int64_t) ((uint64_t) sf_layout_min_id(layout, tick) | low);
}

/*
 * Return the position below the first one whose tick begins at this time or
 * later, and not before the layout's epoch.
 */
uint64_t
sf_layout_floor_position(const SfLayout *layout, int64_t ms)
{
	int64_t		tick = sf_layout_ms_to_tick(layout, ms + layout->tick_ms - 1);

	if (tick < layout->epoch_tick)
		tick = layout->epoch_tick;
	return tick == 0 ? 0 : ((uint64_t) tick << layout->sequence_bits) - 1;
}

/*
 * Return the end of a position's tick, in Unix ms; 0 if no ID is there: before
 * the layout's epoch, and at position 0 of a layout that counts from 1970.
 */
int64_t
sf_layout_end_of_position(const SfLayout *layout, uint64_t position)
{
	int64_t		tick = (int64_t) (position >> layout->sequence_bits);

	if (position == 0 || tick < layout->epoch_tick)
		return 0;
	return (tick + 1) * layout->tick_ms;
}
