/* tests/common/warp.h - dynamic time warping as openai-whisper's timing.py has it, by a table of
 * steps and a walk from the last corner back: what the operation `warp` is held against. */
#ifndef NIGHTSHIFT_TESTS_COMMON_WARP_H
#define NIGHTSHIFT_TESTS_COMMON_WARP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "gpu/backend.h"

/* value: n rows, `stride` from each other, of m frames; hold: NULL or [n]; first: [n]. False: no
 * memory. */
static inline bool reference_warp(const float *value, size_t stride, uint32_t n, uint32_t m,
                                  const struct align_hold *hold, uint32_t *first)
{
    enum { DIAGONAL, UP, LEFT };
    size_t width = (size_t)m + 1;
    double *sums = malloc((n + 1) * width * sizeof(*sums));
    uint8_t *steps = malloc((size_t)n * m);
    uint32_t i = n - 1, j = m - 1;

    if (!sums || !steps) {
        free(sums);
        free(steps);
        return false;
    }
    for (size_t k = 0; k < (n + 1) * width; k++)
        sums[k] = k > 0 ? (double)INFINITY : 0.0;
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t c = 0; c < m; c++) {
            const double *above = sums + r * width + c;
            double *here = sums + (r + 1) * width + c;
            bool held = hold && (c < hold[r].from || c >= hold[r].to);
            double cost = held ? ALIGN_HELD_COST : -(double)value[r * stride + c];

            if (above[0] < above[1] && above[0] < here[0]) {
                steps[(size_t)r * m + c] = DIAGONAL;
                here[1] = cost + above[0];
            } else if (above[1] < above[0] && above[1] < here[0]) {
                steps[(size_t)r * m + c] = UP;
                here[1] = cost + above[1];
            } else {
                steps[(size_t)r * m + c] = LEFT;
                here[1] = cost + here[0];
            }
        }
    }
    while (i > 0) {
        uint8_t step = j > 0 ? steps[(size_t)i * m + j] : UP;

        if (step != LEFT)
            first[i--] = j;
        if (step != UP)
            j--;
    }
    first[0] = 0;
    free(sums);
    free(steps);
    return true;
}

#endif
