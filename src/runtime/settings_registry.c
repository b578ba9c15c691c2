/*-------------------------------------------------------------------------
 *
 * settings_registry.c
 *	  Settings of leases.
 *
 * Only the values that are sent to the registry must be the same everywhere,
 * and only the worker sends them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"


#include "utils/guc.h"

char	   *sf_registry = NULL;
int			sf_lease_reserve = 90 * 1000;
int			sf_lease_presence = 30 * 1000;
int			sf_lease_timeout = 2 * 1000;
int			sf_lease_wait = 60 * 1000;

#define LIBPQ		"libpq (Debian: libpq-dev)"
#define LIBCURL		"libcurl (Debian: libcurl4-openssl-dev)"
#define LIBZOOKEEPER	"libzookeeper without threads (Debian: libzookeeper-st-dev)"

/* the SQL function runs in the registry, without this server's layout */
#define IN_SQL		NULL
#define FROM_HERE	"run here: SELECT snowflake_registry_init();"

static const SfRegistryKind kinds[] = {
	{"postgresql", "postgresql", LIBPQ, IN_SQL},
	{"postgres", "postgresql", LIBPQ, IN_SQL},
	{"etcd", "etcd", LIBCURL, FROM_HERE},
	{"etcds", "etcd", LIBCURL, FROM_HERE},
	{"zookeeper", "zookeeper", LIBZOOKEEPER, FROM_HERE},
};

/* Return the kind of registry that this URL names, or NULL. */
const SfRegistryKind *
sf_settings_registry_kind(const char *url)
{
	for (size_t i = 0; i < lengthof(kinds); i++)
	{
		size_t		length = strlen(kinds[i].scheme);

		if (strncmp(url, kinds[i].scheme, length) == 0 &&
			strncmp(url + length, "://", 3) == 0)
			return &kinds[i];
	}
	return NULL;
}

/*
 * Print the registry without secrets: no user, no password, no options.  A
 * password may contain any character except "@" and "/".  So skip everything
 * before the last "@".  If a "?" comes before that "@", an option and a
 * password cannot be told apart: print no host.
 */
void
sf_settings_registry_name(char *name, size_t size)
{
	const char *text = strstr(sf_registry, "://");
	const char *host;
	const char *at;
	int			length;

	if (text == NULL)
	{
		snprintf(name, size, "%s", "");
		return;
	}
	text += 3;
	at = strrchr(text, '@');
	host = at == NULL ? text : at + 1;
	length = (int) strcspn(host, "?");
	if (at != NULL && memchr(text, '?', at - text) != NULL)
	{
		host = "...";
		length = 3;
	}
	snprintf(name, size, "%.*s%.*s", (int) (text - sf_registry), sf_registry,
			 length, host);
}

static bool
check_registry(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0' || sf_settings_registry_kind(*newval) != NULL)
		return true;
	GUC_check_errmsg("invalid value for parameter \"snowflake.registry\"");
	GUC_check_errdetail("It must begin with \"postgresql://\", \"etcd://\", \"etcds://\" or \"zookeeper://\", or be empty.");
	return false;
}

void
sf_settings_define_lease(void)
{
	DefineCustomStringVariable("snowflake.registry",
							   "Registry that this server leases its node id from.",
							   "Such as \"postgresql://snowflake@registry/snowflake\". If it is empty, this server uses snowflake.node_id.",
							   &sf_registry, "",
							   PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
							   check_registry, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_reserve",
							"How far ahead of its clock this server reserves timestamps in the registry.",
							"The server extends the reservation when a third of it is used. Without the registry it makes IDs until the reservation ends.",
							&sf_lease_reserve, 90 * 1000, 5 * 1000,
							SF_MAX_RESERVE_MS,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_presence",
							"How long this server counts as present after the registry last heard of it.",
							"The server reports three times in that time. No other server claims the node id of a server that is present.",
							&sf_lease_presence, 30 * 1000, 3 * 1000,
							3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_timeout",
							"How long the registry may take for an answer.",
							NULL,
							&sf_lease_timeout, 2 * 1000, 100, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake.lease_wait",
							"How long a call may wait for a node id to be leased.",
							"This counts from when the server had none. A call that comes after that time fails at once.",
							&sf_lease_wait, 60 * 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}
