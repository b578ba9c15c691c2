/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Kinds of failure of a registry, each with a public sentence and a remedy.
 *
 * Messages of the registry's client name roles, hosts and paths, as the
 * setting snowflake.registry does.  So only roles that may see the setting get
 * them.  The texts here contain no such names.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/registry.h"

#include <stddef.h>
#include <string.h>

/* Return a sentence for roles that may not see the setting. */
const char *
sf_registry_failure(SfFailure failure)
{
	static const char *const sentences[SF_FAILURES] = {
		[SF_FAILURE_OTHER] = "The registry has not done what it was asked.",
		[SF_FAILURE_UNREACHABLE] = "The registry cannot be reached.",
		[SF_FAILURE_TIMEOUT] = "The registry does not answer in time.",
		[SF_FAILURE_CERTIFICATE] = "The registry and this server do not trust each other's certificates.",
		[SF_FAILURE_LOGIN] = "The registry does not let this server log in.",
		[SF_FAILURE_DATABASE] = "The registry's database does not exist.",
		[SF_FAILURE_EXTENSION] = "The registry's database lacks the extension \"snowflake_registry\", or has another version of it.",
		[SF_FAILURE_PERMISSION] = "The registry does not permit this server what it needs.",
		[SF_FAILURE_READ_ONLY] = "The registry can only be read, as a standby can.",
		[SF_FAILURE_FULL] = "The registry has no room left.",
		[SF_FAILURE_TOO_LONG] = "The registry holds more than one answer can bring.",
		[SF_FAILURE_LOST] = "The registry may have lost data.",
	};

	return sentences[failure];
}

/* for registries that this server recovers */
#define LOST	"If snowflake.registry names the right one, run here: SELECT snowflake_registry_recover('90 s'), with the largest snowflake.lease_reserve of all servers."

static const char *const postgresql[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start the registry's server; or correct host and port in snowflake.registry, and restart this one. Run psql on this machine with the URI in that setting: it meets the same problem, such as DNS, a firewall or listen_addresses.",
	[SF_FAILURE_TIMEOUT] = "Run psql on this machine with the URI in snowflake.registry. If it waits, too, the host is down, the server hangs, or a firewall drops what is sent there. If it does not, look there at SELECT pid, wait_event, query FROM pg_stat_activity WHERE state = 'active': a session that waits for SyncRep lacks its synchronous standby. If the registry is only slow, raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_CERTIFICATE] = "Run \"openssl s_client -starttls postgres -connect HOST:PORT </dev/null | openssl x509 -noout -subject -issuer -dates\": if that certificate has expired, replace it in the registry (ssl_cert_file) and reload; if sslrootcert in snowflake.registry is not its authority, correct that. If sslcert is set there, run \"openssl x509 -noout -dates -in FILE\" with that file, and replace it if it has expired, and the file of sslkey.",
	[SF_FAILURE_LOGIN] = "In the registry, run CREATE ROLE with LOGIN for the role in snowflake.registry, or ALTER ROLE with LOGIN and the password that this server has. Let pg_hba.conf there admit that role. Or give this server the right password: in its ~/.pgpass, which is read for each connection; or in snowflake.registry, and restart this server.",
	[SF_FAILURE_DATABASE] = "If other servers lease, set snowflake.registry to what they have (SHOW snowflake.registry; there), and restart this server: a second registry leases the same node ids. Only for the first server of all, run in the registry CREATE DATABASE with the name in snowflake.registry, and in that database CREATE EXTENSION snowflake_registry.",
	[SF_FAILURE_EXTENSION] = "In the registry's database, run CREATE EXTENSION snowflake_registry; or, where it has an older version than this server, ALTER EXTENSION snowflake_registry UPDATE.",
	[SF_FAILURE_PERMISSION] = "In the registry's database, run as a superuser, with the role in snowflake.registry: SELECT snowflake_registry.grant('ROLE'); or, to look after the registry from here, too: SELECT snowflake_registry.grant('ROLE', administer => true);",
	[SF_FAILURE_READ_ONLY] = "Name the primary in snowflake.registry, or several hosts and target_session_attrs=read-write, and restart this server; or, if the primary has gone, run in the registry: SELECT pg_promote().",
	[SF_FAILURE_FULL] = "Make room on the disk of the registry's server: SELECT pg_size_pretty(pg_database_size(datname)), datname FROM pg_database; the registry's log says which disk is full.",
	[SF_FAILURE_LOST] = "If this is the right server, and the former one never runs again, run in the registry's database: SELECT snowflake_registry.recover();",
};

static const char *const etcd[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start etcd; or correct hosts and ports in snowflake.registry, and restart this server. \"etcdctl endpoint health\" with these hosts as --endpoints says which of them answer.",
	[SF_FAILURE_TIMEOUT] = "Run \"etcdctl endpoint status\" on this machine, with the hosts in snowflake.registry as --endpoints. A host that does not answer is down or hangs, or a firewall drops what is sent there. Where none has a leader, there is no quorum: start the other members. If etcd is only slow (its log says \"took too long\"), give it a faster disk; or raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_CERTIFICATE] = "Run \"openssl s_client -connect HOST:PORT </dev/null | openssl x509 -noout -subject -issuer -dates\" with a host in snowflake.registry: if that certificate has expired, replace it in etcd; if ?cacert= in snowflake.registry is not its authority, correct that and restart this server. If ?cert= is set there, run \"openssl x509 -noout -dates -in FILE\" with that file; if it has expired, replace it and the file of ?key=. Both are read for each connection.",
	[SF_FAILURE_LOGIN] = "Correct the file that ?credentials= in snowflake.registry names: its two lines are the user and the password, and only this server can read it (chmod 600). It is read again for each try. If none is named, name one, and restart this server. \"etcdctl user add\" makes the user, \"etcdctl user passwd\" sets the password.",
	[SF_FAILURE_PERMISSION] = "Run \"etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/\" with the prefix in snowflake.registry, and \"etcdctl user grant-role USER ROLE\".",
	[SF_FAILURE_FULL] = "Run \"etcdctl compact $(etcdctl endpoint status -w json | grep -o '\"revision\":[0-9]*' | head -1 | cut -d: -f2)\", \"etcdctl defrag --cluster\" and \"etcdctl alarm disarm\", in this order; then start etcd with --auto-compaction-retention=1.",
	[SF_FAILURE_TOO_LONG] = "See what is there: \"etcdctl get --prefix --keys-only PREFIX/\", with the prefix in snowflake.registry. Delete what is not the registry's: \"etcdctl del KEY\".",
	[SF_FAILURE_LOST] = LOST,
};

static const char *const zookeeper[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "Start ZooKeeper; or correct hosts and ports in snowflake.registry, and restart this server. \"zkCli.sh -server HOST:PORT\" tries one of them.",
	[SF_FAILURE_TIMEOUT] = "Run \"zkCli.sh -server HOST:PORT ls /\" on this machine with each host in snowflake.registry. A host that does not answer is down or hangs, lacks a quorum, or a firewall drops what is sent there: see its log, and start the other members. If ZooKeeper is only slow (its log says \"fsync-ing the write ahead log\"), give it a faster disk; or raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_LOGIN] = "Correct the file that ?credentials= in snowflake.registry names: its two lines are the user and the password, and only this server can read it (chmod 600). It is read again for each try. If none is named, name one, and restart this server.",
	[SF_FAILURE_PERMISSION] = "Another user made the nodes below the path in snowflake.registry. Name a file with that user and its password there, with ?credentials=. Or give the nodes to this server's user: as that other user, run in zkCli.sh \"setAcl -R PATH digest:USER:HASH:cdrwa\".",
	[SF_FAILURE_FULL] = "Raise the quota of the path in snowflake.registry, or of one above it: run \"listquota PATH\" and \"setquota\" in zkCli.sh.",
	[SF_FAILURE_LOST] = LOST,
};

/* Return the remedy for a registry of this kind, or one for each kind. */
const char *
sf_registry_remedy(const char *kind, SfFailure failure)
{
	static const struct
	{
		const char *kind;
		const char *const *remedies;
	}			kinds[] = {
		{"postgresql", postgresql}, {"etcd", etcd}, {"zookeeper", zookeeper}
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (strcmp(kind, kinds[i].kind) == 0 &&
			kinds[i].remedies[failure] != NULL)
			return kinds[i].remedies[failure];
	}
	return "See this server's log, and the registry's. For its own leases this server asks again until the registry has done it.";
}
