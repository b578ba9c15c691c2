/*-------------------------------------------------------------------------
 *
 * test_origin.c
 *	  The origin of a data directory: what can happen to a server, and the
 *	  verdict from what the server finds.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/origin.h"
#include "harness.h"

/* A server that goes on in its place. */
static const SfEvidence at_home = {
	.recorded = true, .marked = true, .same_machine = true,
	.same_path = true, .same_files = true
};

static SfEvidence evidence;

static SfOrigin
judge(void)
{
	return sf_origin_judge(&evidence);
}

static void
test_going_on(void)
{
	evidence = at_home;
	CHECK_EQ(judge(), SF_ORIGIN_HERE);

	/* the very first start, or a crash between the writing of the two files */
	memset(&evidence, 0, sizeof(evidence));
	CHECK_EQ(judge(), SF_ORIGIN_HERE);
	evidence.marked = true;
	CHECK_EQ(judge(), SF_ORIGIN_HERE);
}

static void
test_copies(void)
{
	evidence = at_home;
	evidence.marked = false;
	CHECK_EQ(judge(), SF_ORIGIN_UNMARKED);
	evidence = at_home;
	evidence.same_machine = false;
	CHECK_EQ(judge(), SF_ORIGIN_MACHINE);
	evidence = at_home;
	evidence.same_path = false;
	CHECK_EQ(judge(), SF_ORIGIN_PATH);
	evidence = at_home;
	evidence.same_files = false;
	CHECK_EQ(judge(), SF_ORIGIN_FILES);
}

/* A standby is accepted whatever else is found; promoted, it goes on. */
static void
test_standby(void)
{
	for (int i = 0; i < 128; i++)
	{
		SfEvidence	e = {
			.follows = true, .recorded = i & 1, .marked = i & 2,
			.same_machine = i & 4, .same_path = i & 8, .same_files = i & 16,
			.was_standby = i & 32, .in_recovery = i & 64
		};

		CHECK_EQ(sf_origin_judge(&e), SF_ORIGIN_STANDBY);
	}
	evidence = at_home;
	evidence.was_standby = true;
	CHECK_EQ(judge(), SF_ORIGIN_HERE);
	evidence.in_recovery = true;
	CHECK_EQ(judge(), SF_ORIGIN_UNPROMOTED);

	/* a crash during the recovery of a server that was never a standby */
	evidence.was_standby = false;
	CHECK_EQ(judge(), SF_ORIGIN_HERE);
}

/* If one sign shows a copy, no other sign changes the verdict. */
static void
test_signs_do_not_cancel(void)
{
	for (int i = 0; i < 64; i++)
	{
		SfEvidence	e = {
			.recorded = true, .marked = i & 1, .same_machine = i & 2,
			.same_path = i & 4, .same_files = i & 8, .was_standby = i & 16,
			.in_recovery = i & 32
		};
		bool		copy = (i & 15) != 15 || (i & 48) == 48;

		CHECK_EQ(sf_origin_is_copy(sf_origin_judge(&e)), copy);
		e.recorded = false;
		CHECK(!sf_origin_is_copy(sf_origin_judge(&e)));
	}
}

int
main(void)
{
	start_tests();
	RUN(test_going_on);
	RUN(test_copies);
	RUN(test_standby);
	RUN(test_signs_do_not_cancel);
	return finish_tests("test_origin");
}
