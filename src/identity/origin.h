/*-------------------------------------------------------------------------
 *
 * origin.h
 *	  Origin of the data directory that a server starts with.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ORIGIN_H
#define SF_ORIGIN_H

#include <stdbool.h>

/*
 * What is found at the start.  The primary record is part of the data, and of
 * every copy.  The marker belongs to this directory, and names its place.
 */
typedef struct SfEvidence
{
	bool		follows;		/* the server starts as a standby */
	bool		recorded;		/* there is a primary record */
	bool		marked;
	bool		same_machine;	/* as in the marker, or unknown */
	bool		same_path;
	bool		same_files;
	bool		was_standby;	/* the marker is a standby's */
	bool		in_recovery;	/* the last run was not promoted */
} SfEvidence;

typedef enum SfOrigin
{
	SF_ORIGIN_HERE,				/* continued, promoted here, or new */
	SF_ORIGIN_STANDBY,
	SF_ORIGIN_UNMARKED,			/* this and all below are copies */
	SF_ORIGIN_MACHINE,
	SF_ORIGIN_PATH,
	SF_ORIGIN_FILES,
	SF_ORIGIN_UNPROMOTED
} SfOrigin;

extern SfOrigin sf_origin_judge(const SfEvidence *evidence);

static inline bool
sf_origin_is_copy(SfOrigin origin)
{
	return origin >= SF_ORIGIN_UNMARKED;
}

#endif							/* SF_ORIGIN_H */
