/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  Request as a statement that calls a function of the extension, and the
 *	  statement's result as the answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_POSTGRESQL_STATEMENT_H
#define SF_POSTGRESQL_STATEMENT_H

#include "lease/backend.h"
#include "libpq-fe.h"

extern bool sf_statement_send(PGconn *conn, const char *schema,
							  const SfAsk *ask,
							  const SfBackendConfig *config);
extern void sf_statement_take(const PGresult *result, const SfAsk *ask,
							  SfAnswer *answer);

#endif							/* SF_POSTGRESQL_STATEMENT_H */
