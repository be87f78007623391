/* workers/stages/token_rules.h - which token comes next: Whisper's rules over one row of logits.
 *
 * The rules are openai-whisper's: tokens never to be produced, those not to be produced first, no
 * special tokens, timestamps in pairs that never go back, the first one within a second, and a
 * timestamp whenever all timestamps together are likelier than any text token. Pure: logits in,
 * token out; ties go to the lowest id; probabilities in double. Immutable after token_rules_new,
 * any thread may use one. Logits that are NaN count as minus infinity. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TOKEN_RULES_H
#define NIGHTSHIFT_WORKERS_STAGES_TOKEN_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/vocabulary.h"

struct token_rules;

/* vocab_size: the model's, which may be larger than the vocabulary's. ERR_MODEL when smaller. */
int token_rules_new(const struct vocabulary *v, uint32_t vocab_size, struct token_rules **ret,
                    struct err *err);
void token_rules_free(struct token_rules *r);

/* Sets the logits of all tokens that may not follow tokens[0..n) (what was produced so far, without
 * the prompt) to minus infinity. All but the rule on the timestamps' mass. */
void token_rules_mask(const struct token_rules *r, const int32_t *tokens, size_t n, float *logits);

struct token_choice {
    int32_t token;  /* -1: nothing is allowed (the logits hold no finite number) */
    double logprob; /* of the token under the masked logits, temperature 1 */
};

/* The next token of masked logits. temperature 0: the likeliest; above: drawn with `uniform` in
 * [0, 1), ids in ascending order. */
struct token_choice token_rules_choose(const struct token_rules *r, const float *logits,
                                       double temperature, double uniform);

/* Probability of <|nospeech|> in unmasked logits at <|startoftranscript|>; 0 where the model has no
 * such token. */
double token_no_speech(const struct token_rules *r, const float *logits);

/* The likeliest language in the same logits, and its probability among the languages. -1 in
 * English-only models. */
int32_t token_language(const struct token_rules *r, const float *logits, double *prob);

/* Whether a row holds at least one finite number and no +infinity. */
bool token_logits_usable(const struct token_rules *r, const float *logits);

#endif
