/*-------------------------------------------------------------------------
 *
 * place.c
 *	  The place of a data directory: machine, path and files.  A copy of the
 *	  directory has another place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/place.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/hashfn.h"

#define MACHINE_FILE	"/etc/machine-id"

/* Return a hash of the machine's ID; 0 in containers without one. */
static uint64
find_machine(void)
{
	char		text[64] = "";
	FILE	   *file = AllocateFile(MACHINE_FILE, PG_BINARY_R);
	size_t		size;

	if (file == NULL)
		return 0;
	size = fread(text, 1, sizeof(text) - 1, file);
	FreeFile(file);
	text[size] = '\0';
	text[strcspn(text, "\n")] = '\0';

	/* systemd writes this until the machine's first start has set its ID */
	if (text[0] == '\0' || strcmp(text, "uninitialized") == 0)
		return 0;
	return hash_bytes_extended((unsigned char *) text,
							   (int) strlen(text), 0) | 1;
}

bool
sf_place_make_dir(int elevel)
{
	if (MakePGDirectory(SF_PLACE_DIR) != 0 && errno != EEXIST)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m",
						SF_PLACE_DIR)));
		return false;
	}
	return fsync_fname_ext("global", true, true, elevel) == 0;
}

/* Find our place.  SF_PLACE_DIR must exist.  The path is padded with zeros. */
void
sf_place_find(SfPlace *place)
{
	struct stat st;

	memset(place, 0, sizeof(SfPlace));
	place->machine = find_machine();
	if (getcwd(place->path, sizeof(place->path)) == NULL)
		place->path[0] = '\0';
	if (stat(SF_PLACE_DIR, &st) == 0)
		place->files = (uint64) st.st_ino;
}
