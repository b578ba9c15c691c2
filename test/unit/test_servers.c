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

static SfServers list;

/* A data directory: its list, and its marker. */
typedef struct Dir
{
	SfServers	list;
	uint64_t	marker;
	bool		signal;			/* it has a standby's signal file */
	uint32_t	control;		/* pg_control: each change is another number */
	bool		in_recovery;	/* as it says */
	bool		follows;		/* this life began as a standby */
	bool		runs_alone;		/* it may make IDs */
	SfServerNumber node;
	char		path[16];
} Dir;

static uint64_t last_server;
static uint32_t last_control;

static void
clear(void)
{
	memset(&list, 0, sizeof(list));
}

static void
add(SfServers *to, uint64_t server, SfServerNumber node, bool shards,
	const char *path)
{
	SfPair		own = {
		.server = server, .node = node, .shards = shards
	};

	while (*path != '\0')
		own.place = own.place * 256 + (unsigned char) *path++;
	sf_servers_add(to, &own);
}

static void
write_as(uint64_t server, SfServerNumber node)
{
	char		path[16];

	snprintf(path, sizeof(path), "/%llu", (unsigned long long) server);
	add(&list, server, node, true, path);
}

static bool
is_copy(uint64_t server, SfServerNumber number)
{
	return sf_servers_is_copy(&list, server, true, number);
}

/* ---- the rule ---- */

/* Each combination of what a start finds, against the rule in words. */
static void
test_all_combinations(void)
{
	for (int i = 0; i < 1 << 8; i++)
	{
		bool		other_has = i & 1;
		bool		own_has = i & 2;
		bool		own_last = i & 4;
		bool		other_last = i & 8;
		bool		forgotten = i & 16;
		bool		marked = i & 32;
		bool		own_shards = i & 64;
		SfServerNumber number = i & 128 ? SF_SHARDS : 5;
		bool		settled;
		bool		copy;

		clear();
		if (other_has)
			write_as(1, 5);
		if (own_has)
			add(&list, 2, 5, own_shards, "/2");
		if (own_last)
			add(&list, 2, 6, own_shards, "/2");
		if (other_last)
			write_as(1, 7);
		list.forgotten = forgotten;

		/* the last pair settles it, and no earlier one does */
		settled = !other_last && (own_has || own_last) &&
			(number == SF_SHARDS ? own_shards : !own_last);
		copy = !settled &&
			(forgotten ? other_has || own_has || own_last || other_last || !marked :
			 other_has || (number == SF_SHARDS && other_last));
		CHECK_EQ(sf_servers_is_copy(&list, 2, marked, number), copy);
		CHECK_EQ(sf_servers_is_settled(&list, 2, number), settled);

		/* a server without a number makes nothing that another may make */
		CHECK(!sf_servers_is_copy(&list, 2, marked, SF_NO_NUMBER));
		/* another number is no other server's, if all are known */
		if (!forgotten)
			CHECK(!sf_servers_is_copy(&list, 2, marked, 8));
	}
}

static void
test_no_list(void)
{
	clear();
	CHECK(!is_copy(1, 1));
	CHECK(!is_copy(1, SF_SHARDS));
	CHECK(!sf_servers_is_copy(&list, 1, false, 1));
}

/* A server whose node id is leased is another one, as far as shards go. */
static void
test_leased(void)
{
	clear();
	write_as(1, SF_NO_NUMBER);
	CHECK(is_copy(2, SF_SHARDS));
	CHECK(!is_copy(2, 1));
	CHECK(!is_copy(1, SF_SHARDS));
}

/*
 * Shards belong to a server, whatever its number is; and a copy with another
 * number stays a copy as far as they go.
 */
static void
test_shards(void)
{
	clear();
	write_as(1, 5);
	write_as(1, 6);
	CHECK(!is_copy(1, SF_SHARDS));
	add(&list, 2, 7, false, "/2");
	CHECK(is_copy(2, SF_SHARDS));
	add(&list, 2, 8, false, "/2");
	CHECK(is_copy(2, SF_SHARDS));
	/* as a standby it may have them once it is promoted */
	write_as(2, 8);
	CHECK(!is_copy(2, SF_SHARDS));
}

/* What another server may have since is not settled by an old pair. */
static void
test_old_numbers(void)
{
	clear();
	write_as(1, 5);
	write_as(2, 5);
	CHECK(!is_copy(2, 5));
	write_as(2, 6);
	CHECK(!is_copy(2, 6));
	CHECK(is_copy(2, 5));
	/* a number that nobody else had comes back */
	write_as(2, 7);
	CHECK(!is_copy(2, 6));
}

/* ---- the list ---- */

static void
test_shared(void)
{
	clear();
	write_as(1, 5);
	write_as(2, 6);
	CHECK(sf_servers_share(&list, 2, 5));
	CHECK(!sf_servers_share(&list, 2, 6));
	CHECK(!sf_servers_share(&list, 2, SF_NO_NUMBER));
	/* a standby of a standby of a standby: all of them run */
	write_as(3, 7);
	write_as(4, 8);
	for (SfServerNumber node = 5; node < 8; node++)
		CHECK(sf_servers_share(&list, 4, node));
	/* also those with the number of this one */
	write_as(4, 5);
	CHECK(sf_servers_share(&list, 4, 5));
	/* what a server had before is not its number any more, until it is again */
	write_as(3, 9);
	CHECK(!sf_servers_share(&list, 4, 7));
	CHECK(sf_servers_share(&list, 4, 9));
	write_as(3, 7);
	CHECK(sf_servers_share(&list, 4, 7));
	CHECK(!sf_servers_share(&list, 4, 9));
	CHECK(sf_servers_name(&list, 3) && !sf_servers_name(&list, 5));
}

/* Who accepts shards takes those over; and node ids, if that is said. */
static void
test_forgiven(void)
{
	clear();
	write_as(1, 5);
	write_as(1, 6);
	write_as(2, 7);
	CHECK(sf_servers_has(&list, 1, 6) && sf_servers_has(&list, 1, SF_SHARDS));
	CHECK(!sf_servers_has(&list, 1, 5) && !sf_servers_has(&list, 3, 5));
	sf_servers_forgive(&list, false);
	CHECK(!sf_servers_has(&list, 1, SF_SHARDS));
	CHECK(sf_servers_has(&list, 1, 6) && is_copy(2, 5));
	sf_servers_forgive(&list, true);
	CHECK(!sf_servers_has(&list, 1, 6) && !is_copy(2, 5));
}

/* The first server is rewound: its old number is nobody else's. */
static void
test_same_place(void)
{
	clear();
	add(&list, 1, 5, true, "/a");
	add(&list, 2, 6, true, "/b");
	add(&list, 3, 5, true, "/a");
	CHECK(!sf_servers_share(&list, 3, 5));
	CHECK(sf_servers_share(&list, 3, 6));

	/* a directory that is rewound again and again does not fill the list */
	clear();
	for (uint64_t server = 1; server <= 1000; server++)
		add(&list, server, server % 2 + 1, true, server % 2 ? "/a" : "/b");
	CHECK_EQ(list.count, 2);
	CHECK(!list.forgotten);
}

/* A full list forgets the oldest pair, and then takes each number for another's. */
static void
test_full(void)
{
	clear();
	write_as(1, 5);
	for (SfServerNumber node = 1000; node < 1000 + 3 * SF_SERVERS_MAX; node++)
	{
		write_as(2, node);
		CHECK(list.count <= SF_SERVERS_MAX);
		CHECK(!is_copy(2, node));
		CHECK(is_copy(3, node));
	}
	CHECK(list.forgotten);
	CHECK(is_copy(3, 5));
	CHECK(is_copy(3, 77));
}

/* ---- lives ---- */

static void
write_pair(Dir *dir)
{
	dir->list.standby = dir->follows;
	add(&dir->list, dir->marker, dir->node, true, dir->path);
}

/* Recovery begins, or the server runs alone: pg_control changes. */
static void
recover(Dir *dir)
{
	dir->in_recovery = dir->signal;
	dir->control = ++last_control;
}

/* Start a server up to its recovery; return false if it is a copy. */
static bool
start_only(Dir *dir)
{
	uint64_t	server;

	if (!dir->signal && dir->list.standby &&
		(dir->in_recovery || dir->control == dir->list.control))
		dir->marker = 0;
	server = dir->marker != 0 ? dir->marker : ++last_server;
	dir->follows = dir->signal;
	dir->runs_alone = dir->signal ? false :
		!sf_servers_is_copy(&dir->list, server, dir->marker != 0, dir->node);
	if (!dir->signal && !dir->runs_alone)
		return false;
	dir->marker = server;
	dir->list.control = dir->control;
	write_pair(dir);
	return true;
}

static bool
start(Dir *dir)
{
	bool		started = start_only(dir);

	recover(dir);
	return started;
}

/* A reload brings another node id. */
static bool
reload(Dir *dir, SfServerNumber node)
{
	if (!dir->signal &&
		sf_servers_is_copy(&dir->list, dir->marker, true, node))
		return false;
	dir->node = node;
	write_pair(dir);
	return true;
}

static void
promote(Dir *dir)
{
	dir->signal = false;
	dir->runs_alone = true;
	recover(dir);
}

/* The first ID after a promotion. */
static void
make_id(Dir *dir)
{
	dir->follows = false;
	write_pair(dir);
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
	CHECK(sf_servers_share(&c.list, c.marker, 2));
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
		CHECK(!sf_servers_share(&old->list, old->marker, node));
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
	CHECK(sf_servers_share(&a.list, a.marker, 2));
	promote(&a);
	make_id(&a);
	CHECK(sf_servers_share(&a.list, a.marker, 2));
	CHECK(start(&a));

	/* without a signal file it is a copy */
	copy_to(&a, &b, false);
	CHECK(!start(&a));

	/* with its own number there is nothing to say */
	begin_pair();
	promote(&b);
	copy_to(&a, &b, true);
	a.node = 1;
	CHECK(start(&a));
	CHECK(!sf_servers_share(&a.list, a.marker, 1));
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

	/* so does one with a number that nobody else has: it may have been copied */
	b.signal = false;
	CHECK(!start(&b));
	CHECK(!start(&b));
	/* with another one it is a server of its own, and has no way back */
	b.node = 9;
	CHECK(start(&b));
	CHECK(start(&b));
	CHECK(!reload(&b, 2));
	b.node = 2;
	CHECK(!start(&b));
}

/* A standby dies before its recovery begins, and then loses its signal file. */
static void
test_dies_early(void)
{
	for (int i = 0; i < 2; i++)
	{
		begin_pair();
		copy_to(&c, &a, true);
		if (i)
			CHECK(start_only(&c));
		CHECK(start_only(&c));
		c.signal = false;
		CHECK(!start(&c));
		CHECK(!start(&c));
	}
	/* promoted at once, it is no copy */
	copy_to(&c, &a, true);
	CHECK(start(&c));
	promote(&c);
	CHECK(start(&c));
}

/* A standby had its primary's number, and has another one when it is promoted. */
static void
test_number_left_behind(void)
{
	begin_pair();
	b.node = 1;
	CHECK(start(&b));
	CHECK(reload(&b, 3));
	promote(&b);
	CHECK(!reload(&b, 1));
	make_id(&b);
	CHECK(!reload(&b, 1));
	CHECK(start(&b));
	b.node = 1;
	CHECK(!start(&b));
	CHECK(!start(&b));
	/* a number of its own comes back */
	b.node = 3;
	CHECK(start(&b));
	CHECK(reload(&b, 4));
	CHECK(reload(&b, 3));
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
	RUN(test_shards);
	RUN(test_old_numbers);
	RUN(test_shared);
	RUN(test_forgiven);
	RUN(test_same_place);
	RUN(test_full);
	RUN(test_backups_of_a_standby);
	RUN(test_switchovers);
	RUN(test_rewound_early);
	RUN(test_former_primary);
	RUN(test_dies_early);
	RUN(test_number_left_behind);
	RUN(test_random_lives);
	return finish_tests("test_servers");
}
