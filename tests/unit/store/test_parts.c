/* Segments in which several people speak: parted where they change, whole again when nobody is told
 * apart any more, and what is corrected in them. */
#include <stdlib.h>
#include <string.h>

#include "tests/common/nomem.h"
#include "tests/unit/store/stages.h"

#define WORD_MS 400

/* A segment of these words, each of WORD_MS, from start_ms on; sure: their probability. */
struct line {
    int64_t start_ms;
    const char *text;
    double sure;
};

static size_t split(const struct line *line, char texts[][64], struct result_word *words)
{
    char copy[1024], *save = NULL;
    size_t n = 0;

    snprintf(copy, sizeof(copy), "%s", line->text);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save), n++) {
        int64_t at = line->start_ms + WORD_MS * (int64_t)n;

        snprintf(texts[n], 64, " %s", w);
        words[n] =
            (struct result_word){at, at + WORD_MS, texts[n], (float)(n % 2 ? line->sure : 1.0)};
    }
    return n;
}

static void put_lines(struct store *st, int64_t task, uint32_t seq, const struct line *lines,
                      size_t n, bool timed)
{
    static char texts[8][120][64];
    static struct result_word words[8][120];
    struct result_segment s[8];
    struct err e = {0};

    assert_true(n <= 8);
    for (size_t i = 0; i < n; i++) {
        size_t count = split(&lines[i], texts[i], words[i]);

        s[i] = (struct result_segment){.start_ms = lines[i].start_ms,
                                       .end_ms = lines[i].start_ms + WORD_MS * (int64_t)count + 50,
                                       .text = lines[i].text,
                                       .language = "en",
                                       .avg_logprob = -0.25,
                                       .no_speech_prob = 0.01,
                                       .compression_ratio = 1.2,
                                       .attempts = 1,
                                       .speech_prob = 0.875,
                                       .reason = "doubtful",
                                       .words = words[i],
                                       .word_count = timed ? count : 0};
    }
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .seq = seq,
                                                            .start_ms = seq * 30000,
                                                            .end_ms = seq * 30000 + 30000,
                                                            .language = "en",
                                                            .language_prob = 0.9,
                                                            .windows = 1,
                                                            .segments = s,
                                                            .segment_count = n},
                               &e),
              e);
}

/* What three people say: words of 400 ms from 0 on, and others after half a minute. */
static const struct line lines[] = {
    {0, "do you want to come yes I will come gladly then let us go", 0.5},
    {8000, "nobody else says this", 1},
};
static const struct line later[] = {{30000, "it is late", 1}};
static const struct result_turn three[] = {
    {0, 2000, 0}, {2000, 4050, 1}, {4050, 9600, 2}, {30000, 31200, 0}};
/* The same, heard otherwise. */
static const struct result_turn other[] = {{0, 2400, 1}, {2450, 31200, 0}};

static void hear(struct store *st, int64_t task)
{
    struct err e = {0};

    put_lines(st, task, 0, lines, 2, true);
    put_lines(st, task, 1, later, 1, true);
    assert_ok(store_task_total(st, task, 2, &e), e);
}

static void tell_apart(struct store *st, int64_t task, const struct result_turn *spoken, size_t n)
{
    struct err e = {0};

    diarize(st, task);
    assert_ok(store_finalized(st, task, PEOPLE(3, spoken, n), &e), e);
}

/* Diarization `task` is all that there is of the recording's, and is forgotten. */
static void forget(struct store *st, const struct store_stage *stage)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT stage_id FROM stage WHERE params = '%s' AND name = '%s'",
             stage->params_json, stage->name);
    apply_ok(st, &(struct request){
                     .type = REQUEST_FORGET, .stage_id = count_of(sql), .select_path = "/a/1.wav"});
}

#define READS                                                                        \
    "SELECT group_concat(ifnull(substr(speaker, 9), '-') || ' ' || text, '|') FROM " \
    "(SELECT speaker, text FROM transcript WHERE media_id = 1 ORDER BY start_ms, segment_id)"
#define TIMES                                              \
    "SELECT group_concat(start_ms || '-' || end_ms) FROM " \
    "(SELECT start_ms, end_ms FROM transcript WHERE media_id = 1 ORDER BY start_ms)"
/* Everything of segments and words that is the machine's, without numbers of rows. */
#define MACHINE                                                                            \
    "SELECT group_concat(x, char(10)) FROM (SELECT json_array(g.task_id, g.seq, g.idx, "   \
    "g.start_ms, g.end_ms, g.text, g.heard, g.language, g.avg_logprob, g.no_speech_prob, " \
    "g.compression_ratio, g.temperature, g.attempts, g.speech_prob, g.reason, g.part, "    \
    "(SELECT json_group_array(json_array(idx, start_ms, end_ms, text, probability)) FROM " \
    "(SELECT * FROM word w WHERE w.segment_id = g.segment_id ORDER BY w.idx))) AS x "      \
    "FROM segment g ORDER BY g.task_id, g.seq, g.idx)"

/* A whole text of the catalog, the caller's. */
static char *all_of(const char *sql)
{
    sqlite3_stmt *stmt = own_row(sql);
    char *text = strdup((const char *)sqlite3_column_text(stmt, 0));

    own_done(stmt);
    assert_non_null(text);
    return text;
}

static void same(const char *sql, char *was)
{
    char *is = all_of(sql);

    assert_string_equal(is, was);
    free(is);
    free(was);
}

static void nothing_is_left(void)
{
    assert_int_equal(count_of("SELECT count(*) FROM segment WHERE part > 0"), 0);
}

#define FOUND(words) "SELECT count(*) FROM segment_fts WHERE segment_fts MATCH '" words "'"
#define PARTED                                                            \
    "00 do you want to come|01 yes I will come gladly|02 then let us go|" \
    "02 nobody else says this|00 it is late"

TEST(a_segment_is_parted_where_the_speaker_changes)
{
    struct store *st = filled();
    char *was;

    hear(st, 1);
    was = all_of(MACHINE);
    tell_apart(st, 3, three, 4);
    assert_string_equal(text_of(READS), PARTED);
    assert_string_equal(text_of(TIMES), "0-2000,2000-4000,4000-5650,8000-9650,30000-31250");
    assert_string_equal(text_of("SELECT group_concat(idx || part, ' ') FROM "
                                "(SELECT * FROM segment ORDER BY seq, idx)"),
                        "00 11 22 30 00");
    assert_string_equal(text_of("SELECT group_concat(idx || word, ' ') FROM (SELECT * FROM words "
                                "WHERE start_ms >= 2000 AND end_ms <= 4000 ORDER BY start_ms)"),
                        "0yes 1I 2will 3come 4gladly");
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 5);
    assert_int_equal(count_of("SELECT count(*) FROM doubts"), 5);
    assert_string_equal(text_of("SELECT group_concat(text) FROM segment_fts "
                                "WHERE segment_fts MATCH 'gladly'"),
                        "yes I will come gladly");
    assert_int_equal(count_of(FOUND("want gladly")), 0);
    /* As it was, byte for byte. */
    forget(st, &stage_voices);
    nothing_is_left();
    same(MACHINE, was);
    assert_int_equal(count_of(FOUND("want gladly")), 1);
    catalog_close(st);
}

/* A part is as much surer than its segment as its words are. */
TEST(each_part_is_as_sure_as_its_words)
{
    static const struct line pair[] = {{0, "a b c d e f g h", 0.25}};
    static const struct result_turn spoken[] = {{0, 1200, 0}, {1200, 3200, 1}};
    struct store *st = filled();

    put_lines(st, 1, 0, pair, 1, true);
    tell_apart(st, 3, spoken, 2);
    /* Every second word is 0.25: one of three, three of five, four of eight. */
    assert_string_equal(text_of("SELECT group_concat(text || round(avg_logprob, 4), ' ') FROM "
                                "(SELECT * FROM segment ORDER BY idx)"),
                        "a b c-0.019 d e f g h-0.3886");
    catalog_close(st);
}

TEST(where_no_words_are_known_nothing_is_parted)
{
    struct store *st = filled();
    struct err e = {0};

    put_lines(st, 1, 0, lines, 2, false);
    put_lines(st, 1, 1, later, 1, true);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    tell_apart(st, 3, three, 4);
    assert_string_equal(text_of(READS), "01 do you want to come yes I will come gladly then let us "
                                        "go|02 nobody else says this|00 it is late");
    nothing_is_left();
    catalog_close(st);
}

/* The words are not those of the text: nobody knows where to part it. */
TEST(where_words_are_others_nothing_is_parted)
{
    static char texts[120][64];
    static struct result_word words[120];
    struct store *st = filled();
    struct result_segment s;
    size_t n;

    n = split(&lines[0], texts, words);
    words[4].text = " perhaps";
    s = (struct result_segment){
        .end_ms = 5650, .text = lines[0].text, .words = words, .word_count = (uint32_t)n};
    shard_done(st, 1, 0, 30000, &s, 1);
    tell_apart(st, 3, three, 4);
    nothing_is_left();
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 1);
    catalog_close(st);
}

/* In scripts without blanks each character may be the first one. */
TEST(text_without_blanks)
{
    static const char *const characters[] = {"你", "们", "好", "，", "我", "很", "好"};
    static const struct result_turn spoken[] = {{0, 1600, 0}, {1600, 9000, 1}};
    struct result_word words[7];
    struct result_segment s = {.end_ms = 2800,
                               .text = "你们好，我很好",
                               .language = "zh",
                               .words = words,
                               .word_count = 7};
    struct store *st = filled();
    struct err e = {0};
    char *was;

    for (int i = 0; i < 7; i++)
        words[i] = (struct result_word){i * 400, i * 400 + 400, characters[i], 0.5f};
    assert_ok(
        store_shard_done(st,
                         &(struct store_shard_result){
                             .task_id = 1, .end_ms = 30000, .segments = &s, .segment_count = 1},
                         &e),
        e);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    was = all_of(MACHINE);
    tell_apart(st, 3, spoken, 2);
    assert_string_equal(text_of(READS), "00 你们好，|01 我很好");
    forget(st, &stage_voices);
    same(MACHINE, was);
    catalog_close(st);
}

#define RESULTS                                                                      \
    "SELECT group_concat(json_array(seq, idx, start_ms, end_ms, text, avg_logprob, " \
    "words, speaker), char(10)) FROM results WHERE stage = 'transcribe'"

/* In whatever order things come, and whatever was there before. */
TEST(the_order_makes_no_difference)
{
    char *first = NULL;

    for (int order = 0; order < 4; order++) {
        struct store *st = filled();
        char *is;

        if (order == 1)
            tell_apart(st, 3, three, 4);
        if (order == 3) {
            hear(st, 1);
            job_add1(st, job_begin(st, &stage_voices2), "/a/1.wav", "", 1);
            tell_apart(st, 5, other, 2);
            assert_string_equal(text_of(READS),
                                "01 do you want to come yes|00 I will come gladly then let us go|"
                                "00 nobody else says this|00 it is late");
            job_add1(st, job_begin(st, &stage_voices), "/a/1.wav", "", 1);
        } else if (order == 2) {
            put_lines(st, 1, 0, lines, 2, true);
            tell_apart(st, 3, three, 4);
            put_lines(st, 1, 1, later, 1, true);
        } else {
            hear(st, 1);
        }
        if (order == 0 || order == 3)
            tell_apart(st, 3, three, 4);
        assert_string_equal(text_of(READS), PARTED);
        is = all_of(RESULTS);
        if (first)
            assert_string_equal(is, first);
        else
            first = strdup(is);
        free(is);
        catalog_close(st);
    }
    free(first);
}

static char *passages_of(struct store *st, int64_t task)
{
    struct result_passage *p = NULL;
    struct buf out = BUF_INIT;
    struct err e = {0};
    size_t n = 0;

    assert_ok(store_passages(st, task, 40, &p, &n, &e), e);
    for (size_t i = 0; i < n; i++)
        buf_printf(&out, "%d-%d %s|", (int)p[i].start_ms, (int)p[i].end_ms, p[i].text);
    store_passages_free(p, n);
    assert_true(buf_cstr(&out));
    return (char *)out.data;
}

/* Vectors need not be made anew because somebody was told apart. */
TEST(passages_are_of_the_machines_segments)
{
    struct store *st = filled();
    char *was, *is;

    hear(st, 1);
    job_add1(st, job_begin(st, &stage_text), "/a/1.wav", "", 1); /* task 5 */
    was = passages_of(st, 5);
    tell_apart(st, 3, three, 4);
    assert_string_equal(text_of(READS), PARTED);
    is = passages_of(st, 5);
    assert_string_equal(is, was);
    free(is);
    free(was);
    catalog_close(st);
}

/* When it turns out to be longer its speakers are gone, till it is finalized again. */
TEST(a_longer_recording_is_whole_meanwhile)
{
    struct store *st = filled();
    struct err e = {0};
    char *was;

    hear(st, 1);
    was = all_of(MACHINE);
    tell_apart(st, 3, three, 4);
    assert_ok(store_task_total(st, 3, 3, &e), e);
    nothing_is_left();
    same(MACHINE, was);
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 3, seq);
    assert_ok(store_finalized(st, 3, PEOPLE(3, three, 4), &e), e);
    assert_string_equal(text_of(READS), PARTED);
    catalog_close(st);
}

/* ---------------------------------------------------------------------------- corrections */

static uint64_t correct(struct store *st, const char *heard, const char *text, bool confirmed)
{
    char sql[400];

    snprintf(sql, sizeof(sql), "SELECT segment_id FROM transcript WHERE ifnull(heard, text) = '%s'",
             heard);
    const struct request_correction c = {count_of(sql), heard, text, confirmed, NULL};

    return apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                          .corrections = &c,
                                          .count = 1,
                                          .made_by = "ana",
                                          .source = "a test"})
        .affected;
}

#define STATES                                                             \
    "SELECT group_concat(said || '>' || meant || ' ' || state, '|') FROM " \
    "(SELECT * FROM correction ORDER BY correction_id)"
#define WHOLE "do you want to come yes I will come gladly then let us go"

TEST(corrections_go_along_with_their_words)
{
    struct store *st = filled();
    char *machine;

    hear(st, 1);
    machine = all_of(MACHINE);
    /* Within a part, across a seam, and at an end. */
    correct(st, WHOLE, "do we want to go no I will come gladly then let us leave", false);
    assert_string_equal(text_of(STATES), "you>we applied|come yes>go no applied|go>leave applied");
    tell_apart(st, 3, three, 4);
    assert_string_equal(text_of(READS),
                        "00 do we want to go|01 no I will come gladly|02 then let us leave|"
                        "02 nobody else says this|00 it is late");
    assert_string_equal(text_of(STATES), "you>we applied|come yes>go no applied|go>leave applied");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 4);
    /* Parted elsewhere. */
    job_add1(st, job_begin(st, &stage_voices2), "/a/1.wav", "", 1);
    tell_apart(st, 5, other, 2);
    assert_string_equal(text_of(READS), "01 do we want to go no|00 I will come gladly then let us "
                                        "leave|00 nobody else says this|00 it is late");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 3);
    /* Corrected while it is parted, and whole again. */
    correct(st, "do you want to come yes", "do we want to go no?", false);
    forget(st, &stage_voices);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    forget(st, &stage_voices2);
    nothing_is_left();
    assert_string_equal(text_of(STATES),
                        "you>we applied|come yes>go no undone|go>leave applied|come yes>go no? "
                        "applied");
    assert_string_equal(text_of(READS),
                        "- do we want to go no? I will come gladly then let us leave|- nobody else "
                        "says this|- it is late");
    run_sql("DELETE FROM correction_at; UPDATE correction SET state = 'undone'; "
            "INSERT OR IGNORE INTO reading_due VALUES (1)");
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    same(MACHINE, machine);
    catalog_close(st);
}

TEST(what_was_confirmed_stays_so)
{
    struct store *st = filled();

    hear(st, 1);
    correct(st, WHOLE, WHOLE, true);
    tell_apart(st, 3, three, 4);
    assert_string_equal(text_of("SELECT group_concat(state) FROM corrections"), "confirmed");
    assert_int_equal(count_of("SELECT count(*) FROM doubts WHERE start_ms < 8000"), 0);
    forget(st, &stage_voices);
    assert_string_equal(text_of("SELECT group_concat(state) FROM corrections"), "confirmed");
    assert_int_equal(count_of("SELECT count(*) FROM doubts WHERE start_ms < 8000"), 0);
    catalog_close(st);
}

/* What fails leaves nothing behind; what is done in the end is whole. */
static int finalize_once(void *arg, struct err *err)
{
    return store_finalized(arg, 3, PEOPLE(3, three, 4), err);
}

TEST(memory_that_runs_out)
{
    struct store *st = filled();

    hear(st, 1);
    correct(st, WHOLE, "do we want to go no I will come gladly then let us leave", false);
    diarize(st, 3);
    assert_true(nomem_each(finalize_once, st) > 60);
    assert_string_equal(text_of(READS),
                        "00 do we want to go|01 no I will come gladly|02 then let us leave|"
                        "02 nobody else says this|00 it is late");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 4);
    catalog_close(st);
}

/* ---------------------------------------------------------------------------- random ones */

static void random_line(unsigned *seed, struct line *line, char *text, size_t size)
{
    size_t n = 1 + (size_t)rand_r(seed) % 60, at = 0;

    for (size_t i = 0; i < n && at + 8 < size; i++)
        at +=
            (size_t)snprintf(text + at, size - at, "%s%s%d", i ? rand_r(seed) % 9 ? " " : "  " : "",
                             rand_r(seed) % 7 ? "w" : "ü", rand_r(seed) % 50);
    line->text = text;
    line->sure = 0.1 * (1 + rand_r(seed) % 9);
}

static size_t random_turns(unsigned *seed, struct result_turn *spoken, size_t most)
{
    size_t n = 0;

    for (int64_t at = 0; n < most; n++) {
        int64_t ms = 200 + rand_r(seed) % 4000;

        spoken[n] = (struct result_turn){at, at + ms, (uint32_t)(rand_r(seed) % 3)};
        at += ms - rand_r(seed) % 200;
    }
    return n;
}

/* Takes a word of what is read for another one. */
static void correct_one(struct store *st, unsigned *seed)
{
    char sql[200], *heard, *text, *blank;
    sqlite3_stmt *stmt;
    int64_t id;

    snprintf(sql, sizeof(sql),
             "SELECT segment_id, ifnull(heard, text) FROM transcript WHERE media_id = 1 "
             "ORDER BY segment_id LIMIT 1 OFFSET %d %% (SELECT count(*) FROM transcript)",
             rand_r(seed) % 1000);
    stmt = own_row(sql);
    id = sqlite3_column_int64(stmt, 0);
    heard = strdup((const char *)sqlite3_column_text(stmt, 1));
    own_done(stmt);
    text = calloc(1, strlen(heard) + 40);
    blank = strchr(heard, ' ');
    snprintf(text, strlen(heard) + 40, "meant%d%s", rand_r(seed), blank ? blank : "");
    const struct request_correction c = {id, heard, text, false, NULL};
    apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                   .corrections = &c,
                                   .count = 1,
                                   .made_by = "ana",
                                   .source = "a test"});
    free(heard);
    free(text);
}

/* Words of what is read, one behind the other. */
#define ALL_WORDS                                                                      \
    "SELECT group_concat(word, ' ') FROM (SELECT trim(w.text) AS word FROM segment g " \
    "JOIN word w USING (segment_id) WHERE g.task_id = 1 ORDER BY g.seq, g.idx, w.idx)"

static void random_round(unsigned seed)
{
    struct store *st = filled();
    struct line some[4];
    char texts[4][800], *machine, *words, *meant = NULL;
    struct err e = {0};
    int64_t at = rand_r(&seed) % 2000;

    for (int i = 0; i < 4; i++) {
        random_line(&seed, &some[i], texts[i], sizeof(texts[i]));
        some[i].start_ms = at;
        at += 26000;
    }
    put_lines(st, 1, 0, some, 4, true);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    machine = all_of(MACHINE);
    words = all_of(ALL_WORDS);
    for (int i = 0; i < 5; i++) {
        struct result_turn spoken[40];
        struct store_stage stage = stage_voices;
        char params[40], sql[120];
        int64_t task;

        snprintf(params, sizeof(params), "{\"x\":%d}", i);
        stage.params_json = params;
        job_add1(st, job_begin(st, &stage), "/a/1.wav", "", 1);
        snprintf(sql, sizeof(sql),
                 "SELECT task_id FROM task JOIN stage USING (stage_id) "
                 "WHERE params = '%s'",
                 params);
        task = count_of(sql);
        tell_apart(st, task, spoken, random_turns(&seed, spoken, 40));
        if (i < 2)
            same(ALL_WORDS, strdup(words));
        else if (i == 2)
            correct_one(st, &seed);
        else if (meant)
            same(ALL_WORDS, meant);
        meant = i >= 2 ? all_of(ALL_WORDS) : NULL;
    }
    assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'applied'"),
                     count_of("SELECT count(*) FROM correction WHERE state <> 'undone'"));
    while (count_of("SELECT count(*) FROM stage JOIN task USING (stage_id) "
                    "WHERE name = 'diarize' AND media_id = 1 AND state = 'done'"))
        apply_ok(st, &(struct request){.type = REQUEST_FORGET,
                                       .stage_id =
                                           count_of("SELECT max(stage_id) FROM stage JOIN task "
                                                    "USING (stage_id) WHERE name = 'diarize' AND "
                                                    "media_id = 1 AND state = 'done'")});
    nothing_is_left();
    same(ALL_WORDS, meant);
    run_sql("DELETE FROM correction_at; UPDATE correction SET state = 'undone'; "
            "INSERT OR IGNORE INTO reading_due VALUES (1)");
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    same(MACHINE, machine);
    free(words);
    catalog_close(st);
}

TEST(random_ones)
{
    (void)state;
    for (unsigned seed = 1; seed <= 8; seed++)
        random_round(seed);
}

TEST_MAIN(NULL, NULL)
