#include "store/read/pace.h"

#include "store/db.h"

#define LAST_TASKS "1000"
#define LEAST_MS 100 /* in less, what the clock and a start add is most of it */
/* Shards are written in groups, each with the time of the writing: where they are short, the others
 * of its group hide behind one, and what lies between two groups was work. */
#define GROUP_MS 200

/* Intervals by their end, latest first, as one time: that in which there is at least one. */
struct together {
    double from, to; /* the stretch so far, which the next one may belong to */
    double all;
};

static void merge_work_interval(struct together *t, double from, double to)
{
    if (to < t->from - GROUP_MS) {
        t->all += t->to - t->from;
        t->to = to;
        t->from = from;
    } else if (from < t->from) {
        t->from = from;
    }
}

int store_pace(struct store *st, int64_t stage_id, const char *device, double *ret, struct err *err)
{
    struct together t = {0};
    double audio_ms = 0;
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT (julianday(h.done_at) - 2440587.5) * 86400000, h.wall_ms, "
                 "h.end_ms - h.start_ms FROM (SELECT task_id FROM task WHERE stage_id = ?1 "
                 "AND shards_done > 0 ORDER BY task_id DESC LIMIT " LAST_TASKS ") t "
                 "CROSS JOIN shard h ON h.task_id = t.task_id "
                 "WHERE h.device = ?2 AND h.wall_ms > 0 ORDER BY 1 DESC",
                 "it", stage_id, device);
    for (bool first = true; db_rows_next(&rows); first = false) {
        double to = sqlite3_column_double(rows.stmt, 0);
        double from = to - sqlite3_column_double(rows.stmt, 1);

        if (first)
            t = (struct together){from, to, 0};
        else
            merge_work_interval(&t, from, to);
        audio_ms += sqlite3_column_double(rows.stmt, 2);
    }
    rc = db_rows_end(&rows);
    t.all += t.to - t.from;
    if (rc == 0)
        *ret = t.all >= LEAST_MS ? audio_ms / t.all : 0;
    return rc;
}

int store_waiting(struct store *st, int64_t stage_id, struct store_waiting *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT count(w.duration_ms), ifnull(sum(w.duration_ms * w.comes), 0), "
                      "ifnull(sum(w.comes * (w.duration_ms IS NULL)), 0), "
                      "ifnull(sum(w.size_bytes * w.comes * (w.duration_ms IS NULL)), 0) "
                      "FROM (SELECT m.duration_ms, m.size_bytes, "
                      "o.state = 'pending' AND o.paused = 0 AND o.absent = 0 AS comes FROM task t "
                      "JOIN stage s ON s.stage_id = t.stage_id "
                      "JOIN task o ON o.media_id = t.media_id AND o.stage_id = s.source_id "
                      "JOIN media m ON m.media_id = t.media_id "
                      "WHERE t.stage_id = ? AND t.state = 'pending' AND t.waits = 'source' "
                      "AND t.paused = 0 AND t.absent = 0) w",
                      "i", stage_id);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "the catalog counts nothing");
    *ret = (struct store_waiting){.known = (uint64_t)sqlite3_column_int64(stmt, 0),
                                  .audio_ms = sqlite3_column_int64(stmt, 1),
                                  .unknown = (uint64_t)sqlite3_column_int64(stmt, 2),
                                  .bytes = (uint64_t)sqlite3_column_int64(stmt, 3)};
    sqlite3_reset(stmt);
    return 0;
}

int store_undecoded(struct store *st, store_undecoded_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT ifnull(m.codec, ''), ifnull(iif(p.member = '', p.path, p.member), ''), "
                 "m.size_bytes, ifnull(m.duration_ms, -1), "
                 "ifnull(m.sample_rate_hz * m.channels, 0) FROM (SELECT DISTINCT t.media_id "
                 "FROM task t JOIN stage s ON s.stage_id = t.stage_id WHERE t.state = 'pending' "
                 "AND t.paused = 0 AND t.absent = 0 AND t.waits IS NULL AND s.source_id IS NULL) k "
                 "JOIN media m ON m.media_id = k.media_id "
                 "LEFT JOIN place p ON p.place_id = m.place_id",
                 "");
    while (db_rows_next(&rows)) {
        const struct store_undecoded row = {
            .codec = db_text(rows.stmt, 0),
            .name = db_text(rows.stmt, 1),
            .size_bytes = (uint64_t)sqlite3_column_int64(rows.stmt, 2),
            .duration_ms = sqlite3_column_int64(rows.stmt, 3),
            .samples_s = sqlite3_column_int64(rows.stmt, 4),
        };

        fn(arg, &row);
    }
    return db_rows_end(&rows);
}

/* A task that has begun has the sources that were found in it. Of any other task it is not known
 * what it will find: the most that another task found in the recording are assumed. */
int store_apart(struct store *st, int64_t stage_id, struct store_apart *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(
        st, &stmt, err,
        "WITH heard AS (SELECT o.media_id, max(x.source) AS n FROM source x "
        "CROSS JOIN task o ON o.task_id = x.task_id GROUP BY o.media_id) "
        "SELECT count(*), ifnull(sum((k.n - 1) * max(0, ifnull(k.duration_ms, 0) - "
        "(SELECT ifnull(sum(d.end_ms - d.start_ms), 0) FROM shard d WHERE d.task_id = k.task_id))),"
        " 0) FROM (SELECT t.task_id, m.duration_ms, "
        "coalesce((SELECT max(x.source) FROM source x WHERE x.task_id = t.task_id), "
        "iif(t.shards_done > 0, 1, h.n)) AS n "
        "FROM heard h CROSS JOIN task t ON t.media_id = h.media_id AND t.stage_id = ?1 "
        "JOIN media m ON m.media_id = t.media_id "
        "WHERE t.state = 'pending' AND t.paused = 0 AND t.absent = 0) k WHERE k.n > 1",
        "i", stage_id);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "the catalog counts nothing");
    *ret = (struct store_apart){(uint64_t)sqlite3_column_int64(stmt, 0),
                                sqlite3_column_int64(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}
