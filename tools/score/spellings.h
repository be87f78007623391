/* tools/score/spellings.h - words and what they are replaced by. The table that Whisper's models
 * carry is the file normalizer.json of a model directory: one JSON object, British spelling to
 * American. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_SPELLINGS_H
#define NIGHTSHIFT_TOOLS_SCORE_SPELLINGS_H

#include <stddef.h>

#include "base/err.h"

struct spellings;
/* ERR_MISSING, ERR_IO, ERR_DENIED: the file cannot be read. ERR_INPUT: it is no such object. */
int spellings_open(const char *path, struct spellings **ret, struct err *err);
void spellings_free(struct spellings *s); /* NULL is fine */
size_t spellings_count(const struct spellings *s);
/* The other spelling, borrowed from the table; NULL when there is none. */
const char *spellings_find(const struct spellings *s, const char *word, size_t len);

#endif
