/* What is counted, once for every recording, however many stages hear it. That each sum equals a
 * count is looked at wherever a catalog is closed (catalog_audit). */
#include "tests/unit/store/stages.h"

static const struct store_stage stage_sounds = {"sounds", "yamnet", "/y", "ff66", "{}", NULL};

static struct store_archive archive(struct store *st) { return totals(st).archive; }

static void length(int64_t media, int64_t ms)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE media SET duration_ms = %lld WHERE media_id = %lld",
             (long long)ms, (long long)media);
    run_sql(sql);
}

static void give_up(struct store *st, int64_t task, const char *why)
{
    struct err e = {0};

    assert_ok(store_task_failed(st, task, ERR_INPUT, why, -1, &e), e);
}

TEST(a_recording_is_one_for_all_its_stages)
{
    struct store *st = catalog_new();
    struct store_archive a;
    struct err e = {0};
    int64_t job = job_begin(st, &stage_sounds);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    job = job_begin(st, &stage_text);
    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    assert_int_equal(count_of("SELECT count(*) FROM task"), 6);
    a = archive(st);
    assert_int_equal(store_archive_all(&a), 2);
    assert_int_equal(a.pending, 2);
    assert_int_equal(a.unknown, 2);
    length(1, 30000);
    length(2, 60000);
    a = archive(st);
    assert_int_equal(a.audio_known_ms, 90000);
    assert_int_equal(a.audio_left_ms, 90000);
    assert_int_equal(a.unknown + a.bytes_unknown, 0);
    /* Heard is what both have heard that hear; the text is read. */
    shard_put(st, 1, 0, NULL, 0);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_int_equal(archive(st).audio_done_ms, 0);
    transcribe(st, 3);
    a = archive(st);
    assert_int_equal(a.audio_done_ms, 30000);
    assert_int_equal(a.audio_left_ms, 60000);
    assert_int_equal(a.done, 0);
    shard_put(st, 4, 0, NULL, 0);
    assert_ok(store_task_total(st, 4, 1, &e), e);
    assert_int_equal(archive(st).done, 1);
    assert_string_equal(text_of("SELECT group_concat(state) FROM recordings"), "done,pending");
    assert_int_equal(count_of("SELECT recordings = 2 AND done = 1 AND pending = 1 FROM archive"),
                     1);
    /* One more stage, and it is not done again. */
    job = job_begin(st, &stage_voices);
    job_add1(st, job, "/a/1.wav", "", 1);
    a = archive(st);
    assert_int_equal(a.done, 0);
    assert_int_equal(a.audio_done_ms, 0);
    catalog_close(st);
}

TEST(nothing_shrinks_when_it_is_paused_or_cancelled)
{
    struct store *st = catalog_new();
    struct store_archive a;
    int64_t job = job_begin(st, &stage_nano);

    for (int i = 1; i <= 4; i++) {
        char path[20];

        snprintf(path, sizeof(path), "/a/%d.wav", i);
        job_add1(st, job, path, "", (uint64_t)i);
    }
    apply_ok(st, &(struct request){.type = REQUEST_PAUSE, .select_path = "/a/1.wav"});
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/2.wav"});
    a = archive(st);
    assert_int_equal(store_archive_all(&a), 4);
    assert_int_equal(a.pending, 2);
    assert_int_equal(a.paused, 1);
    assert_int_equal(a.cancelled, 1);
    apply_ok(st, &(struct request){.type = REQUEST_RESUME, .select_path = "/a/1.wav"});
    apply_ok(st, &(struct request){.type = REQUEST_RETRY, .select_path = "/a/2.wav"});
    assert_int_equal(archive(st).pending, 4);
    catalog_close(st);
}

/* Of what somebody knows to be broken nothing is said any more; what waits still is to be done. */
TEST(failures_can_be_dismissed)
{
    const struct request dismiss = {.type = REQUEST_DISMISS};
    struct store *st = catalog_new();
    struct request_reply r;
    struct store_archive a;
    int64_t job = job_begin(st, &stage_nano);

    for (int i = 1; i <= 3; i++) {
        char path[20];

        snprintf(path, sizeof(path), "/a/%d.wav", i);
        job_add1(st, job, path, "", (uint64_t)i);
    }
    job = job_begin(st, &stage_text);
    job_add1(st, job, "/a/1.wav", "", 1); /* waits for its text, which will never be there */
    give_up(st, 1, "no audio");
    give_up(st, 2, "no audio");
    r = apply_ok(st, &(struct request){.type = REQUEST_DISMISS, .select_path = "/a/3.wav"});
    assert_int_equal(r.affected, 0);
    r = apply_ok(st, &(struct request){.type = REQUEST_DISMISS, .select_path = "/a/1.wav"});
    assert_int_equal(r.affected, 1); /* recording, of two tasks */
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), 2);
    a = archive(st);
    assert_int_equal(a.failed, 1);
    assert_int_equal(a.cancelled, 1);
    assert_int_equal(a.waiting, 0);
    assert_int_equal(a.pending, 1);
    apply_ok(st, &dismiss);
    assert_int_equal(apply_ok(st, &dismiss).affected, 0);
    assert_int_equal(archive(st).cancelled, 2);
    assert_int_equal(count_of("SELECT count(*) FROM failures"), 0);
    assert_int_equal(count_of("SELECT sum(failed) = 0 AND sum(cancelled) = 3 AND sum(waiting) = 0 "
                              "FROM progress"),
                     1);
    assert_int_equal(count_of("SELECT count(*) FROM job WHERE cancelled_at IS NOT NULL"), 0);
    assert_string_equal(text_of("SELECT error FROM task WHERE task_id = 2"), "no audio");
    assert_int_equal(apply_ok(st, &(struct request){.type = REQUEST_RETRY}).affected, 0);
    assert_int_equal(
        apply_ok(st, &(struct request){.type = REQUEST_RETRY, .select_path = "/"}).affected, 2);
    assert_int_equal(archive(st).pending, 3);
    assert_int_equal(count_of("SELECT sum(waiting) FROM progress"), 1);
    catalog_close(st);
}

/* What is asked for in another way takes the old way's place in all that is counted. */
TEST(what_is_not_wanted_is_not_counted)
{
    struct store *st = catalog_new();
    struct store_archive a;
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    transcribe(st, 1);
    assert_int_equal(archive(st).done, 1);
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/1.wav", "", 1);
    a = archive(st);
    assert_int_equal(a.done, 0);
    assert_int_equal(a.pending, 1);
    assert_int_equal(a.audio_done_ms, 0);
    assert_int_equal(store_archive_all(&a), 1);
    catalog_close(st);
}

TEST(a_failure_is_one_for_all_stages_that_met_it)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job = job_begin(st, &stage_sounds);
    job_add1(st, job, "/a/1.wav", "", 1);
    job = job_begin(st, &stage_voices);
    job_add1(st, job, "/a/1.wav", "", 1);
    give_up(st, 1, "no audio");
    assert_int_equal(archive(st).failed, 0); /* two are still to do */
    give_up(st, 2, "no audio");
    give_up(st, 3, "too many voices");
    assert_int_equal(archive(st).failed, 1);
    assert_string_equal(
        text_of("SELECT group_concat(x, '; ') FROM (SELECT stage || ': ' || reason AS x "
                "FROM failures ORDER BY reason)"),
        "transcribe, sounds: no audio; diarize: too many voices");
    /* Gone from the disk, it is one as well. */
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    assert_int_equal(archive(st).pending, 1);
    job = job_begin(st, &stage_nano);
    job_end(st, job, "/a");
    assert_int_equal(archive(st).absent, 1);
    assert_string_equal(text_of("SELECT group_concat(kind || ' ' || stage) FROM failures"),
                        "absent transcribe, sounds, diarize");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
