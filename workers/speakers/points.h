/* workers/speakers/points.h - many points, and which of them are nearest to one of them.
 *
 * A search is exact up to float32 rounding. Its distances are lowered by that, so that they never
 * exceed the true ones. It makes the product with every point.
 *
 * Points stand in slots by ascending id; a new one comes last, with a higher id. A slot that was
 * dropped is no longer found, and points_pack closes the gaps. One thread changes it; any number
 * may search. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_POINTS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_POINTS_H

#include <stdint.h>

#include "base/err.h"

#define POINTS_NONE UINT32_MAX

struct points; /* owned: points_free */

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

/* radius: farther points are not taken. free(); NULL: no memory. */
struct nearest *nearest_new(uint32_t cap, float radius);
/* Takes one in, or what it takes the place of out; whatever the order, the same are kept. */
void nearest_add(struct nearest *l, struct near new);

/* points: [n][size], finite, copied; point i has id i and slot i. room: slots, at least n + 1. */
int points_new(const float *points, uint32_t n, uint32_t size, uint32_t capacity,
               struct points **ret, struct err *err);
void points_free(struct points *all); /* NULL is fine */

uint32_t points_used(const struct points *all); /* slots */
uint32_t points_room(const struct points *all);
/* Values of a point, with the zeros behind them. */
uint32_t points_stride(const struct points *all);
/* The rounding error of a distance, in either direction. */
float points_slack(const struct points *all);
uint32_t points_id(const struct points *all, uint32_t slot);
/* The first slot whose id is at least `id`. */
uint32_t points_slot_from(const struct points *all, uint32_t id);
/* The point of a slot, from the common origin. ret: [points_stride]. */
void points_copy(const struct points *all, uint32_t slot, float *ret);

/* There is room; returns its slot. */
uint32_t points_add(struct points *all, uint32_t id, const double *point);
void points_drop(struct points *all, uint32_t slot);
/* points_used falls to the number of live points; every slot may change. */
void points_pack(struct points *all);

/* Puts the points of slots [from, to) into a query's list, where they are near enough. query: as
 * points_copy gives it; skip: an id that is not to be found, or POINTS_NONE. */
void points_search(const struct points *all, const float *query, uint32_t skip, uint32_t from,
                   uint32_t to, struct nearest *list);
/* The same for each point among all of them, list[id] for point id; before anything has changed.
 * The lists do not depend on the number of threads. */
void points_search_all(const struct points *all, uint32_t threads, struct nearest *const list[]);

#endif
