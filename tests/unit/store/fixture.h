/* tests/unit/store/fixture.h - a catalog of its own per test, and short words for what enqueue and
 * run do with it. Every close compares what the program counts with a count of all rows. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STORE_FIXTURE_H
#define NIGHTSHIFT_TESTS_UNIT_STORE_FIXTURE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <unistd.h>

#include "store/read/read.h"
#include "store/requests/request.h"
#include "store/store.h"
#include "tests/common/test.h"

#define CATALOG "catalog.db"

static inline void catalog_remove(void)
{
    unlink(CATALOG);
    unlink(CATALOG "-wal");
    unlink(CATALOG "-shm");
    unlink(CATALOG ".lock");
}

static inline struct store *catalog_open(enum store_mode mode)
{
    struct store *st = NULL;
    struct err e = {0};

    assert_ok(store_open(CATALOG, mode, &st, &e), e);
    return st;
}

/* An empty catalog lies there, closed. */
static inline void catalog_fresh(void)
{
    catalog_remove();
    store_close(catalog_open(STORE_WRITE));
}

static inline struct store *catalog_new(void)
{
    catalog_remove();
    return catalog_open(STORE_WRITE);
}

/* The test's own connection for count_of and text_of: kept while an audit asks many things. */
static sqlite3 *own_db;
static bool own_kept;

static inline void own_open(void)
{
    if (own_db)
        return;
    assert_int_equal(sqlite3_open_v2(CATALOG, &own_db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_busy_timeout(own_db, 5000);
}

static inline void own_close(void)
{
    sqlite3_close(own_db);
    own_db = NULL;
    own_kept = false;
}

static inline sqlite3_stmt *own_row(const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    own_open();
    if (sqlite3_prepare_v2(own_db, sql, -1, &stmt, NULL) != SQLITE_OK)
        print_error("%s: %s\n", sql, sqlite3_errmsg(own_db));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    return stmt;
}

static inline void own_done(sqlite3_stmt *stmt)
{
    sqlite3_finalize(stmt);
    if (!own_kept)
        own_close();
}

/* One integer of the catalog. */
static inline int64_t count_of(const char *sql)
{
    sqlite3_stmt *stmt = own_row(sql);
    int64_t n = sqlite3_column_int64(stmt, 0);

    own_done(stmt);
    return n;
}

/* A text of the catalog, in a static buffer. */
static inline const char *text_of(const char *sql)
{
    static char out[1024];
    sqlite3_stmt *stmt = own_row(sql);
    const unsigned char *s = sqlite3_column_text(stmt, 0);

    snprintf(out, sizeof(out), "%s", s ? (const char *)s : "(null)");
    own_done(stmt);
    return out;
}

static inline void run_sql(const char *text)
{
    sqlite3 *db;
    char *why = NULL;

    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

/* Numbers of the program's beside those that SQL counts, in a text. */
static inline void must_count(const char *what, const char *sql, const uint64_t *ours, size_t n)
{
    char mine[512] = "";

    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(mine + at, sizeof(mine) - at, "%s%lld", i ? " " : "",
                               (long long)ours[i]);
    if (strcmp(mine, text_of(sql)) != 0)
        fail_msg("%s: counted %s, there are %s", what, mine, text_of(sql));
}

/* Of a task t of the recording m: pending, and not for itself. */
#define AUDIT_LIVE \
    "(t.state = 'pending' AND NOT t.absent AND NOT t.paused AND t.waits IS NOT 'source')"

static inline int stage_audit(void *arg, const struct read_progress *p)
{
    const uint64_t ours[] = {p->tasks,
                             p->superseded,
                             p->pending,
                             p->waiting,
                             p->paused,
                             p->absent,
                             p->done,
                             p->failed,
                             p->cancelled,
                             p->unknown,
                             p->bytes_pending,
                             (uint64_t)p->audio_known_ms,
                             (uint64_t)p->audio_done_ms,
                             (uint64_t)p->audio_left_ms};
    char sql[2048];

    (void)arg;
    snprintf(
        sql, sizeof(sql),
        "WITH t AS (SELECT t.*, m.size_bytes, m.duration_ms, " AUDIT_LIVE " AS live "
        " FROM task t JOIN media m USING (media_id) WHERE wanted AND stage_id = %lld) "
        "SELECT count(*) || ' ' || (SELECT count(*) FROM task WHERE NOT wanted "
        "  AND stage_id = %lld) || ' ' || ifnull(sum(live), 0)||' '|| "
        " ifnull(sum(state = 'pending' AND NOT paused AND NOT absent AND waits IS 'source'), 0) "
        "||' '|| "
        " ifnull(sum(state = 'pending' AND paused AND NOT absent), 0) || ' ' || "
        " ifnull(sum(state IN ('pending', 'failed') AND absent), 0) || ' ' || "
        " ifnull(sum(state = 'done'), 0) || "
        "' ' || "
        " ifnull(sum(state = 'failed' AND NOT absent), 0) || ' ' || "
        " ifnull(sum(state = 'cancelled'), 0) || ' ' || "
        " ifnull(sum(live AND duration_ms IS NULL), 0) || ' ' || ifnull(sum(live * size_bytes), 0) "
        "|| ' ' || "
        " ifnull(sum(duration_ms), 0) || ' ' || ifnull(sum(audio_done_ms), 0) || ' ' || "
        " ifnull(sum(live * max(ifnull(duration_ms, 0) - audio_done_ms, 0)), 0) FROM t",
        (long long)p->stage_id, (long long)p->stage_id);
    must_count("a stage", sql, ours, sizeof(ours) / sizeof(*ours));
    snprintf(
        sql, sizeof(sql),
        "SELECT recordings || ' ' || superseded || ' ' || pending || ' ' || waiting || ' ' || "
        "paused || ' ' || absent || ' ' || done || ' ' || failed || ' ' || cancelled || ' ' || "
        "unknown || ' ' || bytes_pending FROM progress WHERE stage_id = %lld",
        (long long)p->stage_id);
    must_count("the view progress", sql, ours, 11);
    return 0;
}

static inline int job_audit(void *arg, const struct read_job *j)
{
    const uint64_t ours[] = {j->tasks_pending, j->tasks_done, j->tasks_failed, j->tasks_cancelled};
    char sql[512];

    (void)arg;
    snprintf(sql, sizeof(sql),
             "SELECT ifnull(sum(state = 'pending' OR (state = 'failed' AND absent)), 0) || ' ' || "
             "ifnull(sum(state = 'done'), 0) || ' ' || "
             "ifnull(sum(state = 'failed' AND NOT absent), 0) || ' ' || ifnull(sum(state = "
             "'cancelled' AND wanted), 0) "
             "FROM task WHERE job_id = %lld",
             (long long)j->job_id);
    must_count("a job", sql, ours, sizeof(ours) / sizeof(*ours));
    return 0;
}

/* What the program counts is what SQL counts, and what the views say. */
static inline void figures_audit(void)
{
    struct store *st = catalog_open(STORE_READ);
    struct store_totals t;
    struct err e = {0};

    assert_ok(store_totals(st, &t, &e), e);
    assert_ok(read_progress(st, stage_audit, NULL, &e), e);
    assert_ok(read_jobs(st, job_audit, NULL, &e), e);
    must_count("the archive",
               "WITH w AS (SELECT t.*, CASE WHEN t.state = 'pending' THEN "
               "  CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2 WHEN t.waits = 'source' THEN 7 "
               "       WHEN t.shards_done > 0 THEN 3 ELSE 4 END "
               "  WHEN t.state = 'failed' THEN iif(t.absent, 1, 5) WHEN t.state = 'cancelled' THEN "
               "6 ELSE 8 END "
               "  AS rank FROM task t WHERE t.wanted), "
               "c AS (SELECT m.*, (SELECT min(rank) FROM w WHERE w.media_id = m.media_id) AS rank, "
               "  ifnull((SELECT min(min(iif(w.state = 'done', 1e15, audio_done_ms), "
               "    ifnull(m.duration_ms, audio_done_ms))) FROM w JOIN stage g USING (stage_id) "
               "    WHERE w.media_id = m.media_id AND g.source_id IS NULL), 0) "
               "  AS heard FROM media m), "
               "d AS (SELECT *, rank IN (3, 4) AS live FROM c WHERE rank IS NOT NULL) "
               "SELECT ifnull(sum(live), 0) || ' ' || ifnull(sum(rank = 7), 0) || ' ' || "
               "ifnull(sum(rank = 2), 0) || ' ' || "
               " ifnull(sum(rank = 1), 0) || ' ' || ifnull(sum(rank = 8), 0) || ' ' || "
               "ifnull(sum(rank = 5), 0) || ' ' || "
               " ifnull(sum(rank = 6), 0) || ' ' || ifnull(sum(live AND duration_ms IS NULL), 0) "
               "|| ' ' || "
               " ifnull(sum((live AND duration_ms IS NULL) * size_bytes), 0) || ' ' || "
               " ifnull(sum((duration_ms IS NOT NULL) * size_bytes), 0) || ' ' || "
               "ifnull(sum(duration_ms), 0) || ' ' "
               " || ifnull(sum(heard), 0) || ' ' || "
               " ifnull(sum(live * max(ifnull(duration_ms, 0) - heard, 0)), 0) FROM d",
               (const uint64_t[]){t.archive.pending, t.archive.waiting, t.archive.paused,
                                  t.archive.absent, t.archive.done, t.archive.failed,
                                  t.archive.cancelled, t.archive.unknown, t.archive.bytes_unknown,
                                  t.archive.bytes_known, (uint64_t)t.archive.audio_known_ms,
                                  (uint64_t)t.archive.audio_done_ms,
                                  (uint64_t)t.archive.audio_left_ms},
               13);
    must_count(
        "the view archive",
        "SELECT recordings || ' ' || pending || ' ' || waiting || ' ' || paused || ' ' || "
        "absent || ' ' || done || ' ' || failed || ' ' || cancelled || ' ' || unknown || ' ' "
        "|| bytes_unknown FROM archive",
        (const uint64_t[]){t.recordings, t.archive.pending, t.archive.waiting, t.archive.paused,
                           t.archive.absent, t.archive.done, t.archive.failed, t.archive.cancelled,
                           t.archive.unknown, t.archive.bytes_unknown},
        10);
    must_count("the totals",
               "SELECT (SELECT count(*) FROM media WHERE NOT replaced) || ' ' || "
               " (SELECT count(*) FROM place WHERE state = 'present') || ' ' || "
               " (SELECT count(*) FROM place WHERE state = 'vanished') || ' ' || "
               " (SELECT count(*) FROM media WHERE damage IS NOT NULL AND NOT replaced) || ' ' || "
               " (SELECT count(*) FROM segment g JOIN task t USING (task_id) WHERE t.current) "
               " || ' ' || (SELECT ifnull(sum(shards_done), 0) FROM task) || ' ' || "
               " (SELECT ifnull(sum(speech_ms), 0) FROM task WHERE current) || ' ' || "
               " (SELECT ifnull(sum(dropped_ms), 0) FROM task WHERE current) || ' ' || "
               " (SELECT ifnull(sum(missing_ms), 0) FROM task WHERE current)",
               (const uint64_t[]){t.recordings, t.places, t.vanished, t.damaged, t.segments,
                                  t.shards_done, (uint64_t)t.account.speech_ms,
                                  (uint64_t)t.account.dropped_ms, (uint64_t)t.account.missing_ms},
               9);
    store_close(st);
}

/* What is kept of other rows equals a count of them; every foreign key holds. */
static inline void catalog_audit(void)
{
    own_kept = true;
    figures_audit();
    assert_string_equal(text_of("PRAGMA integrity_check"), "ok");
    assert_int_equal(count_of("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM word LEFT JOIN segment USING (segment_id) "
                              "WHERE task_id IS NULL"),
                     0);
    /* Speakers are of the same recording; what waits for its source has one that is not done. */
    assert_int_equal(count_of("SELECT count(*) FROM segment g JOIN task t USING (task_id) "
                              "LEFT JOIN word w USING (segment_id) "
                              "LEFT JOIN speaker a ON a.speaker_id = g.speaker_id "
                              "LEFT JOIN speaker b ON b.speaker_id = w.speaker_id "
                              "WHERE (g.speaker_id IS NOT NULL AND a.media_id IS NOT t.media_id) "
                              "OR (w.speaker_id IS NOT NULL AND b.media_id IS NOT t.media_id)"),
                     0);
    assert_int_equal(count_of("SELECT count(*) FROM task t JOIN stage s USING (stage_id) "
                              "WHERE t.state = 'pending' AND (waits IS 'source') <> "
                              "(s.source_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM task o "
                              " WHERE o.media_id = t.media_id AND o.stage_id = s.source_id "
                              " AND o.state = 'done'))"),
                     0);
    assert_int_equal(
        count_of("SELECT count(*) FROM media m WHERE places <> (SELECT count(*) FROM place p "
                 "WHERE p.media_id = m.media_id AND p.state = 'present') "
                 "OR place_id IS NULL "
                 "OR (NOT replaced AND (SELECT state FROM place p "
                 "    WHERE p.place_id = m.place_id) = 'replaced') "
                 "OR (places > 0 AND (SELECT (state <> 'present') * 2 + (member_raw <> x'') "
                 "    FROM place p WHERE p.place_id = m.place_id) <> "
                 "    (SELECT min(member_raw <> x'') FROM place p "
                 "     WHERE p.media_id = m.media_id AND p.state = 'present'))"),
        0);
    assert_int_equal(count_of("SELECT count(*) FROM task t JOIN media m USING (media_id) "
                              "WHERE t.absent <> (m.places = 0) "
                              "OR t.shards_done <> (SELECT count(*) FROM shard h "
                              "  WHERE h.task_id = t.task_id) "
                              "OR t.audio_done_ms <> (SELECT ifnull(sum(end_ms - start_ms), 0) "
                              "  FROM shard h WHERE h.task_id = t.task_id) "
                              "OR (ifnull(t.speech_ms, 0), t.dropped_ms, t.missing_ms) <> "
                              "  (SELECT ifnull(sum(speech_ms), 0), ifnull(sum(dropped_ms), 0), "
                              "   ifnull(sum(missing_ms), 0) "
                              "   FROM shard h WHERE h.task_id = t.task_id)"),
                     0);
    /* Of a recording's results of a kind one is current, and at most one is to be done. */
    assert_int_equal(
        count_of("SELECT count(*) FROM (SELECT 1 FROM task JOIN stage USING (stage_id) "
                 "JOIN media USING (media_id) GROUP BY media_id, name "
                 "HAVING sum(current) <> NOT replaced OR sum(wanted) > NOT replaced "
                 "OR sum(pinned) > 1)"),
        0);
    assert_int_equal(
        count_of("SELECT count(*) FROM media m WHERE replaced <> NOT EXISTS (SELECT 1 FROM place p "
                 "WHERE p.media_id = m.media_id AND p.state <> 'replaced')"),
        0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending' AND NOT wanted"),
                     0);
    own_close();
}

static inline void fts_check(void)
{
    sqlite3 *db;

    /* integrity-check of FTS5 is an INSERT, so a writing connection. */
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db,
                                  "INSERT INTO segment_fts (segment_fts, rank) "
                                  "VALUES ('integrity-check', 1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
}

/* What people read is what the facts say, in whatever order these came. */
static inline void reading_audit(void)
{
    struct store *st = catalog_open(STORE_WRITE);
    int64_t media_id = 0;
    bool changed = false;
    struct err e = {0};

    do {
        assert_ok(store_publish_next(st, &media_id, &changed, &e), e);
        if (changed)
            print_error("recording %d read otherwise than its facts say\n", (int)media_id);
        assert_false(changed);
    } while (media_id);
    store_close(st);
}

/* Of a test that wrote segments by hand: they read otherwise than the facts say. */
static inline void catalog_close_by_hand(struct store *st)
{
    store_close(st);
    catalog_audit();
    fts_check();
}

static inline void catalog_close(struct store *st)
{
    catalog_close_by_hand(st);
    reading_audit();
}

static const struct store_stage stage_nano = {"transcribe", "nano",         "/models/nano",
                                              "aa11",       "{\"beam\":1}", NULL};
static const struct store_stage stage_tiny = {"transcribe", "tiny",         "/models/tiny",
                                              "bb22",       "{\"beam\":1}", NULL};

/* content: any number; equal numbers are equal content. */
static inline struct store_found found_at(const char *path, const char *member, uint64_t content)
{
    struct store_found f = {.path = path,
                            .path_len = strlen(path),
                            .member = member,
                            .member_len = strlen(member),
                            .size_bytes = 1000 + content,
                            .file_size_bytes = 1000 + content,
                            .mtime_ns = 1700000000000000000 + (int64_t)(content % 1000000000),
                            .inode = content + 5,
                            .device = 7};

    memcpy(f.fingerprint, &content, sizeof(content));
    return f;
}

static inline struct request_reply apply_ok(struct store *st, const struct request *rq)
{
    struct request_reply reply = {0};
    struct err e = {0};

    assert_ok(request_apply(st, rq, &reply, &e), e);
    return reply;
}

static inline int64_t job_begin(struct store *st, const struct store_stage *stage)
{
    return apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_BEGIN,
                                          .command_line = "nightshift enqueue /archive",
                                          .stage = *stage,
                                          .language = "en"})
        .job_id;
}

static inline struct request_reply job_add(struct store *st, int64_t job,
                                           const struct store_found *f, uint32_t n)
{
    return apply_ok(
        st, &(struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = f, .count = n});
}

static inline struct request_reply job_add1(struct store *st, int64_t job, const char *path,
                                            const char *member, uint64_t content)
{
    struct store_found f = found_at(path, member, content);

    return job_add(st, job, &f, 1);
}

static inline struct request_reply job_end(struct store *st, int64_t job, const char *root)
{
    return apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_END,
                                          .job_id = job,
                                          .roots = root ? &root : NULL,
                                          .root_count = root ? 1 : 0});
}

/* Runnable tasks of the first stages, freed at once; returns how many, and the lowest id. */
static inline size_t runnable(struct store *st, int64_t *first)
{
    struct store_task t[64];
    struct err e = {0};
    size_t n = 0, all = 0;

    if (first)
        *first = 0;
    for (int64_t stage = 1; stage <= 4; stage++) {
        assert_ok(store_runnable(st, stage, 0, 4102444800000, t, 64, &n, &e), e);
        if (first && n && (!*first || t[0].task_id < *first))
            *first = t[0].task_id;
        for (size_t i = 0; i < n; i++)
            store_task_free(&t[i]);
        all += n;
    }
    return all;
}

static inline void shard_done(struct store *st, int64_t task, uint32_t seq, int64_t length_ms,
                              const struct result_segment *s, size_t n)
{
    struct err e = {0};

    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .seq = seq,
                                                            .start_ms = seq * length_ms,
                                                            .end_ms = (seq + 1) * length_ms,
                                                            .language = "en",
                                                            .language_prob = 0.9,
                                                            .windows = 1,
                                                            .wall_ms = 12,
                                                            .device = "cpu",
                                                            .segments = s,
                                                            .segment_count = n},
                               &e),
              e);
}

static inline void shard_put(struct store *st, int64_t task, uint32_t seq, const char *const *texts,
                             size_t n)
{
    struct result_segment s[16];
    int64_t base = (int64_t)seq * 30000;
    const struct result_word words[] = {{base, base + 700, " begin", 0.75},
                                        {base + 700, base + 700, " end", 0.5}};

    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++)
        s[i] = (struct result_segment){.start_ms = base + (int64_t)i * 2000,
                                       .end_ms = base + (int64_t)i * 2000 + 1500,
                                       .text = texts[i],
                                       .language = "en",
                                       .avg_logprob = -0.25,
                                       .no_speech_prob = 0.01,
                                       .compression_ratio = 1.2,
                                       .temperature = 0,
                                       .attempts = 1,
                                       .speech_prob = 0.875,
                                       .words = words,
                                       .word_count = 2};
    shard_done(st, task, seq, 30000, s, n);
}

#endif
