/*-------------------------------------------------------------------------
 *
 * leaser.h
 *	  The worker that leases this server's node id.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEASER_H
#define SF_LEASER_H

#include "lease.h"

extern void sf_leaser_register(void);

/* leaser_publish.c, for leaser.c */
extern void sf_leaser_publish(const SfRight *right);
extern int64_t sf_leaser_close(void);

#endif							/* SF_LEASER_H */
