/*-------------------------------------------------------------------------
 *
 * test_id_hash.c
 *	  The hash of an ID: published values, and how many bits of it change with
 *	  a bit of the ID.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/id_hash.h"
#include "harness.h"

#define NIDS	20000

/*
 * The generator's first outputs from the seed 1234567, as its tests in other
 * languages have them (https://rosettacode.org, "Pseudo-random numbers/
 * Splitmix64").
 */
static void
test_splitmix64(void)
{
	static const uint64_t published[] = {
		UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
		UINT64_C(16408922859458223821)
	};

	for (int i = 0; i < LENGTH(published); i++)
		CHECK(sf_id_hash(1234567, i + 1) == published[i]);
}

/* Each bit of an ID changes each bit of the hash, in about half of all IDs. */
static void
test_each_bit(void)
{
	for (int in = 0; in < 64; in++)
	{
		int			changed[64] = {0};

		for (int n = 0; n < NIDS; n++)
		{
			uint64_t	id = UINT64_C(384308787294507008) + n * 4096;
			uint64_t	differs = sf_id_hash(id, 0) ^
				sf_id_hash(id ^ (UINT64_C(1) << in), 0);

			for (int out = 0; out < 64; out++)
				changed[out] += (differs >> out) & 1;
		}
		for (int out = 0; out < 64; out++)
		{
			snprintf(context, sizeof(context), "bit %d of the ID, %d of the hash",
					 in, out);
			CHECK(changed[out] > NIDS * 0.47 && changed[out] < NIDS * 0.53);
		}
	}
}

int
main(void)
{
	start_tests();
	RUN(test_splitmix64);
	RUN(test_each_bit);
	return finish_tests("test_id_hash");
}
