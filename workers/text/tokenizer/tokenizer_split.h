/* workers/text/tokenizer/tokenizer_split.h - how a tokenizer.json splits a text into words. Private
 * to the tokenizer. Immutable after it was read; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_SPLIT_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_SPLIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/codepoints.h"

#define TOKENIZER_MAX_SPLITS 8

enum split_kind {
    SPLIT_BLANKS,      /* at blanks, which go */
    SPLIT_PUNCTUATION, /* each punctuation character by itself */
    SPLIT_METASPACE,   /* a visible sign for each blank, perhaps one more in front; before each */
};

enum split_prefix { PREFIX_ALWAYS, PREFIX_FIRST, PREFIX_NEVER };

struct split_part {
    enum split_kind kind;
    int32_t sign; /* METASPACE: stands for a blank */
    enum split_prefix prefix;
    bool whole; /* METASPACE: nothing is split */
};

struct tokenizer_split {
    struct split_part parts[TOKENIZER_MAX_SPLITS];
    uint32_t n;
    bool byte_level;   /* GPT-2's words are split off by the encoder */
    bool prefix_blank; /* byte_level: a blank comes before a text that begins with none */
};

/* From "pre_tokenizer", which may be NULL or null (a text is one word). ERR_MODEL. */
int tokenizer_split_read(const json_t *json, struct tokenizer_split *ret, struct err *err);

/* Calls fn for each word, none of them empty. first: the text's beginning is in it. False, at once,
 * when fn gives false or memory is out. */
typedef bool (*tokenizer_word_fn)(void *arg, const int32_t *word, size_t len);
bool tokenizer_split(const struct tokenizer_split *s, const int32_t *text, size_t len, bool first,
                     tokenizer_word_fn fn, void *arg);

#endif
