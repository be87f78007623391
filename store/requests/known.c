#include <stdlib.h>
#include <string.h>

#include "store/requests/request_apply.h"

/* An archive's members count only when the walk that listed them came to its end: one that was
 * killed half-way through an archive has left some of them out. Rows of the newest sighting first.
 */
static const char sql_known[] =
    "SELECT p.place_id, p.file_size_bytes, p.mtime_ns, p.inode, p.device, "
    "p.state = 'present', p.seen_job, p.member_raw <> x'' AND j.ended_at IS NULL, "
    "EXISTS (SELECT 1 FROM task t WHERE t.media_id = p.media_id AND t.stage_id = ?2 AND "
    "t.wanted), p.unproven "
    "FROM place p JOIN job j ON j.job_id = p.job_id "
    "WHERE p.path_raw = ?1 AND p.state <> 'replaced' "
    "ORDER BY p.state = 'present' DESC, p.seen_job DESC, p.place_id";

struct known_row {
    bool present, partial, has_task;
    int64_t seen_job;
};

static struct known_row row_of(sqlite3_stmt *stmt)
{
    return (struct known_row){.present = sqlite3_column_int(stmt, 5),
                              .seen_job = sqlite3_column_int64(stmt, 6),
                              .partial = sqlite3_column_int(stmt, 7),
                              .has_task = sqlite3_column_int(stmt, 8)};
}

static int known_add(struct store_known *k, uint32_t *capacity, int64_t id, struct err *err)
{
    if (k->count == *capacity) {
        uint32_t n = *capacity ? *capacity * 2 : 4;
        int64_t *list = realloc(k->place_ids, n * sizeof(*list));

        if (!list)
            return err_no_memory(err, "catalog");
        k->place_ids = list;
        *capacity = n;
    }
    k->place_ids[k->count++] = id;
    return 0;
}

/* All present places of the path; when none is present, those that vanished last. */
static int collect_known_places(struct store *st, sqlite3_stmt *stmt, struct store_known *k,
                                bool *partial, struct err *err)
{
    struct known_row first = row_of(stmt), row;
    uint32_t capacity = 0;
    int rc = 1;

    k->file_size_bytes = (uint64_t)sqlite3_column_int64(stmt, 1);
    k->mtime_ns = sqlite3_column_int64(stmt, 2);
    k->inode = (uint64_t)sqlite3_column_int64(stmt, 3);
    k->device = (uint64_t)sqlite3_column_int64(stmt, 4);
    k->has_task_all = true;
    for (; rc == 1; rc = db_next(st, stmt, err)) {
        row = row_of(stmt);
        if (row.present != first.present || (!first.present && row.seen_job != first.seen_job))
            break;
        *partial |= row.partial || sqlite3_column_int64(stmt, 2) != k->mtime_ns ||
                    (uint64_t)sqlite3_column_int64(stmt, 1) != k->file_size_bytes;
        k->has_task_all &= row.has_task;
        k->unproven |= sqlite3_column_int(stmt, 9) != 0;
        rc = known_add(k, &capacity, sqlite3_column_int64(stmt, 0), err);
        if (rc < 0)
            break;
    }
    sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int store_known_path(struct store *st, const void *path, size_t len,
                     const struct store_stage *stage, struct store_known *ret, struct err *err)
{
    struct store_known k = {0};
    sqlite3_stmt *stmt = NULL;
    int64_t stage_id = 0;
    bool partial = false;
    int rc = stage_find(st, stage, &stage_id, err);

    if (rc == 0)
        rc = db_first(st, &stmt, err, sql_known, "bi", path, len, stage_id);
    if (rc == 1)
        rc = collect_known_places(st, stmt, &k, &partial, err);
    if (rc == 0 && (partial || !k.count))
        rc = err_set(err, ERR_EMPTY, "not seen yet");
    if (rc < 0) {
        store_known_free(&k);
        return rc;
    }
    *ret = k;
    return 0;
}

void store_known_free(struct store_known *k)
{
    free(k->place_ids);
    *k = (struct store_known){0};
}

int store_trouble_known(struct store *st, const struct request_trouble *t, bool *ret,
                        struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM trouble WHERE path_raw = ? AND member_raw = ? AND nth = ? "
                      "AND error_code = ? AND error = ?",
                      "bbitt", t->path, t->path_len, t->member, t->member_len, (int64_t)t->nth,
                      err_name(t->code), t->message);

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int store_back(struct store *st, int64_t place_id, int64_t media_id, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT places = 0 OR EXISTS (SELECT 1 FROM task t WHERE t.wanted "
                      "AND t.media_id = m.media_id AND t.state = 'failed' "
                      "AND t.error_code = 'missing') FROM media m WHERE media_id = "
                      "iif(?1, (SELECT media_id FROM place WHERE place_id = ?1), ?2)",
                      "ii", place_id, media_id);

    *ret = rc == 1 && sqlite3_column_int(stmt, 0);
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

static void blob_at(sqlite3_stmt *stmt, int column, uint8_t ret[16], bool *has)
{
    *has = sqlite3_column_bytes(stmt, column) == 16;
    if (*has)
        memcpy(ret, sqlite3_column_blob(stmt, column), 16);
}

static const char sql_meet[] =
    "SELECT ifnull(m.media_id, 0), m.content_hash, ifnull(p.place_id, 0), ifnull(p.media_id, 0), "
    "p.file_size_bytes, p.mtime_ns, p.inode, p.device, "
    "(SELECT unixepoch(created_at) FROM job WHERE job_id = p.seen_job), p.unproven, "
    "o.fingerprint, o.content_hash IS NOT NULL "
    "FROM (SELECT 1) LEFT JOIN place p ON p.path_raw = ?1 AND p.member_raw = ?2 "
    "AND p.nth = ?3 AND p.state <> 'replaced' "
    "LEFT JOIN media o ON o.media_id = p.media_id "
    "LEFT JOIN media m ON m.fingerprint = ?4 AND m.size_bytes = ?5";

int store_meet(struct store *st, const struct store_found *f, struct store_met *ret,
               struct err *err)
{
    struct store_met met = {0};
    sqlite3_stmt *stmt = NULL;
    bool has;
    int rc =
        db_first(st, &stmt, err, sql_meet, "bbibi", f->path, f->path_len, f->member, f->member_len,
                 (int64_t)f->nth, f->fingerprint, sizeof(f->fingerprint), (int64_t)f->size_bytes);

    if (rc < 0)
        return rc;
    met.media_id = sqlite3_column_int64(stmt, 0);
    blob_at(stmt, 1, met.content, &met.has_content);
    met.place_id = sqlite3_column_int64(stmt, 2);
    met.place_media = sqlite3_column_int64(stmt, 3);
    met.place_size = (uint64_t)sqlite3_column_int64(stmt, 4);
    met.place_mtime = sqlite3_column_int64(stmt, 5);
    met.place_inode = (uint64_t)sqlite3_column_int64(stmt, 6);
    met.place_device = (uint64_t)sqlite3_column_int64(stmt, 7);
    met.place_seen_s = sqlite3_column_int64(stmt, 8);
    met.place_unproven = sqlite3_column_int(stmt, 9);
    blob_at(stmt, 10, met.place_fingerprint, &has);
    met.place_has_content = sqlite3_column_int(stmt, 11);
    sqlite3_reset(stmt);
    rc = erase_meet(st, f, &met, err);
    if (rc == 0)
        *ret = met;
    return rc;
}

int store_origins(struct store *st, int64_t media_id, store_origin_fn fn, void *arg,
                  struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT p.path_raw, p.file_size_bytes, p.mtime_ns, p.inode, p.device "
                 "FROM place p JOIN media m ON m.media_id = p.media_id "
                 "WHERE p.media_id = ?1 AND p.member_raw = x'' AND p.state <> 'replaced' "
                 "AND (NOT p.unproven OR p.place_id = m.place_id) "
                 "ORDER BY p.place_id <> m.place_id, p.state <> 'present', p.place_id LIMIT 16",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct store_origin o = {
            .path = db_text(rows.stmt, 0),
            .size_bytes = (uint64_t)sqlite3_column_int64(rows.stmt, 1),
            .mtime_ns = sqlite3_column_int64(rows.stmt, 2),
            .inode = (uint64_t)sqlite3_column_int64(rows.stmt, 3),
            .device = (uint64_t)sqlite3_column_int64(rows.stmt, 4),
        };

        rows.rc = fn(arg, &o);
    }
    return db_rows_end(&rows);
}
