/* store/read/filter.h - the conditions on recordings that the reading functions share. Internal to
 * store/. */
#ifndef NIGHTSHIFT_STORE_READ_FILTER_H
#define NIGHTSHIFT_STORE_READ_FILTER_H

#include "base/buf.h"
#include "store/db.h"

/* A file or a directory. Exact bytes through the index on places; a name that holds a backslash may
 * be the display form of odd bytes, and is compared with that form too, which reads all places. */
struct filter_path {
    bool display;
    struct db_prefix below;
    char sql[640];
};
int filter_path_make(const char *path /* NULL: nothing */, struct filter_path *ret,
                     struct err *err);
void filter_path_free(struct filter_path *f);
/* A SELECT of media_id whose three parameters have the numbers first, first + 1 and first + 2: bind
 * FILTER_PATH_VALUES with "bbb". In f, until the next call. */
const char *filter_path_sql(struct filter_path *f, int first);
#define FILTER_PATH_VALUES(f)                                                       \
    (const void *)(f)->below.low, (f)->below.len - 1, (const void *)(f)->below.low, \
        (f)->below.len, (const void *)(f)->below.high, (f)->below.len

/* Who says segment `g` (its speaker: `k`), as find_people.who; and in which language. */
#define FILTER_SPEAKER(param) \
    "(k.name = " param " COLLATE NOCASE OR k.label = " param " COLLATE NOCASE)"
/* The same without k, for a statement that is run once: it gathers the numbers each time, by
 * indexes that hold no voices. */
#define FILTER_SPEAKER_OF_SEGMENT(param)                                               \
    "g.speaker_id IN (SELECT speaker_id FROM speaker WHERE label = " param             \
    " COLLATE NOCASE UNION ALL SELECT speaker_id FROM speaker WHERE name IS NOT NULL " \
    "AND name = " param " COLLATE NOCASE)"
#define FILTER_LANGUAGE(param) "g.language = " param

/* A SELECT of the classes of sound whose name has the text of the parameter in it ("?1"). From one
 * name to the next by the index: there are some hundred, and perhaps millions of rows. */
#define FILTER_CLASSES(param)                                                  \
    "WITH RECURSIVE class(name) AS (SELECT min(name) FROM sound UNION ALL "    \
    "SELECT (SELECT min(name) FROM sound WHERE name > class.name) FROM class " \
    "WHERE class.name IS NOT NULL) "                                           \
    "SELECT name FROM class WHERE name IS NOT NULL AND instr(lower(name), lower(" param ")) > 0"

/* For statements that are run again with other values. Prepares the text of sql; ERR_NOMEM when the
 * buffer had failed. */
int filter_prepare(struct store *st, struct buf *sql, sqlite3_stmt **ret, struct err *err);
/* An SQLite code of db_bind as ours. */
int filter_bound(int sqlite_rc, struct err *err);

#endif
