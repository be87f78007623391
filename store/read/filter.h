/* store/read/filter.h - the conditions on recordings that the reading functions share. Internal to
 * store/. */
#ifndef NIGHTSHIFT_STORE_READ_FILTER_H
#define NIGHTSHIFT_STORE_READ_FILTER_H

#include "base/buf.h"
#include "store/db.h"

/* A file or a directory; or what is in an archive, "ARCHIVE//MEMBER": a member, or a directory of
 * it. Exact bytes through the index on places; a name that holds a backslash may be the display
 * form of odd bytes, and is compared with that form too, which reads all places. */
struct filter_path {
    bool display, in_archive;
    const char *at; /* the file or directory; of a member the archive. Owned by `below`, or: */
    size_t at_len;
    char *archive;          /* owned */
    struct db_prefix below; /* of the path; of a member its name */
    char sql[1024];
};
/* The path is absolute: it has no "//" but the one before a member. */
int filter_path_make(const char *path /* NULL: nothing */, struct filter_path *ret,
                     struct err *err);
void filter_path_free(struct filter_path *f);
/* A SELECT of media_id whose three parameters have the numbers first, first + 1 and first + 2: bind
 * FILTER_PATH_VALUES with "bbb". In f, until the next call. */
const char *filter_path_sql(struct filter_path *f, int first);
#define FILTER_PATH_VALUES(f)                                                         \
    (const void *)(f)->at, (f)->at_len, (const void *)(f)->below.low, (f)->below.len, \
        (const void *)(f)->below.high, (f)->below.len

/* A place's member as bytes, and as its column `member` shows it: base/utf8.h, utf8_display_nth. */
#define MEMBER_BYTES "CAST(member_raw || iif(nth, printf(' (%d)', nth + 1), '') AS BLOB)"

/* Is a row of the table place there? In parameters as FILTER_PATH_VALUES has them; the first two of
 * a path, of which the second one is of its display form, and the last one of a member. */
#define FILTER_BELOW(at, low, high) DB_BELOW("path_raw", at, low, high)
#define FILTER_BELOW_SHOWN(at, low, high)                             \
    "(path = CAST(" at " AS TEXT) OR (path >= CAST(" low " AS TEXT) " \
    "AND path < CAST(" high " AS TEXT)))"
/* Its name as it is shown has a number where the archive has several of that name: the first one
 * has none. */
#define FILTER_MEMBER(low, high)                                                      \
    "(member_raw <> x'' AND ((member_raw = substr(" low ", 1, length(" low ") - 1) "  \
    "AND nth = 0) OR member = CAST(substr(" low ", 1, length(" low ") - 1) AS TEXT) " \
    "OR (member_raw >= " low " AND member_raw < " high ") "                           \
    "OR (member >= CAST(" low " AS TEXT) AND member < CAST(" high " AS TEXT))))"

/* Who says segment `g` (its speaker: `k`, or none), as find_people.who, or by the channel or track
 * where nobody was told apart, as text_rows.c calls it; and in which language. */
#define FILTER_SPEAKER(param)                                                   \
    "(k.name = " param " COLLATE NOCASE OR k.label = " param " COLLATE NOCASE " \
    "OR (g.speaker_id IS NULL AND g.source > 0 AND EXISTS (SELECT 1 FROM "      \
    "source x WHERE x.task_id = g.task_id AND x.source = g.source "             \
    "AND x.label = " param " COLLATE NOCASE)))"
/* The numbers of those segments, for a statement that is run once: it gathers them each time, by
 * indexes that hold no voices. */
#define FILTER_SEGMENTS_OF_SPEAKER(param)                                              \
    "SELECT segment_id FROM segment WHERE speaker_id IN (SELECT speaker_id FROM "      \
    "speaker WHERE label = " param " COLLATE NOCASE UNION ALL SELECT speaker_id FROM " \
    "speaker WHERE name IS NOT NULL AND name = " param " COLLATE NOCASE) UNION ALL "   \
    "SELECT sg.segment_id FROM source x CROSS JOIN segment sg ON sg.task_id = "        \
    "x.task_id WHERE x.label = " param " COLLATE NOCASE AND sg.source = x.source "     \
    "AND sg.speaker_id IS NULL"
#define FILTER_LANGUAGE(param) "g.language = " param

/* A SELECT of the classes of sound whose name has the text of the parameter in it ("?1"). From one
 * name to the next by the index: there are some hundred, and perhaps millions of rows. */
#define FILTER_CLASSES(param)                                                  \
    "WITH RECURSIVE class(name) AS (SELECT min(name) FROM sound UNION ALL "    \
    "SELECT (SELECT min(name) FROM sound WHERE name > class.name) FROM class " \
    "WHERE class.name IS NOT NULL) "                                           \
    "SELECT name FROM class WHERE name IS NOT NULL AND instr(lower(name), lower(" param ")) > 0"

#endif
