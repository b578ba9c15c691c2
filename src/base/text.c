/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Texts that come from outside the database.
 *
 * The configuration files and the answers of a registry may have another
 * encoding than the database, and a buffer may have cut a character in two.
 * If such a text were shown, the whole query would fail.  A registry may also
 * send commands of a terminal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/text.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

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
