/*-------------------------------------------------------------------------
 *
 * settings_file.c
 *	  The files that settings come from, for remedies that name them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "settings.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

#define AUTO_FILE	"postgresql.auto.conf"

static bool
may_know(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* The server's own file; where it is, not everybody may know. */
const char *
sf_settings_file(void)
{
	return may_know() && ConfigFileName != NULL ?
		ConfigFileName : "postgresql.conf";
}

/*
 * Has ALTER SYSTEM set this?  Then a line in the server's own file changes
 * nothing.  False for those who may not know where settings come from.
 */
bool
sf_settings_is_altered(const char *name)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);

	if (!may_know())
		return false;
	for (int i = 0; i < n; i++)
	{
		const char *file = all[i]->sourcefile;
		size_t		length = file == NULL ? 0 : strlen(file);

		if (strcmp(all[i]->name, name) == 0)
			return length >= strlen(AUTO_FILE) &&
				strcmp(file + length - strlen(AUTO_FILE), AUTO_FILE) == 0;
	}
	return false;
}
