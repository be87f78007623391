/* workers/models/bert/embedder.h - a text as a vector: sentence encoders of the BERT family on one
 * device, as sentence-transformers defines them.
 *
 * A folder in its layout: config.json (BERT, XLM-RoBERTa), tokenizer.json (WordPiece or Unigram),
 * the weights, and, where they are there, modules.json, 1_Pooling/config.json,
 * sentence_bert_config.json and config_sentence_transformers.json (pooling: mean or CLS; whether
 * the vector is normalised; the most tokens; prefixes). Sequences are sorted by length and lie one
 * below the other without padding. Vectors are L2-normalised always. A text's vector does not
 * depend on the other texts of a call (bit for bit on the host). */
#ifndef NIGHTSHIFT_WORKERS_MODELS_BERT_EMBEDDER_H
#define NIGHTSHIFT_WORKERS_MODELS_BERT_EMBEDDER_H

#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"

#define EMBEDDER_MAX_SIZE 4096

enum embed_as { EMBED_PASSAGE, EMBED_QUERY }; /* which prefix: E5's "passage: ", "query: " */

struct backend;
struct embedder;

/* be is borrowed. ERR_MODEL names the file and the problem. */
int embedder_load(const char *dir, struct backend *be, enum precision precision,
                  struct embedder **ret, struct err *err);
void embedder_free(struct embedder *e);                 /* NULL is fine */
uint32_t embedder_size(const struct embedder *e);       /* values of a vector */
uint32_t embedder_max_tokens(const struct embedder *e); /* longer texts are cut there, [SEP] kept */
/* The prefix of a text; "" for most models. Borrowed. If the files do not say whether a model is an
 * E5, the folder's name decides, which no file hash covers: store the prefix with the vectors. */
const char *embedder_prefix(const struct embedder *e, enum embed_as as);
/* Predicts the device memory of batches of at most `tokens` tokens in all, or of the default batch
 * if that is larger. */
uint64_t embedder_predict_bytes(const struct embedder *e, uint32_t tokens);
/* Tokens of a text, special ones included, before it is cut. Used to make passages. */
int embedder_count(const struct embedder *e, const char *text, uint32_t *ret, struct err *err);
/* texts: valid UTF-8. ret: [n][size], in the order of the texts. A text without a word gives the
 * vector of its special tokens. ERR_MODEL when something computed is no number, or
 * a vector is zero. */
int embedder_run(struct embedder *e, const char *const *texts, uint32_t n, enum embed_as as,
                 float *ret, struct err *err);

#endif
