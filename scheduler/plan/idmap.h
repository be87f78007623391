/* scheduler/plan/idmap.h - a hash table from 64-bit ids to pointers. Pure; one thread; the pointers
 * are the caller's. Id 0 is an id like any other; a NULL pointer cannot be stored. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_IDMAP_H
#define NIGHTSHIFT_SCHEDULER_PLAN_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap_slot {
    uint64_t id;
    void *value; /* NULL: the slot is free */
};

struct idmap {
    struct idmap_slot *slots; /* owned */
    size_t capacity;          /* a power of two, or 0 */
    size_t count;
};

#define IDMAP_INIT ((struct idmap){0})

void *idmap_get(const struct idmap *m, uint64_t id); /* NULL when absent */
/* Adds or replaces. 0 or ERR_NOMEM (nothing changed). */
int idmap_put(struct idmap *m, uint64_t id, void *value);
void *idmap_remove(struct idmap *m, uint64_t id); /* what was there, or NULL */
/* Walks all values: start with *at = 0; NULL at the end. The map must not change meanwhile. */
void *idmap_next(const struct idmap *m, size_t *at);
void idmap_free(struct idmap *m); /* the table, not the values */

#endif
