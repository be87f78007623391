/* workers/speakers/cluster/rows.h - many points, and which of them are nearest to one of them.
 *
 * A search is exact up to float32 rounding, which its distances are lowered by: what it says is
 * never more than the truth. It makes the product with every point.
 *
 * Points stand in slots by ascending id; what is added comes last, with a higher one. A slot that
 * was dropped is no longer found, and rows_pack closes the gaps. One thread changes it; any number
 * may search. */
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

/* points: [n][size], finite, copied; point i has id i and slot i. room: slots, at least n + 1. */
int rows_new(const float *points, uint32_t n, uint32_t size, uint32_t room, struct rows **ret,
             struct err *err);
void rows_free(struct rows *r); /* NULL is fine */

uint32_t rows_used(const struct rows *r); /* slots */
uint32_t rows_room(const struct rows *r);
uint32_t rows_stride(const struct rows *r); /* values of a point, with the zeros behind them */
float rows_slack(const struct rows *r);     /* what rounding may cost a distance, added or taken */
uint32_t rows_id(const struct rows *r, uint32_t slot);
/* The first slot whose id is at least `id`. */
uint32_t rows_slot_from(const struct rows *r, uint32_t id);
/* The point of a slot, from the common origin. ret: [rows_stride]. */
void rows_copy(const struct rows *r, uint32_t slot, float *ret);

uint32_t rows_add(struct rows *r, uint32_t id, const double *point); /* its slot; there is room */
void rows_drop(struct rows *r, uint32_t slot);
void rows_pack(struct rows *r); /* rows_used falls to what is alive; every slot may change */

/* Puts the points of slots [from, to) into a query's list, where they are near enough. query: as
 * rows_copy gives it; skip: an id that is not to be found, or ROWS_NONE. */
void rows_search(const struct rows *r, const float *query, uint32_t skip, uint32_t from,
                 uint32_t to, struct nearest *list);
/* The same for each point among all of them, list[id] for point id; before anything has changed.
 * The lists do not depend on the number of threads. */
void rows_search_all(const struct rows *r, uint32_t threads, struct nearest *const list[]);

#endif
