/*-------------------------------------------------------------------------
 *
 * seqsync.h
 *	  Keeps the registers when logical replication writes sequences.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SEQSYNC_H
#define SF_SEQSYNC_H

extern void sf_seqsync_register(void);

#endif							/* SF_SEQSYNC_H */
