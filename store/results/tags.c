#include "store/results/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/results/recorded.h"

static int insert_tag(struct store *st, int64_t media_id, const struct result_tag *t,
                      struct err *err)
{
    bool chapter = strcmp(t->source, "chapter") == 0;

    /* The next of its key: the rows of one are few, and the key's index has the last. */
    return db_run(st, err,
                  "INSERT INTO tag (media_id, source, key, seq, value, start_ms, end_ms) "
                  "SELECT ?1, ?2, ?3, ifnull(max(seq) + 1, 0), ?4, ?5, ?6 FROM tag "
                  "WHERE media_id = ?1 AND source = ?2 AND key = ?3",
                  chapter ? "itttii" : "itttnn", media_id, t->source, t->key, t->value, t->start_ms,
                  t->end_ms);
}

/* The title: what people said, else the container's, else its track's. */
static int choose_title(struct store *st, int64_t media_id, struct err *err)
{
    return db_run(st, err,
                  "UPDATE media SET title = ifnull((SELECT substr(replace(value, char(10), ' '), "
                  "1, 255) FROM tag "
                  "WHERE media_id = ?1 AND key = 'title' AND source IN "
                  "('csv', 'container', 'stream') "
                  "ORDER BY source <> 'csv', source, seq LIMIT 1), '') WHERE media_id = ?1",
                  "i", media_id);
}

struct told {
    int rank; /* 0: nothing yet */
    char on[RECORDED_LEN];
    char from[RESULT_TAG_SOURCE_MAX + RESULT_TAG_KEY_MAX + 2];
};

static int year_of(const char *date) { return (int)strtol(date, NULL, 10); }

static void read_date_tag(struct told *told, sqlite3_stmt *stmt, int this_year)
{
    const char *source = db_text(stmt, 0), *key = db_text(stmt, 1);
    int rank = recorded_rank(source, key);
    char on[RECORDED_LEN];

    if (rank == 0 || (told->rank && rank >= told->rank) ||
        !recorded_date(db_text(stmt, 2), this_year + 1, on) ||
        (rank == recorded_rank("container", RECORDED_CLOCK) && year_of(on) < RECORDED_CLOCK_YEAR))
        return;
    told->rank = rank;
    memcpy(told->on, on, sizeof(on));
    snprintf(told->from, sizeof(told->from), "%s:%s", source, key);
}

static int choose_date(struct store *st, int64_t media_id, struct err *err)
{
    struct told told = {0};
    sqlite3_stmt *stmt = NULL;
    char now[CLOCK_ISO_LEN];
    int this_year;
    int rc = db_first(st, &stmt, err,
                      "SELECT source, key, value FROM tag WHERE media_id = ?1 "
                      "AND source <> 'chapter' ORDER BY source, key, seq",
                      "i", media_id);

    db_now(now);
    this_year = year_of(now);
    for (; rc == 1; rc = db_next(st, stmt, err))
        read_date_tag(&told, stmt, this_year);
    if (rc < 0)
        return rc;
    return db_run(st, err,
                  "UPDATE media SET recorded_on = ?2, recorded_from = ?3 WHERE media_id = ?1 "
                  "AND (recorded_on IS NOT ?2 OR recorded_from IS NOT ?3)",
                  "itt", media_id, told.rank ? told.on : NULL, told.rank ? told.from : NULL);
}

static int choose_title_and_date(struct store *st, int64_t media_id, struct err *err)
{
    int rc = choose_title(st, media_id, err);

    return rc < 0 ? rc : choose_date(st, media_id, err);
}

int tags_found(struct store *st, int64_t media_id, const struct result_tag *tags, uint32_t count,
               struct err *err)
{
    int rc =
        db_run(st, err, "DELETE FROM tag WHERE media_id = ?1 AND source <> 'csv'", "i", media_id);

    for (uint32_t i = 0; i < count && rc == 0; i++)
        if (strcmp(tags[i].source, "csv") != 0) /* which people alone say */
            rc = insert_tag(st, media_id, &tags[i], err);
    return rc < 0 ? rc : choose_title_and_date(st, media_id, err);
}

int tags_describe(struct store *st, int64_t media_id, const struct store_said *said, uint32_t count,
                  bool *known, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM media WHERE media_id = ?1", "i", media_id);

    *known = rc == 1;
    if (rc != 1)
        return rc;
    sqlite3_reset(stmt);
    rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = db_run(st, err, "DELETE FROM tag WHERE media_id = ?1 AND source = 'csv' AND key = ?2",
                    "it", media_id, said[i].key);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        if (said[i].value[0])
            rc = insert_tag(
                st, media_id,
                &(struct result_tag){.source = "csv", .key = said[i].key, .value = said[i].value},
                err);
    return rc < 0 ? rc : choose_title_and_date(st, media_id, err);
}
