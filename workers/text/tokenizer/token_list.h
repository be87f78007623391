/* workers/text/tokenizer/token_list.h - token ids, one after the other. One owner, one thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKEN_LIST_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKEN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A list that runs out of memory sets `failed` and ignores what follows. */
struct token_list {
    int32_t *at; /* owned; NULL while empty */
    size_t n, capacity;
    bool failed;
};

static inline void token_list_put(struct token_list *l, int32_t id)
{
    if (l->n == l->capacity && !l->failed) {
        size_t capacity = l->capacity * 2 + 64;
        int32_t *at = realloc(l->at, capacity * sizeof(*at));

        l->failed = at == NULL;
        l->at = at ? at : l->at;
        l->capacity = at ? capacity : l->capacity;
    }
    if (!l->failed)
        l->at[l->n++] = id;
}

#endif
