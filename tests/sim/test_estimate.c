/* What is said of a night's end, held against the end: archives of all kinds on made-up devices, in
 * virtual time. */
#include "tests/common/test.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/plan/estimate.h"
#include "tests/common/random.h"

#define STEP_MS 500
#define LOT_MS 30000 /* of audio: results come in lots */
#define NIGHTS 400
#define DEVICES_MAX 8u

struct rng {
    uint64_t s;
};

static double uniform(struct rng *r)
{
    return (double)(random_next(&r->s) >> 11) / 9007199254740992.0;
}
static double between(struct rng *r, double low, double high)
{
    return low + (high - low) * uniform(r);
}
static double even(struct rng *r, double low, double high) /* as likely in each octave */
{
    return exp(between(r, log(low), log(high)));
}
static double normal(struct rng *r)
{
    return sqrt(-2 * log(1 - uniform(r))) * cos(2 * 3.14159265358979 * uniform(r));
}

struct recording {
    double ms, bytes, hard; /* hard: what it takes, by what an average one does */
};

struct device {
    double speed, heard; /* heard: of `on`, ms */
    int64_t on;          /* a recording; -1: none */
};

struct made_night {
    struct recording *all;
    uint32_t count, next, devices;
    struct device device[DEVICES_MAX];
    double speed, all_ms;
    bool lengths; /* are known before */
    int64_t load_ms, now_ms;
    uint64_t seen_ms, opened, opened_bytes, opened_ms;
    bool text;
    double text_speed, text_done; /* when all is heard */
    int64_t text_load_ms, text_since_ms;
    struct estimate e;
};

static struct made_night make(struct rng *r)
{
    /* A phone's voice notes, a station's MP3 ..., a tape deck's WAV. */
    static const double bytes_a_second[] = {2000, 8000, 16000, 32000, 176400};
    struct made_night n = {.count = (uint32_t)even(r, 4, 3000),
                           .devices = 1 + (uint32_t)(uniform(r) * DEVICES_MAX),
                           .lengths = uniform(r) < 0.3,
                           .load_ms = (int64_t)even(r, 500, 20000),
                           .text = uniform(r) < 0.5};
    double median = even(r, 20000, 3600000), sigma = between(r, 0.1, 1.0), all = 0;
    double kinds[2] = {bytes_a_second[(size_t)(uniform(r) * 5)], 0}, rate = 0,
           night_ms = even(r, 100000, 8 * 3600000.0);
    uint32_t of_folder = 0;

    /* Three in four archives are of one kind, the others of two, a folder being of one. */
    kinds[1] = uniform(r) < 0.75 ? kinds[0] : kinds[0] * even(r, 0.25, 4);
    n.all = calloc(n.count, sizeof(*n.all));
    for (uint32_t i = 0; i < n.count; i++) {
        if (of_folder-- == 0) {
            of_folder = (uint32_t)even(r, 1, 100);
            rate = kinds[uniform(r) < 0.5];
        }
        n.all[i].ms = fmin(median * exp(sigma * normal(r)), 12 * 3600000.0);
        n.all[i].bytes = n.all[i].ms / 1000 * rate * between(r, 0.9, 1.1);
        n.all[i].hard = exp(0.3 * normal(r));
        n.all_ms += n.all[i].ms;
        all += n.all[i].ms * n.all[i].hard;
    }
    n.speed = all / night_ms;
    for (uint32_t d = 0; d < n.devices; d++)
        n.device[d] = (struct device){.speed = n.speed / n.devices, .on = -1};
    n.text_speed = n.speed * even(r, 8, 500);
    n.text_load_ms = (int64_t)even(r, 300, 10000);
    return n;
}

static void take_one(struct made_night *n, struct device *d)
{
    const struct recording *x = &n->all[n->next];

    d->on = n->next++;
    d->heard = 0;
    n->opened++;
    n->opened_bytes += (uint64_t)x->bytes;
    n->opened_ms += (uint64_t)x->ms;
}

/* One step of every device; long recordings are shared out in the end, as the planner does. */
static bool hear(struct made_night *n)
{
    bool any = false;

    for (uint32_t i = 0; i < n->devices; i++) {
        struct device *d = &n->device[i];
        double left = STEP_MS;

        while (left > 0 && (d->on >= 0 || n->next < n->count)) {
            const struct recording *x;
            double lot, need;

            if (d->on < 0)
                take_one(n, d);
            x = &n->all[d->on];
            lot = fmin(floor(d->heard / LOT_MS + 1 + 1e-9) * LOT_MS, x->ms);
            need = (lot - d->heard) * x->hard / d->speed;
            any = true;
            if (need > left) {
                d->heard += left * d->speed / x->hard;
                break;
            }
            left -= need;
            n->seen_ms += (uint64_t)(lot - fmax(floor(d->heard / LOT_MS) * LOT_MS, 0));
            d->heard = lot;
            if (lot >= x->ms)
                d->on = -1;
        }
    }
    return any;
}

static bool said(const struct made_night *n, int64_t *low, int64_t *high)
{
    double unknown = 0;
    struct estimate_left left[2] = {{.stage = 1, .rides = true}, {.stage = 2, .text = true}};
    struct rate_backlog *b = &left[0].left;

    for (uint32_t i = n->next; i < n->count; i++)
        unknown += n->lengths ? 0 : n->all[i].bytes;
    b->tasks_unknown = n->lengths ? 0 : n->count - n->next;
    b->bytes_unknown = (uint64_t)unknown;
    b->tasks_known = n->lengths ? n->count : n->opened;
    b->bytes_known = n->opened_bytes;
    b->known_ms = (int64_t)n->opened_ms;
    b->known_left_ms =
        (n->lengths ? (int64_t)n->all_ms : (int64_t)n->opened_ms) - (int64_t)n->seen_ms;
    left[1].left = *b;
    left[1].left.known_left_ms += (int64_t)(n->seen_ms - (uint64_t)n->text_done);
    return estimate_range(&n->e, n->now_ms, left, n->text ? 2 : 1, low, high);
}

/* False: it is over. */
static bool step(struct made_night *n)
{
    n->now_ms += STEP_MS;
    if (n->now_ms < n->load_ms) {
        estimate_add(&n->e, n->now_ms, 0, false);
        return true;
    }
    if (n->text_since_ms == 0) {
        bool on = hear(n);

        estimate_add(&n->e, n->now_ms, n->seen_ms, true);
        if (on)
            return true;
        n->text_since_ms = n->now_ms;
        if (n->text)
            estimate_begin(&n->e, 2, n->now_ms);
    }
    if (!n->text || n->text_done >= n->all_ms)
        return false;
    if (n->now_ms - n->text_since_ms >= n->text_load_ms)
        n->text_done += STEP_MS * n->text_speed;
    estimate_add(&n->e, n->now_ms, (uint64_t)n->text_done,
                 n->now_ms - n->text_since_ms >= n->text_load_ms);
    return true;
}

/* What was said at that time, and how much was left. False: nothing, or the night was over. */
struct saying {
    int64_t low, high, left;
    bool text;
};

static bool ask(uint64_t seed, int64_t at_ms, double part, struct saying *ret)
{
    struct rng r = {seed * 0x9E3779B97F4A7C15u + 1};
    struct made_night n = make(&r);
    int64_t low = 0, high = 0, at = 0;
    bool is = false;

    if (part > 0) { /* of the whole, which is to be lived through first */
        struct made_night whole = n;

        estimate_begin(&whole.e, 1, 0);
        while (step(&whole))
            ;
        at_ms = (int64_t)(part * (double)whole.now_ms);
    }
    estimate_begin(&n.e, 1, 0);
    do {
        if (at == 0 && n.now_ms >= at_ms) {
            is = said(&n, &low, &high);
            at = n.now_ms;
        }
    } while (step(&n));
    free(n.all);
    *ret = (struct saying){low, high, n.now_ms - at, n.text};
    return is && at > 0;
}

static double middle(const struct saying *s)
{
    return sqrt(fmax((double)s->low, 1) * fmax((double)s->high, 1));
}

/* After a minute of a run whose end is not there yet: the middle lies within a factor of two, and
 * the truth in the range, in nearly all nights. */
TEST(after_a_minute_it_is_within_a_factor_of_two)
{
    uint32_t asked = 0, near = 0, within = 0;

    for (uint64_t seed = 1; seed <= NIGHTS; seed++) {
        struct saying s;
        double off;

        if (!ask(seed, 60000, 0, &s) || s.left < 10000)
            continue;
        asked++;
        off = middle(&s) / (double)s.left;
        near += off > 0.5 && off < 2;
        within += s.low <= s.left && s.left <= s.high;
        if (off <= 0.5 || off >= 2)
            print_message("night %llu: %lld to %lld s, was %lld s\n", (unsigned long long)seed,
                          (long long)s.low / 1000, (long long)s.high / 1000,
                          (long long)s.left / 1000);
    }
    print_message("%u nights: %u within a factor of two, %u within the range\n", asked, near,
                  within);
    assert_true(asked > NIGHTS * 3 / 4);
    assert_true(near >= asked * 95 / 100);
    assert_true(within >= asked * 80 / 100);
}

/* Without a stage that comes later, of which nothing is known until then. */
TEST(it_narrows)
{
    double before = 0;

    for (double part = 0.75; part > 0.1; part /= 2) {
        double width = 0;
        uint32_t n = 0;

        for (uint64_t seed = 1; seed <= 100; seed++) {
            struct saying s;

            if (!ask(seed, 0, part, &s) || s.text || s.low < 1000)
                continue;
            width += log((double)s.high / (double)s.low);
            n++;
        }
        width /= n;
        print_message("at %.0f %%: high is %.2f of low\n", part * 100, exp(width));
        assert_true(width > before);
        before = width;
    }
    assert_true(before > 0);
}

TEST(nothing_is_said_before_anything_is_known)
{
    struct estimate e = {0};
    struct estimate_left left = {
        .stage = 1, .left = {.known_left_ms = 3600000}, .rides = true, .remembered = 100};
    int64_t low, high;

    assert_false(estimate_range(&e, 0, &left, 1, &low, &high));
    estimate_begin(&e, 1, 0);
    estimate_add(&e, 1000, 0, false);
    estimate_add(&e, 5000, 0, true);
    estimate_add(&e, 9000, 0, true);
    /* Not by what is remembered alone. */
    assert_false(estimate_range(&e, 9000, &left, 1, &low, &high));
    for (int64_t t = 10000; t <= 70000; t += 1000)
        estimate_add(&e, t, (uint64_t)(t - 9000) * 10, true);
    assert_true(estimate_range(&e, 70000, &left, 1, &low, &high));
    assert_true(low < 360000 && high > 360000 && low > 180000 && high < 720000);
    /* Some of no known length, and none to tell them by. */
    left.left = (struct rate_backlog){.tasks_unknown = 3, .bytes_unknown = 1000};
    assert_false(estimate_range(&e, 70000, &left, 1, &low, &high));
}

/* A stage that nobody has seen: by what is remembered of it, and what it takes to load. */
/* Voice activity cuts pieces of half a second, which may be the first of a batch to come. */
TEST(a_piece_is_no_speed)
{
    struct estimate e = {0};
    struct estimate_left left = {.stage = 1, .left = {.known_left_ms = 3600000}};
    int64_t low, high;

    estimate_begin(&e, 1, 0);
    for (int64_t t = 0; t <= 4000; t += 500)
        estimate_add(&e, t, t < 2500 ? 0 : 500, true);
    assert_false(estimate_range(&e, 4000, &left, 1, &low, &high));
    estimate_add(&e, 4500, 500000, true);
    estimate_add(&e, 5500, 520000, true);
    assert_true(estimate_range(&e, 5500, &left, 1, &low, &high));
    assert_in_range(high, 20000, 300000);
}

TEST(what_comes_later_counts)
{
    struct estimate e = {0};
    struct estimate_left left[2] = {{.stage = 1, .rides = true},
                                    {.stage = 2, .left = {.known_left_ms = 3600000}}};
    int64_t low, high, l, h;

    estimate_begin(&e, 1, 0);
    for (int64_t t = 20000; t <= 600000; t += 1000)
        estimate_add(&e, t, (uint64_t)(t - 20000) * 10, true);
    assert_true(estimate_range(&e, 600000, left, 2, &low, &high));
    assert_true(low > 3600000 / 10 / 60 && high >= 3600000 / 10);
    left[1].remembered = 100;
    assert_true(estimate_range(&e, 600000, left, 2, &l, &h));
    assert_true(l > low && h < high && l < 36000 && h > 36000 + 20000);
    left[1].rides = true; /* but the first has nothing left that it could ride with */
    assert_true(estimate_range(&e, 600000, left, 2, &low, &high));
    assert_true(low == l && high == h);
    left[0].left.known_left_ms = 3600000;
    assert_true(estimate_range(&e, 600000, left, 2, &low, &high));
    assert_true(low < 360000 && high > 360000 && high < 500000);
}

/* A pause says nothing about the speed. */
TEST(only_work_counts)
{
    struct estimate e = {0};
    struct estimate_left left = {.stage = 1, .left = {.known_left_ms = 600000}};
    int64_t low, high, l, h, t;

    estimate_begin(&e, 1, 0);
    for (t = 1000; t <= 100000; t += 1000)
        estimate_add(&e, t, (uint64_t)t * 10, true);
    assert_true(estimate_range(&e, t, &left, 1, &low, &high));
    for (; t <= 9000000; t += 1000)
        estimate_add(&e, t, 1000000, false);
    assert_true(estimate_range(&e, t, &left, 1, &l, &h));
    assert_true(l == low && h == high);
}

/* ---- a night before it begins */

/* Ten hours in three stages, text behind them. */
static struct night_length length_of(uint32_t gpus, uint32_t cores, double host_s)
{
    static const struct night_stage stages[] = {
        {.name = "transcribe", .hours = 10, .device_s = 0.5, .thread_s = 0.4},
        {.name = "diarize", .hours = 10, .device_s = 1.0, .thread_s = 0.2},
        {.name = "embed-text", .hours = 10, .device_s = 0.1, .thread_s = 0.01, .text = true},
    };
    const struct night n = {
        .stages = stages, .count = 3, .hours = 10, .host_s = host_s, .gpus = gpus, .cores = cores};
    struct night_length ret;

    night_length(&n, &ret);
    return ret;
}

static void check_seconds(double want, double got)
{
    if (fabs(want - got) > 1e-9)
        fail_msg("%g and not %g", got, want);
}

TEST(the_longest_bounds_a_night)
{
    struct night_length n = length_of(1, 64, 4.0);

    assert_int_equal(n.bound, NIGHT_DEVICES); /* stages share a device */
    check_seconds(15, n.device_s);
    check_seconds(4, n.thread_s); /* but each has a thread */
    assert_string_equal(n.thread, "transcribe");
    check_seconds((40.0 + 6) / 64, n.core_s);
    check_seconds(16, n.seconds); /* the text has a turn of its own */
    n = length_of(1, 2, 4.0);
    assert_int_equal(n.bound, NIGHT_CORES);
    check_seconds(23 + 1, n.seconds);
    n = length_of(0, 2, 1.0);
    check_seconds(0, n.thread_s); /* the processor's stages have none beside it */
    check_seconds(5, n.core_s);
}

TEST(a_thread_bounds_a_night)
{
    const struct night_stage stages[] = {
        {.name = "sounds", .hours = 4, .device_s = 0.1, .thread_s = 3},
        {.name = "sounds", .hours = 2, .device_s = 0.1, .thread_s = 3},
        {.name = "diarize", .hours = 6, .device_s = 0.1, .thread_s = 2},
    };
    struct night n = {.stages = stages, .count = 3, .hours = 6, .gpus = 1, .cores = 64};
    struct night_length r;

    night_length(&n, &r);
    assert_int_equal(r.bound, NIGHT_THREAD);
    assert_string_equal(r.thread, "sounds"); /* both: a recording is heard by one of them */
    check_seconds(18, r.seconds);
    n.gpus = 3; /* each has its share of the sound */
    night_length(&n, &r);
    check_seconds(6, r.thread_s);
}

/* Where there is more to read than to hear, that is what bounds the night. */
TEST(a_turn_of_text_bounds_a_night)
{
    const struct night_stage stages[] = {
        {.name = "transcribe", .hours = 1, .device_s = 0.5},
        {.name = "embed-text", .hours = 100, .device_s = 0.1, .thread_s = 0.3, .text = true},
    };
    struct night n = {.stages = stages, .count = 2, .hours = 1, .host_s = 4, .gpus = 1, .cores = 2};
    struct night_length r;

    night_length(&n, &r);
    assert_int_equal(r.bound, NIGHT_THREAD);
    assert_string_equal(r.thread, "embed-text");
    check_seconds(10, r.device_s);
    check_seconds(15, r.core_s);
    check_seconds(30 + 2, r.seconds);
    n = (struct night){.stages = stages + 1, .count = 1, .host_s = 4, .cores = 2};
    night_length(&n, &r);
    assert_int_equal(r.bound, NIGHT_DEVICES);
    check_seconds(10, r.seconds);
}

/* Times seen side by side do not add up; times measured alone do. */
TEST(stages_seen_together)
{
    const struct night_stage stages[] = {
        {.name = "transcribe", .hours = 2, .device_s = 5, .together = true},
        {.name = "diarize", .hours = 2, .device_s = 6, .together = true},
        {.name = "sounds", .hours = 2, .device_s = 1},
    };
    const struct night n = {.stages = stages, .count = 3, .hours = 2, .cores = 1};
    struct night_length r;

    night_length(&n, &r);
    check_seconds(14, r.seconds);
    assert_int_equal(r.bound, NIGHT_EARLIER);
    night_length(&(struct night){.cores = 1}, &r);
    assert_int_equal(r.bound, NIGHT_NOTHING);
    assert_null(r.thread);
    check_seconds(0, r.seconds);
}

TEST(formats_by_codec_or_ending)
{
    static const char *const named[][2] = {
        {"mp3", "MP3"},
        {"pcm_s16le", "PCM"},
        {"wav", "PCM"},
        {"aac", "AAC"},
        {"opus", "Opus"},
        {"vorbis", "Vorbis"},
        {"flac", "FLAC"},
        {"wavpack", "FLAC"},
        {"wmav2", "other"},
        {"", "other"},
        {"mp3 mp2", "other"},
        {"wa", "other"},
        {"an-ending-that-is-longer-than-any", "other"},
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        assert_string_equal(named[i][1], night_format(named[i][0])->name);
}

TEST_MAIN(NULL, NULL)
