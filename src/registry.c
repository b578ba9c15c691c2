/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  What people are told of a registry that fails: the kind of failure, which
 *	  everybody may know, and its remedy.
 *
 * What the registry's client says of it names roles, hosts and paths, as the
 * setting snowflake.registry does; so that goes where the setting does.  There
 * are no such names here.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include "registry.h"

#include <stddef.h>
#include <string.h>

/* A sentence for those who may not see the setting. */
const char *
sf_registry_failure(SfFailure failure)
{
	static const char *const sentences[SF_FAILURES] = {
		[SF_FAILURE_OTHER] = "The registry has not done what it was asked.",
		[SF_FAILURE_UNREACHABLE] = "The registry cannot be reached, or does not answer in time.",
		[SF_FAILURE_LOGIN] = "The registry does not let this server log in.",
		[SF_FAILURE_DATABASE] = "The registry's database does not exist.",
		[SF_FAILURE_EXTENSION] = "The registry's database lacks the extension \"snowflake\", or has another version of it.",
		[SF_FAILURE_PERMISSION] = "The registry does not permit this server what it needs.",
		[SF_FAILURE_READ_ONLY] = "The registry can only be read, as a standby can.",
		[SF_FAILURE_LOST] = "The registry may have lost data.",
	};

	return sentences[failure];
}

static const char *const postgresql[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start the registry's server; or correct host and port in snowflake.registry, and restart this one. Run psql on this machine with the URI in that setting: it meets the same problem, such as DNS, a firewall, listen_addresses or TLS.",
	[SF_FAILURE_LOGIN] = "In the registry, run CREATE ROLE with LOGIN for the role in snowflake.registry, or ALTER ROLE with LOGIN and the password that this server has; and let pg_hba.conf there admit it.",
	[SF_FAILURE_DATABASE] = "In the registry, run CREATE DATABASE with the name in snowflake.registry, and in that database CREATE EXTENSION snowflake. Or correct the setting, and restart this server.",
	[SF_FAILURE_EXTENSION] = "In the registry's database, run CREATE EXTENSION snowflake; or, where it has an older version than this server, ALTER EXTENSION snowflake UPDATE.",
	[SF_FAILURE_PERMISSION] = "In the registry's database, GRANT the role in snowflake.registry what this server's log says is denied. The worker needs USAGE ON its SCHEMA; GRANT SELECT, UPDATE (id) ON snowflake_registry; SELECT, INSERT, UPDATE ON snowflake_registry_slot, snowflake_registry_shards; EXECUTE ON FUNCTION snowflake_registry_read, snowflake_registry_keep, snowflake_registry_write, snowflake_registry_write_shards.",
	[SF_FAILURE_READ_ONLY] = "Name the primary in snowflake.registry, or several hosts and target_session_attrs=read-write, and restart this server; or, if the primary has gone, run in the registry: SELECT pg_promote().",
	[SF_FAILURE_LOST] = "If it is the right server, run in the registry's database: SELECT snowflake_registry_recover('90 s'), with the largest snowflake.lease_reserve of all servers.",
};

static const char *const etcd[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start etcd; or correct hosts, ports and certificates in snowflake.registry, and restart this server. \"etcdctl endpoint health\" with these hosts as --endpoints says which of them answer.",
	[SF_FAILURE_LOGIN] = "Name with ?credentials= in snowflake.registry a file of two lines, the user and the password, which only this server can read (chmod 600). \"etcdctl user add\" makes the user, \"etcdctl user passwd\" sets the password.",
	[SF_FAILURE_PERMISSION] = "Run \"etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/\" with the prefix in snowflake.registry, and \"etcdctl user grant-role USER ROLE\".",
};

static const char *const zookeeper[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start ZooKeeper; or correct hosts and ports in snowflake.registry, and restart this server. \"zkCli.sh -server HOST:PORT\" tries one of them.",
	[SF_FAILURE_LOGIN] = "Name with ?credentials= in snowflake.registry a file of two lines, the user and the password, which only this server can read (chmod 600).",
	[SF_FAILURE_PERMISSION] = "Another user made the nodes below the path in snowflake.registry: name a file with that user and its password with ?credentials= there; or run in zkCli.sh, as that user, \"setAcl -R PATH digest:USER:HASH:cdrwa\" for this server's.",
};

/* What to do about it, where the registry is of this kind; NULL: of any. */
const char *
sf_registry_remedy(const char *kind, SfFailure failure)
{
	const char *const *remedies = kind == NULL ? NULL :
		strcmp(kind, "postgresql") == 0 ? postgresql :
		strcmp(kind, "etcd") == 0 ? etcd : zookeeper;

	if (remedies == NULL || remedies[failure] == NULL)
		return "See this server's log, and the registry's. It is asked again until it has done it.";
	return remedies[failure];
}
