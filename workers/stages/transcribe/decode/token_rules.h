/* workers/stages/transcribe/decode/token_rules.h - the vocabulary's and the user's part in which
 * token comes next.
 *
 * The rules themselves are an operation of the device (gpu/backend.h: choose); here are the ids
 * that they are about. Immutable after token_rules_new. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_TOKEN_RULES_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_TOKEN_RULES_H

#include <stdint.h>

#include "base/err.h"
#include "workers/text/tokenizer/vocabulary.h"

struct rules_spec; /* gpu/backend.h */
struct transcribe_params;
struct token_rules;

/* vocab_size: the model's, which may be larger than the vocabulary's; ERR_MODEL when smaller. Uses
 * suppress_tokens and max_initial_timestamp of the parameters; ERR_USAGE when they name a token
 * that the model does not have. The vocabulary is borrowed, the parameters are not. */
int token_rules_new(const struct vocabulary *v, uint32_t vocab_size,
                    const struct transcribe_params *params, struct token_rules **ret,
                    struct err *err);
void token_rules_free(struct token_rules *r);
/* Valid as long as r and the vocabulary are. */
const struct rules_spec *token_rules_spec(const struct token_rules *r);

#endif
