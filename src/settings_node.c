/*-------------------------------------------------------------------------
 *
 * settings_node.c
 *	  The settings of the node's number, which stays once it is taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "settings.h"

#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "number.h"
#include "state.h"
#include "utils/guc.h"

/* Where a number + 1, or 0 if it is unset, is in SfState.configured. */
#define NODE_SHIFT			0
#define DATACENTER_SHIFT	31
#define NUMBER_MASK			(UINT32_MAX >> 1)

char	   *sf_node_id = NULL;
char	   *sf_datacenter_id = NULL;

/* As it was when the library was loaded: the same in all processes. */
static char hostname[256] = "";

/* The postmaster's, which outlive the shared memory. */
static uint32 pending_node = 0;
static uint32 pending_datacenter = 0;

/*
 * A node's or datacenter's number as it is kept in shared memory: the number
 * + 1, or 0 for an empty text.  False if it is neither.
 */
bool
sf_settings_parse_number(const char *text, uint32 *number_plus_1)
{
	char		reason[SF_REASON_SIZE];

	return sf_number_parse(number_plus_1, text, hostname,
						   reason, sizeof(reason));
}

/* Why a number is refused: its text makes none, or one that does not fit. */
static void
explain_number(const char *newval, int bits)
{
	uint32		number;
	char		reason[SF_REASON_SIZE];

	if (!sf_number_parse(&number, newval, hostname,
						 reason, sizeof(reason)) && reason[0] != '\0')
		GUC_check_errdetail("%s", reason);
	else if (sf_state == NULL)
		GUC_check_errdetail("It must be a number from 0 up to what the layout has room for, or empty: unset.");
	else
		GUC_check_errdetail("It must be a number from 0 to %lld, which the layout has room for, or empty: unset.",
							(long long) (INT64_C(1) << bits) - 1);
	GUC_check_errhint("Give the server's own number, such as \"1\"; or \"hostname:ordinal\" for the N of a host named db-N, or \"env:NAME\" for a number in the environment, either with an offset such as \"+100\".");
}

/*
 * In the postmaster: let snowflake_status() tell what a file says instead of
 * the number that is kept, if it does.
 */
static void
publish_pending(int shift, bool is_pending, uint32 number)
{
	uint32		word = is_pending ? number | SF_NUMBER_PENDING : 0;

	if (shift == NODE_SHIFT)
		pending_node = word;
	else
		pending_datacenter = word;
	pg_atomic_write_u32(&sf_state->pending_node, pending_node);
	pg_atomic_write_u32(&sf_state->pending_datacenter, pending_datacenter);
}

/*
 * Checks for snowflake.node_id and snowflake.datacenter_id.  At the start the
 * layout is not known yet, and both are judged together later.
 *
 * Once a node is taken, it stays for the life of the server: the postmaster,
 * which reloads first, keeps its value, and all others follow it.  Where it is
 * leased, so does what may be claimed, from the start on.  Within a
 * transaction a value is only looked at, by ALTER SYSTEM or pg_file_settings:
 * it may be one for the next start.
 */
static bool
check_number(const char *name, const char *newval, const char *current,
			 int shift, int bits)
{
	uint64		configured;
	uint32		number;
	uint32		kept = 0;

	if (!sf_settings_parse_number(newval, &number) ||
		(sf_state != NULL && (int64) number > INT64_C(1) << bits))
	{
		explain_number(newval, bits);
		return false;
	}
	if (sf_state == NULL || IsTransactionState())
		return true;
	configured = pg_atomic_read_u64(&sf_state->configured);
	if ((configured & SF_NODE_TAKEN) == 0 && !sf_settings_leases())
		return true;
	if (IsUnderPostmaster)
		kept = configured >> shift & NUMBER_MASK;
	else
	{
		(void) sf_settings_parse_number(current, &kept);
		publish_pending(shift, number != kept, number);
	}
	if (number != kept)
	{
		GUC_check_errmsg("parameter \"%s\" cannot be changed from \"%s\" to \"%s\" without restarting the server",
						 name, current, newval);
		return false;
	}
	return true;
}

static bool
check_node_id(char **newval, void **extra, GucSource source)
{
	return check_number("snowflake.node_id", *newval, sf_node_id,
						NODE_SHIFT, sf_node_layout.node_bits);
}

static bool
check_datacenter_id(char **newval, void **extra, GucSource source)
{
	return check_number("snowflake.datacenter_id", *newval, sf_datacenter_id,
						DATACENTER_SHIFT,
						sf_node_layout.field[SF_DATACENTER].width);
}

static uint64
join_numbers(const char *node_text, const char *datacenter_text)
{
	uint32		node = 0;
	uint32		datacenter = 0;

	(void) sf_settings_parse_number(node_text, &node);
	(void) sf_settings_parse_number(datacenter_text, &datacenter);
	return (uint64) (node & NUMBER_MASK) << NODE_SHIFT |
		(uint64) (datacenter & NUMBER_MASK) << DATACENTER_SHIFT;
}

/* The numbers of the node and the datacenter that this process has. */
uint64
sf_settings_numbers(void)
{
	return join_numbers(sf_node_id, sf_datacenter_id);
}

/*
 * Let all processes know what the postmaster has, unless one of them has just
 * taken what it had before: that stays, and snowflake_status() tells.
 */
static void
publish_numbers(const char *node_text, const char *datacenter_text)
{
	uint64		numbers;
	uint64		before;

	if (sf_state == NULL || IsUnderPostmaster)
		return;
	numbers = join_numbers(node_text, datacenter_text);
	before = pg_atomic_read_u64(&sf_state->configured);
	while ((before & SF_NODE_TAKEN) == 0 &&
		   !pg_atomic_compare_exchange_u64(&sf_state->configured, &before,
										   numbers))
		;
}

static void
assign_node_id(const char *newval, void *extra)
{
	publish_numbers(newval, sf_datacenter_id);
}

static void
assign_datacenter_id(const char *newval, void *extra)
{
	publish_numbers(sf_node_id, newval);
}

/* What the postmaster puts into new shared memory. */
void
sf_settings_publish_node(void)
{
	publish_numbers(sf_node_id, sf_datacenter_id);
	if (sf_state == NULL || IsUnderPostmaster)
		return;
	pg_atomic_write_u32(&sf_state->pending_node, pending_node);
	pg_atomic_write_u32(&sf_state->pending_datacenter, pending_datacenter);
}

static char *
show_pending(const char *name, pg_atomic_uint32 *shared)
{
	uint32		word = pg_atomic_read_u32(shared);
	uint32		number = word & NUMBER_MASK;

	if (word == 0)
		return NULL;
	return number == 0 ? psprintf("%s is unset", name) :
		psprintf("%s is %u", name, number - 1);
}

/* The changes that wait for a restart, as half a sentence; NULL: none. */
char *
sf_settings_pending(void)
{
	char	   *node = show_pending("snowflake.node_id",
									&sf_state->pending_node);
	char	   *datacenter = show_pending("snowflake.datacenter_id",
										  &sf_state->pending_datacenter);

	if (node == NULL || datacenter == NULL)
		return node != NULL ? node : datacenter;
	return psprintf("%s, and %s", node, datacenter);
}

void
sf_settings_define_node(void)
{
	if (gethostname(hostname, sizeof(hostname) - 1) != 0)
		hostname[0] = '\0';
	DefineCustomStringVariable("snowflake.datacenter_id",
							   "Number of this server's datacenter, for layouts that have one.",
							   "Where it is set, snowflake.node_id counts within the datacenter. Once taken, it stays until the server restarts.",
							   &sf_datacenter_id, "",
							   PGC_SIGHUP, 0, check_datacenter_id,
							   assign_datacenter_id, NULL);
	DefineCustomStringVariable("snowflake.node_id",
							   "Number of this server, which no other server has.",
							   "Such as \"1\", \"hostname:ordinal\" or \"env:NAME+100\". Empty: unset, and nothing is generated. Once taken, it stays until the server restarts.",
							   &sf_node_id, "",
							   PGC_SIGHUP, 0,
							   check_node_id, assign_node_id, NULL);
}
