/*-------------------------------------------------------------------------
 *
 * message.h
 *	  What messages have in common: times and spans as people read them, texts
 *	  that come from outside the database, and the refusal to write.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MESSAGE_H
#define SF_MESSAGE_H

#include "datatype/timestamp.h"

extern TimestampTz sf_timefmt_from_ms(int64 ms);
extern int64 sf_timefmt_to_ms(TimestampTz time);
extern const char *sf_timefmt_show(int64 ms);
extern const char *sf_timefmt_span(int64 ms);
extern void sf_text_make_valid(char *text);
extern void sf_text_make_printable(char *text);
extern char *sf_text_quote(const char *text);
extern void sf_read_only_refuse(const char *function);

/* Stands for the schema of the extension where no database is at hand. */
#define SF_EXTSCHEMA	"@extschema@"

extern Oid	sf_extschema_find(void);
extern const char *sf_extschema(void);
extern char *sf_extschema_expand(const char *text);
extern char *sf_check_step(const char *check);

#endif							/* SF_MESSAGE_H */
