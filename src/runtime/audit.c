/*-------------------------------------------------------------------------
 *
 * audit.c
 *	  The audit: a line in the server's log for each source of a transaction's
 *	  IDs.
 *
 * The transaction is audited if snowflake.audit is on when it asks for its
 * first ID.  The generator then notes each ID that it makes, but for those
 * that the usual path makes for the node.  Nothing needs to note them: the
 * first one of a transaction does not take the usual path, they are counted
 * for the statistics anyway, and each call stores the last one.
 *
 * The lines are written when the transaction has ended, and an error can
 * change nothing any more.  So an error in writing is caught, and forgotten.
 * In a process that ends, no error can be caught: each ends the callback that
 * runs.  If that were the transaction's, its locks would stay.  So there the
 * lines wait for a callback of their own, after the locks are gone.
 *
 * At those times no catalogue can be read, so the names of the role and of the
 * database are looked up before the first ID is made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

/*
 * libpq-be.h would include Kerberos' headers, which a build may lack.  Port is
 * the same without them, as its comment says.
 */
#undef ENABLE_GSS

#include "runtime/audit.h"

#include "access/xact.h"
#include "base/fault.h"
#include "base/message.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

/*
 * The most sources that have lines of their own.  One more is kept for
 * snowflake.layout, so that no number of shards hides its IDs.
 */
#define MAX_SOURCES		16

/* A client's address; if log_hostname is on, its name, cut to this. */
#define CLIENT_SIZE		64

/* Enough for the longest line: JSON writes a control character as \u0001. */
#define LINE_SIZE \
	(6 * (3 * NAMEDATALEN + CLIENT_SIZE + SF_LAYOUT_TEXT_SIZE) + 400)

bool		sf_audit_notes = false;
int64		sf_audit_last_id;

/* What the running transaction has made, by source. */
static SfMade sources[MAX_SOURCES + 1];
static int	nsources = 0;
static uint64 further = 0;		/* IDs of sources that found no room */

/* The entry of the IDs in snowflake.layout, and how many are counted. */
static SfMade *node = NULL;
static uint64 counted = 0;

/* For all lines of the transaction. */
static char role[NAMEDATALEN];
static char database[NAMEDATALEN];
static XactEvent end;
static uint64 xid;				/* 0: it wrote nothing */

static void write_last_lines(int code, Datum arg);

/* Copy a name, which may be NULL. */
static void
keep_name(char *name, char *found)
{
	strlcpy(name, found != NULL ? found : "", NAMEDATALEN);
	sf_text_make_valid(name);
	if (found != NULL)
		pfree(found);
}

/* Decide whether the transaction that asks for its first ID is audited. */
void
sf_audit_begin(void)
{
	static bool registered = false;

	sf_audit_notes = sf_audit;
	if (!sf_audit_notes)
		return;
	if (!registered)
		on_shmem_exit(write_last_lines, (Datum) 0);
	registered = true;
	end = XACT_EVENT_ABORT;
	xid = 0;
	keep_name(role, GetUserNameFromId(GetSessionUserId(), true));
	keep_name(database, get_database_name(MyDatabaseId));
}

/* Return the entry of a source; NULL if there is no room. */
static SfMade *
find_noted(const SfMade *made)
{
	bool		is_kept = made->layout == &sf_node_layout && node == NULL;

	for (int i = 0; i < nsources; i++)
	{
		if (sources[i].layout == made->layout &&
			sources[i].shard == made->shard &&
			sources[i].maker == made->maker)
			return &sources[i];
	}
	if (nsources >= (is_kept ? MAX_SOURCES + 1 : MAX_SOURCES))
		return NULL;
	sources[nsources] = *made;
	sources[nsources].count = 0;
	return &sources[nsources++];
}

/* Return how many IDs of snowflake.layout the transaction has made. */
static uint64
count_of_node(void)
{
	uint64		count = sf_stats_pending[SF_STAT_NODE_IDS];

	for (int i = 1; i < SF_MAX_LAYOUT_SLOTS; i++)
		count -= sf_stats_layout_pending[i];
	return count;
}

/* Complete the node's entry, given how many IDs it has made up to now. */
static void
settle_noted(uint64 count)
{
	if (node != NULL)
	{
		node->last = sf_audit_last_id;
		node->count += count - counted;
	}
	else
		further += count - counted;
	counted = count;
}

/*
 * Note IDs, after they are taken.  For the node this is also called where its
 * number has changed, by a lease.
 */
void
sf_audit_note(const SfMade *made)
{
	SfMade	   *source = find_noted(made);

	if (made->layout == &sf_node_layout)
	{
		settle_noted(count_of_node() - made->count);
		node = source;
		sf_audit_last_id = made->last;
	}
	else if (source != NULL)
	{
		source->last = made->last;
		source->count += made->count;
	}
	else
		further += made->count;
}

static const char *
name_of(XactEvent event)
{
	return event == XACT_EVENT_COMMIT ? "commit" :
		event == XACT_EVENT_PREPARE ? "prepare" : "abort";
}

static void
append_text(StringInfo line, const char *key, const char *text)
{
	appendStringInfo(line, ",\"%s\":", key);
	escape_json(line, text);
}

/* Append the client's address, which background processes do not have. */
static void
append_client(StringInfo line)
{
	char		client[CLIENT_SIZE];

	if (MyProcPort == NULL || MyProcPort->remote_host == NULL)
		return;
	strlcpy(client, MyProcPort->remote_host, sizeof(client));
	append_text(line, "client", client);
}

/* Write a line; without a source for all that found no room. */
static void
write_line(const SfMade *made)
{
	char		room[LINE_SIZE];	/* for the longest line: see there */
	char		layout[SF_LAYOUT_TEXT_SIZE];
	StringInfoData line = {.data = room, .maxlen = sizeof(room)};

	resetStringInfo(&line);
	appendStringInfo(&line, "{\"end\":\"%s\",\"ids\":" UINT64_FORMAT,
					 name_of(end), made != NULL ? made->count : further);
	if (made != NULL)
	{
		appendStringInfo(&line, ",\"first\":" INT64_FORMAT
						 ",\"last\":" INT64_FORMAT, made->first, made->last);
		sf_layout_print(made->layout, layout, sizeof(layout));
		append_text(&line, "layout", layout);
	}
	if (made != NULL && made->shard != SF_NO_SHARD)
		appendStringInfo(&line, ",\"shard\":%d", made->shard);
	append_text(&line, "role", role);
	append_text(&line, "database", database);
	append_text(&line, "application", application_name);
	append_client(&line);
	if (xid != 0)
		appendStringInfo(&line, ",\"xid\":" UINT64_FORMAT, xid);
	appendStringInfoChar(&line, '}');
	SF_FAULT("audit-line");
	sf_log_record(SF_EVENT_AUDIT, line.data);
}

/* Write the lines of a transaction that has ended. */
static void
write_lines(void)
{
	for (int i = 0; i < nsources; i++)
		write_line(&sources[i]);
	if (further > 0)
		write_line(NULL);
}

static void
forget_noted(void)
{
	sf_audit_notes = false;
	nsources = 0;
	further = 0;
	node = NULL;
	counted = 0;
}

/* Copy the error that is being handled; NULL if there is none. */
static ErrorData *
copy_error(void)
{
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		error = CopyErrorData();
	}
	PG_CATCH();					/* nothing else tells that there is none */
	{
		FlushErrorState();
	}
	PG_END_TRY();
	return error;
}

/* Let the server handle this error again, and no other. */
static void
restore_error(ErrorData *error)
{
	FlushErrorState();
	if (error == NULL)
		return;
	PG_TRY();
	{
		ReThrowError(error);
	}
	PG_CATCH();					/* leave it where the server keeps it */
	{
	}
	PG_END_TRY();
}

/*
 * Write the lines, and forget an error.  The server holds interrupts now, and
 * an error would let them go.  The transaction may be aborted while another
 * error is handled, and that is thrown again afterwards, as an apply worker
 * does.  The server cannot drop the last error alone: so keep a copy.
 */
static void
try_to_write_lines(void)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	ErrorData  *error = end == XACT_EVENT_ABORT ? copy_error() : NULL;

	MemoryContextSwitchTo(context);
	InterruptHoldoffCount = held;
	PG_TRY();
	{
		write_lines();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		restore_error(error);
		MemoryContextSwitchTo(context);
		InterruptHoldoffCount = held;
	}
	PG_END_TRY();
}

/* Run before counts.c adds the transaction's counts up. */
static void
end_audit(XactEvent event, void *arg)
{
	if (likely(!sf_audit_notes) ||
		(event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		 event != XACT_EVENT_PREPARE))
		return;
	settle_noted(count_of_node());
	end = event;
	xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	if (proc_exit_inprogress)
		return;
	try_to_write_lines();
	forget_noted();
}

/*
 * Write the lines of a transaction that ended with this process: called after
 * its locks are released.  An error ends only this function.
 */
static void
write_last_lines(int code, Datum arg)
{
	if (sf_audit_notes)
		write_lines();
	forget_noted();
}

/* Install the callback at load; all processes inherit it. */
void
sf_audit_register(void)
{
	RegisterXactCallback(end_audit, NULL);
}
