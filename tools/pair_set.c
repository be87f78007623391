#include "tools/pair_set.h"

#include <stdlib.h>
#include <string.h>

static size_t place_of(const struct pair_set *s, uint64_t a, uint64_t b)
{
    size_t i = (size_t)((b * 0x9E3779B97F4A7C15u) ^ (a * 0xC2B2AE3D27D4EB4Fu)) & (s->capacity - 1);

    while (s->slots[i].b != 0 && (s->slots[i].b != b || s->slots[i].a != a))
        i = (i + 1) & (s->capacity - 1);
    return i;
}

static int grow_pair_set(struct pair_set *s, struct err *err)
{
    struct pair_set bigger = {.capacity = s->capacity ? s->capacity * 2 : 1024, .count = s->count};

    bigger.slots = calloc(bigger.capacity, sizeof(bigger.slots[0]));
    if (!bigger.slots)
        return err_set(err, ERR_NOMEM, "out of memory for what was seen");
    for (size_t i = 0; i < s->capacity; i++)
        if (s->slots[i].b != 0)
            bigger.slots[place_of(&bigger, s->slots[i].a, s->slots[i].b)] = s->slots[i];
    free(s->slots);
    *s = bigger;
    return 0;
}

int pair_set_add(struct pair_set *s, uint64_t a, uint64_t b, struct err *err)
{
    size_t i;

    if ((s->count + 1) * 4 > s->capacity * 3 && grow_pair_set(s, err) != 0)
        return err->code;
    i = place_of(s, a, b);
    if (s->slots[i].b != 0)
        return 0;
    s->slots[i] = (struct pair_slot){a, b};
    s->count++;
    return 1;
}

bool pair_set_has(const struct pair_set *s, uint64_t a, uint64_t b)
{
    return s->capacity > 0 && s->slots[place_of(s, a, b)].b != 0;
}

void pair_set_free(struct pair_set *s)
{
    free(s->slots);
    memset(s, 0, sizeof(*s));
}
