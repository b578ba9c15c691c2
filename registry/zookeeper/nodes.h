/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  The registry as nodes of ZooKeeper: what is asked to read and to write
 *	  it, and what the replies say.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_NODES_H
#define SF_ZOO_NODES_H

#include "batch.h"
#include "registry.h"

typedef enum SfReading
{
	SF_READING_DONE,
	SF_READING_MOVED,			/* something has changed meanwhile */
	SF_READING_FAILED			/* there is a problem */
} SfReading;

typedef enum SfWriting
{
	SF_WRITING_DONE,
	SF_WRITING_CONFLICT,
	SF_WRITING_LOOK,			/* presence is not what it was taken for */
	SF_WRITING_REFUSED,			/* there is a problem, and nothing was done */
	SF_WRITING_UNKNOWN
} SfWriting;

/* Who is present, and in whose session. */
typedef struct SfPresent
{
	uint64		owner;			/* 0: nobody */
	int64		session;
} SfPresent;

/* nodes.c; paths are in the current memory context */
extern void sf_nodes_open(const char *prefix, char *problem,
						  size_t problem_size, SfFailure *failure);
extern char *sf_nodes_path(const char *name);
extern char *sf_nodes_path_of(const char *name, uint32 node);
extern char *sf_nodes_generation(uint64 generation);
extern SfReading sf_nodes_fail(const char *path, const char *what);
extern SfReading sf_nodes_fail_with(const char *path, int rc);

extern void sf_nodes_ask_names(void);
extern SfReading sf_nodes_take_names(SfRegistry *registry, int64 *clock_ms);
extern void sf_nodes_ask_values(void);
extern SfReading sf_nodes_take_values(SfRegistry *registry);

extern void sf_nodes_ask_present(uint32 node);
extern SfReading sf_nodes_take_present(SfPresent *present);

/* nodes_write.c */
extern void sf_nodes_ask_parents(const struct ACL_vector *acl);
extern void sf_nodes_ask_write(const SfAsk *ask, const SfPresent *present,
							   int64 session, const char *address,
							   const char *layout,
							   const struct ACL_vector *acl);
extern SfWriting sf_nodes_take_written(const SfAsk *ask, int64 *version,
									   int64 *clock_ms);

#endif							/* SF_ZOO_NODES_H */
