/* store/results/tags.h - what the archive says of a recording: the rows of `tag`, and what follows
 * from them. Internal to store/; each is called within one db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_RESULTS_TAGS_H
#define NIGHTSHIFT_STORE_RESULTS_TAGS_H

#include "store/db.h"

/* Replaces the tags of earlier decodings. People's tags stay. */
int tags_found(struct store *st, int64_t media_id, const struct result_tag *tags, uint32_t count,
               struct err *err);

/* Sets people's tags: all values of a key replace its former ones. *known: there is such a
 * recording. */
int tags_describe(struct store *st, int64_t media_id, const struct store_said *said, uint32_t count,
                  bool *known, struct err *err);

#endif
