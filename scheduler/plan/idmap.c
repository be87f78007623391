#include "scheduler/plan/idmap.h"

#include <stdlib.h>

#include "base/err.h"

static size_t hash_to_slot(const struct idmap *m, uint64_t id)
{
    /* Fibonacci hashing: ids are mostly consecutive. */
    return (size_t)((id * 0x9E3779B97F4A7C15u) >> 17) & (m->capacity - 1);
}

static struct idmap_slot *find_slot(const struct idmap *m, uint64_t id)
{
    size_t i;

    if (m->capacity == 0)
        return NULL;
    for (i = hash_to_slot(m, id); m->slots[i].value; i = (i + 1) & (m->capacity - 1))
        if (m->slots[i].id == id)
            return &m->slots[i];
    return NULL;
}

void *idmap_get(const struct idmap *m, uint64_t id)
{
    const struct idmap_slot *s = find_slot(m, id);

    return s ? s->value : NULL;
}

static void insert_slot(struct idmap *m, uint64_t id, void *value)
{
    size_t i = hash_to_slot(m, id);

    while (m->slots[i].value)
        i = (i + 1) & (m->capacity - 1);
    m->slots[i] = (struct idmap_slot){id, value};
}

static int grow_slots(struct idmap *m)
{
    struct idmap bigger = {.capacity = m->capacity ? m->capacity * 2 : 64, .count = m->count};
    size_t i;

    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (!bigger.slots)
        return ERR_NOMEM;
    for (i = 0; i < m->capacity; i++)
        if (m->slots[i].value)
            insert_slot(&bigger, m->slots[i].id, m->slots[i].value);
    free(m->slots);
    *m = bigger;
    return 0;
}

int idmap_put(struct idmap *m, uint64_t id, void *value)
{
    struct idmap_slot *s = find_slot(m, id);

    if (s) {
        s->value = value;
        return 0;
    }
    if (m->count * 4 >= m->capacity * 3 && grow_slots(m) != 0)
        return ERR_NOMEM;
    insert_slot(m, id, value);
    m->count++;
    return 0;
}

void *idmap_remove(struct idmap *m, uint64_t id)
{
    struct idmap_slot *s = find_slot(m, id);
    size_t hole, i;
    void *value;

    if (!s)
        return NULL;
    value = s->value;
    hole = (size_t)(s - m->slots);
    m->slots[hole].value = NULL;
    m->count--;
    /* Entries behind the hole that were pushed past it move up, so that searches never need to
     * step over dead slots. */
    for (i = (hole + 1) & (m->capacity - 1); m->slots[i].value; i = (i + 1) & (m->capacity - 1)) {
        size_t h = hash_to_slot(m, m->slots[i].id);

        if (((i - h) & (m->capacity - 1)) >= ((i - hole) & (m->capacity - 1))) {
            m->slots[hole] = m->slots[i];
            m->slots[i].value = NULL;
            hole = i;
        }
    }
    return value;
}

void *idmap_next(const struct idmap *m, size_t *at)
{
    while (*at < m->capacity) {
        void *v = m->slots[(*at)++].value;

        if (v)
            return v;
    }
    return NULL;
}

void idmap_free(struct idmap *m)
{
    free(m->slots);
    *m = IDMAP_INIT;
}
