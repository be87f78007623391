#include "workers/speakers/count.h"

#include <stdlib.h>

int count_speakers(const struct grid *g, const uint8_t *active, uint32_t most, uint8_t *ret,
                   struct err *err)
{
    uint32_t *sums = calloc(2 * (size_t)g->total, sizeof(*sums)), *heard;

    if (!sums)
        return err_set(err, ERR_NOMEM, "no memory to count speakers in %u frames", g->total);
    heard = sums + g->total;
    for (uint32_t w = 0; w < g->windows; w++) {
        const uint8_t *row = active + (size_t)w * g->window_frames;
        uint32_t start = grid_start(g, w), end = grid_end(g, w);

        for (uint32_t t = start; t < end; t++) {
            sums[t] += (uint32_t)__builtin_popcount(row[t - start]);
            heard[t]++;
        }
    }
    for (uint32_t t = 0; t < g->total; t++) {
        uint32_t n = heard[t] ? sums[t] / heard[t] : 0;
        uint32_t twice = heard[t] ? 2 * (sums[t] % heard[t]) : 0;

        n += twice > heard[t] || (twice == heard[t] && twice > 0 && n % 2 == 1);
        ret[t] = (uint8_t)(most > 0 && n > most ? most : n);
    }
    free(sums);
    return 0;
}
