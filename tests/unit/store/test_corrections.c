/* What people correct: segments as they read, words with their times, and what becomes of it when a
 * recording is transcribed anew, pinned or forgotten. */
#include "store/read/corrections.h"
#include "tests/common/nomem.h"
#include "tests/unit/store/stages.h"

#define SEGMENTS 440 /* of a shard, at most */

struct line {
    int64_t start_ms, end_ms;
    const char *text;
    bool words; /* with times of their own */
};

/* A shard of these lines: with words where they are asked for, a blank before each. */
static void put_lines(struct store *st, int64_t task, uint32_t seq, const struct line *lines,
                      size_t n)
{
    static struct result_segment s[SEGMENTS];
    static struct result_word words[SEGMENTS][40];
    static char texts[SEGMENTS][40][64];
    struct err e = {0};

    assert_true(n <= SEGMENTS);
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

static void rows_are(const char *rows)
{
    char *now = rows_now();

    assert_string_equal(now, rows);
    free(now);
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
    rows_are(before);
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
    rows_are(before);
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

static int take_heard_now(void *arg, const struct read_correction *c)
{
    snprintf(arg, 100, "%s|%s|%s", c->state, c->heard_now, c->path);
    return 0;
}

/* What nobody hears any more is put beside what is heard near it; what is heard nowhere near stays
 * in conflict, and so does what would take half of another one's words. */
TEST(how_conflicts_are_decided)
{
    static const struct line there[] = {{0, 4000, "we saw the old red house there", true},
                                        {60000, 61000, "far away", true}};
    static const struct line anew[] = {{0, 2280, "we saw the cold", true},
                                       {3430, 4000, "there", true}};
    struct store *st = catalog_new();
    struct err e = {0};
    char row[100] = "";

    hear(st, &stage_nano, there, 2);
    correct(st, 0, "we saw the old green house there");
    correct(st, 1, "far off");
    correct_as(st, "ana", 0, "we saw the old green house here", true);
    hear(st, &stage_tiny, anew, 2);
    assert_string_equal(text_of(LIST),
                        "red>green:conflict, away>off:conflict, there>here:applied, we saw the old "
                        "red house there>we saw the old green house here:conflict");
    assert_ok(read_corrections(st, &(struct read_corrections){.correction_id = 2}, take_heard_now,
                               row, &e),
              e);
    assert_string_equal(row, "conflict||/a/1.wav");
    assert_ok(read_corrections(st, &(struct read_corrections){.path = "/b", .state = "conflict"},
                               take_heard_now, row, &e),
              e);
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "we saw the cold green");
    assert_string_equal(text_of("SELECT state FROM correction WHERE correction_id = 1"), "agreed");
    assert_int_equal(decide(st, 2, false, &e), ERR_INPUT);
    assert_says(e.msg, "nothing is heard there now");
    assert_ok(decide(st, 4, false, &e), e);
    assert_string_equal(reads(0), "we saw the old green");
    assert_string_equal(reads(1), "house here");
    assert_string_equal(text_of("SELECT state FROM correction WHERE correction_id = 4"),
                        "confirmed");
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"), 1);
    catalog_close(st);
}

/* The same short word stands elsewhere nearby: neither is it corrected there, nor does it say that
 * what was meant is read. */
TEST(another_one_is_not_the_word)
{
    static const struct line there[] = {{0, 3200, "we saw a boat come in from the bay", true}};
    static const struct line far[] = {{0, 3200, "we saw no boat come in from a bay", true}};
    static const struct line other[] = {{0, 3200, "we saw uh boat come in from the bay", true}};
    struct store *st = catalog_new();

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the boat come in from the bay");
    hear(st, &stage_tiny, far, 1);
    assert_string_equal(reads(0), far[0].text);
    assert_string_equal(text_of(LIST), "a>the:conflict");
    catalog_close(st);
    st = catalog_new();
    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the boat come in from the bay");
    hear(st, &stage_tiny, other, 1);
    assert_string_equal(text_of(LIST), "a>the:conflict");
    catalog_close(st);
}

/* Words that are to go: once that holds of what stands there now, nothing is left to decide. */
TEST(what_is_kept_away_is_decided)
{
    static const struct line there[] = {{0, 3200, "we um came to the sea", true}};
    static const struct line anew[] = {{0, 3200, "they hm went to the sea", true}};
    struct store *st = catalog_new();
    struct err e = {0};

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we came to the sea");
    hear(st, &stage_tiny, anew, 1);
    assert_string_equal(text_of(LIST), "um>:conflict");
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "they went to the sea");
    assert_string_equal(text_of(LIST), "um>:undone, hm>:applied");
    catalog_close(st);
}

/* The other model's times are others: a word beside it that reaches into its time stays. */
TEST(what_is_kept_takes_no_neighbour)
{
    static const struct line there[] = {{0, 3200, "we saw the boat come in", true}};
    static const struct line anew[] = {{100, 3300, "we saw the moat come in", true}};
    struct store *st = catalog_new();
    struct err e = {0};

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the goat come in");
    hear(st, &stage_tiny, anew, 1);
    assert_string_equal(text_of(LIST), "boat>goat:conflict");
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "we saw the goat come in");
    catalog_close(st);
}

/* Where the other model begins a segment within what was corrected, each gets its share; corrected
 * again in one of them, the other one's stays, and who made it. */
TEST(over_the_end_of_a_segment)
{
    static const struct line whole[] = {{0, 8000, "my name is Ana Maria Sanches and so on", true}};
    static const struct line parted[] = {{0, 4400, "my name is Ana Maria", true},
                                         {4400, 8000, "Sanches, and so on", true}};
    struct store *st = catalog_new();

    hear(st, &stage_nano, whole, 1);
    correct(st, 0, "my name is Eva Marta S\u00e1nchez and so on");
    hear(st, &stage_tiny, parted, 2);
    assert_string_equal(text_of(LIST), "Ana Maria Sanches>Eva Marta S\u00e1nchez:applied");
    assert_string_equal(reads(0), "my name is Eva Marta");
    assert_string_equal(reads(1), "S\u00e1nchez, and so on");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 2);
    correct_as(st, "eva", 0, "my name is Eva Maria", false);
    assert_string_equal(reads(0), "my name is Eva Maria");
    assert_string_equal(reads(1), "S\u00e1nchez, and so on");
    assert_string_equal(text_of("SELECT group_concat(made_by || ' ' || said || '>' || meant || ':' "
                                "|| state, ', ') FROM correction"),
                        "ana Ana Maria Sanches>Eva Marta S\u00e1nchez:undone, "
                        "eva Ana>Eva:applied, ana Sanches,>S\u00e1nchez,:applied");
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    assert_string_equal(reads(0), "my name is Eva Maria S\u00e1nchez and so on");
    catalog_close(st);
}

/* The same with both segments in one request: one that keeps it, one that does not, in either
 * order.
 */
TEST(over_the_end_of_a_segment_at_once)
{
    static const struct line whole[] = {{0, 8000, "my name is Ana Maria Sanches and so on", true}};
    static const struct line parted[] = {{0, 4400, "my name is Ana Maria", true},
                                         {4400, 8000, "Sanches, and so on", true}};
    static const char *const texts[2][2] = {{"my name is Eva Marta", "Sanches, and so on"},
                                            {"my name is Ana Maria", "S\u00e1nchez, and so on"}};

    for (int k = 0; k < 2; k++) {
        struct store *st = catalog_new();
        struct request_correction c[2];

        hear(st, &stage_nano, whole, 1);
        correct(st, 0, "my name is Eva Marta S\u00e1nchez and so on");
        hear(st, &stage_tiny, parted, 2);
        for (int i = 0; i < 2; i++)
            c[i] = (struct request_correction){segment(i), parted[i].text, texts[k][i], false};
        apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                       .corrections = c,
                                       .count = 2,
                                       .made_by = "eva",
                                       .source = ""});
        assert_string_equal(reads(0), texts[k][0]);
        assert_string_equal(reads(1), texts[k][1]);
        assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'undone'"), 1);
        assert_string_equal(text_of("SELECT made_by FROM correction WHERE state = 'applied'"),
                            "ana");
        catalog_close(st);
    }
}

/* Who speaks is found for the machine's words, too, and for those that people put in; the segment
 * is parted between the two. */
TEST(speakers_of_corrected_words)
{
    static const struct result_turn said[] = {{0, 2000, 0}, {2000, 9000, 1}};
    static const struct result_speaker people[] = {{2000, NULL}, {7000, NULL}};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t task;
    char *before;

    hear(st, &stage_nano, nano, 1);
    correct(st, 0, "good evening my name isn't really Ana Sanches");
    task = ask(st, &stage_voices);
    voices_put(st, task, 0);
    assert_ok(store_task_total(st, task, 1, &e), e);
    assert_ok(store_settled(st, task, &(struct result_people){0, 2, 2, people, said}, &e), e);
    assert_string_equal(text_of("SELECT group_concat(text || ':' || speaker_id, '') FROM word"),
                        " good:1 evening:1 my:1 name:1 isn't:2 really:2 Ana:2 Sanches:2");
    assert_string_equal(
        text_of("SELECT group_concat(text || ':' || speaker_id, '') FROM word_heard"),
        " is:2 Ana:2 Sanches:2");
    correct(st, 1, "is Ana Sanches");
    assert_string_equal(text_of("SELECT group_concat(text || ':' || speaker_id, '') FROM word"),
                        " good:1 evening:1 my:1 name:1 is:2 Ana:2 Sanches:2");
    before = rows_now();
    correct(st, 0, "good night my name");
    assert_int_equal(count_of("SELECT speaker_id FROM word WHERE text = ' night'"), 1);
    correct(st, 0, "good evening my name");
    rows_are(before);
    free(before);
    catalog_close(st);
}

/* Its pieces come one by one, and what is in conflict is looked at again with each. */
TEST(piece_by_piece)
{
    static const struct line late[] = {{301000, 303000, "that was in Lisboa then", true}};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t task = ask(st, &stage_nano);

    put_lines(st, task, 0, nano, 3);
    put_lines(st, task, 1, late, 1);
    assert_ok(store_task_total(st, task, 2, &e), e);
    correct(st, 3, "that was in Lisbon then");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1});
    task = ask(st, &stage_tiny);
    put_lines(st, task, 0, nano, 3);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:conflict");
    put_lines(st, task, 1, late, 1);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:applied");
    assert_ok(store_task_total(st, task, 2, &e), e);
    assert_string_equal(reads(3), "that was in Lisbon then");
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

/* What fails leaves nothing behind; what is done in the end is whole. */
static int correct_once(void *arg, struct err *err)
{
    const struct request_correction c[] = {{1, nano[0].text, "good evening my name is Eva", true},
                                           {2, nano[1].text, "we went to Lisbon", false}};
    struct request_reply reply = {0};

    return request_apply(
        arg,
        &(struct request){
            .type = REQUEST_CORRECT, .corrections = c, .count = 2, .made_by = "ana", .source = ""},
        &reply, err);
}

static int decide_once(void *arg, struct err *err) { return decide(arg, 2, false, err); }

static int pin_once(void *arg, struct err *err)
{
    struct request_reply reply = {0};

    return request_apply(arg, &(struct request){.type = REQUEST_PIN, .stage_id = 1}, &reply, err);
}

TEST(memory_that_runs_out)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    assert_true(nomem_each(correct_once, st) > 40);
    assert_string_equal(text_of(LIST),
                        "Ana Sanches>Eva:applied, good evening my name is Ana Sanches>"
                        "good evening my name is Eva:confirmed, came>went:applied, "
                        "Lisboa in winter>Lisbon:applied");
    hear(st, &stage_tiny, tiny, 3);
    assert_int_equal(decide(st, 1, true, &(struct err){0}), 0);
    assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'conflict'"), 1);
    assert_true(nomem_each(decide_once, st) > 40);
    assert_true(nomem_each(pin_once, st) > 40);
    assert_string_equal(reads(1), "we went to Lisbon");
    catalog_close(st);
}

/* ------------------------------------------------------------------------- a thousand of them
 *
 * What is really said, as two models hear it, each with errors of its own; a thousand words of the
 * first one's are mended. Words that a model made up begin with x (the first) or y, those that
 * people put in with m: each is there once. */
#define SAID 3000
#define EDITS 1000 /* of every third word */
#define WORD_MS 400

static uint32_t chance = 20261124;

static uint32_t draw(uint32_t below)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % below;
}

static char truth[SAID][12];
static char nano_word[SAID][12], tiny_word[SAID][24]; /* "": not heard */
enum edit { MENDED, REPLACED, PUT_IN, TAKEN_OUT };
static enum edit edits[EDITS];

static void make_words(void)
{
    for (int i = 0; i < SAID; i++) {
        snprintf(truth[i], sizeof(truth[i]), "%s%u", draw(3) ? "w" : "c",
                 draw(3) ? draw(900) : draw(12));
        snprintf(nano_word[i], sizeof(nano_word[i]), "%s", truth[i]);
        if (draw(6) == 0)
            snprintf(nano_word[i], sizeof(nano_word[i]), "x%d", i);
        snprintf(tiny_word[i], sizeof(tiny_word[i]), "%s", truth[i]);
        if (draw(10) == 0)
            snprintf(tiny_word[i], sizeof(tiny_word[i]), "y%d", i);
        if (draw(20) == 0)
            tiny_word[i][0] = 0;
    }
}

/* Segments of so many words, with times of words in every other one, some words from where they
 * are said. */
static size_t make_lines(struct line *lines, char texts[][800], int length, int shift_ms,
                         const char *(*word)(int i))
{
    size_t n = 0;

    for (int i = 0; i < SAID; i += length, n++) {
        char *to = texts[n];

        *to = 0;
        for (int k = i; k < i + length && k < SAID; k++)
            if (*word(k))
                to += snprintf(to, 50, "%s%s", to == texts[n] ? "" : " ", word(k));
        lines[n] = (struct line){i * WORD_MS + shift_ms, (i + length) * WORD_MS + shift_ms,
                                 texts[n], n % 2 == 0};
    }
    return n;
}

static const char *as_nano(int i) { return nano_word[i]; }

static const char *as_tiny(int i)
{
    static char out[32];

    snprintf(out, sizeof(out), "%s%s", tiny_word[i], *tiny_word[i] && i % 7 == 6 ? "." : "");
    if (i % 7 == 0 && *out >= 'a')
        *out = (char)(*out - 'a' + 'A');
    return out;
}

static const char *as_mended(int i)
{
    static char out[32];
    int e = i / 3;

    if (i % 3 != 1)
        return nano_word[i];
    if (edits[e] == MENDED)
        return truth[i];
    if (edits[e] == TAKEN_OUT)
        return "";
    if (edits[e] == REPLACED)
        snprintf(out, sizeof(out), "m%d", i);
    else
        snprintf(out, sizeof(out), "%s m%d", nano_word[i], i);
    return out;
}

/* Words alone, in small letters, a blank around each. */
static void plain(char *to, size_t cap, const char *from)
{
    size_t n = 0;

    to[n++] = ' ';
    for (; *from && n + 2 < cap; from++)
        if (*from == ' ' && to[n - 1] != ' ')
            to[n++] = ' ';
        else if ((*from >= 'a' && *from <= 'z') || (*from >= '0' && *from <= '9'))
            to[n++] = *from;
        else if (*from >= 'A' && *from <= 'Z')
            to[n++] = (char)(*from + 32);
    if (to[n - 1] != ' ')
        to[n++] = ' ';
    to[n] = 0;
}

/* What the transcript reads around a time. */
static const char *around(int64_t start_ms, int64_t end_ms)
{
    static char out[8000];
    char text[4000], sql[400];

    snprintf(sql, sizeof(sql),
             "SELECT group_concat(text, ' ') FROM (SELECT text FROM transcript "
             "WHERE start_ms <= %lld AND end_ms >= %lld ORDER BY start_ms)",
             (long long)(end_ms + 2000), (long long)(start_ms - 2000));
    {
        sqlite3_stmt *stmt = own_row(sql);

        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(stmt, 0));
        own_done(stmt);
    }
    plain(out, sizeof(out), text);
    return out;
}

struct tally {
    int applied, agreed, conflict, wrong;
};

/* Applied or agreed: it reads so. */
static int on_correction(void *arg, const struct read_correction *c)
{
    struct tally *t = arg;
    char meant[300], said[300];
    bool reads_so;

    plain(meant, sizeof(meant), c->meant);
    plain(said, sizeof(said), c->said);
    reads_so = strstr(around(c->start_ms, c->end_ms), meant) != NULL;
    t->applied += strcmp(c->state, "applied") == 0;
    t->agreed += strcmp(c->state, "agreed") == 0;
    t->conflict += strcmp(c->state, "conflict") == 0;
    if (strcmp(c->state, "conflict") != 0 && !reads_so) {
        print_error("%lld: '%s' -> '%s' is %s, and not read\n", (long long)c->correction_id,
                    c->said, c->meant, c->state);
        t->wrong++;
    }
    if (strcmp(c->state, "conflict") == 0 && !*c->heard_now)
        t->wrong++;
    return 0;
}

/* Of the edit of word i, by the word that is there once. */
static const char *state_of(const char *column, const char *word)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull((SELECT state FROM correction WHERE %s = '%s' OR %s LIKE '%% %s'), "
             "'none')",
             column, word, column, word);
    return text_of(sql);
}

/* Is this word of the first one's alone for so far that it cannot be taken for another? */
static bool alone(int i)
{
    for (int k = i - 12; k <= i + 12; k++)
        if (k >= 0 && k < SAID && k != i &&
            (!strcmp(nano_word[k], nano_word[i]) || !strcmp(tiny_word[k], nano_word[i])))
            return false;
    return true;
}

/* Is one of the words beside it heard alike? Where none is, and its time is only guessed, it may be
 * another one. */
static bool known_beside(int i)
{
    return !strcmp(nano_word[i - 1], tiny_word[i - 1]) ||
           !strcmp(nano_word[i + 1], tiny_word[i + 1]);
}

/* What must have become of those of which it can be known. */
static void check_known(int *known)
{
    char word[16];

    for (int e = 0; e < EDITS; e++) {
        int i = e * 3 + 1;
        bool same = !strcmp(tiny_word[i], nano_word[i]) && alone(i) && known_beside(i);

        snprintf(word, sizeof(word), "m%d", i);
        if (edits[e] == REPLACED && same) {
            assert_string_equal(state_of("meant", word), "applied");
            ++*known;
        } else if (edits[e] == REPLACED && !*tiny_word[i] && alone(i)) {
            assert_string_equal(state_of("meant", word), "conflict");
            ++*known;
        } else if (edits[e] == MENDED && !strcmp(tiny_word[i], truth[i]) && known_beside(i)) {
            assert_string_equal(state_of("said", nano_word[i]), "agreed");
            ++*known;
        }
    }
}

/* All segments at once: these are to read so. */
static uint64_t correct_all(struct store *st, const struct line *heard, const struct line *text,
                            size_t n)
{
    static struct request_correction c[SEGMENTS];

    own_kept = true;
    for (size_t i = 0; i < n; i++)
        c[i] = (struct request_correction){segment((int)i), heard[i].text, text[i].text, false};
    own_close();
    return apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                          .corrections = c,
                                          .count = (uint32_t)n,
                                          .made_by = "ana",
                                          .source = "file all.srt"})
        .affected;
}

TEST(a_thousand_edits_and_another_model)
{
    static struct line a[SEGMENTS], b[SEGMENTS], m[SEGMENTS];
    static char a_texts[SEGMENTS][800], b_texts[SEGMENTS][800], m_texts[SEGMENTS][800];
    struct store *st = catalog_new();
    struct err e = {0};
    struct tally t = {0};
    size_t n, count;
    int known = 0;
    char *before, *machine;

    make_words();
    for (int i = 0; i < EDITS; i++)
        edits[i] = nano_word[i * 3 + 1][0] == 'x' ? MENDED : (enum edit)(1 + draw(3));
    n = make_lines(a, a_texts, 10, 0, as_nano);
    hear(st, &stage_nano, a, n);
    machine = rows_now();
    assert_int_equal(make_lines(m, m_texts, 10, 0, as_mended), n);
    assert_int_equal(correct_all(st, a, m, n), n);
    own_kept = true;
    for (size_t i = 0; i < n; i++)
        assert_string_equal(reads((int)i), m_texts[i]);
    count = (size_t)count_of("SELECT count(*) FROM correction");
    assert_in_range(count, EDITS - 20, EDITS + 20); /* one may be seen as two */
    assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'applied'"), count);
    before = rows_now();
    own_close();
    hear(st, &stage_tiny, b, make_lines(b, b_texts, 7, 130, as_tiny));
    own_kept = true;
    assert_ok(read_corrections(st, &(struct read_corrections){0}, on_correction, &t, &e), e);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(t.applied + t.agreed + t.conflict, count);
    check_known(&known);
    print_message("%d applied, %d agreed, %d in conflict; %d known before\n", t.applied, t.agreed,
                  t.conflict, known);
    assert_in_range(known, EDITS * 3 / 10, EDITS);
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"),
                     t.conflict);
    own_close();
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    rows_are(before);
    assert_int_equal(correct_all(st, a, a, n), n);
    rows_are(machine);
    free(before);
    free(machine);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
