/*-------------------------------------------------------------------------
 *
 * ranges.h
 *	  Lists of integer ranges, such as 0-4095,5000, as a bitmap.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RANGES_H
#define SF_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SF_RANGES_MAX		65536	/* numbers are below this */
#define SF_RANGES_WORDS(n)	(((n) + 31) / 32)

extern bool sf_ranges_parse(uint32_t *map, uint32_t limit, const char *text,
							char *reason, size_t reason_size);

#endif							/* SF_RANGES_H */
