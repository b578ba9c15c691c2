/*-------------------------------------------------------------------------
 *
 * server_number.c
 *	  Parser for a server's number.
 *
 *	7						the number itself
 *	hostname:ordinal		N, if the host's name is db-N or db-N.domain, as
 *							for the pods of a StatefulSet, or db-N-initdb, as
 *							for a job of CloudNativePG
 *	env:NAME				the value of the environment variable NAME
 *
 * The latter two may have an offset: hostname:ordinal+100.  A name without a
 * number is refused and never hashed: two names with the same hash would give
 * two servers the same number.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/server_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDINAL		"hostname:ordinal"
#define ENV			"env:"
#define NAME_MAX_LEN	63

/* A longer text than this is no number. */
#define TEXT_MAX_LEN	100
#define DIGITS		"0123456789"
#define NAME_CHARS	DIGITS "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* Parse a number of exactly len bytes, at most INT32_MAX. */
static bool
read_number(const char *s, size_t len, int64_t *number)
{
	*number = 0;
	if (len == 0 || len > 10 || strspn(s, DIGITS) < len)
		return false;
	for (size_t i = 0; i < len; i++)
		*number = *number * 10 + (s[i] - '0');
	return *number <= INT32_MAX;
}

/*
 * Return the length of a host's name without a domain, and without what
 * CloudNativePG adds for a job that starts the server of an instance before
 * the instance itself runs (jobRole in its pkg/specs/jobs.go, and
 * pkg/reconciler/majorupgrade/job.go).
 */
static size_t
instance_name_len(const char *hostname)
{
	static const char *const jobs[] = {
		"-initdb", "-import", "-pgbasebackup", "-full-recovery",
		"-snapshot-recovery", "-join", "-major-upgrade"
	};
	size_t		len = strcspn(hostname, ".");

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
	{
		size_t		job_len = strlen(jobs[i]);

		if (len > job_len &&
			memcmp(hostname + len - job_len, jobs[i], job_len) == 0)
			return len - job_len;
	}
	return len;
}

/* Parse the number behind the last hyphen of a host's name. */
static bool
read_ordinal(const char *hostname, int64_t *number)
{
	size_t		len = instance_name_len(hostname);
	size_t		start = len;

	while (start > 0 && hostname[start - 1] != '-')
		start--;
	return start > 1 && read_number(hostname + start, len - start, number);
}

/* Parse an environment variable, whose value no message shows. */
static bool
read_environment(const char *name, size_t len, int64_t *number,
				 char *reason, size_t reason_size)
{
	char		copy[NAME_MAX_LEN + 1];
	const char *value;

	if (len == 0 || len > NAME_MAX_LEN || strspn(name, NAME_CHARS) < len)
	{
		snprintf(reason, reason_size,
				 "After \"%s\" the name of an environment variable must follow.",
				 ENV);
		return false;
	}
	memcpy(copy, name, len);
	copy[len] = '\0';
	value = getenv(copy);
	if (value != NULL && read_number(value, strlen(value), number))
		return true;
	snprintf(reason, reason_size,
			 "The environment variable \"%s\" of the server %s.", copy,
			 value == NULL ? "is not set" : "holds no number");
	return false;
}

/*
 * Parse a number; an empty text has none.  If the text is refused, the reason
 * is a sentence, or empty if the text does not look like any of these.
 */
bool
sf_server_number_parse(SfServerNumber *number, const char *text,
					   const char *hostname, char *reason, size_t reason_size)
{
	size_t		len = strcspn(text, "+");
	int64_t		value = 0;
	int64_t		offset = 0;

	*number = SF_NO_NUMBER;
	reason[0] = '\0';
	if (text[0] == '\0')
		return true;
	if (text[len] == '+' &&
		!read_number(text + len + 1, strlen(text + len + 1), &offset))
		return false;

	if (len == strlen(ORDINAL) && memcmp(text, ORDINAL, len) == 0)
	{
		if (!read_ordinal(hostname, &value))
		{
			snprintf(reason, reason_size,
					 "The host's name \"%.64s\" does not end in a hyphen and this server's number.",
					 hostname);
			return false;
		}
	}
	else if (strncmp(text, ENV, strlen(ENV)) == 0)
	{
		if (!read_environment(text + strlen(ENV), len - strlen(ENV), &value,
							  reason, reason_size))
			return false;
	}
	else if (text[len] == '+' || !read_number(text, len, &value))
		return false;

	if (value + offset > INT32_MAX)
		return false;
	*number = sf_server_number_of((uint32_t) (value + offset));
	return true;
}

/*
 * Parse a node id: a number, or the number of a datacenter, a slash, and the
 * number within the datacenter or nothing: "17", "3/17", "3/".  The reason is
 * as above.
 */
bool
sf_server_number_parse_node(SfServerNumber *datacenter, SfServerNumber *node,
							const char *text, const char *hostname,
							char *reason, size_t reason_size)
{
	const char *slash = strchr(text, '/');
	char		before[TEXT_MAX_LEN + 1];
	size_t		len;

	*datacenter = SF_NO_NUMBER;
	*node = SF_NO_NUMBER;
	reason[0] = '\0';
	if (slash == NULL)
		return sf_server_number_parse(node, text, hostname,
									  reason, reason_size);
	len = slash - text;
	if (len == 0 || len > TEXT_MAX_LEN)
		return false;
	memcpy(before, text, len);
	before[len] = '\0';
	if (!sf_server_number_parse(datacenter, before, hostname,
								reason, reason_size))
		return false;
	/* it is stored as a number + 1 of 31 bits */
	if (sf_server_number_value(*datacenter) == INT32_MAX)
	{
		snprintf(reason, reason_size, "The largest datacenter is %d.",
				 INT32_MAX - 1);
		return false;
	}
	return sf_server_number_parse(node, slash + 1, hostname,
								  reason, reason_size);
}
