/*-------------------------------------------------------------------------
 *
 * test_servers.c
 *	  The list of servers: which starts are copies, in all combinations of what
 *	  a start finds; and lives of servers that are copied, promoted and rewound.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "identity/servers.h"
#include "harness.h"

#define MACHINE		7

static SfServers list;

/* A data directory: its list, and its marker. */
typedef struct Dir
{
	SfServers	list;
	uint64_t	marker;
	bool		signal;			/* it has a standby's signal file */
	bool		in_recovery;	/* as pg_control says */
	bool		follows;		/* this life began as a standby */
	bool		unpromoted;
	bool		runs_alone;		/* it may make IDs */
	SfServerNumber node;
	char		path[16];
} Dir;

static uint64_t last_server;

static bool
is_copy(uint64_t server, bool marked, bool follows, bool unpromoted,
		SfServerNumber number)
{
	SfStart		start = {
		.server = server, .marked = marked, .follows = follows,
		.unpromoted = unpromoted
	};

	return sf_servers_is_copy(&list, &start, number);
}

static void
clear(void)
{
	memset(&list, 0, sizeof(list));
}

static void
write_as(uint64_t server, bool standby, SfServerNumber node)
{
	char		path[16];

	snprintf(path, sizeof(path), "/%llu", (unsigned long long) server);
	sf_servers_begin(&list, server, standby, node);
	sf_servers_add(&list, node, MACHINE, path);
}

/* ---- the rule ---- */

/* Each combination of what a start finds, against the rule in words. */
static void
test_all_combinations(void)
{
	for (int i = 0; i < 1 << 9; i++)
	{
		bool		other_has = i & 1;
		bool		own_has = i & 2;
		bool		own_used = i & 4;
		bool		follows = i & 8;
		bool		unpromoted = i & 16;
		bool		forgotten = i & 32;
		bool		marked = i & 64;
		bool		unreadable = i & 128;
		SfServerNumber number = i & 256 ? SF_SHARDS : 5;
		bool		copy;

		if (unreadable && (other_has || own_has || !forgotten))
			continue;
		clear();
		if (other_has)
			write_as(1, false, number == SF_SHARDS ? 9 : 5);
		if (own_has)
			write_as(2, !own_used, number);
		else
			own_used = false;
		list.forgotten = forgotten;
		list.writer = unreadable ? 0 : 2;

		copy = other_has || forgotten;
		if (unreadable && marked && !unpromoted)
			copy = false;
		if (own_has)
			copy = unpromoted && (copy || own_used);
		if (follows)
			copy = false;
		CHECK_EQ(is_copy(2, marked, follows, unpromoted, number), copy);

		/* a server without a number makes nothing that another may make */
		CHECK(!is_copy(2, marked, follows, unpromoted, SF_NO_NUMBER));
		/* another number is no other server's, if all are known */
		if (!forgotten && number != SF_SHARDS)
			CHECK(!is_copy(2, marked, follows, unpromoted, 6));
	}
}

static void
test_no_list(void)
{
	clear();
	for (int i = 0; i < 8; i++)
		CHECK(!is_copy(1, i & 1, i & 2, i & 4, i & 4 ? SF_SHARDS : 1));
}

/* A server whose node id is leased is another one, as far as shards go. */
static void
test_leased(void)
{
	clear();
	write_as(1, false, SF_NO_NUMBER);
	CHECK(is_copy(2, false, false, false, SF_SHARDS));
	CHECK(!is_copy(2, false, false, false, 1));
	CHECK(!is_copy(1, true, false, false, SF_SHARDS));
}

/* ---- the list ---- */

static void
test_sources(void)
{
	clear();
	write_as(1, false, 5);
	write_as(2, true, 6);
	CHECK(sf_servers_source(&list, 5) != NULL);
	CHECK(sf_servers_source(&list, 6) == NULL);
	/* a standby of the standby: both are its sources */
	write_as(3, true, 7);
	CHECK(sf_servers_source(&list, 5) != NULL);
	CHECK(sf_servers_source(&list, 6) != NULL);
	CHECK(sf_servers_source(&list, 7) == NULL);
	/* it remembers them, also promoted */
	write_as(3, true, 7);
	write_as(3, false, 7);
	CHECK(sf_servers_source(&list, 6) != NULL);
	/* the first one is rewound from that: its own number is nobody else's */
	write_as(4, true, 5);
	CHECK(sf_servers_source(&list, 5) == NULL);
	CHECK(sf_servers_source(&list, 7) != NULL);
	CHECK(sf_servers_source(&list, SF_NO_NUMBER) == NULL);
	/* what a source had before is not its number any more */
	write_as(4, false, 6);
	write_as(6, true, 5);
	CHECK(sf_servers_source(&list, 5) == NULL);
	CHECK(sf_servers_source(&list, 6) != NULL);
	/* a server of its own has none */
	write_as(5, false, 8);
	CHECK(sf_servers_source(&list, 7) == NULL);
}

/* A directory that is rewound again and again does not fill the list. */
static void
test_same_place(void)
{
	clear();
	for (uint64_t server = 1; server <= 1000; server++)
	{
		sf_servers_begin(&list, server, true, server % 2 + 1);
		sf_servers_add(&list, server % 2 + 1, MACHINE,
					   server % 2 ? "/a" : "/b");
	}
	CHECK(list.count <= 4);
	CHECK(!list.forgotten);
}

/* A full list forgets others first, and then takes each number for another's. */
static void
test_full(void)
{
	clear();
	write_as(1, false, 5);
	for (SfServerNumber node = 1000; node < 1000 + 3 * SF_SERVERS_MAX; node++)
	{
		write_as(2, false, node);
		CHECK(list.count <= SF_SERVERS_MAX);
		CHECK(!is_copy(2, true, false, false, node));
		CHECK(is_copy(3, false, false, false, node));
	}
	CHECK(list.forgotten);
	CHECK(is_copy(3, false, false, false, 5));
	CHECK(is_copy(3, false, false, false, 77));
	CHECK(!is_copy(3, false, true, false, 77));
}

/* ---- lives ---- */

/* Start a server; return false if it is a copy. */
static bool
start(Dir *dir)
{
	SfStart		now;
	bool		copy;

	dir->unpromoted = dir->marker != 0 && !dir->signal &&
		dir->list.standby && dir->in_recovery;
	now.server = dir->marker != 0 ? dir->marker : ++last_server;
	now.marked = dir->marker != 0;
	now.follows = dir->follows = dir->signal;
	now.unpromoted = dir->unpromoted;
	copy = sf_servers_is_copy(&dir->list, &now, dir->node);
	dir->in_recovery = dir->signal;
	dir->runs_alone = !dir->signal && !copy;
	if (copy)
	{
		if (dir->unpromoted)
			dir->marker = 0;
		return false;
	}
	dir->marker = now.server;
	sf_servers_begin(&dir->list, now.server, dir->signal, dir->node);
	sf_servers_add(&dir->list, dir->node, MACHINE, dir->path);
	return true;
}

static void
promote(Dir *dir)
{
	dir->signal = dir->in_recovery = false;
	dir->runs_alone = true;
}

/* The first ID after a promotion. */
static void
make_id(Dir *dir)
{
	sf_servers_begin(&dir->list, dir->marker, false, dir->node);
	sf_servers_add(&dir->list, dir->node, MACHINE, dir->path);
}

/* Copy the files, as a base backup or pg_rewind does. */
static void
copy_to(Dir *dir, const Dir *from, bool signal)
{
	char		path[16];

	memcpy(path, dir->path, sizeof(path));
	*dir = *from;
	memcpy(dir->path, path, sizeof(path));
	dir->marker = 0;
	dir->signal = signal;
	dir->follows = false;
	dir->runs_alone = false;
}

static Dir	a = {.path = "/a"}, b = {.path = "/b"}, c = {.path = "/c"};

/* A server with a standby that has a number of its own. */
static void
begin_pair(void)
{
	memset(&a, 0, offsetof(Dir, path));
	memset(&b, 0, offsetof(Dir, path));
	memset(&c, 0, offsetof(Dir, path));
	a.node = 1;
	CHECK(start(&a));
	copy_to(&b, &a, true);
	b.node = 2;
	CHECK(start(&b));
}

static void
test_backups_of_a_standby(void)
{
	begin_pair();
	copy_to(&c, &b, false);
	CHECK(!start(&c));
	CHECK(!start(&c));
	c.node = 3;
	CHECK(start(&c));
	CHECK(start(&c));
	c.node = 2;
	CHECK(!start(&c));

	/* a standby of the standby, that is not promoted but started */
	copy_to(&c, &b, true);
	CHECK(start(&c));
	CHECK(sf_servers_source(&c.list, 2) != NULL);
	c.signal = false;
	CHECK(!start(&c));
	CHECK(!start(&c));

	/* a promotion is not refused, nor is what follows */
	copy_to(&c, &b, true);
	CHECK(start(&c));
	promote(&c);
	CHECK(start(&c));
	make_id(&c);
	CHECK(start(&c));
}

static void
test_switchovers(void)
{
	begin_pair();
	for (int i = 0; i < 200; i++)
	{
		Dir		   *old = i % 2 ? &b : &a;
		Dir		   *new = i % 2 ? &a : &b;
		SfServerNumber node = old->node;

		promote(new);
		if (rand() % 2)
			CHECK(start(new));
		make_id(new);
		if (rand() % 2)
		{
			copy_to(old, new, true);	/* rewound, with its own configuration */
			old->node = node;
		}
		else
			old->signal = true;
		CHECK(start(old));
		CHECK(sf_servers_source(&old->list, node) == NULL);
		CHECK(start(old));
	}
	CHECK(a.list.count < 10);
	CHECK(!a.list.forgotten);
}

/* The old primary is rewound from one that has made no ID yet. */
static void
test_rewound_early(void)
{
	begin_pair();
	promote(&b);
	copy_to(&a, &b, true);
	CHECK_EQ(a.node, 2);
	CHECK(start(&a));
	CHECK(sf_servers_source(&a.list, 2) != NULL);
	promote(&a);
	make_id(&a);
	CHECK(sf_servers_source(&a.list, 2) != NULL);
	CHECK(start(&a));

	/* without a signal file it is a copy */
	copy_to(&a, &b, false);
	CHECK(!start(&a));
}

/* A primary follows another one that was copied from it, and loses the signal. */
static void
test_former_primary(void)
{
	begin_pair();
	a.signal = true;
	CHECK(start(&a));
	CHECK(start(&a));
	a.signal = false;
	CHECK(!start(&a));
	CHECK(!start(&a));

	/* a standby with a number that nobody else has is a server of its own */
	b.signal = false;
	CHECK(start(&b));
	CHECK(start(&b));
}

/*
 * Random lives.  Servers that make IDs with one number beside each other are
 * promoted ones: each other one has been refused.
 */
static void
test_random_lives(void)
{
	for (int round = 0; round < 2000; round++)
	{
		Dir		   *dirs[] = {&a, &b, &c};
		bool		promoted[3] = {false};

		begin_pair();
		for (int step = 0; step < 12; step++)
		{
			int			i = rand() % 3;
			Dir		   *dir = dirs[i];

			switch (rand() % 5)
			{
				case 0:
					copy_to(dir, dirs[(i + 1) % 3], rand() % 2);
					promoted[i] = false;
					break;
				case 1:
					if (dir->follows && dir->signal)
					{
						promote(dir);
						promoted[i] = true;
					}
					break;
				case 2:
					if (dir->runs_alone)
						make_id(dir);
					break;
				default:
					if (dir->node == SF_NO_NUMBER)
						break;
					CHECK(start(dir) || !promoted[i]);
			}
			for (int x = 0; x < 3; x++)
			{
				for (int y = 0; y < x; y++)
					CHECK(!dirs[x]->runs_alone || !dirs[y]->runs_alone ||
						  dirs[x]->node != dirs[y]->node ||
						  promoted[x] || promoted[y]);
			}
		}
	}
}

int
main(void)
{
	start_tests();
	RUN(test_all_combinations);
	RUN(test_no_list);
	RUN(test_leased);
	RUN(test_sources);
	RUN(test_same_place);
	RUN(test_full);
	RUN(test_backups_of_a_standby);
	RUN(test_switchovers);
	RUN(test_rewound_early);
	RUN(test_former_primary);
	RUN(test_random_lives);
	return finish_tests("test_servers");
}
