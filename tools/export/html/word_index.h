/* tools/export/html/word_index.h - in which recordings a word is said, as scripts for a page that
 * has no server.
 *
 * A word is a run of letters and digits, compatibility forms resolved, in lower case and without
 * marks; in scripts without blanks each character is one. pages/archive.js cuts what is searched
 * for in the same way. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_WORD_INDEX_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_WORD_INDEX_H

#include "base/buf.h"
#include "base/err.h"

#define WORD_INDEX_CHARACTERS 40 /* what is longer is cut there */

struct word_index;
int word_index_new(struct word_index **ret, struct err *err);
void word_index_free(struct word_index *w); /* NULL is fine */
/* Recordings come in rising order of their numbers. ERR_NOMEM. */
int word_index_add(struct word_index *w, uint32_t recording, const char *text, struct err *err);

/* The words in order (of UTF-16, JavaScript's), cut into pieces where a word's own hash says so: a
 * recording more or less changes the pieces that have its words, and none behind them. Each is a
 * script `words("ID",[["harbour","A-B"],...])`, of which the second is the numbers of recordings,
 * each as its distance from the one before (the first from -1), in digits of five bits, the lowest
 * first: letters A to Z, a to f; all but a number's last are of the other half, g to z, 0 to 9, -
 * and _. The table is `pieces([["first word","ID"],...])`. fn: what is made of each piece; not 0
 * ends it. */
typedef int (*word_index_fn)(void *arg, const char *id, const struct buf *script);
int word_index_pieces(struct word_index *w, word_index_fn fn, void *arg, struct buf *table,
                      struct err *err);

/* The words of a text, one in a line. */
int word_index_fold(const char *text, struct buf *out, struct err *err);

#endif
