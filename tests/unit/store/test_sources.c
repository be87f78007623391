/* Stages that work on what another has made: who waits for whom; sounds, vectors and passages. */
#include "store/read/find.h"
#include "store/search/within.h"
#include "tests/unit/store/stages.h"

TEST(text_waits_for_its_transcription)
{
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_text);
    struct request_reply r = job_add1(st, job, "/a/1.wav", "", 1);

    /* Both stages are there, and a task of each. */
    assert_int_equal(r.counts.tasks, 2);
    assert_int_equal(job_add1(st, job, "/a/2.wav", "", 2).counts.tasks, 2);
    assert_int_equal(job_add1(st, job, "/a/2.wav", "", 2).counts.tasks, 0);
    assert_int_equal(count_of("SELECT source_id FROM stage WHERE name = 'embed-text'"), 1);
    assert_string_equal(stages(st), "1 |");
    assert_int_equal(runnable_of(st, 2), 0);
    assert_int_equal(totals(st).tasks_pending, 2);
    assert_int_equal(totals(st).tasks_waiting, 2);
    transcribe(st, 1);
    assert_string_equal(stages(st), "1 2 |");
    assert_int_equal(runnable_of(st, 2), 1);
    assert_int_equal(totals(st).tasks_waiting, 1);
    /* The other one's fails: what waits for it stays, and a run sees nothing to do there. */
    assert_ok(store_task_failed(st, 3, ERR_INPUT, "no audio", -1, &e), e);
    shard_put(st, 2, 0, NULL, 0);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    assert_string_equal(stages(st), "|");
    assert_int_equal(totals(st).tasks_pending, 0);
    assert_int_equal(totals(st).tasks_waiting, 1);
    assert_string_equal(text_of("SELECT group_concat(state) FROM tasks"),
                        "done,done,failed,waiting");
    assert_string_equal(text_of("SELECT group_concat(state) FROM recordings"), "done,failed");
    assert_int_equal(count_of("SELECT sum(waiting) FROM progress"), 1);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    transcribe(st, 3);
    assert_string_equal(stages(st), "2 |");
    /* New recordings, of which the transcription is done or not. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/3.wav", "", 3);
    transcribe(st, 5);
    job = job_begin(st, &stage_text);
    assert_int_equal(job_add1(st, job, "/a/3.wav", "", 3).counts.tasks, 1);
    assert_int_equal(runnable_of(st, 2), 2);
    assert_int_equal(totals(st).tasks_waiting, 0);
    catalog_close(st);
}

/* Whoever wants vectors alone gets them of what is transcribed, or will be. */
TEST(a_source_that_is_to_be_kept)
{
    const struct store_found f[] = {found_at("/a/1.wav", "", 1), found_at("/a/2.wav", "", 2),
                                    found_at("/a/3.wav", "", 3)};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);
    struct request rq = {.type = REQUEST_ENQUEUE_ADD, .found = f, .count = 3, .keep_source = true};
    struct request_reply r;

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    assert_ok(store_task_failed(st, 2, ERR_INPUT, "no audio", -1, &e), e);
    rq.job_id = job_begin(st, &stage_text);
    r = apply_ok(st, &rq);
    assert_int_equal(r.counts.seen, 3);
    assert_int_equal(r.counts.added, 1); /* known from now on, and nothing is to be done */
    assert_int_equal(r.counts.tasks, 1);
    assert_int_equal(r.counts.lacking, 2);
    rq = (struct request){.type = REQUEST_ENQUEUE_KNOWN,
                          .job_id = rq.job_id,
                          .place_ids = (const int64_t[]){1, 2, 3},
                          .count = 3,
                          .keep_source = true};
    r = apply_ok(st, &rq);
    assert_int_equal(r.counts.tasks, 0);
    assert_int_equal(r.counts.lacking, 2);
    rq.keep_source = false;
    assert_int_equal(apply_ok(st, &rq).counts.tasks, 3); /* the third one's, and two of the text */
    catalog_close(st);
}

TEST(a_source_that_goes_on_takes_its_followers_back)
{
    const float v[] = {0.6f, 0.8f};
    const struct store_vector x = {0, 3500, "one two", v, 2};
    const struct store_shard_result r = {
        .task_id = 2, .end_ms = 60000, .vectors = &x, .vector_count = 1};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_text);

    job_add1(st, job, "/a/1.wav", "", 1);
    transcribe(st, 1);
    assert_ok(store_shard_done(st, &r, &e), e);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    assert_int_equal(totals(st).tasks_done, 2);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 1);
    assert_int_equal(
        count_of("SELECT ifnull((SELECT value FROM setting WHERE name = 'embedding_edits'), 0)"),
        0);
    assert_ok(store_task_total(st, 1, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 0);
    assert_int_equal(
        count_of("SELECT ifnull((SELECT value FROM setting WHERE name = 'embedding_edits'), 0)"),
        1);
    assert_int_equal(totals(st).tasks_waiting, 1);
    assert_int_equal(totals(st).tasks_pending, 1);
    /* Vectors of what the source was before, from a worker that was still at it. */
    assert_ok(store_shard_done(st, &r, &e), e);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 0);
    assert_int_equal(totals(st).tasks_waiting, 1);
    shard_put(st, 1, 2, NULL, 0);
    assert_int_equal(runnable_of(st, 2), 1);
    catalog_close(st);
}

/* -------------------------------------------------------------------------- sounds, passages */

TEST(what_hears_the_mix_leaves_no_channel_out)
{
    static const struct result_source sources[] = {{"channel 1"}, {"channel 2"}};
    const struct store_heard heard = {sources, 2, "track 2, channel 3", "track 2"};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job = job_begin(st, &stage_voices);
    job_add1(st, job, "/a/1.wav", "", 1);
    run_sql("UPDATE stage SET name = 'sounds' WHERE name = 'diarize'");
    for (int64_t task = 1; task <= 2; task++)
        assert_ok(store_task_heard(st, task, &heard, &e), e);
    assert_string_equal(text_of("SELECT group_concat(left_out, ';') FROM task"),
                        "track 2, channel 3;track 2");
    assert_int_equal(count_of("SELECT count(*) FROM source WHERE task_id = 1"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM source WHERE task_id = 2"), 0);
    for (int64_t task = 1; task <= 2; task++)
        assert_ok(store_task_heard(st, task, &(struct store_heard){0}, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE left_out IS NOT NULL"), 0);
    catalog_close(st);
}

TEST(sounds_and_vectors)
{
    const struct result_sound heard[] = {{1000, 4000, 67, "Applause", 0.875},
                                         {3700000, 3701500, 137, "Music", 1.0}};
    const float v[] = {0.6f, 0.8f}, w[] = {1, 0};
    const struct store_vector x[] = {{0, 900, "first", v, 2}, {900, 1000, NULL, w, 2}};
    struct store *st = filled();
    struct err e = {0};

    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = 1,
                                                            .end_ms = 60000,
                                                            .sounds = heard,
                                                            .sound_count = 2,
                                                            .vectors = x,
                                                            .vector_count = 2},
                               &e),
              e);
    assert_string_equal(
        text_of("SELECT group_concat(path || start || ' ' || end || ' ' || sound || "
                "' ' || score) FROM sounds"),
        "/a/1.wav0:01 0:04 Applause 0.875,/a/1.wav1:01:40 1:01:41 Music 1.0");
    assert_string_equal(text_of("SELECT group_concat(ifnull(text, '-') || size || hex(vector)) "
                                "FROM passages"),
                        "first29A99193FCDCC4C3F,-20000803F00000000");
    assert_string_equal(text_of("SELECT sounds || '|' || vectors FROM results WHERE seq = 0"),
                        "[1000,4000,67,\"Applause\",0.875],[3700000,3701500,137,\"Music\",1.0]|"
                        "[0,900,\"first\",\"9A99193FCDCC4C3F\"],[900,1000,null,"
                        "\"0000803F00000000\"]");
    catalog_close(st);
}

static const char *passages(struct store *st, int64_t task, uint32_t chars)
{
    static char out[512];
    struct result_passage *p = NULL;
    struct err e = {0};
    size_t n = 0;

    *out = 0;
    assert_ok(store_passages(st, task, chars, &p, &n, &e), e);
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), sizeof(out) - strlen(out), "%d-%d %s|", (int)p[i].start_ms,
                 (int)p[i].end_ms, p[i].text);
    store_passages_free(p, n);
    return out;
}

TEST(neighbours_make_passages)
{
    static const struct result_turn all[] = {{0, 3600, 0}, {3600, 60000, 1}};
    struct store *st = catalog_new();
    struct result_passage *p = NULL;
    struct err e = {0};
    size_t n = 0;
    int64_t job = job_begin(st, &stage_text);

    job_add1(st, job, "/a/1.wav", "", 1);
    assert_int_equal(store_passages(st, 2, 100, &p, &n, &e), ERR_INPUT); /* not done */
    shard_put(st, 1, 0,
              (const char *[]){" \xC3\xBC"
                               "ber",
                               " ", "zwei ", "three"},
              4);
    shard_put(st, 1, 1, (const char *[]){"after a pause", "end"}, 2);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_int_equal(store_passages(st, 1, 100, &p, &n, &e), ERR_INPUT); /* no source */
    assert_string_equal(passages(st, 2, 100), "0-7500 \xC3\xBC"
                                              "ber zwei three|30000-33500 after a pause end|");
    /* Characters, not bytes; a segment that is longer than all is a passage of its own. */
    assert_string_equal(passages(st, 2, 9), "0-5500 \xC3\xBC"
                                            "ber zwei|6000-7500 three|"
                                            "30000-31500 after a pause|32000-33500 end|");
    assert_string_equal(passages(st, 2, 8), "0-1500 \xC3\xBC"
                                            "ber|4000-5500 zwei|6000-7500 three|"
                                            "30000-31500 after a pause|32000-33500 end|");
    job = job_begin(st, &stage_voices);
    job_add1(st, job, "/a/1.wav", "", 1);
    diarize(st, 3);
    assert_ok(store_finalized(st, 3, PEOPLE(2, all, 2), &e), e);
    /* Who speaks does not matter: it may be known, or not yet. */
    assert_string_equal(passages(st, 2, 100), "0-7500 \xC3\xBC"
                                              "ber zwei three|30000-33500 after a pause end|");
    catalog_close(st);
}

/* A worker takes texts of a message's length, and a catalog may come from anybody. */
TEST(passages_can_be_sent)
{
    static char text[80002];
    struct store *st = catalog_new();
    struct result_passage *p = NULL;
    struct err e = {0};
    size_t n = 0;
    int64_t job = job_begin(st, &stage_text);

    job_add1(st, job, "/a/1.wav", "", 1);
    text[0] = 'x';
    for (size_t i = 1; i < 80001; i += 2)
        memcpy(text + i, "\xC3\xBC", 2);
    shard_put(st, 1, 0, (const char *[]){"one", text}, 2);
    shard_put(st, 1, 1, (const char *[]){"three"}, 1);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_ok(store_passages(st, 2, UINT32_MAX, &p, &n, &e), e);
    assert_int_equal(n, 4);
    assert_string_equal(p[0].text, "one");
    assert_int_equal(strlen(p[1].text), 59999); /* 60000 would end within a character */
    assert_int_equal(strlen(p[2].text), 80001 - 59999);
    assert_true(utf8_valid(p[1].text, 59999) && utf8_valid(p[2].text, 80001 - 59999));
    assert_string_equal(p[3].text, "three");
    store_passages_free(p, n);
    run_sql("UPDATE shard SET result = substr(result, 1, length(result) - 1) WHERE seq = 1");
    assert_int_equal(store_passages(st, 2, 100, &p, &n, &e), ERR_INPUT);
    assert_says(e.msg, "a result is impossible");
    run_sql("UPDATE shard SET result = x'07' WHERE seq = 1");
    assert_int_equal(store_passages(st, 2, 100, &p, &n, &e), ERR_INPUT);
    assert_says(e.msg, "a result of version 7");
    catalog_close_by_hand(st);
}

/* ------------------------------------------------------------------------ channels and tracks */

static int note_text(void *arg, const struct read_segment *row)
{
    char *out = arg;

    sprintf(out + strlen(out), "%s: %s|", row->speaker, row->text);
    return 0;
}

static int note_span(void *arg, const struct read_span *row)
{
    char *out = arg;

    sprintf(out + strlen(out), "%s: %s|", row->speaker, row->text);
    return 0;
}

static int note_said(void *arg, const struct find_said *row)
{
    char *out = arg;

    for (size_t i = 0; i < row->speaker_count; i++)
        sprintf(out + strlen(out), "%s|", row->speakers[i]);
    return 0;
}

/* Of a search that is by rank, in time, and (two words) within 20 s. */
static const char *found(struct store *st, const char *text, const char *who, int how)
{
    static char out[512];
    const struct read_search q = {
        .text = text, .speaker = who, .limit = how == 1 ? 0 : 10, .by_time = how != 0};
    struct err e = {0};

    *out = 0;
    if (how == 2)
        assert_ok(read_within(st, &q, 20000, note_span, out, &e), e);
    else
        assert_ok(read_search(st, &q, note_text, out, &e), e);
    return out;
}

TEST(who_was_not_told_apart_is_found_by_channel)
{
    static const struct result_source sources[] = {{"channel 1"}, {"channel 2"}};
    struct store *st = filled();
    struct err e = {0};
    char said[256] = "";
    double part = 0;
    bool any = true;

    assert_ok(store_task_heard(st, 1, &(struct store_heard){.sources = sources, .count = 2}, &e),
              e);
    shard_put(st, 1, 0, (const char *[]){"yes one", "yes two", "no one"}, 3);
    run_sql("UPDATE segment SET source = 2 - idx % 2");
    assert_string_equal(text_of("SELECT group_concat(ifnull(source, '-')) FROM results"),
                        "channel 2,channel 1,channel 2");
    for (int how = 0; how < 2; how++) {
        assert_string_equal(found(st, "yes", "CHANNEL 2", how), "channel 2: yes one|");
        assert_string_equal(found(st, "yes", "channel 1", how), "channel 1: yes two|");
        assert_string_equal(found(st, "yes", "channel 3", how), "");
    }
    assert_string_equal(found(st, "yes no", "channel 2", 2), "channel 2: yes one ... no one|");
    assert_string_equal(found(st, "yes no", "channel 1", 2), "");
    assert_ok(find_said(st, 1, 0, 9000, note_said, said, &e), e);
    assert_string_equal(said, "channel 2|channel 1|");
    assert_ok(scope_part(st, &(struct scope){.speaker = "channel 1"}, &part, &e), e);
    assert_true(part == 0.5);
    assert_ok(find_source(st, "Channel 2", &any, &e), e);
    assert_true(any);
    assert_ok(find_source(st, "channel 3", &any, &e), e);
    assert_false(any);
    /* Who was told apart is called otherwise. */
    run_sql("INSERT INTO speaker (speaker_id, media_id, task_id, label, speech_ms) VALUES "
            "(9, 1, 3, 'SPEAKER_00', 0); UPDATE segment SET speaker_id = 9 WHERE idx = 0");
    assert_string_equal(found(st, "yes", "channel 2", 0), "");
    assert_string_equal(found(st, "yes", "speaker_00", 0), "SPEAKER_00: yes one|");
    catalog_close_by_hand(st);
}

TEST_MAIN(NULL, NULL)
