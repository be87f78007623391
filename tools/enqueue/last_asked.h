/* tools/enqueue/last_asked.h - what was asked for last of some paths, as the catalog has it. Main
 * thread.
 */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_LAST_ASKED_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_LAST_ASKED_H

#include <stdbool.h>

#include "store/store.h"
#include "tools/enqueue/path_list.h"
#include "workers/stages/stage_kind.h"

struct last_row {
    const char *options; /* as of struct request; NULL: nobody knows */
    bool fresh;          /* nothing was asked for: it is what the recordings there have */
    struct store_stage stage, source; /* source.name NULL: it has none */
};

struct last_place { /* in the order of paths */
    const char *path;
    const struct last_row *of[STAGE_COUNT];
};

struct last; /* owns its rows and their strings */

/* All that was asked for at, above or below the roots, a list of paths of which none lies below
 * another one. known: the catalog, or NULL. */
int last_read(struct store *known, struct paths roots, struct last **ret, struct err *err);
void last_free(struct last *l); /* NULL is fine */

struct paths last_places(const struct last *l); /* of struct last_place */
/* Of a kind (in stage_kinds) what was asked for of the nearest at or above the path; NULL: nothing.
 */
const struct last_row *last_of(const struct last *l, const char *path, size_t kind);
bool last_any(const struct last *l, const char *path);

#endif
