/*-------------------------------------------------------------------------
 *
 * read_only.h
 *	  The refusal of a call that writes, where nothing may be written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_READ_ONLY_H
#define SF_READ_ONLY_H

extern void sf_read_only_refuse(const char *function);

#endif							/* SF_READ_ONLY_H */
