#include "workers/models/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/backend.h"

#define PEAK_SMALL 2048 /* rows and columns of the product that is called the peak, */
#define PEAK_LARGE 8192 /* and where that takes less than PEAK_BRIEF_NS */
#define PEAK_BRIEF_NS 1000000
#define PEAK_TOTAL_NS 5000000 /* products of one measurement: waiting for them is part of it */
#define PEAK_MOST 64
#define COPY_SMALL ((size_t)64 << 20) /* bytes, as above */
#define COPY_LARGE ((size_t)1 << 30)
#define PROMPT 4
#define MAX_ROUNDS 1000

static const struct {
    const char *name;
    struct whisper_config config;
} presets[] = {
    {"nano", {192, 80, 2151, 4, 3, 768, 2, 3, 768, 1500, 448}},
    {"tiny", {384, 80, 51865, 4, 6, 1536, 4, 6, 1536, 1500, 448}},
    {"base", {512, 80, 51865, 6, 8, 2048, 6, 8, 2048, 1500, 448}},
    {"small", {768, 80, 51865, 12, 12, 3072, 12, 12, 3072, 1500, 448}},
    {"medium", {1024, 80, 51865, 24, 16, 4096, 24, 16, 4096, 1500, 448}},
    {"large-v3", {1280, 128, 51866, 32, 20, 5120, 32, 20, 5120, 1500, 448}},
    {"large-v3-turbo", {1280, 128, 51866, 32, 20, 5120, 4, 20, 5120, 1500, 448}},
};

#define PRESETS (sizeof(presets) / sizeof(presets[0]))

const char *bench_preset_name(uint32_t i) { return i < PRESETS ? presets[i].name : NULL; }

int bench_preset(const char *name, struct whisper_config *ret, struct err *err)
{
    for (size_t i = 0; i < PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            *ret = presets[i].config;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE,
                   "no dimensions are known for '%.60s': nano, tiny, base, small, medium, large-v3 "
                   "or large-v3-turbo, or give a model's directory",
                   name);
}

/* Deterministic noise in [-0.1, 0.1]. */
static void fill_noise(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.1f;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* ---- the peak ---- */

struct peak {
    struct linear *linear;
    void *x, *y;
    enum dtype type;
    int64_t size;
    uint32_t times; /* in a row, before they are waited for */
};

static void peak_free(struct backend *be, struct peak *p)
{
    be->ops->linear_free(be, p->linear);
    be->ops->release(be, p->x);
    be->ops->release(be, p->y);
}

static int peak_time(struct backend *be, struct peak *p, int64_t *ns, struct err *err)
{
    int64_t start = clock_mono_ns();
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < p->times; i++)
        rc = be->ops->linear(be, p->linear, tensor_of(p->type, p->x, p->size, p->size),
                             EPILOGUE_NONE, tensor_of(p->type, p->y, p->size, p->size), err);
    if (rc == 0)
        rc = be->ops->sync(be, err);
    *ns = clock_mono_ns() - start;
    return rc;
}

static int peak_once(struct backend *be, struct peak *p, double *gflops_s, struct err *err)
{
    double size = (double)p->size;
    int64_t ns;
    int rc = peak_time(be, p, &ns, err);

    *gflops_s = 2.0 * size * size * size * p->times / (double)ns;
    return rc;
}

static int peak_sized(struct backend *be, enum precision precision, int64_t size, struct peak *ret,
                      struct err *err)
{
    enum dtype type = precision_type(precision);
    size_t count = (size_t)(size * size);
    float *w = malloc(count * sizeof(*w));
    int rc;

    *ret = (struct peak){.type = type, .size = size, .times = 1};
    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory for a measurement");
    fill_noise(w, count, 1);
    rc = be->ops->linear_new(be, precision, LINEAR_WIDE, size, size, size, w, NULL, &ret->linear,
                             err);
    if (rc == 0)
        rc = be->ops->alloc(be, count * dtype_size(type), &ret->x, err);
    if (rc == 0)
        rc = be->ops->alloc(be, count * dtype_size(type), &ret->y, err);
    if (rc == 0)
        rc = be->ops->put(be, tensor_of(type, ret->x, size, size), w, err);
    free(w);
    if (rc != 0)
        peak_free(be, ret);
    return rc;
}

/* A product that takes long enough on this device for the wait not to count. */
static int peak_new(struct backend *be, enum precision precision, struct peak *ret, struct err *err)
{
    int64_t ns = 0;
    int rc = peak_sized(be, precision, PEAK_SMALL, ret, err);

    if (rc != 0)
        return rc;
    for (int warm = 0; rc == 0 && warm < 2; warm++)
        rc = peak_time(be, ret, &ns, err);
    if (rc == 0 && ns < PEAK_BRIEF_NS) {
        struct err small;
        struct peak large;

        rc = peak_sized(be, precision, PEAK_LARGE, &large, &small);
        if (rc == 0) {
            peak_free(be, ret);
            *ret = large;
            for (int warm = 0; rc == 0 && warm < 2; warm++)
                rc = peak_time(be, ret, &ns, err);
        } else if (rc == ERR_VRAM || rc == ERR_NOMEM) {
            rc = 0; /* the small one it is */
        } else {
            *err = small;
        }
    }
    if (rc != 0) {
        peak_free(be, ret);
        return rc;
    }
    ret->times = ns >= PEAK_TOTAL_NS ? 1 : (uint32_t)(PEAK_TOTAL_NS / (ns > 0 ? ns : 1)) + 1;
    ret->times = ret->times > PEAK_MOST ? PEAK_MOST : ret->times;
    return 0;
}

int bench_peak(struct backend *be, enum precision precision, uint32_t rounds, double *ret,
               struct err *err)
{
    double values[MAX_ROUNDS];
    struct peak p;
    int rc;

    if (rounds < 1 || rounds > MAX_ROUNDS)
        return err_set(err, ERR_USAGE, "1 to %d rounds can be measured", MAX_ROUNDS);
    rc = backend_precision(be, precision, &precision, err);
    if (rc == 0)
        rc = peak_new(be, precision, &p, err);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < rounds; i++)
        rc = peak_once(be, &p, &values[i], err);
    peak_free(be, &p);
    if (rc == 0)
        *ret = median(values, rounds);
    return rc;
}

/* ---- memory ---- */

/* Bytes read and written per second by a copy of `bytes`, the best of `rounds`. */
static int copy_rate(struct backend *be, size_t bytes, uint32_t rounds, double *ret,
                     struct err *err)
{
    void *a = NULL, *b = NULL;
    double best = 0.0;
    int rc = be->ops->alloc(be, bytes, &a, err);

    if (rc == 0)
        rc = be->ops->alloc(be, bytes, &b, err);
    for (uint32_t i = 0; rc == 0 && i <= rounds; i++) { /* the first one warms up */
        int64_t cols = 4096, rows = (int64_t)(bytes / 4096 / sizeof(float)),
                start = clock_mono_ns();
        double rate;

        rc = be->ops->copy(be, tensor_of(DTYPE_F32, b, rows, cols),
                           tensor_of(DTYPE_F32, a, rows, cols), err);
        if (rc == 0)
            rc = be->ops->sync(be, err);
        rate = 2.0 * (double)bytes / (double)(clock_mono_ns() - start);
        best = i > 0 && rate > best ? rate : best;
    }
    be->ops->release(be, a);
    be->ops->release(be, b);
    if (rc == 0)
        *ret = best;
    return rc;
}

int bench_bandwidth(struct backend *be, double *ret, struct err *err)
{
    struct err large;
    int rc = copy_rate(be, COPY_SMALL, 5, ret, err);

    if (rc != 0 || 2.0 * COPY_SMALL / *ret > PEAK_BRIEF_NS)
        return rc;
    rc = copy_rate(be, COPY_LARGE, 5, ret, &large);
    if (rc == 0 || rc == ERR_VRAM || rc == ERR_NOMEM)
        return 0;
    *err = large;
    return rc;
}

/* ---- a model ---- */

struct run {
    struct backend *be;
    struct whisper *w;
    struct whisper_session *s;
    struct peak peak;
    struct whisper_window *windows;
    struct whisper_row *rows;
    struct choice_ask *asks;
    struct choice *choices;
    float *pcm;
    uint32_t slots, tokens;
};

static void close_session(struct run *r)
{
    whisper_session_free(r->s);
    free(r->windows);
    free(r->rows);
    free(r->asks);
    free(r->choices);
    free(r->pcm);
    r->s = NULL;
    r->windows = NULL;
    r->rows = NULL;
    r->asks = NULL;
    r->choices = NULL;
    r->pcm = NULL;
}

static void run_free(struct run *r)
{
    close_session(r);
    whisper_free(r->w);
}

static int load_model(struct run *r, const struct bench_params *params, struct err *err)
{
    struct whisper_config config;

    if (strchr(params->model, '/'))
        return whisper_load(params->model, r->be, params->precision, &r->w, err);
    if (bench_preset(params->model, &config, err) != 0)
        return err->code;
    return whisper_random(&config, 1, r->be, params->precision, &r->w, err);
}

static int make_arrays(struct run *r, struct err *err)
{
    r->windows = calloc(r->slots, sizeof(*r->windows));
    r->rows = calloc(r->slots, sizeof(*r->rows));
    r->asks = calloc(r->slots, sizeof(*r->asks));
    r->choices = calloc(r->slots, sizeof(*r->choices));
    r->pcm = malloc(WHISPER_WINDOW_SAMPLES * sizeof(float));
    if (!r->windows || !r->rows || !r->asks || !r->choices || !r->pcm)
        return err_set(err, ERR_NOMEM, "out of memory for a measurement");
    fill_noise(r->pcm, WHISPER_WINDOW_SAMPLES, 7);
    for (uint32_t i = 0; i < r->slots; i++)
        r->windows[i] = (struct whisper_window){i, r->pcm, WHISPER_WINDOW_SAMPLES};
    return 0;
}

/* Rules like a multilingual model's, over ids of this vocabulary: the end and the specials, then a
 * timestamp per 20 ms. A model with fewer tokens than that has fewer timestamps. */
static int set_rules(struct run *r, struct err *err)
{
    int32_t vocab = (int32_t)whisper_config(r->w)->vocab_size;
    int32_t times = vocab > 2 * 1501 ? 1501 : vocab / 2;
    int32_t begin = vocab - times, blank = 0;
    struct rules_spec spec = {
        .vocab = (uint32_t)vocab,
        .eot = begin - 1,
        .no_speech = -1,
        .timestamp_begin = begin,
        .timestamp_end = vocab - 1,
        .max_initial = begin + (times > 50 ? 50 : times - 1),
        .never_first = &blank,
        .never_first_count = 1,
    };

    if (times < 1 || begin < 1)
        return err_set(err, ERR_MODEL, "a vocabulary of %d tokens cannot be measured", vocab);
    return whisper_session_rules(r->s, &spec, err);
}

/* A session of so many slots, and what is fed to it. */
static int open_session(struct run *r, uint32_t slots, uint32_t windows, struct err *err)
{
    int rc;

    r->slots = slots;
    rc = whisper_session_new(r->w, (struct whisper_shape){.slots = slots, .windows = windows},
                             &r->s, err);
    if (rc == 0)
        rc = set_rules(r, err);
    return rc != 0 ? rc : make_arrays(r, err);
}

static int prepare_model(struct run *r, const struct bench_params *params, struct err *err)
{
    int rc = load_model(r, params, err);

    if (rc != 0)
        return rc;
    r->tokens = params->tokens ? params->tokens : 100;
    if (r->tokens + PROMPT > whisper_config(r->w)->max_target_positions)
        return err_set(err, ERR_USAGE, "a window of this model has at most %u tokens",
                       whisper_config(r->w)->max_target_positions - PROMPT);
    return 0;
}

/* What is fed next: the token that was chosen. The end is one like any other here, so that every
 * window has its length. */
static void take_choice(struct run *r, uint32_t i, uint32_t count)
{
    struct choice_ask *ask = &r->asks[i];
    int32_t token = r->choices[i].token > 0 ? r->choices[i].token : 1;

    r->rows[i].token = token;
    ask->before = ask->last;
    ask->last = token;
    ask->count = (int32_t)count;
}

/* All slots once: windows in, a prompt, then each slot's own choices. */
static int run_round(struct run *r, double *seconds, struct err *err)
{
    int64_t start = clock_mono_ns();
    int rc;

    rc = whisper_encode(r->s, r->windows, r->slots, err);
    for (uint32_t i = 0; i < r->slots; i++) {
        r->rows[i] = (struct whisper_row){i, 0, 0, 1};
        r->asks[i] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
    }
    for (uint32_t pos = 0; rc == 0 && pos < PROMPT + r->tokens; pos++) {
        bool prompt = pos + 1 < PROMPT;

        for (uint32_t i = 0; i < r->slots; i++)
            r->asks[i].what = prompt ? 0 : CHOOSE_TOKEN;
        rc = whisper_choose(r->s, r->rows, r->asks, r->slots, r->choices, NULL, err);
        for (uint32_t i = 0; rc == 0 && i < r->slots; i++) {
            r->rows[i].pos = pos + 1;
            if (!prompt)
                take_choice(r, i, pos + 2 - PROMPT);
        }
    }
    *seconds = (double)(clock_mono_ns() - start) / 1e9;
    return rc;
}

/* What is prepared at first use, and recorded at the second, is not part of a measurement. A model
 * has been warmed up when it was loaded: elsewhere one window is enough. */
static int run_first(struct run *r, struct err *err)
{
    uint32_t tokens = r->tokens;
    double seconds;
    int rc;

    if (!r->be->ops->record_begin)
        return whisper_encode(r->s, r->windows, 1, err);
    r->tokens = 1;
    rc = run_round(r, &seconds, err);
    r->tokens = tokens;
    return rc;
}

/* The fastest of the ladder by one round each; the model stays loaded. 0 when none was asked for;
 * ERR_VRAM when not even the first fits. */
static int climb(struct run *r, const struct bench_params *params, uint32_t *ret, struct err *err)
{
    double best = 0.0;

    *ret = params->slots;
    for (uint32_t i = 0; i < params->ladder_count; i++) {
        double seconds = 0.0;
        int rc = open_session(r, params->ladder[i], params->windows, err);

        if (rc == 0)
            rc = run_first(r, err);
        if (rc == 0)
            rc = run_round(r, &seconds, err);
        close_session(r);
        if (rc == ERR_VRAM && best > 0.0)
            return 0;
        if (rc != 0)
            return rc;
        if (params->ladder[i] / seconds > best) {
            best = params->ladder[i] / seconds;
            *ret = params->ladder[i];
        }
    }
    return 0;
}

static double encoder_flop(const struct whisper_config *c)
{
    double d = c->d_model, t = WHISPER_POSITIONS, ffn = c->encoder_ffn;
    double conv = 2.0 * WHISPER_FRAMES * d * 3.0 * c->mel_bins + 2.0 * t * d * 3.0 * d;

    return conv + c->encoder_layers * (2.0 * t * (4.0 * d * d + 2.0 * d * ffn) + 4.0 * t * t * d);
}

/* Bytes that one step of all slots must read: the decoder's weights, and each slot's cross keys and
 * values. */
static double step_bytes(const struct run *r)
{
    const struct whisper_config *c = whisper_config(r->w);
    double size = (double)dtype_size(precision_type(whisper_precision(r->w))), d = c->d_model;
    double weight = precision_weight_bytes(whisper_precision(r->w));
    double weights = c->decoder_layers * (6.0 * d * d + 2.0 * d * c->decoder_ffn);

    return weight * weights +
           size * ((double)c->vocab_size * d +
                   (double)r->slots * c->decoder_layers * 2.0 * d * WHISPER_POSITIONS);
}

/* Per round: the peak, then the model. */
struct series {
    double peak[MAX_ROUNDS], mel[MAX_ROUNDS], encoder[MAX_ROUNDS], cross[MAX_ROUNDS];
    double encode[MAX_ROUNDS]; /* all three, as fast as they are when nobody asks for each */
    double step[MAX_ROUNDS], share[MAX_ROUNDS], total[MAX_ROUNDS];
};

/* The stages of the encoder, windows once more where a round did not tell them apart. */
static int measure_stages(struct run *r, const struct whisper_times *before, struct series *v,
                          uint32_t i, struct err *err)
{
    struct whisper_times a = *before, b;
    double n;
    int rc = 0;

    whisper_session_times(r->s, &b);
    v->encode[i] = (double)(b.encode_ns - a.encode_ns) / (double)(b.windows - a.windows) / 1e6;
    if (b.encoder_ns == a.encoder_ns) {
        a = b;
        whisper_session_stages(r->s, true);
        rc = whisper_encode(r->s, r->windows, r->slots, err);
        whisper_session_stages(r->s, false);
        whisper_session_times(r->s, &b);
    }
    n = (double)(b.windows - a.windows) * 1e6;
    v->mel[i] = (double)(b.mel_ns - a.mel_ns) / n;
    v->encoder[i] = (double)(b.encoder_ns - a.encoder_ns) / n;
    v->cross[i] = (double)(b.cross_ns - a.cross_ns) / n;
    return rc;
}

static int measure(struct run *r, struct series *v, uint32_t i, struct err *err)
{
    double flop = encoder_flop(whisper_config(r->w)), after;
    struct whisper_times a, b;
    int rc;

    whisper_session_times(r->s, &a);
    rc = peak_once(r->be, &r->peak, &v->peak[i], err);
    if (rc == 0)
        rc = run_round(r, &v->total[i], err);
    if (rc == 0)
        rc = peak_once(r->be, &r->peak, &after, err);
    whisper_session_times(r->s, &b);
    if (rc == 0)
        rc = measure_stages(r, &a, v, i, err);
    if (rc != 0)
        return rc;
    v->peak[i] = (v->peak[i] + after) / 2.0;
    v->step[i] = (double)(b.step_ns - a.step_ns) / (double)(b.steps - a.steps) / 1e6;
    v->share[i] = flop / (v->encoder[i] * 1e6) / v->peak[i];
    return 0;
}

static void summarise(const struct run *r, struct series *v, uint32_t rounds,
                      struct bench_result *ret)
{
    ret->precision = whisper_precision(r->w);
    ret->slots = r->slots;
    ret->windows = whisper_session_windows(r->s);
    ret->tokens = r->tokens;
    ret->rounds = rounds;
    ret->weight_bytes = whisper_weight_bytes(r->w);
    ret->slot_bytes = whisper_slot_bytes(r->w, 1);
    ret->mel_ms = median(v->mel, rounds);
    ret->encoder_ms = median(v->encoder, rounds);
    ret->cross_ms = median(v->cross, rounds);
    ret->step_ms = median(v->step, rounds);
    ret->step_gbytes_s = step_bytes(r) / (ret->step_ms * 1e6);
    ret->encoder_gflop = encoder_flop(whisper_config(r->w)) / 1e9;
    ret->encoder_gflops_s = ret->encoder_gflop / (ret->encoder_ms / 1e3);
    ret->peak_gflops_s = median(v->peak, rounds);
    ret->encoder_share = median(v->share, rounds);
    ret->windows_per_second = r->slots / median(v->total, rounds);
    ret->times_real_time = 30.0 * ret->windows_per_second;
    ret->encoder_windows_s = 1e3 / median(v->encode, rounds);
    ret->decoder_windows_s = 1.0 / (1.0 / ret->windows_per_second - 1.0 / ret->encoder_windows_s);
}

int bench_run(struct backend *be, const struct bench_params *params, struct bench_result *ret,
              struct err *err)
{
    uint32_t rounds = params->rounds ? params->rounds : 5;
    struct series *v = malloc(sizeof(*v));
    int64_t start = clock_mono_ns();
    struct run r = {.be = be};
    uint32_t slots = 0;
    double warm;
    int rc;

    if (!v || rounds > MAX_ROUNDS) {
        free(v);
        return err_set(err, ERR_USAGE, "at most %d rounds can be measured", MAX_ROUNDS);
    }
    rc = prepare_model(&r, params, err);
    if (rc != 0)
        goto out;
    ret->load_s = (double)(clock_mono_ns() - start) / 1e9;
    rc = climb(&r, params, &slots, err);
    if (rc == 0)
        rc = open_session(&r, slots ? slots : whisper_default_slots(r.w, 1), params->windows, err);
    if (rc != 0)
        goto out;
    rc = peak_new(be, whisper_precision(r.w), &r.peak, err);
    if (rc != 0)
        goto out;
    rc = run_first(&r, err);
    if (rc == 0)
        rc = peak_once(be, &r.peak, &warm, err);
    for (uint32_t i = 0; rc == 0 && i < rounds; i++)
        rc = measure(&r, v, i, err);
    peak_free(be, &r.peak);
    if (rc == 0)
        summarise(&r, v, rounds, ret);
out:
    run_free(&r);
    free(v);
    return rc;
}
