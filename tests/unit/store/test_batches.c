/* New segments are indexed at the end of their transaction. That the index equals its table is
 * looked at wherever a catalog is closed (fts_check). */
#include "store/db.h"
#include "store/full_text.h"
#include "store/read/read.h"
#include "tests/common/random.h"
#include "tests/unit/store/stages.h"

#define MATCHES(word) \
    count_of("SELECT count(*) FROM segment_fts WHERE segment_fts MATCH '" word "'")
#define SEGMENTS \
    count_of("SELECT count(*) FROM segment g JOIN task t USING (task_id) WHERE t.current")

static void begin(struct store *st)
{
    struct err e = {0};

    assert_ok(store_begin(st, &e), e);
}

static void commit(struct store *st)
{
    struct err e = {0};

    assert_ok(store_commit(st, &e), e);
}

static void total(struct store *st, int64_t task, uint32_t shards)
{
    struct err e = {0};

    assert_ok(store_task_total(st, task, shards, &e), e);
}

static struct store *two_recordings(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    return st;
}

TEST(a_commit_makes_what_is_due)
{
    struct store *st = two_recordings();

    begin(st);
    shard_put(st, 1, 0, (const char *const[]){"harbour", "market"}, 2);
    total(st, 1, 1);
    assert_int_equal(count_of("SELECT done FROM archive"), 0);
    commit(st);
    assert_int_equal(MATCHES("market"), 1);
    assert_int_equal(SEGMENTS, 2);
    assert_int_equal(count_of("SELECT done FROM archive"), 1);
    assert_string_equal(text_of("SELECT state FROM recordings WHERE media_id = 1"), "done");
    catalog_close(st);
}

TEST(nothing_is_due_after_a_rollback)
{
    struct store *st = two_recordings();

    begin(st);
    shard_put(st, 1, 0, (const char *const[]){"harbour"}, 1);
    store_rollback(st);
    assert_int_equal(MATCHES("harbour"), 0);
    begin(st);
    shard_put(st, 1, 0, (const char *const[]){"market"}, 1);
    commit(st);
    assert_int_equal(MATCHES("market"), 1);
    assert_int_equal(SEGMENTS, 1);
    catalog_close(st);
}

/* A refused change had begun to add segments; then a recording that has the highest numbers is
 * parted elsewhere, and its new segments get numbers of those that went. */
TEST(an_undone_change_leaves_the_index)
{
    static const struct result_word words[] = {
        {0, 900, "alpha", 1}, {1000, 1900, " beta", 1}, {2000, 2900, " gamma", 1}};
    static const struct result_segment said = {.end_ms = 3000,
                                               .text = "alpha beta gamma",
                                               .language = "en",
                                               .speech_prob = -1,
                                               .words = words,
                                               .word_count = 3};
    static const struct result_turn first[] = {{0, 950, 0}, {950, 3000, 1}},
                                    then[] = {{0, 1950, 0}, {1950, 3000, 1}};
    struct store *st = filled();
    struct err e = {0}, refused = {0};

    shard_done(st, 1, 0, 3000, &said, 1);
    diarize(st, 3);
    assert_ok(store_finalized(st, 3, PEOPLE(2, first, 2), &e), e);
    assert_int_equal(MATCHES("gamma"), 1);
    run_sql("UPDATE task SET state = 'pending', waits = 'settling' WHERE task_id = 3");
    assert_ok(store_begin_apart(st, &e), e);
    assert_ok(db_enter(st, &e), e);
    assert_ok(text_index_begin(st, &e), e);
    err_set(&refused, ERR_INPUT, "refused");
    assert_int_equal(db_leave(st, ERR_INPUT, &refused), ERR_INPUT);
    assert_ok(store_finalized(st, 3, PEOPLE(2, then, 2), &e), e);
    commit(st);
    assert_int_equal(MATCHES("gamma"), 1);
    assert_int_equal(MATCHES("alpha AND beta"), 1);
    catalog_close(st);
}

/* Any order of what a run and people do, in batches of any length. */
static void do_something(struct store *st, uint64_t *r, int64_t tasks, struct err *e)
{
    static const char *const words[] = {"harbour", "market", "river"};
    const int64_t task = 1 + random_below(r, (uint32_t)tasks), media = 1 + random_below(r, 12);
    const struct store_media_info info = {
        .duration_ms = (int64_t)random_below(r, 4) * 30000, .container = "wav", .codec = "pcm"};

    switch (random_below(r, 7)) {
    case 0:
        assert_ok(store_media(st, media, &info, NULL, e), *e);
        break;
    case 1:
        assert_ok(
            store_media(st, media, NULL,
                        &(struct store_media_end){info.duration_ms, NULL,
                                                  random_below(r, 4) ? "" : "cut", NULL, NULL, 0},
                        e),
            *e);
        break;
    case 2:
        total(st, task, 1 + random_below(r, 3));
        break;
    case 3:
        assert_ok(store_task_failed(st, task, ERR_INPUT, "no", random_below(r, 2) ? -1 : 5000, e),
                  *e);
        break;
    default:
        shard_put(st, task, random_below(r, 3), words, random_below(r, 4));
        break;
    }
}

TEST(sums_equal_counts_after_anything)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        static const struct store_stage *const stages[] = {&stage_nano, &stage_tiny, &stage_voices};
        struct store *st = catalog_new();
        struct err e = {0};
        uint64_t r = seed;
        char path[32];
        int64_t tasks;

        for (int s = 0; s < 3; s++) {
            int64_t job = job_begin(st, stages[s]);

            for (int i = 1; i <= 12; i++) {
                snprintf(path, sizeof(path), "/a/%d.wav", i);
                if (random_below(&r, 4))
                    job_add1(st, job, path, "", (uint64_t)i);
            }
            job_end(st, job, "/a");
        }
        tasks = count_of("SELECT max(task_id) FROM task");
        for (int batch = 0; batch < 12; batch++) {
            const bool together = random_below(&r, 4) > 0;

            if (together)
                begin(st);
            for (uint32_t i = random_below(&r, 60); i > 0; i--)
                do_something(st, &r, tasks, &e);
            if (together && random_below(&r, 6))
                commit(st);
            else
                store_rollback(st);
        }
        print_message("seed %llu: %lld done\n", (unsigned long long)seed,
                      (long long)count_of("SELECT count(*) FROM task WHERE state = 'done'"));
        apply_ok(st, &(struct request){.type = REQUEST_FORGET});
        catalog_close(st);
    }
}

/* Of six recordings, whose first tasks transcribe: a shard with the number of shards, and a
 * recording's beginning with its end: in one call each, or in two. */
static void say_both(struct store *st, uint64_t *r, int64_t tasks, bool at_once)
{
    const int64_t task = 1 + random_below(r, (uint32_t)tasks), media = 1 + random_below(r, 6);
    const uint32_t seq = random_below(r, 3), shards = 1 + random_below(r, 3),
                   what = random_below(r, 8);
    const struct result_segment said = {.end_ms = 900, .text = "harbour"};
    const struct store_media_info info = {.duration_ms = (int64_t)random_below(r, 3) * 30000 - 1,
                                          .sample_rate_hz = 8000 * (1 + random_below(r, 2)),
                                          .container = "wav",
                                          .codec = "pcm"};
    const uint8_t hash[16] = {(uint8_t)media, (uint8_t)random_below(r, 2)};
    const struct store_media_end end = {(int64_t)random_below(r, 3) * 30000,
                                        random_below(r, 2) ? hash : NULL,
                                        (const char *const[]){NULL, "", "cut"}[random_below(r, 3)],
                                        NULL,
                                        NULL,
                                        0};
    const struct store_shard_result result = {.task_id = task,
                                              .seq = seq,
                                              .start_ms = seq * 30000,
                                              .end_ms = (seq + 1) * 30000,
                                              .segments = &said,
                                              .segment_count = random_below(r, 2) && task <= 6,
                                              .shards = at_once ? shards : 0};
    struct err e = {0};

    if (what < 2) {
        assert_ok(store_media(st, media, &info, at_once ? &end : NULL, &e), e);
        if (!at_once)
            assert_ok(store_media(st, media, NULL, &end, &e), e);
    } else if (what == 2) {
        assert_ok(store_task_failed(st, task, ERR_INPUT, "no", -1, &e), e);
    } else {
        assert_ok(store_shard_done(st, &result, &e), e);
        if (!at_once)
            total(st, task, shards);
    }
}

static void say_all(uint64_t seed, bool at_once, char *tasks_said, char *media_said, size_t cap)
{
    static const struct store_stage *const stages[] = {&stage_nano, &stage_voices, &stage_text};
    struct store *st = catalog_new();
    uint64_t r = seed;
    int64_t tasks;

    for (int s = 0; s < 3; s++) {
        int64_t job = job_begin(st, stages[s]);

        for (uint64_t i = 1; i <= 6; i++)
            job_add1(st, job, (char[]){'/', (char)('a' + i), 0}, "", i);
        job_end(st, job, "/");
    }
    tasks = count_of("SELECT max(task_id) FROM task");
    for (uint32_t i = random_below(&r, 90); i > 0; i--)
        say_both(st, &r, tasks, at_once);
    snprintf(
        tasks_said, cap, "%s",
        text_of("SELECT group_concat(concat) FROM (SELECT state || ifnull(waits, '') || "
                "ifnull(shards_total, '?') || shards_done || (settled_at IS NULL) || silent || "
                "attempts || ifnull(error, '') AS concat FROM task ORDER BY task_id)"));
    snprintf(
        media_said, cap, "%s",
        text_of("SELECT group_concat((SELECT r.state FROM recordings r "
                "WHERE r.media_id = media.media_id) || ifnull(duration_ms, '?') || "
                "ifnull(sample_rate_hz, '?') || (decoded_at IS NULL) || ifnull(damage, '-') || "
                "ifnull(hex(content_hash), '-')) || (SELECT count(*) FROM event) FROM media"));
    catalog_close(st);
}

TEST(together_is_as_apart)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        char said[4][1024];

        say_all(seed, true, said[0], said[1], sizeof(said[0]));
        say_all(seed, false, said[2], said[3], sizeof(said[0]));
        assert_string_equal(said[0], said[2]);
        assert_string_equal(said[1], said[3]);
    }
}

TEST_MAIN(NULL, NULL)
