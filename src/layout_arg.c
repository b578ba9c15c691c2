/*-------------------------------------------------------------------------
 *
 * layout_arg.c
 *	  Layouts as arguments of SQL functions: a text, or else the configured
 *	  layout.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "layout_arg.h"

#include "generator.h"

#include "guard.h"
#include "mb/pg_wchar.h"
#include "record.h"
#include "register.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* A message shows no more bytes of a layout than this. */
#define MAX_SHOWN	200

/* What a call site remembers: the last text, and what it meant. */
typedef struct Remembered
{
	text	   *text;
	SfLayout	layout;
} Remembered;

static bool
same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/* Read a layout; false if the text is none. */
bool
sf_layout_arg_parse(SfLayout *layout, const text *t)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);
	bool		ok = sf_layout_parse(layout, str, reason, sizeof(reason));

	pfree(str);
	return ok;
}

static void
parse(SfLayout *layout, const text *t)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);

	if (!sf_layout_parse(layout, str, reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid layout: \"%.*s\"",
						pg_mbcliplen(str, strlen(str), MAX_SHOWN), str),
				 errdetail("%s", reason),
				 errhint("SELECT name, layout FROM snowflake_layouts() lists the presets.")));
	pfree(str);
}

/* The configured layout, if this database was filled with it. */
static const SfLayout *
configured(FunctionCallInfo fcinfo)
{
	sf_guard_loaded();

	/* once for each query: a standby may replay another record any time */
	if (fcinfo->flinfo->fn_extra == NULL)
	{
		sf_register_find(fcinfo->flinfo->fn_oid, NULL);
		(void) sf_record_verify();
		fcinfo->flinfo->fn_extra = &sf_node_layout;
	}
	return &sf_node_layout;
}

const SfLayout *
sf_layout_arg_configured(void)
{
	return &sf_node_layout;
}

/* Would this function be refused, if it were called without a layout? */
bool
sf_layout_arg_readable(Oid function)
{
	StringInfoData detail;
	bool		differs;

	if (sf_state == NULL)
		return false;
	sf_register_find(function, NULL);
	initStringInfo(&detail);
	differs = sf_record_exists() && sf_record_differs(&detail);
	pfree(detail.data);
	return !differs;
}

/*
 * The layout that argument n names, or the configured one where the function
 * was called without.  Throws SQLSTATE 22023 (not a layout), or 55000 (not
 * preloaded, or configured otherwise than recorded).
 */
const SfLayout *
sf_layout_arg(FunctionCallInfo fcinfo, int n)
{
	Remembered *r = fcinfo->flinfo->fn_extra;
	text	   *t;

	if (n >= PG_NARGS())
		return configured(fcinfo);
	t = PG_GETARG_TEXT_PP(n);
	if (r == NULL || !same_text(r->text, t))
	{
		Size		size = VARSIZE_ANY(t);

		/* one allocation for both: an error leaves nothing half done */
		r = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(*r) + size);
		r->text = memcpy(r + 1, t, size);
		parse(&r->layout, t);
		if (fcinfo->flinfo->fn_extra != NULL)
			pfree(fcinfo->flinfo->fn_extra);
		fcinfo->flinfo->fn_extra = r;
	}
	return &r->layout;
}

/* SQLSTATE 22003 if this layout cannot have made this ID. */
void
sf_layout_arg_require_fit(const SfLayout *layout, int64 id)
{
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	if (sf_layout_fits(layout, id))
		return;
	sf_layout_print(layout, spelled, sizeof(spelled));
	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("ID " INT64_FORMAT " is negative", id),
				 errdetail("No layout makes such IDs."),
				 errhint("Use an ID that a layout has made; only snowflake_timestamp() and the functions for one field take any bigint.")));
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("ID " INT64_FORMAT " does not fit the layout", id),
			 errdetail("The layout \"%s\" has %d bits.", spelled, layout->bits),
			 errhint("SELECT * FROM snowflake_inspect(" INT64_FORMAT ") shows in which layouts it reads well.", id)));
}

/* An argument that must be there.  Throws SQLSTATE 22004. */
int32
sf_layout_arg_number(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name),
				 errhint("Give a number; COALESCE() gives one where there is none.")));
	return PG_GETARG_INT32(n);
}

/*
 * A shard that the layout has room for, and that this server may issue for.
 * Throws SQLSTATE 22004, 22023, 55000.
 */
uint32
sf_layout_arg_shard(FunctionCallInfo fcinfo, int n)
{
	int32		shard = sf_layout_arg_number(fcinfo, n, "shard");

	if (shard < 0 || shard >= sf_state->nshards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard %d is out of range", shard),
				 errdetail("snowflake.shard_layout has room for shards 0 to %d.",
						   sf_state->nshards - 1),
				 errhint("Use a shard in that range, or a shard layout with more bits for the shard.")));
	sf_generator_require_shard(shard);
	return shard;
}
