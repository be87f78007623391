/* Diarizations, and stages that work on a transcription, in a catalog: what the tests of them
 * share. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STORE_STAGES_H
#define NIGHTSHIFT_TESTS_UNIT_STORE_STAGES_H

#include "base/utf8.h"
#include "store/read/read.h"
#include "tests/unit/store/fixture.h"

#define LATER INT64_C(4102444800000)

static const struct store_stage stage_voices = {"diarize", "pyannote", "/models/p",
                                                "dd44",    "{}",       NULL};
static const struct store_stage stage_voices2 = {
    "diarize", "pyannote", "/models/p", "dd44", "{\"num_speakers\":2}", NULL};
static const struct store_stage stage_text = {"embed-text", "e5",        "/models/e5",
                                              "ee55",       "{\"a\":1}", &stage_nano};

static inline size_t unfinalized(struct store *st, int64_t stage, int64_t *first)
{
    struct store_task t[8];
    struct err e = {0};
    size_t n = 0;

    assert_ok(store_unfinalized(st, stage, 0, LATER, t, 8, &n, &e), e);
    if (first)
        *first = n ? t[0].task_id : 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(t[i].skip_count, 0);
        store_task_free(&t[i]);
    }
    return n;
}

static inline size_t runnable_of(struct store *st, int64_t stage)
{
    struct store_task t[8];
    struct err e = {0};
    size_t n = 0;

    assert_ok(store_runnable(st, stage, 0, LATER, t, 8, &n, &e), e);
    for (size_t i = 0; i < n; i++)
        store_task_free(&t[i]);
    return n;
}

/* Ids of the stages that a run would look at: with something to lease, then to finalize: "1 3 |2 ".
 */
static inline const char *stages(struct store *st)
{
    static char out[64];
    struct store_stage_row *rows = NULL;
    struct err e = {0};
    size_t n = 0;

    *out = 0;
    for (int finalizing = 0; finalizing <= 1; finalizing++) {
        assert_ok((finalizing ? store_stages_unfinalized : store_stages_runnable)(st, LATER, &rows,
                                                                                  &n, &e),
                  e);
        for (size_t i = 0; i < n; i++) {
            snprintf(out + strlen(out), sizeof(out) - strlen(out), "%d ", (int)rows[i].stage_id);
            store_stage_row_free(&rows[i]);
        }
        free(rows);
        snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s", finalizing ? "" : "|");
    }
    return out;
}

static inline struct store_totals totals(struct store *st)
{
    struct store_totals t = {0};
    struct err e = {0};

    assert_ok(store_totals(st, &t, &e), e);
    return t;
}

static inline int shard_of(struct store *st, int64_t task, uint32_t seq,
                           const struct result_voices *v, struct err *e)
{
    return store_shard_done(st,
                            &(struct store_shard_result){.task_id = task,
                                                         .seq = seq,
                                                         .start_ms = seq * 30000,
                                                         .end_ms = seq * 30000 + 30000,
                                                         .voices = v},
                            e);
}

static const uint8_t active[] = {1, 0, 3, 1};
static const uint32_t of[] = {0, 4};
static const float vectors[] = {0.5f, -2.0f, 1e-8f, 3.0f};
static const struct result_voices voices = {0, 2, 2, 3, 2, 2, active, of, vectors};

static inline void voices_put(struct store *st, int64_t task, uint32_t seq)
{
    struct result_voices v = voices;
    struct err e = {0};

    v.first = seq * 30;
    assert_ok(shard_of(st, task, seq, &v, &e), e);
}

static const float one[] = {0.6f, 0.8f}, two[] = {1.0f, 0.0f};
static const struct result_speaker speakers[] = {{9000, one}, {5000, two}, {7, NULL}};
/* Segments of shard_put lie at 0 .. 1500, 2000 .. 3500, ...; its words at 0 .. 700 and at 700. */
static const struct result_turn turns[] = {
    {0, 900, 0}, {600, 700, 2}, {690, 2600, 1}, {30000, 39000, 0}};

/* The first n of them, and when they speak. */
#define PEOPLE(n, turns, turn_count) (&(struct result_people){2, n, turn_count, speakers, turns})

static inline void finalize(struct store *st, int64_t task)
{
    struct err e = {0};

    assert_ok(store_finalized(st, task, PEOPLE(3, turns, 4), &e), e);
}

#define WHO                                                                                 \
    "SELECT group_concat(ifnull(speaker, '-')) FROM (SELECT speaker FROM transcript WHERE " \
    "media_id = 1 ORDER BY start_ms)"
#define WHO_SAYS                                                                       \
    "SELECT group_concat(ifnull(speaker, '-')) FROM (SELECT speaker FROM words WHERE " \
    "media_id = 1 ORDER BY segment_id, idx)"

static inline void transcribe(struct store *st, int64_t task)
{
    shard_put(st, task, 0, (const char *[]){"one", "two"}, 2);
    shard_put(st, task, 1, (const char *[]){"three"}, 1);
    struct err e = {0};
    assert_ok(store_task_total(st, task, 2, &e), e);
}

static inline void diarize(struct store *st, int64_t task)
{
    struct err e = {0};

    voices_put(st, task, 0);
    voices_put(st, task, 1);
    assert_ok(store_task_total(st, task, 2, &e), e);
}

/* Two recordings, transcription (tasks 1, 2) and diarization (3, 4). */
static inline struct store *filled(void)
{
    struct store *st = catalog_new();
    const struct store_stage *stage[] = {&stage_nano, &stage_voices};

    for (int i = 0; i < 2; i++) {
        int64_t job = job_begin(st, stage[i]);

        job_add1(st, job, "/a/1.wav", "", 1);
        job_add1(st, job, "/a/2.wav", "", 2);
        job_end(st, job, "/a");
    }
    return st;
}

static inline void state_is(int64_t task, const char *state)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT state FROM tasks WHERE task_id = %d", (int)task);
    assert_string_equal(text_of(sql), state);
}

#endif
