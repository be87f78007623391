/* tests/unit/store/corrections_fixture.h - a recording as two models hear it, what people make of
 * its segments, and how these read then. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STORE_READING_FIXTURE_H
#define NIGHTSHIFT_TESTS_UNIT_STORE_READING_FIXTURE_H

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
static inline void put_lines(struct store *st, int64_t task, uint32_t seq, const struct line *lines,
                             size_t n)
{
    static struct result_segment s[SEGMENTS];
    static struct result_word words[SEGMENTS][40];
    static char texts[SEGMENTS][40][64];

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
    shard_done(st, task, seq, 300000, s, n);
}

/* The recording is asked for in this way; returns the task. */
static inline int64_t ask(struct store *st, const struct store_stage *stage)
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

static inline void hear(struct store *st, const struct store_stage *stage, const struct line *lines,
                        size_t n)
{
    struct err e = {0};
    int64_t task = ask(st, stage);

    put_lines(st, task, 0, lines, n);
    assert_ok(store_task_total(st, task, 1, &e), e);
}

/* The id of the current segment with this number. */
static inline int64_t segment(int number)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT segment_id FROM segment g JOIN task t USING (task_id) WHERE t.current "
             "ORDER BY g.seq, g.idx LIMIT 1 OFFSET %d",
             number);
    return count_of(sql);
}

static inline char *heard_of(int64_t id)
{
    static char out[1024];
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT ifnull(heard, text) FROM segment WHERE segment_id = %d",
             (int)id);
    snprintf(out, sizeof(out), "%s", text_of(sql));
    return out;
}

static inline uint64_t correct_as(struct store *st, const char *who, int number, const char *text,
                                  bool confirmed)
{
    int64_t id = segment(number);
    const struct request_correction c = {id, heard_of(id), text, confirmed, NULL};

    return apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                          .corrections = &c,
                                          .count = 1,
                                          .made_by = who,
                                          .source = "a test"})
        .affected;
}

static inline uint64_t correct(struct store *st, int number, const char *text)
{
    return correct_as(st, "ana", number, text, false);
}

static inline const char *reads(int number)
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

static inline int decide(struct store *st, int64_t id, bool undo, struct err *e)
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

static inline char *rows_now(void)
{
    sqlite3_stmt *stmt = own_row(ROWS);
    char *copy = strdup((const char *)sqlite3_column_text(stmt, 0));

    assert_non_null(copy);
    own_done(stmt);
    return copy;
}

static inline void rows_are(const char *rows)
{
    char *now = rows_now();

    assert_string_equal(now, rows);
    free(now);
}

static const struct line nano[3] = {
    {0, 4000, "good evening my name is Ana Sanches", true},
    {4000, 8000, "we came to Lisboa in winter", true},
    {8000, 12000, "and um that was it", false},
};

static const struct line tiny[3] = {
    {100, 3900, "Good evening. My name is Ana Sanchez.", true},
    {4100, 7900, "We came to Lisboa, in winter.", true},
    {8000, 12000, "And that was it.", false},
};

#endif
