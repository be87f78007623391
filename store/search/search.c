/* Full-text search: segments that have what is typed. */

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "store/db.h"
#include "store/full_text.h"
#include "store/read/filter.h"
#include "store/read/read.h"
#include "store/read/text_rows.h"
#include "store/search/widen.h"

/* ---- what a search asks for beside its words, as conditions of its statement */

#define FEW_SOUNDS 20000 /* of the classes: their recordings are gathered first */

#define HEARD                                        \
    "FROM (" FILTER_CLASSES("?11") ") c CROSS JOIN " \
                                   "sound h ON h.name = c.name "

/* First the recordings that have such a sound at all: of a rare one they are few. */
static void put_sound(struct buf *sql)
{
    buf_printf(sql,
               " AND ((SELECT count(*) FROM (SELECT 1 " HEARD "LIMIT %d)) > %d OR t.media_id IN "
               "(SELECT ht.media_id " HEARD "JOIN task ht ON ht.task_id = h.task_id)) "
               "AND EXISTS (SELECT 1 FROM task dt CROSS JOIN sound d ON d.task_id = dt.task_id "
               "WHERE dt.media_id = t.media_id AND d.start_ms <= g.end_ms + ?12 "
               "AND d.end_ms >= g.start_ms - ?12 AND instr(lower(d.name), lower(?11)) > 0 "
               "AND dt.current)",
               FEW_SOUNDS + 1, FEW_SOUNDS);
}

/* Appends conditions on rows g, t and k; the parameters begin at the sixth. Queries without these
 * rows call neither. */
static void conditions_put(const struct read_search *search, struct filter_path *path,
                           struct buf *sql)
{
    if (search->path)
        buf_printf(sql, " AND t.media_id IN (%s)", filter_path_sql(path, 6));
    if (search->speaker)
        buf_printf(sql, " AND " FILTER_SPEAKER("?9"));
    if (search->language)
        buf_printf(sql, " AND " FILTER_LANGUAGE("?10"));
    if (search->sound)
        put_sound(sql);
}

static void conditions_bind(const struct read_search *search, const struct filter_path *path,
                            struct db_rows *rows)
{
    if (search->path)
        db_rows_bind(rows, "-----bbb", FILTER_PATH_VALUES(path));
    if (search->speaker)
        db_rows_bind(rows, "--------t", search->speaker);
    if (search->language)
        db_rows_bind(rows, "---------t", search->language);
    if (search->sound)
        db_rows_bind(rows, "----------ti", search->sound, search->sound_ms);
}

/* ---- the best of what the full-text index finds, without ranking all of it.
 *
 * A common word is in every third segment. FTS5's bm25 of a segment depends on how often it has the
 * words, which the index gives at once, and on its length, which must be looked up. Every filter
 * needs look-ups, too. Once as many are found as are wanted, a segment that could not be among the
 * best even if it had no other word is passed over before anything of it is looked up. The numbers
 * are those of bm25, and so is the order. Internal to store/. The store's thread. */

struct ranking { /* owned, of one statement; zero: nothing to free */
    size_t wanted;
    double *best; /* a heap, the least on top; `count` of at most `wanted` */
    size_t count;
    double score; /* of the row at hand */
    /* About the query; known with its first row. */
    int phrases;
    double average; /* words of a segment */
    double *weight, *often;
};

/* Functions for queries of this connection. RANKING_HOPEFUL tells cheaply whether a row of
 * segment_fts may be among the best. RANKING_AMONG tells whether it is; then its score is
 * ranking.score. Both take the parameter that ranking_bind binds. RANKING_AMONG also takes any
 * column of the looked-up rows, so that SQLite looks them up first. */
#define RANKING_HOPEFUL "nightshift_hopeful"
#define RANKING_AMONG "nightshift_among"

#define POINTER "nightshift-ranking"
/* The constants of FTS5's bm25. */
#define K1 1.2
#define B 0.75
#define LEAST_WEIGHT 1e-6
#define ROUNDING 1e-9 /* what two ways of adding the same may differ by, and more */

/* -------------------------------------------------------------------------------------- best */

static int ranking_make(size_t wanted, struct ranking *ret, struct err *err)
{
    *ret = (struct ranking){.wanted = wanted, .best = calloc(wanted + 1, sizeof(*ret->best))};
    return ret->best ? 0 : err_no_memory(err, "catalog");
}

static void ranking_free(struct ranking *r)
{
    free(r->best);
    free(r->weight);
    free(r->often);
    *r = (struct ranking){0};
}

/* The lowest score that is still among the best; -1: all are. */
static double ranking_least(const struct ranking *r)
{
    return r->count < r->wanted ? -1 : r->best[0];
}

static void sift_up(double *heap, size_t at)
{
    for (size_t up; at > 0 && heap[up = (at - 1) / 2] > heap[at]; at = up) {
        double was = heap[up];

        heap[up] = heap[at];
        heap[at] = was;
    }
}

static void sift_down(double *heap, size_t n)
{
    for (size_t at = 0, down; (down = at * 2 + 1) < n; at = down) {
        double was = heap[at];

        down += down + 1 < n && heap[down + 1] < heap[down];
        if (heap[down] >= was)
            return;
        heap[at] = heap[down];
        heap[down] = was;
    }
}

/* one that is really meant */
static void ranking_add(struct ranking *r, double score)
{
    if (r->count < r->wanted) {
        r->best[r->count] = score;
        sift_up(r->best, r->count++);
    } else if (r->wanted > 0 && score > r->best[0]) {
        r->best[0] = score;
        sift_down(r->best, r->count);
    }
}

/* -------------------------------------------------------------------------------------- bm25 */

static int count_row(const Fts5ExtensionApi *api, Fts5Context *fts, void *arg)
{
    (void)api, (void)fts;
    ++*(sqlite3_int64 *)arg;
    return SQLITE_OK;
}

/* The weight of a single phrase changes no order, and to count its rows takes as long as to find
 * them. */
static int compute_phrase_weights(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts,
                                  sqlite3_int64 rows)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < r->phrases && rc == SQLITE_OK; i++) {
        sqlite3_int64 hits = 0;

        r->weight[i] = 1;
        if (r->phrases == 1)
            break;
        rc = api->xQueryPhrase(fts, i, &hits, count_row);
        r->weight[i] = log(((double)(rows - hits) + 0.5) / ((double)hits + 0.5));
        if (!(r->weight[i] > 0))
            r->weight[i] = LEAST_WEIGHT;
    }
    return rc;
}

static int load_ranking_statistics(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts)
{
    sqlite3_int64 rows = 0, words = 0;
    int rc;

    if (r->often)
        return SQLITE_OK;
    r->phrases = api->xPhraseCount(fts);
    r->weight = calloc((size_t)r->phrases + 1, sizeof(*r->weight));
    r->often = calloc((size_t)r->phrases + 1, sizeof(*r->often));
    if (!r->weight || !r->often)
        return SQLITE_NOMEM;
    rc = api->xRowCount(fts, &rows);
    if (rc == SQLITE_OK)
        rc = api->xColumnTotalSize(fts, -1, &words);
    r->average = (double)words / (double)rows;
    return rc == SQLITE_OK ? compute_phrase_weights(r, api, fts, rows) : rc;
}

/* How often the row has each phrase. */
static int count_phrases(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts)
{
    int n = 0, rc = load_ranking_statistics(r, api, fts), phrase, column, at;

    if (rc != SQLITE_OK)
        return rc;
    memset(r->often, 0, (size_t)r->phrases * sizeof(*r->often));
    rc = api->xInstCount(fts, &n);
    for (int i = 0; i < n && rc == SQLITE_OK; i++) {
        rc = api->xInst(fts, i, &phrase, &column, &at);
        if (rc == SQLITE_OK && phrase >= 0 && phrase < r->phrases)
            r->often[phrase] += 1;
    }
    return rc;
}

static double compute_bm25_score(const struct ranking *r, double length)
{
    double sum = 0;

    for (int i = 0; i < r->phrases; i++)
        sum += r->weight[i] * ((r->often[i] * (K1 + 1.0)) /
                               (r->often[i] + K1 * (1 - B + B * length / r->average)));
    return sum;
}

/* If the segment had no words but these. */
static double compute_score_bound(const struct ranking *r)
{
    double length = 0;

    for (int i = 0; i < r->phrases; i++)
        length = fmax(length, r->often[i]);
    return compute_bm25_score(r, length) * (1 + ROUNDING);
}

static void filter_by_score_bound(const Fts5ExtensionApi *api, Fts5Context *fts,
                                  sqlite3_context *context, int n, sqlite3_value **values)
{
    struct ranking *r = n == 1 ? sqlite3_value_pointer(values[0], POINTER) : NULL;
    int rc = SQLITE_OK;

    if (r && r->count == r->wanted)
        rc = count_phrases(r, api, fts);
    if (!r || rc != SQLITE_OK)
        sqlite3_result_error_code(context, r ? rc : SQLITE_MISUSE);
    else
        sqlite3_result_int(context,
                           r->count < r->wanted || compute_score_bound(r) >= ranking_least(r));
}

static void filter_by_score(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *context,
                            int n, sqlite3_value **values)
{
    struct ranking *r = n == 2 ? sqlite3_value_pointer(values[0], POINTER) : NULL;
    int length = 0, rc = r ? count_phrases(r, api, fts) : SQLITE_MISUSE;

    if (rc == SQLITE_OK)
        rc = api->xColumnSize(fts, -1, &length);
    if (rc != SQLITE_OK) {
        sqlite3_result_error_code(context, rc);
        return;
    }
    r->score = compute_bm25_score(r, length);
    sqlite3_result_int(context, r->score >= ranking_least(r));
}

static int ranking_functions(struct store *st, struct err *err)
{
    fts5_api *api = NULL;
    int rc = st->ranks ? 0 : full_text_api(st, &api, err), made;

    if (rc != 0 || st->ranks)
        return rc;
    made = api->xCreateFunction(api, RANKING_HOPEFUL, NULL, filter_by_score_bound, NULL);
    if (made == SQLITE_OK)
        made = api->xCreateFunction(api, RANKING_AMONG, NULL, filter_by_score, NULL);
    if (made != SQLITE_OK)
        return db_error_of(made, 0, sqlite3_errstr(made), "full-text search", err);
    st->ranks = true;
    return 0;
}

static void ranking_bind(struct db_rows *rows, int parameter, struct ranking *r)
{
    int rc = rows->rc == 0 ? sqlite3_bind_pointer(rows->stmt, parameter, r, POINTER, NULL) : 0;

    if (rc != SQLITE_OK)
        rows->rc = db_error_of(rc, 0, sqlite3_errstr(rc), "catalog", rows->err);
}

/* ---- the best segments that the index finds, chosen before anything of the others is looked up */

struct ranked_hit {
    double score;
    size_t at, len; /* in texts: "[segment, snippet]" as JSON */
};
struct ranked { /* zero: nothing to free */
    struct ranked_hit *hits;
    size_t count, capacity;
    struct buf texts;
};

#define WANTED_MOST 20000u /* more are sorted as they are */
#define EQUAL_MOST 20000u  /* as many, beside those that are wanted */
#define FEW 100000         /* segments in the scope: only they are asked about */

static void ranked_free(struct ranked *r)
{
    free(r->hits);
    buf_free(&r->texts);
    *r = (struct ranked){0};
}

/* ------------------------------------------------------------------------------------ the scope */

/* The segments of the recordings below a path, or else of a speaker, by indexes alone. */
static void put_scope(const struct read_search *search, struct filter_path *path, struct buf *sql)
{
    if (search->path)
        buf_printf(sql,
                   "SELECT sg.segment_id FROM task st CROSS JOIN segment sg "
                   "ON sg.task_id = st.task_id WHERE st.current AND st.media_id IN (%s)",
                   filter_path_sql(path, 6));
    else
        buf_printf(sql, FILTER_SEGMENTS_OF_SPEAKER("?9"));
}

/* Few enough to be gathered first? */
static int is_narrow(struct store *st, const struct read_search *search, struct filter_path *path,
                     bool *ret, struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    *ret = false;
    if (!search->path && !search->speaker)
        return 0;
    buf_printf(&sql, "SELECT count(*) FROM (");
    put_scope(search, path, &sql);
    buf_printf(&sql, " LIMIT %d)", FEW + 1);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "");
    buf_free(&sql);
    conditions_bind(&(struct read_search){.path = search->path,
                                          .speaker = search->path ? NULL : search->speaker},
                    path, &rows);
    if (db_rows_next(&rows))
        *ret = sqlite3_column_int64(rows.stmt, 0) <= FEW;
    return db_rows_end(&rows);
}

/* ------------------------------------------------------------------------------------- choosing */

static void put_query(const struct read_search *search, struct filter_path *path, bool narrow,
                      struct buf *sql)
{
    buf_printf(sql, "SELECT json_array(f.rowid, highlight(f.segment_fts, 0, ?2, ?3)) "
                    "FROM segment_fts f CROSS JOIN segment g ON g.segment_id = f.rowid ");
    if (search->path || search->sound)
        buf_printf(sql, "CROSS JOIN task t ON t.task_id = g.task_id ");
    if (search->speaker)
        buf_printf(sql, "LEFT JOIN speaker k ON k.speaker_id = g.speaker_id ");
    buf_printf(sql, "WHERE f.segment_fts MATCH ?1 ");
    if (narrow) {
        buf_printf(sql, "AND +f.rowid IN (");
        put_scope(search, path, sql);
        buf_printf(sql, ") ");
    }
    buf_printf(sql, "AND " RANKING_HOPEFUL "(f.segment_fts, ?4)");
    conditions_put(search, path, sql);
    buf_printf(sql, " AND " RANKING_AMONG "(f.segment_fts, ?4, g.segment_id)");
}

static int append_ranked_hit(struct ranked *r, double score, const void *text, size_t len,
                             struct err *err)
{
    if (!list_grow(&r->hits, &r->capacity, r->count, sizeof(*r->hits)))
        return err_no_memory(err, "catalog");
    r->hits[r->count++] = (struct ranked_hit){score, r->texts.len, len};
    buf_put(&r->texts, text, len);
    return r->texts.failed ? err_no_memory(err, "catalog") : 0;
}

/* Leaves out what is not among the best any more; texts keep their order. */
static void keep_best(struct ranked *r, double least)
{
    size_t kept = 0, len = 0;

    for (size_t i = 0; i < r->count; i++) {
        struct ranked_hit h = r->hits[i];

        if (h.score < least)
            continue;
        memmove(r->texts.data + len, r->texts.data + h.at, h.len);
        r->hits[kept++] = (struct ranked_hit){h.score, len, h.len};
        len += h.len;
    }
    r->count = kept;
    r->texts.len = len;
}

/* Reads the rows until too many are equal. */
static void collect_best_hits(struct db_rows *rows, struct ranking *ranking, struct ranked *r,
                              bool *all)
{
    size_t full = ranking->wanted * 2 + 1024;

    while (!*all && db_rows_next(rows)) {
        const void *text = sqlite3_column_text(rows->stmt, 0);

        rows->rc = text ? append_ranked_hit(r, ranking->score, text,
                                            (size_t)sqlite3_column_bytes(rows->stmt, 0), rows->err)
                        : err_no_memory(rows->err, "catalog");
        ranking_add(ranking, ranking->score);
        if (r->count < full)
            continue;
        keep_best(r, ranking_least(ranking));
        full = r->count * 2 + 1024;
        *all = r->count > ranking->wanted + EQUAL_MOST;
    }
    keep_best(r, ranking_least(ranking));
}

static int query_ranked_hits(struct store *st, const struct read_search *search,
                             const char *expression, struct filter_path *path, bool narrow,
                             struct ranking *ranking, struct ranked *ret, bool *all,
                             struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc;

    put_query(search, path, narrow, &sql);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "ttt", expression, READ_MARK_BEGIN(search),
                 READ_MARK_END(search));
    buf_free(&sql);
    conditions_bind(search, path, &rows);
    ranking_bind(&rows, 4, ranking);
    collect_best_hits(&rows, ranking, ret, all);
    rc = db_rows_end(&rows);
    if (*all)
        ranked_free(ret);
    return rc;
}

/* Those that may be among the best, of equals all. *all: they are asked for all, or so many are
 * equal that it is no gain: *ret is empty then. */
static int ranked_find(struct store *st, const struct read_search *search, const char *expression,
                       struct filter_path *path, struct ranked *ret, bool *all, struct err *err)
{
    struct ranking ranking = {0};
    bool narrow = false;
    int rc;

    *all = search->limit == 0 || search->limit > WANTED_MOST || search->offset > WANTED_MOST;
    if (*all)
        return 0;
    rc = ranking_functions(st, err);
    if (rc == 0)
        rc = is_narrow(st, search, path, &narrow, err);
    if (rc == 0)
        rc = ranking_make((size_t)(search->offset + search->limit), &ranking, err);
    if (rc == 0)
        rc = query_ranked_hits(st, search, expression, path, narrow, &ranking, ret, all, err);
    ranking_free(&ranking);
    return rc;
}

/* ---------------------------------------------------------------------------------- handing out */

static int best_first(const void *a, const void *b)
{
    const struct ranked_hit *x = a, *y = b;

    return (x->score < y->score) - (x->score > y->score);
}

/* "[[rank, [segment, snippet]], ...": equal ones have one rank. */
static void put_list(struct ranked *r, struct buf *json)
{
    size_t rank = 0;

    if (r->count > 1)
        qsort(r->hits, r->count, sizeof(*r->hits), best_first);
    for (size_t i = 0; i < r->count; i++) {
        rank += i > 0 && r->hits[i].score != r->hits[i - 1].score;
        buf_printf(json, "%s[%zu,", i > 0 ? "," : "[", rank);
        buf_put(json, r->texts.data + r->hits[i].at, r->hits[i].len);
        buf_put(json, "]", 1);
    }
    buf_printf(json, "%s]", r->count > 0 ? "" : "[");
}

/* Hands them out as read_search does. */
static int ranked_give(struct store *st, const struct read_search *search, struct ranked *found,
                       read_segment_fn fn, void *arg, struct err *err)
{
    struct buf sql = BUF_INIT, json = BUF_INIT;
    struct db_rows rows;
    int rc;

    put_list(found, &json);
    text_rows_select(&sql, "j.snippet",
                     "(SELECT json_extract(value, '$[0]') AS rank, "
                     "json_extract(value, '$[1][0]') AS id, "
                     "json_extract(value, '$[1][1]') AS snippet FROM json_each(?1)) j "
                     "CROSS JOIN segment g ON g.segment_id = j.id",
                     "1");
    buf_printf(&sql, " ORDER BY j.rank, p.path, p.member, g.start_ms, g.segment_id "
                     "LIMIT ?2 OFFSET ?3");
    sql.failed |= !buf_cstr(&json);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "tii", sql.failed ? NULL : buf_cstr(&json),
                 (int64_t)search->limit, (int64_t)search->offset);
    buf_free(&sql);
    rc = text_rows_give(&rows, fn, arg);
    buf_free(&json);
    return rc;
}

/* ---- Full-text search */

int read_query(struct store *st, const char *text, struct query **ret, size_t *at, struct err *err)
{
    struct index_words index = {0};
    struct query_words words;
    int rc = index_words_open(st, &index, err);

    if (rc != 0)
        return rc;
    words = index_words_of(&index);
    rc = query_parse(text, &words, ret, at, err);
    index_words_close(&index);
    return rc;
}

int read_word_count(struct store *st, const char *text, size_t *ret, struct err *err)
{
    struct index_words index = {0};
    struct query_words words;
    int rc = index_words_open(st, &index, err);

    if (rc != 0)
        return rc;
    words = index_words_of(&index);
    rc = words.count(words.arg, text, strlen(text), err);
    index_words_close(&index);
    if (rc < 0)
        return rc;
    *ret = (size_t)rc;
    return 0;
}

static int expression_of(struct store *st, const char *text, char **ret, struct err *err)
{
    struct query *q = NULL;
    size_t at;
    int rc = read_query(st, text, &q, &at, err);

    if (rc == 0)
        rc = widen(st, q, err);
    if (rc == 0)
        rc = query_match(q, ret, err);
    query_free(q);
    return rc;
}

/* All that are found, in their order. */
static int read_sorted(struct store *st, const struct read_search *search, const char *expression,
                       struct filter_path *path, read_segment_fn fn, void *arg, struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    text_rows_select(&sql, "highlight(segment_fts, 0, ?2, ?3)",
                     "segment_fts CROSS JOIN segment g ON g.segment_id = segment_fts.rowid",
                     "segment_fts MATCH ?1");
    conditions_put(search, path, &sql);
    buf_printf(&sql, " ORDER BY %s p.path, p.member, g.start_ms, g.segment_id LIMIT ?4 OFFSET ?5",
               search->by_time ? "" : "segment_fts.rank,");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "tttii", expression, READ_MARK_BEGIN(search),
                 READ_MARK_END(search), search->limit ? (int64_t)search->limit : (int64_t)-1,
                 (int64_t)search->offset);
    buf_free(&sql);
    conditions_bind(search, path, &rows);
    return text_rows_give(&rows, fn, arg);
}

int read_search(struct store *st, const struct read_search *search, read_segment_fn fn, void *arg,
                struct err *err)
{
    struct filter_path path = {0};
    struct ranked found = {0};
    char *expression = NULL;
    bool all = true;
    int rc;

    rc = expression_of(st, search->text, &expression, err);
    if (rc == 0)
        rc = filter_path_make(search->path, &path, err);
    if (rc == 0 && !search->by_time)
        rc = ranked_find(st, search, expression, &path, &found, &all, err);
    if (rc == 0)
        rc = all ? read_sorted(st, search, expression, &path, fn, arg, err)
                 : ranked_give(st, search, &found, fn, arg, err);
    ranked_free(&found);
    filter_path_free(&path);
    free(expression);
    return rc;
}
