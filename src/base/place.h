/*-------------------------------------------------------------------------
 *
 * place.h
 *	  The place of a data directory: machine, path and files.  A copy of the
 *	  directory has another place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PLACE_H
#define SF_PLACE_H

#include "common/file_utils.h"
#include "storage/fd.h"

/*
 * A directory for files that a copy must not have.  Base backups and the usual
 * tools leave out every directory of this name; pg_rewind removes it from its
 * target.
 */
#define SF_PLACE_DIR	"global/" PG_TEMP_FILES_DIR

typedef struct SfPlace
{
	uint64		machine;		/* 0: unknown */
	uint64		files;			/* inode of SF_PLACE_DIR; a copy of the files
								 * has another */
	char		path[MAXPGPATH];	/* of the data directory */
} SfPlace;

extern bool sf_place_make_dir(int elevel);
extern void sf_place_find(SfPlace *place);

#endif							/* SF_PLACE_H */
