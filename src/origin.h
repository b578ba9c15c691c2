/*-------------------------------------------------------------------------
 *
 * origin.h
 *	  Where a data directory comes from that a server starts with.
 *
 * Pure: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ORIGIN_H
#define SF_ORIGIN_H

#include <stdbool.h>

/*
 * What is found at the start.  The record is in the data, and goes with every
 * copy of it; the marker is this directory's, and names its place.
 */
typedef struct SfEvidence
{
	bool		follows;		/* it starts as a standby */
	bool		recorded;		/* a server has had this data as its own */
	bool		marked;
	bool		same_machine;	/* as the marker says, or not known */
	bool		same_path;
	bool		same_files;
	bool		was_standby;	/* the marker is a standby's */
	bool		in_recovery;	/* what ran last had not been promoted */
} SfEvidence;

typedef enum SfOrigin
{
	SF_ORIGIN_HERE,				/* it goes on, was promoted here, or is new */
	SF_ORIGIN_STANDBY,
	SF_ORIGIN_UNMARKED,			/* what follows are copies */
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
