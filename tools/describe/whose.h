/* tools/describe/whose.h - the recording that a list of files means. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_DESCRIBE_WHOSE_H
#define NIGHTSHIFT_TOOLS_DESCRIBE_WHOSE_H

#include <stdint.h>

#include "store/store.h"

struct whose;

/* Both are borrowed. folder: absolute; what a relative path begins at. */
int whose_new(struct store *st, const char *folder, struct whose **ret, struct err *err);
void whose_free(struct whose *w); /* NULL is fine */

/* By an absolute path, one relative to the folder, or a bare name that one recording alone has;
 * "ARCHIVE//MEMBER", or the member by itself ("" none). ERR_MISSING, ERR_USAGE: none, or several,
 * with a sentence about it. */
int whose_place(struct whose *w, const char *path, const char *member, int64_t *ret,
                struct err *err);
/* By its number in the catalog. */
int whose_number(struct whose *w, const char *number, int64_t *ret, struct err *err);

#endif
