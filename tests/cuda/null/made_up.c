#include "tests/cuda/null/made_up.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- what lies where */

#define PLACES ((size_t)1 << 16) /* a power of two, and far more than there are tensors */

struct made_up_table {
    struct {
        const void *at;
        struct made_up what;
    } place[PLACES];
};

struct made_up_table *made_up_table_new(void) { return calloc(1, sizeof(struct made_up_table)); }

void made_up_table_free(struct made_up_table *t) { free(t); }

static size_t hash_address(const void *at)
{
    return (size_t)(((uint64_t)(uintptr_t)at * 0x9E3779B97F4A7C15u) >> 48) & (PLACES - 1);
}

/* The place of `at`, or the free one for it. A full table begins to forget. */
static size_t find_place(const struct made_up_table *t, const void *at)
{
    const size_t home = hash_address(at);

    for (size_t i = 0; i < 64; i++) {
        size_t k = (home + i) & (PLACES - 1);

        if (t->place[k].at == at || !t->place[k].at)
            return k;
    }
    return home;
}

void made_up_table_put(struct made_up_table *t, const void *at, struct made_up what)
{
    size_t k = find_place(t, at);

    if (!t->place[k].at && what.kind == MADE_UP_NONE)
        return;
    t->place[k].at = at;
    t->place[k].what = what;
}

struct made_up made_up_table_get(const struct made_up_table *t, const void *at)
{
    size_t k = find_place(t, at);

    return t->place[k].at == at ? t->place[k].what : (struct made_up){MADE_UP_NONE, 0};
}

/* ---- patterns, made once */

#define SETS 7
#define WINDOW_FRAMES 589 /* of 10 s */
#define CYCLE_SECONDS 20
#define CYCLE_FRAMES ((size_t)CYCLE_SECONDS * WINDOW_FRAMES / 10)
#define BLOCK 128 /* rows of speech and silence */
#define SPOKEN 100
#define DIRECTIONS 2
#define LONGEST 4096 /* values of a vector that is made row by row */

static float sets[CYCLE_FRAMES + WINDOW_FRAMES][SETS];
static float direction[DIRECTIONS][LONGEST];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int choose_set(double second)
{
    if (second < 8.0)
        return 1; /* the first speaker */
    if (second >= 9.0 && second < 17.0)
        return 2;                                   /* the second */
    return second >= 17.0 && second < 18.0 ? 4 : 0; /* both, nobody */
}

static void make_patterns(void)
{
    uint32_t state = 1;

    for (size_t f = 0; f < CYCLE_FRAMES + WINDOW_FRAMES; f++)
        sets[f][choose_set(fmod((double)f * 10.0 / WINDOW_FRAMES, CYCLE_SECONDS))] = 8.0f;
    /* Few large values among many small ones: the directions have little in common. */
    for (size_t k = 0; k < DIRECTIONS; k++)
        for (size_t i = 0; i < LONGEST; i++) {
            state = state * 1664525u + 1013904223u;
            direction[k][i] = powf((float)(state >> 8) * 0x1p-24f, 8.0f);
        }
}

/* ---- answers */

static void fill_vectors(float *dst, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t at = 0; at < cols; at += LONGEST)
            memcpy(dst + r * cols + at, direction[r % DIRECTIONS],
                   (cols - at < LONGEST ? cols - at : LONGEST) * sizeof(*dst));
        dst[r * cols + r % cols] += 0.05f;
    }
}

static void fill_speakers(struct made_up_clock *clock, float *dst, size_t rows)
{
    for (size_t r = 0, n; r < rows; r += n) {
        size_t from = (size_t)(clock->windows++ % CYCLE_SECONDS) * CYCLE_FRAMES / CYCLE_SECONDS;

        n = rows - r < WINDOW_FRAMES ? rows - r : WINDOW_FRAMES;
        memcpy(dst + r * SETS, sets[from], n * sizeof(sets[0]));
    }
}

static void fill_speech(float *dst, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows * cols; i++)
        dst[i] = i / cols % BLOCK < SPOKEN ? 1.0f : 0.0f;
}

static void fill_scores(float *dst, size_t rows, size_t cols)
{
    memset(dst, 0, rows * cols * sizeof(*dst));
    for (size_t r = 0; r < rows; r++) {
        dst[r * cols] = 0.9f;
        if (r % 64 < 16)
            dst[r * cols + r / 64 * 37 % cols] = 0.8f;
    }
}

static void fill_aligned(float *dst, size_t rows, size_t cols)
{
    memset(dst, 0, rows * cols * sizeof(*dst));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = r * cols / rows; c < (r + 1) * cols / rows; c++)
            dst[r * cols + c] = 1.0f;
}

void made_up_fill(struct made_up_clock *clock, struct made_up what, void *dst, size_t bytes)
{
    size_t values = bytes / sizeof(float), cols = what.cols > 0 ? (size_t)what.cols : 1;
    size_t rows = values / cols;

    pthread_once(&once, make_patterns);
    switch (what.kind) {
    case MADE_UP_SPEAKERS:
        fill_speakers(clock, dst, rows);
        break;
    case MADE_UP_SPEECH:
        fill_speech(dst, rows, cols);
        break;
    case MADE_UP_SCORES:
        fill_scores(dst, rows, cols);
        break;
    case MADE_UP_ALIGNED:
        fill_aligned(dst, rows, cols);
        break;
    case MADE_UP_NONE:
    case MADE_UP_VECTORS:
        fill_vectors(dst, rows, cols);
        break;
    }
    memset((char *)dst + rows * cols * sizeof(float), 0, bytes - rows * cols * sizeof(float));
}
