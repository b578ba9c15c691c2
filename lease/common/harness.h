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
	MemoryContext lasting;		/* memory from open to close */
} SfOpening;

/*
 * Call close_all(), which calls sf_harness_close().  Then create a context
 * that lasts until sf_harness_close(), and one for a request and its answer.
 * Call work() in the lasting one.  If that fails or throws, call close_all()
 * again.
 */
extern bool sf_harness_open(const char *name, SfOpening opening,
							bool (*work) (const SfOpening *opening),
							void (*close_all) (void));
extern void sf_harness_close(void);

/* Return a time in ms that nobody can set. */
extern int64 sf_harness_now_ms(void);

/* Free the memory of the previous request, before the next one begins. */
extern void sf_harness_reset(void);

/*
 * Call work() in the context of the request.  If work() throws, call fail()
 * with the text of the error.
 */
extern void sf_harness_call(void (*work) (const void *arg), const void *arg,
							void (*fail) (const char *problem));

#endif							/* SF_HARNESS_H */
