/* tools/correct/replace.h - one word, or several, for another in a text. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_REPLACE_H
#define NIGHTSHIFT_TOOLS_CORRECT_REPLACE_H

#include <stddef.h>

#include "base/err.h"

/* The text with `with` wherever it has `what`: whole words, in exactly these letters, however many
 * blanks there are between them. *ret: newly allocated; NULL: it is nowhere. *count: places.
 * ERR_NOMEM. */
int replace_words(const char *text, const char *what, const char *with, char **ret, size_t *count,
                  struct err *err);

#endif
