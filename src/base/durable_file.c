/*-------------------------------------------------------------------------
 *
 * durable_file.c
 *	  Small files in the data directory, each written whole or not at all;
 *	  durable, except by sf_file_write_behind(); and the directory's place.
 *
 * A file ends with the checksum of its content.  Names are relative to the
 * data directory, which is the working directory of all processes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/durable_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/memutils.h"

static pg_crc32c
checksum(const void *data, size_t size)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, size);
	FIN_CRC32C(crc);
	return crc;
}

bool
sf_durable_file_exists(const char *name)
{
	struct stat st;

	return stat(name, &st) == 0;
}

/* Write a temporary file with this process's ID in its name. */
static bool
write_temporary(const char *temporary, const void *data, size_t size,
				int elevel)
{
	pg_crc32c	crc = checksum(data, size);
	FILE	   *file;
	bool		written;

	file = AllocateFile(temporary, PG_BINARY_W);
	if (file == NULL)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", temporary)));
		return false;
	}
	written = fwrite(data, size, 1, file) == 1 &&
		fwrite(&crc, sizeof(crc), 1, file) == 1;
	if (FreeFile(file) != 0 || !written)
	{
		int			save_errno = errno;

		unlink(temporary);
		errno = save_errno;
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temporary)));
		return false;
	}
	return true;
}

bool
sf_durable_file_write(const char *name, const void *data, size_t size,
					  int elevel)
{
	char		temporary[MAXPGPATH];

	snprintf(temporary, sizeof(temporary), "%s.%d.tmp", name, MyProcPid);
	return write_temporary(temporary, data, size, elevel) &&
		durable_rename(temporary, name, elevel) == 0;
}

/*
 * Write a file without waiting for the disk.  It survives a crash of this
 * server, but may not survive a crash of the machine.
 */
bool
sf_file_write_behind(const char *name, const void *data, size_t size,
					 int elevel)
{
	char		temporary[MAXPGPATH];

	snprintf(temporary, sizeof(temporary), "%s.%d.tmp", name, MyProcPid);
	if (!write_temporary(temporary, data, size, elevel))
		return false;
	if (rename(temporary, name) == 0)
		return true;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not rename file \"%s\" to \"%s\": %m",
					temporary, name)));
	return false;
}

/*
 * Read a file's content without its checksum into palloc()ed memory, or NULL
 * if there is no such file.  Return false if the file is damaged.
 */
bool
sf_durable_file_read(const char *name, void **data, size_t *size)
{
	FILE	   *file = AllocateFile(name, PG_BINARY_R);
	struct stat st;
	pg_crc32c	crc;
	bool		whole;

	*data = NULL;
	*size = 0;
	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", name)));
		return true;
	}
	whole = fstat(fileno(file), &st) == 0 &&
		st.st_size > (off_t) sizeof(crc) && st.st_size < (off_t) MaxAllocSize;
	if (whole)
	{
		*size = st.st_size - sizeof(crc);
		*data = palloc(*size);
		whole = fread(*data, *size, 1, file) == 1 &&
			fread(&crc, sizeof(crc), 1, file) == 1 &&
			EQ_CRC32C(crc, checksum(*data, *size));
	}
	FreeFile(file);
	return whole;
}

/*
 * Read a file that holds one struct, which begins with this magic number.
 * Return false, and zeroes, if the file is missing, damaged, or of another
 * version.
 */
bool
sf_durable_file_read_struct(const char *name, void *data, size_t size,
							uint32 magic)
{
	void	   *content;
	size_t		length;
	bool		whole = sf_durable_file_read(name, &content, &length) &&
		length == size && *(uint32 *) content == magic;

	Assert(size >= sizeof(magic));
	memset(data, 0, size);
	if (whole)
		memcpy(data, content, size);
	if (content != NULL)
		pfree(content);
	return whole;
}

/* ---- the place of the data directory ---- */

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
