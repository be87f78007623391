/* Words, doubts and what was dropped: written with the shard, read back, compared, counted apart,
 * gone with their segment. */
#include <math.h>

#include "base/log.h"
#include "store/read/read.h"
#include "tests/unit/store/fixture.h"

static const struct result_word said[] = {
    {100, 400, " Good", 0.5}, {400, 400, " mor", 0.25}, {400, 900, "ning.", 1}};
static const struct result_segment texts[] = {
    {.start_ms = 100,
     .end_ms = 900,
     .text = "Good morning.",
     .language = "en",
     .avg_logprob = -0.25,
     .attempts = 2,
     .speech_prob = 0.5,
     .reason = "tried again: repetitive",
     .words = said,
     .word_count = 3},
    {.start_ms = 900,
     .end_ms = 1000,
     .text = "you",
     .language = "en",
     .avg_logprob = -1.5,
     .no_speech_prob = 0.75,
     .compression_ratio = 0.5,
     .temperature = 1,
     .attempts = 6,
     .speech_prob = 0,
     .dropped = true,
     .reason = "no speech; no voice"},
    {.start_ms = 1000, .end_ms = 2000, .text = "Yes.", .language = "en", .speech_prob = -1},
    {.start_ms = 3000,
     .end_ms = 3000,
     .text = "Bye.",
     .language = "",
     .attempts = 1,
     .speech_prob = 1.0000001,
     .dropped = true,
     .reason = "loop"},
};

static int put(struct store *st, int64_t task, uint32_t seq, const struct result_segment *s,
               size_t n, struct err *e)
{
    return store_shard_done(st,
                            &(struct store_shard_result){.task_id = task,
                                                         .seq = seq,
                                                         .start_ms = 0,
                                                         .end_ms = 30000,
                                                         .language = "en",
                                                         .device = "cpu",
                                                         .segments = s,
                                                         .segment_count = n},
                            e);
}

static struct store *filled(void)
{
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/one.wav", "", 1);
    job_add1(st, job, "/a/two.wav", "", 2);
    job_end(st, job, "/a");
    assert_ok(put(st, 1, 0, texts, 4, &e), e);
    return st;
}

static int take_word(void *arg, const struct read_word *w)
{
    char *line = arg;

    sprintf(line + strlen(line), "%lld-%lld '%s' %g|", (long long)w->start_ms, (long long)w->end_ms,
            w->text, w->probability);
    return 0;
}

static int take_segment(void *arg, const struct read_segment *s)
{
    char *line = arg;

    sprintf(line + strlen(line), "%s #%lld %u %g '%s' %d|", s->text, (long long)s->segment_id,
            s->attempts, s->speech_prob, s->reason, s->has_words);
    return 0;
}

static int first_word(void *arg, const struct read_word *w)
{
    (void)w;
    ++*(int *)arg;
    return 7;
}

TEST(they_are_read_back)
{
    struct store *st = filled();
    struct err e = {0};
    char line[1024] = "";
    int calls = 0;

    assert_ok(read_segments(st, 1, 0, take_segment, line, &e), e);
    assert_string_equal(line, "Good morning. #1 2 0.5 'tried again: repetitive' 1|"
                              "Yes. #2 0 nan '' 0|");
    line[0] = 0;
    assert_ok(read_dropped(st, 1, 0, take_segment, line, &e), e);
    assert_string_equal(line, "you #0 6 0 'no speech; no voice' 0|Bye. #0 1 1 'loop' 0|");
    line[0] = 0;
    assert_ok(read_words(st, 1, take_word, line, &e), e);
    assert_string_equal(line, "100-400 ' Good' 0.5|400-400 ' mor' 0.25|"
                              "400-900 'ning.' 1|");
    line[0] = 0;
    assert_ok(read_words(st, 2, take_word, line, &e), e);
    assert_ok(read_words(st, 99, take_word, line, &e), e);
    assert_ok(read_dropped(st, 2, 0, take_segment, line, &e), e);
    assert_string_equal(line, "");
    /* Stopped in the middle, and begun again. */
    assert_int_equal(read_words(st, 1, first_word, &calls, &e), 7);
    assert_int_equal(read_words(st, 1, first_word, &calls, &e), 7);
    assert_int_equal(calls, 2);
    catalog_close(st);
}

/* Numbers of segments have no gap where something was dropped, and no sum, search or transcript
 * knows of it. */
TEST(what_was_dropped_is_apart)
{
    struct store *st = filled();
    struct store_totals totals;
    struct err e = {0};

    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.segments, 2);
    assert_string_equal(text_of("SELECT group_concat(idx || text) FROM segment"),
                        "0Good morning.,1Yes.");
    assert_string_equal(text_of("SELECT group_concat(idx || text) FROM dropped"), "0you,1Bye.");
    assert_int_equal(count_of("SELECT segments FROM recordings WHERE media_id = 1"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM segment_fts WHERE segment_fts MATCH 'you'"), 0);
    assert_string_equal(text_of("SELECT group_concat(outcome || ' ' || start || ' ' || text || "
                                "' ' || reason, ', ') FROM (SELECT * FROM doubts ORDER BY "
                                "start_ms)"),
                        "kept 0:00 Good morning. tried again: repetitive, "
                        "dropped 0:00 you no speech; no voice, dropped 0:03 Bye. loop");
    assert_string_equal(text_of("SELECT group_concat(start || ' ' || word) FROM words"),
                        "0:00.100 Good,0:00.400 mor,0:00.400 ning.");
    catalog_close(st);
}

#define RESULTS                                                                                  \
    "SELECT group_concat(dropped || ' ' || ifnull(idx, '-') || ' ' || ifnull(text, '-') || ' ' " \
    "|| "                                                                                        \
    "ifnull(reason, '-') || ' ' || ifnull(words, '-'), '|') FROM results WHERE path = "          \
    "'/a/one.wav'"

/* The view by which two catalogs are compared sees a word, its time, and a dropped text. */
TEST(results_tell_them_apart)
{
    struct result_segment s[4];
    struct result_word w[3];
    struct err e = {0};
    char before[1024];

    catalog_close(filled());
    snprintf(before, sizeof(before), "%s", text_of(RESULTS));
    assert_string_equal(before,
                        "0 0 Good morning. tried again: repetitive [100,400,\" Good\",0.5,null],"
                        "[400,400,\" mor\",0.25,null],"
                        "[400,900,\"ning.\",1.0,null]|"
                        "0 1 Yes.  -|1 0 you no speech; no voice -|1 1 Bye. loop -");
    assert_int_equal(count_of("SELECT count(*) FROM results"), 4);
    for (int change = 0; change < 3; change++) {
        struct store *st = catalog_new();
        int64_t job = job_begin(st, &stage_nano);

        job_add1(st, job, "/a/one.wav", "", 1);
        memcpy(s, texts, sizeof(s));
        memcpy(w, said, sizeof(w));
        s[0].words = w;
        if (change == 0)
            w[1].start_ms--;
        else if (change == 1)
            s[3].text = "Bye!";
        else
            s[1].dropped = false;
        assert_ok(put(st, 1, 0, s, 4, &e), e);
        catalog_close(st);
        assert_string_not_equal(before, text_of(RESULTS));
    }
}

TEST(words_go_with_their_segment)
{
    struct store *st = filled();

    apply_ok(st, &(struct request){.type = REQUEST_CANCEL});
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1});
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM word"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM dropped"), 0);
    catalog_close(st);
}

/* How often the plan of a statement begins at the places by their path; no table is read whole (a
 * view's own rows, whose names are longer, may be). */
static int searches_by_path(const char *sql)
{
    char plan[256];
    sqlite3_stmt *stmt;
    sqlite3 *db;
    int n = 0;

    snprintf(plan, sizeof(plan), "EXPLAIN QUERY PLAN %s", sql);
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, plan, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *what = (const char *)sqlite3_column_text(stmt, 3);

        if (strncmp(what, "SCAN ", 5) == 0 && (what[6] == 0 || what[6] == ' '))
            fail_msg("%s: %s", sql, what);
        n += strstr(what, "SEARCH p USING INDEX place_path (path=?)") != NULL;
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

TEST(a_path_is_quickly_found)
{
    catalog_close(filled());
    assert_int_equal(searches_by_path("SELECT * FROM words WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM transcript WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM doubts WHERE path = '/a'"), 2);
    assert_int_equal(searches_by_path("SELECT * FROM results WHERE path = '/a'"), 3);
    assert_int_equal(searches_by_path("SELECT * FROM speakers WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM turns WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM sounds WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM passages WHERE path = '/a'"), 1);
    assert_int_equal(searches_by_path("SELECT * FROM doubts WHERE media_id = 1"), 0);
}

TEST(impossible_words_are_refused)
{
    static const struct result_word bad[] = {
        {-1, 5, "x", 0.5}, {6, 5, "x", 0.5}, {1, 2, NULL, 0.5}};
    struct store *st = filled();
    struct result_segment s = texts[2];
    struct err e = {0};

    s.word_count = 1;
    for (int i = 0; i < 3; i++) {
        s.words = &bad[i];
        assert_int_equal(put(st, 2, 0, &s, 1, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, "word 0 of segment 0"));
    }
    s = texts[2];
    s.text = "";
    assert_int_equal(put(st, 2, 0, &s, 1, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "segment 0"));
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id = 2"), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
