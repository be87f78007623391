/* workers/stages/window.h - the decoding of one window, as a state machine without a device.
 *
 *            feed(choice at <|startoftranscript|>)
 *   START ──────────────────────────────────────────► DONE  (silence beyond doubt)
 *     │ language, no-speech probability
 *     ▼                      good, silent, or the last temperature
 *   PROMPT ──► TEXT ──► judge ────────────────────────► DONE
 *                ▲        │ too repetitive, too unlikely
 *                └────────┘ next temperature, from the prompt's last token
 *
 * The driver asks for the row to compute (window_row) and what is to be chosen from its logits
 * (window_ask), has both done, and gives the choice back (window_feed). Pure but for memory; one
 * thread per window. What comes out depends on the choices, the parameters and the seed alone. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_WINDOW_H
#define NIGHTSHIFT_WORKERS_STAGES_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe.h"
#include "workers/text/vocabulary.h"

struct choice_ask; /* gpu/backend.h */
struct choice;

#define PROMPT_MAX 3 /* start, language, task */

/* Above this no-speech probability a window is silence whatever text might be got out of it. A
 * model that is sure says 0.99 and more on noise, and under 0.5 on speech; between the parameter's
 * threshold and this one, the average log probability decides, as in openai-whisper. */
#define NO_SPEECH_CERTAIN 0.95

/* Shared by all windows; borrowed. */
struct window_policy {
    const struct transcribe_params *params;
    const struct vocabulary *vocab;
    uint32_t max_tokens; /* at least 1; prompt and tokens fit the decoder's positions */
};

enum window_state { WINDOW_START, WINDOW_PROMPT, WINDOW_TEXT, WINDOW_DONE };

struct window {
    const struct window_policy *policy;
    enum window_state state;
    uint64_t seed;
    int32_t language;    /* id; -1: still to be detected here (or English-only) */
    float language_prob; /* 1 when it was given */
    float no_speech_prob;
    bool silent; /* result: nobody speaks here */
    int32_t prompt[PROMPT_MAX];
    uint32_t prompt_len, prompt_pos;
    uint32_t attempt; /* index into the temperatures */
    int32_t *tokens;  /* owned; room for policy->max_tokens */
    uint32_t count;
    double logprob_sum;
    float avg_logprob, compression_ratio, temperature; /* of the result */
};

int window_init(struct window *w, const struct window_policy *policy, struct err *err);
void window_free(struct window *w);
/* Begins a new window. language: the lane's, or -1 to detect it. */
void window_begin(struct window *w, uint64_t seed, int32_t language);

/* The token to feed next and its position; not in WINDOW_DONE. */
void window_row(const struct window *w, int32_t *token, uint32_t *pos);
/* What is to be chosen from that row's logits; of a prompt's, nothing. */
void window_ask(const struct window *w, struct choice_ask *ret);
/* What was chosen. ERR_MODEL when the logits held no number to go by. */
int window_feed(struct window *w, const struct choice *c, struct err *err);

#endif
