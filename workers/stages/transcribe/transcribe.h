/* workers/stages/transcribe/transcribe.h - turns the audio of many shards into segments, with one
 * session.
 *
 * A *lane* is one shard: its audio from cut to cut. Lanes are of two kinds (lane.h): without voice
 * activity the model's window slides over the audio, and each begins where the timestamps of the
 * one before say; with it, speech is found first and packed into windows that do not depend on each
 * other. Lanes are independent; windows of different lanes share the slots, and a finished window's
 * slot is refilled at once, or with others as a batch. A lane's result depends on its audio, the
 * model and the parameters alone.
 *
 * One thread (the engine thread) calls everything here. Audio comes from the caller through a
 * callback that never blocks. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/stages/transcribe/transcription.h"

struct silero;    /* workers/models/silero/silero.h */
struct asr_model; /* workers/models/asr_model.h */
struct asr_shape;

struct transcriber;
struct lane;

/* The shape of a session for these parameters: branches, alignment heads, and whether texts are
 * short; slots and windows stay 0. align_heads: the model's. Pure. */
void transcribe_shape(const struct transcribe_params *p, uint32_t align_heads,
                      struct asr_shape *ret);

/* These parameters in words, as a key for measurements: "beam_size=5 word_timestamps"; "" for plain
 * greedy decoding; "long_text": not asr_shape.short_text. Pure. */
#define TRANSCRIBE_DECODING_LEN 64
void transcribe_decoding(const struct transcribe_params *p, char ret[TRANSCRIBE_DECODING_LEN]);
/* Hypotheses of a window in a step of the decoder; at most the branches. */
uint32_t transcribe_rows(const struct transcribe_params *p);

/* Borrows the model, with its vocabulary, and voice activity (NULL exactly when the parameters have
 * none). slots: windows in work at once; windows: those that the encoder takes at once (struct
 * asr_shape); 0: chosen by the model's size and the device. */
int transcriber_new(struct asr_model *model, struct silero *vad,
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
/* The same with known text, which is borrowed until the lane ends. The lane yields it, and times
 * the words of segments of this source. Nothing is decoded. ERR_USAGE: without word_timestamps. */
int transcriber_add_known_text(struct transcriber *t, int64_t start_sample,
                               const struct result_known_text *known_text, uint32_t text_source,
                               struct lane_source source, lane_done done, void *done_arg,
                               struct lane **ret, struct err *err);
/* Removes a lane that has not ended; done is not called. */
void transcriber_remove(struct transcriber *t, struct lane *lane);

/* One round: fills free slots with windows that are ready, encodes them, takes one decoder step
 * for all slots, finishes what ended. *progress: false when nothing could be done for lack of audio
 * (wait until more is decoded). An error is the device's (ERR_VRAM: even with one window at once):
 * all lanes are void. */
int transcriber_step(struct transcriber *t, bool *progress, struct err *err);

/* `beat` is called on the engine thread whenever a piece of a step is done: within a step that
 * encodes many windows with a large model on a slow device, after about a second, or after each
 * window when one takes longer. It shows a watchdog that the engine works; NULL: nobody watches. */
void transcriber_on_beat(struct transcriber *t, void (*beat)(void *arg), void *arg);

/* Lanes held, windows in slots, samples of audio finished since it was made. */
void transcriber_stats(const struct transcriber *t, uint32_t *lanes, uint32_t *windows,
                       int64_t *samples_done);

#endif
