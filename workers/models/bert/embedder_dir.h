/* workers/models/bert/embedder_dir.h - what a sentence encoder's folder says about how a text
 * becomes a vector, apart from the network. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_BERT_EMBEDDER_DIR_H
#define NIGHTSHIFT_WORKERS_MODELS_BERT_EMBEDDER_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/backend.h"
#include "workers/models/bert/bert.h"

enum embed_as { EMBED_PASSAGE, EMBED_QUERY }; /* which prefix: E5's "passage: ", "query: " */

struct embedder_dir {
    struct bert_config bert;
    enum pool pool;
    uint32_t max_tokens; /* special ones included */
    bool lower;          /* texts are put in lower case first */
    char *prefix[2];     /* by enum embed_as; newly allocated, never NULL after success */
};

/* ret is zeroed, and is embedder_dir_free's after an error, too. ERR_MODEL names the file. */
int embedder_dir_read(const char *dir, struct embedder_dir *ret, struct err *err);
void embedder_dir_free(struct embedder_dir *d);

#endif
