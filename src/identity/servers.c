/*-------------------------------------------------------------------------
 *
 * servers.c
 *	  List of the servers that a data directory has been; and the rule that
 *	  says from it whether a server is a copy.
 *
 * Each start adds the pair of its server and its node id to the end of the
 * list, before an ID is made, and standbys do so too.  A copy of the directory
 * has the list, but not the marker, so it is another server.  Then its node id
 * stands there under the server that it was copied from, whatever that one
 * was.
 *
 * The last pair settles the question for its own server.  A standby writes
 * that pair when it starts, so that a promotion needs no work, and makes no
 * copy.  An earlier pair of the same server settles nothing: another
 * server may have the number since.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/servers.h"

#include <string.h>

/* Return true if the pair has this number; or shards, and was no copy then. */
static bool
has(const SfPair *pair, SfServerNumber number)
{
	return number == SF_SHARDS ? pair->shards != 0 : pair->node == number;
}

/* Return true if this server wrote last, and with this number. */
bool
sf_servers_is_settled(const SfServers *list, uint64_t server,
					  SfServerNumber number)
{
	return list->count > 0 && list->pair[list->count - 1].server == server &&
		has(&list->pair[list->count - 1], number);
}

/* Return true if this number is the last one of this server in the list. */
bool
sf_servers_has(const SfServers *list, uint64_t server, SfServerNumber number)
{
	for (uint32_t i = list->count; i-- > 0;)
	{
		if (list->pair[i].server == server)
			return has(&list->pair[i], number);
	}
	return false;
}

/*
 * Return true if a server with this number is a copy of another one.  "marked"
 * says that it has its marker: then a list that cannot be read says nothing
 * against it.  Nobody knows which shards a server of the list has: it may have
 * the same as any other.
 */
bool
sf_servers_is_copy(const SfServers *list, uint64_t server, bool marked,
				   SfServerNumber number)
{
	if (number == SF_NO_NUMBER || sf_servers_is_settled(list, server, number))
		return false;
	if (list->forgotten && (list->count > 0 || !marked))
		return true;
	for (uint32_t i = 0; i < list->count; i++)
	{
		if (list->pair[i].server != server &&
			(number == SF_SHARDS || list->pair[i].node == number))
			return true;
	}
	return false;
}

/*
 * Return true if this node id is the last one of another server, which issues
 * with it, too, if it runs.
 */
bool
sf_servers_share(const SfServers *list, uint64_t server, SfServerNumber node)
{
	for (uint32_t i = 0; i < list->count && node != SF_NO_NUMBER; i++)
	{
		if (list->pair[i].server != server &&
			sf_servers_has(list, list->pair[i].server, node))
			return true;
	}
	return false;
}

/* Return true if the list names this server. */
bool
sf_servers_name(const SfServers *list, uint64_t server)
{
	for (uint32_t i = 0; i < list->count; i++)
	{
		if (list->pair[i].server == server)
			return true;
	}
	return false;
}

/*
 * State that no server of the list has shards any more; and no node id, if
 * those are given up, too.
 */
void
sf_servers_forgive(SfServers *list, bool nodes)
{
	if (nodes)
		list->forgotten = 0;
	for (uint32_t i = 0; i < list->count; i++)
	{
		list->pair[i].shards = 0;
		if (nodes)
			list->pair[i].node = SF_NO_NUMBER;
	}
}

static void
remove_pair(SfServers *list, uint32_t i)
{
	list->count--;
	memmove(&list->pair[i], &list->pair[i + 1],
			(list->count - i) * sizeof(SfPair));
}

/*
 * Add a pair to the end.  It takes the place of its server's with that number,
 * and of one that an earlier server has left in this directory, as before
 * pg_rewind.  What a full list forgets counts as a pair of another server with
 * any number.
 */
void
sf_servers_add(SfServers *list, const SfPair *own)
{
	for (uint32_t i = list->count; i-- > 0;)
	{
		const SfPair *pair = &list->pair[i];

		if (pair->node == own->node &&
			(pair->server == own->server || pair->place == own->place))
			remove_pair(list, i);
	}
	if (list->count == SF_SERVERS_MAX)
	{
		remove_pair(list, 0);
		list->forgotten = 1;
	}
	list->magic = SF_SERVERS_MAGIC;
	list->pair[list->count++] = *own;
}
