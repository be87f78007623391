/* Stages beside transcription: a recording is finalized as a whole when all that was heard of it is
 * there; what is cancelled, fails or comes too late. */
#include <math.h>

#include "tests/unit/store/stages.h"

/* ---------------------------------------------------------------------------------- finalizing */

TEST(all_shards_are_not_the_end)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t first;

    assert_int_equal(unfinalized(st, 2, NULL), 0);
    voices_put(st, 3, 1);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    assert_int_equal(runnable_of(st, 2), 2);
    finalize(st, 3); /* of a decoding that found fewer shards */
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "started");
    voices_put(st, 3, 0);
    assert_int_equal(unfinalized(st, 2, &first), 1);
    assert_int_equal(first, 3);
    assert_int_equal(runnable_of(st, 2), 1);
    assert_string_equal(text_of("SELECT group_concat(state) FROM tasks WHERE stage = 'diarize'"),
                        "settling,pending");
    assert_string_equal(text_of("SELECT state FROM recordings WHERE media_id = 1"), "started");
    assert_int_equal(totals(st).tasks_pending, 4);
    /* With nothing else to do the stage is still there. */
    transcribe(st, 1);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/2.wav"});
    assert_string_equal(stages(st), "|2 ");
    apply_ok(st, &(struct request){.type = REQUEST_PAUSE});
    assert_string_equal(stages(st), "|");
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    apply_ok(st, &(struct request){.type = REQUEST_RESUME});
    finalize(st, 3);
    assert_string_equal(stages(st), "|");
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "done");
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    finalize(st, 3); /* a finalizer that was given up for dead */
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    catalog_close(st);
}

TEST(a_failed_finalizing_is_tried_again)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t due = 0;

    diarize(st, 3);
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "the finalizer died", LATER + 5000, &e), e);
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_int_equal(due, LATER + 5000);
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "and again", -1, &e), e);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_true(due == INT64_MAX);
    assert_string_equal(stages(st), "1 2 |");
    assert_int_equal(runnable_of(st, 2), 1);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    assert_int_equal(unfinalized(st, 2, NULL), 1);
    /* The file may have gone meanwhile. */
    job_end(st, job_begin(st, &stage_nano), "/a");
    assert_int_equal(runnable_of(st, 2), 0);
    assert_int_equal(unfinalized(st, 2, NULL), 1);
    assert_string_equal(stages(st), "|2 ");
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "the finalizer died", LATER + 5000, &e), e);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_int_equal(due, LATER + 5000);
    finalize(st, 3);
    catalog_close(st);
}

TEST(what_comes_too_late_is_ignored)
{
    struct store *st = filled();

    diarize(st, 3);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/1.wav"});
    finalize(st, 3);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "cancelled");
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 2);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    finalize(st, 3);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "done");
    catalog_close(st);
}

/* The last shard of what somebody gave up meanwhile. */
TEST(cancelled_ones_stay_so_and_failed_ones_go_on)
{
    struct store *st = filled();
    struct err e = {0};

    voices_put(st, 3, 0);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/1.wav"});
    voices_put(st, 3, 1);
    state_is(3, "cancelled");
    assert_ok(store_task_total(st, 3, 2, &e), e);
    state_is(3, "cancelled");
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    state_is(3, "settling"); /* nothing is left to be heard */
    finalize(st, 3);
    state_is(3, "done");
    voices_put(st, 4, 0);
    assert_ok(store_task_total(st, 4, 2, &e), e);
    assert_ok(store_task_failed(st, 4, ERR_IO, "cannot be read", -1, &e), e);
    voices_put(st, 4, 1);
    state_is(4, "settling");
    assert_int_equal(count_of("SELECT error IS NULL FROM task WHERE task_id = 4"), 1);
    /* A transcription of which nothing is left to do is done. */
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/1.wav"});
    state_is(1, "cancelled");
    transcribe(st, 1);
    state_is(1, "done");
    catalog_close(st);
}

TEST(what_was_heard_for_cancelled_ones_goes)
{
    struct store *st = filled();
    struct err e = {0};

    diarize(st, 3);
    voices_put(st, 4, 0);
    transcribe(st, 1);
    shard_put(st, 2, 0, (const char *[]){"one"}, 1);
    assert_ok(store_drop_cancelled(st, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 3);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a"});
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 3);
    assert_ok(store_drop_cancelled(st, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id > 2"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 4); /* of the transcriptions */
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    assert_int_equal(runnable_of(st, 2), 2); /* heard again from the beginning */
    diarize(st, 3);
    finalize(st, 3);
    state_is(3, "done");
    catalog_close(st);
}

static int sum_voices(void *arg, int64_t seq, const struct result_voices *v, struct err *err)
{
    char *line = arg;

    (void)seq;
    (void)err;
    assert_memory_equal(v->active, active, sizeof(active));
    assert_memory_equal(v->of, of, sizeof(of));
    assert_memory_equal(v->vectors, vectors, sizeof(vectors));
    snprintf(line + strlen(line), 256 - strlen(line), "%u+%u/%u/%u/%u/%u ", v->first, v->windows,
             v->frames, v->speakers, v->size, v->vector_count);
    return strlen(line) > 40 ? 7 : 0;
}

TEST(voices_come_back)
{
    static const struct result_voices silence = {0};
    struct store *st = filled();
    struct err e = {0};
    char line[256] = "";

    diarize(st, 3);
    assert_ok(store_voices_read(st, 3, -1, sum_voices, line, &e), e);
    assert_string_equal(line, "0+2/2/3/2/2 30+2/2/3/2/2 ");
    *line = 0;
    assert_ok(store_voices_read(st, 3, 0, sum_voices, line, &e), e);
    assert_string_equal(line, "30+2/2/3/2/2 ");
    strcpy(line, "a line of which the second row is one too");
    assert_int_equal(store_voices_read(st, 3, -1, sum_voices, line, &e), 7);
    assert_ok(store_voices_read(st, 4, -1, sum_voices, line, &e), e);
    assert_ok(shard_of(st, 4, 0, &silence, &e), e); /* a shard without a window */
    assert_int_equal(count_of("SELECT count(*) FROM voice WHERE task_id = 4"), 1);
    catalog_close(st);
    /* A catalog may come from anybody: rows that contradict themselves. */
    run_sql("PRAGMA ignore_check_constraints = ON; UPDATE voice SET frames = 1000 WHERE seq = 1");
    st = catalog_open(STORE_READ);
    *line = 0;
    assert_int_equal(store_voices_read(st, 3, -1, sum_voices, line, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "shard 1"));
    store_close(st);
    run_sql("PRAGMA ignore_check_constraints = ON; UPDATE voice SET frames = 2, "
            "heard = x'00000000ffffffff' WHERE seq = 1");
    st = catalog_open(STORE_READ);
    assert_int_equal(store_voices_read(st, 3, -1, sum_voices, line, &e), ERR_INPUT);
    store_close(st);
}

TEST(impossible_things_are_refused)
{
    static const uint32_t twice[] = {1, 1}, far[] = {0, 6};
    static const float nan_[] = {0.5f, NAN, 1, 3};
    struct result_voices v;
    struct result_turn t = {0, 1, 3};
    struct result_speaker s = {-1, NULL};
    struct result_people alone = {2, 1, 0, &s, NULL};
    struct result_sound d = {0, 5, 1, "x", 1.5};
    struct store_vector x = {0, 5, "x", nan_, 2};
    struct store_shard_result r = {.task_id = 4, .end_ms = 10, .sounds = &d, .sound_count = 1};
    struct store *st = filled();
    struct err e = {0};

    for (int i = 0; i < 5; i++) {
        v = voices;
        if (i == 0)
            v.of = twice;
        else if (i == 1)
            v.of = far;
        else if (i == 2)
            v.vectors = nan_;
        else if (i == 3)
            v.speakers = 9;
        else
            v.vector_count = 7;
        assert_int_equal(shard_of(st, 4, 0, &v, &e), ERR_INPUT);
    }
    assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
    d.score = NAN;
    assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
    r = (struct store_shard_result){.task_id = 4, .end_ms = 10, .vectors = &x, .vector_count = 1};
    assert_int_equal(store_shard_done(st, &r, &e), ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    diarize(st, 3);
    assert_int_equal(store_finalized(st, 3, PEOPLE(3, &t, 1), &e), ERR_INPUT);
    t = (struct result_turn){5, 4, 0};
    assert_int_equal(store_finalized(st, 3, PEOPLE(3, &t, 1), &e), ERR_INPUT);
    assert_int_equal(store_finalized(st, 3, &alone, &e), ERR_INPUT);
    s = (struct result_speaker){1, nan_};
    assert_int_equal(store_finalized(st, 3, &alone, &e), ERR_INPUT);
    s.values = voices.vectors;
    alone.size = 0;
    assert_int_equal(store_finalized(st, 3, &alone, &e), ERR_INPUT);
    /* Forgotten meanwhile. */
    assert_ok(store_finalized(st, 99, &(struct result_people){0}, &e), e);
    finalize(st, 1); /* nothing that finalizes */
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 1"), "pending");
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    finalize(st, 3);
    catalog_close(st);
}

/* It failed, and was asked for in another way since. */
TEST(what_is_not_wanted_is_not_finalized)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t job;

    voices_put(st, 3, 0);
    assert_ok(store_task_failed(st, 3, ERR_INPUT, "no", -1, &e), e);
    job = job_begin(st, &stage_voices2);
    job_add1(st, job, "/a/1.wav", "", 1);
    voices_put(st, 3, 1);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    state_is(3, "cancelled");
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
