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

/* ---- the text that a window's own tokens come after; pure */

/* A prompt that a person wrote, as the tokens that stand for it where it was said before: trimmed,
 * behind one blank. *ret newly allocated, NULL for nothing but blanks. ERR_USAGE when the model has
 * no <|startofprev|> to put it behind; ERR_NOMEM. */
int prompt_encode(const struct vocabulary *v, const char *text, int32_t **ret, uint32_t *count,
                  struct err *err);
/* The most that prompt_previous writes, for a decoder of so many positions (at least 10). */
uint32_t prompt_previous_max(uint32_t positions);
/* <|startofprev|> and the last ones of previous[0..n), at most half of the positions - 1, so that
 * as many tokens have room after them. Returns how many it wrote; 0 when n is 0 or the model has no
 * <|startofprev|>. */
uint32_t prompt_previous(const struct vocabulary *v, uint32_t positions, const int32_t *previous,
                         uint32_t n, int32_t *ret);

#endif
