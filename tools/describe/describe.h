/* tools/describe/describe.h - what the rows of a table say of recordings. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_DESCRIBE_DESCRIBE_H
#define NIGHTSHIFT_TOOLS_DESCRIBE_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/requests/request.h"
#include "store/store.h"
#include "tools/describe/csv.h"

/* ---- the recording that a list of files means */

struct lookup;

/* Both are borrowed. folder: absolute; what a relative path begins at. */
int lookup_new(struct store *st, const char *folder, struct lookup **ret, struct err *err);
void lookup_free(struct lookup *w); /* NULL is fine */

/* Something about one line. left_out: nothing of it is taken. */
typedef void (*describe_note_fn)(void *arg, uint64_t line, bool left_out, const char *sentence);

struct described {
    struct request_description *list; /* owned, with its values, whose strings are the table's */
    size_t count, capacity;
    uint64_t lines, left_out; /* without the header */
    uint64_t recordings;      /* that the others speak of, each counted once */
};

/* Reads the table to its end. The first row has the columns' names. The recordings are named by the
 * first of these that is there: media_id; path, file, filename (with member, for one in an
 * archive); recording; number. All other columns are tags. ERR_INPUT: the table as a whole cannot
 * be taken. *ret is freed in any case. */
int describe_read(struct csv *table, struct lookup *lookup, describe_note_fn note, void *arg,
                  struct described *ret, struct err *err);
void described_free(struct described *d);

#endif
