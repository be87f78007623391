/* workers/text/tokenizer/token_map.h - from a token's bytes to its id. One owner while it is
 * filled; any thread may read afterwards. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKEN_MAP_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKEN_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct token_map {
    struct token_entry *entries; /* in the order in which they were put */
    uint64_t seed;
    uint32_t *slots; /* open addressing: index of an entry + 1, 0: free */
    uint32_t count, capacity, slot_count;
    uint32_t longest; /* bytes of the longest token */
    struct buf bytes; /* all tokens, one behind the other */
};

void token_map_free(struct token_map *m); /* empty again; a zeroed map is an empty one */
/* ERR_MODEL when the token is there already, with whatever id. */
int token_map_put(struct token_map *m, const char *token, size_t len, int32_t id, struct err *err);
/* -1: there is none. */
int32_t token_map_find(const struct token_map *m, const char *token, size_t len);

#endif
