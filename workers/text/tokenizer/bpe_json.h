/* workers/text/tokenizer/bpe_json.h - byte-pair encoding as a tokenizer.json holds it. Any thread.
 */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_BPE_JSON_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_BPE_JSON_H

#include <jansson.h>

#include "workers/text/tokenizer/bpe.h"

/* Fills b, which is empty, with the vocabulary and the merges of the file's "model". ERR_MODEL. */
int bpe_read_json(struct bpe *b, const json_t *model, struct err *err);

#endif
