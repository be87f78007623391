/* workers/stages/transcribe/transcribe.h - turns the audio of many shards into segments, with one
 * session.
 *
 * A *lane* is one shard: its audio from cut to cut. Lanes are of two kinds (lane.h): without voice
 * activity Whisper's window slides over the audio, and each begins where the timestamps of the one
 * before say; with it, speech is found first and packed into windows that do not depend on each
 * other. Lanes are independent; windows of different lanes share the slots, and a finished window's
 * slot is refilled at once, or with others as a batch. What a lane yields depends on its audio, the
 * model and the parameters alone.
 *
 * One thread (the engine thread) calls everything here. Audio comes from the caller through a
 * callback that never blocks. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct param_table; /* workers/stages/param_table.h */
struct silero;      /* workers/models/silero/silero.h */
struct whisper;
struct vocabulary; /* workers/text/tokenizer/vocabulary.h: tokenizer and the special tokens' ids */

#define TRANSCRIBE_PROMPT_MAX 2048
#define TRANSCRIBE_SUPPRESS_MAX 64

/* All that the text depends on beside model and audio; stored as JSON in the catalog, where values
 * that are the default's are left out (but for the first eight, which the first catalogs had
 * whole), so that a new parameter does not make a new stage of an old one. The names are
 * faster-whisper's. */
struct transcribe_params {
    char language[16]; /* "" = detect per shard, on its first speech */
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

    /* Languages */
    bool multilingual; /* each window's own language */
    /* Voice activity only: */
    uint32_t language_detection_segments; /* 4: windows with speech that are asked, until one is */
    float language_detection_threshold;   /*   0.5: that sure; else the most frequent one */

    /* Word times */
    bool word_timestamps;
    float hallucination_silence_threshold; /* seconds; 0: off. With word_timestamps: words that look
                                              invented next to silence of that length are dropped */

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
/* Keys that are absent keep their defaults, unknown ones are refused: ERR_USAGE. */
int transcribe_params_from_json(const char *json, struct transcribe_params *ret, struct err *err);

struct transcribe_word {
    int64_t start_ms, end_ms; /* in the recording; start <= end */
    const char *text;         /* valid UTF-8, with its punctuation and its leading blank, as the
                                 model wrote it: a segment's words joined are its text */
    float probability;
};

struct transcribe_segment {
    int64_t start_ms, end_ms; /* in the recording */
    const char *text;         /* valid UTF-8, surrounding blanks removed, never empty */
    const char *language;     /* of its window: "en"; "" unknown */
    float avg_logprob, no_speech_prob, compression_ratio, temperature;
    uint32_t attempts;  /* temperatures tried, 1 .. */
    float speech_prob;  /* mean voice activity over it, 0 .. 1; -1: not measured */
    bool dropped;       /* not believed: kept apart from the transcript */
    const char *reason; /* why it was tried again, doubted or dropped (stages/doubt.h); "" = good at
                           once */
    uint32_t word_count;
    const struct transcribe_word *words; /* NULL unless word_timestamps */
};

/* The lane's audio. Positions are samples at 16 kHz in the recording. */
struct lane_source {
    /* Copies samples [at, at + n) to out, returns how many there are: n; fewer only when the lane's
     * end is known and reached; -1 when they have not been decoded yet (call again later). */
    int64_t (*read)(void *arg, int64_t at, size_t n, float *out);
    /* Audio before `at` is not needed any more. */
    void (*release)(void *arg, int64_t at);
    void *arg;
};

struct lane_result {
    const char *language; /* "" when nobody spoke */
    float language_prob;
    int64_t end_sample;
    uint32_t windows;
    uint32_t segment_count;
    const struct transcribe_segment *segments; /* ascending start; borrowed during the call */
};

/* Called on the engine thread when a lane has ended: result on success, else err. The lane is gone
 * afterwards. */
typedef void (*lane_done)(void *arg, const struct lane_result *result, const struct err *err);

struct transcriber;
struct lane;
struct whisper_config; /* workers/models/whisper/whisper.h */
struct whisper_shape;

/* What a session for these parameters is made for: branches and alignment heads; slots and windows
 * are left 0. vocab NULL: the model is not here, and taken for one that names no heads. Pure. */
void transcribe_shape(const struct transcribe_params *p, const struct whisper_config *config,
                      const struct vocabulary *vocab, struct whisper_shape *ret);

/* Those parameters in words, by which what was measured is remembered: "beam_size=5
 * word_timestamps"; "" for greedy decoding with nothing beside. Pure. */
#define TRANSCRIBE_DECODING_LEN 64
void transcribe_decoding(const struct transcribe_params *p, char ret[TRANSCRIBE_DECODING_LEN]);
/* Hypotheses of a window in a step of the decoder; at most the branches. */
uint32_t transcribe_rows(const struct transcribe_params *p);

/* Borrows model, voice activity (NULL exactly when the parameters have none) and vocabulary. slots:
 * windows in work at once; windows: those that the encoder takes at once (models/whisper.h); 0:
 * chosen by the model's size and the device. */
int transcriber_new(struct whisper *model, struct silero *vad, const struct vocabulary *vocab,
                    const struct transcribe_params *params, uint32_t slots, uint32_t windows,
                    struct transcriber **ret, struct err *err);
void transcriber_free(struct transcriber *t); /* drops lanes without calling them */
/* Now: both go down when the device's memory does not suffice. */
uint32_t transcriber_slots(const struct transcriber *t);
uint32_t transcriber_windows(const struct transcriber *t);
/* Why they went down the last time; code 0: they did not. */
const struct err *transcriber_lack(const struct transcriber *t);

/* A lane beginning at start_sample. seed makes temperatures > 0 repeatable: derive it from the
 * recording's fingerprint and the shard's number. language NULL or "": as in the parameters. */
int transcriber_add(struct transcriber *t, int64_t start_sample, const char *language,
                    uint64_t seed, struct lane_source source, lane_done done, void *done_arg,
                    struct lane **ret, struct err *err);
/* Removes a lane that has not ended; done is not called. */
void transcriber_remove(struct transcriber *t, struct lane *lane);

/* One round: fills free slots with windows that are ready, encodes them, takes one decoder step
 * for all slots, settles what ended. *progress: false when nothing could be done for lack of audio
 * (wait until more is decoded). An error is the device's (ERR_VRAM: even with one window at once):
 * all lanes are void. */
int transcriber_step(struct transcriber *t, bool *progress, struct err *err);

/* `beat` is called on the engine thread whenever a piece of a step is done: within a step that
 * encodes many windows with a large model on a slow device, after about a second, or after each
 * window when one takes longer. For whoever watches over the engine; NULL: nobody. */
void transcriber_on_beat(struct transcriber *t, void (*beat)(void *arg), void *arg);

/* Lanes held, windows in slots, samples of audio finished since it was made. */
void transcriber_stats(const struct transcriber *t, uint32_t *lanes, uint32_t *windows,
                       int64_t *samples_done);

#endif
