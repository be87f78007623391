#include "workers/text/tokenizer/token_map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "workers/text/hash_seed.h"

#define MAX_BYTES (1u << 30)

struct token_entry {
    uint32_t at, len;
    int32_t id;
};

void token_map_free(struct token_map *m)
{
    free(m->entries);
    free(m->slots);
    buf_free(&m->bytes);
    *m = (struct token_map){0};
}

/* The slot of a token, or the free one where it belongs. */
static uint32_t slot_of(const struct token_map *m, const char *token, size_t len)
{
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(token, len, m->seed) & (m->slot_count - 1);

    for (; m->slots[i]; i = (i + 1) & (m->slot_count - 1)) {
        const struct token_entry *e = &m->entries[m->slots[i] - 1];

        if (e->len == len && memcmp(m->bytes.data + e->at, token, len) == 0)
            break;
    }
    return i;
}

int32_t token_map_find(const struct token_map *m, const char *token, size_t len)
{
    uint32_t slot;

    if (!m->count || len == 0 || len > m->longest)
        return -1;
    slot = m->slots[slot_of(m, token, len)];
    return slot ? m->entries[slot - 1].id : -1;
}

/* Room for one more; at most half of the slots are in use. */
static int grow_token_map(struct token_map *m, struct err *err)
{
    uint32_t capacity = m->capacity ? m->capacity * 2 : 1024;
    struct token_entry *entries;
    uint32_t *slots;

    if (m->count < m->capacity)
        return 0;
    slots = calloc((size_t)capacity * 2, sizeof(*slots));
    entries = slots ? realloc(m->entries, capacity * sizeof(*entries)) : NULL;
    if (!entries) {
        free(slots);
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    }
    if (!m->slots)
        m->seed = hash_seed();
    free(m->slots);
    m->entries = entries;
    m->slots = slots;
    m->capacity = capacity;
    m->slot_count = capacity * 2;
    for (uint32_t i = 0; i < m->count; i++)
        slots[slot_of(m, (char *)m->bytes.data + entries[i].at, entries[i].len)] = i + 1;
    return 0;
}

int token_map_put(struct token_map *m, const char *token, size_t len, int32_t id, struct err *err)
{
    uint32_t slot;
    int rc;

    if (len == 0)
        return err_set(err, ERR_MODEL, "token %d is empty", id);
    if (len > MAX_BYTES - m->bytes.len || m->count >= 1u << 29)
        return err_set(err, ERR_MODEL, "the vocabulary is too large");
    if ((rc = grow_token_map(m, err)))
        return rc;
    slot = slot_of(m, token, len);
    if (m->slots[slot])
        return err_set(err, ERR_MODEL, "token '%.*s' is there twice", (int)(len < 40 ? len : 40),
                       token);
    m->entries[m->count] = (struct token_entry){(uint32_t)m->bytes.len, (uint32_t)len, id};
    buf_put(&m->bytes, token, len);
    if (m->bytes.failed)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    m->slots[slot] = ++m->count;
    m->longest = len > m->longest ? (uint32_t)len : m->longest;
    return 0;
}
