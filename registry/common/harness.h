/*-------------------------------------------------------------------------
 *
 * harness.h
 *	  Memory for a registry's library, and calls of what may throw in it.
 *
 * Nothing is thrown from here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HARNESS_H
#define SF_HARNESS_H

#include "utils/palloc.h"

/*
 * Make a context that lasts until it is closed, and one for a request and its
 * answer; call this in the former.  If that fails or throws, nothing is left.
 */
extern bool sf_harness_open(const char *name,
							bool (*work) (void *arg, MemoryContext lasting),
							void *arg);
extern void sf_harness_close(void);

/* Forget the request before; the next one begins. */
extern void sf_harness_reset(void);

/* Call this in the request's context; if it throws, the other with the text. */
extern void sf_harness_call(void (*work) (const void *arg), const void *arg,
							void (*fail) (const char *problem));

#endif							/* SF_HARNESS_H */
