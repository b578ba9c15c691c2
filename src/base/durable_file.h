/*-------------------------------------------------------------------------
 *
 * durable_file.h
 *	  Small files in the data directory, each written whole or not at all;
 *	  durable, except by sf_file_write_behind(); and the directory's place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DURABLE_FILE_H
#define SF_DURABLE_FILE_H

#include "common/file_utils.h"
#include "storage/fd.h"

extern bool sf_durable_file_exists(const char *name);
extern bool sf_durable_file_write(const char *name, const void *data,
								  size_t size, int elevel);
extern bool sf_file_write_behind(const char *name, const void *data,
								 size_t size, int elevel);
extern bool sf_durable_file_read(const char *name, void **data, size_t *size);
extern bool sf_durable_file_read_struct(const char *name, void *data,
										size_t size, uint32 magic);

/* ---- the place of the data directory ---- */

/*
 * A directory for files that a copy must not have.  Base backups and the usual
 * tools leave out every directory of this name; pg_rewind removes it from its
 * target.
 */
#define SF_PLACE_DIR	"global/" PG_TEMP_FILES_DIR

/* A copy of the directory has another place. */
typedef struct SfPlace
{
	uint64		machine;		/* 0: unknown */
	uint64		files;			/* inode of SF_PLACE_DIR; a copy of the files
								 * has another */
	char		path[MAXPGPATH];	/* of the data directory */
} SfPlace;

extern bool sf_place_make_dir(int elevel);
extern void sf_place_find(SfPlace *place);

#endif							/* SF_DURABLE_FILE_H */
