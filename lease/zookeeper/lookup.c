/*-------------------------------------------------------------------------
 *
 * lookup.c
 *	  Non-blocking lookup of a host's addresses.
 *
 * libzookeeper would wait for the resolver, so it gets addresses and no names.
 * The GNU C library resolves names in a thread of its own, which handles no
 * signals.  With other C libraries, this file waits for the resolver.  A host
 * that is written as an address needs neither.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <netdb.h>
#include <sys/socket.h>

#include "session.h"
#include "uri.h"

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
#define HAVE_LOOKUP_IN_THREAD
#endif
#endif

/*
 * The lookups, one per host.  A lookup cannot be cancelled, so the next one of
 * the same host waits for it.
 */
static struct
{
	char	   *name;			/* lives as long as the process */
	char	   *port;
	struct addrinfo hints;
	struct addrinfo *found;
	int			result;			/* of getaddrinfo() */
	bool		is_under_way;
#ifdef HAVE_LOOKUP_IN_THREAD
	struct gaicb request;
#endif
}			lookups[SF_URI_HOSTS];

static void
free_lookup(int number)
{
	if (lookups[number].found != NULL)
		freeaddrinfo(lookups[number].found);
	lookups[number].found = NULL;
	free(lookups[number].name);
	lookups[number].name = NULL;
}

/* Split "name:port" or "[address]:port" into two texts. */
static bool
set_host(int number, const char *host)
{
	const char *colon = strrchr(host, ':');
	bool		has_brackets = host[0] == '[';

	lookups[number].name = strdup(host + has_brackets);
	if (lookups[number].name == NULL)
		return false;
	lookups[number].name[colon - host - 2 * has_brackets] = '\0';
	lookups[number].port = lookups[number].name + (colon + 1 - host) -
		has_brackets;
	return true;
}

static bool
look_up_host(int number, int flags)
{
	struct addrinfo *hints = &lookups[number].hints;

	memset(hints, 0, sizeof(struct addrinfo));
	hints->ai_flags = flags | AI_NUMERICSERV;
	hints->ai_socktype = SOCK_STREAM;
	lookups[number].result = getaddrinfo(lookups[number].name,
										 lookups[number].port, hints,
										 &lookups[number].found);
	return lookups[number].result == 0;
}

/* Begin anew to look up the host of this number. */
void
sf_lookup_begin(int number, const char *host)
{
	if (lookups[number].is_under_way)
		return;
	free_lookup(number);
	lookups[number].result = EAI_MEMORY;
	if (!set_host(number, host) || look_up_host(number, AI_NUMERICHOST))
		return;
#ifdef HAVE_LOOKUP_IN_THREAD
	{
		struct gaicb *request = &lookups[number].request;

		lookups[number].hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
		memset(request, 0, sizeof(struct gaicb));
		request->ar_name = lookups[number].name;
		request->ar_service = lookups[number].port;
		request->ar_request = &lookups[number].hints;
		lookups[number].result = getaddrinfo_a(GAI_NOWAIT, &request, 1, NULL);
		lookups[number].is_under_way = lookups[number].result == 0;
	}
#else
	(void) look_up_host(number, AI_ADDRCONFIG);
#endif
}

#ifdef HAVE_LOOKUP_IN_THREAD
static void
take_result(int number)
{
	lookups[number].result = gai_error(&lookups[number].request);
	if (lookups[number].result == EAI_INPROGRESS)
		return;
	lookups[number].is_under_way = false;
	if (lookups[number].result == 0)
		lookups[number].found = lookups[number].request.ar_result;
}
#endif

/*
 * Set *n to the number of the host's addresses.  Print the address of this
 * turn, counted from 0, as "address:port" without brackets: libzookeeper wants
 * it so.  If there is none, print what has gone wrong.
 */
SfLookupState
sf_lookup_get(int number, int turn, char *text, int *n)
{
	struct addrinfo *wanted = NULL;
	char		name[SF_LOOKUP_TEXT / 2];

#ifdef HAVE_LOOKUP_IN_THREAD
	if (lookups[number].is_under_way)
		take_result(number);
#endif
	if (lookups[number].is_under_way)
		return SF_LOOKUP_UNDER_WAY;
	*n = 0;
	for (struct addrinfo *address = lookups[number].found; address != NULL;
		 address = address->ai_next)
	{
		if ((*n)++ == turn)
			wanted = address;
	}
	if (wanted == NULL ||
		getnameinfo(wanted->ai_addr, wanted->ai_addrlen, name, sizeof(name),
					NULL, 0, NI_NUMERICHOST) != 0)
	{
		snprintf(text, SF_LOOKUP_TEXT, "%s",
				 gai_strerror(lookups[number].result == 0 ? EAI_NONAME :
							  lookups[number].result));
		return SF_LOOKUP_FAILED;
	}
	snprintf(text, SF_LOOKUP_TEXT, "%s:%s", name, lookups[number].port);
	return SF_LOOKUP_DONE;
}
