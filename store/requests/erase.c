/* Recordings and people that go for good, and the marks that keep recordings from coming back. */
#include "store/requests/erase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/files.h"
#include "store/requests/request_apply.h"
#include "store/vectors/vectors.h"

#define GONE "[erased]" /* for a name in a command line */

/* The recording's last places, unless another recording is there now. */
#define OWN                                                                            \
    "place p WHERE p.media_id = ?1 AND NOT EXISTS (SELECT 1 FROM place o "             \
    "WHERE (o.path_raw, o.member_raw, o.nth) = (p.path_raw, p.member_raw, p.nth) AND " \
    "o.state <> 'replaced' AND o.media_id <> ?1)"

static const char sql_mark[] =
    "INSERT INTO erased (size_bytes, fingerprint, content_hash, erased_at, erased_by) "
    "SELECT size_bytes, fingerprint, content_hash, ?2, ?3 FROM media WHERE media_id = ?1";

/* In this order: what refers to others goes first. Tasks go between. */
static const char *const before_tasks[] = {
    "DELETE FROM trouble WHERE (path_raw, member_raw, nth) IN "
    "(SELECT p.path_raw, p.member_raw, p.nth FROM " OWN ")",
    "DELETE FROM fixity WHERE path_raw IN (SELECT p.path_raw FROM " OWN " AND p.member_raw = x'')",
    "DELETE FROM recipe WHERE path_raw IN (SELECT p.path_raw FROM " OWN " AND p.member_raw = x'')",
    "DELETE FROM event WHERE media_id = ?1 OR EXISTS (SELECT 1 FROM " OWN
    " AND instr(event.text, iif(p.member = '', p.path, p.path || '//' || p.member)))",
    "DELETE FROM person_voice WHERE media_id = ?1",
};
static const char *const after_tasks[] = {
    "DELETE FROM correction_at WHERE correction_id IN "
    "(SELECT correction_id FROM correction WHERE media_id = ?1)",
    "DELETE FROM correction WHERE media_id = ?1",
    "DELETE FROM tag WHERE media_id = ?1",
    "DELETE FROM channel WHERE media_id = ?1",
    "DELETE FROM reading_due WHERE media_id = ?1",
    "UPDATE media SET place_id = NULL WHERE media_id = ?1",
    "DELETE FROM place WHERE media_id = ?1",
    "DELETE FROM media WHERE media_id = ?1",
};

static int run_all(struct store *st, const char *const *sql, size_t n, int64_t media_id,
                   struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = db_run(st, err, sql[i], "i", media_id);
    return rc;
}

/* Command lines of jobs are words with blanks between them; a path may have been relative. */
static int hide_names(struct store *st, int64_t media_id, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT p.path, ltrim(substr(p.path, length(rtrim(p.path, "
                 "replace(p.path, '/', '')))), '/') FROM " OWN " AND p.member_raw = x''",
                 "i", media_id);
    while (db_rows_next(&rows))
        rows.rc = db_run(st, err,
                         "UPDATE job SET command = replace(replace(replace(command, ?1, '" GONE
                         "'), '/' || ?2, '/" GONE "'), ' ' || ?2, ' " GONE "') "
                         "WHERE instr(command, ?2)",
                         "tt", db_text(rows.stmt, 0), db_text(rows.stmt, 1));
    return db_rows_end(&rows);
}

static int erase_tasks(struct store *st, int64_t media_id, struct err *err)
{
    struct apply_ids tasks = {0};
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT task_id FROM task WHERE media_id = ? ORDER BY task_id DESC", "i",
                 media_id);
    while (db_rows_next(&rows))
        rows.rc = apply_ids_add(&tasks, sqlite3_column_int64(rows.stmt, 0), err);
    rc = db_rows_end(&rows);
    while (rc == 0 && tasks.next < tasks.count)
        rc = forget_task(st, tasks.list[tasks.next++], err);
    free(tasks.list);
    return rc;
}

static int erase_recording(struct store *st, int64_t media_id, const char *now, const char *by,
                           struct err *err)
{
    int rc = db_run(st, err, sql_mark, "itt", media_id, now, by);

    if (rc == 0 && sqlite3_changes(st->db) == 0)
        return err_set(err, ERR_MISSING, "there is no recording %lld", (long long)media_id);
    if (rc == 0)
        rc = hide_names(st, media_id, err);
    if (rc == 0)
        rc = run_all(st, before_tasks, sizeof(before_tasks) / sizeof(before_tasks[0]), media_id,
                     err);
    if (rc == 0)
        rc = erase_tasks(st, media_id, err);
    return rc < 0 ? rc
                  : run_all(st, after_tasks, sizeof(after_tasks) / sizeof(after_tasks[0]), media_id,
                            err);
}

/* Without a voice print nobody's name is proposed for the speaker again. */
static int erase_person(struct store *st, const char *name, struct request_reply *ret,
                        struct err *err)
{
    int rc = db_run(st, err,
                    "UPDATE speaker SET vector = NULL WHERE name = ?1 COLLATE NOCASE "
                    "OR speaker_id IN (SELECT v.speaker_id FROM person_voice v JOIN person p "
                    "USING (person_id) WHERE p.name = ?1 AND NOT v.denied)",
                    "t", name);
    uint64_t people;

    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM person WHERE name = ?1", "t", name);
    people = rc == 0 ? (uint64_t)sqlite3_changes64(st->db) : 0;
    if (rc == 0)
        rc = db_run(st, err, "UPDATE speaker SET name = NULL WHERE name = ?1 COLLATE NOCASE", "t",
                    name);
    if (rc < 0)
        return rc;
    ret->affected = (uint64_t)sqlite3_changes64(st->db);
    return people || ret->affected
               ? 0
               : err_set(err, ERR_MISSING, "nobody is called '%.200s' here", name);
}

static int delete_erased_mark(struct store *st, int64_t erased_id, struct err *err)
{
    int rc = db_run(st, err, "DELETE FROM erased WHERE erased_id = ?", "i", erased_id);

    return rc == 0 && sqlite3_changes(st->db) == 0
               ? err_set(err, ERR_MISSING, "there is no mark %lld", (long long)erased_id)
               : rc;
}

int erase_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc = 0;

    db_now(now);
    if (rq->speaker_name && rq->speaker_name[0])
        return erase_person(st, rq->speaker_name, ret, err);
    for (uint32_t i = 0; i < rq->count && rc == 0; i++)
        rc = rq->undo ? delete_erased_mark(st, rq->ids[i], err)
                      : erase_recording(st, rq->ids[i], now, rq->made_by ? rq->made_by : "", err);
    ret->affected += rc == 0 ? rq->count : 0;
    if (rc < 0 || rq->undo)
        return rc;
    /* Removed texts stay in older pieces of the index until these are merged. */
    rc = db_run(st, err, "INSERT INTO segment_fts (segment_fts) VALUES ('optimize')", "");
    return rc < 0 ? rc : vectors_remove(st, true, err);
}

bool erase_wipe(struct store *st)
{
    struct err ignored = {0};

    vectors_remove(st, true, &ignored); /* somebody may have made one before the commit */
    return store_log_empty(st, &ignored) == 0;
}

static const char sql_meet[] =
    "SELECT erased_id, erased_at, ?2 <= ?5 OR ?4 OR content_hash IS NULL AS sure FROM erased "
    "WHERE size_bytes = ?2 AND (fingerprint = ?1 OR (?4 AND (fingerprint = ?3 OR "
    "content_hash = ?3))) "
    "AND (?2 <= ?5 OR NOT ?4 OR content_hash IS NULL OR content_hash = ?3 OR fingerprint = ?3) "
    "ORDER BY sure DESC LIMIT 1";

int erase_meet(struct store *st, const struct store_found *f, struct store_met *ret,
               struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql_meet, "bibii", f->fingerprint, sizeof(f->fingerprint),
                      (int64_t)f->size_bytes, f->hash, sizeof(f->hash), (int64_t)f->has_hash,
                      (int64_t)STORE_WHOLE_BYTES);

    if (rc != 1)
        return rc;
    ret->erased_id = sqlite3_column_int64(stmt, 0);
    snprintf(ret->erased_at, sizeof(ret->erased_at), "%s", db_text(stmt, 1));
    ret->erased_sure = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    return 0;
}

/* ------------------------------------------------------------------------------------ preview */

int erase_preview(struct store *st, int64_t media_id, erase_recording_fn fn, void *arg,
                  struct err *err)
{
    static const char sql[] =
        "SELECT p.path, p.member, ifnull(m.title, ''), "
        "(SELECT count(*) FROM place WHERE media_id = ?1 AND state <> 'replaced'), "
        "(SELECT count(*) FROM task WHERE media_id = ?1 AND (state = 'done' OR shards_done > 0)), "
        "(SELECT count(*) FROM segment g JOIN task t USING (task_id) WHERE t.media_id = ?1), "
        "(SELECT count(name) FROM speaker WHERE media_id = ?1), "
        "(SELECT count(*) FROM correction WHERE media_id = ?1) "
        "FROM media m LEFT JOIN place p USING (place_id) WHERE m.media_id = ?1";
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql, "i", media_id);

    if (rc != 1)
        return rc < 0
                   ? rc
                   : err_set(err, ERR_MISSING, "there is no recording %lld", (long long)media_id);
    rc = fn(arg, &(struct erase_recording){.path = db_text(stmt, 0),
                                           .member = db_text(stmt, 1),
                                           .title = db_text(stmt, 2),
                                           .places = (uint64_t)sqlite3_column_int64(stmt, 3),
                                           .results = (uint64_t)sqlite3_column_int64(stmt, 4),
                                           .segments = (uint64_t)sqlite3_column_int64(stmt, 5),
                                           .names = (uint64_t)sqlite3_column_int64(stmt, 6),
                                           .corrections = (uint64_t)sqlite3_column_int64(stmt, 7)});
    sqlite3_reset(stmt);
    return rc;
}

int erase_preview_person(struct store *st, const char *name, struct erase_person *ret,
                         struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT count(*), count(DISTINCT media_id), (SELECT count(*) "
                      "FROM person_voice JOIN person USING (person_id) WHERE name = ?1) "
                      "FROM speaker WHERE name = ?1 COLLATE NOCASE",
                      "t", name);

    if (rc != 1)
        return rc;
    *ret = (struct erase_person){(uint64_t)sqlite3_column_int64(stmt, 0),
                                 (uint64_t)sqlite3_column_int64(stmt, 1),
                                 (uint64_t)sqlite3_column_int64(stmt, 2)};
    sqlite3_reset(stmt);
    return 0;
}

int erase_marks(struct store *st, erase_mark_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT erased_id, size_bytes, erased_at, erased_by FROM erased "
                 "ORDER BY erased_id",
                 "");
    while (db_rows_next(&rows))
        rows.rc = fn(arg, &(struct erase_mark){sqlite3_column_int64(rows.stmt, 0),
                                               (uint64_t)sqlite3_column_int64(rows.stmt, 1),
                                               db_text(rows.stmt, 2), db_text(rows.stmt, 3)});
    return db_rows_end(&rows);
}
