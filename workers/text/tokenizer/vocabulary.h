/* workers/text/tokenizer/vocabulary.h - token ids and their meanings, read from a model's own
 * files.
 *
 * tokenizer.json gives the byte-level BPE (vocabulary, merges, added tokens);
 * generation_config.json and config.json give suppressed tokens, languages and limits. No id is a
 * constant of the program: v1, v2, v3, turbo, English-only and distil models differ. Immutable
 * after load; any thread may read. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_VOCABULARY_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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

/* The special tokens and decoding limits of a model. */
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

void vocabulary_rules_free(struct vocabulary_rules *r);

struct vocabulary;

/* From a model directory. ERR_MODEL with the file and what is wrong in it. */
int vocabulary_load(const char *dir, struct vocabulary **ret, struct err *err);
/* The same from the files' bytes (borrowed during the call); generation and config may be NULL
 * with length 0. Without a tokenizer.json: `tokens`, all of them by their ids, of which the first
 * `text_count` are text in the order of their merges (bpe_merge_in_order) and the others special.
 */
struct vocabulary_token {
    const char *text; /* no NUL behind it */
    size_t len;
};
struct vocabulary_source {
    const char *tokenizer, *generation, *config;
    size_t tokenizer_len, generation_len, config_len;
    const struct vocabulary_token *tokens; /* NULL: tokenizer.json it is */
    size_t token_count, text_count;
    bool spelled; /* text as GPT-2 writes bytes (bpe.h); else its bytes themselves */
    /* Special tokens, languages and lists of a family that has its own; NULL: generation and config
     * say them, as Whisper's do. The call takes ownership of it, also after an error. */
    struct vocabulary_rules *rules;
};
int vocabulary_parse(const struct vocabulary_source *source, struct vocabulary **ret,
                     struct err *err);
void vocabulary_free(struct vocabulary *v);

const struct vocabulary_ids *vocabulary_ids(const struct vocabulary *v);
uint32_t vocabulary_size(const struct vocabulary *v); /* highest id + 1 */
bool vocabulary_multilingual(const struct vocabulary *v);
bool vocabulary_timed(const struct vocabulary *v); /* it has timestamps */

/* Languages: "en" <-> id. -1 / NULL when there is none. */
int32_t vocabulary_language_id(const struct vocabulary *v, const char *code);
const char *vocabulary_language_code(const struct vocabulary *v, int32_t id);
uint32_t vocabulary_language_count(const struct vocabulary *v);
int32_t vocabulary_language_at(const struct vocabulary *v, uint32_t i);

/* Ids never to produce, and ids not to produce first. From the model's files. */
const int32_t *vocabulary_suppress(const struct vocabulary *v, size_t *n);
const int32_t *vocabulary_begin_suppress(const struct vocabulary *v, size_t *n);
int32_t vocabulary_max_initial_timestamp_index(const struct vocabulary *v);
/* Decoder layer and head pairs whose attention follows the words; n 0 when not given. */
const int32_t (*vocabulary_alignment_heads(const struct vocabulary *v, size_t *n))[2];

/* Text of ids, specials and timestamps left out, bytes joined, ill-formed UTF-8 repaired. Newly
 * allocated. */
int vocabulary_decode(const struct vocabulary *v, const int32_t *ids, size_t n, char **ret,
                      struct err *err);
/* The bytes of one text token, which may begin or end within a character. Borrowed from v; *len 0
 * for specials, timestamps and ids that are none. */
const uint8_t *vocabulary_bytes(const struct vocabulary *v, int32_t id, size_t *len);
/* Byte-level BPE as the tokenizers library does it (no added specials are recognised in text).
 * Ill-formed UTF-8 is repaired first. *ret newly allocated; NULL with *n 0 for empty text. */
int vocabulary_encode(const struct vocabulary *v, const char *text, int32_t **ret, size_t *n,
                      struct err *err);

#endif
