/*-------------------------------------------------------------------------
 *
 * config_record.h
 *	  The config record: layouts and epochs that a database was filled with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CONFIG_RECORD_H
#define SF_CONFIG_RECORD_H

#include "access/xlogdefs.h"
#include "lib/stringinfo.h"

extern bool sf_config_record_exists(void);
extern bool sf_config_record_verify(void);
extern bool sf_config_record_is_other(void);
extern bool sf_config_record_differs(StringInfo detail);
extern const char *sf_config_record_remedy(void);
extern void sf_config_record_fill(void);
extern XLogRecPtr sf_config_record_write(void);
extern bool sf_config_record_endangers(int64 mark_ms);

#endif							/* SF_CONFIG_RECORD_H */
