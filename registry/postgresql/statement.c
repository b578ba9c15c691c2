/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  A request as a statement that calls one of the functions which come with
 *	  the extension, and its result as the answer.
 *
 * What is unsigned here is a bigint there, with the same bits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type_d.h"

#include "statement.h"

/* Columns of snowflake_registry_read(). */
enum
{
	READ_CLOCK, READ_IN_PLACE, READ_GENERATION, READ_FLOOR, READ_LAYOUT,
	READ_SHARDS, READ_SHARDS_VERSION,
	READ_NODE, READ_VERSION, READ_EPOCH, READ_OWNER, READ_SERVER,
	READ_WRITE_ID, READ_UNTIL, READ_OFFSET, READ_RELEASED, READ_HOST,
	READ_PROCESS, READ_SINCE, READ_ADDRESS, READ_PRESENT, READ_COLUMNS
};

/* Of all others; snowflake_registry_keep() says first whether it has. */
enum
{
	WRITE_VERSION, WRITE_CLOCK, WRITE_COLUMNS
};

#define MAX_PARAMS	15

/*
 * With their types, so that no other function fits as well as the one that is
 * meant: who may create one in its schema has nothing of it.
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
static SfRecord *records;
static char *shards;

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
	const SfRecord *record = &ask->record;
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
}

/* The function to call, and its arguments. */
static const char *
choose(Params *params, const SfAsk *ask, const SfBackendConfig *config)
{
	switch (ask->kind)
	{
		case SF_ASK_READ:
			return "snowflake_registry_read";
		case SF_ASK_KEEPALIVE:
			add_number(params, ask->record.node);
			add_number(params, (int64) ask->record.owner);
			add_number(params, config->presence_ms);
			return "snowflake_registry_keep";
		case SF_ASK_SHARDS:
			add_number(params, (int64) ask->generation);
			add_number(params, ask->version);
			add_text(params, ask->shards);
			return "snowflake_registry_write_shards";
		case SF_ASK_INITIALIZE:
			add_number(params, (int64) ask->new_generation);
			add_number(params, ask->new_floor);
			add_text(params, ask->new_layout_text);
			add_number(params, ask->new_layout->epoch_ms);
			add_integer(params, INT4OID, ask->new_layout->tick_ms);
			return "snowflake_registry_begin";
		case SF_ASK_RECOVER:
			add_number(params, (int64) ask->generation);
			add_number(params, (int64) ask->new_generation);
			add_number(params, ask->new_floor);
			return "snowflake_registry_renew";
		default:
			add_write(params, ask, config);
			return "snowflake_registry_write";
	}
}

/* The schema is quoted.  False as libpq's function. */
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
	return PQsendQueryParams(conn, query, params.n, params.types,
							 params.values, NULL, NULL, 0);
}

/* ---- results ---- */

/* 0 for NULL, too. */
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
get_record(SfRecord *record, const PGresult *result, int row)
{
	memset(record, 0, sizeof(SfRecord));
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
	return true;
}

static void
take_read(const PGresult *result, SfAnswer *answer)
{
	int			n = PQntuples(result);

	free(records);
	free(shards);
	records = calloc(n, sizeof(SfRecord));
	shards = strdup(PQgetvalue(result, 0, READ_SHARDS));
	if (records == NULL || shards == NULL)
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
	registry.shards = shards;
	registry.shards_version = get_int(result, 0, READ_SHARDS_VERSION);
	registry.records = records;
	while (registry.nrecords < n &&
		   get_record(&records[registry.nrecords], result, registry.nrecords))
		registry.nrecords++;
	answer->registry = &registry;
	if (registry.initialized && !get_bool(result, 0, READ_IN_PLACE))
	{
		answer->result = SF_RESULT_REFUSED;
		answer->failure = SF_FAILURE_LOST;
		answer->message = "It runs on another server or timeline than before, and may have lost data: an administrator has to call snowflake_registry_recover().";
	}
}

/* What the statement has returned, as the answer. */
void
sf_statement_take(const PGresult *result, const SfAsk *ask, SfAnswer *answer)
{
	int			columns = ask->kind == SF_ASK_READ ? READ_COLUMNS :
		WRITE_COLUMNS;

	if (PQntuples(result) < 1 || PQnfields(result) != columns)
	{
		answer->result = SF_RESULT_UNKNOWN;
		answer->failure = SF_FAILURE_EXTENSION;
		answer->message = "Its extension \"snowflake\" has another version than this server's.";
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
		answer->version = get_int(result, 0, WRITE_VERSION);
}
