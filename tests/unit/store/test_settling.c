/* Stages beside transcription: who waits for whom, voices and turns, whose words they are, sounds,
 * vectors and passages; and what becomes of all that when a recording is done again. */
#include <math.h>

#include "base/utf8.h"
#include "store/migrate.h"
#include "store/read.h"
#include "tests/unit/store/fixture.h"

#define LATER INT64_C(4102444800000)

static const struct store_stage stage_voices = {"diarize", "pyannote", "/models/p",
                                                "dd44",    "{}",       NULL};
static const struct store_stage stage_voices2 = {
    "diarize", "pyannote", "/models/p", "dd44", "{\"num_speakers\":2}", NULL};
static const struct store_stage stage_text = {"embed-text", "e5",        "/models/e5",
                                              "ee55",       "{\"a\":1}", &stage_nano};

static size_t unsettled(struct store *st, int64_t stage, int64_t *first)
{
    struct store_task t[8];
    struct err e = {0};
    size_t n = 0;

    assert_ok(store_unsettled(st, stage, 0, LATER, t, 8, &n, &e), e);
    if (first)
        *first = n ? t[0].task_id : 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(t[i].skip_count, 0);
        store_task_free(&t[i]);
    }
    return n;
}

static size_t runnable_of(struct store *st, int64_t stage)
{
    struct store_task t[8];
    struct err e = {0};
    size_t n = 0;

    assert_ok(store_runnable(st, stage, 0, LATER, t, 8, &n, &e), e);
    for (size_t i = 0; i < n; i++)
        store_task_free(&t[i]);
    return n;
}

/* Ids of the stages that a run would look at: with something to lease, then to settle: "1 3 |2 ".
 */
static const char *stages(struct store *st)
{
    static char out[64];
    struct store_stage_row *rows = NULL;
    struct err e = {0};
    size_t n = 0;

    *out = 0;
    for (int settling = 0; settling <= 1; settling++) {
        assert_ok(
            (settling ? store_stages_unsettled : store_stages_runnable)(st, LATER, &rows, &n, &e),
            e);
        for (size_t i = 0; i < n; i++) {
            snprintf(out + strlen(out), sizeof(out) - strlen(out), "%d ", (int)rows[i].stage_id);
            store_stage_row_free(&rows[i]);
        }
        free(rows);
        snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s", settling ? "" : "|");
    }
    return out;
}

static struct store_totals totals(struct store *st)
{
    struct store_totals t = {0};
    struct err e = {0};

    assert_ok(store_totals(st, &t, &e), e);
    return t;
}

static int shard_of(struct store *st, int64_t task, uint32_t seq, const struct store_voices *v,
                    struct err *e)
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
static const struct store_voices voices = {0, 2, 2, 3, 2, 2, active, of, vectors};

static void voices_put(struct store *st, int64_t task, uint32_t seq)
{
    struct store_voices v = voices;
    struct err e = {0};

    v.first = seq * 30;
    assert_ok(shard_of(st, task, seq, &v, &e), e);
}

static const float one[] = {0.6f, 0.8f}, two[] = {1.0f, 0.0f};
static const struct store_speaker speakers[] = {{9000, one, 2}, {5000, two, 2}, {7, NULL, 0}};
/* Segments of shard_put lie at 0 .. 1500, 2000 .. 3500, ...; its words at 0 .. 700 and at 700. */
static const struct store_turn turns[] = {
    {0, 900, 0}, {600, 700, 2}, {690, 2600, 1}, {30000, 39000, 0}};

static void settle(struct store *st, int64_t task)
{
    struct err e = {0};

    assert_ok(store_settled(st, task, speakers, 3, turns, 4, &e), e);
}

#define WHO                                                                                 \
    "SELECT group_concat(ifnull(speaker, '-')) FROM (SELECT speaker FROM transcript WHERE " \
    "media_id = 1 ORDER BY start_ms)"
#define WHO_SAYS                                                                       \
    "SELECT group_concat(ifnull(speaker, '-')) FROM (SELECT speaker FROM words WHERE " \
    "media_id = 1 ORDER BY segment_id, idx)"

static void transcribe(struct store *st, int64_t task)
{
    shard_put(st, task, 0, (const char *[]){"one", "two"}, 2);
    shard_put(st, task, 1, (const char *[]){"three"}, 1);
    struct err e = {0};
    assert_ok(store_task_total(st, task, 2, &e), e);
}

static void diarize(struct store *st, int64_t task)
{
    struct err e = {0};

    voices_put(st, task, 0);
    voices_put(st, task, 1);
    assert_ok(store_task_total(st, task, 2, &e), e);
}

/* Two recordings, transcription (tasks 1, 2) and diarization (3, 4). */
static struct store *filled(void)
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

/* ---------------------------------------------------------------------------------- settling */

static void all_shards_are_not_the_end(void **state)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t first;

    (void)state;
    assert_int_equal(unsettled(st, 2, NULL), 0);
    voices_put(st, 3, 1);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    assert_int_equal(unsettled(st, 2, NULL), 0);
    assert_int_equal(runnable_of(st, 2), 2);
    settle(st, 3); /* of a decoding that found fewer shards */
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "started");
    voices_put(st, 3, 0);
    assert_int_equal(unsettled(st, 2, &first), 1);
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
    assert_int_equal(unsettled(st, 2, NULL), 0);
    apply_ok(st, &(struct request){.type = REQUEST_RESUME});
    settle(st, 3);
    assert_string_equal(stages(st), "|");
    assert_int_equal(unsettled(st, 2, NULL), 0);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "done");
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    settle(st, 3); /* a settler that was given up for dead */
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    catalog_close(st);
}

static void a_failed_settling_is_tried_again(void **state)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t due = 0;

    (void)state;
    diarize(st, 3);
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "the settler died", LATER + 5000, &e), e);
    assert_int_equal(unsettled(st, 2, NULL), 0);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_int_equal(due, LATER + 5000);
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "and again", -1, &e), e);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_true(due == INT64_MAX);
    assert_string_equal(stages(st), "1 2 |");
    assert_int_equal(runnable_of(st, 2), 1);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    assert_int_equal(unsettled(st, 2, NULL), 1);
    /* The file may have gone meanwhile. */
    job_end(st, job_begin(st, &stage_nano), "/a");
    assert_int_equal(runnable_of(st, 2), 0);
    assert_int_equal(unsettled(st, 2, NULL), 1);
    assert_string_equal(stages(st), "|2 ");
    assert_ok(store_task_failed(st, 3, ERR_CRASH, "the settler died", LATER + 5000, &e), e);
    assert_ok(store_next_retry(st, 1, &due, &e), e);
    assert_int_equal(due, LATER + 5000);
    settle(st, 3);
    catalog_close(st);
}

static void what_comes_too_late_is_ignored(void **state)
{
    struct store *st = filled();

    (void)state;
    diarize(st, 3);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/1.wav"});
    settle(st, 3);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "cancelled");
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 2);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    settle(st, 3);
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 3"), "done");
    catalog_close(st);
}

static void state_is(int64_t task, const char *state)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT state FROM tasks WHERE task_id = %d", (int)task);
    assert_string_equal(text_of(sql), state);
}

/* The last shard of what somebody gave up meanwhile. */
static void cancelled_ones_stay_so_and_failed_ones_go_on(void **state)
{
    struct store *st = filled();
    struct err e = {0};

    (void)state;
    voices_put(st, 3, 0);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a/1.wav"});
    voices_put(st, 3, 1);
    state_is(3, "cancelled");
    assert_ok(store_task_total(st, 3, 2, &e), e);
    state_is(3, "cancelled");
    assert_int_equal(unsettled(st, 2, NULL), 0);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    state_is(3, "settling"); /* nothing is left to be heard */
    settle(st, 3);
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

static void what_was_heard_for_cancelled_ones_goes(void **state)
{
    struct store *st = filled();
    struct err e = {0};

    (void)state;
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
    assert_int_equal(unsettled(st, 2, NULL), 0);
    assert_int_equal(runnable_of(st, 2), 2); /* heard again from the beginning */
    diarize(st, 3);
    settle(st, 3);
    state_is(3, "done");
    catalog_close(st);
}

static int sum_voices(void *arg, int64_t seq, const struct store_voices *v, struct err *err)
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

static void run_sql(const char *text)
{
    sqlite3 *db;
    char *why = NULL;

    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

static void voices_come_back(void **state)
{
    static const struct store_voices silence = {0};
    struct store *st = filled();
    struct err e = {0};
    char line[256] = "";

    (void)state;
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

static void impossible_things_are_refused(void **state)
{
    static const uint32_t twice[] = {1, 1}, far[] = {0, 6};
    static const float nan_[] = {0.5f, NAN, 1, 3};
    struct store_voices v;
    struct store_turn t = {0, 1, 3};
    struct store_speaker s = {-1, NULL, 0};
    struct store_sound d = {0, 5, 1, "x", 1.5};
    struct store_vector x = {0, 5, "x", nan_, 2};
    struct store_shard_result r = {.task_id = 4, .end_ms = 10, .sounds = &d, .sound_count = 1};
    struct store *st = filled();
    struct err e = {0};

    (void)state;
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
    assert_int_equal(store_settled(st, 3, speakers, 3, &t, 1, &e), ERR_INPUT);
    t = (struct store_turn){5, 4, 0};
    assert_int_equal(store_settled(st, 3, speakers, 3, &t, 1, &e), ERR_INPUT);
    assert_int_equal(store_settled(st, 3, &s, 1, NULL, 0, &e), ERR_INPUT);
    s = (struct store_speaker){1, nan_, 2};
    assert_int_equal(store_settled(st, 3, &s, 1, NULL, 0, &e), ERR_INPUT);
    assert_int_equal(store_settled(st, 99, NULL, 0, NULL, 0, &e), ERR_INPUT);
    settle(st, 1); /* nothing that settles */
    assert_string_equal(text_of("SELECT state FROM tasks WHERE task_id = 1"), "pending");
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    settle(st, 3);
    catalog_close(st);
}

/* ---------------------------------------------------------------------------------- speakers */

static void whichever_comes_last(void **state)
{
    char who[128], says[128];

    (void)state;
    for (int order = 0; order < 3; order++) {
        struct store *st = filled();

        if (order == 0) {
            transcribe(st, 1);
            diarize(st, 3);
            settle(st, 3);
        } else if (order == 1) {
            diarize(st, 3);
            settle(st, 3);
            transcribe(st, 1);
        } else {
            shard_put(st, 1, 0, (const char *[]){"one", "two"}, 2);
            diarize(st, 3);
            settle(st, 3);
            transcribe(st, 1);
        }
        snprintf(who, sizeof(who), "%s", text_of(WHO));
        snprintf(says, sizeof(says), "%s", text_of(WHO_SAYS));
        assert_string_equal(who, "SPEAKER_00,SPEAKER_01,SPEAKER_00");
        assert_string_equal(says, "SPEAKER_00,SPEAKER_00,SPEAKER_00,SPEAKER_00,SPEAKER_00,"
                                  "SPEAKER_00");
        assert_int_equal(count_of("SELECT count(*) FROM segment WHERE task_id = 2 "
                                  "AND speaker_id IS NOT NULL"),
                         0);
        catalog_close(st);
    }
}

/* The word at 700 is of no length: SPEAKER_00 and _01 both speak in that millisecond. */
static void words_have_speakers_of_their_own(void **state)
{
    static const struct store_turn other[] = {{0, 650, 0}, {650, 9000, 1}};
    struct store *st = filled();
    struct err e = {0};

    (void)state;
    transcribe(st, 1);
    diarize(st, 3);
    assert_ok(store_settled(st, 3, speakers, 2, other, 2, &e), e);
    assert_string_equal(text_of(WHO), "SPEAKER_01,SPEAKER_01,SPEAKER_01");
    assert_string_equal(text_of(WHO_SAYS), "SPEAKER_00,SPEAKER_01,SPEAKER_00,SPEAKER_01,"
                                           "SPEAKER_01,SPEAKER_01");
    catalog_close(st);
}

/* The newest stage's diarization counts, whichever is settled last; none that is not settled. */
static void the_newest_diarization_counts(void **state)
{
    static const struct store_turn all[] = {{0, 60000, 0}};
    struct err e = {0};

    (void)state;
    for (int order = 0; order < 2; order++) {
        struct store *st = filled();
        int64_t job = job_begin(st, &stage_voices2);

        job_add1(st, job, "/a/1.wav", "", 1); /* task 5 */
        transcribe(st, 1);
        diarize(st, 3);
        diarize(st, 5);
        if (order == 0)
            settle(st, 3);
        assert_string_equal(text_of(WHO), order ? "-,-,-" : "SPEAKER_00,SPEAKER_01,SPEAKER_00");
        assert_ok(store_settled(st, 5, speakers, 1, all, 1, &e), e);
        if (order == 1)
            settle(st, 3);
        assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_00,SPEAKER_00");
        assert_int_equal(count_of("SELECT count(DISTINCT t.task_id) FROM transcript t "
                                  "JOIN speaker k USING (speaker_id) WHERE k.task_id = 5"),
                         1);
        assert_string_equal(text_of("SELECT group_concat(turns) FROM speakers WHERE task_id = 3"),
                            "2,1,1");
        catalog_close(st);
    }
}

static void nobody_speaks(void **state)
{
    struct store *st = filled();
    struct err e = {0};

    (void)state;
    transcribe(st, 1);
    diarize(st, 3);
    assert_ok(store_settled(st, 3, NULL, 0, NULL, 0, &e), e);
    assert_string_equal(text_of(WHO), "-,-,-");
    catalog_close(st);
}

static void names_are_given_and_taken(void **state)
{
    struct store *st = filled();
    struct request rq = {.type = REQUEST_NAME_SPEAKER, .speaker_id = 2, .speaker_name = "Ana"};
    struct request_reply reply = {0};
    struct err e = {0};
    char line[64] = "";

    (void)state;
    transcribe(st, 1);
    diarize(st, 3);
    settle(st, 3);
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    assert_string_equal(
        text_of("SELECT name || label || speaker || minutes || speech FROM speakers "
                "WHERE name IS NOT NULL"),
        "AnaSPEAKER_01Ana0.10:05");
    rq.speaker_name = "";
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    for (int i = 0; i < 5; i++) {
        static const char *const bad[] = {"a\nb", "\xff", NULL, "SPEAKER_01", "Speaker_7"};

        rq.speaker_name = bad[i];
        assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    }
    for (int i = 0; i < 3; i++) {
        static const char *const good[] = {"SPEAKER_", "SPEAKER_1a", "The SPEAKER_01"};

        rq.speaker_name = good[i];
        assert_int_equal(apply_ok(st, &rq).affected, 1);
    }
    rq.speaker_name = "";
    apply_ok(st, &rq);
    rq = (struct request){.type = REQUEST_NAME_SPEAKER, .speaker_id = 9, .speaker_name = "Ana"};
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    snprintf(line, sizeof(line), "%s",
             text_of("SELECT group_concat(start || ' ' || speaker) "
                     "FROM (SELECT * FROM turns ORDER BY idx)"));
    assert_string_equal(line, "0:00 SPEAKER_00,0:00 SPEAKER_02,0:00 SPEAKER_01,0:30 SPEAKER_00");
    catalog_close(st);
}

static void name(struct store *st, int64_t speaker_id, const char *is)
{
    apply_ok(st, &(struct request){
                     .type = REQUEST_NAME_SPEAKER, .speaker_id = speaker_id, .speaker_name = is});
}

/* "Ana,-,Bea": the names of a diarization's speakers. */
static const char *names_of(int64_t task)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull(group_concat(ifnull(name, '-')), '') FROM (SELECT name FROM speaker "
             "WHERE task_id = %d ORDER BY label)",
             (int)task);
    return text_of(sql);
}

/* Recording 1, diarized by task 3 with three names, and about to be by task 5. */
static struct store *named(void)
{
    struct store *st = filled();

    transcribe(st, 1);
    job_add1(st, job_begin(st, &stage_voices2), "/a/1.wav", "", 1);
    diarize(st, 3);
    settle(st, 3);
    name(st, 1, "Bea");
    name(st, 2, "Ana");
    name(st, 3, "Cid");
    return st;
}

static void expect_names(const struct store_turn *is, size_t count, const char *want)
{
    struct store *st = named();
    struct err e = {0};

    diarize(st, 5);
    assert_ok(store_settled(st, 5, speakers, 3, is, count, &e), e);
    assert_string_equal(names_of(5), want);
    assert_string_equal(names_of(3), "Bea,Ana,Cid");
    catalog_close(st);
}

static void names_go_to_the_next_diarization(void **state)
{
    /* Bea speaks 9900 ms, Ana 1910, Cid 100. */
    static const struct store_turn split[] = {
        {650, 2600, 0}, {0, 650, 1}, {30000, 35000, 1}, {35000, 39000, 2}};
    static const struct store_turn together[] = {{0, 60000, 2}, {61000, 62000, 0}};
    /* Cid speaks only while Bea does. */
    static const struct store_turn same[] = {
        {30000, 39000, 0}, {0, 900, 0}, {600, 700, 2}, {690, 2600, 1}};
    /* Said thrice is no more than once: she shares 910 ms with the first, 1000 with the second. */
    static const struct store_turn again[] = {
        {690, 1600, 0}, {690, 1600, 0}, {700, 1500, 0}, {1600, 2600, 1}};
    static const struct store_turn elsewhere[] = {{40000, 50000, 0}, {900, 600000, 1}};
    struct store *st = named();
    struct err e = {0};

    (void)state;
    catalog_close(st);
    expect_names(split, 4, "Ana,Bea,-");
    expect_names(together, 2, "-,-,Bea");
    expect_names(same, 4, "Bea,Ana,Cid");
    expect_names(again, 4, "-,Ana,-");
    expect_names(elsewhere, 2, "-,Bea,-");
    expect_names(NULL, 0, "-,-,-");
    /* What counts now is what the names are taken from, and a name may be taken away. */
    st = named();
    diarize(st, 5);
    assert_ok(store_settled(st, 5, speakers, 3, same, 4, &e), e);
    assert_string_equal(text_of(WHO), "Bea,Ana,Bea");
    name(st, 5, "");
    assert_string_equal(text_of(WHO), "Bea,SPEAKER_01,Bea");
    job_add1(st, job_begin(st, &(struct store_stage){"diarize", "p", "/m", "ff", "{}", NULL}),
             "/a/1.wav", "", 1);
    diarize(st, 6);
    settle(st, 6);
    assert_string_equal(names_of(6), "Bea,-,Cid");
    catalog_close(st);
}

static void names_outlive_a_longer_recording(void **state)
{
    struct store *st = named();
    struct err e = {0};

    (void)state;
    name(st, 1, "");
    name(st, 3, "");
    assert_ok(store_task_total(st, 3, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id = 3"), 0);
    assert_string_equal(names_of(3), "-,Ana,-"); /* all of them, to tell who is who */
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    assert_int_equal(count_of("SELECT count(*) FROM turn WHERE task_id = 3"), 4);
    voices_put(st, 3, 0);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a"});
    assert_ok(store_drop_cancelled(st, &e), e);
    assert_string_equal(names_of(3), "-,Ana,-");
    catalog_audit();
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 3, seq);
    settle(st, 3);
    assert_string_equal(names_of(3), "-,Ana,-");
    assert_int_equal(count_of("SELECT count(*) FROM turn WHERE task_id = 3"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    catalog_close(st);
}

/* A recording that is longer than was thought is diarized again as a whole. */
static void a_longer_recording_is_settled_again(void **state)
{
    struct store *st = filled();
    struct err e = {0};

    (void)state;
    transcribe(st, 1);
    diarize(st, 3);
    settle(st, 3);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    assert_ok(store_task_total(st, 3, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id = 3"), 0);
    assert_string_equal(text_of(WHO), "-,-,-");
    assert_string_equal(text_of(WHO_SAYS), "-,-,-,-,-,-");
    assert_int_equal(runnable_of(st, 2), 2);
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 3, seq);
    assert_int_equal(unsettled(st, 2, NULL), 1);
    /* Still longer, before it was settled: the voices are kept. */
    assert_ok(store_task_total(st, 3, 4, &e), e);
    assert_int_equal(unsettled(st, 2, NULL), 0);
    voices_put(st, 3, 3);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 4);
    settle(st, 3);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    catalog_close(st);
}

static void what_is_deleted_leaves_nothing_behind(void **state)
{
    struct store *st = filled();

    (void)state;
    transcribe(st, 1);
    diarize(st, 3);
    settle(st, 3);
    voices_put(st, 4, 0);
    catalog_close(st);
    run_sql("PRAGMA foreign_keys = ON; DELETE FROM speaker WHERE label = 'SPEAKER_01'");
    assert_string_equal(text_of(WHO), "SPEAKER_00,-,SPEAKER_00");
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 3);
    run_sql("PRAGMA foreign_keys = ON; DELETE FROM shard WHERE task_id > 2");
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM word WHERE speaker_id IS NOT NULL"), 0);
    catalog_close(catalog_open(STORE_WRITE));
}

/* ----------------------------------------------------------------------- waiting for a source */

static void text_waits_for_its_transcription(void **state)
{
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_text);
    struct request_reply r = job_add1(st, job, "/a/1.wav", "", 1);

    (void)state;
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
static void a_source_that_is_to_be_kept(void **state)
{
    const struct store_found f[] = {found_at("/a/1.wav", "", 1), found_at("/a/2.wav", "", 2),
                                    found_at("/a/3.wav", "", 3)};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);
    struct request rq = {.type = REQUEST_ENQUEUE_ADD, .found = f, .count = 3, .keep_source = true};
    struct request_reply r;

    (void)state;
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

static void a_source_that_goes_on_takes_its_followers_back(void **state)
{
    const float v[] = {0.6f, 0.8f};
    const struct store_vector x = {0, 3500, "one two", v, 2};
    const struct store_shard_result r = {
        .task_id = 2, .end_ms = 60000, .vectors = &x, .vector_count = 1};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_text);

    (void)state;
    job_add1(st, job, "/a/1.wav", "", 1);
    transcribe(st, 1);
    assert_ok(store_shard_done(st, &r, &e), e);
    assert_ok(store_task_total(st, 2, 1, &e), e);
    assert_int_equal(totals(st).tasks_done, 2);
    assert_int_equal(count_of("SELECT embeddings FROM catalog_total"), 1);
    assert_int_equal(count_of("SELECT embedding_edits FROM catalog_total"), 0);
    assert_ok(store_task_total(st, 1, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 0);
    assert_int_equal(count_of("SELECT embedding_edits FROM catalog_total"), 1);
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

static void sounds_and_vectors(void **state)
{
    const struct store_sound heard[] = {{1000, 4000, 67, "Applause", 0.875},
                                        {3700000, 3701500, 137, "Music", 1.0}};
    const float v[] = {0.6f, 0.8f}, w[] = {1, 0};
    const struct store_vector x[] = {{0, 900, "first", v, 2}, {900, 1000, NULL, w, 2}};
    struct store *st = filled();
    struct err e = {0};

    (void)state;
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
    struct store_passage *p = NULL;
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

static void neighbours_make_passages(void **state)
{
    static const struct store_turn all[] = {{0, 3600, 0}, {3600, 60000, 1}};
    struct store *st = catalog_new();
    struct store_passage *p = NULL;
    struct err e = {0};
    size_t n = 0;
    int64_t job = job_begin(st, &stage_text);

    (void)state;
    job_add1(st, job, "/a/1.wav", "", 1);
    assert_int_equal(store_passages(st, 2, 100, &p, &n, &e), ERR_INPUT); /* not done */
    shard_put(st, 1, 0,
              (const char *[]){" \xC3\xBC"
                               "ber",
                               "", "zwei ", "three"},
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
    assert_ok(store_settled(st, 3, speakers, 2, all, 2, &e), e);
    /* Who speaks does not matter: it may be known, or not yet. */
    assert_string_equal(passages(st, 2, 100), "0-7500 \xC3\xBC"
                                              "ber zwei three|30000-33500 after a pause end|");
    catalog_close(st);
}

/* What no worker would take, of a catalog that may come from anybody. */
static void passages_can_be_sent(void **state)
{
    struct store *st = catalog_new();
    struct store_passage *p = NULL;
    struct err e = {0};
    size_t n = 0;
    int64_t job = job_begin(st, &stage_text);

    (void)state;
    job_add1(st, job, "/a/1.wav", "", 1);
    transcribe(st, 1);
    run_sql("UPDATE segment SET text = CAST(x'61FF62' AS TEXT) WHERE segment_id = 1;"
            "UPDATE segment SET text = 'x' || replace(hex(zeroblob(40000)), '00', '\xC3\xBC') "
            "WHERE segment_id = 2");
    assert_ok(store_passages(st, 2, UINT32_MAX, &p, &n, &e), e);
    assert_int_equal(n, 4);
    assert_string_equal(p[0].text, "a\xEF\xBF\xBD"
                                   "b");
    assert_int_equal(strlen(p[1].text), 59999); /* 60000 would end within a character */
    assert_int_equal(strlen(p[2].text), 80001 - 59999);
    assert_true(utf8_valid(p[1].text, 59999) && utf8_valid(p[2].text, 80001 - 59999));
    assert_string_equal(p[3].text, "three");
    store_passages_free(p, n);
    run_sql("UPDATE segment SET end_ms = 4503599627370497 WHERE segment_id = 1");
    assert_int_equal(store_passages(st, 2, 100, &p, &n, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "impossible times"));
    run_sql("UPDATE segment SET end_ms = 4503599627370496 WHERE segment_id = 1");
    assert_ok(store_passages(st, 2, 100, &p, &n, &e), e);
    store_passages_free(p, n);
    catalog_close(st);
}

/* --------------------------------------------------------------------------------- migrating */

/* A catalog as an older schema left it, with results, and a speaker that somebody put there. */
static void make_schema(int version)
{
    char mark[96];

    catalog_remove();
    for (int i = 0; i < version; i++)
        run_sql(migrations[i].sql);
    snprintf(mark, sizeof(mark), "PRAGMA user_version = %d", version);
    run_sql(mark);
    run_sql(
        "PRAGMA journal_mode = WAL; PRAGMA application_id = 0x4E534854;"
        "INSERT INTO stage VALUES (1, 'transcribe', 'nano', '/m', 'aa11', '{\"beam\":1}', '2026');"
        "INSERT INTO job (job_id, stage_id, language, command, created_at) "
        "VALUES (1, 1, '', 'nightshift enqueue /a', '2026');"
        "INSERT INTO media (media_id, size_bytes, fingerprint, created_at, duration_ms) "
        "VALUES (1, 9, zeroblob(16), '2026', 60000), (2, 8, zeroblob(16), '2026', NULL);"
        "INSERT INTO place (media_id, path, path_raw, member, member_raw, file_size_bytes, "
        "mtime_ns, inode, device, state, job_id, seen_job) "
        "VALUES (1, '/a/old.wav', CAST('/a/old.wav' AS BLOB), '', x'', 9, 1, 1, 1, 'present', "
        "1, 1), (2, '/a/new.wav', CAST('/a/new.wav' AS BLOB), '', x'', 8, 1, 2, 1, 'present', "
        "1, 1);"
        "INSERT INTO task (task_id, media_id, stage_id, job_id, language, retry_at) "
        "VALUES (1, 1, 1, 1, '', '2026-01-01T00:00:00.000Z'), (2, 2, 1, 1, '', NULL);"
        "INSERT INTO shard VALUES (1, 0, 0, 30000, 'en', 0.9, 1, 12, 'cpu', '2026');"
        "INSERT INTO speaker (speaker_id, media_id, label) VALUES (1, 1, 'somebody');"
        "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, speaker_id) "
        "VALUES (1, 0, 0, 0, 900, 'from before', 'en', 1);");
    if (version >= 3)
        run_sql("INSERT INTO word VALUES (1, 0, 0, 500, ' from', 0.5), (1, 1, 500, 900, ' before', "
                "0.5)");
}

static int found_one(void *arg, const struct read_segment *row)
{
    assert_string_equal(row->snippet, "from [before]");
    assert_string_equal(row->speaker, "");
    ++*(int *)arg;
    return 0;
}

static void old_catalogs_migrate(void **state)
{
    const struct read_search search = {.text = "before"};
    struct err e = {0};

    (void)state;
    for (int version = 1; version <= 3; version++) {
        struct store *st;
        int found = 0;
        int64_t job;

        make_schema(version);
        st = catalog_open(STORE_WRITE);
        assert_int_equal(store_schema_version(st), migrations_last);
        assert_ok(read_search(st, &search, found_one, &found, &e), e);
        assert_int_equal(found, 1);
        assert_int_equal(runnable_of(st, 1), 2);
        assert_int_equal(totals(st).tasks_unknown, 1);
        assert_int_equal(count_of("SELECT length(value) FROM setting WHERE name = 'identity'"), 32);
        /* What is new works on what is old. */
        transcribe(st, 1);
        job = job_begin(st, &stage_voices);
        job_add1(st, job, "/a/old.wav", "", 77); /* replaced by other content: task 3 */
        diarize(st, 3);
        settle(st, 3);
        assert_int_equal(count_of("SELECT count(*) FROM speakers WHERE path = '/a/old.wav'"), 3);
        assert_int_equal(count_of("SELECT count(*) FROM word"), version >= 3 ? 4 : 2);
        catalog_close(st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shards_are_not_the_end),
        cmocka_unit_test(a_failed_settling_is_tried_again),
        cmocka_unit_test(what_comes_too_late_is_ignored),
        cmocka_unit_test(cancelled_ones_stay_so_and_failed_ones_go_on),
        cmocka_unit_test(what_was_heard_for_cancelled_ones_goes),
        cmocka_unit_test(voices_come_back),
        cmocka_unit_test(impossible_things_are_refused),
        cmocka_unit_test(whichever_comes_last),
        cmocka_unit_test(words_have_speakers_of_their_own),
        cmocka_unit_test(the_newest_diarization_counts),
        cmocka_unit_test(nobody_speaks),
        cmocka_unit_test(names_are_given_and_taken),
        cmocka_unit_test(names_go_to_the_next_diarization),
        cmocka_unit_test(names_outlive_a_longer_recording),
        cmocka_unit_test(a_longer_recording_is_settled_again),
        cmocka_unit_test(what_is_deleted_leaves_nothing_behind),
        cmocka_unit_test(text_waits_for_its_transcription),
        cmocka_unit_test(a_source_that_is_to_be_kept),
        cmocka_unit_test(a_source_that_goes_on_takes_its_followers_back),
        cmocka_unit_test(sounds_and_vectors),
        cmocka_unit_test(neighbours_make_passages),
        cmocka_unit_test(passages_can_be_sent),
        cmocka_unit_test(old_catalogs_migrate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
