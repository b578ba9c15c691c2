/*-------------------------------------------------------------------------
 *
 * message.c
 *	  What messages have in common: times and spans as people read them, texts
 *	  that come from outside the database, and the refusal to write.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/message.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "catalog/pg_extension.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/*
 * Unix milliseconds, and the server's timestamps, which are microseconds since
 * 2000.
 */
#define UNIX_MS_OF_2000 \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * \
	 SECS_PER_DAY * INT64CONST(1000))

/* Convert from Unix ms.  Out of range is infinity: total and monotone. */
TimestampTz
sf_timefmt_from_ms(int64 ms)
{
	if (ms >= END_TIMESTAMP / 1000 + UNIX_MS_OF_2000)
		return DT_NOEND;
	if (ms < MIN_TIMESTAMP / 1000 + UNIX_MS_OF_2000)
		return DT_NOBEGIN;
	return (ms - UNIX_MS_OF_2000) * 1000;
}

/* Convert to Unix ms, rounding down.  The time must be finite. */
int64
sf_timefmt_to_ms(TimestampTz time)
{
	int64		ms = time / 1000;

	Assert(!TIMESTAMP_NOT_FINITE(time));
	if (time % 1000 < 0)
		ms--;
	return ms + UNIX_MS_OF_2000;
}

/* Print a time for messages. */
const char *
sf_timefmt_show(int64 ms)
{
	return pstrdup(timestamptz_to_str(sf_timefmt_from_ms(ms)));
}

/* Print a length of time for messages. */
const char *
sf_timefmt_span(int64 ms)
{
	char		text[40];

	sf_clock_print_span(ms, text, sizeof(text));
	return pstrdup(text);
}

/*
 * The configuration files and the answers of a registry may have another
 * encoding than the database, and a buffer may have cut a character in two.
 * If such a text were shown, the whole query would fail.  A registry may also
 * send commands of a terminal.
 */

/* Return the encoding of the database, or UTF-8 where there is none. */
static int
get_encoding(void)
{
	return OidIsValid(MyDatabaseId) ? GetDatabaseEncoding() : PG_UTF8;
}

/*
 * Make a text valid in the encoding of the database.  Remove a last character
 * that was cut.  If the rest is not valid, show "?" for each of its bytes that
 * is not ASCII.
 */
void
sf_text_make_valid(char *text)
{
	int			length = (int) strlen(text);

	length = pg_encoding_mbcliplen(get_encoding(), text, length, length);
	text[length] = '\0';
	if (pg_verify_mbstr(get_encoding(), text, length, true))
		return;
	for (char *p = text; *p != '\0'; p++)
	{
		if (IS_HIGHBIT_SET(*p))
			*p = '?';
	}
}

/* Do the same, and show "?" for the bytes of control characters. */
void
sf_text_make_printable(char *text)
{
	sf_text_make_valid(text);
	for (unsigned char *p = (unsigned char *) text; *p != '\0'; p++)
	{
		if (*p == 0xC2 && p[1] < 0xA0 && get_encoding() == PG_UTF8)
			p[0] = p[1] = '?';
		else if (*p < ' ' || *p == 0x7F)
			*p = '?';
	}
}

/*
 * Print a text as a literal in ASCII that can be pasted anywhere: somebody
 * else has chosen it.
 */
char *
sf_text_quote(const char *text)
{
	static const char safe[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+=./";
	StringInfoData quoted;

	if (text[strspn(text, safe)] == '\0')
		return psprintf("'%s'", text);
	initStringInfo(&quoted);
	appendStringInfoString(&quoted, "E'");
	for (; *text != '\0'; text++)
		appendStringInfo(&quoted, strchr(safe, *text) != NULL ? "%c" :
						 "\\x%02x", (unsigned char) *text);
	appendStringInfoChar(&quoted, '\'');
	return quoted.data;
}

/* Refuse a call that writes, where nothing may be written: SQLSTATE 25006. */
void
sf_read_only_refuse(const char *function)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", function),
				 errhint("Connect to the primary. Promote this server only if the primary is gone for good.")));
	ereport(ERROR,
			(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
			 errmsg("cannot execute %s in a read-only transaction", function),
			 errhint("Begin the transaction with READ WRITE, or see default_transaction_read_only.")));
}

/* ---- calls that a message asks for ---- */

/* Return the schema of the extension in this database; or InvalidOid. */
Oid
sf_extschema_find(void)
{
	Relation	catalog = table_open(ExtensionRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("snowflake"));
	scan = systable_beginscan(catalog, ExtensionNameIndexId, true, NULL, 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

/*
 * Return the schema for a call of ours that a message prints, quoted: the
 * owner of the database may have put schemas of his own before it in the
 * search_path of who types it.  Where the catalog cannot be read, such as in
 * the postmaster or under a lock of shared memory, return SF_EXTSCHEMA, which
 * is no name in SQL: nobody else can have a function there.
 */
const char *
sf_extschema(void)
{
	const char *name = NULL;

	if (IsTransactionState() && OidIsValid(MyDatabaseId) &&
		InterruptHoldoffCount == 0 && CritSectionCount == 0)
		name = get_namespace_name(sf_extschema_find());
	return name == NULL ? SF_EXTSCHEMA : quote_identifier(name);
}

/* Put the schema into a text of a process that has no database. */
char *
sf_extschema_expand(const char *text)
{
	const char *found;
	StringInfoData expanded;

	initStringInfo(&expanded);
	while ((found = strstr(text, SF_EXTSCHEMA)) != NULL)
	{
		appendBinaryStringInfo(&expanded, text, (int) (found - text));
		appendStringInfoString(&expanded, sf_extschema());
		text = found + strlen(SF_EXTSCHEMA);
	}
	appendStringInfoString(&expanded, text);
	return expanded.data;
}

/* Return a step of a remedy: look what a check of snowflake_status() says. */
char *
sf_check_step(const char *check)
{
	return psprintf("see the remedy of the check \"%s\": SELECT * FROM %s.snowflake_status();",
					check, sf_extschema());
}
