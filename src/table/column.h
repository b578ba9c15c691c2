/*-------------------------------------------------------------------------
 *
 * column.h
 *	  Reader for a column of another user's table that runs none of that user's
 *	  code.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COLUMN_H
#define SF_COLUMN_H

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
	SfColumnVisit visit;
	void	   *arg;
} SfColumn;

extern void sf_column_require_select(Oid relation, const char *name);
extern bool sf_column_read(const SfColumn *column);

#endif							/* SF_COLUMN_H */
