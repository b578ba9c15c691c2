/*-------------------------------------------------------------------------
 *
 * test_number.c
 *	  Numbers of servers: what gives which, and what gives none.
 *
 *-------------------------------------------------------------------------
 */
#include "number.h"
#include "harness.h"

#define NGARBAGE	200000
#define VARIABLE	"SF_TEST_NUMBER"

static bool
parse(const char *text, const char *hostname, int64_t *number, char *reason)
{
	uint32_t	number_plus_1;
	bool		good;

	snprintf(context, sizeof(context), "\"%.200s\" on \"%.200s\"",
			 text, hostname);
	good = sf_number_parse(&number_plus_1, text, hostname, reason, 200);
	*number = (int64_t) number_plus_1 - 1;
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
		"db-1-", "db-4294967296", "localhost"
	};

	check_number("hostname:ordinal", "db-0", 0);
	check_number("hostname:ordinal", "db-12.db.default.svc", 12);
	check_number("hostname:ordinal", "pg-15-3", 3);
	check_number("hostname:ordinal+100", "db-7", 107);
	check_number("hostname:ordinal+2147483640", "db-7", INT32_MAX);
	check_refused("hostname:ordinal+2147483640", "db-8", "");
	for (int i = 0; i < LENGTH(without); i++)
	{
		char		why[200];

		snprintf(why, sizeof(why),
				 "The host's name \"%s\" does not end in a hyphen and a number, as \"db-0\" does.",
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

/* Whatever the text and however small the room, nothing bad happens. */
static void
test_garbage(void)
{
	static const char *const pieces[] = {
		"hostname", ":", "ordinal", "hostname:ordinal", "env:", VARIABLE, "+",
		"0", "9", "2147483647", "-"
	};

	setenv(VARIABLE, "5", 1);
	for (int i = 0; i < NGARBAGE; i++)
	{
		char	   *text = garbage(pieces, LENGTH(pieces));
		char	   *hostname = garbage(pieces, LENGTH(pieces));
		size_t		size = 1 + rnd_below(200);
		char	   *reason = malloc(size);
		uint32_t	number;

		snprintf(context, sizeof(context), "\"%.200s\" on \"%.200s\"",
				 text, hostname);
		if (sf_number_parse(&number, text, hostname, reason, size))
		{
			CHECK(number <= UINT32_C(1) << 31);
			CHECK((number == 0) == (text[0] == '\0'));
			CHECK_STR(reason, "");
		}
		else
			CHECK(strlen(reason) < size);
		free(reason);
		free(hostname);
		free(text);
	}
}

int
main(void)
{
	start_tests();
	RUN(test_plain);
	RUN(test_hostname);
	RUN(test_environment);
	RUN(test_garbage);
	return finish_tests("test_number");
}
