/* workers/process/tune.h - how many to take at once: the smallest batch on the plateau of
 * throughput.
 *
 * The largest batch is the wrong target: beyond the plateau it costs memory and latency and gives
 * nothing. Sizes are tried upwards along a ladder, and the measured rates decide. Pure: no device,
 * no clock. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_TUNE_H
#define NIGHTSHIFT_WORKERS_PROCESS_TUNE_H

#include <stdint.h>

#define TUNE_NEAR 0.03    /* of the best throughput: as good as the best */
#define TUNE_STEPS_MAX 32 /* steps of the ladder up to 4096 are fewer */

struct tune_sample {
    uint32_t size; /* taken at once */
    double rate;   /* per second, whatever is counted; 0: it did not fit */
};

struct tune {       /* all zero at first, but for `first`; samples by ascending size */
    uint32_t first; /* the smallest size to try; 0: 1 */
    struct tune_sample samples[TUNE_STEPS_MAX];
    uint32_t count;
};

/* The next size to try, at most `most`; 0: enough is known. It is, after a size that did not fit,
 * at the ladder's end, and when two steps in a row were less than TUNE_NEAR better than the best
 * before them. Sizes: `first`, and of these what is above it: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96,
 * 128 ... 4096; `most` itself is tried when it lies between two of them. */
uint32_t tune_next(const struct tune *t, uint32_t most);
/* Adds the rate of a size from tune_next. A rate that is not a positive number counts as 0. */
void tune_add(struct tune *t, uint32_t size, double rate);
/* The smallest size whose rate is within TUNE_NEAR of the best; *rate is that size's own. 0 when
 * nothing fitted. */
uint32_t tune_pick(const struct tune *t, double *rate);

#endif
