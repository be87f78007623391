/* workers/stages/transcribe/transcribe_params.h - how is transcribed: the parameters of the stage.
 * Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_PARAMS_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/hearing.h"

struct param_table; /* workers/stages/param_table.h */

#define TRANSCRIBE_PROMPT_MAX 2048
#define TRANSCRIBE_SUPPRESS_MAX 64
#define TRANSCRIBE_LANGUAGES_MAX 8
#define TRANSCRIBE_CODE_LEN 16 /* of a language's code, with its NUL */

/* All that the text depends on beside model and audio; stored as JSON in the catalog, where values
 * that are the default's are left out (but for the first eight, which the first catalogs had
 * whole), so that a new parameter does not make a new stage of an old one. The names are
 * faster-whisper's. */
struct transcribe_params {
    char language[64]; /* "" = detect per shard, on its first speech; a code; or the codes of those
                          that occur, of which it is detected: "de,en", ascending, at most
                          TRANSCRIBE_LANGUAGES_MAX */
    bool translate;
    float temperatures[8]; /* the fallback ladder, ascending */
    uint32_t temperature_count;
    float compression_ratio_threshold; /* 2.4: above, try the next temperature */
    float logprob_threshold;           /* -1.0: below, try the next temperature */
    float no_speech_threshold;         /* 0.6 */
    uint32_t max_tokens;               /* per window; 0: half of the decoder's positions; never more
                                          than these less 3, or 5 with word_timestamps */

    /* Decoding */
    uint32_t beam_size;      /* 1 (greedy) .. 16; at temperature 0 */
    uint32_t best_of;        /* 1 .. 16: candidates at temperatures above 0; default 1 */
    float patience;          /* 1.0: as many finished hypotheses as beams end the search */
    float length_penalty;    /* < 0 (default): the average log probability ranks; else Google NMT's
                                penalty ((5 + n) / 6)^length_penalty, as in openai-whisper */
    bool without_timestamps; /* one segment a window */
    float max_initial_timestamp;       /* seconds; < 0 (default): the model's own (mostly 1.0) */
    bool condition_on_previous_text;   /* only without voice activity; default false */
    float prompt_reset_on_temperature; /* 0.5: a text got above is no condition */
    char initial_prompt[TRANSCRIBE_PROMPT_MAX]; /* UTF-8; before the first window of a shard, or
                                                   before every one that voice activity cuts */
    char hotwords[TRANSCRIBE_PROMPT_MAX];       /* UTF-8; before every window that has neither an
                                                   initial prompt nor a text before it */
    int32_t suppress_tokens[TRANSCRIBE_SUPPRESS_MAX]; /* beside or instead of the model's */
    uint32_t suppress_count;
    bool suppress_model; /* true: the model's own list holds as well ("-1" in the list) */

    bool sparse_silence; /* of whole windows, too: asr_model.h, struct asr_window */

    /* Languages */
    bool multilingual; /* each window's own language */
    /* Voice activity only: */
    uint32_t language_detection_segments; /* 4: windows with speech that are asked, until one is */
    float language_detection_threshold;   /*   0.5: that sure; else the most frequent one */

    /* Word times */
    bool word_timestamps;
    float hallucination_silence_threshold; /* seconds; 0: off. With word_timestamps: words that look
                                              invented next to silence of that length are dropped */

    struct hearing_words hearing; /* channels, tracks */

    /* Voice activity; vad_model "" = off: Whisper's own windows follow each other */
    char vad_model[512];     /* "silero-vad" (in the models directory) or an absolute path */
    char vad_hash[33];       /* hex XXH3-128 of the file; the worker compares */
    float vad_threshold;     /* 0.5 */
    float vad_neg_threshold; /* < 0 (default): vad_threshold - 0.15, at least 0.01 */
    uint32_t vad_min_speech_duration_ms;  /* 0 */
    uint32_t vad_min_silence_duration_ms; /* 160 */
    uint32_t vad_speech_pad_ms;           /* 400 */
};

extern const struct param_table transcribe_table; /* of these (transcribe_params.c) */
void transcribe_params_default(struct transcribe_params *p);
/* ERR_USAGE naming the first value that is out of its range. */
int transcribe_params_check(const struct transcribe_params *p, struct err *err);
/* Canonical JSON (sorted keys, no spaces), newly allocated; and back, every value range-checked. */
int transcribe_params_to_json(const struct transcribe_params *p, char **ret, struct err *err);
/* The same parameters without times of words. *ret NULL: they ask for no times, or the text depends
 * on the times. */
int transcribe_params_untimed(const char *json, char **ret, struct err *err);
/* Takes the next code off a list such as `language`; false: none is left. A code that has no room
 * is cut. */
bool transcribe_next_language(const char **list, char ret[TRANSCRIBE_CODE_LEN]);
/* Does it name several languages? */
bool transcribe_many_languages(const struct transcribe_params *p);
/* Keys that are absent keep their defaults, unknown ones are refused: ERR_USAGE. */
int transcribe_params_from_json(const char *json, struct transcribe_params *ret, struct err *err);

#endif
