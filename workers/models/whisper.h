/* workers/models/whisper.h - Whisper's two networks on one device.
 *
 * A model is loaded from a directory (config.json and the weights, or an OpenAI checkpoint; see
 * weight_layout.h) and is immutable afterwards. A session adds device memory for `slots` windows in
 * flight: each slot holds one window's cross-attention keys and values, and the self-attention
 * cache of its decoder. One thread per session; several sessions may share a model.
 *
 * What a window yields does not depend on the other slots, on the order of calls, or on how many
 * rows a call has: bit for bit on the host backend. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"

#define WHISPER_RATE_HZ 16000
#define WHISPER_WINDOW_SAMPLES 480000 /* 30 s */
#define WHISPER_FRAMES 3000           /* log-mel frames of a window */
#define WHISPER_POSITIONS 1500        /* encoder positions of a window */

struct backend; /* gpu/backend.h */
struct rules_spec;
struct choice_ask;
struct choice;

struct whisper_config {
    uint32_t d_model, mel_bins, vocab_size;
    uint32_t encoder_layers, encoder_heads, encoder_ffn;
    uint32_t decoder_layers, decoder_heads, decoder_ffn;
    uint32_t max_source_positions, max_target_positions; /* 1500, 448 */
};

struct whisper;
struct whisper_session;

/* ERR_MODEL with the tensor's name and what is wrong with it. be is borrowed for its lifetime. */
int whisper_load(const char *dir, struct backend *be, enum precision precision,
                 struct whisper **ret, struct err *err);
/* The same with random weights of this configuration (normal, std 0.02, seeded), for benchmarks. */
int whisper_random(const struct whisper_config *config, uint64_t seed, struct backend *be,
                   enum precision precision, struct whisper **ret, struct err *err);
void whisper_free(struct whisper *w);
const struct whisper_config *whisper_config(const struct whisper *w);
enum precision whisper_precision(const struct whisper *w); /* never AUTO */
/* Bytes of device memory: the weights, and what one slot adds. */
uint64_t whisper_weight_bytes(const struct whisper *w);
uint64_t whisper_slot_bytes(const struct whisper *w);
/* A good number of slots: enough rows for one reading of the decoder's weights to be shared, no
 * more than a quarter of the device's free memory holds. At least 1. */
uint32_t whisper_default_slots(const struct whisper *w);

/* Bytes of device memory that a session of so many slots and windows at once takes beside the
 * weights, to the byte what whisper_session_new allocates. */
uint64_t whisper_session_bytes(const struct whisper *w, uint32_t slots, uint32_t windows);
/* The same and the weights for a model that is not loaded: a prediction within a few percent, for
 * planning. Pure. */
uint64_t whisper_predict_bytes(const struct whisper_config *c, enum precision precision,
                               uint32_t slots, uint32_t windows);

/* windows: how many the encoder takes at once (1 where the device gains nothing by more, and with
 * `deterministic`); 0: chosen. All device memory that the session will ever use is allocated here.
 */
int whisper_session_new(struct whisper *w, uint32_t slots, uint32_t windows,
                        struct whisper_session **ret, struct err *err);
uint32_t whisper_session_windows(const struct whisper_session *s);
/* The rules by which whisper_choose chooses; before its first call. */
int whisper_session_rules(struct whisper_session *s, const struct rules_spec *spec,
                          struct err *err);
void whisper_session_free(struct whisper_session *s);
uint32_t whisper_session_slots(const struct whisper_session *s);

/* One window for one slot. pcm: n <= 480000 samples in [-1, 1], zero-padded to 30 s inside. */
struct whisper_window {
    uint32_t slot;
    const float *pcm;
    size_t n;
};

/* Log-mel, encoder, cross keys and values for n windows (different slots). Their decoder caches
 * start empty. ERR_VRAM: nothing was lost, call again with fewer. */
int whisper_encode(struct whisper_session *s, const struct whisper_window *windows, uint32_t n,
                   struct err *err);

/* One decoder position of one slot: `token` at position `pos` (0-based). pos must not be past the
 * number of tokens that this slot has seen since whisper_encode; a lower one overwrites from there
 * (that is how a window is decoded again at another temperature). */
struct whisper_row {
    uint32_t slot, pos;
    int32_t token;
};

/* n rows of different slots; logits: n x vocab_size float32, row-major, written to host memory of
 * the caller. logits[i] NULL-able per call: pass NULL to only fill caches (prompts). */
int whisper_step(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                 float *logits, struct err *err);

/* The same, but what comes back is a choice for each row, made on the device (gpu/backend.h:
 * choose); asks with what = 0 only fill caches. */
int whisper_choose(struct whisper_session *s, const struct whisper_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret, struct err *err);

/* Time spent since the session was made, per stage; what it was spent on. */
struct whisper_times {
    int64_t mel_ns, encoder_ns, cross_ns; /* cross: the decoder's keys and values of a window */
    int64_t step_ns;
    uint64_t windows, steps, tokens;
};

void whisper_session_times(const struct whisper_session *s, struct whisper_times *ret);

/* For parity tests and tools: copies of a slot's log-mel [mel_bins][3000] and encoder output
 * [1500][d_model] as float32. Only of the last window of the last whisper_encode: ERR_EMPTY else.
 */
int whisper_peek_mel(struct whisper_session *s, uint32_t slot, float *out, struct err *err);
int whisper_peek_encoder(struct whisper_session *s, uint32_t slot, float *out, struct err *err);

#endif
