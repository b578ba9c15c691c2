/*-------------------------------------------------------------------------
 *
 * settings_node.c
 *	  Settings of the node's number.  The postmaster reads a reload first, and
 *	  all other processes follow it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"

#include <unistd.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "base/message.h"
#include "layout/server_number.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "runtime/shmem.h"
#include "storage/pg_shmem.h"
#include "tcop/pquery.h"
#include "utils/guc.h"

/*
 * Positions in SfShmem.configured of the two numbers + 1, or 0 if unset.  The
 * node's number + 1 may need 32 bits, that of the datacenter no more than 31
 * (sf_server_number_parse_node()).
 */
#define NODE_SHIFT			0
#define DATACENTER_SHIFT	32
#define NODE_MASK			UINT32_MAX
#define DATACENTER_MASK		(UINT32_MAX >> 1)

/* The text that this process has; sf_settings_numbers() counts. */
static char *node_id_text = NULL;

const SfNodeChange *sf_settings_node_change = NULL;

/* The host's name when this process loaded the library. */
static char hostname[256] = "";

/* The postmaster's copies, which outlive the shared memory. */
static uint64 pending = 0;
static char refused[SF_REFUSED_SIZE];

/* Take apart what SfShmem.configured holds, without SF_NODE_TAKEN. */
void
sf_settings_split_numbers(uint64 numbers, SfServerNumber *datacenter,
						  SfServerNumber *node)
{
	*node = numbers >> NODE_SHIFT & NODE_MASK;
	*datacenter = numbers >> DATACENTER_SHIFT & DATACENTER_MASK;
}

/* Both numbers in one word, as they are in SfShmem.configured. */
static uint64
join_numbers(const char *text)
{
	SfServerNumber datacenter;
	SfServerNumber node;
	char		reason[SF_REASON_SIZE];

	(void) sf_server_number_parse_node(&datacenter, &node, text, hostname,
									   reason, sizeof(reason));
	return (uint64) (node & NODE_MASK) << NODE_SHIFT |
		(uint64) (datacenter & DATACENTER_MASK) << DATACENTER_SHIFT;
}

/* Print such a word as snowflake.node_id: "17", "3/17", "3/", or empty. */
char *
sf_settings_print_numbers(uint64 numbers)
{
	SfServerNumber datacenter;
	SfServerNumber node;
	StringInfoData text;

	sf_settings_split_numbers(numbers, &datacenter, &node);
	initStringInfo(&text);
	if (datacenter != SF_NO_NUMBER)
		appendStringInfo(&text, "%u/", sf_server_number_value(datacenter));
	if (node != SF_NO_NUMBER)
		appendStringInfo(&text, "%u", sf_server_number_value(node));
	return text.data;
}

/*
 * Return the numbers of the node and the datacenter that the postmaster has.
 * This process may have others: it reads a reload late.  With EXEC_BACKEND a
 * new process gets no value whose line is gone from the files.
 */
uint64
sf_settings_numbers(void)
{
	return pg_atomic_read_u64(&sf_shmem->configured) & ~SF_NODE_TAKEN;
}

/*
 * Return true if the layout has room for these numbers.  If not, the reason is
 * a sentence.
 */
bool
sf_settings_fit(SfServerNumber datacenter, SfServerNumber node, char *reason,
				size_t reason_size)
{
	int			datacenter_bits = sf_node_layout.field[SF_DATACENTER].width;
	int			node_bits = sf_node_layout.node_bits -
		(datacenter == SF_NO_NUMBER ? 0 : datacenter_bits);

	reason[0] = '\0';
	if (datacenter != SF_NO_NUMBER && datacenter_bits == 0)
		snprintf(reason, reason_size,
				 "snowflake.node_id names a datacenter, and the layout has no field for it.");
	else if (!sf_server_number_fits(datacenter, datacenter_bits))
		snprintf(reason, reason_size,
				 "The datacenter in snowflake.node_id is %u, and the layout has room for 0 to %d.",
				 sf_server_number_value(datacenter),
				 (1 << datacenter_bits) - 1);
	else if (!sf_server_number_fits(node, node_bits))
		snprintf(reason, reason_size,
				 "snowflake.node_id is %u, and the layout has room for 0 to %lld.",
				 sf_server_number_value(node),
				 (long long) (INT64_C(1) << node_bits) - 1);
	return reason[0] == '\0';
}

/*
 * In the postmaster: publish why a file's number is refused, or that none is,
 * for snowflake_status().
 */
static void
publish_refused(const char *text)
{
	Assert(!IsUnderPostmaster);
	strlcpy(refused, text, SF_REFUSED_SIZE);
	if (sf_shmem == NULL)
		return;
	pg_atomic_fetch_add_u32(&sf_shmem->refusals, 1);	/* a barrier */
	memcpy(sf_shmem->refused, refused, sizeof(refused));
	pg_atomic_fetch_add_u32(&sf_shmem->refusals, 1);
}

/*
 * Say why a node id is refused.  "lost" says that the host's name or the
 * variable that it names has no number.
 */
static void
explain_number(const char *newval, const char *reason, bool lost)
{
	char		text[SF_REFUSED_SIZE];

	if (!IsUnderPostmaster)
	{
		snprintf(text, sizeof(text),
				 "snowflake.node_id is \"%.80s\", which is refused: %s",
				 newval, reason);
		publish_refused(text);
	}
	GUC_check_errdetail("%s", reason);
	if (lost)
		GUC_check_errhint("Give the host's name or the variable this server's number again. Or set snowflake.node_id = 'NUMBER', with the number that this server had: with another server's, both make the same IDs.");
	else
		GUC_check_errhint("Set snowflake.node_id = 'NUMBER', with a number that no other server has; or 'hostname:ordinal' (the number that ends the host's name) or 'env:NAME' (an environment variable), also with an offset: 'env:NAME+OFFSET'. With a datacenter it is 'DATACENTER/NUMBER'.");
}

/*
 * Return true within a statement that only looks at a value, which may be one
 * for the next start: ALTER SYSTEM, or a query of pg_file_settings.  Return
 * true also for a parallel worker, which gets what its leader has.  A session
 * that waits within a transaction for its next statement reads reloads.
 */
static bool
is_only_looked_at(void)
{
	return IsTransactionState() &&
		(ActivePortal != NULL || InitializingParallelWorker);
}

/*
 * In the postmaster: decide about the numbers of a reload where others are in
 * force.  A number that is gone from the files stays, since the line may be
 * lost; and so does what may be claimed, if node ids are leased.
 */
static bool
check_change(uint64 numbers, const char *newval)
{
	uint64		kept = join_numbers(node_id_text);
	char		reason[SF_REASON_SIZE];
	char		text[SF_REFUSED_SIZE];

	pending = 0;
	if (numbers != kept && (numbers == 0 || sf_settings_leases()))
		pending = numbers | SF_NUMBER_PENDING;
	pg_atomic_write_u64(&sf_shmem->pending, pending);
	if (pending != 0)
	{
		GUC_check_errmsg("parameter \"%s\" cannot be changed from \"%s\" to \"%s\" without restarting the server",
						 "snowflake.node_id", node_id_text, newval);
		return false;
	}
	if (numbers == kept || sf_settings_node_change == NULL ||
		sf_settings_node_change->may(numbers, reason, sizeof(reason)))
		return true;
	snprintf(text, sizeof(text),
			 "snowflake.node_id is \"%.80s\", which is refused: %s",
			 newval, reason);
	publish_refused(text);
	GUC_check_errdetail("%s", reason);
	return false;
}

/*
 * Check snowflake.node_id.  At the start the layout is not known yet, and both
 * are checked together later.  Once numbers are in force, the postmaster
 * decides, and all other processes follow it.
 */
static bool
check_node_id(char **newval, void **extra, GucSource source)
{
	uint64		configured;
	SfServerNumber datacenter;
	SfServerNumber node;
	char		reason[SF_REASON_SIZE];
	bool		parsed;
	bool		lost;

	parsed = sf_server_number_parse_node(&datacenter, &node, *newval, hostname,
										 reason, sizeof(reason));
	lost = !parsed && reason[0] != '\0';
	if (!parsed && !lost)
		strlcpy(reason, "It must be a number from 0 up to what the layout has room for, or empty: unset.",
				sizeof(reason));
	if (!parsed || (sf_shmem != NULL &&
					!sf_settings_fit(datacenter, node, reason,
									 sizeof(reason))))
	{
		explain_number(*newval, reason, lost);
		return false;
	}
	if (!IsUnderPostmaster)
		publish_refused("");
	/* the log collector has the pointer, but no shared memory any more */
	if (sf_shmem == NULL || UsedShmemSegAddr == NULL || is_only_looked_at())
		return true;
	configured = pg_atomic_read_u64(&sf_shmem->configured);
	if ((configured & SF_NODE_TAKEN) == 0 && !sf_settings_leases())
		return true;
	if (!IsUnderPostmaster)
		return check_change(join_numbers(*newval), *newval);
	return join_numbers(*newval) == (configured & ~SF_NODE_TAKEN);
}

/*
 * Publish the postmaster's numbers.  If a process has published the node of
 * the earlier ones, change it.
 */
static void
publish_numbers(const char *newval, void *extra)
{
	uint64		numbers;
	uint64		before;

	if (sf_shmem == NULL || IsUnderPostmaster)
		return;
	numbers = join_numbers(newval);
	before = pg_atomic_read_u64(&sf_shmem->configured);
	while ((before & SF_NODE_TAKEN) == 0)
	{
		/* before a call can use it, and before a base backup copies it */
		if (before != numbers && sf_settings_node_change != NULL &&
			!sf_settings_leases())
			sf_settings_node_change->change(numbers);
		if (pg_atomic_compare_exchange_u64(&sf_shmem->configured, &before,
										   numbers))
			return;
	}
	before &= ~SF_NODE_TAKEN;

	/* without asking check_change(): what the change decides is published */
	if (before != numbers && sf_settings_node_change != NULL)
		sf_settings_node_change->change(numbers);
}

/* What the postmaster puts into new shared memory. */
void
sf_settings_publish_node(void)
{
	publish_numbers(node_id_text, NULL);
	if (sf_shmem == NULL || IsUnderPostmaster)
		return;
	pg_atomic_write_u64(&sf_shmem->pending, pending);
	memcpy(sf_shmem->refused, refused, sizeof(refused));
}

/*
 * Return the node id that waits for a restart, "" if it is to be unset; NULL
 * if none waits.  A line that was refused leaves no check behind when it is
 * taken out of the files: the setting did not come from them.
 */
char *
sf_settings_pending(void)
{
	uint64		word = pg_atomic_read_u64(&sf_shmem->pending);
	char	   *text = sf_settings_print_numbers(word & ~SF_NUMBER_PENDING);

	if (word == 0 || (text[0] != '\0' &&
					  !sf_settings_is_in_file("snowflake.node_id")))
		return NULL;
	return text;
}

/* Return what the server refuses of the configuration files, or NULL. */
char *
sf_settings_refused(void)
{
	char		copy[SF_REFUSED_SIZE];
	uint32		before;

	do
	{
		CHECK_FOR_INTERRUPTS();
		before = pg_atomic_read_u32(&sf_shmem->refusals);
		pg_read_barrier();
		memcpy(copy, sf_shmem->refused, sizeof(copy));
		pg_read_barrier();
	} while (before % 2 != 0 ||
			 before != pg_atomic_read_u32(&sf_shmem->refusals));
	sf_text_make_valid(copy);
	return copy[0] != '\0' && sf_settings_is_in_file("snowflake.node_id") ?
		pstrdup(copy) : NULL;
}

void
sf_settings_define_node(void)
{
	if (gethostname(hostname, sizeof(hostname) - 1) != 0)
		hostname[0] = '\0';
	DefineCustomStringVariable("snowflake.node_id",
							   "Number of this server, which no other server has.",
							   "The number itself, \"hostname:ordinal\" or \"env:NAME\"; \"3/17\" is 17 in datacenter 3. If it is empty, this server makes no IDs, unless it leases a number. If numbers are leased, a change takes a restart.",
							   &node_id_text, "",
							   PGC_SIGHUP, 0,
							   check_node_id, publish_numbers, NULL);
}
