/*-------------------------------------------------------------------------
 *
 * shardmap.h
 *	  Who may issue for which shards: the registry's record, as a value.
 *
 * The record is a text of lines.  Each says of some shards who may issue for
 * them, and until when; or that they were given back, and then no timestamp
 * from until on was issued.  What was given back must stay known: whoever
 * claims a shard begins where the one before him has ended, also if his own
 * clock says that this is in the future.
 *
 *		snowflake shards 1
 *		layout timestamp:41 shard:13 sequence:10 tick:1ms epoch:2011-08-24
 *		held 0-4095,5000 until 480100200300 write 3f... server 8a... host db-1
 *		free 4096-4099 until 480100100200
 *
 * Times are ticks since the layout's epoch.
 *
 * Pure: needs no server, allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARDMAP_H
#define SF_SHARDMAP_H

#include "ranges.h"
#include "registry.h"

#define SF_SHARDMAP_LINES		1024

/* Room for any map's text, with its terminating zero. */
#define SF_SHARDMAP_TEXT_SIZE \
	(SF_RANGES_TEXT_SIZE(SF_RANGES_MAX) + \
	 SF_SHARDMAP_LINES * (SF_HOST_SIZE + 100) + SF_LAYOUT_TEXT_SIZE + 100)

typedef struct SfShardLine
{
	int64_t		until;			/* exclusive */
	uint64_t	write_id;		/* of its holder's last write; 0: given back */
	uint64_t	server;			/* its holder: stays over restarts */
	char		host[SF_HOST_SIZE]; /* for people */
} SfShardLine;

typedef struct SfShardMap
{
	char		layout[SF_LAYOUT_TEXT_SIZE];
	uint32_t	nshards;		/* that the layout has room for */
	int			nlines;
	SfShardLine line[SF_SHARDMAP_LINES];
	uint16_t	line_of[SF_RANGES_MAX]; /* + 1; 0: nobody ever had the shard */
} SfShardMap;

extern void sf_shardmap_init(SfShardMap *map, const SfLayout *layout);
extern bool sf_shardmap_parse(SfShardMap *map, const char *text,
							  char *reason, size_t reason_size);
extern void sf_shardmap_print(const SfShardMap *map, char *buf, size_t size);
extern int	sf_shardmap_find(const SfShardMap *map, uint64_t write_id);
extern int	sf_shardmap_add(SfShardMap *map);
extern void sf_shardmap_compact(SfShardMap *map, int64_t now_tick);
extern void sf_shardmap_shards(const SfShardMap *map, int line,
							   uint32_t *shards);

#endif							/* SF_SHARDMAP_H */
