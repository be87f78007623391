#include "scheduler/plan/idmap.h"

#include <stdlib.h>

#include "base/err.h"

static size_t home(const struct idmap *m, uint64_t id)
{
    /* Fibonacci hashing: ids are mostly consecutive. */
    return (size_t)((id * 0x9E3779B97F4A7C15u) >> 17) & (m->cap - 1);
}

static struct idmap_slot *find(const struct idmap *m, uint64_t id)
{
    size_t i;

    if (m->cap == 0)
        return NULL;
    for (i = home(m, id); m->slots[i].value; i = (i + 1) & (m->cap - 1))
        if (m->slots[i].id == id)
            return &m->slots[i];
    return NULL;
}

void *idmap_get(const struct idmap *m, uint64_t id)
{
    const struct idmap_slot *s = find(m, id);

    return s ? s->value : NULL;
}

static void place(struct idmap *m, uint64_t id, void *value)
{
    size_t i = home(m, id);

    while (m->slots[i].value)
        i = (i + 1) & (m->cap - 1);
    m->slots[i] = (struct idmap_slot){id, value};
}

static int grow(struct idmap *m)
{
    struct idmap bigger = {.cap = m->cap ? m->cap * 2 : 64, .count = m->count};
    size_t i;

    bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
    if (!bigger.slots)
        return ERR_NOMEM;
    for (i = 0; i < m->cap; i++)
        if (m->slots[i].value)
            place(&bigger, m->slots[i].id, m->slots[i].value);
    free(m->slots);
    *m = bigger;
    return 0;
}

int idmap_put(struct idmap *m, uint64_t id, void *value)
{
    struct idmap_slot *s = find(m, id);

    if (s) {
        s->value = value;
        return 0;
    }
    if (m->count * 4 >= m->cap * 3 && grow(m) != 0)
        return ERR_NOMEM;
    place(m, id, value);
    m->count++;
    return 0;
}

void *idmap_remove(struct idmap *m, uint64_t id)
{
    struct idmap_slot *s = find(m, id);
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
    for (i = (hole + 1) & (m->cap - 1); m->slots[i].value; i = (i + 1) & (m->cap - 1)) {
        size_t h = home(m, m->slots[i].id);

        if (((i - h) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
            m->slots[hole] = m->slots[i];
            m->slots[i].value = NULL;
            hole = i;
        }
    }
    return value;
}

void *idmap_next(const struct idmap *m, size_t *at)
{
    while (*at < m->cap) {
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
