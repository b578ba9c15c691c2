/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  The registry as nodes of ZooKeeper: requests that read and write it, and
 *	  their replies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_NODES_H
#define SF_ZOO_NODES_H

#include "lease/registry.h"
#include <zookeeper/zookeeper.h>

typedef enum SfReading
{
	SF_READING_DONE,
	SF_READING_MOVED,			/* something has changed during the reading */
	SF_READING_FAILED			/* "problem" says why */
} SfReading;

typedef enum SfWriting
{
	SF_WRITING_DONE,
	SF_WRITING_CONFLICT,
	SF_WRITING_LOOK,			/* presence has changed: look again */
	SF_WRITING_REFUSED,			/* nothing was done; "problem" says why */
	SF_WRITING_UNKNOWN
} SfWriting;

/* The owner that is present, and its session. */
typedef struct SfPresent
{
	uint64		owner;			/* 0: nobody */
	int64		session;
} SfPresent;

/* nodes.c; returned paths are in the current memory context */
extern void sf_nodes_open(const char *prefix, char *problem,
						  size_t problem_size, SfFailure *failure);
extern char *sf_nodes_path(const char *name);
extern char *sf_nodes_path_of(const char *name, uint32 node);
extern char *sf_nodes_generation(uint64 generation);
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
extern SfWriting sf_nodes_take_written(const SfAsk *ask, SfAnswer *answer);

/* batch.c */

typedef struct SfZooReply
{
	int			rc;				/* ZOK, or an error of zookeeper.h */
	struct Stat stat;
	char	   *data;			/* of a node; ends in a zero byte */
	struct String_vector names; /* of children */
	zoo_op_result_t *results;	/* of the operations of a multi */
	int			nresults;

	/* Used by batch.c only. */
	bool		is_done;
	bool		is_forgotten;
} SfZooReply;

extern void sf_batch_begin(zhandle_t *handle);
extern void sf_batch_sync(const char *path);
extern void sf_batch_get(const char *path);
extern void sf_batch_exists(const char *path);
extern void sf_batch_children(const char *path);
extern void sf_batch_set(const char *path, const char *data);
extern void sf_batch_create(const char *path, const struct ACL_vector *acl);
extern void sf_batch_multi(const zoo_op_t *ops, int n);
extern bool sf_batch_is_done(void);
extern const SfZooReply *sf_batch_reply(int i);
extern int	sf_batch_size(void);

#endif							/* SF_ZOO_NODES_H */
