/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Batch of requests to ZooKeeper, and their replies.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ZOO_BATCH_H
#define SF_ZOO_BATCH_H

#include <zookeeper/zookeeper.h>

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

#endif							/* SF_ZOO_BATCH_H */
