/*-------------------------------------------------------------------------
 *
 * servers.c
 *	  List of the servers that a data directory has been; and the rule that
 *	  says from it whether a server is a copy.
 *
 * Each start adds the pair of its server and its node id to the list, before
 * an ID is made, and standbys do so too.  A copy of the directory has the
 * list, but not the marker, so it is another server.  Then its node id stands
 * there under the server that it was copied from, whatever that one was.
 *
 * A pair of its own settles the question.  A standby gets one when it starts,
 * so that a promotion needs no work, and none is ever refused.  But a standby
 * that has lost its signal file was not promoted: its own pair says nothing.
 *
 * Shards have no server of their own in the list: if a server has some, any
 * other server may have the same.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/servers.h"

#include <string.h>

/* Return the pair of this server and this number; NULL if there is none. */
SfPair *
sf_servers_find(SfServers *list, uint64_t server, SfServerNumber number)
{
	for (uint32_t i = 0; i < list->count; i++)
	{
		if (list->pair[i].server == server && list->pair[i].number == number)
			return &list->pair[i];
	}
	return NULL;
}

/* Return true if another server may issue with this number. */
static bool
has_other(const SfServers *list, uint64_t server, SfServerNumber number)
{
	for (uint32_t i = 0; i < list->count; i++)
	{
		if (list->pair[i].server != server &&
			(number == SF_SHARDS || list->pair[i].number == number))
			return true;
	}
	return false;
}

/* Return true if a server with this number is a copy of another one. */
bool
sf_servers_is_copy(SfServers *list, const SfStart *start,
				   SfServerNumber number)
{
	const SfPair *own = sf_servers_find(list, start->server, number);

	if (start->follows || number == SF_NO_NUMBER)
		return false;
	if (own != NULL && !start->unpromoted)
		return false;

	/* a server that follows it now may have been copied from it */
	if (own != NULL && (own->flags & SF_PAIR_USED) != 0)
		return true;

	/* a list that could not be read says nothing against its own server */
	return has_other(list, start->server, number) ||
		(list->forgotten && (list->writer != 0 || !start->marked ||
							 start->unpromoted));
}

/*
 * Return the pair of the server that this standby was copied from, or of its
 * primary, if one of them has this node id.
 */
const SfPair *
sf_servers_source(const SfServers *list, SfServerNumber node)
{
	for (uint32_t i = 0; i < list->count; i++)
	{
		if ((list->pair[i].flags & SF_PAIR_SOURCE) != 0 &&
			list->pair[i].number == node && node != SF_NO_NUMBER)
			return &list->pair[i];
	}
	return NULL;
}

/* Let this server write the list, with its node, and the last other one. */
void
sf_servers_begin(SfServers *list, uint64_t server, bool standby,
				 SfServerNumber node)
{
	for (uint32_t i = 0; i < list->count && list->writer != server; i++)
	{
		SfPair	   *pair = &list->pair[i];

		pair->flags &= ~SF_PAIR_SOURCE;
		if (standby && (pair->flags & SF_PAIR_NOW) != 0 &&
			(pair->server == list->writer || pair->server == list->primary))
			pair->flags |= SF_PAIR_SOURCE;
	}
	list->magic = SF_SERVERS_MAGIC;
	list->writer = server;
	list->standby = standby;
	list->node = node;
	if (!standby)
		list->primary = server;
}

static void
remove_pair(SfServers *list, uint32_t i)
{
	list->count--;
	memmove(&list->pair[i], &list->pair[i + 1],
			(list->count - i) * sizeof(SfPair));
}

/*
 * Add a pair of the writer.  It takes the place of one that an earlier server
 * has left in this directory, as before pg_rewind.  What a full list forgets
 * counts as a pair of another server with any number.
 */
void
sf_servers_add(SfServers *list, SfServerNumber number, uint64_t machine,
			   const char *path)
{
	SfPair	   *own = sf_servers_find(list, list->writer, number);

	if (own == NULL)
	{
		for (uint32_t i = list->count; i-- > 0;)
		{
			const SfPair *pair = &list->pair[i];

			if (pair->number == number && pair->server != list->writer &&
				(pair->flags & SF_PAIR_SOURCE) == 0 &&
				pair->machine == machine && strcmp(pair->path, path) == 0)
				remove_pair(list, i);
		}
		if (list->count == SF_SERVERS_MAX)
		{
			remove_pair(list, 0);
			list->forgotten = 1;
		}
		own = &list->pair[list->count++];
		memset(own, 0, sizeof(*own));
		own->server = list->writer;
		own->number = number;
	}
	for (uint32_t i = 0; i < list->count; i++)
	{
		if (list->pair[i].server == list->writer)
			list->pair[i].flags &= ~SF_PAIR_NOW;
		if (list->pair[i].server == list->writer &&
			list->pair[i].number == list->node)
			list->pair[i].flags |= SF_PAIR_NOW;
	}
	if (!list->standby)
		own->flags |= SF_PAIR_USED;
	own->machine = machine;
	memset(own->path, 0, sizeof(own->path));
	memcpy(own->path, path, strlen(path));
}
