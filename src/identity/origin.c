/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  Origin of a data directory: is it a copy that starts as a server of its
 *	  own?
 *
 * The marker, which no base backup contains, says whose directory this is.
 * The primary record, which every copy contains, says that a server has owned
 * the data.  Data with a primary record, and without a marker of this very
 * place, were copied.
 *
 * A standby gets its marker when it starts as one.  After its promotion,
 * pg_control looks as on any server that is not in recovery.  Before it, the
 * server must not start without its signal file.  So a promotion need not
 * write anything, and none is ever refused.  A point-in-time recovery ends
 * like a promotion, but begins without a standby's signal file: what it
 * recovers is a copy.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/origin.h"

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
