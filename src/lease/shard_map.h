/*-------------------------------------------------------------------------
 *
 * shard_map.h
 *	  The shard record of a registry, as a value: the lease of each shard.
 *
 * The record is a text of lines.  A line says which server may issue for some
 * shards, and until when; or that they were given back, and that no timestamp
 * from until on was issued.  A returned shard must not be forgotten: the next
 * server to claim it begins at that until, even if its own clock says that
 * this is in the future.
 *
 *		snowflake shards 1
 *		layout timestamp:41 shard:13 sequence:10 tick:1ms epoch:2011-08-24
 *		held 0-4095,5000 until 480100200300 reserve 90000
 *			since 1776000000000 write 3f... server 8a... host db-1
 *			(one line)
 *		free 4096-4099 until 480100100200
 *
 * Times are ticks since the layout's epoch.  But since is in Unix ms: it is
 * for people, who ask who had a shard before.
 *
 * Pure: needs no server, allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_MAP_H
#define SF_SHARD_MAP_H

#include "layout/ranges.h"
#include "lease/registry.h"

#define SF_SHARDMAP_LINES		1024

/* Size of a buffer for any map's text, with the terminating zero. */
#define SF_SHARDMAP_TEXT_SIZE \
	(SF_RANGES_TEXT_SIZE(SF_RANGES_MAX) + \
	 SF_SHARDMAP_LINES * (SF_HOST_SIZE + 160) + SF_LAYOUT_TEXT_SIZE + 100)

typedef struct SfShardLine
{
	int64_t		until;			/* exclusive */
	int64_t		reserve_ms;		/* the holder's, as in SfSlotRecord */
	int64_t		since_ms;		/* when the holder got these shards; 0:
								 * unknown */
	uint64_t	write_id;		/* the holder's last write; 0: given back */
	uint64_t	server;			/* the holder, kept over restarts */
	char		host[SF_HOST_SIZE]; /* for people */
} SfShardLine;

typedef struct SfShardMap
{
	char		layout[SF_LAYOUT_TEXT_SIZE];
	uint32_t	nshards;		/* as many as the layout has */
	int			nlines;
	SfShardLine line[SF_SHARDMAP_LINES];
	uint16_t	line_of[SF_RANGES_MAX]; /* + 1; 0: never leased */
} SfShardMap;

extern void sf_shard_map_init(SfShardMap *map, const SfLayout *layout);
extern bool sf_shard_map_parse(SfShardMap *map, const char *text,
							   char *reason, size_t reason_size);
extern void sf_shard_map_print(const SfShardMap *map, char *buf, size_t size);
extern int	sf_shard_map_find(const SfShardMap *map, uint64_t write_id);
extern int	sf_shard_map_add(SfShardMap *map);
extern void sf_shard_map_compact(SfShardMap *map, int64_t now_tick);
extern int64_t sf_shard_map_reserve_ms(const SfShardMap *map);
extern void sf_shard_map_shards(const SfShardMap *map, int line,
								uint32_t *shards);

#endif							/* SF_SHARD_MAP_H */
