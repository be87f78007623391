#include "workers/process/worker_tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/stage.h"
#include "workers/process/tune.h"

#define SLOTS_MOST 512u
#define WINDOWS_MOST 64u
#define SAMPLE_NS INT64_C(200000000) /* of each size, at least two calls */
#define STEPS 24                     /* of the decoder, for one sample */
#define TOKENS_A_WINDOW 100.0        /* of half a minute of speech, about */
#define WINDOW_SECONDS 30.0

/* What is measured with: noise in every window, since the time does not depend on what is heard. */
struct tuner {
    const struct stage_load *load;
    float *pcm;
    struct whisper_window *windows; /* SLOTS_MOST */
    struct whisper_row *rows;       /* SLOTS_MOST windows' each */
    struct choice_ask *asks;
    struct choice *choices;
    struct candidate *top;
    struct whisper_move *moves; /* one for each window */
    int64_t deadline_ns;
};

static void tuner_free(struct tuner *t)
{
    free(t->pcm);
    free(t->windows);
    free(t->rows);
    free(t->asks);
    free(t->choices);
    free(t->top);
    free(t->moves);
}

static int tuner_init(struct tuner *t, const struct stage_load *load, struct err *err)
{
    size_t rows = (size_t)SLOTS_MOST * load->rows;
    uint32_t x = 1;

    *t = (struct tuner){.load = load};
    t->pcm = malloc(WHISPER_WINDOW_SAMPLES * sizeof(*t->pcm));
    t->windows = calloc(SLOTS_MOST, sizeof(*t->windows));
    t->rows = calloc(rows, sizeof(*t->rows));
    t->asks = calloc(rows, sizeof(*t->asks));
    t->choices = calloc(rows, sizeof(*t->choices));
    t->top = calloc(rows * (load->shape->branches + 1), sizeof(*t->top));
    t->moves = calloc(SLOTS_MOST, sizeof(*t->moves));
    if (!t->pcm || !t->windows || !t->rows || !t->asks || !t->choices || !t->top || !t->moves) {
        tuner_free(t);
        return err_set(err, ERR_NOMEM, "no memory to measure the device");
    }
    for (size_t i = 0; i < WHISPER_WINDOW_SAMPLES; i++) {
        x = x * 1664525u + 1013904223u;
        t->pcm[i] = (float)(x >> 8) / 16777216.0f * 0.2f - 0.1f;
    }
    for (uint32_t i = 0; i < SLOTS_MOST; i++) {
        t->windows[i] = (struct whisper_window){i, t->pcm, WHISPER_WINDOW_SAMPLES};
        t->moves[i] = (struct whisper_move){.slot = i, .from = 0, .to = 1};
    }
    for (size_t i = 0; i < rows; i++)
        t->asks[i] =
            (struct choice_ask){.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN};
    return 0;
}

static bool out_of_time(const struct tuner *t) { return clock_mono_ns() >= t->deadline_ns; }

/* A session that can choose: any rules do, as long as there are timestamps. */
static int open_session(struct tuner *t, uint32_t slots, uint32_t windows,
                        struct whisper_session **ret, struct err *err)
{
    struct whisper_shape shape = *t->load->shape;
    int32_t vocab = (int32_t)whisper_config(t->load->model)->vocab_size;
    int32_t times = vocab > 2 * 1501 ? 1501 : vocab / 2;
    struct rules_spec spec = {
        .vocab = (uint32_t)vocab,
        .eot = vocab - times - 1,
        .no_speech = -1,
        .timestamp_begin = vocab - times,
        .timestamp_end = vocab - 1,
        .max_initial = vocab - 1,
    };
    int rc;

    shape.slots = slots;
    shape.windows = windows;
    rc = whisper_session_new(t->load->model, shape, ret, err);
    return rc != 0 ? rc : whisper_session_rules(*ret, &spec, err);
}

typedef int (*work_fn)(struct tuner *t, struct whisper_session *s, uint32_t n, struct err *err);

/* Calls a second of fn, the first of which prepares what is prepared at first use and is not
 * counted. */
static int calls_a_second(struct tuner *t, struct whisper_session *s, uint32_t n, work_fn fn,
                          double *ret, struct err *err)
{
    int rc = fn(t, s, n, err);
    int64_t start = clock_mono_ns(), now = start;
    uint32_t calls = 0;

    while (rc == 0 && (calls < 2 || now - start < SAMPLE_NS) && (calls < 1 || !out_of_time(t))) {
        rc = fn(t, s, n, err);
        calls++;
        now = clock_mono_ns();
    }
    *ret = now > start ? (double)calls * 1e9 / (double)(now - start) : 0;
    return rc;
}

static int choose(struct tuner *t, struct whisper_session *s, uint32_t n, struct err *err)
{
    return whisper_choose(s, t->rows, t->asks, n, t->choices,
                          t->load->shape->branches > 1 ? t->top : NULL, err);
}

/* To the end of what it gave the device, so that time is time: the last choice waits for all. */
static int encode(struct tuner *t, struct whisper_session *s, uint32_t n, struct err *err)
{
    int rc = whisper_encode(s, t->windows, n, err);

    t->rows[0] = (struct whisper_row){.slot = n - 1};
    return rc != 0 ? rc : choose(t, s, 1, err);
}

/* In a beam search one hypothesis in a step is another's copy, about. */
static int decode(struct tuner *t, struct whisper_session *s, uint32_t n, struct err *err)
{
    uint32_t beams = t->load->rows;
    int rc = 0;

    for (uint32_t pos = 0; rc == 0 && pos < STEPS; pos++) {
        for (uint32_t i = 0; i < n * beams; i++)
            t->rows[i] = (struct whisper_row){.slot = i / beams, .branch = i % beams, .pos = pos};
        if (beams > 1 && pos > 0)
            rc = whisper_branch(s, t->moves, n, err);
        if (rc == 0)
            rc = choose(t, s, n * beams, err);
    }
    return rc;
}

/* Windows a second of the encoder alone, or of both networks. *ret 0: so many do not fit. */
static int sample(struct tuner *t, uint32_t slots, uint32_t windows, bool both, double *ret,
                  struct err *err)
{
    struct whisper_session *s = NULL;
    double encodes = 0, decodes = 0;
    int rc = open_session(t, slots, windows, &s, err);

    *ret = 0;
    if (rc == 0)
        rc = calls_a_second(t, s, slots, encode, &encodes, err);
    if (rc == 0 && both)
        rc = calls_a_second(t, s, slots, decode, &decodes, err);
    whisper_session_free(s);
    if (rc == ERR_VRAM)
        return 0;
    if (rc == 0 && !both)
        *ret = slots * encodes;
    else if (rc == 0 && encodes > 0 && decodes > 0)
        *ret = slots / (1 / encodes + TOKENS_A_WINDOW / STEPS / decodes);
    return rc;
}

/* windows 0: the encoder's batch is looked for, each size with as many slots; else the slots. 0 in
 * *ret: not even one fits. */
static int search(struct tuner *t, uint32_t windows, uint32_t *ret, double *rate, struct err *err)
{
    uint32_t most = windows ? SLOTS_MOST : WINDOWS_MOST, size;
    struct tune tune = {0};
    double seen;

    while ((size = tune_next(&tune, most)) != 0 && !(tune.count && out_of_time(t))) {
        int rc = sample(t, size, windows ? windows : size, windows != 0, &seen, err);

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
static int measure(struct tuner *t, bool grouped, struct worker_tuning *ret, struct err *err)
{
    int64_t start = clock_mono_ns();
    uint32_t windows = 1, slots = 0;
    double rate = 0;
    int rc = 0;

    t->deadline_ns = start + INT64_C(1000000) * WORKER_TUNE_MS / 2;
    if (grouped)
        rc = search(t, 0, &windows, &rate, err);
    t->deadline_ns = start + INT64_C(1000000) * WORKER_TUNE_MS;
    if (rc == 0 && windows)
        rc = search(t, windows, &slots, &rate, err);
    if (rc != 0 || slots == 0)
        return rc;
    *ret = (struct worker_tuning){slots, windows < slots ? windows : slots,
                                  (float)(rate * WINDOW_SECONDS), true};
    return 0;
}

static bool measures(const char *device)
{
    const char *asked = getenv("NIGHTSHIFT_TUNE");

    if (asked && asked[0])
        return strcmp(asked, "0") != 0;
    return strcmp(device, "cpu") != 0;
}

int worker_tune(const struct worker *w, struct backend *be, const struct stage_load *load,
                struct worker_tuning *ret, struct err *err)
{
    const struct msg_setup *m = &w->setup;
    struct tuner t;
    int rc;

    *ret = (struct worker_tuning){.slots = m->slots, .windows = m->windows};
    if (m->slots || m->windows)
        return 0;
    if (m->tuned_slots && m->tuned_windows) {
        *ret = (struct worker_tuning){m->tuned_slots, m->tuned_windows, m->tuned_rate, false};
        return 0;
    }
    if (!measures(w->device))
        return 0;
    rc = tuner_init(&t, load, err);
    if (rc == 0) {
        rc = measure(&t, !be->info.deterministic, ret, err);
        tuner_free(&t);
    }
    be->peak = be->allocated; /* what was tried out is not what the work takes */
    return rc;
}

/* "cuda:GPU-1234: NVIDIA H200, fp16, 64 slots, encoding 16 at once; 800 x real time, measured" */
static void describe(const struct msg_ready *m, const char *name, uint32_t threads, char *text,
                     size_t cap)
{
    char with[48] = "", rate[64] = "";

    if (threads)
        snprintf(with, sizeof(with), "%u thread%s, ", threads, threads == 1 ? "" : "s");
    if (m->rate > 0)
        snprintf(rate, sizeof(rate), "; %.3g x real time, %s", (double)m->rate,
                 m->measured ? "measured" : "as remembered");
    snprintf(text, cap, "%s: %s, %s%s, %u slot%s, encoding %u at once%s", name, m->device, with,
             m->precision, m->slots, m->slots == 1 ? "" : "s", m->windows, rate);
}

void worker_post_ready(struct worker *w, const struct backend *be, const struct stage *stage,
                       const struct worker_room *room, const struct worker_tuning *t)
{
    char *companions[SETUP_MAX_COMPANIONS];
    uint32_t slots = stage_slots(stage);
    struct buf b = BUF_INIT;
    struct err text = {0};
    struct msg_ready m = {
        .capacity = room->capacity,
        .device = (char *)be->info.name,
        .device_id = (char *)be->info.id,
        .driver = (char *)be->info.driver,
        .precision = (char *)precision_name(stage_precision(stage)),
        .slots = slots,
        .windows = stage_windows(stage),
        .predicted_bytes = room->predicted_bytes,
        .allocated_bytes = be->allocated,
        .rate = slots < t->slots ? t->rate * (float)slots / (float)t->slots : t->rate,
        .measured = t->measured,
        .companion_count = room->companion_count,
        .companions = companions,
    };

    for (uint32_t i = 0; i < room->companion_count; i++)
        companions[i] = worker_sentence(room->companions[i]);
    describe(&m, w->device, be->info.threads, text.msg, sizeof(text.msg));
    m.description = worker_sentence(&text);
    msg_ready_put(&b, &m);
    outbox_post(&w->out, MSG_READY, &b);
    free(m.description);
    for (uint32_t i = 0; i < room->companion_count; i++)
        free(companions[i]);
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
    w->vram_bytes = be->allocated;
    w->vram_peak = be->peak;
    pthread_mutex_unlock(&w->lock);
}
