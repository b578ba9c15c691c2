/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  Request as a statement that calls a function of the extension
 *	  snowflake_registry, and the statement's result as the answer.
 *
 * A uint64 here is a bigint there, with the same bits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type_d.h"

#include "statement.h"
#include "statement.sql.inc"

/* Columns of snowflake_servers.read(). */
enum
{
	READ_CLOCK, READ_IN_PLACE, READ_GENERATION, READ_FLOOR, READ_LAYOUT,
	READ_NODE, READ_VERSION, READ_EPOCH, READ_OWNER, READ_SERVER,
	READ_WRITE_ID, READ_UNTIL, READ_OFFSET, READ_RELEASED, READ_HOST,
	READ_PROCESS, READ_SINCE, READ_ADDRESS, READ_PRESENT, READ_RESERVE,
	READ_COLUMNS
};

/* Columns of the other functions; of keep(), the first is a boolean. */
enum
{
	WRITE_VERSION, WRITE_CLOCK, WRITE_COLUMNS
};

#define MAX_PARAMS	16

/*
 * Arguments with their types.  With exact types, no other function fits better
 * than the one that is meant.  So a user that may create functions in the
 * extension's schema cannot put one in its place.
 */
typedef struct Params
{
	int			n;
	Oid			types[MAX_PARAMS];
	const char *values[MAX_PARAMS];
	char		numbers[MAX_PARAMS][24];
} Params;

/* What was read last. */
static SfRegistry registry;
static SfSlotRecord *records;

/* ---- statements ---- */

static void
add(Params *params, Oid type, const char *text)
{
	params->types[params->n] = type;
	params->values[params->n++] = text;
}

static void
add_integer(Params *params, Oid type, int64 number)
{
	char	   *text = params->numbers[params->n];

	snprintf(text, sizeof(params->numbers[0]), "%lld", (long long) number);
	add(params, type, text);
}

static void
add_number(Params *params, int64 number)
{
	add_integer(params, INT8OID, number);
}

static void
add_text(Params *params, const char *text)
{
	add(params, TEXTOID, text);
}

static void
add_write(Params *params, const SfAsk *ask, const SfBackendConfig *config)
{
	const SfSlotRecord *record = &ask->record;
	int64		ttl_ms = 0;

	if (ask->kind == SF_ASK_RELEASE)
		ttl_ms = -1;
	else if (ask->presence)
		ttl_ms = config->presence_ms;
	add_number(params, (int64) ask->generation);
	add_number(params, record->node);
	add_number(params, ask->version);
	add_number(params, record->epoch);
	add_number(params, (int64) record->owner);
	add_number(params, (int64) record->server);
	add_number(params, (int64) record->write_id);
	add_number(params, record->until);
	add_number(params, record->offset_ms);
	add(params, BOOLOID, record->released ? "t" : "f");
	add_text(params, record->host);
	add_integer(params, INT4OID, record->process);
	add_number(params, record->since_ms);
	add_number(params, (int64) ask->displaced);
	add_number(params, ttl_ms);
	add_number(params, record->reserve_ms);
}

/* Return the function to call, and add its arguments. */
static const char *
choose(Params *params, const SfAsk *ask, const SfBackendConfig *config)
{
	switch (ask->kind)
	{
		case SF_ASK_READ:
			return "read";
		case SF_ASK_KEEPALIVE:
			add_number(params, ask->record.node);
			add_number(params, (int64) ask->record.owner);
			add_number(params, config->presence_ms);
			return "keep";
		case SF_ASK_INITIALIZE:
			add_number(params, (int64) ask->new_generation);
			add_number(params, ask->new_floor);
			add_text(params, ask->new_layout_text);
			add_number(params, ask->new_layout->epoch_ms);
			add_integer(params, INT4OID, ask->new_layout->tick_ms);
			return "begin";
		case SF_ASK_RECOVER:
			add_number(params, (int64) ask->generation);
			add_number(params, (int64) ask->new_generation);
			add_number(params, ask->new_floor);
			return "renew";
		default:
			add_write(params, ask, config);
			return "write";
	}
}

/*
 * Set what this request needs, for its transaction only: a pooler may give
 * each transaction another session.  With synchronous_commit off, an
 * acknowledged write could be lost.  lock_timeout ends a wait for a lock when
 * the answer is no longer wanted.  With jit on, compiling a statement would
 * take longer than running it.
 */
static bool
send_settings(PGconn *conn, const SfBackendConfig *config)
{
	Params		params = {0};

	add_number(&params, config->timeout_ms);
	return PQsendQueryParams(conn,
							 SQL_SETTINGS,
							 params.n, params.types, params.values, NULL,
							 NULL, 0);
}

/*
 * Send the settings and the call at once, in one transaction, which ends with
 * the pipeline.  The schema is quoted.  Return false like libpq's functions.
 */
bool
sf_statement_send(PGconn *conn, const char *schema, const SfAsk *ask,
				  const SfBackendConfig *config)
{
	Params		params = {0};
	const char *function = choose(&params, ask, config);
	char		query[NAMEDATALEN * 2 + 200];
	int			len;

	len = snprintf(query, sizeof(query), "SELECT * FROM %s.%s(", schema,
				   function);
	for (int i = 1; i <= params.n; i++)
		len += snprintf(query + len, sizeof(query) - len, "%s$%d",
						i > 1 ? ", " : "", i);
	snprintf(query + len, sizeof(query) - len, ")");
	return PQenterPipelineMode(conn) && send_settings(conn, config) &&
		PQsendQueryParams(conn, query, params.n, params.types,
						  params.values, NULL, NULL, 0) &&
		PQpipelineSync(conn);
}

/* ---- results ---- */

/* Return an integer; NULL is 0. */
static int64
get_int(const PGresult *result, int row, int column)
{
	return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static bool
get_bool(const PGresult *result, int row, int column)
{
	return PQgetvalue(result, row, column)[0] == 't';
}

static bool
get_record(SfSlotRecord *record, const PGresult *result, int row)
{
	memset(record, 0, sizeof(SfSlotRecord));
	if (PQgetisnull(result, row, READ_NODE))
		return false;
	record->node = (uint32) get_int(result, row, READ_NODE);
	record->version = get_int(result, row, READ_VERSION);
	record->epoch = get_int(result, row, READ_EPOCH);
	record->owner = (uint64) get_int(result, row, READ_OWNER);
	record->server = (uint64) get_int(result, row, READ_SERVER);
	record->write_id = (uint64) get_int(result, row, READ_WRITE_ID);
	record->until = get_int(result, row, READ_UNTIL);
	record->offset_ms = get_int(result, row, READ_OFFSET);
	record->released = get_bool(result, row, READ_RELEASED);
	strlcpy(record->host, PQgetvalue(result, row, READ_HOST),
			sizeof(record->host));
	record->process = (int32) get_int(result, row, READ_PROCESS);
	record->since_ms = get_int(result, row, READ_SINCE);
	strlcpy(record->address, PQgetvalue(result, row, READ_ADDRESS),
			sizeof(record->address));
	record->present = (uint64) get_int(result, row, READ_PRESENT);
	record->reserve_ms = get_int(result, row, READ_RESERVE);
	return true;
}

static void
take_read(const PGresult *result, SfAnswer *answer)
{
	int			n = PQntuples(result);

	free(records);
	records = calloc(n, sizeof(SfSlotRecord));
	if (records == NULL)
	{
		answer->result = SF_RESULT_UNKNOWN;
		answer->message = "This server is out of memory.";
		return;
	}
	memset(&registry, 0, sizeof(SfRegistry));
	registry.initialized = !PQgetisnull(result, 0, READ_GENERATION);
	registry.generation = (uint64) get_int(result, 0, READ_GENERATION);
	registry.floor = get_int(result, 0, READ_FLOOR);
	strlcpy(registry.layout, PQgetvalue(result, 0, READ_LAYOUT),
			sizeof(registry.layout));
	registry.records = records;
	while (registry.nrecords < n &&
		   get_record(&records[registry.nrecords], result, registry.nrecords))
	{
		const SfSlotRecord *record = &records[registry.nrecords++];

		if (record->version > registry.version)
		{
			registry.version = record->version;
			registry.newest = record->node;
		}
	}
	answer->registry = &registry;
	if (registry.initialized && !get_bool(result, 0, READ_IN_PLACE))
	{
		answer->result = SF_RESULT_REFUSED;
		answer->failure = SF_FAILURE_LOST;
		answer->message = "The registry runs on another server or timeline than before, or in another directory, and may have lost data.";
	}
}

/* Turn the statement's result into the answer. */
void
sf_statement_take(const PGresult *result, const SfAsk *ask, SfAnswer *answer)
{
	int			columns = ask->kind == SF_ASK_READ ? READ_COLUMNS :
		WRITE_COLUMNS;

	if (PQntuples(result) < 1 || PQnfields(result) != columns)
	{
		answer->result = SF_RESULT_UNKNOWN;
		answer->failure = SF_FAILURE_EXTENSION;
		answer->message = "The extension \"snowflake_registry\" there is not of the version that this server needs.";
		return;
	}
	answer->result = SF_RESULT_DONE;
	answer->clock_step_ms = 1;
	if (ask->kind == SF_ASK_READ)
	{
		answer->clock_ms = get_int(result, 0, READ_CLOCK);
		take_read(result, answer);
		return;
	}
	answer->clock_ms = get_int(result, 0, WRITE_CLOCK);
	if (ask->kind == SF_ASK_KEEPALIVE)
	{
		if (!get_bool(result, 0, 0))
			answer->result = SF_RESULT_ABSENT;
	}
	else if (PQgetisnull(result, 0, WRITE_VERSION))
		answer->result = SF_RESULT_CONFLICT;
	else
		answer->version = answer->registry_version =
			get_int(result, 0, WRITE_VERSION);
}
