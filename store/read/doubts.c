#include "store/read/doubts.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/filter.h"
#include "store/read/text_rows.h"

#define FIRST_PATH 5 /* parameter; each path has three */

/* The least certain ones are chosen before their texts, words and places are looked at. */
#define CHOSEN                                                                                   \
    "SELECT d.segment_id, length(d.reason) - length(replace(d.reason, ';', '')) + "              \
    "(d.reason NOT LIKE 'tried again%%') AS signs, d.avg_logprob, d.path, d.member, d.start_ms " \
    "FROM doubts d "
#define LEAST_CERTAIN(of)                                                                         \
    "signs DESC, " of ".avg_logprob IS NULL, " of ".avg_logprob, " of ".path, " of ".member, " of \
    ".start_ms, " of ".segment_id"

#define HEARD_SINCE                                                                    \
    "EXISTS (SELECT 1 FROM shard h WHERE h.task_id = g.task_id AND h.seq = g.seq AND " \
    "h.done_at > ?4)"

struct reading {
    struct store *st;
    struct filter_path *paths; /* owned, path_count of them */
    read_doubt_fn fn;
    void *arg;
    struct err *err;
};

static int make_paths(struct reading *r, const struct read_doubts *which)
{
    int rc = 0;

    r->paths = calloc(which->path_count + 1, sizeof(*r->paths));
    if (!r->paths)
        return err_no_memory(r->err, "catalog");
    for (size_t i = 0; i < which->path_count && rc == 0; i++)
        rc = filter_path_make(which->paths[i], &r->paths[i], r->err);
    return rc;
}

static int first_of(size_t path) { return FIRST_PATH + 3 * (int)path; }

/* Appends a condition on the paths; `of` is the table whose rows name the recording. */
static void put_paths(struct reading *r, const struct read_doubts *which, const char *of,
                      struct buf *sql)
{
    for (size_t i = 0; i < which->path_count; i++)
        buf_printf(sql, "%s %s.media_id IN (%s)%s", i == 0 ? " AND (" : " OR", of,
                   filter_path_sql(&r->paths[i], first_of(i)),
                   i + 1 == which->path_count ? ")" : "");
}

static void put_kept(struct reading *r, const struct read_doubts *which, struct buf *sql)
{
    struct buf from = BUF_INIT;

    buf_printf(&from, "(" CHOSEN "%sWHERE d.outcome = 'kept'",
               which->speaker || which->since
                   ? "CROSS JOIN segment g ON g.segment_id = d.segment_id "
                     "LEFT JOIN speaker k ON k.speaker_id = g.speaker_id "
                   : "");
    if (which->speaker)
        buf_printf(&from, " AND " FILTER_SPEAKER("?2"));
    if (which->language)
        buf_printf(&from, " AND d.language = ?3");
    if (which->since)
        buf_printf(&from, " AND " HEARD_SINCE);
    put_paths(r, which, "d", &from);
    buf_printf(&from, " ORDER BY " LEAST_CERTAIN(
                          "d") " LIMIT ?1) c "
                               "CROSS JOIN segment g ON g.segment_id = c.segment_id");
    text_rows_select(sql, "NULL", buf_cstr(&from) ? buf_cstr(&from) : "", "1");
    buf_printf(sql, " ORDER BY " LEAST_CERTAIN("c"));
    sql->failed |= from.failed;
    buf_free(&from);
}

static void put_missing(struct reading *r, const struct read_doubts *which, struct buf *sql)
{
    text_rows_select(sql, "NULL", TEXT_ROWS_DROPPED, "g.text = '' AND t.current");
    if (which->speaker)
        buf_printf(sql, " AND " FILTER_SPEAKER("?2"));
    if (which->language)
        buf_printf(sql, " AND g.language = ?3");
    if (which->since)
        buf_printf(sql, " AND " HEARD_SINCE);
    put_paths(r, which, "t", sql);
    buf_printf(sql, " ORDER BY g.end_ms - g.start_ms DESC, p.path, p.member, g.start_ms LIMIT ?1");
}

static void bind_paths(struct reading *r, size_t n, struct db_rows *rows)
{
    for (size_t i = 0; i < n; i++) {
        struct buf format = BUF_INIT;

        for (int k = 1; k < first_of(i); k++)
            buf_put(&format, "-", 1);
        buf_printf(&format, "bbb");
        if (buf_cstr(&format))
            db_rows_bind(rows, buf_cstr(&format), FILTER_PATH_VALUES(&r->paths[i]));
        else if (rows->rc == 0)
            rows->rc = err_no_memory(r->err, "catalog");
        buf_free(&format);
    }
}

/* Adds the recording's place, as raw bytes. */
static int on_segment(void *arg, const struct read_segment *segment)
{
    struct reading *r = arg;
    sqlite3_stmt *stmt = NULL;
    struct read_doubt row = {.segment = segment, .path_raw = "", .member_raw = ""};
    int rc = db_first(r->st, &stmt, r->err,
                      "SELECT p.path_raw, p.member_raw, p.nth, p.state = 'present' FROM media m "
                      "JOIN place p ON p.place_id = m.place_id WHERE m.media_id = ?",
                      "i", segment->media_id);

    if (rc != 1)
        return rc;
    row.path_raw_len = (size_t)sqlite3_column_bytes(stmt, 0);
    row.member_raw_len = (size_t)sqlite3_column_bytes(stmt, 1);
    if (row.path_raw_len > 0)
        row.path_raw = sqlite3_column_blob(stmt, 0);
    if (row.member_raw_len > 0)
        row.member_raw = sqlite3_column_blob(stmt, 1);
    row.nth = (uint32_t)sqlite3_column_int64(stmt, 2);
    row.present = sqlite3_column_int(stmt, 3) != 0;
    rc = row.path_raw && row.member_raw ? r->fn(r->arg, &row) : err_no_memory(r->err, "catalog");
    sqlite3_reset(stmt);
    return rc;
}

static int read_these(struct reading *r, const struct read_doubts *which, bool missing)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    (missing ? put_missing : put_kept)(r, which, &sql);
    db_rows_open(&rows, r->st, r->err, buf_cstr(&sql), "i",
                 which->limit ? (int64_t)which->limit : (int64_t)-1);
    if (which->speaker)
        db_rows_bind(&rows, "-t", which->speaker);
    if (which->language)
        db_rows_bind(&rows, "--t", which->language);
    if (which->since)
        db_rows_bind(&rows, "---t", which->since);
    bind_paths(r, which->path_count, &rows);
    buf_free(&sql);
    return text_rows_give(&rows, on_segment, r);
}

int read_doubts(struct store *st, const struct read_doubts *which, read_doubt_fn fn, void *arg,
                struct err *err)
{
    struct reading r = {.st = st, .fn = fn, .arg = arg, .err = err};
    bool held = false;
    int rc = make_paths(&r, which);

    if (rc == 0)
        rc = store_hold(st, &held, err);
    if (rc == 0 && which->of != READ_DOUBTS_TEXT)
        rc = read_these(&r, which, true);
    if (rc == 0 && which->of != READ_DOUBTS_MISSING)
        rc = read_these(&r, which, false);
    store_let_go(st, held);
    for (size_t i = 0; r.paths && i < which->path_count; i++)
        filter_path_free(&r.paths[i]);
    free(r.paths);
    return rc;
}
