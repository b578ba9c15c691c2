/*-------------------------------------------------------------------------
 *
 * protocol.h
 *	  The registry as keys of etcd, and the requests that read and write it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ETCD_PROTOCOL_H
#define SF_ETCD_PROTOCOL_H

#include "json.h"
#include "lease/registry.h"

typedef struct SfEtcdReading
{
	SfRegistry	registry;
	char	   *identity;		/* the value of prefix/registry */
	char	   *cluster;		/* cluster ID of the etcd that has answered */
	bool		in_place;		/* the generation began in this cluster */
	int64		lease;			/* etcd's lease of our presence; or 0 */
} SfEtcdReading;

typedef enum SfEtcdWritten
{
	SF_ETCD_WRITTEN,
	SF_ETCD_NOT_WRITTEN,
	SF_ETCD_ELSEWHERE,			/* another cluster has answered */
	SF_ETCD_UNREADABLE
} SfEtcdWritten;

extern char *sf_etcd_read_request(const char *prefix);
extern const char *sf_etcd_read_answer(SfJson *json, const char *prefix,
									   uint64 owner,
									   SfEtcdReading *reading);
extern char *sf_etcd_write_request(const char *prefix, const SfAsk *ask,
								   const char *identity, const char *cluster,
								   int64 lease, const char *address);
extern SfEtcdWritten sf_etcd_write_answer(SfJson *json, const char *cluster,
										  int64 *version);

#endif							/* SF_ETCD_PROTOCOL_H */
