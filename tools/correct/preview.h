/* tools/correct/preview.h - what is there and what is to be, with marks where they differ. Main
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_PREVIEW_H
#define NIGHTSHIFT_TOOLS_CORRECT_PREVIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "store/read/corrections.h"
#include "tools/correct/changes.h"

/* Two texts, one below the other, behind a time that takes the first `column` columns: "- " and the
 * one, "+ " and the other. ERR_NOMEM. */
int preview_pair(const char *was, const char *is, size_t column, struct err *err);
/* All changes, with the recordings' names if `named`. */
int preview_changes(const struct changes *c, bool named, struct err *err);
json_t *preview_json(const struct changes *c); /* a list; NULL: no memory */

/* ---- what people corrected, and what of it is to be decided */

/* On standard output, for people or as a JSON list. *count: how many there are. */
int listing_print(struct store *st, const struct read_corrections *which, bool json,
                  uint64_t *count, struct err *err);

#endif
