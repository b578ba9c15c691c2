/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Texts that come from outside the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TEXT_H
#define SF_TEXT_H

extern void sf_text_make_valid(char *text);
extern void sf_text_make_printable(char *text);

#endif							/* SF_TEXT_H */
