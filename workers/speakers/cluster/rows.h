/* workers/speakers/cluster/rows.h - many points, and which of them are nearest to one of them.
 *
 * A search is exact up to float32 rounding, which its distances are lowered by: what it says is
 * never more than the truth. Most points are excluded by a bound: in an orthonormal basis whose
 * first HEAD axes are those along which the points differ most,
 *     |x - y|^2 >= |x_head - y_head|^2 + (|x_tail| - |y_tail|)^2.
 *
 * The first points stand in slots as it suits searches; what is added stands behind them, one after
 * the other, with ascending ids that are higher than theirs. A slot that was dropped is no longer
 * found, and rows_pack closes the gaps. One thread changes it; any number may search. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_H

#include <stdint.h>

#include "base/err.h"

#define ROWS_NONE UINT32_MAX

struct rows; /* owned: rows_free */

struct near {
    float distance; /* never more than the true one */
    uint32_t id;
};

/* The nearest points that were found, ascending. */
struct nearest {
    uint32_t n, cap;
    float rest; /* no point that was searched and is not listed is nearer than this */
    struct near items[];
};

/* radius: what is farther is not taken. free(); NULL: no memory. */
struct nearest *nearest_new(uint32_t cap, float radius);
/* Takes one in, or what it takes the place of out; whatever the order, the same are kept. */
void nearest_add(struct nearest *l, struct near new);

/* points: [n][size], finite, copied; their ids are 0 .. n-1. room: slots, at least n + 1. */
int rows_new(const float *points, uint32_t n, uint32_t size, uint32_t room, struct rows **ret,
             struct err *err);
void rows_free(struct rows *r); /* NULL is fine */

uint32_t rows_used(const struct rows *r); /* slots */
uint32_t rows_room(const struct rows *r);
/* The point of a slot, from the common origin, rows_stride values; until the next pack. */
const float *rows_at(const struct rows *r, uint32_t slot);
uint32_t rows_stride(const struct rows *r);
float rows_slack(const struct rows *r); /* what rounding may cost a distance, added or taken */
/* The first slot whose id is at least `id`: the number of first points, or more. */
uint32_t rows_slot_from(const struct rows *r, uint32_t id);
uint32_t rows_id(const struct rows *r, uint32_t slot);

uint32_t rows_add(struct rows *r, uint32_t id, const double *point); /* its slot; there is room */
void rows_drop(struct rows *r, uint32_t slot);
void rows_pack(struct rows *r); /* rows_used falls to what is alive; every slot may change */

/* Puts the points of slots [from, to) into a query's list, where they are near enough. query:
 * rows_stride values, as rows_at gives them; skip: an id that is not to be found, or ROWS_NONE. */
void rows_search(const struct rows *r, const float *query, uint32_t skip, uint32_t from,
                 uint32_t to, struct nearest *list);
/* The same for each of the first points among all of them, list[id] for point id; before anything
 * has changed. The lists do not depend on the number of threads. ERR_NOMEM. */
int rows_search_all(const struct rows *r, uint32_t threads, struct nearest *const list[],
                    struct err *err);

#endif
