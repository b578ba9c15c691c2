/*-------------------------------------------------------------------------
 *
 * records.h
 *	  Slot records as JSON, for registries that store texts.
 *
 * The fields that only people read may be missing.  Reading throws an error if
 * a text is not JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RECORDS_H
#define SF_RECORDS_H

#include "lib/stringinfo.h"

#include "lease/registry.h"

extern char *sf_records_print_number(uint64 number);
extern char *sf_records_print(const SfSlotRecord *record, const char *address);
extern bool sf_records_parse(const char *text, SfSlotRecord *record);
extern bool sf_records_parse_node(const char *text, uint32_t *node);
extern bool sf_records_parse_owner(const char *text, uint64_t *owner);
extern int	sf_records_join(SfSlotRecord *records, int n);

#endif							/* SF_RECORDS_H */
