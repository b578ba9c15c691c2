/*-------------------------------------------------------------------------
 *
 * records.h
 *	  Records of slots as JSON, for registries that keep texts.
 *
 * What is for people need not be there.  Reading throws errors where a text is
 * no JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RECORDS_H
#define SF_RECORDS_H

#include "lib/stringinfo.h"

#include "registry.h"

extern char *sf_records_print_number(uint64 number);
extern char *sf_records_print(const SfRecord *record, const char *address);
extern bool sf_records_parse(const char *text, SfRecord *record);
extern bool sf_records_parse_node(const char *text, uint32_t *node);
extern bool sf_records_parse_owner(const char *text, uint64_t *owner);
extern int	sf_records_join(SfRecord *records, int n);

#endif							/* SF_RECORDS_H */
