/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  Is this data directory a copy that starts as a server of its own?
 *
 * A marker that is no part of any base backup says whose directory this is,
 * and a record that is part of all of them says that the data are somebody's.
 * Data with a record and without a marker of this very place were copied.
 *
 * A standby gets its marker when it starts as one.  Once it was promoted,
 * pg_control says of it what it says of any server that is not in recovery;
 * until then it is not to start without its signal file.  So no promotion has
 * to leave anything behind, and none is ever refused.  A recovery to a point
 * in time ends in the same way as a promotion, but has begun without a
 * standby's signal: what it recovers is a copy.
 *
 *-------------------------------------------------------------------------
 */
#include "origin.h"

SfOrigin
sf_origin_judge(const SfEvidence *evidence)
{
	if (evidence->follows)
		return SF_ORIGIN_STANDBY;
	if (!evidence->recorded)
		return SF_ORIGIN_HERE;
	if (!evidence->marked)
		return SF_ORIGIN_UNMARKED;
	if (!evidence->same_machine)
		return SF_ORIGIN_MACHINE;
	if (!evidence->same_path)
		return SF_ORIGIN_PATH;
	if (!evidence->same_files)
		return SF_ORIGIN_FILES;
	if (evidence->was_standby && evidence->in_recovery)
		return SF_ORIGIN_UNPROMOTED;
	return SF_ORIGIN_HERE;
}
