/*-------------------------------------------------------------------------
 *
 * note.h
 *	  What a clean shutdown leaves for the next start.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NOTE_H
#define SF_NOTE_H

extern int64 sf_note_issued_below(void);
extern void sf_note_at_start(void);
extern int64 sf_note_floor(Oid database, int64 found_ms);
extern void sf_note_forget(Oid database);

#endif							/* SF_NOTE_H */
