/*-------------------------------------------------------------------------
 *
 * preconditions.c
 *	  Checks that a call must pass before it makes an ID, and their errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/preconditions.h"

#include "base/read_only.h"
#include "catalog/pg_authid.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "runtime/counts.h"
#include "runtime/settings.h"
#include "runtime/shard_counter.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

/* Print a statement that adds the library to the list of ALTER SYSTEM. */
static char *
alter_preload(void)
{
	char	   *text = pstrdup(shared_preload_libraries_string);
	List	   *others;
	ListCell   *cell;
	StringInfoData statement;

	(void) SplitDirectoriesString(text, ',', &others);
	initStringInfo(&statement);
	appendStringInfoString(&statement,
						   "ALTER SYSTEM SET shared_preload_libraries = ");
	foreach(cell, others)
		appendStringInfo(&statement, "%s, ",
						 quote_literal_cstr(lfirst(cell)));
	appendStringInfoString(&statement, "'snowflake';");
	return statement.data;
}

/* Return the remedy for a library that is not preloaded. */
const char *
sf_preload_hint(void)
{
	const char *others = "";

	/* quote each item by itself: one literal would name one library */
	if (sf_settings_is_altered("shared_preload_libraries"))
		return psprintf("ALTER SYSTEM has set shared_preload_libraries (in postgresql.auto.conf), which a line in another file does not change. Run this, and restart the server:\n%s",
						alter_preload());

	/* only some roles may see the other libraries */
	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS) &&
		shared_preload_libraries_string != NULL)
		others = shared_preload_libraries_string;
	return psprintf("Add to %s, and restart the server:\nshared_preload_libraries = '%s%ssnowflake'",
					sf_settings_file(), others,
					others[0] != '\0' ? ", " : "");
}

/* SQLSTATE 55000 */
void
sf_refuse_unloaded(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake must be loaded via shared_preload_libraries"),
			 errhint("%s", sf_preload_hint())));
}

/* SQLSTATE 25006 */
void
sf_refuse_read_only(const char *function)
{
	sf_stats_count(SF_STAT_REFUSED_READ_ONLY);
	sf_read_only_refuse(function);
}

/* Throw SQLSTATE 55000 unless this server may issue for this shard. */
void
sf_require_shard(uint32 shard)
{
	if (sf_shard_is_open(shard))
		return;
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server may not issue IDs for shard %u", shard),
			 errdetail("snowflake.shards does not list it."),
			 errhint("If no other server has the shard, have an administrator add it to snowflake.shards, and reload: SELECT pg_reload_conf(); If another server had it before, first run here, as a superuser, with the last ID that the check \"shards\" of its snowflake_status() names: SELECT snowflake_advance(ID, layout => 'shard');")));
}
