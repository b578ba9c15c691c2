/*-------------------------------------------------------------------------
 *
 * settings_unknown.c
 *	  Settings snowflake.… that do not exist: a misspelt name must not go
 *	  unnoticed, since the server makes IDs without what it was to say.
 *
 * The server removes them when the library reserves its prefix.  So they are
 * looked for just before, while shared_preload_libraries is processed, and
 * logged when there is shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/settings.h"

#include "nodes/pg_list.h"
#include "runtime/log.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#define PREFIX		"snowflake."
#define MAX_NAME	63

static List *unknown = NIL;		/* names */

static bool
is_ours(const struct config_generic *setting)
{
	return pg_strncasecmp(setting->name, PREFIX, strlen(PREFIX)) == 0;
}

/* Return true if both names have a word in common, apart from the prefix. */
static bool
shares_word(const char *name, const char *other)
{
	char	   *words = pstrdup(name + strlen(PREFIX));
	char	   *rest = NULL;

	for (char *word = strtok_r(words, "._", &rest); word != NULL;
		 word = strtok_r(NULL, "._", &rest))
	{
		const char *at = strstr(other + strlen(PREFIX), word);

		if (at != NULL && (at[-1] == '.' || at[-1] == '_') &&
			(at[strlen(word)] == '\0' || at[strlen(word)] == '_'))
			return true;
	}
	return false;
}

/*
 * Return the setting whose name is nearest to that of one that does not exist;
 * or NULL if none is near.  Half of the letters may differ, as in the server's
 * hints, or all but one word.
 */
const char *
sf_settings_nearest(const char *name)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);
	int			length = strlen(name) - strlen(PREFIX);
	const char *nearest = NULL;
	int			least = INT_MAX;

	if (length < 1 || length > MAX_NAME)
		return NULL;
	for (int i = 0; i < n; i++)
	{
		const char *other = all[i]->name;
		int			distance;

		if (!is_ours(all[i]) || (all[i]->flags & GUC_CUSTOM_PLACEHOLDER) != 0)
			continue;
		distance = varstr_levenshtein(name + strlen(PREFIX), length,
									  other + strlen(PREFIX),
									  strlen(other) - strlen(PREFIX),
									  1, 1, 1, true);
		if (distance * 2 > length && !shares_word(name, other))
			continue;
		if (distance < least)
		{
			least = distance;
			nearest = other;
		}
	}
	return nearest;
}

/* Remember the settings that the server is about to remove. */
void
sf_settings_find_unknown(void)
{
	int			n;
	struct config_generic **all = sf_all_gucs(&n);
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (int i = 0; i < n; i++)
	{
		if (is_ours(all[i]) && (all[i]->flags & GUC_CUSTOM_PLACEHOLDER) != 0)
			unknown = lappend(unknown, pstrdup(all[i]->name));
	}
	MemoryContextSwitchTo(old);
}

/* Log them, in the postmaster, once there is shared memory. */
void
sf_settings_log_unknown(void)
{
	ListCell   *lc;

	foreach(lc, unknown)
	{
		const char *name = lfirst(lc);
		const char *nearest = sf_settings_nearest(name);

		sf_log_event(SF_EVENT_UNKNOWN_SETTING, NULL,
					 nearest == NULL ?
					 "Correct its name, and restart the server: SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%';" :
					 psprintf("Perhaps it was to be \"%s\": correct its name, and restart the server.",
							  nearest),
					 "setting \"%s\" does not exist, and is ignored", name);
	}
}

/* Return true if the server found misspelt settings when it started. */
bool
sf_settings_any_unknown(void)
{
	return unknown != NIL;
}
