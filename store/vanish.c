/* The end of a walk: what was under its roots and is not there any more. */
#include <stdlib.h>
#include <string.h>

#include "store/apply.h"

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

struct ids {
    int64_t *list;
    size_t count, cap;
};

static int ids_add(struct ids *ids, int64_t id, struct err *err)
{
    if (ids->count == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 256;
        int64_t *list = realloc(ids->list, cap * sizeof(*list));

        if (!list)
            return err_set(err, ERR_NOMEM, "catalog: out of memory");
        ids->list = list;
        ids->cap = cap;
    }
    ids->list[ids->count++] = id;
    return 0;
}

/* Runs a query of (id, path_raw) for a root: ?1 the job, ?2 the root itself, ?3 and ?4 what is
 * below. */
static int collect(struct store *st, const char *sql, int64_t job_id, const char *root,
                   const struct unread *unread, struct ids *ids, struct err *err)
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
            rc = ids_add(ids, sqlite3_column_int64(stmt, 0), err);
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
                               "AND (path_raw = ?2 OR (path_raw >= ?3 AND path_raw < ?4))";
static const char sql_stale[] = "SELECT trouble_id, path_raw FROM trouble WHERE job_id < ?1 "
                                "AND (path_raw = ?2 OR (path_raw >= ?3 AND path_raw < ?4))";

static int vanish(struct store *st, const struct request *rq, const struct unread *unread,
                  const char *now, uint64_t *vanished, struct err *err)
{
    struct ids ids = {0};
    int rc = 0;

    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect(st, sql_gone, rq->job_id, rq->roots[i], unread, &ids, err);
    for (size_t i = 0; i < ids.count && rc == 0; i++) {
        rc = db_run(st, err,
                    "UPDATE place SET state = 'vanished', gone_at = ? "
                    "WHERE place_id = ? AND state = 'present'",
                    "ti", now, ids.list[i]);
        if (rc == 0) /* roots may overlap */
            *vanished += (uint64_t)sqlite3_changes64(st->db);
    }
    ids.count = 0;
    for (uint32_t i = 0; i < rq->root_count && rc == 0; i++)
        rc = collect(st, sql_stale, rq->job_id, rq->roots[i], unread, &ids, err);
    for (size_t i = 0; i < ids.count && rc == 0; i++)
        rc = db_run(st, err, "DELETE FROM trouble WHERE trouble_id = ?", "i", ids.list[i]);
    free(ids.list);
    return rc;
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

int enqueue_end(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err)
{
    struct unread unread = {0};
    char now[CLOCK_ISO_LEN];
    int rc;

    db_now(now);
    rc = unread_make(rq, &unread, err);
    if (rc == 0)
        rc = vanish(st, rq, &unread, now, &ret->counts.vanished, err);
    if (rc == 0)
        rc = distrust(st, rq, err);
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE job SET ended_at = ?2, vanished = vanished + ?3 WHERE job_id = ?1",
                    "iti", rq->job_id, now, (int64_t)ret->counts.vanished);
    if (rc == 0 && sqlite3_changes64(st->db) == 0)
        rc = err_set(err, ERR_INPUT, "there is no job %lld", (long long)rq->job_id);
    free(unread.list);
    return rc;
}
