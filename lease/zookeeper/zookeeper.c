/*-------------------------------------------------------------------------
 *
 * zookeeper.c
 *	  Registry of node ids in ZooKeeper, through the library for programs
 *	  without threads: the functions that the worker calls (lease/backend.h),
 *	  the current request with its steps, and what is known of the registry.
 *
 * A step is one batch.  Only the last step of a write changes the registry,
 * and it is sent once.  If the connection is lost after that, or no reply
 * comes in time, its outcome is unknown.  Every other step begins anew with
 * the next host, while there are hosts and time.
 *
 * A presence is an ephemeral node, which lives as long as its session.  So
 * each claim gets a session of its own.  Otherwise the session would keep the
 * presence of an earlier claim alive, perhaps of one with an unknown outcome.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"

#include "zookeeper.h"

SF_MODULE_MAGIC("snowflake_zookeeper");

extern PGDLLEXPORT const SfBackend *snowflake_backend(void);

/* How often a write may find another presence than the one that was seen. */
#define MAX_LOOKS		3

typedef enum Step
{
	STEP_CONNECT,
	STEP_NAMES,					/* read: which nodes exist */
	STEP_VALUES,
	STEP_LOOK,					/* write: look for a presence */
	STEP_PARENTS,				/* initialize: create the nodes above */
	STEP_WRITE
} Step;

/* From open to close. */
static struct
{
	const SfBackendConfig *settings;
	int64		our_session;	/* the last session that may have made a
								 * presence */

	/* What was last read. */
	uint64		generation;		/* 0: none */
	char	   *layout;
	int64		floor;
}			zoo;

/* The request under way, beside sf_request. */
static struct
{
	Step		step;
	int64		host_deadline_ms;	/* then try another host */
	int			looks;
	int64		session_before; /* value of our_session before this write */
	SfPresent	present;
	SfRegistry	registry;
}			request;

static const struct ACL_vector *
acl(void)
{
	return sf_session.has_digest ? &ZOO_CREATOR_ALL_ACL :
		&ZOO_OPEN_ACL_UNSAFE;
}

/* Answer.  The message has no full stop yet. */
static void
conclude(SfResult result)
{
	strlcat(sf_request.message, ".", SF_MESSAGE_SIZE);
	sf_harness_conclude(result);
}

/* Answer with a failure; if a write was sent, its outcome is unknown. */
static void
conclude_failure(void)
{
	conclude(request.step == STEP_WRITE ?
			 SF_RESULT_UNKNOWN : SF_RESULT_REFUSED);
}

/* ---- the steps ---- */

/* Set this host's deadline: half of the time left if there are other hosts. */
static void
set_patience(void)
{
	int64		left = sf_request.deadline_ms - sf_harness_now_ms();

	request.host_deadline_ms = sf_harness_now_ms() +
		(sf_session_has_hosts() ? left / 2 : left);
}

static void
connect_to_host(void)
{
	request.step = STEP_CONNECT;
	set_patience();
	sf_session_connect();
}

static void
begin_step(Step next)
{
	request.step = next;
	sf_batch_begin(sf_session.handle);
	switch (next)
	{
		case STEP_NAMES:
			sf_nodes_ask_names();
			break;
		case STEP_VALUES:
			sf_nodes_ask_values();
			break;
		case STEP_LOOK:
			sf_nodes_ask_present(sf_request.asked.record.node);
			break;
		case STEP_PARENTS:
			sf_nodes_ask_parents(acl());
			break;
		default:
			request.session_before = zoo.our_session;
			if (sf_request.asked.presence)
				zoo.our_session = sf_session.id.client_id;
			request.host_deadline_ms = sf_request.deadline_ms;
			sf_nodes_ask_write(&sf_request.asked, &request.present,
							   sf_session.id.client_id, sf_session.address,
							   sf_request.asked.kind == SF_ASK_INITIALIZE ?
							   sf_request.asked.new_layout_text : zoo.layout,
							   acl());
	}
}

static void
begin_first_step(void)
{
	switch (sf_request.asked.kind)
	{
		case SF_ASK_READ:
			begin_step(STEP_NAMES);
			break;
		case SF_ASK_INITIALIZE:
			begin_step(STEP_PARENTS);
			break;
		case SF_ASK_RECOVER:
			begin_step(STEP_WRITE);
			break;
		default:
			begin_step(STEP_LOOK);
	}
}

/* ---- replies ---- */

static void
take_names(void)
{
	switch (sf_nodes_take_names(&request.registry,
								&sf_request.answer.clock_ms))
	{
		case SF_READING_DONE:
			if (request.registry.initialized)
			{
				begin_step(STEP_VALUES);
				break;
			}
			zoo.generation = 0;
			zoo.floor = 0;
			sf_request.answer.registry = &request.registry;
			conclude(SF_RESULT_DONE);
			break;
		default:
			conclude_failure();
	}
}

static void
remember_reading(void)
{
	zoo.generation = request.registry.generation;
	zoo.floor = request.registry.floor;
	sf_harness_keep(&zoo.layout, request.registry.layout);
}

static void
take_values(void)
{
	switch (sf_nodes_take_values(&request.registry))
	{
		case SF_READING_DONE:
			remember_reading();
			sf_request.answer.registry = &request.registry;
			conclude(SF_RESULT_DONE);
			break;
		case SF_READING_MOVED:
			begin_step(STEP_NAMES);
			break;
		case SF_READING_FAILED:
			conclude_failure();
	}
}

static void
take_look(void)
{
	if (sf_nodes_take_present(&request.present) != SF_READING_DONE)
		conclude_failure();
	else if (sf_request.asked.kind == SF_ASK_KEEPALIVE)
		conclude(request.present.owner == sf_request.asked.record.owner &&
				 request.present.session == sf_session.id.client_id ?
				 SF_RESULT_DONE : SF_RESULT_ABSENT);
	else if (request.present.owner != 0 &&
			 request.present.owner != sf_request.asked.record.owner &&
			 request.present.owner != sf_request.asked.displaced)
		conclude(SF_RESULT_CONFLICT);
	else
		begin_step(STEP_WRITE);
}

static void
take_written(void)
{
	SfWriting	writing = sf_nodes_take_written(&sf_request.asked,
												&sf_request.answer);

	if (writing != SF_WRITING_DONE && writing != SF_WRITING_UNKNOWN)
		zoo.our_session = request.session_before;
	switch (writing)
	{
		case SF_WRITING_DONE:
			conclude(SF_RESULT_DONE);
			break;
		case SF_WRITING_LOOK:
			if (++request.looks < MAX_LOOKS)
				begin_step(STEP_LOOK);
			else
				conclude(SF_RESULT_CONFLICT);
			break;
		case SF_WRITING_CONFLICT:
			conclude(SF_RESULT_CONFLICT);
			break;
		case SF_WRITING_REFUSED:
			conclude(SF_RESULT_REFUSED);
			break;
		case SF_WRITING_UNKNOWN:
			conclude_failure();
	}
}

/* Return false if the library says with this that no reply will come. */
static bool
is_reply(const SfZooReply *reply)
{
	return reply->rc == ZOK || reply->rc == ZBADARGUMENTS ||
		reply->rc == ZMARSHALLINGERROR ||
		(reply->rc < ZAPIERROR && reply->rc != ZCLOSING &&
		 reply->rc != ZSESSIONEXPIRED && reply->rc != ZSESSIONMOVED);
}

static bool
has_replies(void)
{
	if (!sf_batch_is_done())
		return false;
	for (int i = 0; i < sf_batch_size(); i++)
	{
		if (!is_reply(sf_batch_reply(i)))
			return false;
	}
	return true;
}

static void
take_replies(void)
{
	sf_request.answer.clock_step_ms = 1;
	switch (request.step)
	{
		case STEP_NAMES:
			take_names();
			break;
		case STEP_VALUES:
			take_values();
			break;
		case STEP_LOOK:
			take_look();
			break;
		case STEP_PARENTS:
			begin_step(STEP_WRITE);
			break;
		default:
			take_written();
	}
}

/* Append a host's problem to those of the hosts before. */
static void
add_problem(const char *text)
{
	size_t		len = strlen(sf_request.message);

	if (strstr(sf_request.message, text) == NULL)
		snprintf(sf_request.message + len, SF_MESSAGE_SIZE - len, "%s%s",
				 len > 0 ? "; " : "", text);
}

/* Disconnect from this host.  Try another one if this step may be repeated. */
static void
give_up_host(const char *why)
{
	bool		may_try;

	sf_session_disconnect(why);
	add_problem(sf_session.problem);
	sf_request.answer.failure = sf_session.failure;
	may_try = sf_session_next_host() && request.step != STEP_WRITE &&
		sf_harness_now_ms() < sf_request.deadline_ms;
	if (may_try)
		connect_to_host();
	else
		conclude_failure();
}

/* ---- the functions of the library ---- */

static bool
open_zookeeper(const char *text, const SfBackendConfig *config, char *reason,
			   size_t reason_size)
{
	char	   *prefix;

	if (!sf_session_open(text, config, &prefix, reason, reason_size))
		return false;
	memset(&zoo, 0, sizeof(zoo));
	zoo.settings = config;
	sf_nodes_open(prefix);
	return true;
}

/*
 * Begin the request.  If the one before had no answer for as long as a host
 * may be silent, use another host.
 */
static void
begin_request(void)
{
	SfAsk	   *ask = &sf_request.asked;

	ask->new_floor = Max(ask->new_floor, zoo.floor);
	request.looks = 0;
	memset(&request.present, 0, sizeof(request.present));
	request.step = STEP_CONNECT;
	sf_session_count_hosts();
	if (ask->kind == SF_ASK_CLAIM && sf_session.id.client_id != 0 &&
		sf_session.id.client_id == zoo.our_session)
		sf_session_end();
	else if (sf_request.silent_ms > 0 &&
			 sf_request.silent_ms >= zoo.settings->timeout_ms / 2)
	{
		sf_session_disconnect(NULL);
		(void) sf_session_next_host();
		sf_session_count_hosts();
	}
	set_patience();

	/* a write must be based on a generation that was read */
	if (sf_harness_is_write() && ask->kind != SF_ASK_INITIALIZE &&
		(zoo.generation == 0 || zoo.generation != ask->generation))
		conclude(SF_RESULT_CONFLICT);
	else if (sf_session_continue() == SF_SESSION_UP)
		begin_first_step();
	else
		connect_to_host();
}

static void
go_on(void)
{
	SfSessionState state = sf_session_continue();

	while (sf_request.is_under_way)
	{
		Step		before = request.step;

		if (request.step == STEP_CONNECT && state == SF_SESSION_UP)
			begin_first_step();
		else if (request.step > STEP_CONNECT && has_replies())
			take_replies();
		else if (state == SF_SESSION_DOWN)
			give_up_host(NULL);
		else if (sf_harness_now_ms() >= request.host_deadline_ms)
			give_up_host("it does not answer");
		state = sf_session_continue();
		if (request.step == before && state != SF_SESSION_DOWN)
			return;
	}
}

static void
fail_request(const char *what)
{
	sf_batch_begin(NULL);
	snprintf(sf_request.message, SF_MESSAGE_SIZE, "%s: not understood: %s",
			 sf_session.host, what);
	sf_request.answer.failure = SF_FAILURE_OTHER;
	conclude_failure();
}

static int
get_sockets(SfSocket *sockets, int64_t *timeout_ms)
{
	int64		wait = -1;
	int64		patience;
	int			n = sf_session_sockets(sockets, &wait);

	if (sf_request.is_under_way)
	{
		patience = Max(request.host_deadline_ms - sf_harness_now_ms(), 0);
		wait = wait < 0 ? patience : Min(wait, patience);
	}
	if (wait >= 0)
		*timeout_ms = wait;
	return n;
}

const SfBackend *
snowflake_backend(void)
{
	static const SfKind kind = {
		.name = "snowflake zookeeper",
		.open = open_zookeeper,
		.begin = begin_request,
		.go_on = go_on,
		.fail = fail_request,
		.sockets = get_sockets,
		.part = sf_session_part,
		.close = sf_session_close
	};

	return sf_harness_backend(&kind);
}
