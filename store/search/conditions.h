/* store/search/conditions.h - what a search asks for beside its words, as conditions of its
 * statement. Internal to store/search. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_CONDITIONS_H
#define NIGHTSHIFT_STORE_SEARCH_CONDITIONS_H

#include "base/buf.h"
#include "store/read/filter.h"
#include "store/read/read.h"

/* Of rows g, t and k; the parameters from the sixth on. Whoever has no place for them calls
 * neither.
 */
void conditions_put(const struct read_search *search, struct filter_path *path, struct buf *sql);
void conditions_bind(const struct read_search *search, const struct filter_path *path,
                     struct db_rows *rows);

#endif
