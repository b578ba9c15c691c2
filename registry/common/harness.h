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

#include "backend.h"
#include "utils/palloc.h"

/* What a library is asked to open, and where it says why it could not. */
typedef struct SfOpening
{
	const char *text;
	const SfBackendConfig *config;
	char	   *reason;
	size_t		reason_size;
	MemoryContext lasting;		/* of the harness */
} SfOpening;

/*
 * Make a context that lasts until it is closed, and one for a request and its
 * answer; call this in the former.  If that fails or throws, nothing is left.
 */
extern bool sf_harness_open(const char *name,
							bool (*work) (const SfOpening *opening),
							SfOpening *opening);
extern void sf_harness_close(void);

/* Forget the request before; the next one begins. */
extern void sf_harness_reset(void);

/*
 * Call this in the request's context; if it throws, the other with the text.
 */
extern void sf_harness_call(void (*work) (const void *arg), const void *arg,
							void (*fail) (const char *problem));

#endif							/* SF_HARNESS_H */
