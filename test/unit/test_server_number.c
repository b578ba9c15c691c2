/*-------------------------------------------------------------------------
 *
 * test_server_number.c
 *	  Numbers of servers: which texts give which number, and which are
 *	  refused.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/server_number.h"
#include "harness.h"

#define VARIABLE	"SF_TEST_NUMBER"

static bool
parse(const char *text, const char *hostname, int64_t *number, char *reason)
{
	SfServerNumber parsed;
	bool		good;

	snprintf(context, sizeof(context), "\"%.200s\" on \"%.200s\"",
			 text, hostname);
	good = sf_server_number_parse(&parsed, text, hostname, reason, 200);
	*number = (int64_t) parsed - 1;
	return good;
}

static void
check_number(const char *text, const char *hostname, int64_t expected)
{
	int64_t		number;
	char		reason[200];

	CHECK(parse(text, hostname, &number, reason));
	CHECK_EQ(number, expected);
	CHECK_STR(reason, "");
}

static void
check_refused(const char *text, const char *hostname, const char *why)
{
	int64_t		number;
	char		reason[200];

	CHECK(!parse(text, hostname, &number, reason));
	CHECK_STR(reason, why);
}

static void
check_node(const char *text, int64_t datacenter, int64_t node)
{
	SfServerNumber parsed_datacenter;
	SfServerNumber parsed_node;
	char		reason[200];

	snprintf(context, sizeof(context), "\"%.200s\"", text);
	CHECK(sf_server_number_parse_node(&parsed_datacenter, &parsed_node, text,
									  "db-5", reason, sizeof(reason)));
	CHECK_EQ((int64_t) parsed_datacenter - 1, datacenter);
	CHECK_EQ((int64_t) parsed_node - 1, node);
}

/* A node id may begin with its datacenter. */
static void
test_datacenters(void)
{
	static const char *const bad[] = {"/", "/7", "3//7", "3/7/1", "3 /7", "3/ 7", "x/7", "3/x", "2147483647/7"};
	SfServerNumber datacenter;
	SfServerNumber node;
	char		reason[200];
	char		text[300];

	check_node("", -1, -1);
	check_node("17", -1, 17);
	check_node("3/17", 3, 17);
	check_node("0/0", 0, 0);
	check_node("3/", 3, -1);
	check_node("3/hostname:ordinal+100", 3, 105);
	check_node("hostname:ordinal/7", 5, 7);
	check_node("2147483646/2147483647", INT32_MAX - 1, INT32_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		snprintf(context, sizeof(context), "\"%s\"", bad[i]);
		CHECK(!sf_server_number_parse_node(&datacenter, &node, bad[i], "db-5",
										   reason, sizeof(reason)));
	}
	for (size_t len = 0; len < sizeof(text) - 2; len++)
	{
		memset(text, '0', len);
		strcpy(text + len, "/7");
		CHECK(sf_server_number_parse_node(&datacenter, &node, text, "db-5",
										  reason, sizeof(reason)) ==
			  (len >= 1 && len <= 10));
	}
}

static void
test_plain(void)
{
	static const char *const bad[] = {
		" ", "-1", "+1", "1+1", "1 ", "0x1", "seven", "2147483648",
		"4294967295", "4294967296", "18446744073709551617", "1.5", "hostname",
		"hostname:", "hostname:ordinal ", "Hostname:ordinal", "hostname:ordinal1",
		"hostname:ordinal+", "hostname:ordinal+x", "hostname:ordinal-1",
		"hostname:ordinal++1", "hostname:ordinal+1+1", "env", "environment:X"
	};

	check_number("", "db-1", -1);	/* unset */
	check_number("0", "db-1", 0);
	check_number("007", "db-1", 7);
	check_number("2147483647", "db-1", INT32_MAX);
	for (int i = 0; i < LENGTH(bad); i++)
		check_refused(bad[i], "db-1", "");
}

static void
test_hostname(void)
{
	static const char *const without[] = {
		"", "db", "db1", "-", "-1", "db-", "db-1a", "db-x", "db.example-1",
		"db-1-", "db-4294967296", "localhost", "db-initdb", "-initdb",
		"db-1-initdb-x9k2z", "db-1-initdb-join", "db-1initdb", "-1-initdb"
	};
	static const char *const jobs[] = {
		"initdb", "import", "pgbasebackup", "full-recovery",
		"snapshot-recovery", "join", "major-upgrade"
	};

	check_number("hostname:ordinal", "db-0", 0);
	check_number("hostname:ordinal", "db-12.db.default.svc", 12);
	check_number("hostname:ordinal", "pg-15-3", 3);
	for (int i = 0; i < LENGTH(jobs); i++)
	{
		char		host[100];

		snprintf(host, sizeof(host), "pg-15-3-%s.pg-any.default", jobs[i]);
		check_number("hostname:ordinal+100", host, 103);
	}
	check_number("hostname:ordinal+100", "db-7", 107);
	check_number("hostname:ordinal+2147483640", "db-7", INT32_MAX);
	check_refused("hostname:ordinal+2147483640", "db-8", "");
	for (int i = 0; i < LENGTH(without); i++)
	{
		char		why[200];

		snprintf(why, sizeof(why),
				 "The host's name \"%s\" does not end in a hyphen and this server's number.",
				 without[i]);
		check_refused("hostname:ordinal", without[i], why);
		check_refused("hostname:ordinal+5", without[i], why);
	}
}

static void
test_environment(void)
{
	static const char *const names[] = {
		"env:", "env:+1", "env:A B", "env:A=B", "env:A-B", "env:\xc3\xa4",
		"env:a1234567890123456789012345678901234567890123456789012345678901234"
	};
	static const char *const values[] = {"", "x", "-1", "1 ", "2147483648"};

	setenv(VARIABLE, "42", 1);
	check_number("env:" VARIABLE, "db-1", 42);
	check_number("env:" VARIABLE "+58", "db-1", 100);
	for (int i = 0; i < LENGTH(values); i++)
	{
		setenv(VARIABLE, values[i], 1);
		check_refused("env:" VARIABLE, "db-1",
					  "The environment variable \"" VARIABLE
					  "\" of the server holds no number.");
	}
	unsetenv(VARIABLE);
	check_refused("env:" VARIABLE, "db-1",
				  "The environment variable \"" VARIABLE
				  "\" of the server is not set.");
	for (int i = 0; i < LENGTH(names); i++)
		check_refused(names[i], "db-1",
					  "After \"env:\" the name of an environment variable must follow.");
}

int
main(void)
{
	start_tests();
	RUN(test_plain);
	RUN(test_datacenters);
	RUN(test_hostname);
	RUN(test_environment);
	return finish_tests("test_server_number");
}
