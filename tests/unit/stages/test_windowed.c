/* Windows on a grid: each exactly once, whatever the shards, lanes and batches; with the audio that
 * belongs to it. The stage is a fake that writes down what it was given. */
#include "tests/common/test.h"

#include "workers/stages/windowed.h"

#define WINDOW 100
#define HOP 30
#define TOTAL_MAX 4000

/* A recording: sample i is i + 1, so that silence is seen. A lane of it knows its end, and has been
 * fed, up to a point that moves. */
struct shard {
    int64_t start, cut, total, fed; /* fed: how far decoding has come */
    int64_t released;
    bool again, done;
    struct err err;
    struct stage_result result;
};

struct note {
    int64_t k, samples;
    float first, last;
};

/* A lane's own. */
struct notes {
    uint32_t count;
    struct note note[256];
};

static struct fake {
    uint32_t calls, largest, lacks, dropped;
    int error; /* of the next call */
    float bad; /* a window that begins with this sample cannot be computed; 0: none */
    struct note seen[512];
    uint32_t seen_count;
} fake;

static int64_t shard_end(void *arg)
{
    const struct shard *s = arg;

    return s->fed >= s->cut ? s->cut : -1;
}

static int64_t shard_read(void *arg, int64_t at, size_t n, float *out)
{
    const struct shard *s = arg;
    int64_t most = s->cut + WINDOW < s->total ? s->cut + WINDOW : s->total;
    int64_t have = s->fed < most ? s->fed : most, want = at + (int64_t)n;

    assert_true(at >= s->released && at >= s->start);
    if (want > have) {
        if (have < most)
            return -1;
        n = at < have ? (size_t)(have - at) : 0;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(at + (int64_t)i + 1);
    return (int64_t)n;
}

static void shard_release(void *arg, int64_t at)
{
    struct shard *s = arg;

    assert_true(at >= s->released);
    s->released = at;
}

static int diarize_windows(void *arg, const struct windowed_item *items, uint32_t n,
                           struct err *err)
{
    (void)arg;
    fake.calls++;
    if (fake.error) {
        int code = fake.error;

        fake.error = 0;
        return err_set(err, code, "asked for");
    }
    if (fake.lacks && n > 1) {
        fake.lacks--;
        return err_set(err, ERR_VRAM, "no room for %u", n);
    }
    for (uint32_t i = 0; i < n; i++)
        if (fake.bad != 0 && items[i].pcm[0] == fake.bad)
            return err_set(err, ERR_INPUT, "a bad window");
    for (uint32_t i = 1; i < n; i++) /* windows of a lane lie over each other */
        assert_true(items[i].pcm ==
                    items[i - 1].pcm + (items[i].state == items[i - 1].state ? HOP : WINDOW));
    for (uint32_t i = 0; i < n; i++) {
        struct notes *notes = items[i].state;

        if (n > fake.largest)
            fake.largest = n;
        for (uint32_t w = 0; w < items[i].windows; w++) {
            const float *pcm = items[i].pcm + (size_t)w * HOP;
            int64_t left = items[i].samples - (int64_t)w * HOP;

            if (left > WINDOW)
                left = WINDOW;
            notes->note[notes->count++] =
                (struct note){items[i].first + w, left, pcm[0], pcm[left - 1]};
            for (int64_t z = left; z < WINDOW; z++)
                assert_true(pcm[z] == 0);
        }
    }
    return 0;
}

static int collect_voices(void *arg, void *state, struct stage_result *ret, struct err *err)
{
    const struct notes *notes = state;

    (void)arg;
    (void)err;
    assert_int_equal(ret->windows, notes->count);
    for (uint32_t i = 0; i < notes->count; i++)
        fake.seen[fake.seen_count++] = notes->note[i];
    return 0;
}

static void free_diarize_state(void *arg, void *state)
{
    (void)arg;
    (void)state;
    fake.dropped++;
}

static void on_done(void *arg, const struct stage_result *result, const struct err *err)
{
    struct shard *s = arg;

    assert_false(s->done);
    s->done = true;
    if (err)
        s->err = *err;
    else
        s->result = *result;
}

static struct windowed *make(uint32_t batch, bool joined)
{
    const struct windowed_plan plan = {
        .what = "tests",
        .window = WINDOW,
        .hop = HOP,
        .joined = joined,
        .state_bytes = sizeof(struct notes),
        .run = diarize_windows,
        .finish = collect_voices,
        .drop = free_diarize_state,
    };
    struct windowed *w;
    struct err e = {0};

    fake = (struct fake){0};
    assert_ok(windowed_new(&plan, batch, &w, &e), e);
    return w;
}

static struct stage_lane *add(struct windowed *w, struct shard *s)
{
    const struct stage_work work = {
        .start_sample = s->start,
        .end = shard_end,
        .end_arg = s,
        .source = {shard_read, shard_release, s, s->again},
    };
    struct stage_lane *lane;
    struct err e = {0};

    s->released = s->start;
    assert_ok(windowed_add(w, &work, on_done, s, &lane, &e), e);
    return lane;
}

static int by_number(const void *a, const void *b)
{
    const struct note *x = a, *y = b;

    return x->k < y->k ? -1 : x->k > y->k;
}

/* What the header promises of a recording's windows. */
static void check_windows(int64_t total)
{
    uint32_t n = 1;

    while ((int64_t)(n - 1) * HOP + WINDOW < total)
        n++;
    qsort(fake.seen, fake.seen_count, sizeof(fake.seen[0]), by_number);
    assert_int_equal(fake.seen_count, n);
    for (uint32_t k = 0; k < n; k++) {
        int64_t at = (int64_t)k * HOP, left = total - at < WINDOW ? total - at : WINDOW;

        assert_int_equal(fake.seen[k].k, k);
        assert_int_equal(fake.seen[k].samples, left);
        assert_true(fake.seen[k].first == (float)(at + 1));
        assert_true(fake.seen[k].last == (float)(at + left));
    }
}

/* xorshift64*, seeded, so that a failure can be run again. */
static uint64_t next(uint64_t *x)
{
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return *x * UINT64_C(2685821657736338717) >> 16;
}

/* Steps until nothing moves, and feeds a little more, until all lanes have ended. */
static void play(struct windowed *w, struct shard *shards, uint32_t count, uint64_t *x)
{
    bool progress = true, fed = true;
    struct err e = {0};

    while (progress || fed) {
        fed = false;
        assert_ok(windowed_step(w, &progress, &e), e);
        for (uint32_t i = 0; i < count; i++)
            if (shards[i].fed < shards[i].total && next(x) % 2) {
                shards[i].fed += (int64_t)(next(x) % 90);
                fed = true;
            }
        for (uint32_t i = 0; i < count && !fed; i++)
            fed = !shards[i].done;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(shards[i].done);
        assert_int_equal(shards[i].err.code, 0);
        assert_int_equal(shards[i].result.end_sample, shards[i].cut);
    }
}

static void split_at_random(uint64_t *x, int64_t total, uint32_t batch, bool joined)
{
    struct shard shards[16] = {0};
    struct windowed *w = make(batch, joined);
    uint32_t count = 0, lanes, flying;
    int64_t at = 0, samples;

    fake.lacks = next(x) % 3;
    while (at < total) {
        int64_t length = 20 + (int64_t)(next(x) % 600);
        bool last = count == 15 || at + length >= total;

        shards[count] = (struct shard){
            .start = at, .cut = last ? total : at + length, .total = total, .fed = at};
        at = shards[count].cut;
        add(w, &shards[count++]);
    }
    play(w, shards, count, x);
    check_windows(total);
    windowed_stats(w, &lanes, &flying, &samples);
    assert_int_equal(lanes, 0);
    assert_int_equal(samples, total); /* each is of one shard */
    assert_int_equal(fake.dropped, count);
    windowed_free(w);
}

TEST(each_window_is_heard_once)
{
    uint64_t x = 20260201;

    for (int round = 0; round < 600; round++) {
        int64_t total = 1 + (int64_t)(next(&x) % TOTAL_MAX);

        split_at_random(&x, total, 1 + (uint32_t)(next(&x) % 9), round % 2);
    }
}

/* Two lanes of one stretch, of different sources. */
TEST(what_is_heard_again_is_counted_once)
{
    struct shard shards[] = {{.cut = 700, .total = 700}, {.cut = 700, .total = 700, .again = true}};
    struct windowed *w = make(3, false);
    uint32_t lanes, flying;
    uint64_t x = 7;
    int64_t samples;

    add(w, &shards[0]);
    add(w, &shards[1]);
    play(w, shards, 2, &x);
    windowed_stats(w, &lanes, &flying, &samples);
    assert_int_equal(samples, 700);
    windowed_free(w);
}

/* Around the lengths where one more window comes. */
TEST(the_last_window_is_as_promised)
{
    static const int64_t totals[] = {1, 99, 100, 101, 129, 130, 131, 159, 160, 161};
    uint64_t x = 7;

    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
        for (int joined = 0; joined < 2; joined++) {
            struct shard s = {.cut = totals[i], .total = totals[i]};
            struct windowed *w = make(4, joined);

            add(w, &s);
            play(w, &s, 1, &x);
            check_windows(totals[i]);
            windowed_free(w);
        }
}

TEST(batches_are_filled_from_many_lanes)
{
    struct shard shards[4];
    struct windowed *w = make(6, false);
    uint64_t x = 3;

    for (int i = 0; i < 4; i++) {
        shards[i] = (struct shard){.cut = 160, .total = 160, .fed = 160};
        add(w, &shards[i]);
    }
    play(w, shards, 4, &x);
    assert_int_equal(fake.seen_count, 12); /* 3 windows each */
    assert_int_equal(fake.largest, 6);
    assert_int_equal(fake.calls, 2);
    windowed_free(w);
}

/* Half as many, and half of that; nothing is lost. With one at a time it is an error. */
TEST(it_takes_less_when_memory_lacks)
{
    struct shard s = {.cut = 900, .total = 900, .fed = 900}, t = s;
    struct windowed *w = make(8, false);
    struct err e = {0};
    bool progress;
    uint64_t x = 3;

    add(w, &s);
    fake.lacks = 2;
    assert_int_equal(windowed_lack(w)->code, 0);
    play(w, &s, 1, &x);
    check_windows(900);
    assert_int_equal(windowed_batch(w), 2);
    assert_int_equal(windowed_lack(w)->code, ERR_VRAM);
    windowed_free(w);

    w = make(1, false);
    add(w, &t);
    fake.error = ERR_VRAM;
    assert_int_equal(windowed_step(w, &progress, &e), ERR_VRAM);
    windowed_free(w);
    assert_false(t.done); /* dropped without a word */
    assert_int_equal(fake.dropped, 1);
}

TEST(errors_go_where_they_belong)
{
    struct shard bad = {.cut = 100, .total = 100, .fed = 100}, good = bad;
    struct windowed *w = make(1, false);
    struct err e = {0};
    bool progress;

    add(w, &bad);
    add(w, &good);
    fake.error = ERR_INPUT;
    assert_ok(windowed_step(w, &progress, &e), e);
    assert_true(bad.done && !good.done);
    assert_int_equal(bad.err.code, ERR_INPUT);
    assert_ok(windowed_step(w, &progress, &e), e);
    if (!good.done)
        assert_ok(windowed_step(w, &progress, &e), e);
    assert_true(good.done && good.err.code == 0);

    good = bad = (struct shard){.cut = 100, .total = 100, .fed = 100};
    add(w, &good);
    fake.error = ERR_DEVICE;
    assert_int_equal(windowed_step(w, &progress, &e), ERR_DEVICE);
    assert_false(good.done);
    windowed_free(w);
}

/* A batch of three lanes, one of which has a window that cannot be computed. */
TEST(a_bad_window_costs_its_own_lane_alone)
{
    struct shard shards[3];
    struct windowed *w = make(9, false);
    struct err e = {0};
    bool progress = true;

    for (int i = 0; i < 3; i++) {
        int64_t at = i * 900; /* shards of one recording, which begin on the grid */

        shards[i] = (struct shard){.start = at, .cut = at + 90, .total = 4000, .fed = at + 300};
        add(w, &shards[i]);
    }
    fake.bad = 900 + HOP + 1; /* the middle one's second */
    while (progress)
        assert_ok(windowed_step(w, &progress, &e), e);
    assert_true(shards[0].done && shards[1].done && shards[2].done);
    assert_int_equal(shards[0].err.code, 0);
    assert_int_equal(shards[1].err.code, ERR_INPUT);
    assert_int_equal(shards[2].err.code, 0);
    assert_int_equal(fake.seen_count, 6); /* of the good ones, each once */
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(fake.seen[i].k, (i < 3 ? 0 : 60) + i % 3);
    assert_int_equal(fake.calls, 1 + 3 + 2 + 3); /* not the one after the bad one */
    windowed_free(w);
}

/* A shard in which no window begins yields none; one whose audio does not come is waited for. */
TEST(some_shards_have_no_window)
{
    struct shard s = {.start = 31, .cut = 60, .total = 400, .fed = 31};
    struct shard waiting = {.start = 31, .cut = 200, .total = 400, .fed = 159};
    struct windowed *w = make(4, false);
    struct stage_lane *lane;
    struct err e = {0};
    bool progress;

    add(w, &s);
    assert_ok(windowed_step(w, &progress, &e), e);
    assert_false(progress || s.done);
    s.fed = 60;
    assert_ok(windowed_step(w, &progress, &e), e);
    assert_true(progress && s.done && s.err.code == 0);
    assert_int_equal(s.result.windows, 0);
    lane = add(w, &waiting);
    assert_ok(windowed_step(w, &progress, &e), e);
    assert_false(progress); /* its first window lacks a sample */
    waiting.fed = 160;
    assert_ok(windowed_step(w, &progress, &e), e);
    assert_true(progress);
    assert_int_equal(waiting.released, 90);
    windowed_remove(w, lane);
    assert_false(waiting.done);
    assert_int_equal(fake.dropped, 2);
    windowed_free(w);
}

TEST_MAIN(NULL, NULL)
