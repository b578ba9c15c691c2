/*-------------------------------------------------------------------------
 *
 * config_record.h
 *	  The config record: layouts and epochs that a database was filled with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CONFIG_RECORD_H
#define SF_CONFIG_RECORD_H

#include "lib/stringinfo.h"
#include "mark/durable_number.h"

extern bool sf_config_record_exists(const SfDurableNumbers *numbers);
extern bool sf_config_record_is_other(const SfDurableNumbers *numbers);
extern bool sf_config_record_differs(const SfDurableNumbers *numbers,
									 StringInfo detail);
extern const char *sf_config_record_remedy(const SfDurableNumbers *numbers);
extern bool sf_config_record_endangers(const SfDurableNumbers *numbers);
extern bool sf_config_record_verify(const SfDurableNumbers *numbers);
extern void sf_config_record_require(Oid function);
extern void sf_config_record_fill(void);
extern void sf_config_record_replace(void);

#endif							/* SF_CONFIG_RECORD_H */
