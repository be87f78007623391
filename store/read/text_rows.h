/* store/read/text_rows.h - rows of texts as read.h hands them out, for whoever selects them.
 * Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READ_TEXT_ROWS_H
#define NIGHTSHIFT_STORE_READ_TEXT_ROWS_H

#include "base/buf.h"
#include "store/db.h"
#include "store/read/read.h"

/* Around what matched, of a struct read_search. */
#define READ_MARK_BEGIN(search) ((search)->mark_begin ? (search)->mark_begin : "[")
#define READ_MARK_END(search) ((search)->mark_end ? (search)->mark_end : "]")

/* The texts that were not believed, and speech without text, as such rows `g`. */
#define TEXT_ROWS_DROPPED \
    "(SELECT 0 AS segment_id, NULL AS speaker_id, NULL AS heard, * FROM dropped) g"

/* Appends a query to sql: `from` names the rows `g` (table segment, or what has its columns), which
 * are joined to their task t, recording m and main place p; snippet is an expression. */
void text_rows_select(struct buf *sql, const char *snippet, const char *from, const char *where);
/* Hands the rows of such a query out; what came of it is in rows->rc. */
void text_rows_each(struct db_rows *rows, read_segment_fn fn, void *arg);
/* And ends them; returns as the functions of read.h do. */
int text_rows_give(struct db_rows *rows, read_segment_fn fn, void *arg);

#endif
