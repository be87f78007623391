/* workers/stages/transcribe/decode/prompt.h - the text that a window's own tokens come after. Pure.
 */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_PROMPT_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_PROMPT_H

#include <stdint.h>

#include "base/err.h"
#include "workers/text/tokenizer/vocabulary.h"

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
