/*-------------------------------------------------------------------------
 *
 * number.h
 *	  The number of a server: as it is written, from the host's name, or from
 *	  the environment.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NUMBER_H
#define SF_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern bool sf_number_parse(uint32_t *number_plus_1, const char *text,
							const char *hostname,
							char *reason, size_t reason_size);

#endif							/* SF_NUMBER_H */
