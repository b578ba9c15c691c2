/*-------------------------------------------------------------------------
 *
 * server_number.h
 *	  Parser for a server's number, which may come from the host's name or from
 *	  the environment.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SERVER_NUMBER_H
#define SF_SERVER_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The number of a node or a datacenter, or none.  It holds the number + 1, so
 * that one word, which may be atomic or part of a file, can say both: 8 is the
 * number 7.
 */
typedef uint32_t SfServerNumber;

#define SF_NO_NUMBER	((SfServerNumber) 0)

static inline SfServerNumber
sf_server_number_of(uint32_t value)
{
	return value + 1;
}

/* Return true if the number, or none, fits into this many bits. */
static inline bool
sf_server_number_fits(SfServerNumber number, int bits)
{
	return (int64_t) number <= INT64_C(1) << bits;
}

/* Return the value of a number that is not SF_NO_NUMBER. */
static inline uint32_t
sf_server_number_value(SfServerNumber number)
{
	return number - 1;
}

extern bool sf_server_number_parse(SfServerNumber *number, const char *text,
								   const char *hostname,
								   char *reason, size_t reason_size);
extern bool sf_server_number_parse_node(SfServerNumber *datacenter,
										SfServerNumber *node,
										const char *text,
										const char *hostname,
										char *reason, size_t reason_size);

#endif							/* SF_SERVER_NUMBER_H */
