/* workers/text/tokenizer/vocabulary_ids.h - the special tokens and decoding limits of a Whisper
 * model, from its tokenizer, generation_config.json and config.json. Pure. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_VOCABULARY_IDS_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_VOCABULARY_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bpe;
struct json_t;

/* Special tokens; -1 where the model has none. */
struct vocabulary_ids {
    int32_t eot, sot, translate, transcribe, sot_prev, sot_lm, no_speech, no_timestamps;
    int32_t timestamp_begin; /* <|0.00|>; one per timestamp_ms from there to timestamp_end. A model
                                that has none: its vocabulary's size, and all ids are below */
    int32_t timestamp_end;   /* <|30.00|>; a model that has none: timestamp_begin - 1 */
    int32_t timestamp_ms;    /* from one to the next */
    int32_t first_language;  /* lowest language id, -1 in English-only models */
};

struct language {
    char code[16];
    int32_t id;
};

struct vocabulary_rules {
    struct vocabulary_ids ids;
    int32_t size;               /* highest id + 1, timestamps included */
    struct language *languages; /* owned, ascending id */
    size_t language_count;
    int32_t *suppress, *begin_suppress; /* owned */
    size_t suppress_count, begin_suppress_count;
    int32_t (*heads)[2]; /* owned */
    size_t head_count;
    int32_t max_initial_timestamp_index;
};

/* generation and config: JSON objects or NULL. On error *ret holds nothing to free. */
int vocabulary_rules_read(const struct bpe *b, const struct json_t *generation,
                          const struct json_t *config, struct vocabulary_rules *ret,
                          struct err *err);
void vocabulary_rules_free(struct vocabulary_rules *r);

#endif
