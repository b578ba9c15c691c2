/*-------------------------------------------------------------------------
 *
 * harness.h
 *	  Memory contexts for a registry's client library, and calls that catch the
 *	  errors thrown in them.
 *
 * No function here throws.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HARNESS_H
#define SF_HARNESS_H

#include "lease/backend.h"
#include "utils/palloc.h"

/* What a library shall open, and where it writes the reason for a failure. */
typedef struct SfOpening
{
	const char *text;
	const SfBackendConfig *config;
	char	   *reason;
	size_t		reason_size;
	MemoryContext lasting;		/* the harness's, from open to close */
} SfOpening;

/*
 * Create a context that lasts until sf_harness_close(), and one for a request
 * and its answer.  Call work() in the former.  If this fails or throws,
 * nothing is left.
 */
extern bool sf_harness_open(const char *name,
							bool (*work) (const SfOpening *opening),
							SfOpening *opening);
extern void sf_harness_close(void);

/* Free the previous request's memory; the next request begins. */
extern void sf_harness_reset(void);

/*
 * Call work() in the request's context; if it throws, call fail() with the
 * error's text.
 */
extern void sf_harness_call(void (*work) (const void *arg), const void *arg,
							void (*fail) (const char *problem));

#endif							/* SF_HARNESS_H */
