/*-------------------------------------------------------------------------
 *
 * client.c
 *	  A server's dialogue with the registry: the request in flight, the writes
 *	  whose outcome is not known, problems, when to ask again, and whose clock
 *	  is wrong.  What to ask is in lease.c.
 *
 * Clocks are no part of the argument that no ID is issued twice (lease.c).
 * But a wrong clock makes IDs that do not sort, or reserves a slot for years.
 * So a server whose clock is more than 5 s from the registry's neither claims
 * nor extends.
 *
 * If the registry's clock is the wrong one, that would stop all servers.
 * Three observations tell which clock is wrong:
 *
 * - Our wall clock was near the registry's, and has kept pace with the time
 *   since boot.  Then the registry's clock has moved.  That suffices to extend
 *   a lease, but not to claim one: in a virtual machine that was suspended the
 *   time since boot may have stood still, and its lease is often lost.
 *
 * - Endpoints of a registry may have clocks of their own, as in etcd, where an
 *   answer names its endpoint.  After a wrong clock, the next request goes to
 *   another endpoint.  If that one says the same, our clock is wrong.
 *
 * - Most other servers may have written that they find the registry's clock as
 *   far off as we do: each record has that offset.  Then the registry's clock
 *   is wrong, and a new server may claim.  The records are compared at each
 *   reading: at a claim, after an unclear outcome, and every five minutes.
 *
 *-------------------------------------------------------------------------
 */
#include "lease/client.h"

#include "base/clock.h"
#include "lease/slot_choice.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define BACKOFF_MIN_MS	200
#define BACKOFF_MAX_MS	5000
#define LOG_EVERY_MS	60000

/* Which message about a wrong clock was logged last. */
enum
{
	LOGGED_NOTHING, LOGGED_OFF, LOGGED_MOVED
};

/* ---- kinds of failure, each with a public sentence and a remedy ---- */

/*
 * Messages of the registry's client name roles, hosts and paths, as the
 * setting snowflake.registry does, and so do remedies.  Only roles that may
 * see the setting get them.  The sentences have no such names.
 */

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
		[SF_FAILURE_READ_ONLY] = "The registry can only be read.",
		[SF_FAILURE_STANDBY] = "The registry is a standby, which can only be read.",
		[SF_FAILURE_FULL] = "The registry has no room left.",
		[SF_FAILURE_TOO_LONG] = "The registry holds more than one answer can bring.",
		[SF_FAILURE_LOST] = "The registry may have lost data.",
		[SF_FAILURE_ANOTHER] = "The registry is empty, or another one.",
	};

	return sentences[failure];
}

/*
 * A word in braces stands for a part of snowflake.registry, as the registry's
 * client prints it for a shell or for SQL, and {recovery} for arguments.  With
 * the advice not to restart this server, a remedy has at most 60 words.
 */

/*
 * For a registry that has lost data, is empty, or another one than this server
 * knows: the page's section.
 *
 * Often it is not lost: the other servers lease elsewhere, and this one was
 * forgotten, or set to a copy.  A call that makes this registry usable would
 * give it their node ids.  Only a person can compare the settings, and a
 * person in a hurry pastes what is there.  So the text has no call: it asks
 * for the setting, which is harmless if it is the same, and names the section
 * that has the call below its conditions.  The arguments, which only this
 * server knows, are no statement.
 */
#define COMPARE(section)	"Set snowflake.registry to what SHOW snowflake.registry; says on a server that makes IDs, and restart if that differs. Only if no server leases from another, see \"" section "\" in doc/leases.md; arguments: {recovery}"
#define LOST	COMPARE("A registry that goes back")
#define ANOTHER	COMPARE("Another registry")

static const char *const postgresql[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "If other servers lease elsewhere (SHOW snowflake.registry;), set that here, and restart. If not, start the registry's server. This command meets the same problem here, such as DNS, a firewall or listen_addresses: {psql} -c 'SELECT 1'",
	[SF_FAILURE_TIMEOUT] = "Run here: {psql} -c 'SELECT 1'; If it waits too, the host or its server is down, or a firewall drops packets. If not, start its synchronous standby; or raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_CERTIFICATE] = "Run here: openssl s_client -starttls postgres -connect {address} </dev/null | openssl x509 -noout -issuer -dates; Replace an expired certificate there (ssl_cert_file), and reload; or set sslrootcert in snowflake.registry to its issuer's, and restart. Replace an expired sslcert here.",
	[SF_FAILURE_LOGIN] = "Put the role's password into {keeper}. Changing it stops other servers. In the registry, let pg_hba.conf admit {role}, and if need be, run as a superuser: ALTER ROLE {role} LOGIN; or, if missing, CREATE ROLE {role} LOGIN;",
	[SF_FAILURE_DATABASE] = "Set snowflake.registry to what the other servers have (SHOW snowflake.registry;), and restart: a second registry leases the same node ids. Only for the first server of all, run in the registry: CREATE DATABASE {database}; and there: CREATE EXTENSION snowflake_registry;",
	[SF_FAILURE_EXTENSION] = "If other servers lease, compare their SHOW snowflake.registry; first. In database {database} of the registry, run as a superuser: CREATE EXTENSION snowflake_registry; or, if it has an older version: ALTER EXTENSION snowflake_registry UPDATE;",
	[SF_FAILURE_PERMISSION] = "In database {database} of the registry, run as a superuser: SELECT snowflake_registry.grant({regrole}, false); GRANT CONNECT ON DATABASE {database} TO {role}; With true in place of false, this server may also make and recover the registry.",
	[SF_FAILURE_READ_ONLY] = "In the registry, run as a superuser: BEGIN; SET TRANSACTION READ WRITE; ALTER ROLE {role} IN DATABASE {database} SET default_transaction_read_only = off; COMMIT; If it is a standby, set snowflake.registry to the primary, and restart this server.",
	[SF_FAILURE_STANDBY] = "Name the primary in snowflake.registry, or all hosts and target_session_attrs=read-write, and restart this server. Only if the primary is gone for good, run in the registry: SELECT pg_catalog.pg_promote();",
	[SF_FAILURE_FULL] = "Make room on the disk of the registry's server. Its log says which disk is full, and this shows its databases: {psql} -c '\\l+'",
	[SF_FAILURE_LOST] = LOST,
	[SF_FAILURE_ANOTHER] = ANOTHER,
};

static const char *const etcd[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "If other servers lease elsewhere (SHOW snowflake.registry;), set that here, and restart. If not, start etcd. This says which members answer: {export} etcdctl endpoint health",
	[SF_FAILURE_TIMEOUT] = "Run here: {export} etcdctl endpoint status; A member without an answer is down, or a firewall drops packets. Without a leader there is no quorum: start the other members. If etcd is only slow, raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_CERTIFICATE] = "Run here: openssl s_client -connect {address} </dev/null | openssl x509 -noout -issuer -dates; Replace an expired certificate in etcd; or set ?cacert= in snowflake.registry to its issuer's, and restart. Replace expired files of ?cert= and ?key= here.",
	[SF_FAILURE_LOGIN] = "Put user and password into the two lines of the file {credentials} (?credentials= in snowflake.registry), which only this server's account can read (chmod 600). This sets the password: {root} etcdctl user passwd {user}",
	[SF_FAILURE_PERMISSION] = "Run: {root} etcdctl role add leases; etcdctl role grant-permission leases readwrite --prefix=true {prefix}/; etcdctl user grant-role {user} leases",
	[SF_FAILURE_FULL] = "Run: {root} etcdctl compact $(etcdctl endpoint status -w json | grep -o '\"revision\":[0-9]*' | head -1 | cut -d: -f2); etcdctl defrag --cluster; etcdctl alarm disarm; Then start etcd with --auto-compaction-retention=1. If the first one waits, type root's password.",
	[SF_FAILURE_TOO_LONG] = "Delete what is not the registry's (etcdctl del KEY) of what this lists: {root} etcdctl get --prefix --keys-only {prefix}/",
	[SF_FAILURE_LOST] = LOST,
	[SF_FAILURE_ANOTHER] = ANOTHER,
};

static const char *const zookeeper[SF_FAILURES] = {
	[SF_FAILURE_UNREACHABLE] = "If other servers lease elsewhere (SHOW snowflake.registry;), set that here, and restart. If not, start ZooKeeper. This tries its hosts: {zkcli} ls /",
	[SF_FAILURE_TIMEOUT] = "Run here: {zkcli} ls / If that gets no answer, too, a host is down, or lacks a quorum, or a firewall drops packets: start the other members. If ZooKeeper is only slow, raise snowflake.lease_timeout here, and reload.",
	[SF_FAILURE_LOGIN] = "Put user and password into the two lines of the file {credentials} (?credentials= in snowflake.registry), which only this server's account can read (chmod 600).",
	[SF_FAILURE_PERMISSION] = "Another user made the nodes below {path}. Put that user and its password into the file {credentials} (?credentials= in snowflake.registry). Or, in {zkcli} as that user (addauth digest OWNER:PASSWORD), run: setAcl -R {path} digest:{user}:HASH:cdrwa",
	[SF_FAILURE_FULL] = "Raise the quota of {path}, or of a node above it, in {zkcli} : listquota {path} shows it, and setquota -n COUNT {path} sets it.",
	[SF_FAILURE_LOST] = LOST,
	[SF_FAILURE_ANOTHER] = ANOTHER,
};

/*
 * Expand a remedy.  What the setting does not say, or all if there is no
 * "part", stands as <ROLE>, which neither SQL nor a shell runs.  Return false
 * if there is no room.
 */
static bool
expand(char *text, size_t size, const char *remedy, SfPartFunction part,
	   const char *recovery)
{
	size_t		len = 0;

	for (const char *p = remedy; *p != '\0'; p++)
	{
		char		word[20];
		const char *with = word;
		size_t		n = *p == '{' ? strcspn(p, "}") - 1 : 0;

		snprintf(word, sizeof(word), "%.*s", n > 0 ? (int) n : 1,
				 n > 0 ? p + 1 : p);
		if (n > 0)
			p += n + 1;
		if (n > 0 && strcmp(word, "recovery") == 0)
			with = recovery;
		else if (n > 0 && part != NULL && part(word) != NULL)
			with = part(word);
		else if (n > 0)
		{
			snprintf(word, sizeof(word), "<%.*s>", (int) n, p - n);
			for (char *c = word; *c != '\0'; c++)
				*c = (char) toupper((unsigned char) *c);
		}
		if (len + strlen(with) >= size)
			return false;
		strcpy(text + len, with);
		len += strlen(with);
	}
	return true;
}

/*
 * Print the remedy for a registry of this kind, or one for each kind.  "part"
 * prints parts of the setting; "recovery" has the arguments of a recovery.
 */
void
sf_registry_remedy(char *text, size_t size, const char *kind,
				   SfFailure failure, SfPartFunction part,
				   const char *recovery)
{
	static const struct
	{
		const char *kind;
		const char *const *remedies;
	}			kinds[] = {
		{"postgresql", postgresql}, {"etcd", etcd}, {"zookeeper", zookeeper}
	};
	const char *remedy = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (strcmp(kind, kinds[i].kind) == 0)
			remedy = kinds[i].remedies[failure];
	}
	if (remedy == NULL)
		remedy = "See this server's log, and the registry's. For its own leases this server asks again until the registry has done it.";
	if (!expand(text, size, remedy, part, recovery))
		(void) expand(text, size, remedy, NULL, recovery);
}

/* ---- problems ---- */

/* Hash a problem, ignoring its digits, so that times do not count. */
static uint32_t
kind_of(const char *problem)
{
	uint32_t	kind = UINT32_C(2166136261);	/* FNV-1a */

	for (const char *p = problem; *p != '\0'; p++)
	{
		if (*p < '0' || *p > '9')
			kind = (kind ^ (unsigned char) *p) * UINT32_C(16777619);
	}
	return kind;
}

/*
 * Return true if this problem shall be logged: at once if it is another one,
 * and once a minute if it lasts.  The log limits the lines of two that
 * alternate (log_event.h).
 */
static bool
is_to_be_logged(SfRegistryClient *client, SfMoment now, const char *problem)
{
	uint32_t	kind = kind_of(problem);

	if (client->problem[0] != '\0' && client->logged == kind &&
		now.monotonic_ms - client->logged_ms < LOG_EVERY_MS)
		return false;
	client->logged = kind;
	client->logged_ms = now.monotonic_ms;
	return true;
}

/*
 * Report a problem, which is logged when it begins or changes, and then once a
 * minute; the loss of a lease is always logged.  The public text is for roles
 * that may not see names.
 */
void
sf_client_report(SfRegistryClient *client, SfMoment now, SfLeaseEvent what,
				 const char *problem,
				 const char *public_problem, const char *remedy)
{
	bool		log = is_to_be_logged(client, now, problem);

	snprintf(client->problem, sizeof(client->problem), "%s", problem);
	snprintf(client->public_problem, sizeof(client->public_problem), "%s",
			 public_problem);
	snprintf(client->remedy, sizeof(client->remedy), "%s", remedy);
	if (log || what == SF_LEASE_EVENT_LOST)
		client->config.log_event(what, problem);
}

/* Report a problem that every role may see. */
void
sf_client_set_problem(SfRegistryClient *client, SfMoment now,
					  const char *problem, const char *remedy)
{
	sf_client_report(client, now, SF_LEASE_EVENT_PROBLEM, problem, problem,
					 remedy);
}

/* The registry has done what it was asked. */
void
sf_client_clear_problem(SfRegistryClient *client)
{
	if (client->problem[0] != '\0')
		client->config.log_event(SF_LEASE_EVENT_SOLVED, "The problem with the registry is over.");
	client->problem[0] = '\0';
	client->public_problem[0] = '\0';
	client->remedy[0] = '\0';
	client->backoff_ms = 0;
}

/* Try again later; wait longer after each failure. */
void
sf_client_back_off(SfRegistryClient *client, SfMoment now)
{
	int64_t		wait = client->backoff_ms * 2;

	if (wait < BACKOFF_MIN_MS)
		wait = BACKOFF_MIN_MS;
	if (wait > BACKOFF_MAX_MS)
		wait = BACKOFF_MAX_MS;
	client->backoff_ms = wait;
	client->retry_ms = now.monotonic_ms + wait / 2 +
		(int64_t) (client->config.random() % (uint64_t) (wait / 2 + 1));
}

/* ---- requests ---- */

/* Begin a request, and return it.  The caller adds the rest. */
SfAsk *
sf_client_ask(SfRegistryClient *client, SfMoment now, SfAskKind kind)
{
	SfAsk	   *ask = &client->ask;
	uint64_t	number = ask->number + 1;

	memset(ask, 0, sizeof(SfAsk));
	ask->kind = kind;
	ask->number = number;
	ask->deadline_ms = now.monotonic_ms + client->config.timeout_ms;
	ask->avoid = client->avoid;
	client->asked_ms = now.monotonic_ms;
	return ask;
}

/* Remember a write until its outcome is known. */
void
sf_client_add_pending(SfRegistryClient *client, uint64_t write_id,
					  int64_t start)
{
	/* if the list is full, drop the oldest: if it succeeded, we fence */
	if (client->npending == SF_CLIENT_PENDING)
		memmove(&client->pending[0], &client->pending[1],
				sizeof(client->pending[0]) * --client->npending);
	client->pending[client->npending].write_id = write_id;
	client->pending[client->npending++].start = start;
}

/* Return the index of our pending write that made the record; or -1. */
int
sf_client_find_pending(const SfRegistryClient *client,
					   const SfSlotRecord *record)
{
	for (int i = 0; record != NULL && i < client->npending; i++)
	{
		if (record->write_id == client->pending[i].write_id)
			return i;
	}
	return -1;
}

/* ---- clocks ---- */

/* Return by how much at least our clock is ahead of this one, or behind. */
static int64_t
find_offset(const SfRegistryClock *clock, SfMoment now)
{
	int64_t		most = now.wall_ms - now.monotonic_ms - clock->ahead_ms;

	if (!clock->known)
		return 0;
	if (most > clock->slack_ms)
		return most - clock->slack_ms;
	return most < 0 ? most : 0;
}

/* Return the same for the registry's clock, as it was read last. */
int64_t
sf_client_clock_offset(const SfRegistryClient *client, SfMoment now)
{
	return find_offset(&client->clock, now);
}

static bool
is_off(int64_t offset, int64_t limit)
{
	return offset > limit || offset < -limit;
}

/*
 * Look at the clocks.  Return true if this process was frozen since last time,
 * or the clock set.
 */
bool
sf_client_look(SfRegistryClient *client, SfMoment now)
{
	int64_t		slept = now.monotonic_ms - client->looked.monotonic_ms;
	int64_t		moved = now.wall_ms - client->looked.wall_ms - slept;

	client->looked = now;
	return slept > client->config.frozen_ms ||
		is_off(moved, client->config.frozen_ms);
}

/*
 * Return true if we are too far from the registry's clock only because that
 * has moved against the time since boot, and ours has not.
 */
bool
sf_client_registry_moved(const SfRegistryClient *client, SfMoment now)
{
	int64_t		limit = client->config.max_offset_ms;

	return client->near_clock.known &&
		is_off(find_offset(&client->clock, now), limit) &&
		!is_off(find_offset(&client->near_clock, now), limit);
}

/* Print how far our clock is off, and which clock seems to be wrong. */
static void
describe(const SfRegistryClient *client, SfMoment now, char *text, size_t size)
{
	int64_t		offset = sf_client_clock_offset(client, now);
	int			endpoint = client->clock.endpoint;
	char		span[40];
	char		whose[40] = "the registry";
	char		known[100] = "";

	sf_clock_print_span(offset < 0 ? -offset : offset, span, sizeof(span));
	if (endpoint != 0)
		snprintf(whose, sizeof(whose), "endpoint %d of the registry",
				 endpoint);
	if (client->confirmed_by != 0)
		snprintf(known, sizeof(known), ", and that of endpoint %d",
				 client->confirmed_by);
	else if (!sf_client_registry_moved(client, now))
		snprintf(known, sizeof(known), "%s", client->peers_right &&
				 is_off(offset, client->config.max_offset_ms) ?
				 "; most other servers agreed with that clock when they last wrote" :
				 "");
	else if (client->near_clock.endpoint == endpoint)
		snprintf(known, sizeof(known), ", which has moved against the time since boot: this server's has not");
	else
		snprintf(known, sizeof(known), ", but not that of endpoint %d",
				 client->near_clock.endpoint);
	snprintf(text, size, "The wall clock is %s %s that of %s%s.", span,
			 offset < 0 ? "behind" : "ahead of", whose, known);
}

/* Log once that our clock is off, and once that the registry's has moved. */
static void
log_clock(SfRegistryClient *client, SfMoment now)
{
	int			level = LOGGED_NOTHING;
	char		text[SF_REASON_SIZE];

	if (is_off(sf_client_clock_offset(client, now),
			   client->config.warn_offset_ms))
		level = sf_client_registry_moved(client, now) ?
			LOGGED_MOVED : LOGGED_OFF;
	if (level > client->clock_logged)
	{
		describe(client, now, text, sizeof(text));
		client->config.log_event(SF_LEASE_EVENT_CLOCK, text);
	}
	client->clock_logged = level;
}

/*
 * Compare our clock, and the registry's, with those of the present owners when
 * they last wrote.  The error is at most the time that an answer takes.
 */
static void
compare_peers(SfRegistryClient *client, SfMoment now,
			  const SfRegistry *registry)
{
	uint64_t	owner = client->ask.record.owner;
	int64_t		max_offset = client->config.max_offset_ms;

	if (!registry->initialized)
		return;
	client->peers_agree = sf_peers_agree(registry, owner,
										 sf_client_clock_offset(client, now),
										 max_offset);
	client->peers_right = sf_peers_agree(registry, owner, 0, max_offset);
}

/* Return true if two endpoints in a row say the same about our clock. */
static bool
is_confirmed(const SfRegistryClient *client, SfMoment now,
			 const SfRegistryClock *before)
{
	int64_t		limit = client->config.max_offset_ms;
	int64_t		offset = find_offset(&client->clock, now);
	int64_t		offset_before = find_offset(before, now);

	return before->endpoint != client->clock.endpoint &&
		((offset > limit && offset_before > limit) ||
		 (offset < -limit && offset_before < -limit));
}

/* Store the registry's clock, read between the request and its answer. */
static void
take_time(SfRegistryClient *client, SfMoment now, const SfAnswer *answer)
{
	SfRegistryClock before = client->clock;

	client->clock.known = true;
	client->clock.ahead_ms = answer->clock_ms - now.monotonic_ms;
	client->clock.slack_ms = now.monotonic_ms - client->asked_ms +
		answer->clock_step_ms;
	client->clock.endpoint = answer->endpoint;
	client->confirmed_by = 0;
	client->avoid = 0;
	if (!is_off(sf_client_clock_offset(client, now),
				client->config.max_offset_ms))
		client->near_clock = client->clock;
	else
	{
		client->avoid = answer->endpoint;
		if (is_confirmed(client, now, &before))
		{
			client->confirmed_by = before.endpoint;
			client->near_clock.known = false;
		}
	}
	log_clock(client, now);
}

/* Evaluate what an answer says of clocks. */
void
sf_client_take_clock(SfRegistryClient *client, SfMoment now,
					 const SfAnswer *answer)
{
	if (client->ask.kind == SF_ASK_READ)
		client->peers_due_ms = now.monotonic_ms + client->config.peers_ms;
	if (answer->clock_ms != 0)
		take_time(client, now, answer);
	if (client->ask.kind == SF_ASK_READ && answer->result == SF_RESULT_DONE)
		compare_peers(client, now, answer->registry);
}

/*
 * Return true if this clock may be used to write slots: to claim one, or to
 * extend the one that is held.  If not, and if another endpoint was asked too,
 * report a problem.
 */
bool
sf_client_clock_is_good(SfRegistryClient *client, SfMoment now, bool is_held)
{
	char		text[SF_REASON_SIZE];

	if (client->peers_agree ||
		!is_off(sf_client_clock_offset(client, now),
				client->config.max_offset_ms) ||
		(is_held && sf_client_registry_moved(client, now)))
		return true;
	if (client->clock.endpoint != 0 && client->ask.avoid == 0)
		return false;
	describe(client, now, text, sizeof(text));
	sf_client_set_problem(client, now, text,
						  client->peers_right ? "Set this server's clock right, with: chronyc makestep" :
						  "Set the server's clock right, or that of the registry, with: chronyc makestep");
	return false;
}
