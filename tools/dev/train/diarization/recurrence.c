/* The recurrence of an LSTM layer in one direction (Hochreiter and Schmidhuber, 1997, with Gers'
 * forget gates), there and back, for recurrence.py: with few channels torch's time goes into some
 * ten calls for each frame. Compiled for HIDDEN and BATCH, a multiple of 8. The batch lies
 * innermost; gates are those of torch, in its order: input, forget, cell, output. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#define VECTORS (BATCH / 8)
#define CELLS (HIDDEN * BATCH)
#define ROWS 4 /* of a product's result that are held in registers at once */

typedef float vector __attribute__((vector_size(32), aligned(4)));

/* Bounded, for the compiler's fast division makes 1 / infinity no number. */
static inline float sigmoid(float x)
{
    x = x < -60 ? -60 : x;
    return 1 / (1 + expf(-x));
}

static inline float tanh_of(float x) { return 2 * sigmoid(2 * x) - 1; }

/* to[m][BATCH] += a[m][n] * b[n][BATCH]; m is a multiple of ROWS. */
static void add_product(float *to, const float *a, const float *b, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i += ROWS) {
        vector sum[ROWS][VECTORS];

        memcpy(sum, to + i * BATCH, sizeof(sum));
        for (size_t k = 0; k < n; k++)
            for (size_t v = 0; v < VECTORS; v++) {
                vector x = *(const vector *)(b + k * BATCH + v * 8);

                for (size_t r = 0; r < ROWS; r++)
                    sum[r][v] += a[(i + r) * n + k] * x;
            }
        memcpy(to + i * BATCH, sum, sizeof(sum));
    }
}

/* gates: [frames][4 HIDDEN][BATCH], what comes from the inputs; then what the gates let through.
 * weights: [4 HIDDEN][HIDDEN]. cells, states: [frames][HIDDEN][BATCH], written. */
void there(size_t frames, int backwards, float *gates, const float *weights, float *cells,
           float *states)
{
    static const float none[CELLS];
    const float *cell = none, *state = none;

    for (size_t s = 0; s < frames; s++) {
        size_t t = backwards ? frames - 1 - s : s;
        float *in = gates + t * 4 * CELLS, *forget = in + CELLS, *new = forget + CELLS,
              *out = new + CELLS, *c = cells + t *CELLS, *h = states + t *CELLS;

        if (s)
            add_product(in, weights, state, 4 * (size_t)HIDDEN, HIDDEN);
        for (size_t i = 0; i < CELLS; i++) {
            in[i] = sigmoid(in[i]);
            forget[i] = sigmoid(forget[i]);
            new[i] = tanh_of(new[i]);
            out[i] = sigmoid(out[i]);
            c[i] = forget[i] * cell[i] + in[i] * new[i];
            h[i] = out[i] * tanh_of(c[i]);
        }
        cell = c;
        state = h;
    }
}

/* gates, cells: as there() left them; then gates has the slopes of what came from the inputs.
 * across: [HIDDEN][4 HIDDEN], the weights transposed. slopes: [frames][HIDDEN][BATCH], of states.
 */
void back(size_t frames, int backwards, float *gates, const float *across, const float *cells,
          const float *slopes)
{
    static const float none[CELLS];
    float dh[CELLS], dc[CELLS] = {0};

    for (size_t s = frames; s-- > 0;) {
        size_t t = backwards ? frames - 1 - s : s;
        const float *c = cells + t * CELLS;
        const float *before = s == 0 ? none : backwards ? c + CELLS : c - CELLS;
        float *in = gates + t * 4 * CELLS, *forget = in + CELLS, *new = forget + CELLS,
              *out = new + CELLS;

        memcpy(dh, slopes + t * CELLS, sizeof(dh));
        if (s + 1 < frames)
            add_product(dh, across, backwards ? in - 4 * CELLS : in + 4 * CELLS, HIDDEN,
                        4 * (size_t)HIDDEN);
        for (size_t i = 0; i < CELLS; i++) {
            float u = tanh_of(c[i]), d = dc[i] + dh[i] * out[i] * (1 - u * u);
            float gi = in[i], gf = forget[i], gn = new[i], go = out[i];

            dc[i] = d * gf;
            in[i] = d * gn * gi * (1 - gi);
            forget[i] = d * before[i] * gf * (1 - gf);
            new[i] = d *gi *(1 - gn * gn);
            out[i] = dh[i] * u * go * (1 - go);
        }
    }
}
