/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Texts that come from outside the database.
 *
 * The configuration files and the answers of a registry may have another
 * encoding than the database, and a buffer may have cut a character in two.
 * If such a text were shown, the whole query would fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/text.h"

#include "mb/pg_wchar.h"

/*
 * Make a text valid in the encoding of the database.  Remove a last character
 * that was cut.  If the rest is not valid, show "?" for each of its bytes that
 * is not ASCII.
 */
void
sf_text_make_valid(char *text)
{
	int			length = (int) strlen(text);

	length = pg_mbcliplen(text, length, length);
	text[length] = '\0';
	if (pg_verifymbstr(text, length, true))
		return;
	for (char *p = text; *p != '\0'; p++)
	{
		if (IS_HIGHBIT_SET(*p))
			*p = '?';
	}
}
