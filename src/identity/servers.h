/*-------------------------------------------------------------------------
 *
 * servers.h
 *	  List of the servers that a data directory has been: see servers.c.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SERVERS_H
#define SF_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "layout/server_number.h"

#define SF_SERVERS_PATH		1024	/* MAXPGPATH */
#define SF_SERVERS_MAX		100
#define SF_SERVERS_MAGIC	0x53465331	/* also the version of the format */

/* What stands in a pair for the shards of a server; no node has it. */
#define SF_SHARDS	((SfServerNumber) UINT32_MAX)

/* SfPair.flags */
#define SF_PAIR_USED	1		/* as a primary */
#define SF_PAIR_SOURCE	2		/* of the server that this standby, which may
								 * be promoted since, was copied from, or of
								 * its primary */

#define SF_PAIR_NOW		4		/* what the server had when it wrote last */

/* This data was started by this server, with this node id. */
typedef struct SfPair
{
	uint64_t	server;			/* random */
	uint64_t	machine;		/* 0: unknown */
	SfServerNumber number;		/* a node, SF_SHARDS, or SF_NO_NUMBER if the
								 * node id is leased or not set */
	uint32_t	flags;
	char		path[SF_SERVERS_PATH];	/* of the data directory */
} SfPair;

typedef struct SfServers
{
	uint32_t	magic;
	uint32_t	count;
	uint64_t	writer;			/* the server that wrote this; 0: no file */
	uint64_t	primary;		/* the last one that was a primary */
	SfServerNumber node;		/* the writer's */
	uint16_t	standby;		/* the writer was not promoted yet */
	uint16_t	forgotten;		/* other pairs were lost */
	SfPair		pair[SF_SERVERS_MAX];
} SfServers;

/* A start of a server. */
typedef struct SfStart
{
	uint64_t	server;			/* of the marker, or a new one */
	bool		marked;			/* of the marker */
	bool		follows;		/* it began as a standby */
	bool		unpromoted;		/* a standby lost its signal file */
} SfStart;

extern SfPair *sf_servers_find(SfServers *list, uint64_t server,
							   SfServerNumber number);
extern bool sf_servers_is_copy(SfServers *list, const SfStart *start,
							   SfServerNumber number);
extern const SfPair *sf_servers_source(const SfServers *list,
									   SfServerNumber node);
extern void sf_servers_begin(SfServers *list, uint64_t server, bool standby,
							 SfServerNumber node);
extern void sf_servers_add(SfServers *list, SfServerNumber number,
						   uint64_t machine, const char *path);

#endif							/* SF_SERVERS_H */
