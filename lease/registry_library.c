/*-------------------------------------------------------------------------
 *
 * registry_library.c
 *	  The registry's client library (lease/backend.h): finding and loading it,
 *	  and waiting for its sockets.
 *
 * The worker loads it for the leases, and a session for the calls of an
 * administrator.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include "base/text.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/resowner.h"

static uint32 wait_event_registry = 0;

/*
 * Load the library into this process.  Throws SQLSTATE F0000 if it is not of
 * the running server's build.
 */
const SfBackend *
sf_registry_library_load(void)
{
	char		library[MAXPGPATH];
	SfBackendFunction function;
	const SfBackend *backend;

	snprintf(library, sizeof(library), "snowflake_%s", sf_core->kind->name);
	function = (SfBackendFunction) (void *)
		load_external_function(library, SF_BACKEND_FUNCTION, true, NULL);
	backend = function();
	if (strcmp(backend->version, SF_BACKEND_VERSION) == 0 &&
		backend->size == SF_BACKEND_SIZE)
		return backend;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("library \"%s\" is not of the build that runs", library),
			 errdetail("The library is of %s, and the server runs %s.",
					   backend->version, SF_BACKEND_VERSION),
			 errhint("%s", SF_INSTALL_AGAIN)));
}

/* Take an answer, if there is one.  Its texts may come from anybody. */
bool
sf_registry_library_receive(const SfBackend *backend, SfAnswer *answer)
{
	static char message[1000];

	if (!backend->receive(answer))
		return false;
	if (answer->message != NULL)
	{
		strlcpy(message, answer->message, sizeof(message));
		sf_text_make_printable(message);
		answer->message = message;
	}
	if (answer->registry != NULL)
	{
		SfRegistry *registry = unconstify(SfRegistry *, answer->registry);

		sf_text_make_printable(registry->layout);
	}
	return true;
}

/*
 * Wait until a socket is ready, the latch is set, or this time has passed.
 * The library may shorten the time, as libcurl does to 0 after a send().
 */
void
sf_registry_library_wait(const SfBackend *backend, int64 limit_ms)
{
	SfSocket	sockets[SF_BACKEND_SOCKETS];
	int64_t		timeout_ms = limit_ms;
	int			n = backend->sockets(sockets, &timeout_ms);
	WaitEventSet *set = sf_create_wait_event_set(n + 2);
	WaitEvent	event;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	if (IsUnderPostmaster)
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL,
						  NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(set, (sockets[i].readable ? WL_SOCKET_READABLE : 0) |
						  (sockets[i].writeable ? WL_SOCKET_WRITEABLE : 0),
						  sockets[i].fd, NULL, NULL);
	(void) WaitEventSetWait(set, (long) Max(0, Min(timeout_ms, limit_ms)),
							&event, 1, sf_wait_event(&wait_event_registry,
													 "SnowflakeRegistry"));
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
}
