#include "store/read/read.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/filter.h"

#define CANDIDATES_MAX 20

static const char sql_recordings[] =
    "SELECT m.media_id, p.path, p.member, p.path_raw, " MEMBER_BYTES ", m.places, m.size_bytes, "
    "ifnull(m.duration_ms, -1), r.state, r.language, m.title, m.container, m.codec, m.damage, "
    "(SELECT t.error_code FROM task t WHERE t.media_id = m.media_id AND t.wanted "
    " AND t.error_code IS NOT NULL ORDER BY t.state <> 'failed', t.task_id LIMIT 1), "
    "(SELECT t.error FROM task t WHERE t.media_id = m.media_id AND t.wanted "
    " AND t.error_code IS NOT NULL ORDER BY t.state <> 'failed', t.task_id LIMIT 1), "
    "r.segments, "
    "(SELECT ifnull(sum(t.shards_done), 0) FROM task t WHERE t.media_id = m.media_id "
    " AND t.wanted), "
    "(SELECT iif(count(*) = count(t.shards_total), ifnull(sum(t.shards_total), 0), 0) "
    " FROM task t WHERE t.media_id = m.media_id AND t.wanted), "
    "ifnull((SELECT iif(t.state <> 'done' AND t.shards_done > 0, 'started', t.state) "
    " FROM task t JOIN stage s ON s.stage_id = t.stage_id WHERE t.media_id = m.media_id "
    " AND s." DB_TRANSCRIBES " AND t.current), ''), "
    "(SELECT group_concat(name, ', ') FROM (SELECT s.name FROM task t "
    " JOIN stage s ON s.stage_id = t.stage_id WHERE t.media_id = m.media_id AND t.state = 'done' "
    " GROUP BY s.name ORDER BY min(s.stage_id))), "
    "EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
    " WHERE t.media_id = m.media_id AND t.state = 'done' AND s." DB_FINALIZES "), "
    "m.recorded_on, m.recorded_from, "
    "EXISTS (SELECT 1 FROM task t WHERE t.media_id = m.media_id AND t.wanted), r.left_out, "
    "NOT EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
    " WHERE t.media_id = m.media_id AND s." DB_TRANSCRIBES ") "
    " AND EXISTS (SELECT 1 FROM recipe a WHERE a.kind = 'transcribe' AND " DB_UNDER(
        "p.path_raw", "a.path_raw") "), m.audio_tracks IS 0 "
                                    "FROM media m JOIN recordings r ON r.media_id = m.media_id "
                                    "JOIN place p ON p.place_id = m.place_id WHERE ";

static struct read_recording recording_row(sqlite3_stmt *stmt)
{
    struct read_recording r = {.media_id = sqlite3_column_int64(stmt, 0),
                               .path = db_text(stmt, 1),
                               .member = db_text(stmt, 2),
                               .path_raw = sqlite3_column_blob(stmt, 3),
                               .member_raw = sqlite3_column_blob(stmt, 4),
                               .path_raw_len = (size_t)sqlite3_column_bytes(stmt, 3),
                               .member_raw_len = (size_t)sqlite3_column_bytes(stmt, 4),
                               .places = (uint32_t)sqlite3_column_int64(stmt, 5),
                               .size_bytes = (uint64_t)sqlite3_column_int64(stmt, 6),
                               .duration_ms = sqlite3_column_int64(stmt, 7),
                               .state = db_text(stmt, 8),
                               .language = db_text(stmt, 9),
                               .title = db_text(stmt, 10),
                               .container = db_text(stmt, 11),
                               .codec = db_text(stmt, 12),
                               .damage = db_text(stmt, 13),
                               .error_code = db_text(stmt, 14),
                               .error = db_text(stmt, 15),
                               .segments = (uint64_t)sqlite3_column_int64(stmt, 16),
                               .shards_done = (uint64_t)sqlite3_column_int64(stmt, 17),
                               .shards_total = (uint64_t)sqlite3_column_int64(stmt, 18),
                               .transcript = db_text(stmt, 19),
                               .stages = db_text(stmt, 20),
                               .diarized = sqlite3_column_int(stmt, 21) != 0,
                               .recorded_on = db_text(stmt, 22),
                               .recorded_from = db_text(stmt, 23),
                               .asked = sqlite3_column_int(stmt, 24) != 0,
                               .left_out = db_text(stmt, 25),
                               .forgotten = sqlite3_column_int(stmt, 26) != 0,
                               .no_sound = sqlite3_column_int(stmt, 27) != 0};

    if (!r.path_raw)
        r.path_raw = "";
    if (!r.member_raw)
        r.member_raw = "";
    return r;
}

int read_recordings(struct store *st, const struct read_filter *filter, read_recording_fn fn,
                    void *arg, struct err *err)
{
    struct filter_path path = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(filter->path, &path, err);

    if (rc < 0)
        return rc;
    buf_put(&sql, sql_recordings, strlen(sql_recordings));
    buf_printf(&sql, "m.media_id > ?1");
    if (filter->state)
        buf_printf(&sql, " AND r.state = ?2");
    if (filter->with_results)
        buf_printf(&sql, " AND EXISTS (SELECT 1 FROM task t WHERE t.media_id = m.media_id "
                         "AND t.shards_done > 0)");
    if (filter->path)
        buf_printf(&sql, " AND m.media_id IN (%s)", filter_path_sql(&path, 4));
    buf_printf(&sql, " ORDER BY m.media_id LIMIT ?3");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "iti", filter->after, filter->state,
                 filter->limit ? (int64_t)filter->limit : (int64_t)-1);
    if (filter->path)
        db_rows_bind(&rows, "---bbb", FILTER_PATH_VALUES(&path));
    while (db_rows_next(&rows)) {
        struct read_recording row = recording_row(rows.stmt);

        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&path);
    buf_free(&sql);
    return rc;
}

int read_recording_by_id(struct store *st, int64_t media_id, read_recording_fn fn, void *arg,
                         struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    buf_printf(&sql, "%sm.media_id = ?1", sql_recordings);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "i", media_id);
    buf_free(&sql);
    if (db_rows_next(&rows)) {
        struct read_recording row = recording_row(rows.stmt);

        rows.rc = fn ? fn(arg, &row) : 0;
    } else if (rows.rc == 0) {
        rows.rc = err_set(err, ERR_MISSING, "there is no recording %lld", (long long)media_id);
    }
    return db_rows_end(&rows);
}

/* Up to `max` ids that a query yields for the bytes of `what`. */
static int find_ids(struct store *st, const char *sql, const char *what, int64_t *ids, size_t max,
                    size_t *n, struct err *err)
{
    struct db_rows rows;

    *n = 0;
    db_rows_open(&rows, st, err, sql, "bi", what, strlen(what), (int64_t)max);
    while (db_rows_next(&rows))
        if (*n < max)
            ids[(*n)++] = sqlite3_column_int64(rows.stmt, 0);
    return db_rows_end(&rows);
}

/* A file by its exact bytes, with all members of an archive. */
static const char sql_exact[] =
    "SELECT DISTINCT media_id FROM place "
    "WHERE path_raw = ?1 AND state <> 'replaced' ORDER BY media_id LIMIT ?2";
/* And whether it was called so before, and lies elsewhere now. */
static const char sql_names[] =
    "SELECT p.media_id, p.path || iif(p.member = '', '', '//' || p.member), "
    "p.state <> 'present' AND m.places > 0 FROM place p JOIN media m ON m.media_id = p.media_id "
    "WHERE p.state <> 'replaced' ORDER BY p.media_id";

/* The ids whose names fit best, as find_ids. */
static int find_fitting(struct store *st, read_fit_fn fit, void *arg, int64_t *ids, size_t max,
                        size_t *n, struct err *err)
{
    struct db_rows rows;
    int best = 0;

    *n = 0;
    db_rows_open(&rows, st, err, sql_names, "");
    while (db_rows_next(&rows)) {
        const int64_t id = sqlite3_column_int64(rows.stmt, 0);
        int rank = fit(arg, db_text(rows.stmt, 1));

        if (rank > 0) /* of names that fit alike, those of today */
            rank = 2 * rank + sqlite3_column_int(rows.stmt, 2);
        if (rank < 0)
            rows.rc = err_set(err, rank, "looking for a recording: %s", err_name(rank));
        if (rank <= 0 || (best && rank > best))
            continue;
        if (!best || rank < best)
            *n = 0;
        best = rank;
        if (*n < max && (*n == 0 || ids[*n - 1] != id)) /* each has its places one by one */
            ids[(*n)++] = id;
    }
    return db_rows_end(&rows);
}

static bool is_number(const char *s)
{
    size_t n = strspn(s, "0123456789");

    return n > 0 && n <= 18 && !s[n];
}

static int report_ambiguous_name(struct store *st, const char *what, const int64_t *ids, size_t n,
                                 read_recording_fn candidate, void *arg, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; candidate && i < n && i < CANDIDATES_MAX && rc == 0; i++)
        rc = read_recording_by_id(st, ids[i], candidate, arg, err);
    if (rc < 0)
        return rc;
    return err_set(err, ERR_USAGE,
                   "'%.200s' fits %s%zu recordings. Try its number, or more of its path", what,
                   n > CANDIDATES_MAX ? "more than " : "", n > CANDIDATES_MAX ? n - 1 : n);
}

int read_find(struct store *st, const char *what, read_fit_fn fit, void *fit_arg,
              read_recording_fn candidate, void *arg, int64_t *ret, struct err *err)
{
    int64_t ids[CANDIDATES_MAX + 1];
    size_t n = 0;
    int rc = 0;

    if (!*what)
        return err_set(err, ERR_USAGE, "which recording? give a path, the end of one, or a number");
    if (is_number(what)) {
        ids[0] = strtoll(what, NULL, 10);
        rc = read_recording_by_id(st, ids[0], NULL, NULL, err);
        n = rc == 0;
        rc = rc == ERR_MISSING ? 0 : rc;
    }
    if (rc == 0 && !n && *what == '/')
        rc = find_ids(st, sql_exact, what, ids, CANDIDATES_MAX + 1, &n, err);
    if (rc == 0 && !n)
        rc = find_fitting(st, fit, fit_arg, ids, CANDIDATES_MAX + 1, &n, err);
    if (rc < 0)
        return rc;
    if (n == 0)
        return err_set(err, ERR_MISSING, "the catalog has no recording '%.200s'", what);
    if (n > 1)
        return report_ambiguous_name(st, what, ids, n, candidate, arg, err);
    *ret = ids[0];
    return 0;
}
