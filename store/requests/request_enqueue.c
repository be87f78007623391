#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/choice.h"
#include "store/requests/request_apply.h"
#include "store/results/complete.h"
#include "store/results/naming.h"

/* The job that a batch belongs to, read once per request. */
struct job {
    int64_t job_id, stage_id, source_id; /* source_id 0: the stage works on recordings */
    char language[64];
    char now[CLOCK_ISO_LEN];
    bool troubles, erased; /* are there any? spares a statement per recording */
    bool has_priority;
    int64_t priority;
};

int stage_find(struct store *st, const struct store_stage *stage, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT stage_id FROM stage WHERE name = ? AND model_hash = ? AND params = ?",
                      "ttt", stage->name, stage->model_hash, stage->params_json);

    *ret = 0;
    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

/* The model's directory may have moved since: the newest one is kept. Which stage it works on is
 * said by its parameters, and stays. */
static const char sql_stage[] =
    "INSERT INTO stage (name, model, model_dir, model_hash, params, created_at, source_id) "
    "VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0)) "
    "ON CONFLICT (name, model_hash, params) "
    "DO UPDATE SET model = excluded.model, model_dir = excluded.model_dir";

static int stage_make(struct store *st, const struct store_stage *s, int64_t source_id,
                      const char *now, int64_t *ret, struct err *err)
{
    int rc = db_run(st, err, sql_stage, "tttttti", s->name, s->model, s->model_dir, s->model_hash,
                    s->params_json, now, source_id);

    return rc < 0 ? rc : stage_find(st, s, ret, err);
}

int enqueue_begin(struct store *st, const struct request *rq, struct request_reply *ret,
                  struct err *err)
{
    const struct store_stage *source = store_stage_source(&rq->stage);
    char now[CLOCK_ISO_LEN];
    int64_t stage_id = 0, source_id = 0;
    int rc = 0;

    db_now(now);
    if (source)
        rc = stage_make(st, source, 0, now, &source_id, err);
    if (rc == 0)
        rc = stage_make(st, &rq->stage, source_id, now, &stage_id, err);
    if (rc == 0)
        rc = db_run(st, err,
                    "INSERT INTO job (stage_id, language, command, created_at, priority) "
                    "VALUES (?, ?, ?, ?, iif(?, ?, NULL))",
                    "itttii", stage_id, rq->language ? rq->language : "",
                    rq->command_line ? rq->command_line : "", now, (int64_t)rq->has_priority,
                    rq->priority);
    if (rc == 0) {
        ret->job_id = sqlite3_last_insert_rowid(st->db);
        rc = rq->options ? recipe_apply(st, rq, ret->job_id, ret, err) : 0;
    }
    return rc;
}

static int job_get(struct store *st, int64_t job_id, struct job *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    bool cancelled;
    int rc = db_first(st, &stmt, err,
                      "SELECT stage_id, language, cancelled_at IS NOT NULL, "
                      "EXISTS (SELECT 1 FROM trouble), ifnull(source_id, 0), "
                      "priority IS NOT NULL, ifnull(priority, 0), "
                      "EXISTS (SELECT 1 FROM erased) "
                      "FROM job JOIN stage USING (stage_id) WHERE job_id = ?",
                      "i", job_id);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ERR_INPUT, "there is no job %lld", (long long)job_id);
    ret->job_id = job_id;
    ret->stage_id = sqlite3_column_int64(stmt, 0);
    utf8_copy(ret->language, sizeof(ret->language), db_text(stmt, 1));
    cancelled = sqlite3_column_int(stmt, 2);
    ret->troubles = sqlite3_column_int(stmt, 3);
    ret->source_id = sqlite3_column_int64(stmt, 4);
    ret->has_priority = sqlite3_column_int(stmt, 5);
    ret->priority = sqlite3_column_int64(stmt, 6);
    ret->erased = sqlite3_column_int(stmt, 7);
    sqlite3_reset(stmt);
    db_now(ret->now);
    return cancelled ? err_set(err, ERR_CANCELLED, "job %lld was cancelled", (long long)job_id) : 0;
}

static int job_count(struct store *st, int64_t job_id, const struct store_enqueue_counts *c,
                     struct err *err)
{
    return db_run(st, err,
                  "UPDATE job SET seen = seen + ?2, added = added + ?3, places = places + ?4, "
                  "changed = changed + ?5, unchanged = unchanged + ?6, tasks = tasks + ?7 "
                  "WHERE job_id = ?1",
                  "iiiiiii", job_id, (int64_t)c->seen, (int64_t)c->added, (int64_t)c->places,
                  (int64_t)c->changed, (int64_t)c->unchanged, (int64_t)c->tasks);
}

/* The recording that has a fingerprint and size; media_id 0: none. */
struct content {
    int64_t media_id;
    bool has_hash;
    uint8_t hash[16];
};

static int content_find(struct store *st, const uint8_t fingerprint[16], uint64_t size,
                        struct content *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT media_id, content_hash FROM media WHERE fingerprint = ? AND "
                      "size_bytes = ?",
                      "bi", fingerprint, (size_t)16, (int64_t)size);

    *ret = (struct content){0};
    if (rc != 1)
        return rc;
    ret->media_id = sqlite3_column_int64(stmt, 0);
    ret->has_hash = sqlite3_column_bytes(stmt, 1) == 16;
    if (ret->has_hash)
        memcpy(ret->hash, sqlite3_column_blob(stmt, 1), sizeof(ret->hash));
    sqlite3_reset(stmt);
    return 0;
}

static int content_keep(struct store *st, int64_t media_id, uint64_t size, const uint8_t hash[16],
                        struct err *err)
{
    return db_run(st, err,
                  "UPDATE media SET content_hash = ?3 WHERE media_id = ?1 AND size_bytes = ?2 "
                  "AND content_hash IS NULL",
                  "iib", media_id, (int64_t)size, hash, (size_t)16);
}

/* 1: the file has not been written since it was seen there; so it holds what it held. */
static int lies_there(struct store *st, const struct store_found *f, int64_t media_id,
                      struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM place WHERE path_raw = ?1 AND member_raw = ?2 AND nth = ?3 "
                      "AND state <> 'replaced' AND media_id = ?4 AND NOT unproven "
                      "AND file_size_bytes = ?5 AND mtime_ns = ?6",
                      "bbiiii", f->path, f->path_len, f->member, f->member_len, (int64_t)f->nth,
                      media_id, (int64_t)f->file_size_bytes, f->mtime_ns);

    if (rc == 1)
        sqlite3_reset(stmt);
    return rc;
}

/* 1: all bytes of what was found are those of the recording with its fingerprint; 0: they are
 * others, or nobody knows. */
static int is_content(struct store *st, const struct store_found *f, const struct content *c,
                      struct err *err)
{
    int rc;

    if (f->size_bytes <= STORE_WHOLE_BYTES)
        return 1;
    if (f->has_hash && c->has_hash)
        return memcmp(f->hash, c->hash, sizeof(c->hash)) == 0;
    /* The fingerprint of what was told apart is its hash. */
    if (f->has_hash && memcmp(f->hash, f->fingerprint, sizeof(f->hash)) == 0)
        rc = 1;
    else
        rc = lies_there(st, f, c->media_id, err);
    if (rc == 1 && f->has_hash)
        rc = content_keep(st, c->media_id, f->size_bytes, f->hash, err) < 0 ? err->code : 1;
    return rc;
}

static int media_insert(struct store *st, const struct store_found *f,
                        const uint8_t fingerprint[16], const char *now, int64_t *ret,
                        struct err *err)
{
    const bool keeps = f->has_hash && f->size_bytes > STORE_WHOLE_BYTES;
    int rc = db_run(st, err,
                    "INSERT INTO media (size_bytes, fingerprint, content_hash, created_at) "
                    "VALUES (?1, ?2, iif(?3, ?4, NULL), ?5)",
                    "ibibt", (int64_t)f->size_bytes, fingerprint, (size_t)16, (int64_t)keeps,
                    f->hash, sizeof(f->hash), now);

    *ret = sqlite3_last_insert_rowid(st->db);
    return rc;
}

/* Finds the recording of these bytes, or adds one; *added says which. If another recording has the
 * same fingerprint, a file that was read whole is found by its hash. 0 in *ret: the file was not
 * read, and must be. */
static int media_of(struct store *st, const struct store_found *f, const char *now, int64_t *ret,
                    bool *added, struct err *err)
{
    const uint8_t *fingerprint = f->fingerprint;
    struct content c = {0};
    int rc = f->met_media ? content_keep(st, f->met_media, f->size_bytes, f->met_hash, err) : 0;
    int same = 0;

    *ret = 0;
    *added = false;
    if (rc == 0)
        rc = content_find(st, fingerprint, f->size_bytes, &c, err);
    if (rc == 0 && c.media_id)
        same = is_content(st, f, &c, err);
    if (rc < 0 || same < 0)
        return rc < 0 ? rc : same;
    if (!same && c.media_id && !f->has_hash)
        return 0;
    if (!same && f->has_hash && f->size_bytes > STORE_WHOLE_BYTES) {
        fingerprint = c.media_id ? f->hash : fingerprint;
        rc = content_find(st, f->hash, f->size_bytes, &c, err);
    }
    *added = rc == 0 && c.media_id == 0;
    *ret = c.media_id;
    return *added ? media_insert(st, f, fingerprint, now, ret, err) : rc;
}

static int place_insert(struct store *st, const struct store_found *f, const struct job *job,
                        int64_t media_id, struct err *err)
{
    char *path = utf8_display(f->path, f->path_len);
    char *member = f->member_len ? utf8_display_nth(f->member, f->member_len, f->nth) : NULL;
    int rc;

    if (!path || (f->member_len && !member))
        rc = err_no_memory(err, "catalog");
    else
        rc = db_run(st, err,
                    "INSERT INTO place (media_id, path, path_raw, member, member_raw, nth, "
                    "file_size_bytes, mtime_ns, inode, device, state, job_id, seen_job) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'present', ?11, ?11)",
                    "itbtbiiiiii", media_id, path, f->path, f->path_len, member ? member : "",
                    f->member, f->member_len, (int64_t)f->nth, (int64_t)f->file_size_bytes,
                    f->mtime_ns, (int64_t)f->inode, (int64_t)f->device, job->job_id);
    free(path);
    free(member);
    return rc < 0 ? rc : main_place_came(st, media_id, sqlite3_last_insert_rowid(st->db), err);
}

static int place_seen(struct store *st, const struct store_found *f, const struct job *job,
                      int64_t place_id, struct err *err)
{
    return db_run(st, err,
                  "UPDATE place SET file_size_bytes = ?2, mtime_ns = ?3, inode = ?4, device = ?5, "
                  "state = 'present', gone_at = NULL, job_id = ?6, seen_job = max(seen_job, ?6), "
                  "unproven = 0 WHERE place_id = ?1",
                  "iiiiii", place_id, (int64_t)f->file_size_bytes, f->mtime_ns, (int64_t)f->inode,
                  (int64_t)f->device, job->job_id);
}

/* Stores the file's place: a new one, a known one, or a known one that held another recording. */
static int place_of(struct store *st, const struct store_found *f, const struct job *job,
                    int64_t media_id, bool added, struct store_enqueue_counts *c, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t place_id, old_media;
    bool was_present;
    int rc = db_first(st, &stmt, err,
                      "SELECT place_id, media_id, state = 'present' FROM place "
                      "WHERE path_raw = ? AND member_raw = ? AND nth = ? AND state <> 'replaced'",
                      "bbi", f->path, f->path_len, f->member, f->member_len, (int64_t)f->nth);

    if (rc < 0)
        return rc;
    if (rc == 0) {
        c->places += !added;
        c->added += added;
        if (f->moved)
            rc = db_run(st, err,
                        "UPDATE place SET unproven = 1 WHERE media_id = ? AND state <> 'replaced'",
                        "i", media_id);
        return rc < 0 ? rc : place_insert(st, f, job, media_id, err);
    }
    place_id = sqlite3_column_int64(stmt, 0);
    old_media = sqlite3_column_int64(stmt, 1);
    was_present = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    if (old_media == media_id) {
        c->unchanged++;
        rc = place_seen(st, f, job, place_id, err);
        return rc == 0 && !was_present ? main_place_came(st, media_id, place_id, err) : rc;
    }
    c->changed++;
    rc = db_run(st, err, "UPDATE place SET state = 'replaced', gone_at = ? WHERE place_id = ?",
                "ti", job->now, place_id);
    if (rc == 0)
        rc = main_place_went(st, old_media, place_id, was_present, err);
    return rc < 0 ? rc : place_insert(st, f, job, media_id, err);
}

#define UNFOUND "('missing', 'changed', 'denied', 'io')"

/* Before the recording's place is noted: is it back, and does something of it wait again for that?
 */
static int count_back(struct store *st, const struct job *job, int64_t media_id,
                      struct store_enqueue_counts *c, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT m.places = 0 OR ifnull(max(t.state = 'failed' "
                      "AND t.error_code IS 'missing'), 0), "
                      "ifnull(max(m.places = 0 AND t.state = 'pending' "
                      "OR t.state = 'failed' AND t.stage_id IN (?2, ?3) "
                      "AND ifnull(t.error_code, '') IN " UNFOUND "), 0) "
                      "FROM media m LEFT JOIN task t ON t.media_id = m.media_id AND t.wanted "
                      "WHERE m.media_id = ?1",
                      "iii", media_id, job->stage_id, job->source_id);

    if (rc != 1)
        return rc;
    c->back += (uint64_t)sqlite3_column_int(stmt, 0);
    c->waiting += (uint64_t)sqlite3_column_int(stmt, 1);
    sqlite3_reset(stmt);
    return 0;
}

/* Counts a task that is asked for again, by its state. It does not count if another one is
 * pinned. */
static int count_again(struct store *st, int64_t task_id, struct request_reply *ret,
                       struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT state = 'done' AND current, state = 'pending' AND wanted FROM task "
                      "WHERE task_id = ?",
                      "i", task_id);

    if (rc == 1) {
        ret->counts.restored += (uint64_t)sqlite3_column_int(stmt, 0);
        ret->counts.reasked += (uint64_t)sqlite3_column_int(stmt, 1);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

/* A stage that the recording has is what is wanted of it again, in place of another one of its
 * kind; which is current then is chosen anew. */
static int task_ask(struct store *st, const struct job *job, int64_t stage_id, int64_t media_id,
                    struct request_reply *ret, struct err *err)
{
    struct naming_change speakers;
    sqlite3_stmt *stmt = NULL;
    int64_t task_id = 0;
    int rc = naming_before(st, media_id, &speakers, err);

    if (rc == 0)
        rc = db_first(
            st, &stmt, err,
            "UPDATE task SET asked = ?3, job_id = ?3 WHERE media_id = ?1 AND stage_id = ?2 "
            "AND wanted = 0 AND asked < ?3 RETURNING task_id",
            "iii", media_id, stage_id, job->job_id);
    if (rc == 1) {
        task_id = sqlite3_column_int64(stmt, 0);
        rc = db_next(st, stmt, err);
    }
    if (rc == 0 && task_id)
        rc = choice_apply(st, media_id, err);
    /* Its last shard may have come after it was withdrawn. */
    if (rc == 0 && task_id)
        rc = complete_check(st, task_id, job->now, err);
    rc = naming_after(st, &speakers, rc, err);
    return rc == 0 && task_id && stage_id == job->stage_id ? count_again(st, task_id, ret, err)
                                                           : rc;
}

/* A stage for a recording, unless it has it. *made says which. */
static int task_make(struct store *st, const struct job *job, int64_t stage_id, int64_t media_id,
                     struct request_reply *ret, bool *made, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM task WHERE media_id = ? AND stage_id = ?",
                      "ii", media_id, stage_id);

    *made = rc == 0;
    if (rc == 1) {
        sqlite3_reset(stmt);
        return task_ask(st, job, stage_id, media_id, ret, err);
    }
    if (rc == 0)
        rc = db_run(st, err,
                    "INSERT INTO task (media_id, stage_id, job_id, language, asked, priority) "
                    "VALUES (?1, ?2, ?3, ?4, ?3, ?5)",
                    "iiiti", media_id, stage_id, job->job_id, job->language, job->priority);
    ret->counts.tasks += rc == 0;
    return rc < 0 ? rc : choice_apply(st, media_id, err);
}

/* A task that failed for where the file was, not for what is in it, gets another chance when the
 * file is seen again. */
static int task_revive(struct store *st, const struct job *job, int64_t media_id,
                       struct request_reply *ret, struct err *err)
{
    int rc = db_run(st, err,
                    "UPDATE task SET state = 'pending', attempts = 0, suspect = 0, "
                    "retry_at = NULL, error_code = NULL, error = NULL, settled_at = NULL "
                    "WHERE media_id = ? AND stage_id IN (?, ?) AND state = 'failed' AND wanted "
                    "AND error_code IN " UNFOUND,
                    "iii", media_id, job->stage_id, job->source_id);

    if (rc == 0)
        ret->affected += (uint64_t)sqlite3_changes64(st->db);
    return rc;
}

/* Tasks that are pending already get this job's priority. */
static int task_prefer(struct store *st, const struct job *job, int64_t media_id, struct err *err)
{
    return job->has_priority
               ? db_run(st, err,
                        "UPDATE task SET priority = ?4 WHERE media_id = ?1 "
                        "AND stage_id IN (?2, ?3) AND state = 'pending' "
                        "AND priority <> ?4",
                        "iiii", media_id, job->stage_id, job->source_id, job->priority)
               : 0;
}

/* 1: the stage's source has been done for the recording, or will be; 0: not. */
static int source_there(struct store *st, const struct job *job, int64_t media_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM task WHERE media_id = ? AND stage_id = ? "
                      "AND state IN ('done', 'pending')",
                      "ii", media_id, job->source_id);

    if (rc == 1)
        sqlite3_reset(stmt);
    return rc;
}

/* 1: of the recording another stage of the job's kind, or of its source's, is done or begun, or was
 * cancelled; 0: not. One that has failed, or waits, was asked for before the job's was the recipe;
 * but of a recording with copies it may be that of another one's folder, and they must not take
 * turns. */
static int other_wanted(struct store *st, const struct job *job, int64_t media_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = ?1 AND t.wanted AND t.stage_id NOT IN (?2, ?3) "
                      "AND (t.state IN ('done', 'cancelled') "
                      "OR (t.state = 'pending' AND (t.shards_done > 0 "
                      "OR (SELECT places FROM media m WHERE m.media_id = ?1) > 1))) "
                      "AND s.name IN (SELECT name FROM stage WHERE stage_id IN (?2, ?3))",
                      "iii", media_id, job->stage_id, job->source_id);

    if (rc == 1)
        sqlite3_reset(stmt);
    return rc;
}

/* Whether another stage of the job's kind is still to be done for the recording, or has failed. */
static int other_waits(struct store *st, const struct job *job, int64_t media_id, bool *ret,
                       struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = ?1 AND t.wanted AND t.state IN ('pending', 'failed') "
                      "AND t.stage_id <> ?2 "
                      "AND s.name = (SELECT name FROM stage WHERE stage_id = ?2)",
                      "ii", media_id, job->stage_id);

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

static int task_of(struct store *st, const struct request *rq, const struct job *job,
                   int64_t media_id, struct request_reply *ret, struct err *err)
{
    bool made = false, source = false, waited = false;
    int rc = rq->keep_other ? other_wanted(st, job, media_id, err) : 0;

    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = other_waits(st, job, media_id, &waited, err);
    if (rc < 0)
        return rc;
    if (job->source_id && rq->keep_source) {
        rc = source_there(st, job, media_id, err);
        if (rc == 0)
            ret->counts.lacking++;
        if (rc <= 0)
            return rc;
        rc = 0;
    } else if (job->source_id)
        rc = task_make(st, job, job->source_id, media_id, ret, &source, err);
    if (rc == 0)
        rc = task_make(st, job, job->stage_id, media_id, ret, &made, err);
    if (rc == 0 && waited) {
        rc = other_waits(st, job, media_id, &waited, err);
        ret->counts.instead += !waited;
    }
    if (rc == 0)
        rc = task_prefer(st, job, media_id, err);
    return rc < 0 || (made && (source || !job->source_id))
               ? rc
               : task_revive(st, job, media_id, ret, err);
}

int enqueue_add(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err)
{
    struct job job = {0};
    int rc = job_get(st, rq->job_id, &job, err);

    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        const struct store_found *f = &rq->found[i];
        struct store_met met = {0};
        int64_t media_id = 0;
        bool added = false;

        if (job.erased)
            rc = erase_meet(st, f, &met, err);
        ret->counts.erased += met.erased_sure;
        if (rc == 0 && !met.erased_id)
            rc = media_of(st, f, job.now, &media_id, &added, err);
        if (rc < 0)
            break;
        if (media_id == 0) {
            ret->unproven[i / 8] |= (uint8_t)(1u << (i % 8));
            ret->unproven_len = i / 8 + 1;
            continue;
        }
        ret->counts.seen++;
        rc = added ? 0 : count_back(st, &job, media_id, &ret->counts, err);
        if (rc == 0)
            rc = place_of(st, f, &job, media_id, added, &ret->counts, err);
        if (rc == 0)
            rc = task_of(st, rq, &job, media_id, ret, err);
        if (rc == 0 && job.troubles)
            rc = db_run(st, err,
                        "DELETE FROM trouble WHERE path_raw = ? AND member_raw = ? AND nth = ?",
                        "bbi", f->path, f->path_len, f->member, f->member_len, (int64_t)f->nth);
    }
    return rc < 0 ? rc : job_count(st, rq->job_id, &ret->counts, err);
}

/* A known archive is not read again, so what was wrong with its members still holds; a file that is
 * there as before has no trouble any more. */
static int same_troubles(struct store *st, const struct job *job, int64_t place_id, struct err *err)
{
    int rc = db_run(st, err,
                    "UPDATE trouble SET job_id = ?2 WHERE member_raw <> x'' AND path_raw = "
                    "(SELECT path_raw FROM place WHERE place_id = ?1 AND member_raw <> x'')",
                    "ii", place_id, job->job_id);

    if (rc < 0)
        return rc;
    return db_run(st, err,
                  "DELETE FROM trouble WHERE (path_raw, member_raw, nth) = "
                  "(SELECT path_raw, member_raw, nth FROM place WHERE place_id = ?1)",
                  "i", place_id);
}

int enqueue_same(struct store *st, const struct request *rq, struct request_reply *ret,
                 struct err *err)
{
    struct job job = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = job_get(st, rq->job_id, &job, err);

    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        int64_t media_id;
        bool was_present;

        rc = db_first(st, &stmt, err,
                      "SELECT media_id, state = 'present' FROM place "
                      "WHERE place_id = ?1 AND state <> 'replaced'",
                      "i", rq->place_ids[i]);
        if (rc < 0)
            break;
        if (rc == 0) /* replaced meanwhile by another enqueue: that one has seen it */
            continue;
        media_id = sqlite3_column_int64(stmt, 0);
        was_present = sqlite3_column_int(stmt, 1);
        sqlite3_reset(stmt);
        rc = count_back(st, &job, media_id, &ret->counts, err);
        if (rc == 0)
            rc = db_run(st, err,
                        "UPDATE place SET state = 'present', gone_at = NULL, "
                        "seen_job = max(seen_job, ?2) WHERE place_id = ?1",
                        "ii", rq->place_ids[i], job.job_id);
        if (rc == 0 && !was_present)
            rc = main_place_came(st, media_id, rq->place_ids[i], err);
        ret->counts.seen++;
        ret->counts.unchanged++;
        if (rc == 0)
            rc = rq->type == REQUEST_ENQUEUE_KNOWN ? task_of(st, rq, &job, media_id, ret, err)
                                                   : task_revive(st, &job, media_id, ret, err);
        if (rc == 0 && job.troubles)
            rc = same_troubles(st, &job, rq->place_ids[i], err);
    }
    return rc < 0 ? rc : job_count(st, rq->job_id, &ret->counts, err);
}

static int trouble_put(struct store *st, const struct request_trouble *t, const struct job *job,
                       struct err *err)
{
    char *path = utf8_display(t->path, t->path_len);
    char *member = utf8_display_nth(t->member_len ? t->member : "", t->member_len, t->nth);
    int rc;

    if (!path || !member)
        rc = err_no_memory(err, "catalog");
    else
        rc = db_run(st, err,
                    "INSERT INTO trouble (path, path_raw, member, member_raw, nth, error_code, "
                    "error, job_id, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (path_raw, member_raw, nth) DO UPDATE SET "
                    "error_code = excluded.error_code, error = excluded.error, "
                    "job_id = excluded.job_id, "
                    "at = iif(error_code = excluded.error_code AND error = excluded.error, at, "
                    "excluded.at)",
                    "tbtbittit", path, t->path, t->path_len, member, t->member, t->member_len,
                    (int64_t)t->nth, err_name(t->code), t->message, job->job_id, job->now);
    free(path);
    free(member);
    return rc;
}

int enqueue_trouble(struct store *st, const struct request *rq, struct err *err)
{
    struct job job = {0};
    int rc = job_get(st, rq->job_id, &job, err);

    for (uint32_t i = 0; i < rq->count && rc == 0; i++)
        rc = trouble_put(st, &rq->troubles[i], &job, err);
    return rc;
}
