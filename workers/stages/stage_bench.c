#include "workers/stages/stage_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/backend.h"
#include "workers/audio/babble.h"
#include "workers/stages/stage_kind.h"

#define RATE 16000
#define LANES 2
#define UNIT_S 10           /* of a lane's sound: a round has whole units */
#define UNIT_PASSAGES 16    /* of a lane */
#define PASSAGE_CHARS 400   /* the usual length (stage_params.h) */
#define SPEECH_CHARS_S 15.0 /* 150 words a minute */
#define ROUND_S 1.0         /* at least */
#define MOST_UNITS 360      /* an hour in each lane */
#define BABBLE_S 81         /* whole turns of each voice; then it begins again */
#define MAX_ROUNDS 1000

/* What is measured with. */
struct bench {
    struct stage *stage;
    bool hears;
    float *babble;                  /* [BABBLE_S * RATE] */
    char *text;                     /* passages, one behind the other */
    struct stage_passage *passages; /* [LANES * MOST_UNITS * UNIT_PASSAGES] */
    int64_t end;                    /* of a lane, in samples */
    uint32_t open;                  /* lanes */
    uint64_t items, vectors;        /* of a round */
    struct err failed;
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
        b->passages[i] = (struct stage_passage){0, 1, text};
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

static int add_lane(struct bench *b, uint32_t units, uint32_t lane, struct err *err)
{
    struct stage_work work = {
        .end = end_of, .end_arg = b, .source = {read_babble, release_babble, b}, .language = ""};
    struct stage_lane *ignored;
    int rc;

    if (!b->hears) {
        work.passage_count = units * UNIT_PASSAGES;
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

static int run_round(struct bench *b, uint32_t units, struct sample *ret, struct err *err)
{
    int64_t start = clock_mono_ns();
    double cpu = cpu_s();
    bool progress = true;
    int rc = 0;

    b->end = (int64_t)units * UNIT_S * RATE;
    b->items = b->vectors = 0;
    for (uint32_t i = 0; rc == 0 && i < LANES; i++)
        rc = add_lane(b, units, i, err);
    while (rc == 0 && b->open && progress)
        rc = stage_step(b->stage, &progress, err);
    if (rc == 0 && b->failed.code != 0)
        rc = (*err = b->failed).code;
    if (rc == 0 && b->open)
        rc = err_set(err, ERR_DEVICE, "the stage stands still");
    *ret = (struct sample){(double)(clock_mono_ns() - start) / 1e9, cpu_s() - cpu};
    return rc;
}

/* ---- all rounds */

/* Units of a round that lasts long enough; what is made at first use is made by then. The host
 * makes little, so that a first round that is long enough itself is the measure there. */
static int choose_units(struct bench *b, bool host, uint32_t *ret, struct err *err)
{
    struct sample s;
    int rc = run_round(b, 1, &s, err);

    if (rc == 0 && (!host || s.wall_s < ROUND_S))
        rc = run_round(b, 1, &s, err);
    *ret = s.wall_s * MOST_UNITS < ROUND_S ? MOST_UNITS : (uint32_t)ceil(ROUND_S / s.wall_s);
    return rc;
}

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

static int measure(struct bench *b, bool host, struct stage_bench_result *r, struct err *err)
{
    double wall[MAX_ROUNDS], cpu[MAX_ROUNDS], middle;
    struct sample s;
    uint32_t units;
    int rc = choose_units(b, host, &units, err);

    for (uint32_t i = 0; rc == 0 && i < r->rounds; i++) {
        rc = run_round(b, units, &s, err);
        wall[i] = s.wall_s;
        cpu[i] = s.cpu_s;
    }
    if (rc != 0)
        return rc;
    middle = median(wall, r->rounds);
    r->seconds = b->hears ? (double)LANES * units * UNIT_S
                          : (double)b->items * PASSAGE_CHARS / SPEECH_CHARS_S;
    r->times_real_time = r->seconds / middle;
    r->times_real_time_cpu = r->seconds / median(cpu, r->rounds);
    r->items_per_second = (double)b->items / middle;
    r->vectors_per_item = b->items ? (double)b->vectors / (double)b->items : 0.0;
    r->precision = stage_precision(b->stage);
    r->at_once = stage_windows(b->stage);
    return 0;
}

int stage_bench_run(struct backend *be, const struct stage_setup *setup, uint32_t rounds,
                    struct stage_bench_result *ret, struct err *err)
{
    struct stage_bench_result r = {.rounds = rounds < 1            ? 1
                                             : rounds > MAX_ROUNDS ? MAX_ROUNDS
                                                                   : rounds};
    struct bench b = {.hears = stage_hears(setup->name)};
    int64_t start = clock_mono_ns();
    int rc = 0;

    if (strcmp(setup->name, stage_transcribe.name) == 0)
        return err_set(err, ERR_USAGE, "a transcription is measured in another way");
    rc = stage_open(setup, be, &b.stage, err);
    r.load_s = (double)(clock_mono_ns() - start) / 1e9;
    if (rc == 0)
        rc = b.hears ? make_babble(&b, err) : make_passages(&b, err);
    if (rc == 0)
        rc = measure(&b, be->info.threads > 0, &r, err);
    stage_close(b.stage);
    free(b.babble);
    free(b.text);
    free(b.passages);
    if (rc == 0)
        *ret = r;
    return rc;
}
