/* workers/models/whisper/whisper.h - Whisper's two networks on one device.
 *
 * A model is loaded from a directory (config.json and the weights, or an OpenAI checkpoint; see
 * weight_layout.h) and is immutable afterwards. A session adds device memory for `slots` windows in
 * flight: each slot holds one window's cross-attention keys and values, and the self-attention
 * cache of its decoder. One thread per session; several sessions may share a model.
 *
 * What a window yields does not depend on the other slots, on the order of calls, or on how many
 * rows a call has: bit for bit on the host backend. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_H

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
struct candidate;

struct whisper_config {
    uint32_t d_model, mel_bins, vocab_size;
    uint32_t encoder_layers, encoder_heads, encoder_ffn;
    uint32_t decoder_layers, decoder_heads, decoder_ffn;
    uint32_t max_source_positions, max_target_positions; /* 1500, 448 */
};

/* By name: nano and those of model_names.h, also as they are published (openai/whisper-tiny).
 * ERR_USAGE names some. */
int whisper_preset(const char *name, struct whisper_config *ret, struct err *err);
/* The i-th one's name, of those that may be proposed; NULL past the last. */
const char *whisper_preset_name(uint32_t i);

/* Of a model that is not loaded: from its weights' headers or its config.json. ERR_MODEL. */
int whisper_read_sizes(const char *dir, struct whisper_config *ret, struct err *err);

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
/* How its sessions keep the windows' keys and values; before the first one. AUTO, as it is at
 * first: cache_precision_settle. */
void whisper_keep(struct whisper *w, enum cache_precision cache);
enum cache_precision whisper_kept(const struct whisper *w); /* never AUTO */
/* Bytes of device memory: the weights, and what one slot of so many branches adds. */
uint64_t whisper_weight_bytes(const struct whisper *w);
uint64_t whisper_slot_bytes(const struct whisper *w, uint32_t branches);
/* A good number of slots of so many branches: enough rows for one reading of the decoder's weights
 * to be shared, no more than a quarter of the device's free memory holds. At least 1. */
uint32_t whisper_default_slots(const struct whisper *w, uint32_t branches);

/* What a session is made for. All device memory that it will ever use is allocated at once. */
struct whisper_shape {
    uint32_t slots;    /* windows in flight; at least 1 */
    uint32_t branches; /* hypotheses of a window, each with its own decoder cache: beams, or
                          candidates of a sampling; 1 .. WHISPER_MAX_BRANCHES; 0 is taken as 1 */
    uint32_t windows;  /* that the encoder takes at once (1 where the device gains nothing by more,
                          and with `deterministic`); 0: chosen. Fewer go one by one */
    uint32_t align_heads; /* > 0: whisper_align is going to be called with at most so many heads */
};

#define WHISPER_MAX_BRANCHES 32
#define WHISPER_MAX_ALIGN_HEADS 64

/* Bytes of device memory that such a session takes beside the weights: what whisper_session_new
 * allocates, to the byte but for the scratch memory of several windows at once, which is told from
 * one's and may be less. */
uint64_t whisper_session_bytes(const struct whisper *w, struct whisper_shape shape);
/* The same and the weights for a model that is not loaded: a prediction within a few percent, for
 * planning. cache: settled. halves: of a device that keeps float32 weights of decoder steps as
 * float16 (backend_host_halves), and which are such numbers, as those of published models are: one
 * whose are not takes two bytes more for each. Pure. windows 0: 1. */
uint64_t whisper_predict_bytes(const struct whisper_config *c, enum precision precision,
                               enum cache_precision cache, bool halves, struct whisper_shape shape);

int whisper_session_new(struct whisper *w, struct whisper_shape shape, struct whisper_session **ret,
                        struct err *err);
uint32_t whisper_session_windows(const struct whisper_session *s);
/* Rows that one step takes: at least slots * branches. */
uint32_t whisper_session_rows(const struct whisper_session *s);
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

/* Log-mel, encoder, cross keys and values for n windows (different slots), after all that are under
 * way. Their decoder caches start empty. ERR_VRAM: nothing was lost, call again with fewer. */
int whisper_encode(struct whisper_session *s, const struct whisper_window *windows, uint32_t n,
                   struct err *err);

/* The same in two parts, so that other slots are stepped meanwhile: `begin` sets a call's windows
 * going, a *wave*, and has taken the audio when it returns; their slots have no window until
 * `encoded` has said that they are there. That gives the oldest wave under way, whole: how many
 * windows it has; 0: they are not there yet, or none is under way. wait: it sleeps until they are.
 * Two waves may be under way, of different slots: so the device need not wait for the host, which
 * takes the second one's audio while the first is encoded. A third is ERR_DEVICE. On a device that
 * does one thing at a time (the host) windows are there when `begin` returns. */
#define WHISPER_WAVES 2
int whisper_encode_begin(struct whisper_session *s, const struct whisper_window *windows,
                         uint32_t n, struct err *err);
int whisper_encoded(struct whisper_session *s, bool wait, uint32_t *ret, struct err *err);

/* One decoder position of one hypothesis: `token` at position `pos` (0-based). pos must not be past
 * the number of tokens that this branch has seen since whisper_encode; a lower one overwrites from
 * there (that is how a window is decoded again at another temperature), and branches that have it
 * from this one (whisper_branch) have seen no more than what was before it. */
struct whisper_row {
    uint32_t slot, branch, pos;
    int32_t token;
};

/* At most whisper_session_rows rows, of different branches, or of one branch at positions that
 * follow each other in the order of the rows (others may stand between them); logits: n x
 * vocab_size float32, row-major, written to host memory of the caller. NULL: only fill caches
 * (prompts). */
int whisper_step(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                 float *logits, struct err *err);

/* The same, but what comes back is a choice for each row, made on the device (gpu/backend.h:
 * choose); asks with what = 0 only fill caches. top: NULL, or, in a session of several branches,
 * room for n x (branches + 1) candidates (gpu/backend.h: top) of the rows that asked for a token.
 */
int whisper_choose(struct whisper_session *s, const struct whisper_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret,
                   struct candidate *top, struct err *err);

/* The same in two parts: `begin` sets a step going, `end` gives the choices of the oldest one that
 * has no answer yet, and sleeps until it is there. On devices that record steps, in sessions of one
 * branch (whisper_goes_ahead), two may be under way, so that the device need not wait for the host:
 * else one. Between the two no other call of the session but whisper_encode_begin, whisper_encoded
 * and whisper_align; an error of theirs ends all steps under way.
 *
 * Ahead of the answer, a row's token may be WHISPER_FOLLOWS: the one that is chosen for this slot
 * in the step before, which asked for one. Of its question only what, temperature and uniform are
 * given. Where that step has ended the slot's text (with <|endoftext|>, or no usable choice) the
 * row is computed for nobody, and its choice has token -1.
 *
 * A slot's cache has a row's position from `begin` on. Rows that turn out not to be wanted need not
 * be taken back: a later row at a lower position overwrites them. */
#define WHISPER_FOLLOWS (-2)
#define WHISPER_AHEAD 2 /* steps under way at most */
bool whisper_goes_ahead(const struct whisper_session *s);
int whisper_choose_begin(struct whisper_session *s, const struct whisper_row *rows,
                         const struct choice_ask *asks, uint32_t n, bool top, struct err *err);
/* ret and top: as of whisper_choose, for the rows of that step; top NULL unless it was begun so. */
int whisper_choose_end(struct whisper_session *s, struct choice *ret, struct candidate *top,
                       struct err *err);

/* Branch `to` of a slot goes on from where branch `from` is: they share its cache so far. Others
 * that share with `to` what it had beyond that lose it with the next row of `to`, as with a lower
 * one. */
struct whisper_move {
    uint32_t slot, from, to;
};

/* n moves, done as if one after the other; no branch is both a source and a destination, none twice
 * a destination. A call that these rules refuse (ERR_DEVICE) changes nothing. */
int whisper_branch(struct whisper_session *s, const struct whisper_move *moves, uint32_t n,
                   struct err *err);

struct whisper_head {
    uint32_t layer, head; /* of the decoder */
};

/* How the tokens of a decoded window follow its audio: feeds them once more (to branch 0 of the
 * slot, whose cache holds just them afterwards, and nothing after an error), and looks at what the
 * given heads of the cross-attention attend to. After whisper_session_rules, in a session that was
 * made for so many heads.
 *   tokens[0..n): prompt (up to and with <|notimestamps|>), text, <|endoftext|>; n from 1 to
 *                 max_target_positions
 *   frames:       encoder positions of 20 ms that hold audio, 1 .. 1500
 *   matrix:       [n][frames] float32, host memory of the caller: gpu/backend.h, align
 *   logprob:      [n]: of tokens[i] after those before it, among the text tokens (below
 *                 <|endoftext|>); 0 for i = 0 and for tokens that are no text
 * ERR_MODEL where the logits of such a token are not usable (struct choice). */
int whisper_align(struct whisper_session *s, uint32_t slot, const int32_t *tokens, uint32_t n,
                  uint32_t frames, const struct whisper_head *heads, uint32_t head_count,
                  float *matrix, double *logprob, struct err *err);

/* Time spent since the session was made, from each call to the end of what it set going. */
struct whisper_times {
    int64_t encode_ns; /* of windows, until that was noticed; steps may run meanwhile */
    /* Its stages; cross: the decoder's keys and values of a window. Where operations go on after
     * their calls (not the host's) only those of calls with whisper_session_stages on: else 0 is
     * added, for to time them is to stop the device between them. */
    int64_t mel_ns, encoder_ns, cross_ns;
    int64_t step_ns; /* steps, choices and alignments; and branches that a step waited for */
    uint64_t windows, steps, tokens;
};

/* Whether whisper_encode times its stages from now on, which holds the device up. */
void whisper_session_stages(struct whisper_session *s, bool timed);
void whisper_session_times(const struct whisper_session *s, struct whisper_times *ret);

/* For parity tests and tools: copies of a slot's log-mel [mel_bins][3000] and encoder output
 * [1500][d_model] as float32. Only of the last window of the last whisper_encode: ERR_EMPTY else.
 */
int whisper_peek_mel(struct whisper_session *s, uint32_t slot, float *out, struct err *err);
int whisper_peek_encoder(struct whisper_session *s, uint32_t slot, float *out, struct err *err);

#endif
