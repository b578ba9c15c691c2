/*-------------------------------------------------------------------------
 *
 * table.h
 *	  Access to another user's table: access.c and key_layout.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TABLE_H
#define SF_TABLE_H

#include "access/attnum.h"
#include "catalog/objectaddress.h"
#include "layout/layout.h"
#include "nodes/pg_list.h"

/*
 * Takes a value, and the number of values before it from the same table or
 * partition.  Returns true if it wants more of them.
 */
typedef bool (*SfColumnVisit) (int64 value, uint64 nth, void *arg);

typedef struct SfColumn
{
	Oid			relation;
	const char *name;			/* of an integer type or snowflake, or of a
								 * domain */
	int64		lowest;			/* values from here on */
	bool		ascending;		/* or the highest first; needs an index */
	bool		in_passing;		/* do not wait for locks, and use only an
								 * index */
	bool		in_progress;	/* also see rows that may be committed later */
	SfColumnVisit visit;
	void	   *arg;
} SfColumn;

extern void sf_column_require_select(Oid relation, const char *name);
extern bool sf_column_read(const SfColumn *column);

extern void sf_names_keep(const ObjectAddress *objects, uint64 n);

/* The role and settings to restore. */
typedef struct SfOwner
{
	Oid			user;
	int			context;
	int			guc_level;
} SfOwner;

extern Oid	sf_owner_of_relation(Oid relation);
extern void sf_owner_become(SfOwner *before, Oid owner);
extern void sf_owner_switch(Oid role);
extern void sf_owner_leave(const SfOwner *before);

/* key_layout.c: how a column's default makes its IDs */
typedef struct SfKeyLayout
{
	SfLayout	layout;			/* unset without shared memory, unless it has
								 * a name */
	bool		is_shard;
	bool		is_hidden;		/* no literal, two layouts, or too long */
	bool		is_direct;		/* the default is the call, and nothing else */
	bool		is_known;		/* what sf_key_layout_find() has returned */
	const char *name;			/* as in the default; NULL: configured */
	Oid			relation;		/* of the column */
} SfKeyLayout;

extern bool sf_key_layout_find(SfKeyLayout *key, Oid relation,
							   AttrNumber number);
extern void sf_key_layout_require_shown(const SfKeyLayout *key);
extern bool sf_key_layout_is_used(const SfLayout *layout);
extern List *sf_id_makers(void);

#endif							/* SF_TABLE_H */
