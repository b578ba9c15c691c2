/*-------------------------------------------------------------------------
 *
 * settings_file.c
 *	  Which file a setting comes from, for remedies that name files.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

#define AUTO_FILE	"postgresql.auto.conf"

static bool
may_see_files(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* Return the server's own file; only some roles may see its path. */
const char *
sf_settings_file(void)
{
	return may_see_files() && ConfigFileName != NULL ?
		ConfigFileName : "postgresql.conf";
}

/* Return what the server keeps of a setting. */
static const struct config_generic *
find_setting(const char *name)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	}
	elog(ERROR, "there is no setting \"%s\"", name);
}

/* Return true if the files set this when this process read them last. */
bool
sf_settings_is_in_file(const char *name)
{
	return (find_setting(name)->status & GUC_IS_IN_FILE) != 0;
}

/*
 * Return true if the files have another value than this process uses, or none,
 * and only a restart would bring it.
 */
bool
sf_settings_awaits_restart(const char *name)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(all[i]->name, name) == 0)
			return (all[i]->status & GUC_PENDING_RESTART) != 0;
	}
	return false;
}

/*
 * Return true if ALTER SYSTEM has set this: then a line in the server's own
 * file has no effect.  False for roles that may not see where settings come
 * from.
 */
bool
sf_settings_is_altered(const char *name)
{
	const char *file = find_setting(name)->sourcefile;
	size_t		length = file == NULL ? 0 : strlen(file);

	return may_see_files() && length >= strlen(AUTO_FILE) &&
		strcmp(file + length - strlen(AUTO_FILE), AUTO_FILE) == 0;
}
