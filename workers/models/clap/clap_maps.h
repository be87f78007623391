/* workers/models/clap/clap_maps.h - the places of the patches of a Swin transformer's stage, and
 * the patches that each attends to. Pure.
 *
 * A stage's patches are a square grid. Attention is within windows of it, which in every second
 * layer are shifted by half of a window down and to the right, around the edges. Patches are kept
 * in the order of their windows: attention and linear layers then need no copies, and only from one
 * order to the other rows are gathered. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MAPS_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MAPS_H

#include <stdint.h>

#define CLAP_MAP_KINDS 4 /* of shifted windows: plain, right edge, lower edge, corner */

/* Windows row by row, and so within each. A window as large as the grid: row by row. */
struct clap_order {
    uint32_t grid, window, shift; /* window divides grid; shift < window */
};

/* ret[i]: at which place of `from` the i-th patch of `to` lies, for so many grids one below the
 * other: [images * grid^2]. */
void clap_map_between(struct clap_order from, struct clap_order to, uint32_t images, int32_t *ret);
/* The same from the order in which patches come from clap_mel.h's image: `high` patches of the bins
 * of one frame after another, and the parts of the image, `high` rows of it each, behind each
 * other. high divides to.grid. */
void clap_map_patches(uint32_t high, struct clap_order to, uint32_t images, int32_t *ret);
/* Merging four patches to one, where `to` has half of the grid: ret[4 i + k]: at which place of
 * `from` neighbour k of the i-th patch of `to` lies; k 0 .. 3: upper left, lower left, upper right,
 * lower right. [images * from.grid^2]. */
void clap_map_merge(struct clap_order from, struct clap_order to, uint32_t images, int32_t *ret);
/* ret[w]: of which kind window w of an image is: [images * (grid / window)^2]. shift 0: all 0. */
void clap_map_kinds(struct clap_order o, uint32_t images, uint32_t *ret);
/* The bias that attention adds to the score of patch j for patch i, of window^2 patches:
 * ret[kind][head][i][j], with 1 kind without shift, else 4. table: [(2 window - 1)^2][heads], by
 * relative place. Patches that only the shift made neighbours get 100 less. */
void clap_map_bias(uint32_t window, uint32_t shift, uint32_t heads, const float *table, float *ret);

#endif
