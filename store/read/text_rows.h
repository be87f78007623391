/* store/read/text_rows.h - rows of texts as read.h hands them out, for whoever selects them.
 * Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READ_TEXT_ROWS_H
#define NIGHTSHIFT_STORE_READ_TEXT_ROWS_H

#include "base/buf.h"
#include "store/db.h"
#include "store/read/read.h"

/* Appends a query to sql: `from` names the rows `g` (table segment, or what has its columns), which
 * are joined to their task t, recording m and main place p; snippet is an expression. */
void text_rows_select(struct buf *sql, const char *snippet, const char *from, const char *where);
/* Hands the rows of such a query out and ends them; returns as the functions of read.h do. */
int text_rows_give(struct db_rows *rows, read_segment_fn fn, void *arg);

#endif
