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

#define SF_SERVERS_MAX		100
#define SF_SERVERS_MAGIC	0x53465334	/* also the version of the format */

/* Stands for a server's shards; no node has this number. */
#define SF_SHARDS	((SfServerNumber) UINT32_MAX)

/* This data was started by this server, with this node id. */
typedef struct SfPair
{
	uint64_t	server;			/* random */
	uint64_t	place;			/* hash of its machine and its directory */
	SfServerNumber node;		/* SF_NO_NUMBER if it is leased or not set */
	uint32_t	shards;			/* 1: it was no copy as far as shards go */
} SfPair;

typedef struct SfServers
{
	uint32_t	magic;
	uint32_t	count;
	uint32_t	control;		/* the writer's pg_control when it started */
	uint16_t	standby;		/* the writer was not promoted yet */
	uint16_t	forgotten;		/* other pairs were lost */
	uint64_t	family;			/* random, in all copies */
	SfPair		pair[SF_SERVERS_MAX];	/* the last one is the writer's */
} SfServers;

extern bool sf_servers_is_settled(const SfServers *list, uint64_t server,
								  SfServerNumber number);
extern bool sf_servers_has(const SfServers *list, uint64_t server,
						   SfServerNumber number);
extern bool sf_servers_is_copy(const SfServers *list, uint64_t server,
							   bool marked, SfServerNumber number);
extern bool sf_servers_share(const SfServers *list, uint64_t server,
							 SfServerNumber node);
extern bool sf_servers_name(const SfServers *list, uint64_t server);
extern void sf_servers_forgive(SfServers *list, bool nodes);
extern void sf_servers_add(SfServers *list, const SfPair *own);

#endif							/* SF_SERVERS_H */
