/*-------------------------------------------------------------------------
 *
 * id_hash.h
 *	  The hash of an ID, for values of the type snowflake.
 *
 * IDs of one server differ in the time and in the lowest bits of the sequence.
 * A hash that folds both halves of a bigint by XOR, as the server's does, has
 * few values for them.  Here each bit of the ID changes each bit of the hash.
 *
 * Hash indexes and hash partitions keep what this returns: never change it.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ID_HASH_H
#define SF_ID_HASH_H

#include <stdint.h>

/*
 * Return 64 bits for an ID and a seed.  This is the generator SplitMix64 of
 * Sebastiano Vigna (https://prng.di.unimi.it/splitmix64.c), which mixes by
 * David Stafford's variant 13 of MurmurHash3's finalizer: from the state "id",
 * "seed" steps on.  The lowest 32 bits with the seed 0 are the short hash.
 */
static inline uint64_t
sf_id_hash(uint64_t id, uint64_t seed)
{
	uint64_t	z = id + seed * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#endif							/* SF_ID_HASH_H */
