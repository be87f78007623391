#include "tools/export/keys.h"

#include <stdlib.h>
#include <string.h>

void keys_free(struct keys *k)
{
    buf_free(&k->text);
    free(k->at);
    free(k->slots);
    *k = (struct keys){0};
}

uint64_t keys_hash(const char *s, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001B3u;
    return h;
}

const char *keys_text(const struct keys *k, size_t number)
{
    return (const char *)k->text.data + k->at[number];
}

/* The string's slot, or the free one for it. */
static size_t slot_of(const struct keys *k, const char *s, size_t n)
{
    size_t slot = (size_t)keys_hash(s, n) & (k->slot_count - 1);

    for (; k->slots[slot] != 0; slot = (slot + 1) & (k->slot_count - 1)) {
        const char *there = keys_text(k, k->slots[slot] - 1);

        if (strncmp(there, s, n) == 0 && there[n] == 0)
            break;
    }
    return slot;
}

static int grow_keys(struct keys *k)
{
    size_t slot_count = k->slot_count ? k->slot_count * 2 : 1024, capacity = slot_count / 2;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));
    size_t *at = slots ? realloc(k->at, capacity * sizeof(*at)) : NULL;

    if (!at) {
        free(slots);
        return -1;
    }
    free(k->slots);
    k->slots = slots;
    k->slot_count = slot_count;
    k->at = at;
    k->capacity = capacity;
    for (size_t i = 0; i < k->count; i++)
        slots[slot_of(k, keys_text(k, i), strlen(keys_text(k, i)))] = (uint32_t)i + 1;
    return 0;
}

bool keys_has(const struct keys *k, const char *s, size_t n)
{
    return k->slot_count > 0 && k->slots[slot_of(k, s, n)] != 0;
}

int keys_give(struct keys *k, const char *s, size_t n, size_t *ret, struct err *err)
{
    size_t slot;

    if (k->count == k->capacity && grow_keys(k) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    slot = slot_of(k, s, n);
    if (k->slots[slot] == 0) {
        const size_t at = k->text.len;

        buf_put(&k->text, s, n);
        buf_put_u8(&k->text, 0);
        if (k->text.failed || k->count == UINT32_MAX - 1)
            return err_set(err, ERR_NOMEM, "out of memory");
        k->at[k->count++] = at;
        k->slots[slot] = (uint32_t)k->count;
    }
    *ret = k->slots[slot] - 1;
    return 0;
}
