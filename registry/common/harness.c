/*-------------------------------------------------------------------------
 *
 * harness.c
 *	  Memory for a registry's library, and calls of what may throw in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "harness.h"

static MemoryContext lasting;	/* from open to close */
static MemoryContext passing;	/* of one request and its answer */

bool
sf_harness_open(const char *name, bool (*work) (void *arg, MemoryContext lasting),
				void *arg)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool ok = false;

	sf_harness_close();
	PG_TRY();
	{
		/* the macro takes no name but a literal; this one lasts as long */
		lasting = AllocSetContextCreateInternal(TopMemoryContext, name,
												ALLOCSET_SMALL_SIZES);
		passing = AllocSetContextCreateInternal(TopMemoryContext, name,
												ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(lasting);
		ok = work(arg, lasting);
	}
	PG_CATCH();
	{
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	if (!ok)
		sf_harness_close();
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
	MemoryContextSwitchTo(before);
}
