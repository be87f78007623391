/* workers/stages/transcribe/decode/decoding.h - the decoding of one window, as a state machine
 * without a device.
 *
 *            feed (choice at <|startoftranscript|>)
 *   START ───────────────────────► LANGUAGE ──decoding_go(language)──► PROMPT ──► TEXT ──► judge
 *     │ silence beyond doubt                                                      ▲         │ too
 *     ▼                                                                           └─────────┤ bad
 *   DONE ◄───────────────────────────── good, silent, or the last temperature ──────────────┘
 *
 * With a previous text before the start token, silence is heard in PROMPT, not in START. In
 * models whose prompt is the start token alone START chooses the first token, too, and LANGUAGE
 * goes on to TEXT.
 *
 * Greedy (beam_size 1, temperature 0), beam search (temperature 0), sampling of best_of candidates
 * (above 0), with openai-whisper's rules of ranking and fallback (decoding.py, transcribe.py).
 *
 * The driver asks for the rows to compute (decoding_rows), has the moves of the step before done on
 * the caches (decoding_moves), has choices made, and gives them back (decoding_feed). Pure but for
 * memory; one thread per window. The result depends on the choices, the parameters and the seed
 * alone. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_DECODING_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_DECODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/text/tokenizer/vocabulary.h"

struct choice_ask; /* gpu/backend.h */
struct choice;
struct candidate;

/* Above this no-speech probability a window is silence whatever text might be got out of it. Models
 * say 0.92 and more on tones and noise; on real speech whisper-base said up to 0.73, and mostly
 * under 0.2. Between the parameter's threshold and this one, the average log probability decides,
 * as in openai-whisper. */
#define NO_SPEECH_CERTAIN 0.9

/* Shared by all windows; borrowed. */
struct decoding_policy {
    const struct transcribe_params *params;
    const struct vocabulary *vocab;
    uint32_t positions;  /* of the decoder */
    uint32_t max_tokens; /* at least 1, without the prompt; fewer where a long one leaves no room */
    uint32_t branches;   /* of the session: at least max(beam_size, best_of) */
    uint32_t (*prompt)(const struct vocabulary *v, struct asr_task task,
                       int32_t *ret); /* asr_ops */
};

enum decoding_state {
    DECODING_START,    /* rows: one, the start token */
    DECODING_LANGUAGE, /* waits for decoding_go; no rows */
    DECODING_PROMPT,   /* rows: what is left of the prompt but its last token */
    DECODING_TEXT,     /* rows: one for each live hypothesis */
    DECODING_DONE,
};

struct decoding;

/* The result; valid in DONE until the next begin. */
struct decoding_result {
    bool silent; /* nobody speaks here; known at START: the language is the heard one */
    int32_t language;
    float language_prob; /* 1 when it was given */
    float no_speech_prob;
    const int32_t *tokens; /* text and timestamps, without prompt and <|endoftext|> */
    const float *logprobs; /* of each of them, at temperature 1 */
    uint32_t count;
    const int32_t *prompt; /* of this window, up to and with the last token before the text */
    uint32_t prompt_len;
    float avg_logprob;  /* of all that was written, <|endoftext|> and timestamps too */
    float text_logprob; /* of the text alone */
    float compression_ratio, temperature;
    uint32_t attempts;         /* made; 0: silence beyond doubt */
    bool repetitive, unlikely; /* some attempt was refused for its compression ratio / its average
                                  log probability (the result's own values tell about itself) */
};

/* ERR_USAGE: more beams or candidates than branches, or a model that has no <|notimestamps|> and is
 * to do without; ERR_MODEL: a decoder of hardly any positions. */
int decoding_new(const struct decoding_policy *policy, struct decoding **ret, struct err *err);
void decoding_free(struct decoding *d); /* NULL is fine */

/* A new window. previous[0..n): tokens of the text before (or of a prompt), the last ones of which
 * go before the start as the condition, at most half of the positions - 1; n may be 0. */
void decoding_begin(struct decoding *d, uint64_t seed, const int32_t *previous, uint32_t n);
enum decoding_state decoding_state(const struct decoding *d);
/* In LANGUAGE: what was heard (id, -1 in models of one language; its probability), and the silence:
 * without the previous text, with which the result's no_speech_prob is. */
void decoding_heard(const struct decoding *d, int32_t *language, float *prob, float *no_speech);
/* In LANGUAGE: go on with this one (ignored by models of one language; prob 1: it was given); -1:
 * with what was heard. Never to DONE: only decoding_feed leads there. */
void decoding_go(struct decoding *d, int32_t language, float prob);

/* The copies between branches that the next rows need, to be done before them; at most `branches`.
 * Slots are left 0 for the driver to fill in. Returns how many; 0 when called again. */
uint32_t decoding_moves(struct decoding *d, struct asr_move *ret);
/* Rows to feed next and what is to be chosen from each; at most `room` (>= branches). Slots are
 * left 0. 0 in LANGUAGE and DONE. */
uint32_t decoding_rows(const struct decoding *d, struct asr_row *rows, struct choice_ask *asks,
                       uint32_t capacity);
/* The row that comes after the one of decoding_rows as long as the text goes on, while nobody knows
 * what is chosen there: it is one that follows (asr_model.h), of branch 0. False where what comes
 * depends on the choice in another way, or nothing can come. The choice may end the text or the
 * attempt: then, after decoding_feed, decoding_rows names another position, or none. */
bool decoding_ahead(const struct decoding *d, struct asr_row *row, struct choice_ask *ask);
/* Takes the choices for exactly those rows. top: n x (branches + 1), NULL when branches is 1.
 * ERR_MODEL when the logits held no number to go by. */
int decoding_feed(struct decoding *d, const struct choice *c, const struct candidate *top,
                  uint32_t n, struct err *err);
void decoding_result(const struct decoding *d, struct decoding_result *ret);

#endif
