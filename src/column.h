/*-------------------------------------------------------------------------
 *
 * column.h
 *	  Reading a column of somebody's table, without running what is his.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COLUMN_H
#define SF_COLUMN_H

/*
 * Is given a value, and how many of its table, or partition, came before;
 * says whether it wants more of that.
 */
typedef bool (*SfColumnVisit) (int64 value, uint64 nth, void *arg);

typedef struct SfColumn
{
	Oid			relation;
	const char *name;			/* of an integer type, or a domain over one */
	int64		lowest;			/* values from here on */
	bool		ascending;		/* or the highest first, where there is an
								 * index */
	bool		in_passing;		/* waits for no lock, and wants an index */
	SfColumnVisit visit;
	void	   *arg;
} SfColumn;

extern void sf_column_require_select(Oid relation, const char *name);
extern bool sf_column_read(const SfColumn *column);

#endif							/* SF_COLUMN_H */
