/* Every second of speech is accounted for: with the shard, in sums, in views, and as a doubt. */
#include "store/read/doubts.h"
#include "tests/unit/store/stages.h"

#define MISSING(from, to, in)                                                          \
    {                                                                                  \
        .start_ms = (from), .end_ms = (to), .text = "", .language = (in), .source = 0, \
        .speech_prob = 0.75f, .dropped = true, .reason = RESULT_MISSING                \
    }

static const struct result_segment heard[] = {
    {.start_ms = 0,
     .end_ms = 2000,
     .text = "the boats came in",
     .language = "en",
     .avg_logprob = -1.5f,
     .speech_prob = -1,
     .reason = "too unlikely"},
    {.start_ms = 2000,
     .end_ms = 2700,
     .text = "you",
     .language = "en",
     .speech_prob = 0.5f,
     .dropped = true,
     .reason = "no speech; no voice"},
    MISSING(3000, 4500, "en"),
};

static int put(struct store *st, int64_t task, uint32_t seq, const struct result_segment *s,
               size_t n, struct result_account account, uint32_t shards, struct err *e)
{
    return store_shard_done(st,
                            &(struct store_shard_result){.task_id = task,
                                                         .seq = seq,
                                                         .start_ms = seq * 30000,
                                                         .end_ms = (seq + 1) * 30000,
                                                         .language = "en",
                                                         .device = "cpu",
                                                         .segments = s,
                                                         .segment_count = n,
                                                         .account = account,
                                                         .shards = shards},
                            e);
}

static void put_ok(struct store *st, int64_t task, uint32_t seq, size_t n,
                   struct result_account account, uint32_t shards)
{
    struct err e = {0};

    assert_ok(put(st, task, seq, heard, n, account, shards, &e), e);
}

static struct store *archive(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/one.wav", "", 1);
    job_add1(st, job, "/a/two.wav", "", 2);
    job_add1(st, job, "/b/three.wav", "", 3);
    job_end(st, job, "/");
    return st;
}

static void holds(struct store *st, int64_t speech, int64_t dropped, int64_t missing)
{
    const struct result_account a = totals(st).account;

    assert_int_equal(a.speech_ms, speech);
    assert_int_equal(a.dropped_ms, dropped);
    assert_int_equal(a.missing_ms, missing);
}

static const char *shares(void)
{
    return text_of("SELECT group_concat(ifnull(speech_ms, '-') || ' ' || ifnull(text_share, '-')) "
                   "FROM (SELECT * FROM recordings ORDER BY media_id)");
}

TEST(it_is_summed)
{
    struct store *st = archive();
    struct result_account a;
    struct err e = {0};

    assert_string_equal(shares(), "- -,- -,- -");
    put_ok(st, 1, 0, 3, (struct result_account){10000, 700, 1500}, 0);
    put_ok(st, 1, 0, 3, (struct result_account){10000, 700, 1500}, 0); /* it came twice */
    put_ok(st, 1, 1, 1, (struct result_account){10000, 0, 0}, 2);
    put_ok(st, 2, 0, 1, (struct result_account){.speech_ms = -1}, 1);
    put_ok(st, 3, 0, 0, (struct result_account){0, 0, 0}, 1); /* nobody speaks */
    assert_string_equal(shares(), "20000 0.89,- -,0 -");
    holds(st, 20000, 700, 1500);
    assert_string_equal(text_of("SELECT group_concat(ifnull(speech_ms, '-') || ' ' || "
                                "ifnull(dropped_ms, '-') || ' ' || ifnull(missing_ms, '-')) "
                                "FROM (SELECT * FROM shard ORDER BY task_id, seq)"),
                        "10000 700 1500,10000 0 0,- - -,0 0 0");
    assert_ok(read_account(st, 1, &a, &e), e);
    assert_int_equal(a.speech_ms, 20000);
    assert_int_equal(a.dropped_ms, 700);
    assert_int_equal(a.missing_ms, 1500);
    assert_ok(read_account(st, 2, &a, &e), e);
    assert_int_equal(a.speech_ms, -1);
    assert_ok(read_account(st, 3, &a, &e), e);
    assert_int_equal(a.speech_ms, 0);
    catalog_close(st);
}

/* All of it is said only of what has no second without a text. */
TEST(shares_are_rounded_down)
{
    struct store *st = archive();

    put_ok(st, 1, 0, 1, (struct result_account){36000000, 0, 1}, 1);
    put_ok(st, 2, 0, 1, (struct result_account){36000000, 0, 0}, 1);
    put_ok(st, 3, 0, 1, (struct result_account){3, 1, 1}, 1);
    assert_string_equal(shares(), "36000000 0.9999,36000000 1.0,3 0.3333");
    catalog_close(st);
}

TEST(only_what_is_current_counts)
{
    struct store *st = archive();
    struct err e = {0};
    int64_t job;

    put_ok(st, 1, 0, 3, (struct result_account){10000, 700, 1500}, 1);
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/one.wav", "", 1);
    job_end(st, job, "/a");
    holds(st, 10000, 700, 1500);
    put_ok(st, 4, 0, 1, (struct result_account){9000, 0, 100}, 1);
    holds(st, 9000, 0, 100);
    assert_int_equal(count_of("SELECT count(*) FROM doubts WHERE outcome = 'missing'"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM doubts_all WHERE outcome = 'missing'"), 1);
    /* More shards than a decoding before found: the one behind the end goes, and others come. */
    put_ok(st, 4, 1, 1, (struct result_account){500, 0, 100}, 2);
    holds(st, 9500, 0, 200);
    assert_ok(store_task_total(st, 4, 2, &e), e);
    catalog_close(st);
}

TEST(it_goes_with_its_shards)
{
    struct store *st = archive();

    put_ok(st, 1, 0, 3, (struct result_account){10000, 700, 1500}, 2);
    put_ok(st, 1, 1, 1, (struct result_account){10000, 0, 0}, 2);
    put_ok(st, 2, 0, 3, (struct result_account){8000, 0, 1500}, 1);
    apply_ok(st,
             &(struct request){.type = REQUEST_FORGET, .stage_id = 1, .select_path = "/a/one.wav"});
    holds(st, 8000, 0, 1500);
    assert_int_equal(count_of("SELECT count(*) FROM dropped"), 2);
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1, .select_path = "/a"});
    assert_string_equal(shares(), "- -,- -,- -");
    holds(st, 0, 0, 0);
    assert_int_equal(count_of("SELECT count(*) FROM dropped"), 0);
    catalog_close(st);
}

TEST(impossible_accounts_are_refused)
{
    static const struct result_account bad[] = {
        {-2, 0, 0},  {-1, 1, 0},  {-1, 0, 1},   {10, -1, 0},        {10, 0, -1},       {10, 6, 5},
        {10, 11, 0}, {10, 0, 11}, {10, -5, 15}, {10, INT64_MAX, 1}, {10, 1, INT64_MAX}};
    struct store *st = archive();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = {0};

        assert_int_equal(put(st, 1, 0, NULL, 0, bad[i], 1, &e), ERR_INPUT);
    }
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    put_ok(st, 1, 0, 0, (struct result_account){10, 5, 5}, 1);
    catalog_close(st);
}

/* Somebody speaks where a text is missing. */
TEST(a_recording_without_text_is_not_silent)
{
    struct store *st = archive();
    struct err e = {0};
    enum store_textless kind;
    uint64_t n[TEXTLESS_KINDS];

    put_ok(st, 1, 0, 0, (struct result_account){0, 0, 0}, 1);
    assert_ok(put(st, 2, 0, heard + 2, 1, (struct result_account){1500, 0, 1500}, 1, &e), e);
    assert_ok(put(st, 3, 0, heard + 2, 1, (struct result_account){1500, 0, 1500}, 2, &e), e);
    assert_ok(store_textless_of(st, 3, &kind, &e), e);
    assert_int_equal(kind, TEXTLESS_KINDS); /* not done */
    put_ok(st, 3, 1, 0, (struct result_account){0, 0, 0}, 2);
    assert_ok(store_textless(st, "", n, &e), e);
    assert_int_equal(n[TEXTLESS_SILENT], 1);
    assert_int_equal(n[TEXTLESS_UNBELIEVED], 2);
    assert_int_equal(n[TEXTLESS_DOUBTFUL] + n[TEXTLESS_UNKNOWN], 0);
    assert_ok(store_textless(st, "2999", n, &e), e);
    assert_int_equal(n[TEXTLESS_SILENT] + n[TEXTLESS_UNBELIEVED], 0);
    assert_ok(store_textless_of(st, 3, &kind, &e), e);
    assert_int_equal(kind, TEXTLESS_UNBELIEVED);
    catalog_close(st);
}

/* What is known without voice activity is less; a text that is dropped says that somebody may. */
TEST(who_was_not_asked_does_not_know_whether_anybody_speaks)
{
    struct store *st = archive();
    struct err e = {0};
    enum store_textless kind;
    uint64_t n[TEXTLESS_KINDS];

    put_ok(st, 1, 0, 0, (struct result_account){-1, 0, 0}, 1);
    assert_ok(put(st, 2, 0, heard + 1, 1, (struct result_account){-1, 0, 0}, 1, &e), e);
    assert_ok(put(st, 3, 0, heard + 1, 1, (struct result_account){900, 900, 0}, 1, &e), e);
    assert_ok(store_textless(st, "", n, &e), e);
    assert_int_equal(n[TEXTLESS_SILENT], 0);
    assert_int_equal(n[TEXTLESS_UNBELIEVED], 1);
    assert_int_equal(n[TEXTLESS_DOUBTFUL], 1);
    assert_int_equal(n[TEXTLESS_UNKNOWN], 1);
    assert_ok(store_textless_of(st, 2, &kind, &e), e);
    assert_int_equal(kind, TEXTLESS_DOUBTFUL);
    catalog_close(st);
}

/* ---- as a doubt */

static int take(void *arg, const struct read_doubt *d)
{
    char *line = arg;

    sprintf(line + strlen(line), "%s %d-%d '%s' %s|", strrchr(d->segment->path, '/') + 1,
            (int)d->segment->start_ms, (int)d->segment->end_ms, d->segment->text,
            d->segment->speaker);
    return 0;
}

static const char *doubts(struct store *st, struct read_doubts which)
{
    static char line[1024];
    struct err e = {0};

    line[0] = 0;
    assert_ok(read_doubts(st, &which, take, line, &e), e);
    return line;
}

TEST(the_longest_comes_first)
{
    static const struct result_segment more[] = {MISSING(100, 200, "es"), MISSING(500, 9000, "es")};
    static const char *const below[] = {"/b"};
    struct store *st = archive();
    struct err e = {0};

    put_ok(st, 1, 0, 3, (struct result_account){10000, 700, 1500}, 1);
    assert_ok(put(st, 3, 0, more, 2, (struct result_account){9000, 0, 8600}, 1, &e), e);
    assert_string_equal(doubts(st, (struct read_doubts){0}),
                        "three.wav 500-9000 '' |one.wav 3000-4500 '' |three.wav 100-200 '' |"
                        "one.wav 0-2000 'the boats came in' |");
    assert_string_equal(doubts(st, (struct read_doubts){.of = READ_DOUBTS_TEXT}),
                        "one.wav 0-2000 'the boats came in' |");
    assert_string_equal(doubts(st, (struct read_doubts){.of = READ_DOUBTS_MISSING, .limit = 2}),
                        "three.wav 500-9000 '' |one.wav 3000-4500 '' |");
    assert_string_equal(
        doubts(st, (struct read_doubts){.of = READ_DOUBTS_MISSING, .language = "en"}),
        "one.wav 3000-4500 '' |");
    assert_string_equal(
        doubts(st,
               (struct read_doubts){.of = READ_DOUBTS_MISSING, .paths = below, .path_count = 1}),
        "three.wav 500-9000 '' |three.wav 100-200 '' |");
    /* Of what was heard since. */
    run_sql("UPDATE shard SET done_at = '2026-01-01T06:00:00.000Z' WHERE task_id = 1");
    assert_string_equal(doubts(st, (struct read_doubts){.since = "2026-01-01T05:59:59.999Z",
                                                        .of = READ_DOUBTS_TEXT}),
                        "one.wav 0-2000 'the boats came in' |");
    assert_string_equal(doubts(st, (struct read_doubts){.since = "2026-01-01T06:00:00.000Z"}),
                        "three.wav 500-9000 '' |three.wav 100-200 '' |");
    assert_string_equal(doubts(st, (struct read_doubts){.since = "2026-01-01T06:00:00.000Z",
                                                        .paths = below,
                                                        .path_count = 1}),
                        "three.wav 500-9000 '' |three.wav 100-200 '' |");
    assert_string_equal(text_of("SELECT group_concat(outcome || ' ' || text || ' ' || reason, '|') "
                                "FROM (SELECT * FROM doubts WHERE media_id = 1 ORDER BY start_ms)"),
                        "kept the boats came in too unlikely|dropped you no speech; no voice|"
                        "missing  speech without text");
    catalog_close(st);
}

/* Nobody is told apart where nothing is said, but the channel is known. */
TEST(the_channel_is_known)
{
    static const struct result_source labels[] = {{"channel 1"}, {"channel 2"}};
    const struct store_heard apart = {.sources = labels, .count = 2};
    struct result_segment s[] = {MISSING(100, 200, ""), MISSING(500, 9000, "")};
    struct store *st = archive();
    struct err e = {0};

    s[0].source = 2;
    s[1].source = 1;
    assert_ok(store_task_heard(st, 1, &apart, &e), e);
    assert_ok(put(st, 1, 0, s, 2, (struct result_account){9000, 0, 8600}, 1, &e), e);
    assert_string_equal(doubts(st, (struct read_doubts){.of = READ_DOUBTS_MISSING}),
                        "one.wav 500-9000 '' channel 1|one.wav 100-200 '' channel 2|");
    assert_string_equal(
        doubts(st, (struct read_doubts){.of = READ_DOUBTS_MISSING, .speaker = "channel 2"}),
        "one.wav 100-200 '' channel 2|");
    assert_string_equal(doubts(st, (struct read_doubts){.speaker = "Anna"}), "");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
