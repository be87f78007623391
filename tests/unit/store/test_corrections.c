/* What people correct: segments as they read, words with their times, and what becomes of it when a
 * recording is transcribed anew, pinned or forgotten. */
#include "store/read/corrections.h"
#include "tests/unit/store/stages.h"

struct line {
    int64_t start_ms, end_ms;
    const char *text;
    bool words; /* with times of their own */
};

/* A shard of these lines: with words where they are asked for, a blank before each. */
static void put_lines(struct store *st, int64_t task, uint32_t seq, const struct line *lines,
                      size_t n)
{
    static struct result_segment s[400];
    static struct result_word words[400][40];
    static char texts[400][40][64];
    struct err e = {0};

    assert_true(n <= 400);
    for (size_t i = 0; i < n; i++) {
        char copy[2048], *save = NULL;
        size_t count = 0, all = 1, at = 0;

        snprintf(copy, sizeof(copy), "%s", lines[i].text);
        for (const char *p = copy; *p; p++)
            all += *p == ' ';
        for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save), at++) {
            int64_t ms = lines[i].end_ms - lines[i].start_ms;

            assert_true(count < 40);
            snprintf(texts[i][count], sizeof(texts[i][count]), " %s", w);
            words[i][count] = (struct result_word){
                lines[i].start_ms + ms * (int64_t)at / (int64_t)all,
                lines[i].start_ms + ms * (int64_t)(at + 1) / (int64_t)all, texts[i][count], 0.5f};
            count++;
        }
        s[i] = (struct result_segment){.start_ms = lines[i].start_ms,
                                       .end_ms = lines[i].end_ms,
                                       .text = lines[i].text,
                                       .language = "en",
                                       .avg_logprob = -0.25,
                                       .speech_prob = 0.9f,
                                       .attempts = 1,
                                       .reason = "doubtful",
                                       .words = words[i],
                                       .word_count = lines[i].words ? count : 0};
    }
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .seq = seq,
                                                            .start_ms = seq * 300000,
                                                            .end_ms = seq * 300000 + 300000,
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

/* The recording is asked for in this way; returns the task. */
static int64_t ask(struct store *st, const struct store_stage *stage)
{
    char sql[200];
    int64_t job = job_begin(st, stage);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_end(st, job, NULL);
    snprintf(sql, sizeof(sql),
             "SELECT task_id FROM task t JOIN stage s USING (stage_id) WHERE s.model_hash = '%s'",
             stage->model_hash);
    return count_of(sql);
}

static void hear(struct store *st, const struct store_stage *stage, const struct line *lines,
                 size_t n)
{
    struct err e = {0};
    int64_t task = ask(st, stage);

    put_lines(st, task, 0, lines, n);
    assert_ok(store_task_total(st, task, 1, &e), e);
}

/* The id of the current segment with this number. */
static int64_t segment(int number)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT segment_id FROM segment g JOIN task t USING (task_id) WHERE t.current "
             "ORDER BY g.seq, g.idx LIMIT 1 OFFSET %d",
             number);
    return count_of(sql);
}

static char *heard_of(int64_t id)
{
    static char out[1024];
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT ifnull(heard, text) FROM segment WHERE segment_id = %d",
             (int)id);
    snprintf(out, sizeof(out), "%s", text_of(sql));
    return out;
}

static uint64_t correct_as(struct store *st, const char *who, int number, const char *text,
                           bool confirmed)
{
    int64_t id = segment(number);
    const struct request_correction c = {id, heard_of(id), text, confirmed};

    return apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                          .corrections = &c,
                                          .count = 1,
                                          .made_by = who,
                                          .source = "a test"})
        .affected;
}

static uint64_t correct(struct store *st, int number, const char *text)
{
    return correct_as(st, "ana", number, text, false);
}

static const char *reads(int number)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT text FROM segment g JOIN task t USING (task_id) WHERE t.current "
             "ORDER BY g.seq, g.idx LIMIT 1 OFFSET %d",
             number);
    return text_of(sql);
}

/* said>meant:state, in the order in which they were made. */
#define LIST                                                                            \
    "SELECT ifnull(group_concat(said || '>' || meant || ':' || state, ', '), '') FROM " \
    "(SELECT * FROM correction ORDER BY correction_id)"

static int decide(struct store *st, int64_t id, bool undo, struct err *e)
{
    struct request_reply reply = {0};

    return request_apply(
        st,
        &(struct request){
            .type = REQUEST_CORRECT_DECIDE, .correction_id = id, .made_by = "eva", .undo = undo},
        &reply, e);
}

/* All that a transcription's rows hold. */
#define ROWS                                                                                     \
    "SELECT group_concat(json_array(g.segment_id, g.start_ms, g.end_ms, g.text, g.heard, "       \
    "(SELECT group_concat(json_array(idx, start_ms, end_ms, text, probability, speaker_id)) "    \
    "FROM (SELECT * FROM word w WHERE w.segment_id = g.segment_id ORDER BY idx)))) "             \
    "FROM (SELECT g.* FROM segment g JOIN task t USING (task_id) JOIN stage s USING (stage_id) " \
    "WHERE s.model_hash = 'aa11' ORDER BY g.seq, g.idx) g"

static char *rows_now(void)
{
    sqlite3_stmt *stmt = own_row(ROWS);
    char *copy = strdup((const char *)sqlite3_column_text(stmt, 0));

    assert_non_null(copy);
    own_done(stmt);
    return copy;
}

static const struct line nano[] = {
    {0, 4000, "good evening my name is Ana Sanches", true},
    {4000, 8000, "we came to Lisboa in winter", true},
    {8000, 12000, "and um that was it", false},
};

TEST(a_segment_reads_as_it_was_corrected)
{
    struct store *st = catalog_new();
    char *before;

    hear(st, &stage_nano, nano, 3);
    before = rows_now();
    assert_int_equal(correct(st, 0, "good evening,  my name is Ana S\u00e1nchez"), 1);
    assert_string_equal(reads(0), "good evening, my name is Ana S\u00e1nchez");
    assert_string_equal(text_of("SELECT heard FROM transcript"), nano[0].text);
    assert_string_equal(text_of(LIST), "evening>evening,:applied, Sanches>S\u00e1nchez:applied");
    assert_string_equal(text_of("SELECT group_concat(said || '/' || before || '/' || after, ', ') "
                                "FROM correction"),
                        "evening/good/my name, Sanches/is Ana/we came");
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 's\u00e1nchez'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'sanches'"), 0);
    /* Words that stayed have all they had; the new ones the time of the old. */
    assert_string_equal(text_of("SELECT group_concat(text || start_ms || '-' || end_ms || "
                                "ifnull(probability, '?')) FROM word WHERE segment_id = 1"),
                        " good0-5710.5, evening,571-1142?, my1142-17140.5, name1714-22850.5,"
                        " is2285-28570.5, Ana2857-34280.5, S\u00e1nchez3428-4000?");
    assert_int_equal(count_of("SELECT count(*) FROM word_heard"), 7);
    assert_int_equal(correct(st, 0, "good evening,  my name is Ana S\u00e1nchez"), 0);
    assert_int_equal(correct(st, 0, nano[0].text), 1);
    assert_string_equal(text_of(LIST), "evening>evening,:undone, Sanches>S\u00e1nchez:undone");
    assert_string_equal(before, rows_now());
    assert_int_equal(count_of("SELECT count(*) FROM word_heard"), 0);
    free(before);
    catalog_close(st);
}

/* Who made a change, and when, stays while others are made beside it. */
TEST(what_is_as_it_was_keeps_who_made_it)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct_as(st, "ana", 1, "we came to Lisbon in winter", false);
    correct_as(st, "eva", 1, "we came to Lisbon in the winter", false);
    correct_as(st, "ivo", 1, "we came to Lisbon this winter", false);
    assert_string_equal(text_of("SELECT group_concat(made_by || ' ' || said || '>' || meant || ':' "
                                "|| state, ', ') FROM correction"),
                        "ana Lisboa>Lisbon:applied, eva in>in the:undone, ivo in>this:applied");
    assert_string_equal(text_of("SELECT group_concat(decided_by) FROM correction"), "ivo");
    catalog_close(st);
}

TEST(words_come_and_go)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct(st, 2, "and that was it");
    assert_string_equal(reads(2), "and that was it");
    correct(st, 2, "");
    assert_string_equal(reads(2), "");
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM transcript_all"), 3);
    assert_string_equal(text_of("SELECT heard FROM transcript_all WHERE text = ''"), nano[2].text);
    correct(st, 2, "so and um that was it then");
    assert_string_equal(text_of("SELECT group_concat(said || '>' || meant) FROM correction "
                                "WHERE state = 'applied'"),
                        "and>so and,it>it then");
    catalog_close(st);
}

TEST(what_is_confirmed_is_no_doubt)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    assert_int_equal(count_of("SELECT count(*) FROM doubts"), 3);
    assert_int_equal(correct_as(st, "ana", 0, nano[0].text, true), 1);
    assert_int_equal(correct_as(st, "ana", 0, nano[0].text, true), 0);
    correct(st, 1, "we came to Lisbon in winter");
    assert_string_equal(text_of("SELECT group_concat(text) FROM doubts"), nano[2].text);
    assert_string_equal(text_of("SELECT state || confirms FROM correction"), "confirmed1");
    assert_int_equal(correct(st, 0, "good evening my name is Eva Sanches"), 1);
    assert_string_equal(text_of("SELECT state FROM correction"), "undone");
    catalog_close(st);
}

TEST(what_is_refused)
{
    struct store *st = catalog_new();
    struct request_reply reply = {0};
    struct err e = {0};
    struct request_correction c[2] = {{1, nano[0].text, "yes", false}, {2, "other", "no", false}};
    struct request rq = {
        .type = REQUEST_CORRECT, .corrections = c, .count = 2, .made_by = "ana", .source = ""};

    hear(st, &stage_nano, nano, 3);
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "others by now");
    assert_int_equal(count_of("SELECT count(*) FROM correction"), 0);
    c[1] = c[0];
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "in it twice");
    assert_string_equal(reads(0), nano[0].text);
    c[1] = (struct request_correction){99, "", "", false};
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "others by now");
    c[0].text = "a\x01";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "control characters");
    rq.made_by = "";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "of nobody");
    assert_int_equal(decide(st, 7, true, &e), ERR_INPUT);
    assert_says(e.msg, "no correction 7");
    catalog_close(st);
}

/* ---------------------------------------------------------------------- transcribed anew */

static const struct line tiny[] = {
    {100, 3900, "Good evening. My name is Ana Sanchez.", true},
    {4100, 7900, "We came to Lisboa, in winter.", true},
    {8000, 12000, "And that was it.", false},
};

TEST(carried_to_another_model_and_back)
{
    struct store *st = catalog_new();
    struct err e = {0};
    char *before;

    hear(st, &stage_nano, nano, 3);
    correct(st, 0, "good evening my name is Eva S\u00e1nchez");
    correct(st, 1, "we came to Lisbon in winter");
    correct(st, 2, "and that was it");
    before = rows_now();
    hear(st, &stage_tiny, tiny, 3);
    assert_string_equal(text_of(LIST), "Ana Sanches>Eva S\u00e1nchez:conflict, "
                                       "Lisboa>Lisbon:applied, um>:agreed");
    assert_string_equal(reads(0), tiny[0].text);
    assert_string_equal(reads(1), "We came to Lisbon, in winter.");
    assert_string_equal(text_of("SELECT text FROM segment WHERE segment_id = 2"), nano[1].text);
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'lisbon'"), 1);
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    assert_string_equal(rows_now(), before);
    assert_string_equal(text_of(LIST), "Ana Sanches>Eva S\u00e1nchez:applied, "
                                       "Lisboa>Lisbon:applied, um>:applied");
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 0});
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"), 1);
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "Good evening. My name is Eva S\u00e1nchez.");
    assert_string_equal(text_of("SELECT state || decided_by FROM correction"), "agreedeva");
    assert_int_equal(decide(st, 1, false, &e), ERR_INPUT);
    assert_says(e.msg, "not in conflict");
    assert_ok(decide(st, 2, true, &e), e);
    assert_string_equal(reads(1), tiny[1].text);
    assert_int_equal(decide(st, 2, true, &e), ERR_INPUT);
    assert_says(e.msg, "undone already");
    free(before);
    catalog_close(st);
}

TEST(forgotten_and_heard_again)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct(st, 1, "we came to Lisbon in winter");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1});
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:conflict");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 0);
    hear(st, &stage_nano, nano, 3);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:applied");
    assert_string_equal(reads(1), "we came to Lisbon in winter");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
