/*-------------------------------------------------------------------------
 *
 * encode.c
 *	  SQL functions for IDs as texts: check arguments, call, return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "fmgr.h"
#include "layout/text_format.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

/* A message shows at most this many bytes of a text. */
#define MAX_SHOWN	40

SF_FUNCTION(snowflake_encode);
SF_FUNCTION(snowflake_parse);

/* Return how much of a text a message shows. */
static int
shown(const char *str)
{
	return pg_mbcliplen(str, strlen(str), MAX_SHOWN);
}

/* Return the format that argument n names.  Throws SQLSTATE 22023. */
static const SfTextFormat *
format_arg(FunctionCallInfo fcinfo, int n)
{
	text	   *name = PG_GETARG_TEXT_PP(n);
	const SfTextFormat *digits = sf_text_format_find(VARDATA_ANY(name),
													 VARSIZE_ANY_EXHDR(name));

	if (digits == NULL)
	{
		char	   *str = text_to_cstring(name);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no format \"%.*s\"", shown(str), str),
				 errhint("Formats are base32, base58 and base62.")));
	}
	return digits;
}

/*
 * snowflake_encode(id bigint, format text) returns text
 *
 * Throws SQLSTATE 22003 (negative), 22023 (no such format).
 */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const SfTextFormat *digits = format_arg(fcinfo, 1);
	char		buf[SF_DIGITS_SIZE];

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("ID " INT64_FORMAT " is negative", id),
				 errdetail("No layout makes such IDs, and they have no text form."),
				 errhint("Use an ID that a layout has made.")));
	sf_text_format_print(digits, id, buf);
	PG_RETURN_TEXT_P(cstring_to_text(buf));
}

static void
refuse_text(const SfTextFormat *digits, const char *str,
			const SfTextFault *fault)
{
	char		largest[SF_DIGITS_SIZE];

	if (!fault->out_of_range)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid ID in %s: \"%.*s\"",
						digits->name, shown(str), str),
				 errdetail("%s", fault->reason),
				 errhint("%s", digits->rules)));
	sf_text_format_print(digits, PG_INT64_MAX, largest);
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("ID in %s is out of range: \"%.*s\"",
					digits->name, shown(str), str),
			 errdetail("%s", fault->reason),
			 errhint("The largest ID in %s is %s.", digits->name, largest)));
}

/*
 * snowflake_parse(text text, format text) returns bigint
 *
 * Throws SQLSTATE 22P02 (not a text of this format), 22003 (beyond bigint),
 * 22023 (no such format).
 */
Datum
snowflake_parse(PG_FUNCTION_ARGS)
{
	text	   *t = PG_GETARG_TEXT_PP(0);
	const SfTextFormat *digits = format_arg(fcinfo, 1);
	SfTextFault fault;
	int64		id;

	if (!sf_text_format_parse(digits, &id, VARDATA_ANY(t),
							  VARSIZE_ANY_EXHDR(t), &fault))
		refuse_text(digits, text_to_cstring(t), &fault);
	PG_RETURN_INT64(id);
}
