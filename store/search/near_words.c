#include "store/search/near_words.h"

#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/read/filter.h"
#include "store/read/read.h"
#include "store/search/query.h"
#include "store/search/widen.h"
#include "store/store.h"
#include "workers/text/edit_distance.h"

#define TRIED_MOST 400   /* spellings that are looked up, of a word */
#define SCANNED_MOST 400 /* words of the index that begin like it */
#define ASKED_MOST 3     /* words of the query */
#define LETTERS "abcdefghijklmnopqrstuvwxyz"

/* The words of the index with the number of their segments. */
static int open_vocabulary(struct store *st, struct err *err)
{
    static const char make[] = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.said_word "
                               "USING fts5vocab(main, segment_fts, row)";
    struct err none = {0};
    int rc;

    if (st->mode == STORE_WRITE)
        return db_exec(st, make, err);
    /* A reader may not even make what is in memory alone. */
    rc = db_exec(st, "PRAGMA query_only = OFF", err);
    if (rc == 0)
        rc = db_exec(st, make, err);
    if (rc == 0)
        return db_exec(st, "PRAGMA query_only = ON", err);
    db_exec(st, "PRAGMA query_only = ON", &none);
    return rc;
}

/* ------------------------------------------------------------------------------------- ranking */

struct looking {
    struct store *st;
    const char *word;
    size_t len;
    int tried;
    struct near_words *ret;
    unsigned distance[NEAR_WORDS_MOST]; /* of each in the list */
    struct err *err;
};

static void add_near_word(struct looking *x, const char *word, int64_t segments)
{
    struct near_words *r = x->ret;
    const size_t len = strlen(word);
    unsigned distance;
    size_t at = 0;

    if (len >= SPELLING_BYTES || segments <= 0)
        return;
    distance = edit_distance(x->word, x->len, word, len);
    if (distance == 0 || distance > edit_distance_most(x->len))
        return;
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->list[i].word, word) == 0)
            return;
    while (at < r->count && (x->distance[at] < distance ||
                             (x->distance[at] == distance && r->list[at].segments >= segments)))
        at++;
    if (at == NEAR_WORDS_MOST)
        return;
    r->count += r->count < NEAR_WORDS_MOST;
    for (size_t i = r->count - 1; i > at; i--) {
        r->list[i] = r->list[i - 1];
        x->distance[i] = x->distance[i - 1];
    }
    memcpy(r->list[at].word, word, len + 1);
    r->list[at].segments = segments;
    x->distance[at] = distance;
}

/* ------------------------------------------------------------------------------------- looking */

static int add_word_by_count(struct looking *x, const char *word)
{
    static const char sql[] = "SELECT doc FROM temp.said_word WHERE term = ?1";
    sqlite3_stmt *row;
    int rc = db_first(x->st, &row, x->err, sql, "t", word);

    if (rc != 1)
        return rc;
    add_near_word(x, word, sqlite3_column_int64(row, 0));
    sqlite3_reset(row);
    return 0;
}

static int try_spelling(struct looking *x, const char *word)
{
    bool said = false;
    int rc;

    if (++x->tried > TRIED_MOST)
        return 0;
    rc = widen_is_said(x->st, word, &said, x->err);
    return rc == 0 && said ? add_word_by_count(x, word) : rc;
}

/* One slip at this letter: it was put in, swapped with the next one, taken for another, or one
 * before it was left out. */
static int try_at(struct looking *x, size_t at)
{
    const size_t n = x->len;
    char s[SPELLING_BYTES + 1];
    int rc;

    memcpy(s, x->word, at);
    memcpy(s + at, x->word + at + 1, n - at);
    rc = try_spelling(x, s);
    memcpy(s, x->word, n + 1);
    if (rc == 0 && at + 1 < n && s[at] != s[at + 1]) {
        s[at] = x->word[at + 1];
        s[at + 1] = x->word[at];
        rc = try_spelling(x, s);
    }
    memcpy(s, x->word, n + 1);
    for (const char *c = LETTERS; *c && rc == 0; c++) {
        s[at] = *c;
        if (*c != x->word[at])
            rc = try_spelling(x, s);
    }
    memcpy(s + at + 1, x->word + at, n - at + 1);
    for (const char *c = LETTERS; *c && rc == 0; c++) {
        s[at] = *c;
        rc = try_spelling(x, s);
    }
    return rc;
}

/* Those that begin with the first `half` bytes. */
static int scan_words_by_prefix(struct looking *x, size_t half)
{
    static const char sql[] = "SELECT term, doc FROM temp.said_word WHERE term >= ?1 AND term < ?2 "
                              "LIMIT ?3";
    char low[SPELLING_BYTES], high[SPELLING_BYTES + 4];
    struct db_rows rows;

    memcpy(low, x->word, half);
    low[half] = 0;
    memcpy(high, low, half);
    memcpy(high + half, "\xF4\x8F\xBF\xBF", 5); /* the last character that there is */
    db_rows_again(&rows, x->st, x->err, db_cached(x->st, sql, x->err), "tti", low, high,
                  (int64_t)SCANNED_MOST);
    while (db_rows_next(&rows))
        add_near_word(x, db_text(rows.stmt, 0), sqlite3_column_int64(rows.stmt, 1));
    return db_rows_end(&rows);
}

static int find_near_spellings(struct looking *x)
{
    size_t half = x->len / 2 > 2 ? (x->len + 1) / 2 : 2;
    int rc = 0;

    while (half < x->len && ((unsigned char)x->word[half] & 0xC0) == 0x80)
        half++; /* not within a character */
    if (strspn(x->word, LETTERS) == x->len)
        for (size_t at = 0; at < half && rc == 0; at++)
            rc = try_at(x, at);
    return rc == 0 ? scan_words_by_prefix(x, half) : rc;
}

/* ----------------------------------------------------------------------------------- the query */

static int near_node(struct store *st, struct index_words *index, const struct query *q,
                     const struct query_node *n, struct near_words *ret, struct err *err)
{
    struct looking x = {.st = st, .ret = ret, .err = err};
    char word[SPELLING_BYTES];
    bool said = n->forms_len > 0;
    int rc = index_words_one(index, q->text + n->from, n->len, word, sizeof(word), err);

    if (rc != 0 || said || strlen(word) < 2)
        return rc;
    rc = widen_is_said(st, word, &said, err);
    if (rc != 0 || said)
        return rc;
    x.word = word;
    x.len = strlen(word);
    rc = find_near_spellings(&x);
    if (rc == 0 && ret->count > 0)
        memcpy(ret->typed, word, sizeof(word));
    return rc;
}

static int near_query(struct store *st, const struct query *q, struct near_words *ret,
                      struct err *err)
{
    struct index_words index = {0};
    int rc = index_words_open(st, &index, err), asked = 0;

    if (rc == 0)
        rc = open_vocabulary(st, err);
    for (size_t i = 0; i < q->count && rc == 0 && ret->count == 0 && asked < ASKED_MOST; i++) {
        const struct query_node *n = &q->nodes[i];

        if (n->kind != QUERY_WORDS || n->words != 1 || n->prefix)
            continue;
        asked++;
        rc = near_node(st, &index, q, n, ret, err);
    }
    index_words_close(&index);
    return rc;
}

int near_words(struct store *st, const char *text, struct near_words *ret, struct err *err)
{
    struct query *q = NULL;
    size_t at;
    int rc;

    *ret = (struct near_words){0};
    rc = read_query(st, text, &q, &at, err);
    if (rc == 0)
        rc = widen(st, q, err);
    if (rc == 0)
        rc = near_query(st, q, ret, err);
    query_free(q);
    return rc;
}

/* ---- how much of the archive a search can know of */

/* Recordings without results are counted from each recipe's folder down, by the index on paths.
 * Otherwise SQLite compares each recording with each recipe. (+p.state: or SQLite makes an index of
 * its own of all that is present, and goes through that for each recipe.) */
int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err)
{
    struct filter_path below = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql,
               "SELECT count(*) FILTER (WHERE best = 3), count(*) FILTER (WHERE best = 2), "
               "count(*) FILTER (WHERE best = 1), count(*) FILTER (WHERE best = 0), "
               "count(*) FILTER (WHERE best IS NULL AND NOT asked), "
               "count(*) FILTER (WHERE best IS NULL AND asked) "
               "FROM (SELECT (SELECT max(CASE t.state WHEN 'done' THEN 3 WHEN 'pending' "
               "THEN 2 WHEN 'failed' THEN 1 ELSE 0 END) FROM task t WHERE t.media_id = m.media_id "
               "AND t.stage_id "
               "IN (SELECT stage_id FROM stage WHERE name = ?1)) AS best, "
               "m.media_id IN (SELECT p.media_id FROM recipe a CROSS JOIN place p ON " DB_PATHS_OF(
                   "a.path_raw",
                   "p.path_raw") " WHERE a.kind = ?1 AND +p.state = 'present' AND p.media_id "
                                 "IS NOT NULL) AS asked "
                                 "FROM media m WHERE m.places > 0");
    if (path)
        buf_printf(&sql, " AND m.media_id IN (%s)", filter_path_sql(&below, 2));
    buf_printf(&sql, ")");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "t", stage);
    if (path)
        db_rows_bind(&rows, "-bbb", FILTER_PATH_VALUES(&below));
    if (db_rows_next(&rows))
        *ret = (struct coverage){(uint64_t)sqlite3_column_int64(rows.stmt, 0),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 1),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 2),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 3),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 4),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 5)};
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}
