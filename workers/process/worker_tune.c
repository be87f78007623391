#include "workers/process/worker_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "workers/stages/synthetic_load.h"
#include "workers/stages/stage_bench.h"
#include "workers/stages/stage_kind.h"

#define SLOTS_MOST 512u
#define WINDOWS_MOST 64u
#define SAMPLE_S 0.2          /* of each size, at least two calls */
#define STEPS 24              /* of the decoder, in one call, where it follows the encoder */
#define TOKENS_A_WINDOW 100.0 /* of half a minute of speech, about */
#define WINDOW_SECONDS 30.0

/* ---- which sizes: pure */

/* Powers of two, and from 16 on the halfway stones between them. */
static uint32_t step_after(uint32_t size)
{
    uint32_t power = 1;

    if (size == 0)
        return 1;
    while (power <= size / 2)
        power *= 2;
    if (size < 16)
        return power * 2;
    return size < power + power / 2 ? power + power / 2 : power * 2;
}

static double best_of(const struct tune *t, uint32_t count)
{
    double best = 0;

    for (uint32_t i = 0; i < count; i++)
        best = fmax(best, t->samples[i].rate);
    return best;
}

/* Did the k-th sample give less than TUNE_NEAR over all before it? */
static int is_flat(const struct tune *t, uint32_t k)
{
    return k > 0 && t->samples[k].rate < best_of(t, k) * (1 + TUNE_NEAR);
}

uint32_t tune_next(const struct tune *t, uint32_t most)
{
    uint32_t n = t->count, last, next;

    if (n == 0)
        return t->first >= most ? most : t->first ? t->first : 1;
    last = t->samples[n - 1].size;
    if (n == TUNE_STEPS_MAX || last >= most || t->samples[n - 1].rate == 0)
        return 0;
    if (n > 2 && is_flat(t, n - 1) && is_flat(t, n - 2))
        return 0;
    next = step_after(last);
    return next < most ? next : most;
}

void tune_add(struct tune *t, uint32_t size, double rate)
{
    if (t->count == TUNE_STEPS_MAX)
        return;
    t->samples[t->count++] = (struct tune_sample){size, isfinite(rate) && rate > 0 ? rate : 0};
}

uint32_t tune_pick(const struct tune *t, double *rate)
{
    double best = best_of(t, t->count);

    for (uint32_t i = 0; i < t->count; i++)
        if (t->samples[i].rate > 0 && t->samples[i].rate >= best * (1 - TUNE_NEAR)) {
            *rate = t->samples[i].rate;
            return t->samples[i].size;
        }
    return 0;
}

/* ---- measuring */

struct tuner {
    struct stage *synthetic_load; /* borrowed */
    bool beside;                  /* the device encodes beside steps */
    int64_t deadline_ns;
};

static bool out_of_time(const struct tuner *t) { return clock_mono_ns() >= t->deadline_ns; }

/* Windows a second in the room that there is, of the encoder alone (both false) or of both networks
 * as a run has them, with the times of words where the transcription has them: beside each other
 * with whole windows, since a shorter one would be less to step beside; or in turn with part of
 * one. The first call prepares what is prepared at first use, and the windows that others follow,
 * and is not counted. */
static int measure_room(struct tuner *t, bool both, double *ret, struct err *err)
{
    uint32_t steps = both ? t->beside ? (uint32_t)TOKENS_A_WINDOW : STEPS : 0;
    struct stage_synthetic work = {.tokens = steps, .words = true};
    uint32_t slots = stage_slots(t->synthetic_load), calls = 0;
    double seconds, all = 0, encoder;
    struct synthetic_meter before, after;
    int rc = stage_bench_synthetic(t->synthetic_load, slots, work, &seconds, err);

    work.beside = both && t->beside;
    synthetic_meter(t->synthetic_load, &before);
    while (rc == 0 && (calls < 2 || all < SAMPLE_S) && (calls < 1 || !out_of_time(t))) {
        rc = stage_bench_synthetic(t->synthetic_load, slots, work, &seconds, err);
        all += seconds;
        calls++;
    }
    if (rc != 0)
        return rc;
    synthetic_meter(t->synthetic_load, &after);
    encoder = both ? (double)(after.times.encode_ns - before.times.encode_ns) / 1e9 : all;
    *ret =
        calls * slots / (work.beside ? all : encoder + TOKENS_A_WINDOW / STEPS * (all - encoder));
    return 0;
}

/* *ret 0: the size does not fit. The device's preparations for a size (compiling attention takes
 * seconds) do not count as measuring time: else the larger sizes would not be tried. */
static int measure_size(struct tuner *t, uint32_t slots, uint32_t windows, bool both, double *ret,
                        struct err *err)
{
    int64_t start = clock_mono_ns();
    int rc = synthetic_resize(t->synthetic_load, slots, windows, err);

    t->deadline_ns += clock_mono_ns() - start;
    *ret = 0;
    if (rc == 0)
        rc = measure_room(t, both, ret, err);
    return rc == ERR_VRAM ? 0 : rc;
}

/* windows 0: the encoder's batch is looked for, each size with as many slots; else the slots, of
 * which there are as many as windows at least. 0 in *ret: not even the fewest fit. */
static int search_best_size(struct tuner *t, uint32_t windows, uint32_t *ret, double *rate,
                            struct err *err)
{
    uint32_t most = windows ? SLOTS_MOST : WINDOWS_MOST, size;
    struct tune tune = {.first = windows};
    double seen;

    while ((size = tune_next(&tune, most)) != 0 && !(tune.count && out_of_time(t))) {
        int rc = measure_size(t, size, windows ? windows : size, windows > 0, &seen, err);

        if (rc != 0)
            return rc;
        log_debug("%u %s: %.2f windows/s", size, windows ? "slots" : "windows at once", seen);
        tune_add(&tune, size, seen);
    }
    *rate = 0;
    *ret = tune_pick(&tune, rate);
    return 0;
}

/* The encoder first, in half of the time; where grouping would change results, it takes one. */
static int measure_tuning(struct tuner *t, bool grouped, struct worker_tuning *ret, struct err *err)
{
    int64_t start = clock_mono_ns();
    uint32_t windows = 1, slots = 0;
    double rate = 0;
    int rc = 0;

    t->deadline_ns = start + INT64_C(1000000) * WORKER_TUNE_MS / 2;
    if (grouped)
        rc = search_best_size(t, 0, &windows, &rate, err);
    t->deadline_ns += INT64_C(1000000) * WORKER_TUNE_MS / 2;
    while (rc == 0 && windows && slots == 0) {
        rc = search_best_size(t, windows, &slots, &rate, err);
        windows = slots ? windows : windows / 2; /* steps may have wanted what memory was left */
    }
    if (rc != 0 || slots == 0)
        return rc;
    *ret = (struct worker_tuning){slots, windows, (float)(rate * WINDOW_SECONDS), true};
    return 0;
}

static bool should_measure_device(const char *device)
{
    const char *asked = getenv("NIGHTSHIFT_TUNE");

    if (asked && asked[0])
        return strcmp(asked, "0") != 0;
    return strcmp(device, "cpu") != 0;
}

int worker_tune(const struct worker *w, struct backend *be, struct stage *synthetic_load,
                struct worker_tuning *ret, struct err *err)
{
    const struct msg_setup *m = &w->setup;
    struct tuner t = {.synthetic_load = synthetic_load, .beside = be->ops->fork != NULL};
    struct err none;
    int rc;

    *ret = (struct worker_tuning){.slots = m->slots, .windows = m->windows};
    if (m->slots || m->windows)
        return 0;
    if (m->tuned_slots && m->tuned_windows) {
        *ret = (struct worker_tuning){m->tuned_slots, m->tuned_windows, m->tuned_rate, false};
        return 0;
    }
    if (!should_measure_device(w->device))
        return 0;
    rc = measure_tuning(&t, !be->info.deterministic, ret, err);
    synthetic_resize(synthetic_load, 0, 0, &none);
    be->peak = be->allocated; /* what was tried out is not what the work takes */
    return rc;
}

int worker_tune_other(const struct worker *w, uint32_t k, const struct stage_setup *setup,
                      struct backend *be, float *ret, struct err *err)
{
    const struct stage_kind *kind = stage_kind_find(setup->name);
    const struct msg_setup *m = &w->setup;
    const struct stage_bench_params params = {.setup = *setup, .rounds = 1, .round_s = SAMPLE_S};
    float remembered = k ? m->stages[k].tuned_rate : m->tuned_rate;
    struct stage_bench_result r;
    int rc;

    *ret = 0;
    if (!kind || kind->synthetic_load || remembered > 0 || m->slots || m->windows ||
        !should_measure_device(w->device))
        return 0;
    rc = stage_bench_run(be, &params, &r, err);
    if (rc == 0)
        *ret = (float)r.times_real_time;
    else
        log_debug("%s is not measured: %s", setup->name, err->msg);
    be->peak = be->allocated;
    return rc == ERR_DEVICE ? rc : 0; /* any other error is told when the stage is opened */
}

void worker_recall(const struct worker *w, struct backend *be)
{
    const struct msg_setup *m = &w->setup;
    struct err err = {0};

    if (m->algorithms_bytes == 0 || !be->ops->learn)
        return;
    if (be->ops->learn(be, m->algorithms, m->algorithms_bytes, &err) != 0)
        log_debug("what is remembered of the device is not taken: %s", err.msg);
}

/* ret: what the device knows by now, where the scheduler does not; else, and without the memory for
 * it, nothing. */
static void find_algorithms(const struct worker *w, struct backend *be, struct buf *ret)
{
    const struct msg_setup *m = &w->setup;
    struct err err = {0};

    if (!be->ops->recall)
        return;
    if (be->ops->recall(be, ret, &err) != 0 || ret->len > SETUP_ALGORITHMS_MAX ||
        (ret->len == m->algorithms_bytes && memcmp(ret->data, m->algorithms, ret->len) == 0))
        buf_free(ret);
}

/* "cuda:GPU-1234: NVIDIA H200, fp16, caches of 8 bits, 64 slots, encoding 16 at once; 8012 x real
 * time, measured" */
static void describe_worker(const struct msg_ready *m, const char *name, uint32_t threads,
                            enum cache_precision cache, char *text, size_t cap)
{
    char with[48] = "", rate[64] = "";

    if (threads)
        snprintf(with, sizeof(with), "%u thread%s, ", threads, threads == 1 ? "" : "s");
    if (m->rate > 0)
        snprintf(rate, sizeof(rate), "; %.*f x real time, %s", m->rate < 10 ? 1 : 0,
                 (double)m->rate, m->measured ? "measured" : "as remembered");
    snprintf(text, cap, "%s: %s, %s%s%s, %u slot%s, encoding %u at once%s", name, m->device, with,
             m->precision, cache == CACHE_8 ? ", caches of 8 bits" : "", m->slots,
             m->slots == 1 ? "" : "s", m->windows, rate);
}

void worker_post_ready(struct worker *w, struct backend *be, const struct stage *stage,
                       const struct worker_room *room, const struct worker_tuning *t)
{
    char *why_not[SETUP_MAX_STAGES];
    uint32_t slots = stage_slots(stage);
    struct buf b = BUF_INIT, algorithms = BUF_INIT;
    struct err text = {0};
    struct msg_ready m = {
        .capacity = room->capacity,
        .device = (char *)be->info.name,
        .precision = (char *)precision_name(stage_precision(stage)),
        .slots = slots,
        .windows = stage_windows(stage),
        .predicted_bytes = room->predicted_bytes,
        .allocated_bytes = be->allocated,
        .rate = slots < t->slots ? t->rate * (float)slots / (float)t->slots : t->rate,
        .measured = t->measured,
        .stage_count = w->stage_count,
        .why_not = why_not,
        .rate_count = w->stage_count - 1,
        .rates = room->rates,
    };

    for (uint32_t k = 0; k < m.stage_count; k++)
        why_not[k] = worker_sentence(room->why_not[k]);
    describe_worker(&m, w->device, be->info.threads, stage_cache(stage), text.msg,
                    sizeof(text.msg));
    m.description = worker_sentence(&text);
    find_algorithms(w, be, &algorithms);
    m.algorithms = algorithms.data;
    m.algorithms_bytes = algorithms.len;
    msg_ready_put(&b, &m);
    outbox_post(&w->out, MSG_READY, &b);
    buf_free(&algorithms);
    free(m.description);
    for (uint32_t k = 0; k < m.stage_count; k++)
        free(why_not[k]);
}

void worker_post_tuned(struct worker *w, uint32_t slots, uint32_t windows, const char *reason)
{
    struct buf b = BUF_INIT;
    struct err text = {0};
    struct msg_tuned m = {.slots = slots, .windows = windows};

    snprintf(text.msg, sizeof(text.msg), "%s", reason);
    m.reason = worker_sentence(&text);
    msg_tuned_put(&b, &m);
    outbox_post(&w->out, MSG_TUNED, &b);
    free(m.reason);
}

void worker_note_memory(struct worker *w, const struct backend *be)
{
    pthread_mutex_lock(&w->lock);
    backend_memory(be, &w->vram_bytes, &w->vram_peak);
    pthread_mutex_unlock(&w->lock);
}
