#include "store/search/ranked.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/read/text_rows.h"
#include "store/search/conditions.h"
#include "store/search/ranking.h"

#define WANTED_MOST 20000u /* more are sorted as they are */
#define EQUAL_MOST 20000u  /* as many, beside those that are wanted */
#define FEW 100000         /* segments in the scope: only they are asked about */

void ranked_free(struct ranked *r)
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

static int add(struct ranked *r, double score, const void *text, size_t len, struct err *err)
{
    if (!list_grow(&r->hits, &r->room, r->count, sizeof(*r->hits)))
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    r->hits[r->count++] = (struct ranked_hit){score, r->texts.len, len};
    buf_put(&r->texts, text, len);
    return r->texts.failed ? err_set(err, ERR_NOMEM, "catalog: out of memory") : 0;
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

/* Of each row, until too many are equal. */
static void choose(struct db_rows *rows, struct ranking *ranking, struct ranked *r, bool *all)
{
    size_t full = ranking->wanted * 2 + 1024;

    while (!*all && db_rows_next(rows)) {
        const void *text = sqlite3_column_text(rows->stmt, 0);

        rows->rc = text ? add(r, ranking->score, text, (size_t)sqlite3_column_bytes(rows->stmt, 0),
                              rows->err)
                        : err_set(rows->err, ERR_NOMEM, "catalog: out of memory");
        ranking_add(ranking, ranking->score);
        if (r->count < full)
            continue;
        keep_best(r, ranking_least(ranking));
        full = r->count * 2 + 1024;
        *all = r->count > ranking->wanted + EQUAL_MOST;
    }
    keep_best(r, ranking_least(ranking));
}

static int find(struct store *st, const struct read_search *search, const char *expression,
                struct filter_path *path, bool narrow, struct ranking *ranking, struct ranked *ret,
                bool *all, struct err *err)
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
    choose(&rows, ranking, ret, all);
    rc = db_rows_end(&rows);
    if (*all)
        ranked_free(ret);
    return rc;
}

int ranked_find(struct store *st, const struct read_search *search, const char *expression,
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
        rc = find(st, search, expression, path, narrow, &ranking, ret, all, err);
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

int ranked_give(struct store *st, const struct read_search *search, struct ranked *found,
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
