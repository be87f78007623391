/* Facts of a recording in any order: what people read of it is the same.
 *
 * $NIGHTSHIFT_SEED and $NIGHTSHIFT_HISTORIES try others, and more. */
#include "tests/common/random.h"
#include "tests/unit/store/corrections_fixture.h"

/* Two transcriptions of one recording in three shards each, two diarizations, and what is current
 * in the end is the second of each. */
#define SHARDS 3
#define SHARD_MS 300000

static const struct line said[2][SHARDS][3] = {
    {{{0, 5600, "do you want to come yes I will come gladly then let us go", true},
      {8000, 9600, "nobody else says this", true},
      {10000, 12000, "the Lisboa boat is late", false}},
     {{300000, 303000, "she never went back to the island", true},
      {304000, 307000, "because of the rain and the wind", true},
      {309000, 310000, "yes", true}},
     {{600000, 604000, "and that was the end of the harbour", true},
      {605000, 607000, "good night Ana", true},
      {609000, 611000, "good night", false}}},
    {{{0, 5500, "Do you want to come? Yes, I will come gladly. Then let's go.", true},
      {8000, 9600, "Nobody else says this.", true},
      {10000, 12000, "The Lisbon boat is late.", true}},
     {{300000, 303000, "She never went back to the island.", true},
      {304000, 307000, "Because of the rain, and the wind.", true},
      {309000, 310000, "Yes.", true}},
     {{600000, 604000, "And that was the end of the harbor.", true},
      {605000, 607000, "Good night, Ana.", true},
      {609000, 611000, "Good night.", true}}}};

static const struct result_turn spoken[2][6] = {{{0, 2000, 0},
                                                 {2000, 4050, 1},
                                                 {4050, 9600, 2},
                                                 {300000, 305000, 0},
                                                 {305000, 310000, 1},
                                                 {600000, 611000, 2}},
                                                {{0, 2400, 1},
                                                 {2450, 12000, 0},
                                                 {300000, 304500, 1},
                                                 {304500, 311000, 0},
                                                 {600000, 606000, 1},
                                                 {606000, 611000, 2}}};

static const struct store_stage *const hears[2] = {&stage_nano, &stage_tiny};
static const struct store_stage *const tells[2] = {&stage_voices, &stage_voices2};

enum kind { SHARD, TOLD, CORRECTED };

struct event {
    enum kind kind;
    int which, seq; /* which: of the two stages, or the change */
};

/* What people change, of the first transcription's words: found again in the second. */
static const struct {
    int start_ms;
    const char *from, *to;
} changes[] = {{800, "want", "wish"},
               {8000, "nobody", "no one"},
               {10500, "Lisboa", "Setúbal"},
               {3600, "gladly", "at once"}};

static int64_t task_of(const struct store_stage *stage)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT task_id FROM task t JOIN stage s USING (stage_id) WHERE s.name = '%s' "
             "AND s.model_hash = '%s' AND s.params = '%s'",
             stage->name, stage->model_hash, stage->params_json);
    return count_of(sql);
}

/* As somebody made it who read the first transcription. The request publishes it. */
static void put_correction(struct store *st, int number)
{
    char sql[600];

    snprintf(sql, sizeof(sql),
             "INSERT INTO correction (correction_id, media_id, start_ms, end_ms, said, meant, "
             "before, after, confirms, made_by, made_at, source, state) VALUES (%d, 1, %d, %d, "
             "'%s', '%s', '', '', 0, 'ana', '2026', 'a test', 'conflict'); "
             "INSERT OR IGNORE INTO reading_due VALUES (1)",
             number + 1, changes[number].start_ms, changes[number].start_ms + 300,
             changes[number].from, changes[number].to);
    run_sql(sql);
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
}

static void happen(struct store *st, const struct event *e)
{
    struct err err = {0};
    int64_t task;

    switch (e->kind) {
    case SHARD:
        task = task_of(hears[e->which]);
        put_lines(st, task, (uint32_t)e->seq, said[e->which][e->seq], 3);
        assert_ok(store_task_total(st, task, SHARDS, &err), err);
        return;
    case TOLD:
        task = task_of(tells[e->which]);
        voices_put(st, task, 0);
        assert_ok(store_task_total(st, task, 1, &err), err);
        assert_ok(store_finalized(st, task, PEOPLE(3, spoken[e->which], 6), &err), err);
        return;
    case CORRECTED:
        put_correction(st, e->which);
        return;
    }
}

static struct store *asked(void)
{
    struct store *st = catalog_new();

    for (int i = 0; i < 2; i++) {
        ask(st, hears[i]);
        ask(st, tells[i]);
    }
    return st;
}

/* All that people read of the recording, without numbers of rows; the caller's. */
static char *reading_of(void)
{
    static const char sql[] =
        "SELECT group_concat(x, char(10)) FROM (SELECT json_array(t.stage_id, g.seq, g.idx, "
        "g.part, g.start_ms, g.end_ms, g.text, g.heard, g.avg_logprob, g.reason, "
        "g.language, g.attempts, g.temperature, g.no_speech_prob, g.speech_prob, g.source, "
        "(SELECT label FROM speaker k WHERE k.speaker_id = g.speaker_id), (SELECT json_group_array("
        "json_array(w.start_ms, w.end_ms, w.text, w.probability, (SELECT label FROM speaker k "
        "WHERE k.speaker_id = w.speaker_id))) FROM (SELECT * FROM word w WHERE w.segment_id = "
        "g.segment_id ORDER BY w.idx) w), (SELECT json_group_array(json_array(a.correction_id, "
        "a.word, a.words)) FROM (SELECT * FROM correction_at a WHERE a.segment_id = g.segment_id "
        "ORDER BY a.correction_id) a)) AS x FROM segment g JOIN task t USING (task_id) UNION ALL "
        "SELECT json_array(correction_id, state) FROM correction ORDER BY 1)";
    sqlite3_stmt *stmt = own_row(sql);
    char *text = strdup((const char *)sqlite3_column_text(stmt, 0));

    own_done(stmt);
    assert_non_null(text);
    return text;
}

static size_t all_events(struct event *ret)
{
    size_t n = 0;

    for (int which = 0; which < 2; which++) {
        for (int seq = 0; seq < SHARDS; seq++)
            ret[n++] = (struct event){SHARD, which, seq};
        ret[n++] = (struct event){TOLD, which, 0};
    }
    for (int i = 0; i < (int)(sizeof(changes) / sizeof(changes[0])); i++)
        ret[n++] = (struct event){CORRECTED, i, 0};
    return n;
}

/* The order of Fisher and Yates. */
static void shuffle(struct event *list, size_t n, uint64_t *r)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = random_below(r, (uint32_t)i);
        struct event held = list[i - 1];

        list[i - 1] = list[k];
        list[k] = held;
    }
}

static void pin(struct store *st, int64_t stage_id)
{
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = stage_id});
}

/* The first model's results count for a while, and a diarization is removed and made again. */
static void there_and_back(const char *was)
{
    struct store *st = catalog_open(STORE_WRITE);
    char *is;

    pin(st, 1);
    is = reading_of();
    assert_string_not_equal(is, was);
    free(is);
    pin(st, 0);
    catalog_close(st);
    is = reading_of();
    assert_string_equal(is, was);
    free(is);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

TEST(the_order_of_facts_makes_no_difference)
{
    uint64_t seed = number_of("NIGHTSHIFT_SEED", 1), more = number_of("NIGHTSHIFT_HISTORIES", 12);
    struct event list[32];
    size_t n = all_events(list);
    char *first = NULL;

    for (uint64_t i = 0; i < more; i++) {
        uint64_t r = seed + i;
        struct store *st = asked();
        char *is;

        if (i > 0)
            shuffle(list, n, &r);
        for (size_t k = 0; k < n; k++) {
            if (random_below(&r, 4) == 0) { /* the program was killed, or another night begins */
                store_close(st);
                st = catalog_open(STORE_WRITE);
            }
            happen(st, &list[k]);
        }
        catalog_close(st);
        is = reading_of();
        there_and_back(is);
        if (first && strcmp(is, first) != 0)
            fail_msg("seed %d reads otherwise:\n%s\nis not\n%s", (int)(seed + i), is, first);
        if (!first)
            first = strdup(is);
        free(is);
    }
    assert_non_null(strstr(first, "wish"));
    assert_non_null(strstr(first, "conflict")); /* the second model hears another town */
    free(first);
}

TEST_MAIN(NULL, NULL)
