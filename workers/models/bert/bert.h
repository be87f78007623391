/* workers/models/bert/bert.h - the encoder of BERT, RoBERTa and XLM-RoBERTa on one device.
 *
 * Devlin et al. 2018: each token is the sum of its word's, its position's and its type's vector,
 * normalised; then layers of self-attention over the whole sequence and of two products with GELU
 * between them, each added to what it began with and normalised after that (post-norm). RoBERTa's
 * positions begin behind the id of its padding token. All tokens are of type 0. Sequences lie one
 * below the other without padding.
 *
 * One thread at a time. A backend that gains nothing from wide batches (the host) computes
 * sequences one by one, so that a result is bit-identical whatever else is in the call. Others
 * compute a call as one batch. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_BERT_BERT_H
#define NIGHTSHIFT_WORKERS_MODELS_BERT_BERT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/backend.h"

#define BERT_MAX_LAYERS 64
#define BERT_MAX_HIDDEN 4096

struct weights;
struct bert;

struct bert_config {
    uint32_t vocab, hidden, layers, heads, ffn;
    uint32_t positions; /* rows of their table */
    uint32_t types;     /* rows of their table; 0: there is none */
    float epsilon;
    bool offset;      /* RoBERTa's positions: from padding + 1 on */
    uint32_t padding; /* id of the padding token */
    enum epilogue activation;
};

/* Reads config.json, or the part of one that describes such an encoder. Missing keys get the
 * defaults of Hugging Face's transformers. ERR_MODEL. */
int bert_config_read(const json_t *config, struct bert_config *ret, struct err *err);
/* The longest sequence: what there are positions for, and at most BACKEND_MAX_KEYS. */
uint32_t bert_max_tokens(const struct bert_config *c);
/* Device memory for weights and for calls of at most `tokens` tokens: a prediction. */
uint64_t bert_predict_bytes(const struct bert_config *c, enum precision precision, uint32_t tokens);

/* Tensors are found by the names of transformers' BertModel, `prefix` ("", "text_model.") before
 * them. tokens: of one call, all sequences together; at least bert_max_tokens. be is borrowed; w is
 * not needed afterwards. ERR_MODEL says which tensor. */
int bert_load(const struct weights *w, const char *prefix, const struct bert_config *c,
              struct backend *be, enum precision precision, uint32_t tokens, struct bert **ret,
              struct err *err);
void bert_free(struct bert *b); /* NULL is fine */
const struct bert_config *bert_config(const struct bert *b);
uint32_t bert_tokens(const struct bert *b); /* as it was loaded for */

/* ids: [spans.at[spans.count]], host memory. *hidden: [those][hidden] float32 in device memory, the
 * last layer's output, valid until the next call. ERR_MODEL: a sequence is empty or too long, or an
 * id is none of the model's. */
int bert_run(struct bert *b, struct spans spans, const int32_t *ids, struct tensor *hidden,
             struct err *err);

#endif
