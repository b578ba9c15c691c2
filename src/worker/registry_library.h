/*-------------------------------------------------------------------------
 *
 * registry_library.h
 *	  The registry's client library (lease/backend.h): finding and loading it,
 *	  and waiting for its sockets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRY_LIBRARY_H
#define SF_REGISTRY_LIBRARY_H

#include "lease/backend.h"

extern void sf_registry_library_require(void);
extern const SfBackend *sf_registry_library_load(void);
extern void sf_registry_library_wait(const SfBackend *backend, int64 limit_ms);

#endif							/* SF_REGISTRY_LIBRARY_H */
