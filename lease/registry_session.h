/*-------------------------------------------------------------------------
 *
 * registry_session.h
 *	  Calls of administrators: a session asks the registry by itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REGISTRY_SESSION_H
#define SF_REGISTRY_SESSION_H

#include "lease/registry.h"

/* The longest wait that a recovery imposes. */
#define SF_RECOVERY_MAX_MS	(INT64CONST(31) * 24 * 3600 * 1000)

/* A change of the registry. */
typedef struct SfRegistryChange
{
	SfAskKind	kind;			/* SF_ASK_INITIALIZE, _RECOVER or _RELEASE */
	SfLayout	layout;			/* for a new registry */
	int64_t		reserve_ms;		/* for a recovery: the first argument */
	int64_t		ahead_ms;		/* both arguments together, from the
								 * registry's clock on */
	uint32_t	node;			/* for a release */

	/* Set by a recovery. */
	int64_t		floor;			/* in ticks of the registry's layout */
	SfLayout	floor_layout;
} SfRegistryChange;

extern void sf_registry_session_require(const char *name);
extern bool sf_registry_session_change(SfRegistryChange *change);
extern SfSlotRecord *sf_registry_session_slots(SfLayout *layout, int *n);

#endif							/* SF_REGISTRY_SESSION_H */
