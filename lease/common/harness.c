/*-------------------------------------------------------------------------
 *
 * harness.c
 *	  Memory contexts for a registry's client library, and calls that catch the
 *	  errors thrown in them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "harness.h"

static MemoryContext lasting;	/* from open to close */
static MemoryContext passing;	/* one request and its answer */

bool
sf_harness_open(const char *name, SfOpening opening,
				bool (*work) (const SfOpening *opening),
				void (*close_all) (void))
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool ok = false;

	close_all();
	snprintf(opening.reason, opening.reason_size,
			 "There is not enough memory.");
	PG_TRY();
	{
		/* the macro accepts only a literal; "name" is one in the caller */
		lasting = AllocSetContextCreateInternal(TopMemoryContext, name,
												ALLOCSET_SMALL_SIZES);
		passing = AllocSetContextCreateInternal(TopMemoryContext, name,
												ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(lasting);
		opening.lasting = lasting;
		ok = work(&opening);
	}
	PG_CATCH();
	{
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	if (!ok)
		close_all();
	return ok;
}

void
sf_harness_close(void)
{
	if (passing != NULL)
		MemoryContextDelete(passing);
	if (lasting != NULL)
		MemoryContextDelete(lasting);
	passing = lasting = NULL;
}

int64
sf_harness_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
sf_harness_reset(void)
{
	MemoryContextReset(passing);
}

void
sf_harness_call(void (*work) (const void *arg), const void *arg,
				void (*fail) (const char *problem))
{
	MemoryContext before = MemoryContextSwitchTo(passing);
	uint32		holdoff = InterruptHoldoffCount;

	/* what is caught below must not be a cancel, or the end of the session */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		work(arg);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(passing);
		error = CopyErrorData();
		FlushErrorState();
		fail(error->message);
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	MemoryContextSwitchTo(before);
}
