/* How a recording is dealt out to shards, and how its audio waits for the engine. */
#include "tests/common/random.h"
#include "tests/common/test.h"

#include <limits.h>

#include "workers/audio/cut.h"
#include "workers/pass/faults.h"
#include "workers/pass/pcm.h"
#include "workers/pass/split.h"

#define RATE 16000
#define SHARDS_MAX 64

/* What the sink has seen: each shard's bounds, and all its samples. */
struct seen {
    uint32_t count;
    uint32_t seq[SHARDS_MAX];
    int64_t from[SHARDS_MAX], to[SHARDS_MAX];
    int16_t *audio; /* at its place in the recording */
    int64_t at;     /* of the next sample */
    int64_t opens, closes;
    uint32_t stop_at; /* refuses to open this shard */
};

static int on_open(void *arg, uint32_t shard, int64_t at, struct err *err)
{
    struct seen *s = arg;

    assert_int_equal(s->opens, s->closes);
    if (shard == s->stop_at)
        return err_set(err, ERR_EMPTY, "enough");
    s->opens++;
    s->seq[s->count] = shard;
    s->from[s->count] = s->at = at;
    return 0;
}

static int on_audio(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    struct seen *s = arg;

    (void)err;
    assert_int_equal(s->opens, s->closes + 1);
    memcpy(s->audio + s->at, pcm, n * sizeof(*pcm));
    s->at += (int64_t)n;
    return 0;
}

static int on_close(void *arg, int64_t at, struct err *err)
{
    struct seen *s = arg;

    (void)err;
    assert_int_equal(at, s->at);
    s->to[s->count++] = at;
    s->closes++;
    return 0;
}

/* Noise with a quiet second now and then, so that cuts have somewhere to go. */
static int16_t *recording(int64_t total, uint32_t seed)
{
    int16_t *pcm = malloc((size_t)(total ? total : 1) * sizeof(*pcm));
    uint32_t x = seed;

    for (int64_t i = 0; i < total; i++) {
        bool quiet = (i / RATE) % 7 == seed % 7;

        x = x * 1664525 + 1013904223;
        pcm[i] = (int16_t)((int32_t)(x >> 16) % (quiet ? 3 : 9000));
    }
    return pcm;
}

static void split(const int16_t *pcm, int64_t total, uint32_t shard_ms, uint32_t first,
                  size_t piece, struct seen *seen)
{
    struct split_sink sink = {on_open, on_audio, on_close, seen};
    int64_t from = shard_first_sample(shard_ms, first);
    struct splitter *s = NULL;
    struct err e = {0};
    int rc = 0;

    seen->audio = calloc((size_t)total + 1, sizeof(*seen->audio));
    assert_ok(splitter_new(shard_ms, first, sink, &s, &e), e);
    for (int64_t at = from; rc == 0 && at < total; at += (int64_t)piece) {
        size_t n = total - at < (int64_t)piece ? (size_t)(total - at) : piece;

        rc = splitter_feed(s, pcm + at, n, at, &e);
    }
    if (rc == 0)
        rc = splitter_end(s, total, &e);
    assert_true(rc == 0 || (rc == ERR_EMPTY && seen->stop_at != UINT32_MAX));
    splitter_free(s);
}

/* Every sample goes to exactly one shard, and there are as many as the rule says. */
static void check_whole(int64_t total, uint32_t shard_ms, uint32_t seed)
{
    int16_t *pcm = recording(total, seed);
    struct seen seen = {.stop_at = UINT32_MAX};

    split(pcm, total, shard_ms, 0, 4001, &seen);
    assert_int_equal(seen.count, shard_count(shard_ms, total));
    assert_int_equal(seen.from[0], 0);
    assert_int_equal(seen.to[seen.count - 1], total);
    for (uint32_t k = 0; k < seen.count; k++) {
        assert_int_equal(seen.seq[k], k);
        assert_true(total == 0 || seen.to[k] > seen.from[k]);
        if (k) {
            int64_t low, high;

            shard_stretch(shard_ms, k, &low, &high);
            assert_int_equal(seen.from[k], seen.to[k - 1]);
            assert_true(seen.from[k] >= low && seen.from[k] < high);
        }
    }
    assert_memory_equal(seen.audio, pcm, (size_t)total * sizeof(*pcm));
    free(seen.audio);
    free(pcm);
}

TEST(every_sample_goes_to_one_shard)
{
    const int64_t nominal = 20 * RATE;

    check_whole(0, 20000, 1);
    check_whole(1, 20000, 1);
    check_whole(nominal - 1, 20000, 1);
    check_whole(nominal, 20000, 1);     /* still one shard */
    check_whole(nominal + 1, 20000, 1); /* two, whatever the second holds */
    check_whole(nominal + 4 * RATE, 20000, 2);
    check_whole(nominal + 5 * RATE, 20000, 3); /* the stretch ends with the recording */
    check_whole(95 * RATE + 123, 20000, 4);
    check_whole(10 * RATE + 7, 1001, 5); /* boundaries that are no frames */
}

TEST(counts_follow_the_duration)
{
    assert_int_equal(shard_count(300000, 0), 1);
    assert_int_equal(shard_count(300000, 300 * RATE), 1);
    assert_int_equal(shard_count(300000, 300 * RATE + 1), 2);
    assert_int_equal(shard_count(1000, INT64_MAX), UINT32_MAX);
    for (uint32_t k = 1; k < 50; k++) {
        assert_int_equal(shard_count(20000, shard_boundary(20000, k)), k);
        assert_int_equal(shard_count(20000, shard_boundary(20000, k) + 1), k + 1);
    }
}

/* Neighbouring stretches must never meet, or cuts could change their order. */
TEST(stretches_do_not_meet)
{
    static const uint32_t lengths[] = {1000, 1001, 1019, 20000, 59999, 60000, 300000, 86400000};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (uint32_t k = 1; k < 100; k++) {
            int64_t from, to, next_from, next_to;

            shard_stretch(lengths[i], k, &from, &to);
            shard_stretch(lengths[i], k + 1, &next_from, &next_to);
            assert_true(from > 0 && from < to && to <= next_from);
            assert_int_equal(from % CUT_FRAME_SAMPLES, 0);
            assert_true(from < shard_boundary(lengths[i], k));
            assert_true(to - from <= 2 * CUT_REACH_MS * (RATE / 1000));
        }
}

/* Begun anywhere, in pieces of any size: the same cuts and the same audio. */
TEST(a_later_run_finds_the_same_cuts)
{
    static const size_t pieces[] = {1, 320, 4096, 65537, 10000000};
    const int64_t total = 130 * RATE + 77;
    int16_t *pcm = recording(total, 11);
    struct seen whole = {.stop_at = UINT32_MAX};

    split(pcm, total, 20000, 0, 8192, &whole);
    assert_int_equal(whole.count, 7);
    for (uint32_t first = 0; first < 9; first++)
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            struct seen part = {.stop_at = UINT32_MAX};

            split(pcm, total, 20000, first, pieces[i], &part);
            assert_int_equal(part.count, first < 7 ? 7 - first : 0);
            for (uint32_t k = 0; k < part.count; k++) {
                assert_int_equal(part.seq[k], first + k);
                assert_int_equal(part.from[k], whole.from[first + k]);
                assert_int_equal(part.to[k], whole.to[first + k]);
            }
            if (part.count)
                assert_memory_equal(part.audio + part.from[0], pcm + part.from[0],
                                    (size_t)(total - part.from[0]) * sizeof(*pcm));
            free(part.audio);
        }
    free(whole.audio);
    free(pcm);
}

TEST(room_for_a_shard_in_each_slot)
{
    const uint64_t five_minutes = UINT64_C(300) * RATE * sizeof(int16_t);
    struct pcm_pool pool = {.budget_bytes = PCM_BYTES_LEAST};

    pcm_pool_widen(&pool, 1, 1000);
    assert_int_equal(pool.budget_bytes, PCM_BYTES_LEAST);
    pcm_pool_widen(&pool, 16, 300000);
    assert_int_equal(pool.budget_bytes, 18 * five_minutes);
    pcm_pool_widen(&pool, 1, 300000); /* the others are at work */
    assert_int_equal(pool.budget_bytes, 18 * five_minutes);
    pcm_pool_widen(&pool, UINT32_MAX, UINT32_MAX);
    assert_int_equal(pool.budget_bytes, PCM_BYTES_MOST);
}

TEST(a_run_stops_when_nobody_wants_more)
{
    const int64_t total = 130 * RATE;
    int16_t *pcm = recording(total, 12);
    struct seen seen = {.stop_at = 3};

    split(pcm, total, 20000, 1, 1000, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.seq[1], 2);
    free(seen.audio);
    free(pcm);
}

TEST(gaps_and_wrong_ends_are_refused)
{
    struct seen seen = {.stop_at = UINT32_MAX, .audio = calloc(100, sizeof(int16_t))};
    struct split_sink sink = {on_open, on_audio, on_close, &seen};
    struct splitter *s = NULL;
    struct err e = {0};
    int16_t pcm[10] = {0};

    assert_ok(splitter_new(20000, 0, sink, &s, &e), e);
    assert_ok(splitter_feed(s, pcm, 10, 0, &e), e);
    assert_int_equal(splitter_feed(s, pcm, 10, 11, &e), ERR_INPUT);
    assert_int_equal(splitter_feed(s, pcm, 10, INT64_MAX, &e), ERR_INPUT);
    assert_int_equal(splitter_feed(s, pcm, 10, -1, &e), ERR_INPUT);
    assert_ok(splitter_feed(s, pcm, 10, 5, &e), e); /* an overlap is said once only */
    assert_int_equal(splitter_end(s, 14, &e), ERR_INPUT);
    assert_int_equal(splitter_end(s, -1, &e), ERR_INPUT);
    assert_ok(splitter_end(s, 15, &e), e);
    assert_int_equal(seen.to[0], 15);
    splitter_free(s);
    free(seen.audio);
}

/* ---- audio */

TEST(audio_is_read_as_it_was_written)
{
    struct pcm_pool pool = {.budget_bytes = UINT64_MAX};
    const int64_t start = 1000003, n = 100000;
    int16_t *pcm = recording(n, 21);
    float *out = malloc((size_t)n * sizeof(*out));
    struct err e = {0};
    struct pcm_lane l;

    pcm_lane_init(&l, &pool, 1, start);
    assert_int_equal(pcm_lane_read(&l, 0, start, 1, false, out), -1);
    for (int64_t at = 0; at < n; at += 997) {
        size_t m = n - at < 997 ? (size_t)(n - at) : 997;

        assert_ok(pcm_lane_append(&l, pcm + at, m, &e), e);
    }
    assert_int_equal(pcm_lane_read(&l, 0, start, (size_t)n, false, out), n);
    for (int64_t i = 0; i < n; i++)
        assert_true(out[i] == (float)pcm[i] / 32768.0f);
    assert_int_equal(pcm_lane_read(&l, 0, start + 50000, 60000, false, out), -1);
    pcm_lane_close(&l);
    assert_int_equal(pcm_lane_read(&l, 0, start + 50000, 60000, false, out), 50000);
    assert_true(out[0] == (float)pcm[50000] / 32768.0f);
    assert_int_equal(pcm_lane_read(&l, 0, start + n, 60000, false, out), 0);
    assert_int_equal(pcm_lane_read(&l, 0, start + n + 5, 60000, false, out), 0);
    assert_true(pcm_lane_release(&l, start + 70000));
    assert_int_equal(pcm_lane_read(&l, 0, start + 70000, 30000, false, out), 30000);
    for (int64_t i = 0; i < 30000; i++)
        assert_true(out[i] == (float)pcm[70000 + i] / 32768.0f);
    assert_true(pool.used_bytes > 0);
    pcm_lane_free(&l);
    assert_int_equal(pool.used_bytes, 0);
    pcm_lane_free(&l);
    free(out);
    free(pcm);
}

/* The rule that keeps everything going with a budget that nothing fits into. */
TEST(the_engine_is_fed_whatever_the_budget)
{
    struct pcm_pool pool = {.budget_bytes = 1};
    int16_t *pcm = recording(RATE, 22);
    float *out = malloc(480000 * sizeof(*out));
    struct err e = {0};
    struct pcm_lane l;
    int64_t seek = 0;

    pcm_lane_init(&l, &pool, 1, 0);
    for (int window = 0; window < 5; window++) {
        while (pcm_pool_has_room(&pool) || pcm_lane_starves(&l))
            assert_ok(pcm_lane_append(&l, pcm, RATE, &e), e);
        assert_false(pcm_pool_has_room(&pool));
        /* A decoder that waits means a window that is ready. */
        assert_int_equal(pcm_lane_read(&l, 0, seek, 480000, false, out), 480000);
        assert_true(pool.used_bytes < 3 * 480000 * sizeof(int16_t));
        seek += 29 * RATE;
        pcm_lane_release(&l, seek);
        assert_int_equal(pcm_lane_read(&l, 0, seek, 480000, false, out), -1);
        assert_true(pcm_lane_starves(&l));
    }
    pcm_lane_free(&l);
    assert_int_equal(pool.used_bytes, 0);
    free(out);
    free(pcm);
}

/* Eight sources of ten minutes that are read in any order, with a budget of ten seconds: only who
 * is behind is fed beyond it, so that nothing is held but what lies between them. */
#define READERS 8
TEST(many_who_read_one_shard_keep_together)
{
    const int64_t length = INT64_C(600) * RATE, window = 10 * RATE;
    struct pcm_pool pool = {.budget_bytes = 10 * RATE * (READERS + 1) * sizeof(int16_t)};
    int16_t *pcm = recording(RATE * (READERS + 1), 23);
    float *out = malloc((size_t)window * sizeof(*out));
    int64_t at[READERS] = {0}, behind = 0;
    uint64_t seed = 24, most = 0;
    struct err e = {0};
    struct pcm_lane l;

    pcm_lane_init(&l, &pool, READERS + 1, 0);
    while (behind < length) {
        /* One is quicker than all others. */
        uint32_t k = random_next(&seed) % 4 ? 0 : (uint32_t)(random_next(&seed) % READERS);

        while (!l.closed && (pcm_pool_has_room(&pool) || pcm_lane_starves(&l))) {
            assert_ok(pcm_lane_append(&l, pcm, RATE, &e), e);
            if (l.end == length)
                pcm_lane_close(&l);
        }
        most = pool.used_bytes > most ? pool.used_bytes : most;
        if (at[k] < length &&
            pcm_lane_read(&l, k + 1, at[k], (size_t)window, at[k] > behind, out) >= 0)
            at[k] += window;
        behind = at[0];
        for (uint32_t i = 1; i < READERS; i++)
            behind = at[i] < behind ? at[i] : behind;
        pcm_lane_release(&l, behind);
    }
    print_message("at most %.1f MiB of %.1f\n", (double)most / (1 << 20),
                  (double)pool.budget_bytes / (1 << 20));
    assert_true(most < pool.budget_bytes + 50 * RATE * (READERS + 1) * sizeof(int16_t));
    pcm_lane_free(&l);
    free(out);
    free(pcm);
}

TEST(faults_are_read)
{
    struct faults f;

    faults_read(NULL, NULL, &f);
    assert_int_equal(faults_on_recording(&f, "/a/crash.wav", ""), FAULT_NONE);
    assert_false(faults_exit_now(&f, UINT64_MAX));
    faults_read("crash-on-path:bad,stall-on-path:slow.wav,exit-after-shards:2,nonsense,x:", NULL,
                &f);
    assert_int_equal(faults_on_recording(&f, "/a/bad.wav", ""), FAULT_CRASH);
    assert_int_equal(faults_on_recording(&f, "/a/b.zip", "in/slow.wav"), FAULT_STALL);
    assert_int_equal(faults_on_recording(&f, "/a/good.wav", ""), FAULT_NONE);
    assert_false(faults_exit_now(&f, 1));
    assert_true(faults_exit_now(&f, 2));
    remove("once");
    faults_read("hang-on-path:x", "once", &f);
    assert_int_equal(faults_on_recording(&f, "/x", ""), FAULT_HANG);
    assert_int_equal(faults_on_recording(&f, "/x", ""), FAULT_NONE);
    remove("once");
}

TEST_MAIN(NULL, NULL)
