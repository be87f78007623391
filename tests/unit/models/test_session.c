/* A session's memory: foretold, all taken at once, given back; several windows and recorded steps
 * give what one window and plain steps give. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/unit/models/recorder.h"
#include "workers/models/whisper/whisper.h"

#define VOCAB 2151
#define SLOTS 7
#define STEPS 12

static const struct whisper_config small = {128, 80, VOCAB, 2, 2, 256, 2, 2, 256, 1500, 448};

static const int32_t blank = 220;
static const struct rules_spec rules = {
    .vocab = VOCAB,
    .eot = 640,
    .no_speech = 648,
    .timestamp_begin = 650,
    .timestamp_end = 2150,
    .max_initial = 700,
    .never_first = &blank,
    .never_first_count = 1,
};

static void near(uint64_t have, uint64_t want, const char *what)
{
    double ratio = (double)have / (double)want;

    if (!(ratio > 0.95 && ratio < 1.05))
        print_error("%s: %llu bytes were foretold, %llu taken\n", what, (unsigned long long)have,
                    (unsigned long long)want);
    assert_true(ratio > 0.95 && ratio < 1.05);
}

/* One model, several sessions; the one of several windows last, whose scratch memory stays. */
static void check_sizes(const char *model, enum precision precision, enum cache_precision cache)
{
    static const struct asr_shape shapes[] = {
        {1, 1, 1, 0, 0, false}, {16, 0, 1, 0, 0, false}, {4, 5, 1, 0, 0, false},
        {4, 5, 1, 0, 0, true},  {3, 32, 1, 0, 0, false}, {2, 2, 1, 6, 0, false},
        {6, 1, 1, 6, 4, true},  {9, 3, 1, 2, 2, false},  {5, 1, 4, 0, 0, false},
    };
    struct whisper_config config;
    struct asr_session *s;
    struct backend *be;
    struct asr_model *w;
    char what[96];
    struct err e;

    assert_ok(whisper_preset(model, &config, &e), e);
    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.deterministic = false; /* or there would be one window whatever is asked for */
    assert_ok(whisper_random(&config, 1, be, precision, &w, &e), e);
    whisper_keep(w, cache);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct asr_shape *shape = &shapes[i];
        uint64_t before = be->allocated;

        snprintf(what, sizeof(what), "%s %s, %u slots of %u branches, %u windows, %u heads", model,
                 precision_name(precision), shape->slots, shape->branches, shape->windows,
                 shape->align_heads);
        assert_ok(whisper_session_new(w, *shape, &s, &e), e);
        assert_int_equal(s->windows, shape->windows);
        assert_true(s->rows >= shape->slots * shape->branches);
        near(whisper_predict_bytes(&config, precision, cache, backend_host_halves(), *shape),
             be->allocated, what);
        if (shape->windows == 1) /* more of them may want more of the scratch memory, which stays */
            assert_int_equal(be->allocated - before, whisper_session_bytes(w, *shape));
        whisper_session_free(s);
        if (shape->windows == 1)
            assert_int_equal(be->allocated, before);
    }
    whisper_free(w);
    backend_close(be);
}

TEST(sizes_are_foretold)
{
    struct backend_info info;

    backend_host_info(&info);
    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        if (!(info.have & 1u << p))
            continue;
        for (int cache = CACHE_16; cache < CACHE_COUNT; cache++) {
            check_sizes("nano", (enum precision)p, (enum cache_precision)cache);
            check_sizes("tiny", (enum precision)p, (enum cache_precision)cache);
        }
    }
}

/* A backend that records steps takes no more memory: rows that pad them are nobody's. */
TEST(padding_needs_no_memory)
{
    const struct asr_shape shape = {.slots = 3, .branches = 2, .windows = 1};
    struct whisper_config config;
    struct asr_session *s;
    struct backend *be;
    struct asr_model *w;
    uint64_t plain;
    struct err e;

    assert_ok(whisper_preset("nano", &config, &e), e);
    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_random(&config, 1, be, PRECISION_F32, &w, &e), e);
    plain = whisper_session_bytes(w, shape);
    recorder_install(be);
    assert_int_equal(whisper_session_bytes(w, shape), plain); /* padding has no cache */
    assert_ok(whisper_session_new(w, shape, &s, &e), e);
    near(whisper_predict_bytes(&config, PRECISION_F32, CACHE_16, backend_host_halves(), shape),
         be->allocated, "all of it");
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
}

/* ---- a course of windows and choices ---- */

struct course {
    struct choice choice[STEPS][SLOTS];
};

static void run_course(struct asr_model *w, uint32_t windows, struct course *ret)
{
    static float pcm[SLOTS][40000];
    struct asr_window window[SLOTS];
    struct asr_row row[SLOTS];
    struct choice_ask ask[SLOTS];
    struct asr_session *s;
    struct err e;
    uint64_t held;

    *ret = (struct course){0};
    assert_ok(
        whisper_session_new(w, (struct asr_shape){.slots = SLOTS, .windows = windows}, &s, &e), e);
    assert_int_equal(s->windows, windows);
    assert_ok(whisper_session_rules(s, &rules, &e), e);
    held = recorder_backend(w)->allocated;
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t seed = i + 1;

        for (size_t k = 0; k < 40000; k++) {
            seed = seed * 1664525u + 1013904223u;
            pcm[i][k] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.3f;
        }
        window[i] =
            (struct asr_window){.slot = (i * 3 + 1) % SLOTS, .pcm = pcm[i], .n = 40000 - i * 1000};
        row[i] = (struct asr_row){window[i].slot, 0, 0, 641};
    }
    assert_ok(whisper_encode(s, window, SLOTS, &e), e);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t n = 1 + step * 5 % SLOTS; /* the first n go on, so that widths vary */

        for (uint32_t i = 0; i < n; i++) {
            ask[i] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
            ask[i].what = row[i].pos == 0 ? CHOOSE_START | CHOOSE_TOKEN : CHOOSE_TOKEN;
            ask[i].count = (int32_t)row[i].pos;
            ask[i].last = row[i].pos ? row[i].token : -1;
            ask[i].temperature = i % 2 ? 0.5f : 0;
            ask[i].uniform = 0.1 * i + 0.01 * step;
        }
        assert_ok(whisper_choose(s, row, ask, n, ret->choice[step], NULL, &e), e);
        for (uint32_t i = 0; i < n; i++) {
            row[i].pos++;
            assert_true(ret->choice[step][i].token >= 0);
            row[i].token = ret->choice[step][i].token;
        }
    }
    assert_int_equal(recorder_backend(w)->allocated, held); /* nothing is taken on the way */
    whisper_session_free(s);
}

/* Tokens are the same, probabilities nearly. */
static void same_course(const struct course *a, const struct course *b)
{
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SLOTS; i++) {
            assert_int_equal(a->choice[step][i].token, b->choice[step][i].token);
            assert_true(fabs(a->choice[step][i].logprob - b->choice[step][i].logprob) < 1e-3);
        }
    }
}

TEST(windows_together)
{
    static struct course one, some;
    struct backend *be;
    struct asr_model *w;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.deterministic = false;
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    run_course(w, 1, &one);
    run_course(w, 3, &some); /* 3, 3 and 1 */
    same_course(&one, &some);
    run_course(w, 7, &some);
    same_course(&one, &some);
    whisper_free(w);
    be->info.wide_batches = true;
    be->info.deterministic = true;
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    run_course(w, 1, &some); /* whatever is asked for: one */
    assert_memory_equal(&one, &some, sizeof(one));
    whisper_free(w);
    backend_close(be);
}

/* Steps that are recorded and run again, with padding rows, choose the very same. */
TEST(recorded_steps)
{
    static struct course plain, recorded;
    struct recorder_counts counts;
    struct backend *be;
    struct asr_model *w;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    run_course(w, 1, &plain);
    recorder_install(be);
    run_course(w, 1, &recorded);
    assert_memory_equal(&plain, &recorded, sizeof(plain));
    recorder_counts(&counts);
    assert_int_equal(counts.begun, 4); /* of 1, 2, 4 and 7 rows */
    assert_int_equal(counts.ended, 4);
    assert_int_equal(counts.freed, 4);
    assert_int_equal(counts.run, STEPS - 4); /* the first of each prepares */
    /* No memory for recordings, or none possible: the same, more slowly, and never tried again. */
    for (int i = 0; i < 3; i++) {
        struct recorder_counts before = counts;

        recorder_fail((const int[]){ERR_VRAM, ERR_DEVICE, ERR_MODEL}[i]);
        run_course(w, 1, &recorded);
        assert_memory_equal(&plain, &recorded, sizeof(plain));
        recorder_counts(&counts);
        assert_int_equal(counts.begun, before.begun + 1);
        assert_int_equal(counts.ended, before.ended + 1);
        assert_int_equal(counts.run, before.run);
        assert_int_equal(counts.freed, before.freed);
    }
    recorder_fail(0);
    whisper_free(w);
    backend_close(be);
}

/* What was recorded holds the rules that were in force: other rules, other recordings. */
TEST(other_rules)
{
    const struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN};
    const struct asr_window silence = {.slot = 0};
    const struct asr_row row = {0, 0, 0, 1};
    struct recorder_counts before, after;
    struct rules_spec other = rules;
    struct asr_session *s;
    struct choice first, second;
    struct backend *be;
    struct asr_model *w;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    recorder_install(be);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2, .windows = 1}, &s, &e), e);
    assert_ok(whisper_encode(s, &silence, 1, &e), e);
    assert_ok(whisper_session_rules(s, &rules, &e), e);
    recorder_counts(&before);
    assert_ok(whisper_choose(s, &row, &ask, 1, &first, NULL, &e), e);
    assert_ok(whisper_choose(s, &row, &ask, 1, &first, NULL, &e), e);
    recorder_counts(&after);
    assert_int_equal(after.run, before.run + 1);
    other.never_first = &first.token;
    assert_ok(whisper_session_rules(s, &other, &e), e);
    assert_ok(whisper_choose(s, &row, &ask, 1, &second, NULL, &e), e);
    assert_int_not_equal(second.token, first.token);
    recorder_counts(&after);
    assert_int_equal(after.begun, before.begun + 2);
    assert_int_equal(after.freed, before.freed + 1);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
}

/* A session that the budget does not allow leaves everything as it was. */
TEST(budgets)
{
    struct asr_session *s, *more = NULL;
    static struct course before, after;
    struct backend *be;
    struct asr_model *w;
    uint64_t held;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    run_course(w, 1, &before);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2, .windows = 1}, &s, &e), e);
    held = be->allocated;
    be->budget = held + whisper_session_bytes(w, (struct asr_shape){.slots = 64, .windows = 1}) - 1;
    assert_int_equal(
        whisper_session_new(w, (struct asr_shape){.slots = 64, .windows = 1}, &more, &e), ERR_VRAM);
    assert_null(more);
    assert_int_equal(be->allocated, held);
    be->budget++;
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 64, .windows = 1}, &more, &e), e);
    assert_int_equal(be->allocated, be->budget);
    whisper_session_free(more);
    whisper_session_free(s);
    be->budget = 0;
    run_course(w, 1, &after);
    assert_memory_equal(&before, &after, sizeof(after));
    whisper_free(w);
    backend_close(be);
}

/* ---- times ---- */

static const struct backend_ops *host_ops;
static int waits;

static int counted_sync(struct backend *be, struct err *err)
{
    waits++;
    return host_ops->sync(be, err);
}

/* Three windows in calls of two and one. */
static struct asr_times encode_three(struct asr_session *s)
{
    static const struct asr_window windows[] = {{.slot = 2}, {.slot = 0}, {.slot = 1}};
    struct asr_times a, b;
    struct err e;

    a = s->times;
    waits = 0;
    assert_ok(whisper_encode(s, windows, 3, &e), e);
    b = s->times;
    assert_int_equal(b.windows, a.windows + 3);
    return (struct asr_times){.encode_ns = b.encode_ns - a.encode_ns,
                              .mel_ns = b.mel_ns - a.mel_ns,
                              .encoder_ns = b.encoder_ns - a.encoder_ns,
                              .cross_ns = b.cross_ns - a.cross_ns};
}

static void all_stages(struct asr_times t)
{
    assert_true(t.mel_ns > 0 && t.encoder_ns > 0 && t.cross_ns > 0);
    assert_true(t.encode_ns >= t.mel_ns + t.encoder_ns + t.cross_ns);
}

/* A device whose operations go on after their calls is waited for once, unless stages are asked
 * for. */
TEST(stages_are_timed_on_demand)
{
    struct backend_ops counting;
    struct asr_session *s;
    struct asr_times t;
    struct backend *be;
    struct asr_model *w;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.deterministic = false;
    host_ops = be->ops;
    counting = *be->ops;
    counting.sync = counted_sync;
    be->ops = &counting;
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 3, .windows = 2}, &s, &e), e);
    all_stages(encode_three(s)); /* on the host they are known in any case */
    whisper_session_free(s);
    be->info.threads = 0; /* as elsewhere */
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 3, .windows = 2}, &s, &e), e);
    t = encode_three(s);
    assert_int_equal(waits, 1);
    assert_true(t.encode_ns > 0);
    assert_int_equal(t.mel_ns | t.encoder_ns | t.cross_ns, 0);
    s->apart = true;
    all_stages(encode_three(s));
    assert_int_equal(waits, 2 * 3 + 1);
    s->apart = false;
    assert_int_equal(encode_three(s).encoder_ns, 0);
    whisper_session_free(s);
    whisper_free(w);
    be->ops = host_ops;
    backend_close(be);
}

/* Two waves may be under way, of different slots; what is refused changes nothing. */
TEST(waves)
{
    const struct asr_window w[] = {{.slot = 0}, {.slot = 1}, {.slot = 2}, {.slot = 0}};
    const struct choice_ask nothing = {.last = -1, .before = -1, .last_time = -1};
    struct asr_session *s;
    struct choice choice;
    struct backend *be;
    struct asr_model *model;
    float *frames = malloc(sizeof(*frames) * small.mel_bins * WHISPER_FRAMES);
    uint32_t n = 7;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &model, &e), e);
    assert_ok(whisper_session_new(model, (struct asr_shape){.slots = 3}, &s, &e), e);
    assert_ok(whisper_session_rules(s, &rules, &e), e);
    assert_ok(whisper_encoded(s, true, &n, &e), e); /* none is */
    assert_int_equal(n, 0);
    assert_ok(whisper_encode_begin(s, w, 2, &e), e);
    assert_int_equal(whisper_encode_begin(s, w + 2, 2, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "slot 0 has a window on its way"));
    assert_ok(whisper_encode_begin(s, w + 2, 1, &e), e);
    assert_int_equal(whisper_encode_begin(s, w + 2, 1, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "2 calls' windows"));
    for (uint32_t i = 0; i < 2; i++) {
        const struct asr_row row = {i ? 2 : 1, 0, 0, 1};

        assert_int_equal(whisper_choose(s, &row, &nothing, 1, &choice, NULL, &e), ERR_DEVICE);
        assert_ok(whisper_encoded(s, false, &n, &e), e);
        assert_int_equal(n, 2 - i);
        assert_ok(whisper_choose(s, &row, &nothing, 1, &choice, NULL, &e), e);
        /* Scratch tensors are the last wave's. */
        assert_int_equal(whisper_peek_mel(s, row.slot, frames, &e), i ? 0 : ERR_EMPTY);
    }
    assert_ok(whisper_encode_begin(s, w + 3, 1, &e), e);
    assert_ok(whisper_encode(s, w + 1, 1, &e), e); /* after the other, which is there then, too */
    assert_ok(whisper_encoded(s, false, &n, &e), e);
    assert_int_equal(n, 0);
    assert_ok(whisper_choose(s, &(struct asr_row){0, 0, 0, 1}, &nothing, 1, &choice, NULL, &e), e);
    whisper_session_free(s);
    whisper_free(model);
    backend_close(be);
    free(frames);
}

TEST(refusals)
{
    const struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN};
    const struct choice_ask nothing = {.last = -1, .before = -1, .last_time = -1};
    const struct asr_window twice[] = {{.slot = 0}, {.slot = 0}};
    const struct asr_row row = {0, 0, 0, 1};
    struct rules_spec other = rules;
    struct asr_session *s;
    struct choice choice;
    struct backend *be;
    struct asr_model *w;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_int_equal(whisper_random(&small, 3, be, PRECISION_FP8, &w, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "fp32"));
    assert_ok(whisper_random(&small, 3, be, PRECISION_F32, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2}, &s, &e), e);
    assert_int_equal(s->windows, 1);
    assert_int_equal(whisper_encode(s, twice, 2, &e), ERR_DEVICE);
    assert_ok(whisper_encode(s, twice, 1, &e), e);
    assert_int_equal(whisper_choose(s, &row, &ask, 1, &choice, NULL, &e),
                     ERR_DEVICE); /* no rules */
    other.vocab++;
    assert_int_equal(whisper_session_rules(s, &other, &e), ERR_MODEL);
    assert_ok(whisper_session_rules(s, &rules, &e), e);
    assert_ok(whisper_choose(s, &row, &nothing, 1, &choice, NULL, &e), e);
    assert_int_equal(choice.token, -1);
    assert_ok(whisper_choose(s, &row, &ask, 1, &choice, NULL, &e), e);
    assert_true(choice.token >= 650 && choice.usable);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
}

TEST_MAIN(NULL, NULL)
