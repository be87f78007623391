/* The end of a walk: what was under its roots and is not there any more. */
#include <stdlib.h>
#include <string.h>

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
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
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
static int collect(struct store *st, const char *sql, int64_t job_id, const char *root,
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

static int find(struct request_work *w, struct err *err)
{
    const struct request *rq = w->rq;
    struct unread unread = {0};
    int rc = unread_make(rq, &unread, err);

    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect(w->st, sql_gone, rq->job_id, rq->roots[i], &unread, &w->rows, err);
    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect(w->st, sql_stale, rq->job_id, rq->roots[i], &unread, &w->troubles, err);
    free(unread.list);
    return rc;
}

/* Roots may overlap, and another walk may have seen a place since it was found to be gone. */
static int vanish(struct request_work *w, struct err *err)
{
    size_t left = APPLY_PIECE;
    int rc = 0;

    for (; w->rows.next < w->rows.count && left && rc == 0; left--) {
        rc = db_run(w->st, err,
                    "UPDATE place SET state = 'vanished', gone_at = ?1 "
                    "WHERE place_id = ?2 AND state = 'present' AND seen_job < ?3",
                    "tii", w->now, w->rows.list[w->rows.next++], w->rq->job_id);
        if (rc == 0)
            w->reply.counts.vanished += (uint64_t)sqlite3_changes64(w->st->db);
    }
    for (; w->troubles.next < w->troubles.count && left && rc == 0; left--)
        rc = db_run(w->st, err, "DELETE FROM trouble WHERE trouble_id = ? AND job_id < ?", "ii",
                    w->troubles.list[w->troubles.next++], w->rq->job_id);
    return rc < 0 ? rc : w->rows.next < w->rows.count || w->troubles.next < w->troubles.count;
}

/* An archive that could not be read to its end must not look unchanged to the next walk. */
static int distrust(struct store *st, const struct request *rq, struct err *err)
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
        rc = find(w, err);
    }
    if (rc == 0)
        rc = vanish(w, err);
    if (rc == 0)
        rc = distrust(w->st, w->rq, err);
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
