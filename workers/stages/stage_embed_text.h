/* workers/stages/stage_embed_text.h - passages in pieces that an encoder reads whole. An encoder
 * ignores the tokens after its maximum: the end of a passage in a script that its tokenizer takes
 * letter by letter could not be found. Pure, but for the tokenizer. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_EMBED_TEXT_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_EMBED_TEXT_H

#include <stdint.h>

#include "base/err.h"

struct embedder;

struct pieces {
    char **text;  /* owned: [n] */
    uint32_t *of; /* owned: [n], ascending: whose piece it is */
    uint32_t n, capacity;
    uint32_t limit; /* tokens of a piece; 0: not asked for yet */
};

/* Adds passage `of` (valid UTF-8, behind those added before): itself where the model reads all of
 * it, else halves of it, cut at a blank near the middle where there is one, until it does.
 * ERR_NOMEM: free what there is. */
int pieces_add(struct pieces *p, const struct embedder *m, const char *text, uint32_t of,
               struct err *err);
void pieces_free(struct pieces *p);

#endif
