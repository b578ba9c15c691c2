/*-------------------------------------------------------------------------
 *
 * file.h
 *	  Small files in the data directory: durable, and whole or not at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FILE_H
#define SF_FILE_H

extern bool sf_file_exists(const char *name);
extern bool sf_file_write(const char *name, const void *data, size_t size,
						  int elevel);
extern bool sf_file_read(const char *name, void **data, size_t *size);

#endif							/* SF_FILE_H */
