/*-------------------------------------------------------------------------
 *
 * test_layout.c
 *	  Layouts: their arithmetic, their codes and their texts.
 *
 * Most tests run over many random layouts.  Each is drawn as a list of fields
 * (Sample).  The code under test computes with shifts and masks, and the
 * tests compare its results with the list.
 *-------------------------------------------------------------------------
 */

/* days after 2038 are compared with the results for the system's time_t */
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64

#include "layout/layout.h"
#include "harness.h"

#define NSAMPLES	20000

typedef struct Sample
{
	SfLayout	layout;			/* what sf_layout_parse made of the text */
	char		text[SF_LAYOUT_TEXT_SIZE];
	int			n;
	SfFieldKind kind[SF_NFIELDS];	/* high to low */
	int			width[SF_NFIELDS];
	int64_t		epoch_ms;
	int			tick_ms;
} Sample;

/* An ID, and the values that it is made from. */
typedef struct Drawn
{
	int64_t		id;
	int64_t		tick;
	uint64_t	value[SF_NFIELDS];	/* by kind */
	uint64_t	node;
	uint64_t	within;			/* the node without the datacenter */
} Drawn;

static Sample samples[NSAMPLES];

/* Run a block for each sample, s. */
#define FOR_SAMPLES(s) \
	for (const Sample *s = samples; \
		 s < samples + NSAMPLES && set_context(s->text); s++)

static bool
set_context(const char *text)
{
	snprintf(context, sizeof(context), "\"%.400s\"", text);
	return true;
}

static bool
is_node_kind(SfFieldKind kind)
{
	return kind >= SF_DATACENTER && kind <= SF_NODE;
}

/* ---- random layouts ---- */

/* The timestamp, the sequence and some others; widths that may exceed 64. */
static void
draw_fields(Sample *s)
{
	int			left = 64;
	bool		node = rnd_below(2);

	s->n = 0;
	for (int kind = 0; kind < SF_NFIELDS; kind++)
	{
		int			at = s->n == 0 ? 0 : 1 + rnd_below(s->n);

		if (is_node_kind(kind) && node != (kind == SF_NODE))
			continue;
		if (kind != SF_TIMESTAMP && kind != SF_SEQUENCE && rnd_below(2))
			continue;
		memmove(s->kind + at + 1, s->kind + at,
				(s->n - at) * sizeof(s->kind[0]));
		s->kind[at] = kind;
		s->n++;
	}
	for (int i = 0; i < s->n; i++)
	{
		int			most = s->kind[i] == SF_TIMESTAMP ? 48 :
			s->kind[i] == SF_SEQUENCE ? 16 : 31;

		if (most > left - (s->n - 1 - i) && rnd_below(50))
			most = left - (s->n - 1 - i);
		if (most < 1)
			most = 1;
		if (i == s->n - 1 && rnd_below(2))
			s->width[i] = most; /* fill the ID, if that is possible */
		else
			s->width[i] = 1 + rnd_edge(most);
		left -= s->width[i];
	}
}

static void
draw_sample(Sample *s)
{
	int			len = 0;

	draw_fields(s);
	s->tick_ms = rnd_below(2) ? 1 : 1 + rnd_edge(1000);
	s->epoch_ms = rnd_edge(INT64_C(7258118400000));
	s->epoch_ms -= s->epoch_ms % s->tick_ms;
	if (s->epoch_ms < INT64_C(100000000000))
		s->epoch_ms = 0;
	for (int i = 0; i < s->n; i++)
		len += sprintf(s->text + len, "%s:%d ", sf_field_names[s->kind[i]],
					   s->width[i]);
	sprintf(s->text + len, "tick:%dms epoch:%" PRId64,
			s->tick_ms, s->epoch_ms);
}

/* Draw samples until there are enough.  All others must be refused. */
static void
test_random_layouts_are_judged(void)
{
	int			n = 0;

	for (int drawn = 0; n < NSAMPLES && drawn < 100 * NSAMPLES; drawn++)
	{
		Sample	   *s = &samples[n];
		char		reason[SF_REASON_SIZE] = "";
		int			bits = 0;
		int			node_bits = 0;
		bool		good;

		draw_sample(s);
		set_context(s->text);
		for (int i = 0; i < s->n; i++)
		{
			bits += s->width[i];
			node_bits += is_node_kind(s->kind[i]) ? s->width[i] : 0;
		}
		good = sf_layout_parse(&s->layout, s->text, reason, sizeof(reason));
		CHECK_EQ(good, bits <= 64 && node_bits <= 31);
		if (!good)
			CHECK_CONTAINS(reason, bits > 64 ? "64 bits" : "31 bits");
		n += good;
	}
	CHECK_EQ(n, NSAMPLES);
}

static void
test_fields_are_as_written(void)
{
	FOR_SAMPLES(s)
	{
		int			shift = 0;
		int			fields = 0;

		for (int i = s->n - 1; i >= 0; i--)
		{
			CHECK_EQ(s->layout.field[s->kind[i]].width, s->width[i]);
			CHECK_EQ(s->layout.field[s->kind[i]].shift, shift);
			shift += s->width[i];
		}
		CHECK_EQ(s->layout.bits, shift);
		CHECK_EQ(s->layout.epoch_ms, s->epoch_ms);
		CHECK_EQ(s->layout.tick_ms, s->tick_ms);
		CHECK_EQ(s->layout.epoch_tick * s->tick_ms, s->epoch_ms);
		for (int kind = 0; kind < SF_NFIELDS; kind++)
			fields += sf_layout_has(&s->layout, kind);
		CHECK_EQ(fields, s->n);
	}
}

/* The tick after the last one has no ID, or no position. */
static void
test_life_is_as_long_as_can_be(void)
{
	FOR_SAMPLES(s)
	{
		const SfLayout *l = &s->layout;
		int64_t		life = l->end_tick - l->epoch_tick;
		int			usable = l->bits < 63 ? l->bits : 63;
		uint64_t	longest = (UINT64_C(1) << usable) >> l->low_bits;

		CHECK(life > 0);
		CHECK(l->end_tick <= SF_END_OF_TICKS);
		CHECK((uint64_t) life <= longest);
		CHECK(l->end_tick == SF_END_OF_TICKS || (uint64_t) life == longest);
	}
}

/* ---- IDs ---- */

/* Draw values, and join them to an ID field by field. */
static void
draw_id(const Sample *s, Drawn *d)
{
	const SfLayout *l = &s->layout;
	uint64_t	id = 0;

	*d = (Drawn)
	{
		0
	};
	for (int i = 0; i < s->n; i++)
	{
		SfFieldKind kind = s->kind[i];
		int			width = s->width[i];

		d->value[kind] = rnd_edge(kind == SF_TIMESTAMP ?
								  (uint64_t) (l->end_tick - l->epoch_tick) :
								  UINT64_C(1) << width);
		id = (id << width) + d->value[kind];
		if (is_node_kind(kind))
			d->node = (d->node << width) + d->value[kind];
		if (is_node_kind(kind) && kind != SF_DATACENTER)
			d->within = (d->within << width) + d->value[kind];
	}
	d->tick = l->epoch_tick + (int64_t) d->value[SF_TIMESTAMP];
	d->id = (int64_t) id;
}

static int64_t
pack(const Sample *s, const Drawn *d)
{
	return sf_layout_pack(&s->layout, d->tick, d->node, d->value[SF_SHARD],
						  d->value[SF_SEQUENCE]);
}

static void
test_pack_puts_fields_in_order(void)
{
	FOR_SAMPLES(s)
	{
		for (int i = 0; i < 5; i++)
		{
			Drawn		d;

			draw_id(s, &d);
			CHECK_EQ(pack(s, &d), d.id);
			CHECK(pack(s, &d) >= 0);
			CHECK(sf_layout_fits(&s->layout, pack(s, &d)));
		}
	}
}

static void
test_unpack_is_the_inverse(void)
{
	FOR_SAMPLES(s)
	{
		for (int i = 0; i < 5; i++)
		{
			Drawn		d;
			int64_t		id;

			draw_id(s, &d);
			id = pack(s, &d);
			CHECK_EQ(sf_layout_tick(&s->layout, id), d.tick);
			CHECK_EQ(sf_layout_node(&s->layout, id), d.node);
			for (int kind = 0; kind < SF_NFIELDS; kind++)
				CHECK_EQ(sf_layout_field(&s->layout, kind, id), d.value[kind]);
		}
	}
}

static void
test_bounds_hold_a_tick(void)
{
	FOR_SAMPLES(s)
	{
		const SfLayout *l = &s->layout;
		Drawn		d;
		int64_t		first,
					last;

		draw_id(s, &d);
		first = sf_layout_min_id(l, d.tick);
		last = sf_layout_max_id(l, d.tick);
		CHECK(first <= pack(s, &d) && pack(s, &d) <= last);
		CHECK_EQ(sf_layout_tick(l, first), d.tick);
		CHECK_EQ(sf_layout_tick(l, last), d.tick);
		CHECK(first >= 0 && sf_layout_fits(l, last));
		if (d.tick + 1 < l->end_tick)
			CHECK_EQ(sf_layout_min_id(l, d.tick + 1), last + 1);
		if (d.tick > l->epoch_tick)
			CHECK_EQ(sf_layout_max_id(l, d.tick - 1), first - 1);
	}
}

/* For one node and one shard, the later position has the larger ID. */
static void
test_positions_sort_as_ids(void)
{
	FOR_SAMPLES(s)
	{
		const SfLayout *l = &s->layout;
		Drawn		d;
		uint64_t	first = (uint64_t) l->epoch_tick << l->sequence_bits;
		uint64_t	end = (uint64_t) l->end_tick << l->sequence_bits;
		uint64_t	count = end - first;
		uint64_t	a = rnd_edge(count - 1);
		uint64_t	b = rnd_below(2) ? a + 1 : rnd_edge(count);
		int64_t		made_by;

		draw_id(s, &d);
		made_by = pack(s, &d) &
			~sf_layout_pack(l, d.tick, 0, 0, d.value[SF_SEQUENCE]);
		CHECK_EQ((sf_layout_compose(l, first + a) | made_by) <
				 (sf_layout_compose(l, first + b) | made_by), a < b);
		CHECK_EQ(sf_layout_compose(l, (uint64_t) d.tick << l->sequence_bits |
								   d.value[SF_SEQUENCE]) | made_by, d.id);
	}
}

static void
test_nodes_are_placed_and_joined(void)
{
	FOR_SAMPLES(s)
	{
		const SfLayout *l = &s->layout;
		Drawn		d;
		uint64_t	placed;

		draw_id(s, &d);
		placed = sf_layout_place_node(l, d.node);
		CHECK_EQ(sf_layout_node(l, (int64_t) placed), d.node);
		for (int kind = 0; kind < SF_NFIELDS; kind++)
			CHECK_EQ(sf_layout_field(l, kind, (int64_t) placed),
					 is_node_kind(kind) ? d.value[kind] : 0);
		CHECK_EQ(sf_layout_join_node(l, d.value[SF_DATACENTER], d.within),
				 d.node);
	}
}

/* Ticks exist for all bigints, and ascend: an index on the tick is safe. */
static void
test_ticks_sort_as_ids(void)
{
	FOR_SAMPLES(s)
	{
		const SfLayout *l = &s->layout;

		for (int i = 0; i < 10; i++)
		{
			int64_t		a = rnd_int64();
			int64_t		b = a < INT64_MAX ? a + 1 : a;

			if (rnd_below(2))
				b = rnd_int64();
			if (a <= b)
				CHECK(sf_layout_tick(l, a) <= sf_layout_tick(l, b));
			else
				CHECK(sf_layout_tick(l, a) >= sf_layout_tick(l, b));
		}
		CHECK_EQ(sf_layout_tick(l, 0), l->epoch_tick);
		CHECK_EQ(sf_layout_tick(l, -1), l->epoch_tick - 1);
		CHECK(sf_layout_tick(l, INT64_MIN) < l->epoch_tick);
		CHECK(sf_layout_tick(l, INT64_MAX) >= l->epoch_tick);
	}
}

static void
test_fits_means_not_negative_nor_wider(void)
{
	FOR_SAMPLES(s)
	{
		int			bits = s->layout.bits < 63 ? s->layout.bits : 63;
		uint64_t	wider = UINT64_C(1) << bits;

		CHECK(sf_layout_fits(&s->layout, (int64_t) (wider - 1)));
		CHECK(sf_layout_fits(&s->layout, 0));
		CHECK(!sf_layout_fits(&s->layout, (int64_t) wider));
		CHECK(!sf_layout_fits(&s->layout, -1));
		CHECK(!sf_layout_fits(&s->layout, INT64_MIN));
	}
}

static void
test_ms_round_down_to_ticks(void)
{
	FOR_SAMPLES(s)
	{
		int64_t		ms = rnd_int64();
		int64_t		tick = sf_layout_ms_to_tick(&s->layout, ms);
		int64_t		towards_0 = ms / s->tick_ms;

		/* the tick may begin before the first millisecond of int64 */
		CHECK((uint64_t) towards_0 - (uint64_t) tick <= 1);
		CHECK((uint64_t) ms - (uint64_t) tick * s->tick_ms <
			  (uint64_t) s->tick_ms);
		CHECK_EQ(sf_layout_ms_to_tick(&s->layout, -1), -1);
		CHECK_EQ(sf_layout_ms_to_tick(&s->layout, -s->tick_ms), -1);
		CHECK_EQ(sf_layout_ms_to_tick(&s->layout, -s->tick_ms - 1), -2);
	}
}

/* ---- prints and codes ---- */

static bool
same_fields(const SfLayout *a, const SfLayout *b)
{
	for (int kind = 0; kind < SF_NFIELDS; kind++)
	{
		if (a->field[kind].width != b->field[kind].width ||
			(a->field[kind].width > 0 &&
			 a->field[kind].shift != b->field[kind].shift))
			return false;
	}
	return a->tick_ms == b->tick_ms;
}

/* Compare the fields, and everything derived from them. */
static bool
same_layout(const SfLayout *a, const SfLayout *b)
{
	return same_fields(a, b) && a->epoch_ms == b->epoch_ms &&
		a->epoch_tick == b->epoch_tick && a->end_tick == b->end_tick &&
		a->bits == b->bits && a->low_bits == b->low_bits &&
		a->node_bits == b->node_bits &&
		a->sequence_bits == b->sequence_bits &&
		a->sequence_mask == b->sequence_mask;
}

static void
test_print_parses_back(void)
{
	FOR_SAMPLES(s)
	{
		char		text[SF_LAYOUT_TEXT_SIZE];
		char		again[SF_LAYOUT_TEXT_SIZE];
		char		reason[SF_REASON_SIZE] = "";
		SfLayout	parsed;

		sf_layout_print(&s->layout, text, sizeof(text));
		CHECK(sf_layout_parse(&parsed, text, reason, sizeof(reason)));
		CHECK(same_layout(&parsed, &s->layout));
		sf_layout_print(&parsed, again, sizeof(again));
		CHECK_STR(again, text);
	}
}

static void
test_codes_lead_back(void)
{
	FOR_SAMPLES(s)
	{
		int64_t		code = sf_layout_code(&s->layout);
		int64_t		other = code ^ (INT64_C(1) << rnd_below(64));
		SfLayout	layout;

		CHECK(code > 0);
		CHECK(sf_layout_from_code(&layout, code, s->epoch_ms));
		CHECK(same_layout(&layout, &s->layout));
		CHECK(!sf_layout_from_code(&layout, code, -1));
		CHECK(!sf_layout_from_code(&layout, code, SF_MAX_EPOCH_MS + 1));

		/* no layout has two codes, and most numbers are no code */
		if (sf_layout_from_code(&layout, other, 0))
			CHECK_EQ(sf_layout_code(&layout), other);
		other = rnd_int64();
		if (sf_layout_from_code(&layout, other, 0))
			CHECK_EQ(sf_layout_code(&layout), other);
	}
}

/* Make a code by hand, and change it in each way that must be refused. */
static void
test_other_numbers_are_no_codes(void)
{
#define CODE(tick, width)		((uint64_t) (tick) << 6 | (width))
#define FIELD(code, kind, width)	((code) << 8 | (kind) << 5 | (width))
#define COUNT(code, n)			((int64_t) ((code) << 3 | (n)))
#define NO_CODE(code)			CHECK(!sf_layout_from_code(&layout, code, 0))
	SfLayout	layout;
	int64_t		good = COUNT(FIELD(CODE(1, 41), SF_SEQUENCE, 12), 1);

	set_context("a code by the book");
	CHECK(sf_layout_from_code(&layout, good, 0));
	CHECK_EQ(layout.bits, 53);
	CHECK(sf_layout_from_code(&layout, good, SF_MAX_EPOCH_MS));
	NO_CODE(0);
	NO_CODE(-1);
	NO_CODE(INT64_MIN | good);
	NO_CODE(COUNT(FIELD(CODE(0, 41), SF_SEQUENCE, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1001, 41), SF_SEQUENCE, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1 << 20, 41), SF_SEQUENCE, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 0), SF_SEQUENCE, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 49), SF_SEQUENCE, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 63), SF_SEQUENCE, 1), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 41), SF_SEQUENCE, 0), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 41), SF_SEQUENCE, 17), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 48), SF_SEQUENCE, 17), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 41), SF_TIMESTAMP, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 41), SF_SEQUENCE + 1, 12), 1));
	NO_CODE(COUNT(FIELD(CODE(1, 41), SF_NODE, 12), 1));
	NO_CODE(COUNT(FIELD(FIELD(CODE(1, 41), SF_NODE, 12), SF_SEQUENCE, 12), 2));
	NO_CODE(COUNT(FIELD(FIELD(CODE(1, 30), SF_NODE, 5), SF_WORKER, 5), 2));
	NO_CODE(COUNT(FIELD(FIELD(CODE(1, 30), SF_SEQUENCE, 5), SF_SEQUENCE, 5),
				  2));
	NO_CODE(COUNT(CODE(1, 41), 0));
	NO_CODE(COUNT(CODE(1, 41), 7));
	NO_CODE(good ^ 2);			/* other counts of fields */
	NO_CODE(good ^ 1);

	/* an epoch that is no multiple of the tick */
	good = COUNT(FIELD(CODE(10, 41), SF_SEQUENCE, 12), 1);
	CHECK(sf_layout_from_code(&layout, good, 20));
	CHECK(!sf_layout_from_code(&layout, good, 25));
}

/* Return a layout that differs in one width, the tick, or two fields. */
static Sample
draw_neighbour(const Sample *s)
{
	Sample		near = *s;
	int			i = rnd_below(s->n);
	int			j = rnd_below(s->n);
	int			len = 0;

	switch (rnd_below(4))
	{
		case 0:
			near.width[i] += rnd_below(2) ? 1 : -1;
			break;
		case 1:
			near.tick_ms += rnd_below(2) ? 1 : -1;
			break;
		case 2:
			near.kind[i] = s->kind[j];
			near.kind[j] = s->kind[i];
			break;
		case 3:
			near.width[i]++;
			near.width[j]--;
			break;
	}
	for (i = 0; i < near.n; i++)
		len += sprintf(near.text + len, "%s:%d ", sf_field_names[near.kind[i]],
					   near.width[i]);
	sprintf(near.text + len, "tick:%dms epoch:0", near.tick_ms);
	return near;
}

static void
test_other_layouts_have_other_codes(void)
{
	int			compared = 0;

	FOR_SAMPLES(s)
	{
		Sample		near = draw_neighbour(s);
		const Sample *any = &samples[rnd_below(NSAMPLES)];
		char		reason[SF_REASON_SIZE];

		CHECK_EQ(sf_layout_code(&s->layout) == sf_layout_code(&any->layout),
				 same_fields(&s->layout, &any->layout));
		if (!sf_layout_parse(&near.layout, near.text, reason, sizeof(reason)))
			continue;
		compared++;
		CHECK_EQ(sf_layout_code(&s->layout) == sf_layout_code(&near.layout),
				 same_fields(&s->layout, &near.layout));
	}
	CHECK(compared > NSAMPLES / 10);
}

/* ---- presets ---- */

/* The canonical text and the size of each preset. */
static const struct
{
	const char *name;
	const char *printed;
	int			bits;
	int			node_bits;
	int64_t		epoch_ms;
}			presets[] = {

	{"snowflake", "timestamp:41 node:10 sequence:12 epoch:2024-01-01",
	63, 10, 1704067200000},
	{"twitter", "timestamp:41 datacenter:5 worker:5 sequence:12 epoch:2010-11-04T01:42:54.657Z",
	63, 10, 1288834974657},
	{"discord", "timestamp:42 worker:5 process:5 sequence:12 epoch:2015-01-01",
	64, 10, 1420070400000},
	{"instagram", "timestamp:41 shard:13 sequence:10 epoch:2011-08-24T21:07:01.721Z",
	64, 0, 1314220021721},
	{"mastodon", "timestamp:48 sequence:16 epoch:1970-01-01",
	64, 0, 0},
	{"javascript", "timestamp:41 node:7 sequence:5 epoch:2024-01-01",
	53, 7, 1704067200000},
	{"sonyflake", "timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01",
	63, 16, 1409529600000},
	{"pgedge", "timestamp:41 node:10 sequence:12 epoch:2023-01-01",
	63, 10, 1672531200000},
};

static void
parse_good(SfLayout *layout, const char *text)
{
	char		reason[SF_REASON_SIZE] = "";
	bool		good;

	set_context(text);
	good = sf_layout_parse(layout, text, reason, sizeof(reason));
	CHECK(good);
	CHECK_STR(reason, "");
}

static void
test_presets_are_as_published(void)
{
	CHECK_EQ(sf_npresets, LENGTH(presets));
	for (int i = 0; i < sf_npresets && i < LENGTH(presets); i++)
	{
		SfLayout	layout,
					spelled;
		char		text[SF_LAYOUT_TEXT_SIZE];

		CHECK_STR(sf_presets[i].name, presets[i].name);
		CHECK(sf_presets[i].source[0] != '\0');
		parse_good(&spelled, sf_presets[i].text);
		parse_good(&layout, presets[i].name);
		CHECK(same_layout(&layout, &spelled));
		sf_layout_print(&layout, text, sizeof(text));
		CHECK_STR(text, presets[i].printed);
		CHECK_EQ(layout.bits, presets[i].bits);
		CHECK_EQ(layout.node_bits, presets[i].node_bits);
		CHECK_EQ(layout.epoch_ms, presets[i].epoch_ms);
		CHECK_EQ(layout.tick_ms, strcmp(presets[i].name, "sonyflake") ? 1 : 10);
	}
}

/*
 * A counter that is raised to a time has reached no later tick than needed.
 * Without a time, it has reached no tick at all.
 */
static void
test_positions_lie_below_a_time(void)
{
	for (int i = 0; i < sf_npresets; i++)
	{
		SfLayout	l;
		uint64_t	position;
		int64_t		end;

		parse_good(&l, sf_presets[i].name);
		set_context(sf_presets[i].name);
		CHECK_EQ(sf_layout_end_of_position(&l, 0), 0);
		position = sf_layout_floor_position(&l, 0);
		CHECK_EQ(sf_layout_end_of_position(&l, position), 0);
		for (int64_t ms = l.epoch_ms + 1; ms < l.epoch_ms + 100; ms++)
		{
			position = sf_layout_floor_position(&l, ms);
			end = sf_layout_end_of_position(&l, position);
			CHECK(end >= ms && end < ms + l.tick_ms);
		}
	}
}

/* An ID of any time is a number that JavaScript represents exactly. */
static void
test_javascript_is_exact(void)
{
	SfLayout	l;

	parse_good(&l, "javascript");
	CHECK_EQ(sf_layout_max_id(&l, l.end_tick - 1), 9007199254740991);
}

/* ---- texts ---- */

static void
test_layouts_are_taken(void)
{
	static const char *const taken[][2] = {
		{"timestamp:41 node:10 sequence:12",
		"timestamp:41 node:10 sequence:12 epoch:2024-01-01"},
		{"  timestamp:41\tnode:10\r\nsequence:12  ",
		"timestamp:41 node:10 sequence:12 epoch:2024-01-01"},
		{"timestamp:48 sequence:16 tick:1ms",
		"timestamp:48 sequence:16 epoch:2024-01-01"},
		{"tick:1000ms epoch:2020-02-29 timestamp:1 sequence:1",
		"timestamp:1 sequence:1 tick:1000ms epoch:2020-02-29"},
		{"timestamp:33 datacenter:15 worker:15 sequence:1 tick:1s",
		"timestamp:33 datacenter:15 worker:15 sequence:1 tick:1000ms epoch:2024-01-01"},
		{"timestamp:32 node:31 sequence:1 epoch:1704067200001",
		"timestamp:32 node:31 sequence:1 epoch:2024-01-01T00:00:00.001Z"},
		{"timestamp:40 process:1 worker:2 datacenter:3 shard:4 sequence:5",
		"timestamp:40 process:1 worker:2 datacenter:3 shard:4 sequence:5 epoch:2024-01-01"},
		{"snowflake epoch:2020-01-01",
		"timestamp:41 node:10 sequence:12 epoch:2020-01-01"},
		{" javascript\ttick:10ms",
		"timestamp:41 node:7 sequence:5 tick:10ms epoch:2024-01-01"},
		{"sonyflake tick:1ms epoch:0",
		"timestamp:39 sequence:8 node:16 epoch:1970-01-01"},
		{"twitter epoch:2024-01-01T12:34:56.789+00:00 tick:1ms",
		"timestamp:41 datacenter:5 worker:5 sequence:12 epoch:2024-01-01T12:34:56.789Z"},
	};

	for (int i = 0; i < LENGTH(taken); i++)
	{
		SfLayout	layout;
		char		text[SF_LAYOUT_TEXT_SIZE];

		parse_good(&layout, taken[i][0]);
		sf_layout_print(&layout, text, sizeof(text));
		CHECK_STR(text, taken[i][1]);
	}
}

typedef struct Refused
{
	const char *text;
	const char *why;			/* part of the reason */
} Refused;

/* Check for whole characters only; overlong ones do not matter here. */
static bool
is_utf8(const char *s)
{
	for (; *s != '\0'; s++)
	{
		int			more = (*s & 0xE0) == 0xC0 ? 1 :
			(*s & 0xF0) == 0xE0 ? 2 :
			(*s & 0xF8) == 0xF0 ? 3 : 0;

		if (more == 0 && (*s & 0x80) != 0)
			return false;
		while (more-- > 0)
		{
			if ((*++s & 0xC0) != 0x80)
				return false;
		}
	}
	return true;
}

/* A reason is a whole sentence: one that was cut has no full stop. */
static void
check_reason(const char *reason, const char *why)
{
	CHECK_CONTAINS(reason, why);
	CHECK(is_utf8(reason));
	CHECK(strlen(reason) > 0 && reason[strlen(reason) - 1] == '.');
}

static void
check_layout_refused(const char *text, const char *why)
{
	char		reason[SF_REASON_SIZE] = "";
	SfLayout	layout;

	set_context(text);
	CHECK(!sf_layout_parse(&layout, text, reason, sizeof(reason)));
	check_reason(reason, why);
}

static void
test_fields_are_refused(void)
{
	static const Refused refused[] = {
		{"", "empty"},
		{" \t\r\n ", "empty"},
		{"nonsense", "neither a preset nor a field"},
		{"Snowflake", "neither a preset nor a field"},
		{"snowflake twitter", "neither a preset nor a field"},
		{"timestamp:41 twitter", "neither a preset nor a field"},
		{"timestamp:41 machine:10 sequence:12", "neither a preset nor a field"},
		{"timestamp:41 : sequence:12", "neither a preset nor a field"},
		{"timestamp:41,node:10,sequence:12", "\"timestamp\" must be"},
		{"TIMESTAMP:41 sequence:12", "neither a preset nor a field"},
		{"node:10 sequence:12", "begin with the field \"timestamp\""},
		{"epoch:2024-01-01 tick:1ms", "begin with the field \"timestamp\""},
		{"node:10 timestamp:41 sequence:12", "begin with the field \"timestamp\""},
		{"timestamp:0 sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp:49 sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp: sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp:-1 sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp:41x sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp:297 sequence:12", "\"timestamp\" must be between 1 and 48"},
		{"timestamp:4294967337 sequence:12", "\"timestamp\" must be between"},
		{"timestamp:41 node:0 sequence:12", "\"node\" must be between 1 and 31"},
		{"timestamp:20 node:32 sequence:12", "\"node\" must be between 1 and 31"},
		{"timestamp:20 shard:32 sequence:12", "\"shard\" must be between 1 and 31"},
		{"timestamp:41 sequence:0", "\"sequence\" must be between 1 and 16"},
		{"timestamp:41 sequence:17", "\"sequence\" must be between 1 and 16"},
		{"timestamp:41 node:10 sequence:14", "at most 64 bits"},
		{"timestamp:48 node:31 shard:31 sequence:16", "at most 64 bits"},
		{"timestamp:48 datacenter:31 worker:31 process:31 shard:31 sequence:16", "at most 64 bits"},
		{"timestamp:41 node:5 node:5 sequence:12", "\"node\" is there twice"},
		{"timestamp:41 timestamp:5 sequence:12", "\"timestamp\" is there twice"},
		{"timestamp:41 sequence:5 sequence:5", "\"sequence\" is there twice"},
		{"snowflake node:5", "\"node\" is there twice"},
		{"timestamp:41 node:10", "must have the field \"sequence\""},
		{"timestamp:41", "must have the field \"sequence\""},
		{"timestamp:41 node:5 worker:5 sequence:12", "the whole node number"},
		{"timestamp:41 datacenter:5 node:5 sequence:12", "the whole node number"},
		{"timestamp:41 process:5 sequence:12 node:5", "the whole node number"},
		{"timestamp:20 datacenter:16 worker:16 sequence:12", "at most 31 bits"},
	};

	for (int i = 0; i < LENGTH(refused); i++)
		check_layout_refused(refused[i].text, refused[i].why);
}

static void
test_ticks_and_epochs_are_refused(void)
{
	static const Refused refused[] = {
		{"snowflake tick:0ms", "between 1ms and 1000ms"},
		{"snowflake tick:1001ms", "between 1ms and 1000ms"},
		{"snowflake tick:10", "between 1ms and 1000ms"},
		{"snowflake tick:2s", "between 1ms and 1000ms"},
		{"snowflake tick:0s", "between 1ms and 1000ms"},
		{"snowflake tick:ms", "between 1ms and 1000ms"},
		{"snowflake tick:s", "between 1ms and 1000ms"},
		{"snowflake tick:", "between 1ms and 1000ms"},
		{"snowflake tick", "between 1ms and 1000ms"},
		{"snowflake tick:-1ms", "between 1ms and 1000ms"},
		{"snowflake tick:1us", "between 1ms and 1000ms"},
		{"snowflake tick:1MS", "between 1ms and 1000ms"},
		{"snowflake tick:1000001ms", "between 1ms and 1000ms"},
		{"snowflake tick:4294967297ms", "between 1ms and 1000ms"},
		{"twitter tick:10ms", "multiple of the tick"},
		{"sonyflake epoch:1704067200001", "multiple of the tick"},
		{"snowflake tick:7ms", "multiple of the tick"},
		{"snowflake epoch:yesterday", "ISO 8601"},
		{"snowflake epoch:", "ISO 8601"},
		{"snowflake epoch", "ISO 8601"},
		{"snowflake epoch:2024-01-01 12:00", "neither a preset nor a field"},
		{"snowflake epoch:2024", "too small"},
		{"snowflake epoch:2200-01-01", "between 1970-01-01 and 2199-12-31"},
		{"epoch:1969-12-31 timestamp:41 sequence:12", "between 1970-01-01"},
	};

	for (int i = 0; i < LENGTH(refused); i++)
		check_layout_refused(refused[i].text, refused[i].why);
}

/* The reason shows a part of the word, and never cuts a character. */
static void
test_long_words_are_refused(void)
{
	static const Refused refused[] = {
		{"", "neither a preset nor a field"},
		{"timestamp:", "\"timestamp\" must be"},
		{"timestamp:41 sequence:", "\"sequence\" must be"},
		{"snowflake tick:", "between 1ms and 1000ms"},
		{"snowflake epoch:", "ISO 8601"},
	};
	static const char *const fillings[] = {"9", "x", "\xe2\x82\xac"};

	for (int i = 0; i < LENGTH(refused) * LENGTH(fillings); i++)
	{
		const Refused *r = &refused[i / LENGTH(fillings)];
		const char *filling = fillings[i % LENGTH(fillings)];
		char		text[1100];

		strcpy(text, r->text);
		for (int n = 0; n < 1000; n += strlen(filling))
		{
			strcat(text, filling);
			if (n >= 15)		/* a shorter one might be a good epoch */
				check_layout_refused(text, r->why);
		}
	}
}

static void
test_long_texts_end(void)
{
	size_t		size = 1 << 20;
	char	   *text = malloc(size + 100);
	SfLayout	layout;

	memset(text, ' ', size);
	strcpy(text + size, "snowflake");
	parse_good(&layout, text);
	text[size] = '\0';
	check_layout_refused(text, "empty");
	memset(text, 'x', size);
	check_layout_refused(text, "neither a preset nor a field");
	strcpy(text, "snowflake");
	for (size_t len = strlen(text); len < size; len += 11)
		strcpy(text + len, " tick:100ms");
	parse_good(&layout, text);
	CHECK_EQ(layout.tick_ms, 100);
	free(text);
}

/* ---- epochs ---- */

static void
test_epochs_are_taken(void)
{
	static const struct
	{
		const char *text;
		int64_t		ms;
	}			taken[] = {
		{"2024-01-01", 1704067200000},
		{"2024-01-01Z", 1704067200000},
		{"2024-01-01T00:00", 1704067200000},
		{"2024-01-01T12:34", 1704112440000},
		{"2024-01-01T12:34:56", 1704112496000},
		{"2024-01-01 12:34:56", 1704112496000},
		{"2024-01-01t12:34:56z", 1704112496000},
		{"2024-01-01T12:34:56Z", 1704112496000},
		{"2024-01-01T12:34:56+00", 1704112496000},
		{"2024-01-01T12:34:56+00:00", 1704112496000},
		{"2024-01-01T12:34:56.7", 1704112496700},
		{"2024-01-01T12:34:56.78Z", 1704112496780},
		{"2024-01-01T12:34:56.789Z", 1704112496789},
		{"2024-01-01T12:34:56.009+00:00", 1704112496009},
		{"2024-02-29", 1709164800000},
		{"2000-02-29", 951782400000},
		{"2010-11-04T01:42:54.657Z", 1288834974657},
		{"1970-01-01", 0},
		{"0", 0},
		{"100000000000", 100000000000},
		{"1704067200000", 1704067200000},
		{"2199-12-31T23:59:59.999Z", SF_MAX_EPOCH_MS},
		{"7258118399999", SF_MAX_EPOCH_MS},
	};

	for (int i = 0; i < LENGTH(taken); i++)
	{
		char		reason[SF_REASON_SIZE] = "";
		int64_t		ms = -1;

		set_context(taken[i].text);
		CHECK(sf_epoch_parse(&ms, taken[i].text, reason, sizeof(reason)));
		CHECK_EQ(ms, taken[i].ms);
	}
}

static void
check_epoch_refused(const char *text, const char *why)
{
	char		reason[SF_REASON_SIZE] = "";
	int64_t		ms;

	set_context(text);
	CHECK(!sf_epoch_parse(&ms, text, reason, sizeof(reason)));
	check_reason(reason, why);
}

static void
test_epochs_are_refused(void)
{
	static const char *const not_iso[] = {
		"", " ", "now", "-1", "1e12", "0x0", "1704067200000.5", " 2024-01-01",
		"2024-01-01 ", "2024-01", "2024-01-", "2024/01/01", "20240101T00:00",
		"2024-00-01", "2024-13-01", "1969-13-01", "2024-01-00", "2024-01-32",
		"2024-04-31", "2023-02-29", "2024-02-30", "2100-02-29", "10000-01-01",
		"2024-01-01T", "2024-01-01T12", "2024-01-01T12:", "2024-01-01T24:00",
		"2024-01-01T12:60", "2024-01-01T12:00:60", "2024-01-01T12:00:00.",
		"2024-01-01T12:00:00.1234", "2024-01-01T12:00:00,5",
		"2024-01-01T12:00+02:00", "2024-01-01T12:00-02:00",
		"2024-01-01T12:00+01", "2024-01-01T12:00+00:30", "2024-01-01T12:00-00",
		"2024-01-01T12:00+02", "2024-01-01T12:00ZZ", "2024-01-01T12:00Z+00",
		"2024-01-01T12:00 UTC", "2024-01-01X12:00", "2024-01-01T-1:00"
	};
	static const char *const too_small[] = {"1", "1970", "2024", "99999999999"};
	static const char *const out_of_range[] = {
		"1969-12-31", "1969-12-31T23:59:59.999Z", "1582-10-15", "0001-01-01",
		"2200-01-01", "9999-12-31", "7258118400000", "999999999999999"
	};
	char		word[1001];

	for (int i = 0; i < LENGTH(not_iso); i++)
		check_epoch_refused(not_iso[i], "ISO 8601");
	for (int i = 0; i < LENGTH(too_small); i++)
		check_epoch_refused(too_small[i], "too small");
	for (int i = 0; i < LENGTH(out_of_range); i++)
		check_epoch_refused(out_of_range[i], "between 1970-01-01 and 2199");
	memset(word, '9', 1000);
	word[1000] = '\0';
	check_epoch_refused(word, "ISO 8601");
}

/* Compare with the C library's calendar. */
static void
check_epoch(int64_t ms)
{
	char		reason[SF_REASON_SIZE];
	char		text[40];
	char		expected[80];
	time_t		seconds = ms / 1000;
	struct tm	tm;
	int64_t		parsed = -1;

	gmtime_r(&seconds, &tm);
	if (ms % 86400000 == 0)
		snprintf(expected, sizeof(expected), "%04d-%02d-%02d",
				 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
	else
		snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
				 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
				 tm.tm_hour, tm.tm_min, tm.tm_sec, (int) (ms % 1000));
	set_context(expected);
	sf_epoch_print(ms, text, sizeof(text));
	CHECK_STR(text, expected);
	CHECK(sf_epoch_parse(&parsed, text, reason, sizeof(reason)));
	CHECK_EQ(parsed, ms);
}

static void
test_every_day_prints_and_parses(void)
{
	for (int64_t ms = 0; ms <= SF_MAX_EPOCH_MS; ms += 86400000)
		check_epoch(ms);
}

static void
test_random_times_print_and_parse(void)
{
	for (int i = 0; i < 50000; i++)
		check_epoch(rnd_edge(SF_MAX_EPOCH_MS + 1));
}

int
main(void)
{
	start_tests();
	RUN(test_random_layouts_are_judged);
	RUN(test_fields_are_as_written);
	RUN(test_life_is_as_long_as_can_be);
	RUN(test_pack_puts_fields_in_order);
	RUN(test_unpack_is_the_inverse);
	RUN(test_bounds_hold_a_tick);
	RUN(test_positions_sort_as_ids);
	RUN(test_nodes_are_placed_and_joined);
	RUN(test_ticks_sort_as_ids);
	RUN(test_fits_means_not_negative_nor_wider);
	RUN(test_ms_round_down_to_ticks);
	RUN(test_print_parses_back);
	RUN(test_codes_lead_back);
	RUN(test_other_numbers_are_no_codes);
	RUN(test_other_layouts_have_other_codes);
	RUN(test_presets_are_as_published);
	RUN(test_positions_lie_below_a_time);
	RUN(test_javascript_is_exact);
	RUN(test_layouts_are_taken);
	RUN(test_fields_are_refused);
	RUN(test_ticks_and_epochs_are_refused);
	RUN(test_long_words_are_refused);
	RUN(test_long_texts_end);
	RUN(test_epochs_are_taken);
	RUN(test_epochs_are_refused);
	RUN(test_every_day_prints_and_parses);
	RUN(test_random_times_print_and_parse);
	return finish_tests("test_layout");
}
