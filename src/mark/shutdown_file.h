/*-------------------------------------------------------------------------
 *
 * shutdown_file.h
 *	  The shutdown file: tells the next start where the IDs of a life ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHUTDOWN_FILE_H
#define SF_SHUTDOWN_FILE_H

extern int64 sf_shutdown_file_issued_below(void);
extern void sf_shutdown_file_at_start(void);
extern int64 sf_shutdown_file_floor(int64 stamp, int64 found_ms);

#endif							/* SF_SHUTDOWN_FILE_H */
