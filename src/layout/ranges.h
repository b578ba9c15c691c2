/*-------------------------------------------------------------------------
 *
 * ranges.h
 *	  Lists of integer ranges, such as 0-4095,5000, as bitmaps.
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

#define SF_RANGES_MAX		65536	/* all numbers are below this */
#define SF_RANGES_WORDS(n)	(((n) + 31) / 32)

/* Size of a buffer for any list of numbers below n, with a final zero. */
#define SF_RANGES_TEXT_SIZE(n)	((size_t) (n) * 6 + 1)

extern bool sf_ranges_parse(uint32_t *map, uint32_t limit, const char *text,
							char *reason, size_t reason_size);
extern size_t sf_ranges_print(const uint32_t *map, uint32_t limit, char *buf,
							  size_t size);

static inline bool
sf_ranges_has(const uint32_t *map, uint32_t n)
{
	return (map[n / 32] >> (n % 32)) & 1;
}

static inline void
sf_ranges_add(uint32_t *map, uint32_t n)
{
	map[n / 32] |= UINT32_C(1) << (n % 32);
}

#endif							/* SF_RANGES_H */
