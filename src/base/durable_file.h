/*-------------------------------------------------------------------------
 *
 * durable_file.h
 *	  Small files in the data directory, each written whole or not at all;
 *	  durable, except by sf_file_write_behind().
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DURABLE_FILE_H
#define SF_DURABLE_FILE_H

extern bool sf_durable_file_exists(const char *name);
extern bool sf_durable_file_write(const char *name, const void *data,
								  size_t size, int elevel);
extern bool sf_file_write_behind(const char *name, const void *data,
								 size_t size, int elevel);
extern bool sf_durable_file_read(const char *name, void **data, size_t *size);
extern bool sf_durable_file_read_struct(const char *name, void *data,
										size_t size, uint32 magic);

#endif							/* SF_DURABLE_FILE_H */
