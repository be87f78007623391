/* The end of a walk: what was under its roots and is not there any more. */
#include <stdlib.h>
#include <string.h>

#include "store/choice.h"
#include "store/requests/request_apply.h"

struct span {
    const char *data;
    size_t len;
};

static int span_compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->data, y->data, n);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* The unread paths, sorted, without trailing slashes. */
struct unread {
    struct span *list;
    size_t count;
};

static int unread_make(const struct request *rq, struct unread *ret, struct err *err)
{
    struct unread u = {calloc(rq->unread_count + 1, sizeof(*u.list)), rq->unread_count};

    if (!u.list)
        return err_no_memory(err, "catalog");
    for (size_t i = 0; i < u.count; i++) {
        u.list[i] = (struct span){rq->unread[i], strlen(rq->unread[i])};
        while (u.list[i].len && u.list[i].data[u.list[i].len - 1] == '/')
            u.list[i].len--;
    }
    qsort(u.list, u.count, sizeof(*u.list), span_compare);
    *ret = u;
    return 0;
}

/* Is the path, or a directory above it, among the unread? One search per level. */
static bool unread_covers(const struct unread *u, const char *path, size_t len)
{
    for (size_t n = 0; u->count && n <= len; n++) {
        struct span key = {path, n};

        if ((n == len || path[n] == '/') &&
            bsearch(&key, u->list, u->count, sizeof(*u->list), span_compare))
            return true;
    }
    return false;
}

/* Runs a query of (id, path_raw) for a root: ?1 the job, ?2 the root itself, ?3 and ?4 what is
 * below. */
static int collect_ids_below(struct store *st, const char *sql, int64_t job_id, const char *root,
                             const struct unread *unread, struct apply_ids *ids, struct err *err)
{
    struct db_prefix below = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = db_prefix(root, strlen(root), &below, err);

    if (rc < 0)
        return rc;
    rc = db_first(st, &stmt, err, sql, "ibbb", job_id, below.low, below.len - 1, below.low,
                  below.len, below.high, below.len);
    while (rc == 1) {
        const char *path = sqlite3_column_blob(stmt, 1);
        size_t len = (size_t)sqlite3_column_bytes(stmt, 1);

        if (path && !unread_covers(unread, path, len))
            rc = apply_ids_add(ids, sqlite3_column_int64(stmt, 0), err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    db_prefix_free(&below);
    return rc;
}

static const char sql_gone[] = "SELECT place_id, path_raw FROM place "
                               "WHERE state <> 'replaced' AND state = 'present' AND seen_job < ?1 "
                               "AND " DB_BELOW("path_raw", "?2", "?3", "?4");
static const char sql_stale[] = "SELECT trouble_id, path_raw FROM trouble WHERE job_id < ?1 "
                                "AND " DB_BELOW("path_raw", "?2", "?3", "?4");

static const char sql_present[] =
    "SELECT p.place_id, p.media_id, m.places, p.path_raw FROM place p "
    "JOIN media m ON m.media_id = p.media_id WHERE p.state <> 'replaced' AND p.state = 'present' "
    "AND " DB_BELOW("p.path_raw", "?1", "?2", "?3");

static int present_below(struct store *st, const char *root, const struct unread *unread,
                         store_present_fn fn, void *arg, struct err *err)
{
    struct db_prefix below = {0};
    struct db_rows rows;
    int rc = db_prefix(root, strlen(root), &below, err);

    if (rc < 0)
        return rc;
    db_rows_open(&rows, st, err, sql_present, "bbb", below.low, below.len - 1, below.low, below.len,
                 below.high, below.len);
    while (db_rows_next(&rows)) {
        const char *path = sqlite3_column_blob(rows.stmt, 3);
        size_t len = (size_t)sqlite3_column_bytes(rows.stmt, 3);

        if (path && !unread_covers(unread, path, len))
            rows.rc =
                fn(arg, sqlite3_column_int64(rows.stmt, 0), sqlite3_column_int64(rows.stmt, 1),
                   (uint64_t)sqlite3_column_int64(rows.stmt, 2), err);
    }
    rc = db_rows_end(&rows);
    db_prefix_free(&below);
    return rc;
}

int store_present(struct store *st, const struct request *end, store_present_fn fn, void *arg,
                  struct err *err)
{
    struct unread unread = {0};
    int rc = unread_make(end, &unread, err);

    for (uint32_t i = 0; i < end->root_count && rc == 0; i++)
        rc = present_below(st, end->roots[i], &unread, fn, arg, err);
    free(unread.list);
    return rc;
}

int store_has_below(struct store *st, const char *path, size_t len, struct err *err)
{
    struct db_prefix below = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = db_prefix(path, len, &below, err);

    if (rc < 0)
        return rc;
    rc = db_first(st, &stmt, err,
                  "SELECT 1 FROM place p WHERE p.state <> 'replaced' AND p.state = 'present' "
                  "AND " DB_BELOW("p.path_raw", "?1", "?2", "?3") " LIMIT 1",
                  "bbb", below.low, below.len - 1, below.low, below.len, below.high, below.len);
    if (rc == 1)
        sqlite3_reset(stmt);
    db_prefix_free(&below);
    return rc;
}

static int find_vanished_places(struct request_work *w, struct err *err)
{
    const struct request *rq = w->rq;
    struct unread unread = {0};
    int rc = unread_make(rq, &unread, err);

    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect_ids_below(w->st, sql_gone, rq->job_id, rq->roots[i], &unread, &w->rows, err);
    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect_ids_below(w->st, sql_stale, rq->job_id, rq->roots[i], &unread, &w->troubles,
                               err);
    free(unread.list);
    return rc;
}

/* A recording with another present place is not gone. Roots may overlap, and another walk may have
 * seen a place since it was found to be gone. */
static int vanish_one(struct request_work *w, int64_t place_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t media_id;
    int rc = db_first(w->st, &stmt, err,
                      "UPDATE place SET state = 'vanished', gone_at = ?1 "
                      "WHERE place_id = ?2 AND state = 'present' AND seen_job < ?3 "
                      "RETURNING media_id",
                      "tii", w->now, place_id, w->rq->job_id);

    if (rc != 1)
        return rc;
    media_id = sqlite3_column_int64(stmt, 0);
    w->reply.counts.vanished++;
    rc = db_next(w->st, stmt, err);
    if (rc == 0)
        rc = main_place_went(w->st, media_id, place_id, true, err);
    if (rc == 0)
        rc = db_first(w->st, &stmt, err, "SELECT places = 0 FROM media WHERE media_id = ?", "i",
                      media_id);
    if (rc == 1) {
        w->reply.counts.gone += (uint64_t)sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

static int remove_vanished_piece(struct request_work *w, struct err *err)
{
    size_t left = APPLY_PIECE;
    int rc = 0;

    for (; w->rows.next < w->rows.count && left && rc == 0; left--)
        rc = vanish_one(w, w->rows.list[w->rows.next++], err);
    for (; w->troubles.next < w->troubles.count && left && rc == 0; left--)
        rc = db_run(w->st, err, "DELETE FROM trouble WHERE trouble_id = ? AND job_id < ?", "ii",
                    w->troubles.list[w->troubles.next++], w->rq->job_id);
    return rc < 0 ? rc : w->rows.next < w->rows.count || w->troubles.next < w->troubles.count;
}

/* An archive that could not be read to its end must not look unchanged to the next walk. */
static int invalidate_unread_archives(struct store *st, const struct request *rq, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < rq->unread_count && rc == 0; i++)
        rc = db_run(st, err,
                    "UPDATE place SET mtime_ns = -1 WHERE path_raw = ? AND state <> 'replaced' "
                    "AND member_raw <> x''",
                    "b", rq->unread[i], strlen(rq->unread[i]));
    return rc;
}

int enqueue_end(struct request_work *w, struct err *err)
{
    int rc = 0;

    if (!w->begun) {
        db_now(w->now);
        rc = find_vanished_places(w, err);
    }
    if (rc == 0)
        rc = remove_vanished_piece(w, err);
    if (rc == 0)
        rc = invalidate_unread_archives(w->st, w->rq, err);
    else
        return rc;
    if (rc == 0)
        rc = db_run(w->st, err,
                    "UPDATE job SET ended_at = ?2, vanished = vanished + ?3 WHERE job_id = ?1",
                    "iti", w->rq->job_id, w->now, (int64_t)w->reply.counts.vanished);
    if (rc == 0 && sqlite3_changes64(w->st->db) == 0)
        rc = err_set(err, ERR_INPUT, "there is no job %lld", (long long)w->rq->job_id);
    return rc;
}
