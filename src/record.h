/*-------------------------------------------------------------------------
 *
 * record.h
 *	  The configuration as recorded in a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RECORD_H
#define SF_RECORD_H

#include "access/xlogdefs.h"
#include "lib/stringinfo.h"

extern bool sf_record_exists(void);
extern bool sf_record_verify(void);
extern bool sf_record_is_other(void);
extern bool sf_record_differs(StringInfo detail);
extern const char *sf_record_remedy(void);
extern void sf_record_fill(void);
extern XLogRecPtr sf_record_write(void);
extern bool sf_record_endangers(int64 mark_ms);

#endif							/* SF_RECORD_H */
