/*-------------------------------------------------------------------------
 *
 * sequence_sync.h
 *	  Protection of the durable numbers when logical replication writes
 *	  sequences.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SEQUENCE_SYNC_H
#define SF_SEQUENCE_SYNC_H

extern void sf_sequence_sync_install(void);

#endif							/* SF_SEQUENCE_SYNC_H */
