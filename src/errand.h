/*-------------------------------------------------------------------------
 *
 * errand.h
 *	  A session's end of what the worker asks the registry for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ERRAND_H
#define SF_ERRAND_H

#include "registrar.h"

extern const SfJobReply *sf_errand_begin(const SfJob *job);
extern const SfRecord *sf_errand_next(void);
extern void sf_errand_end(void);

#endif							/* SF_ERRAND_H */
