/*-------------------------------------------------------------------------
 *
 * namesake.h
 *	  Another extension of this name, whose functions ask for our library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_NAMESAKE_H
#define SF_NAMESAKE_H

extern void sf_namesake_refuse(Oid function);

#endif							/* SF_NAMESAKE_H */
