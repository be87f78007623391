#include "workers/stages/stage_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/backend.h"
#include "gpu/peak.h"
#include "workers/audio/babble.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/synthetic_load.h"

#define RATE 16000
#define LANES 2
#define UNIT_S 10           /* of a lane's sound, if the stage has no hop */
#define UNIT_PASSAGES 16    /* of a lane */
#define PASSAGE_CHARS 400   /* the usual length (stage_embed_text.c) */
#define SPEECH_CHARS_S 15.0 /* 150 words a minute */
#define USUAL_ROUND_S 1.0   /* at least */
#define MOST_UNITS 360      /* an hour in each lane */
#define BABBLE_S 81         /* whole turns of each voice; then it begins again */
#define WINDOW_S 30.0       /* of a synthetic load's lane */
#define PROMPT 4            /* tokens before the first that is chosen */
#define USUAL_TOKENS 100
#define USUAL_ROUNDS 5
#define MAX_ROUNDS 1000

struct bench {
    const struct stage_bench_params *params;
    struct backend *be;
    struct stage *stage;
    bool loads, hears;
    int64_t unit; /* samples of a lane's sound: a round has whole units */
    uint32_t rounds;
    struct peak *peak;               /* synthetic loads */
    float *babble;                   /* [BABBLE_S * RATE] */
    char *text;                      /* passages, one behind the other */
    struct result_passage *passages; /* [LANES * MOST_UNITS * UNIT_PASSAGES] */
    int64_t end;                     /* of a lane, in samples */
    uint32_t open;                   /* lanes */
    uint64_t items, vectors;         /* of a round */
    struct err failed;
};

/* The work of one round. */
struct round {
    uint32_t lanes;
    uint32_t units;                        /* of each lane's sound, or of its passages */
    struct stage_synthetic synthetic_load; /* or this of its window */
};

struct sample {
    double wall_s, cpu_s;
};

/* ---- what is heard and read */

/* The recording goes on behind the shard. */
static int64_t read_babble(void *arg, int64_t at, size_t n, float *out)
{
    const struct bench *b = arg;
    const size_t all = (size_t)BABBLE_S * RATE;

    for (size_t done = 0, part; done < n; done += part) {
        size_t from = ((size_t)at + done) % all;

        part = n - done < all - from ? n - done : all - from;
        memcpy(out + done, b->babble + from, part * sizeof(*out));
    }
    return (int64_t)n;
}

static void release_babble(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
}

static int64_t end_of(void *arg)
{
    const struct bench *b = arg;

    return b->end;
}

/* Sentences of nobody, of PASSAGE_CHARS characters about: words drawn from a few, so that each
 * passage has tokens of its own. */
static void write_passage(char *text, uint32_t seed)
{
    static const char *const words[] = {
        "the",    "archive", "of",     "a",      "recording", "we",      "heard", "about", "music",
        "night",  "and",     "people", "talked", "in",        "morning", "light", "was",   "over",
        "bridge", "harbour", "to",     "train",  "question",  "answer",  "which", "years", "before",
    };
    size_t len = 0;

    while (len < PASSAGE_CHARS - 12) {
        seed = seed * 1664525u + 1013904223u;
        len += (size_t)snprintf(text + len, PASSAGE_CHARS - len, "%s%s", len ? " " : "",
                                words[(seed >> 16) % (sizeof(words) / sizeof(words[0]))]);
    }
}

static int make_passages(struct bench *b, struct err *err)
{
    size_t n = (size_t)LANES * MOST_UNITS * UNIT_PASSAGES;

    b->text = malloc(n * PASSAGE_CHARS);
    b->passages = calloc(n, sizeof(*b->passages));
    if (!b->text || !b->passages)
        return err_set(err, ERR_NOMEM, "no memory for passages to measure with");
    for (size_t i = 0; i < n; i++) {
        char *text = b->text + i * PASSAGE_CHARS;

        write_passage(text, (uint32_t)i);
        b->passages[i] = (struct result_passage){0, 1, text};
    }
    return 0;
}

static int make_babble(struct bench *b, struct err *err)
{
    b->babble = malloc((size_t)BABBLE_S * RATE * sizeof(*b->babble));
    if (!b->babble)
        return err_set(err, ERR_NOMEM, "no memory for sound to measure with");
    babble_fill(b->babble, (size_t)BABBLE_S * RATE);
    return 0;
}

/* ---- a round */

static void on_done(void *arg, const struct stage_result *result, const struct err *err)
{
    struct bench *b = arg;

    b->open--;
    if (!result) {
        b->failed = *err;
        return;
    }
    b->items += b->hears ? result->windows : result->vector_count;
    b->vectors += result->voices.vector_count;
}

static int add_lane(struct bench *b, const struct round *r, uint32_t lane, struct err *err)
{
    struct stage_work work = {.end = end_of,
                              .end_arg = b,
                              .source = {.read = read_babble, .release = release_babble, .arg = b},
                              .language = "",
                              .synthetic_load = r->synthetic_load};
    struct stage_lane *ignored;
    int rc;

    if (b->passages) {
        work.passage_count = r->units * UNIT_PASSAGES;
        work.passages = b->passages + (size_t)lane * work.passage_count;
    }
    rc = stage_add(b->stage, &work, on_done, b, &ignored, err);
    b->open += rc == 0;
    return rc;
}

static double cpu_s(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_round(struct bench *b, const struct round *r, struct sample *ret, struct err *err)
{
    int64_t start = clock_mono_ns();
    double cpu = cpu_s();
    bool progress = true;
    int rc = 0;

    b->end = (int64_t)r->units * b->unit;
    b->items = b->vectors = 0;
    b->open = 0; /* lanes of a round that failed are gone */
    for (uint32_t i = 0; rc == 0 && i < r->lanes; i++)
        rc = add_lane(b, r, i, err);
    while (rc == 0 && b->open && progress)
        rc = stage_step(b->stage, &progress, err);
    if (rc == 0 && b->failed.code != 0)
        rc = (*err = b->failed).code;
    if (rc == 0 && b->open)
        rc = err_set(err, ERR_DEVICE, "the stage stands still");
    *ret = (struct sample){(double)(clock_mono_ns() - start) / 1e9, cpu_s() - cpu};
    return rc;
}

int stage_bench_synthetic(struct stage *synthetic_load, uint32_t lanes, struct stage_synthetic work,
                          double *ret, struct err *err)
{
    const struct round round = {.lanes = lanes, .synthetic_load = work};
    struct bench b = {.stage = synthetic_load, .hears = true};
    struct sample s;
    int rc = run_round(&b, &round, &s, err);

    *ret = s.wall_s;
    return rc;
}

/* ---- synthetic loads */

static uint32_t tokens_of(const struct bench *b)
{
    return b->params->tokens ? b->params->tokens : USUAL_TOKENS;
}

/* Tokens are chosen from the prompt's last position on. */
static struct round whole_window(const struct bench *b)
{
    return (struct round){.lanes = stage_slots(b->stage),
                          .synthetic_load = {.prompt = PROMPT - 1, .tokens = tokens_of(b) + 1}};
}

/* The same as a run does it: where the device encodes beside its steps, as windows that follow
 * those of whole_window; else that itself. */
static struct round as_a_run(const struct bench *b)
{
    struct round r = whole_window(b);

    r.synthetic_load.beside = b->be->ops->fork != NULL;
    return r;
}

/* Operations are prepared at first use and recorded at the second: neither is measured. Loading has
 * warmed up the model: if nothing is recorded, one window is enough. */
static int warm_up_bench(struct bench *b, struct err *err)
{
    struct round first = {.lanes = 1};
    struct sample ignored;

    if (b->be->ops->record_begin)
        first = (struct round){.lanes = stage_slots(b->stage),
                               .synthetic_load = {.prompt = PROMPT - 1, .tokens = 2}};
    return run_round(b, &first, &ignored, err);
}

/* The fastest of the ladder by one round each; the model stays loaded. ERR_VRAM when not even the
 * first fits. */
static int find_fastest_slots(struct bench *b, uint32_t *ret, struct err *err)
{
    const struct stage_bench_params *p = b->params;
    double best = 0.0;

    for (uint32_t i = 0; i < p->ladder_count; i++) {
        struct round round;
        struct sample s;
        int rc = synthetic_resize(b->stage, p->ladder[i], p->setup.windows, err);

        if (rc == 0)
            rc = warm_up_bench(b, err);
        round = whole_window(b);
        if (rc == 0)
            rc = run_round(b, &round, &s, err);
        round = as_a_run(b);
        if (rc == 0 && round.synthetic_load.beside)
            rc = run_round(b, &round, &s, err);
        if (rc == ERR_VRAM && best > 0.0)
            return 0;
        if (rc != 0)
            return rc;
        if (p->ladder[i] / s.wall_s > best) {
            best = p->ladder[i] / s.wall_s;
            *ret = p->ladder[i];
        }
    }
    return 0;
}

/* Room, and the yardstick. */
static int prepare_synthetic(struct bench *b, struct err *err)
{
    const struct stage_bench_params *p = b->params;
    uint32_t slots = p->setup.slots;
    struct synthetic_meter m;
    double ignored;
    int rc;

    synthetic_meter(b->stage, &m);
    if ((uint64_t)tokens_of(b) + PROMPT > m.positions)
        return err_set(err, ERR_USAGE, "a window of this model has at most %u tokens",
                       m.positions - PROMPT);
    rc = find_fastest_slots(b, &slots, err);
    if (rc == 0)
        rc = synthetic_resize(b->stage, slots ? slots : m.default_slots, p->setup.windows, err);
    if (rc == 0)
        rc = peak_new(b->be, stage_precision(b->stage), &b->peak, err);
    if (rc == 0)
        rc = warm_up_bench(b, err);
    if (rc == 0)
        rc = peak_gflops_s(b->peak, &ignored, err);
    return rc;
}

/* ---- sound and text */

/* Units of a round that lasts long enough; what is made at first use is made by then. The host
 * makes little, so that a first round that is long enough itself is the measure there. */
static int choose_units(struct bench *b, struct round *r, struct err *err)
{
    const double least = b->params->round_s > 0 ? b->params->round_s : USUAL_ROUND_S;
    struct sample s;
    int rc = run_round(b, r, &s, err);

    if (rc == 0 && (b->be->info.threads == 0 || s.wall_s < least))
        rc = run_round(b, r, &s, err);
    r->units = s.wall_s * MOST_UNITS < least ? MOST_UNITS : (uint32_t)ceil(least / s.wall_s);
    return rc;
}

/* ---- all rounds */

/* One value per round. All but wall and cpu are of a synthetic load's networks: in_turn is the
 * seconds of a round with one network after the other; peak is in GFLOP/s, share a part of it; the
 * rest is in ms. */
struct series {
    double wall[MAX_ROUNDS], cpu[MAX_ROUNDS];
    double in_turn[MAX_ROUNDS];
    double peak[MAX_ROUNDS], mel[MAX_ROUNDS], encoder[MAX_ROUNDS], cross[MAX_ROUNDS];
    double encode[MAX_ROUNDS]; /* all three, as fast as they are when nobody asks for each */
    double step[MAX_ROUNDS], share[MAX_ROUNDS], align[MAX_ROUNDS];
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* The parts of the encoder in round i, between before and m, whose windows go through it once more
 * where the round did not tell them apart. */
static int measure_parts(struct bench *b, const struct synthetic_meter *before,
                         struct synthetic_meter m, struct series *v, uint32_t i, struct err *err)
{
    const struct round again = {.lanes = stage_slots(b->stage), .synthetic_load = {.apart = true}};
    struct asr_times first = before->times;
    struct sample ignored;
    double n;
    int rc = 0;

    n = (double)(m.times.windows - first.windows) * 1e6;
    v->encode[i] = (double)(m.times.encode_ns - first.encode_ns) / n;
    v->step[i] =
        (double)(m.times.step_ns - first.step_ns) / (double)(m.times.steps - first.steps) / 1e6;
    if (m.times.encoder_ns == first.encoder_ns) {
        synthetic_meter(b->stage, &m);
        first = m.times;
        rc = run_round(b, &again, &ignored, err);
        synthetic_meter(b->stage, &m);
        n = (double)(m.times.windows - first.windows) * 1e6;
    }
    v->mel[i] = (double)(m.times.mel_ns - first.mel_ns) / n;
    v->encoder[i] = (double)(m.times.encoder_ns - first.encoder_ns) / n;
    v->cross[i] = (double)(m.times.cross_ns - first.cross_ns) / n;
    v->share[i] = m.encoder_flop / (v->encoder[i] * 1e6) / v->peak[i];
    return rc;
}

/* A synthetic load's round: each network alone, then both as a run has them. ret: what a run has;
 * alone: after the first. */
static int run_synthetic(struct bench *b, const struct round *r, double *in_turn,
                         struct sample *ret, struct synthetic_meter *alone, struct err *err)
{
    const struct round both = as_a_run(b);
    int rc = run_round(b, r, ret, err);

    *in_turn = ret->wall_s;
    synthetic_meter(b->stage, alone);
    return rc == 0 && both.synthetic_load.beside ? run_round(b, &both, ret, err) : rc;
}

/* Aligns the windows that the round has left. ERR_USAGE means that the model cannot. */
static int measure_words(struct bench *b, const struct round *r, double *ret, struct err *err)
{
    double seconds;
    int rc = synthetic_align(b->stage, r->synthetic_load, &seconds, err);

    *ret = rc == 0 ? seconds * 1e3 / r->lanes : 0;
    return rc == ERR_USAGE ? 0 : rc;
}

/* Round i; a synthetic load's between two measurements of the peak. */
static int measure_round(struct bench *b, const struct round *r, struct series *v, uint32_t i,
                         struct err *err)
{
    double before = 0.0, after = 0.0;
    struct synthetic_meter m, alone;
    struct sample s;
    int rc = 0;

    if (b->loads) {
        synthetic_meter(b->stage, &m);
        rc = peak_gflops_s(b->peak, &before, err);
    }
    if (rc == 0)
        rc = b->loads ? run_synthetic(b, r, &v->in_turn[i], &s, &alone, err)
                      : run_round(b, r, &s, err);
    if (rc == 0 && b->loads)
        rc = peak_gflops_s(b->peak, &after, err);
    if (rc != 0)
        return rc;
    v->wall[i] = s.wall_s;
    v->cpu[i] = s.cpu_s;
    v->peak[i] = (before + after) / 2.0;
    if (b->loads)
        rc = measure_words(b, r, &v->align[i], err);
    return rc == 0 && b->loads ? measure_parts(b, &m, alone, v, i, err) : rc;
}

static void summarise_networks(const struct bench *b, struct series *v,
                               struct stage_bench_result *ret)
{
    struct stage_bench_networks *n = &ret->networks;
    struct synthetic_meter m;

    synthetic_meter(b->stage, &m);
    n->tokens = tokens_of(b);
    n->weight_bytes = m.weight_bytes;
    n->slot_bytes = m.slot_bytes;
    n->mel_ms = median(v->mel, b->rounds);
    n->encoder_ms = median(v->encoder, b->rounds);
    n->cross_ms = median(v->cross, b->rounds);
    n->step_ms = median(v->step, b->rounds);
    n->align_ms = median(v->align, b->rounds);
    n->step_gbytes_s = m.step_bytes / (n->step_ms * 1e6);
    n->encoder_gflop = m.encoder_flop / 1e9;
    n->encoder_gflops_s = n->encoder_gflop / (n->encoder_ms / 1e3);
    n->peak_gflops_s = median(v->peak, b->rounds);
    n->encoder_share = median(v->share, b->rounds);
    n->encoder_windows_s = 1e3 / median(v->encode, b->rounds);
    n->decoder_windows_s =
        1.0 / (median(v->in_turn, b->rounds) / ret->slots - 1.0 / n->encoder_windows_s);
    n->beside = b->be->ops->fork != NULL;
}

static void summarise_rounds(const struct bench *b, const struct round *r, struct series *v,
                             struct stage_bench_result *ret)
{
    double items = (double)b->items, wall = median(v->wall, b->rounds);

    if (b->loads)
        items = r->lanes; /* a round's; the encoder may have had them once more */
    ret->seconds = b->loads   ? WINDOW_S * r->lanes
                   : b->hears ? (double)r->lanes * r->units * (double)b->unit / RATE
                              : items * PASSAGE_CHARS / SPEECH_CHARS_S;
    ret->rounds = b->rounds;
    ret->times_real_time = ret->seconds / wall;
    ret->times_real_time_cpu = ret->seconds / median(v->cpu, b->rounds);
    ret->items_per_second = items / wall;
    ret->vectors_per_item = items > 0.0 ? (double)b->vectors / items : 0.0;
    ret->precision = stage_precision(b->stage);
    ret->cache = stage_cache(b->stage);
    ret->slots = stage_slots(b->stage);
    ret->at_once = stage_windows(b->stage);
    if (b->loads)
        summarise_networks(b, v, ret);
}

static int measure_rounds(struct bench *b, struct stage_bench_result *ret, struct err *err)
{
    struct series *v = malloc(sizeof(*v));
    struct round round = {.lanes = LANES, .units = 1};
    int rc = v ? 0 : err_set(err, ERR_NOMEM, "no memory for a measurement");

    if (b->loads)
        round = whole_window(b);
    else if (rc == 0)
        rc = choose_units(b, &round, err);
    for (uint32_t i = 0; rc == 0 && i < b->rounds; i++)
        rc = measure_round(b, &round, v, i, err);
    if (rc == 0)
        summarise_rounds(b, &round, v, ret);
    free(v);
    return rc;
}

static int open_stage(struct bench *b, struct err *err)
{
    const struct stage_setup *setup = &b->params->setup;
    const struct stage_kind *kind = stage_kind_find(setup->name);

    b->loads = kind && kind->synthetic_load;
    b->unit = kind && kind->hop ? kind->hop : UNIT_S * RATE;
    b->hears = stage_hears(setup->name);
    return b->loads ? kind->synthetic_load(setup, b->be, &b->stage, err)
                    : stage_open(setup, b->be, &b->stage, err);
}

int stage_bench_run(struct backend *be, const struct stage_bench_params *params,
                    struct stage_bench_result *ret, struct err *err)
{
    struct bench b = {.params = params, .be = be};
    struct stage_bench_result r = {0};
    int64_t start = clock_mono_ns();
    int rc;

    b.rounds = params->rounds ? params->rounds : USUAL_ROUNDS;
    if (b.rounds > MAX_ROUNDS)
        return err_set(err, ERR_USAGE, "at most %d rounds can be measured", MAX_ROUNDS);
    rc = open_stage(&b, err);
    r.load_s = (double)(clock_mono_ns() - start) / 1e9;
    if (rc == 0)
        rc = b.loads   ? prepare_synthetic(&b, err)
             : b.hears ? make_babble(&b, err)
                       : make_passages(&b, err);
    if (rc == 0)
        rc = measure_rounds(&b, &r, err);
    peak_free(b.peak);
    stage_close(b.stage);
    free(b.babble);
    free(b.text);
    free(b.passages);
    if (rc == 0)
        *ret = r;
    return rc;
}
