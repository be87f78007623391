/* The running side: tasks, shards, totals, failures, batches, and what interruption may not change.
 */
#include <math.h>

#include "base/clock.h"
#include "store/db.h"
#include "tests/unit/store/fixture.h"

static void fill(struct store *st)
{
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    job_add1(st, job, "/a/3.zip", "x.mp3", 3);
    job_add1(st, job, "/b/copy of 2.wav", "", 2);
    job_end(st, job, "/");
}

TEST(tasks_in_order)
{
    struct store *st = catalog_new();
    struct store_task t[8];
    struct err e = {0};
    size_t n;

    fill(st);
    shard_put(st, 2, 4, (const char *[]){"four"}, 1);
    shard_put(st, 2, 1, NULL, 0);
    assert_ok(store_runnable(st, 1, 0, 0, t, 8, &n, &e), e);
    assert_int_equal(n, 3);
    assert_string_equal(t[0].path, "/a/1.wav");
    assert_int_equal(t[0].duration_ms, -1);
    assert_int_equal(t[0].shards_total, 0);
    assert_false(t[0].has_hash);
    assert_int_equal(t[0].size_bytes, 1001);
    assert_int_equal(t[0].fingerprint[0], 1);
    assert_int_equal(t[1].skip_count, 2);
    assert_int_equal(t[1].skip[0], 1);
    assert_int_equal(t[1].skip[1], 4);
    assert_string_equal(t[2].member, "x.mp3");
    assert_ok(store_task_place(st, &t[1], 1, &e), e);
    assert_string_equal(t[1].path, "/b/copy of 2.wav");
    assert_int_equal(store_task_place(st, &t[1], 2, &e), ERR_EMPTY);
    assert_string_equal(t[1].path, "/b/copy of 2.wav");
    for (size_t i = 0; i < n; i++)
        store_task_free(&t[i]);
    assert_ok(store_runnable(st, 1, 1, 0, t, 1, &n, &e), e);
    assert_int_equal(n, 1);
    assert_int_equal(t[0].task_id, 2);
    store_task_free(&t[0]);
    assert_ok(store_runnable(st, 1, 3, 0, t, 8, &n, &e), e);
    assert_int_equal(n, 0);
    catalog_close(st);
}

static bool is_runnable(struct store *st, int64_t stage, int64_t media, int64_t now)
{
    struct store_task t;
    struct err e = {0};
    bool found;

    assert_ok(store_runnable_of(st, stage, media, now, &t, &found, &e), e);
    if (found) {
        assert_int_equal(t.media_id, media);
        assert_int_equal(t.stage_id, stage);
        store_task_free(&t);
    }
    return found;
}

/* The task of one recording, under the same conditions as all. */
TEST(a_recordings_own_task)
{
    struct store *st = catalog_new();
    struct store_task t;
    struct request_reply reply;
    struct err e = {0};
    bool found;

    fill(st);
    shard_put(st, 2, 4, NULL, 0);
    shard_put(st, 2, 1, NULL, 0);
    assert_ok(store_runnable_of(st, 1, 2, 0, &t, &found, &e), e);
    assert_true(found);
    assert_int_equal(t.task_id, 2);
    assert_string_equal(t.path, "/a/2.wav");
    assert_int_equal(t.skip_count, 2);
    assert_int_equal(t.skip[0], 1);
    assert_int_equal(t.skip[1], 4);
    store_task_free(&t);
    assert_false(is_runnable(st, 2, 2, 0));
    assert_false(is_runnable(st, 1, 99, 0));
    assert_true(is_runnable(st, 1, 1, 0));
    assert_ok(store_task_failed(st, 1, ERR_IO, "wait", 50, &e), e);
    assert_false(is_runnable(st, 1, 1, 49));
    assert_true(is_runnable(st, 1, 1, 50));
    shard_put(st, 3, 0, NULL, 0);
    assert_ok(store_task_total(st, 3, 1, &e), e);
    assert_false(is_runnable(st, 1, 3, 0)); /* done */
    assert_ok(request_apply(st, &(struct request){.type = REQUEST_PAUSE}, &reply, &e), e);
    assert_false(is_runnable(st, 1, 2, 0));
    catalog_close(st);
}

/* Those of a transaction that is undone, or of a change that is refused, are none. */
TEST(completed_tasks_are_counted)
{
    struct store *st = catalog_new();
    struct err e = {0};

    fill(st);
    assert_int_equal(store_completed(st).tasks, 0);
    shard_put(st, 1, 0, NULL, 0);
    assert_int_equal(store_completed(st).tasks, 0);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_int_equal(store_completed(st).tasks, 1);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    shard_put(st, 1, 0, NULL, 0);
    assert_int_equal(store_completed(st).tasks, 1);
    assert_ok(store_begin(st, &e), e);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    shard_put(st, 2, 0, NULL, 0);
    assert_int_equal(store_completed(st).tasks, 1);
    store_rollback(st);
    assert_int_equal(store_completed(st).tasks, 1);
    assert_ok(store_begin(st, &e), e);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    shard_put(st, 2, 0, NULL, 0);
    assert_ok(store_task_total(st, 3, 1, &e), e);
    shard_put(st, 3, 0, NULL, 0);
    assert_int_equal(store_task_total(st, 3, 0, &e), ERR_INPUT);
    assert_ok(store_commit(st, &e), e);
    assert_int_equal(store_completed(st).tasks, 3);
    catalog_close(st);
}

static int count_steps(void *arg)
{
    ++*(int64_t *)arg;
    return 0;
}

/* What a stage has to do is found without looking at what another has: in steps, not in time. */
TEST(a_stage_is_read_alone)
{
    static struct store_found found[2000];
    static char paths[2000][32];
    struct store *st = catalog_new();
    struct store_stage_row *rows;
    struct store_task t[8];
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano), steps = 0;
    size_t n;

    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/a/%u.wav", i);
        found[i] = found_at(paths[i], "", i);
    }
    job_add(st, job, found, 2000);
    job_end(st, job, "/a");
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/b/late.wav", "", 5000);
    job_end(st, job, "/b");
    sqlite3_progress_handler(st->db, 10, count_steps, &steps);
    assert_ok(store_runnable(st, 2, 0, 0, t, 8, &n, &e), e);
    assert_int_equal(n, 1);
    assert_int_equal(t[0].task_id, 2001);
    store_task_free(&t[0]);
    assert_ok(store_runnable(st, 2, 2001, 0, t, 8, &n, &e), e);
    assert_int_equal(n, 0);
    assert_ok(store_stages_runnable(st, 0, &rows, &n, &e), e);
    assert_int_equal(n, 2);
    while (n)
        store_stage_row_free(&rows[--n]);
    free(rows);
    assert_true(is_runnable(st, 1, 1999, 0)); /* by its recording */
    assert_false(is_runnable(st, 2, 1999, 0));
    assert_true(steps < 100);
    sqlite3_progress_handler(st->db, 0, NULL, NULL);
    catalog_close(st);
}

/* A request of very many rows: each piece is a commit, others may come in between, and asking again
 * after a half done one does the rest. */
TEST(large_requests_go_in_pieces)
{
    enum { MANY = 10000 };
    static struct store_found found[MANY];
    static char paths[MANY][32];
    struct store *st = catalog_new();
    struct request rq = {.type = REQUEST_CANCEL};
    const char *root = "/a";
    struct request_reply reply;
    struct request_work *w;
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano), part;
    int pieces = 0, rc;

    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/a/%u.wav", i);
        found[i] = found_at(paths[i], "", i);
    }
    for (uint32_t i = 0; i < MANY; i += 2500)
        job_add(st, job, found + i, 2500);
    job_end(st, job, root);
    assert_ok(request_begin(st, &rq, &w, &e), e);
    assert_int_equal(request_step(w, &reply, &e), 1);
    part = count_of("SELECT count(*) FROM task WHERE state = 'cancelled'");
    assert_true(part > 0 && part < MANY);
    request_work_free(w); /* its client has gone */
    assert_ok(request_begin(st, &rq, &w, &e), e);
    assert_int_equal(request_step(w, &reply, &e), 1);
    /* Found, not yet changed, and done meanwhile: stays. */
    assert_ok(store_task_total(st, MANY, 1, &e), e);
    shard_put(st, MANY, 0, (const char *[]){"x"}, 1);
    while ((rc = request_step(w, &reply, &e)) == 1)
        pieces++;
    assert_ok(rc, e);
    request_work_free(w);
    assert_int_equal(reply.affected, MANY - part - 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), MANY - 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 1);
    rq.type = REQUEST_RETRY;
    assert_int_equal(apply_ok(st, &rq).affected, MANY - 1);
    /* The end of a walk that found nothing any more, but for one place in between. */
    job = job_begin(st, &stage_nano);
    rq = (struct request){
        .type = REQUEST_ENQUEUE_END, .job_id = job, .roots = &root, .root_count = 1};
    assert_ok(request_begin(st, &rq, &w, &e), e);
    assert_int_equal(request_step(w, &reply, &e), 1);
    int64_t last = count_of("SELECT max(place_id) FROM place WHERE state = 'present'");
    apply_ok(st, &(struct request){
                     .type = REQUEST_ENQUEUE_SAME, .job_id = job, .place_ids = &last, .count = 1});
    while ((rc = request_step(w, &reply, &e)) == 1)
        pieces++;
    assert_ok(rc, e);
    request_work_free(w);
    assert_true(pieces >= 1);
    assert_int_equal(reply.counts.vanished, MANY - 1);
    assert_int_equal(count_of("SELECT vanished FROM job ORDER BY job_id DESC LIMIT 1"), MANY - 1);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE state = 'present'"), 1);
    catalog_close(st);
}

/* Two decodings of one recording need not agree on its end; nothing is lost by that. */
TEST(a_longer_total_opens_a_task_again)
{
    struct store *st = catalog_new();
    struct err e = {0};

    fill(st);
    shard_put(st, 1, 0, (const char *[]){"one"}, 1);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "done");
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "pending");
    assert_int_equal(runnable(st, NULL), 3);
    shard_put(st, 1, 1, NULL, 0);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "done");
    /* And a shorter one has nothing to wait for. */
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "done");
    catalog_close(st);
}

/* A directory is one range of the index: what follows it is not read. In steps, not in time. */
TEST(a_directory_is_read_alone)
{
    static struct store_found found[3000];
    static char paths[3000][32];
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano), steps = 0;

    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/z/%u.wav", i);
        found[i] = found_at(paths[i], "", i);
    }
    job_add(st, job, found, 3000);
    job_add1(st, job, "/a/1.wav", "", 5001);
    job_add1(st, job, "/a-b/2.wav", "", 5002);
    job_add1(st, job, "/a0/3.wav", "", 5003);
    job_add1(st, job, "/a", "", 5004);
    job_end(st, job, "/");
    job = job_begin(st, &stage_nano);
    sqlite3_progress_handler(st->db, 10, count_steps, &steps);
    assert_int_equal(job_end(st, job, "/a").counts.vanished, 2);
    assert_true(steps < 400); /* reading 3000 rows takes 900 more, if not thousands */
    sqlite3_progress_handler(st->db, 0, NULL, NULL);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE state = 'vanished' "
                              "AND path IN ('/a', '/a/1.wav')"),
                     2);
    catalog_close(st);
}

TEST(the_shard_length_is_kept)
{
    struct store *st = catalog_new();
    struct err e = {0};
    uint32_t ms = 0;

    fill(st);
    assert_ok(store_shard_length(st, 0, 300000, &ms, &e), e);
    assert_int_equal(ms, 300000);
    assert_ok(store_shard_length(st, 60000, 300000, &ms, &e), e); /* no results yet */
    assert_ok(store_shard_length(st, 0, 300000, &ms, &e), e);
    assert_int_equal(ms, 60000);
    shard_put(st, 1, 0, (const char *[]){"one"}, 1);
    ms = 0;
    assert_int_equal(store_shard_length(st, 90500, 300000, &ms, &e), ERR_USAGE);
    assert_int_equal(ms, 0);
    assert_non_null(strstr(e.msg, "every 60 s, and 90.5 s"));
    assert_non_null(strstr(e.msg, "leave --shard away"));
    assert_ok(store_shard_length(st, 60000, 300000, &ms, &e), e);
    assert_ok(store_shard_length(st, 0, 300000, &ms, &e), e);
    assert_int_equal(ms, 60000);
    catalog_close(st);
}

TEST(shards_make_a_task_done)
{
    struct store *st = catalog_new();
    struct store_totals totals;
    struct err e = {0};

    fill(st);
    shard_put(st, 1, 0, (const char *[]){"hello there", "General Kenobi"}, 2);
    /* Delivered twice, with other words: the first stays. */
    shard_put(st, 1, 0, (const char *[]){"something else"}, 1);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 2);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_int_equal(runnable(st, NULL), 3);
    shard_put(st, 1, 1, NULL, 0);
    assert_int_equal(runnable(st, NULL), 2);
    assert_string_equal(text_of("SELECT state FROM recordings WHERE media_id = 1"), "done");
    /* The total comes last for the second. */
    shard_put(st, 2, 0, (const char *[]){"two"}, 1);
    assert_string_equal(text_of("SELECT state FROM recordings WHERE media_id = 2"), "started");
    assert_ok(store_task_total(st, 2, 1, &e), e);
    assert_string_equal(text_of("SELECT state FROM recordings WHERE media_id = 2"), "done");
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.tasks_done, 2);
    assert_int_equal(totals.tasks_pending, 1);
    assert_int_equal(totals.shards_done, 3);
    assert_int_equal(totals.segments, 3);
    assert_int_equal(totals.audio_done_ms, 90000);
    assert_int_equal(totals.tasks_unknown, 1);
    assert_int_equal(totals.bytes_pending, 1003);
    assert_int_equal(store_task_total(st, 1, 0, &e), ERR_INPUT);
    catalog_close(st);
}

TEST(a_shard_beyond_the_total_does_not_count)
{
    struct store *st = catalog_new();
    struct err e = {0};

    fill(st);
    shard_put(st, 1, 0, NULL, 0);
    shard_put(st, 1, 7, NULL, 0);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "pending");
    shard_put(st, 1, 1, NULL, 0);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "done");
    catalog_close(st);
}

TEST(impossible_results_are_refused)
{
    struct store *st = catalog_new();
    struct result_segment bad = {.start_ms = 5, .end_ms = 4, .text = "x", .language = "en"};
    struct store_shard_result r = {.task_id = 1, .end_ms = 10, .language = "", .device = "cpu"};
    struct err e = {0};

    fill(st);
    r.segments = &bad;
    r.segment_count = 1;
    assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
    r.segment_count = 0;
    r.start_ms = 11;
    assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
    r.start_ms = 0;
    r.task_id = 99;
    assert_ok(store_shard_done(st, &r, &e), e); /* forgotten meanwhile */
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    r.task_id = 1;
    r.language_prob = NAN;
    r.segments = &bad;
    r.segment_count = 1;
    for (int i = 0; i < 3; i++) {
        bad = (struct result_segment){.end_ms = i == 2 ? INT64_C(1) << 53 : 4,
                                      .text = i == 1 ? "a\xff"
                                                       "b"
                                                     : "ab",
                                      .language = NULL,
                                      .avg_logprob = i == 0 ? -INFINITY : 0};
        assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
        assert_says(e.msg, "a text or a number is impossible");
    }
    bad.end_ms = 4;
    assert_ok(store_shard_done(st, &r, &e), e);
    catalog_close(st);
}

TEST(failures_and_retries)
{
    struct store *st = catalog_new();
    struct store_stage_row *rows;
    struct err e = {0};
    uint32_t attempts, suspect;
    int64_t at;
    size_t n;

    fill(st);
    assert_ok(store_next_retry(st, 0, &at, &e), e);
    assert_true(at == INT64_MAX);
    assert_ok(store_task_failed(st, 1, ERR_TIMEOUT, "no sign of life", 1700000000123, &e), e);
    assert_ok(store_next_retry(st, 0, &at, &e), e);
    assert_true(at == 1700000000123);
    assert_ok(store_next_retry(st, 1700000000123, &at, &e), e);
    assert_true(at == INT64_MAX);
    struct store_task t[4];
    assert_ok(store_runnable(st, 1, 0, 1700000000122, t, 4, &n, &e), e);
    assert_int_equal(n, 2);
    while (n)
        store_task_free(&t[--n]);
    assert_ok(store_runnable(st, 1, 0, 1700000000123, t, 4, &n, &e), e);
    assert_int_equal(n, 3);
    while (n)
        store_task_free(&t[--n]);
    assert_ok(store_task_suspect(st, 1, 1, 0, &e), e);
    assert_ok(store_task_failed(st, 1, ERR_INPUT, "no audio in it", -1, &e), e);
    assert_ok(store_task_attempts(st, 1, &attempts, &suspect, &e), e);
    assert_int_equal(attempts, 2);
    assert_int_equal(suspect, 1);
    assert_ok(store_task_attempts(st, 99, &attempts, &suspect, &e), e); /* forgotten meanwhile */
    assert_int_equal(attempts + suspect, 0);
    assert_string_equal(text_of("SELECT kind || ' ' || path || ' ' || code || ' ' || reason "
                                "FROM failures"),
                        "failed /a/1.wav input no audio in it");
    /* A late failure does not touch what is finalized; a late shard does. */
    assert_ok(store_task_failed(st, 1, ERR_IO, "late", 5, &e), e);
    assert_string_equal(text_of("SELECT state || error_code FROM task WHERE task_id = 1"),
                        "failedinput");
    shard_put(st, 1, 0, NULL, 0);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 1"), "done");
    assert_ok(store_stages_runnable(st, 0, &rows, &n, &e), e);
    assert_int_equal(n, 1);
    assert_string_equal(rows[0].model_dir, "/models/nano");
    assert_string_equal(rows[0].params_json, "{\"beam\":1}");
    store_stage_row_free(&rows[0]);
    free(rows);
    assert_ok(store_task_failed(st, 2, ERR_IO, "wait", 50, &e), e);
    assert_ok(store_task_failed(st, 3, ERR_IO, "wait", 60, &e), e);
    assert_ok(store_stages_runnable(st, 40, &rows, &n, &e), e);
    assert_int_equal(n, 0);
    free(rows);
    assert_ok(store_event(st, "worker-died", 1, "cpu", "signal 11", &e), e);
    assert_ok(store_event(st, "run-start", 0, NULL, "", &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE media_id IS NULL"), 1);
    catalog_close(st);
}

TEST(media_and_hashes)
{
    struct store *st = catalog_new();
    struct store_totals totals;
    uint8_t a[16] = {1}, b[16] = {2};
    struct err e = {0};

    fill(st);
    assert_ok(
        store_media(st, 1,
                    &(struct store_media_info){60000, 44100, 2, "wav", "pcm", NULL, 0, 1, false},
                    NULL, &e),
        e);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.audio_known_ms, 60000);
    assert_int_equal(totals.audio_left_ms, 60000);
    assert_int_equal(totals.tasks_unknown, 2);
    shard_put(st, 1, 0, NULL, 0);
    assert_ok(store_media(st, 1, NULL,
                          &(struct store_media_end){59000, NULL, "cut off", NULL, NULL, 0}, &e),
              e);
    assert_ok(
        store_media(st, 1, NULL, &(struct store_media_end){57000, NULL, NULL, NULL, NULL, 0}, &e),
        e); /* of its damage nothing is said */
    assert_string_equal(text_of("SELECT duration_ms || damage FROM media WHERE media_id = 1"),
                        "57000cut off");
    assert_ok(store_media(st, 1, NULL, &(struct store_media_end){58000, a, "", NULL, NULL, 0}, &e),
              e);
    assert_int_equal(count_of("SELECT count(*) FROM media WHERE damage IS NOT NULL"), 0);
    /* The truth is not replaced by the container's word. */
    assert_ok(
        store_media(st, 1,
                    &(struct store_media_info){60000, 44100, 2, "wav", "pcm", NULL, 0, 1, false},
                    NULL, &e),
        e);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.audio_known_ms, 58000);
    assert_int_equal(totals.audio_left_ms, 28000);
    assert_int_equal(totals.damaged, 0);
    assert_int_equal(count_of("SELECT count(*) FROM event"), 0);
    assert_ok(
        store_media(st, 1, NULL, &(struct store_media_end){58000, b, NULL, NULL, NULL, 0}, &e), e);
    assert_string_equal(text_of("SELECT kind FROM event"), "content-differs");
    assert_string_equal(text_of("SELECT hex(content_hash) FROM media WHERE media_id = 1"),
                        "01000000000000000000000000000000");
    assert_ok(store_media(st, 2, NULL,
                          &(struct store_media_end){1000, NULL, "cut off", NULL, NULL, 0}, &e),
              e);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.damaged, 1);
    assert_string_equal(text_of("SELECT reason FROM failures WHERE kind = 'damaged'"), "cut off");
    assert_int_equal(
        store_media(st, 2, NULL, &(struct store_media_end){-1, NULL, "", NULL, NULL, 0}, &e),
        ERR_INPUT);
    /* Each pass says it again: it is told once. */
    for (int i = 0; i < 2; i++)
        assert_ok(
            store_media(st, 2, NULL,
                        &(struct store_media_end){1000, NULL, "", "jumps by 7 s at 3 s", NULL, 0},
                        &e),
            e);
    assert_string_equal(text_of("SELECT media_id || text FROM event WHERE kind = 'clock-jumps'"),
                        "2jumps by 7 s at 3 s");
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'clock-jumps'"), 1);
    catalog_close(st);
}

/* What was measured stays, and who hears it now is said anew. */
TEST(channels_are_of_the_last_pass)
{
    static const char *rows = "SELECT group_concat(track || '.' || channel || ' ' || "
                              "ifnull(sound_ms, '-') || ' ' || ifnull(length_ms, '-') || "
                              "iif(heard, ' heard', ''), '; ') FROM channel WHERE media_id = 1";
    static const struct result_channel first[] = {{1, 0, -1, -1, false},
                                                  {2, 1, 900, 1000, true},
                                                  {2, 2, 0, 1000, true},
                                                  {3, 0, -1, 990, false}},
                                       second[] = {{1, 1, 50, 1000, true},
                                                   {2, 0, -1, 1000, false},
                                                   {3, 0, -1, 990, false}};
    struct store_media_end end = {1000, NULL, "", NULL, first, 4};
    struct store *st = catalog_new();
    struct err e = {0};

    fill(st);
    assert_ok(store_media(st, 1, NULL, &end, &e), e);
    assert_string_equal(text_of(rows), "1.0 - -; 2.1 900 1000 heard; 2.2 0 1000 heard; 3.0 - 990");
    end.channels = NULL; /* its length alone */
    end.channel_count = 0;
    assert_ok(store_media(st, 1, NULL, &end, &e), e);
    assert_string_equal(text_of(rows), "1.0 - -; 2.1 900 1000 heard; 2.2 0 1000 heard; 3.0 - 990");
    end.channels = second;
    end.channel_count = 3;
    for (int i = 0; i < 2; i++) {
        assert_ok(store_media(st, 1, NULL, &end, &e), e);
        assert_string_equal(text_of(rows),
                            "1.1 50 1000 heard; 2.1 900 1000; 2.2 0 1000; 3.0 - 990");
    }
    assert_string_equal(
        text_of("SELECT group_concat(track || ' ' || ifnull(channel, '-') || ' ' || "
                "ifnull(sound, '-'), '; ') FROM channels"),
        "1 1 0:00; 2 1 0:00; 2 2 0:00; 3 - -");
    catalog_close(st);
}

TEST(batches)
{
    const struct request impossible = {.type = REQUEST_ENQUEUE_END, .job_id = 9};
    struct store *st = catalog_new();
    struct request_reply r;
    struct err e = {0};

    fill(st);
    assert_ok(store_begin_apart(st, &e), e);
    assert_int_equal(store_begin(st, &e), ERR_USAGE);
    shard_put(st, 1, 0, (const char *[]){"one"}, 1);
    /* One failing call inside undoes itself alone. */
    assert_int_equal(request_apply(st, &impossible, &r, &e), ERR_INPUT);
    shard_put(st, 1, 1, (const char *[]){"two"}, 1);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    assert_ok(store_commit(st, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 2);
    assert_ok(store_begin(st, &e), e);
    shard_put(st, 1, 2, (const char *[]){"three"}, 1);
    store_rollback(st);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 2);
    assert_int_equal(store_commit(st, &e), ERR_USAGE);
    /* Or all, and what comes after it fails with what it failed with. */
    assert_ok(store_begin(st, &e), e);
    shard_put(st, 1, 2, (const char *[]){"three"}, 1);
    assert_int_equal(request_apply(st, &impossible, &r, &e), ERR_INPUT);
    assert_int_equal(store_task_total(st, 1, 9, &e), ERR_INPUT);
    assert_int_equal(store_commit(st, &e), ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE shards_total = 9"), 0);
    shard_put(st, 1, 2, (const char *[]){"three"}, 1);
    /* Closed in the middle of a batch: as if killed. */
    assert_ok(store_begin(st, &e), e);
    shard_put(st, 1, 3, (const char *[]){"four"}, 1);
    catalog_close(st);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 3);
}

/* The rows of `results` do not tell how the run went. */
TEST(results_do_not_tell_the_order)
{
    static const int orders[2][4] = {{0, 1, 2, 3}, {3, 1, 0, 2}};
    char sums[2][1024];

    for (int k = 0; k < 2; k++) {
        struct store *st = catalog_new();
        struct err e = {0};

        fill(st);
        for (int i = 0; i < 4; i++) {
            int64_t task = orders[k][i] / 2 + 1;
            uint32_t seq = (uint32_t)orders[k][i] % 2;

            if (seq == 1)
                shard_put(st, task, seq, NULL, 0);
            else
                shard_put(st, task, seq, (const char *[]){"alpha", "beta"}, 2);
            if (k == 1)
                assert_ok(store_task_failed(st, task, ERR_TIMEOUT, "again", 5, &e), e);
            if (k == 1 && i == 1) {
                store_close(st);
                st = catalog_open(STORE_WRITE);
            }
        }
        catalog_close(st);
        snprintf(sums[k], sizeof(sums[k]), "%s",
                 text_of("SELECT group_concat(path || member || stage || model_hash || params || "
                         "seq || shard_start_ms || shard_end_ms || shard_language || "
                         "language_prob || windows || ifnull(idx, '-') || ifnull(start_ms, '-') || "
                         "ifnull(end_ms, '-') || ifnull(text, '-') || ifnull(avg_logprob, '-') || "
                         "ifnull(words, '-') || ifnull(speech_prob, '-'), "
                         "char(10)) FROM results"));
    }
    assert_int_equal(count_of("SELECT count(*) FROM results"), 6);
    assert_string_equal(sums[0], sums[1]);
}

TEST_MAIN(NULL, NULL)
