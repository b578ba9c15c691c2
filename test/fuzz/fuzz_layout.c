/*-------------------------------------------------------------------------
 *
 * fuzz_layout.c
 *	  Layouts.  An accepted layout can be printed and read again, has a code of
 *	  its own, and makes IDs that contain the values they were made of.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/layout.h"
#include "fuzz.h"

#define NIDS	8

static uint64_t rnd_state;

/* Return a random number: xorshift64*, seeded with a hash of the text. */
static uint64_t
rnd(void)
{
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return rnd_state * UINT64_C(0x2545F4914F6CDD1D);
}

static void
start_rnd(const char *text)
{
	rnd_state = UINT64_C(0xCBF29CE484222325);
	for (; *text != '\0'; text++)
		rnd_state = (rnd_state ^ (unsigned char) *text) *
			UINT64_C(0x100000001B3);
	rnd_state |= 1;				/* xorshift would stay at zero */
}

/* Return a value of so many bits, often the first or the last. */
static uint64_t
rnd_bits(int bits)
{
	uint64_t	mask = (UINT64_C(1) << bits) - 1;
	uint64_t	drawn = rnd();

	return drawn % 4 == 0 ? 0 : drawn % 4 == 1 ? mask : drawn >> 2 & mask;
}

static bool
is_node_kind(SfFieldKind kind)
{
	return kind >= SF_DATACENTER && kind <= SF_NODE;
}

/* Check that the fields fill the ID without gaps, and the derived members. */
static void
require_sound(const SfLayout *l)
{
	int			bits = 0,
				node_bits = 0;
	uint64_t	taken = 0;
	__int128	usable,
				life;

	for (int i = 0; i < SF_NFIELDS; i++)
	{
		int			width = l->field[i].width;
		uint64_t	mask;

		REQUIRE(width <= (i == SF_TIMESTAMP ? SF_MAX_TIMESTAMP_BITS :
						  i == SF_SEQUENCE ? SF_MAX_SEQUENCE_BITS :
						  SF_MAX_FIELD_BITS));
		if (width == 0)
			continue;
		REQUIRE(l->field[i].shift + width <= 64);
		mask = ((UINT64_C(1) << width) - 1) << l->field[i].shift;
		REQUIRE((taken & mask) == 0);
		taken |= mask;
		bits += width;
		node_bits += is_node_kind(i) ? width : 0;
	}
	REQUIRE(bits == l->bits && node_bits == l->node_bits && node_bits <= 31);
	REQUIRE(taken == UINT64_MAX >> (64 - bits));
	REQUIRE(l->field[SF_TIMESTAMP].width > 0);
	REQUIRE(l->field[SF_TIMESTAMP].shift == l->low_bits);
	REQUIRE(l->low_bits + l->field[SF_TIMESTAMP].width == bits);
	REQUIRE(l->field[SF_SEQUENCE].width > 0);
	REQUIRE(l->field[SF_SEQUENCE].width == l->sequence_bits);
	REQUIRE(l->sequence_mask == (UINT64_C(1) << l->sequence_bits) - 1);
	REQUIRE(!sf_layout_has(l, SF_NODE) ||
			node_bits == l->field[SF_NODE].width);
	REQUIRE(l->tick_ms >= 1 && l->tick_ms <= SF_MAX_TICK_MS);
	REQUIRE(l->epoch_ms >= 0 && l->epoch_ms <= SF_MAX_EPOCH_MS);
	REQUIRE(l->epoch_tick * l->tick_ms == l->epoch_ms);

	/* the last tick is the last: the next has no ID, or no position */
	usable = (__int128) 1 << (bits < 63 ? bits : 63);
	life = (__int128) (l->end_tick - l->epoch_tick) << l->low_bits;
	REQUIRE(life > 0 && life <= usable && l->end_tick <= SF_END_OF_TICKS);
	REQUIRE(l->end_tick == SF_END_OF_TICKS || life == usable);
}

/* Compare member by member: padding is not part of a layout. */
static bool
same_layout(const SfLayout *a, const SfLayout *b)
{
	for (int i = 0; i < SF_NFIELDS; i++)
		if (a->field[i].width != b->field[i].width ||
			(a->field[i].width > 0 && a->field[i].shift != b->field[i].shift))
			return false;
	return a->epoch_ms == b->epoch_ms && a->tick_ms == b->tick_ms &&
		a->epoch_tick == b->epoch_tick && a->end_tick == b->end_tick &&
		a->bits == b->bits && a->low_bits == b->low_bits &&
		a->node_bits == b->node_bits &&
		a->sequence_bits == b->sequence_bits &&
		a->sequence_mask == b->sequence_mask;
}

static void
require_prints(const SfLayout *l)
{
	char	   *printed = malloc(SF_LAYOUT_TEXT_SIZE);
	char		roomy[1000];
	char		reason[SF_REASON_SIZE];
	SfLayout	again;

	sf_layout_print(l, printed, SF_LAYOUT_TEXT_SIZE);
	sf_layout_print(l, roomy, sizeof(roomy));
	REQUIRE(strcmp(printed, roomy) == 0);
	REQUIRE(sf_layout_parse(&again, printed, reason, sizeof(reason)));
	REQUIRE(same_layout(l, &again));

	/* printing the canonical form again changes nothing */
	sf_layout_print(&again, roomy, sizeof(roomy));
	REQUIRE(strcmp(printed, roomy) == 0);
	free(printed);
}

/* Check that the code decodes, and that codes one bit away are unused. */
static void
require_code(const SfLayout *l)
{
	int64_t		code = sf_layout_code(l);
	SfLayout	other;

	REQUIRE(code > 0);
	REQUIRE(sf_layout_from_code(&other, code, l->epoch_ms));
	REQUIRE(same_layout(l, &other));
	for (int bit = 0; bit < 64; bit++)
	{
		int64_t		near = code ^ (int64_t) (UINT64_C(1) << bit);

		if (!sf_layout_from_code(&other, near, l->epoch_ms))
			continue;
		require_sound(&other);
		REQUIRE(!same_layout(l, &other));
		REQUIRE(sf_layout_code(&other) == near);
	}
}

/* Check that an ID contains its values, and lies in its tick's bounds. */
static void
require_id(const SfLayout *l, int64_t tick)
{
	uint64_t	node = rnd_bits(l->node_bits);
	uint64_t	shard = rnd_bits(l->field[SF_SHARD].width);
	uint64_t	sequence = rnd_bits(l->sequence_bits);
	int			within_bits = l->node_bits - l->field[SF_DATACENTER].width;
	uint64_t	datacenter = rnd_bits(l->field[SF_DATACENTER].width);
	uint64_t	within = rnd_bits(within_bits);
	int64_t		id = sf_layout_pack(l, tick, node, shard, sequence);
	int64_t		first = sf_layout_min_id(l, tick);
	int64_t		last = sf_layout_max_id(l, tick);

	REQUIRE(id >= 0 && sf_layout_fits(l, id));
	REQUIRE(sf_layout_tick(l, id) == tick);
	REQUIRE(sf_layout_node(l, id) == node);
	REQUIRE(sf_layout_field(l, SF_SHARD, id) == shard);
	REQUIRE(sf_layout_field(l, SF_SEQUENCE, id) == sequence);
	REQUIRE((int64_t) sf_layout_field(l, SF_TIMESTAMP, id) ==
			tick - l->epoch_tick);

	REQUIRE(0 <= first && first <= id && id <= last);
	REQUIRE(first == sf_layout_pack(l, tick, 0, 0, 0));
	REQUIRE(last == sf_layout_pack(l, tick,
								   (UINT64_C(1) << l->node_bits) - 1,
								   (UINT64_C(1) << l->field[SF_SHARD].width) - 1,
								   l->sequence_mask));
	REQUIRE(tick == l->epoch_tick ?
			first == 0 : first - 1 == sf_layout_max_id(l, tick - 1));
	REQUIRE(tick < l->end_tick - 1 ||
			last == INT64_MAX || !sf_layout_fits(l, last + 1) ||
			l->end_tick == SF_END_OF_TICKS);

	/* the next position is a later ID of the same maker */
	if (sequence < l->sequence_mask)
		REQUIRE(id < sf_layout_pack(l, tick, node, shard, sequence + 1));
	else if (tick < l->end_tick - 1)
		REQUIRE(id < sf_layout_pack(l, tick + 1, node, shard, 0));

	/* join a node's number of two parts, and find them in its fields */
	node = sf_layout_join_node(l, datacenter, within);
	REQUIRE(node < UINT64_C(1) << l->node_bits);
	id = sf_layout_pack(l, tick, node, shard, sequence);
	REQUIRE(sf_layout_node(l, id) == node);
	REQUIRE(sf_layout_field(l, SF_DATACENTER, id) == datacenter);
	REQUIRE(within_bits == 0 || sf_layout_has(l, SF_DATACENTER) ||
			node == within);
}

/* Check that ticks ascend with any numbers, and which of these can be IDs. */
static void
require_total(const SfLayout *l)
{
	int64_t		a = (int64_t) rnd() >> rnd() % 64;
	int64_t		b = (int64_t) rnd() >> rnd() % 64;

	REQUIRE(a > b || sf_layout_tick(l, a) <= sf_layout_tick(l, b));
	REQUIRE(sf_layout_tick(l, INT64_MIN) <= sf_layout_tick(l, a));
	REQUIRE(sf_layout_tick(l, a) <= sf_layout_tick(l, INT64_MAX));
	REQUIRE(sf_layout_fits(l, a) ==
			(a >= 0 && (__int128) a < (__int128) 1 << l->bits));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = text_of(data, size);
	char		reason[SF_REASON_SIZE];
	size_t		small = 1 + size % 20;
	char	   *small_reason = malloc(small);
	SfLayout	layout,
				again;
	bool		good = sf_layout_parse(&layout, text, reason, sizeof(reason));

	REQUIRE(good == sf_layout_parse(&again, text, small_reason, small));
	if (!good)
		require_reason(reason, text, sizeof(reason));
	else
	{
		uint64_t	life = layout.end_tick - layout.epoch_tick;

		start_rnd(text);
		require_sound(&layout);
		REQUIRE(same_layout(&layout, &again));
		require_prints(&layout);
		require_code(&layout);
		require_id(&layout, layout.epoch_tick);
		require_id(&layout, layout.end_tick - 1);
		for (int i = 0; i < NIDS; i++)
		{
			require_id(&layout, layout.epoch_tick + rnd() % life);
			require_total(&layout);
		}
	}
	free(small_reason);
	free(text);
	return 0;
}
