/* workers/models/whisper/whisper.h - Whisper's two networks on one device, as asr_model.h has them.
 *
 * A model is loaded from a directory (config.json and the weights, or an OpenAI checkpoint; see
 * weight_layout.h). A slot holds one window's cross-attention keys and values, and the
 * self-attention cache of its decoder. A window's result does not depend on the other slots: bit
 * for bit on the host backend. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"
#include "workers/models/asr_model.h"

#define WHISPER_WINDOW_SAMPLES 480000 /* 30 s */
#define WHISPER_FRAMES 3000           /* log-mel frames of a window */
#define WHISPER_POSITIONS 1500        /* encoder positions of a window */
#define WHISPER_PROMPT_MAX 4          /* start, language, task, no timestamps */

struct whisper_config {
    uint32_t d_model, mel_bins, vocab_size;
    uint32_t encoder_layers, encoder_heads, encoder_ffn;
    uint32_t decoder_layers, decoder_heads, decoder_ffn;
    uint32_t max_source_positions, max_target_positions; /* 1500, 448 */
};

/* By name: nano and those of model_dir.h, also as they are published (openai/whisper-tiny).
 * ERR_USAGE names some. */
int whisper_preset(const char *name, struct whisper_config *ret, struct err *err);
/* The name of the i-th preset that may be proposed; NULL past the last. */
const char *whisper_preset_name(uint32_t i);

/* Reads the sizes of a model that is not loaded, from its weights' headers or its config.json.
 * ERR_MODEL. */
int whisper_read_sizes(const char *dir, struct whisper_config *ret, struct err *err);

/* Used by asr_family.c. */
extern const struct asr_family whisper_family;

/* The weights alone: a model without a vocabulary, which aligns by the heads of models that name
 * none. ERR_MODEL with the tensor's name and what is wrong with it. be is borrowed for its
 * lifetime. */
int whisper_load(const char *dir, struct backend *be, enum precision precision,
                 struct asr_model **ret, struct err *err);
/* The same with random weights of this configuration (normal, std 0.02, seeded), for benchmarks. */
int whisper_random(const struct whisper_config *config, uint64_t seed, struct backend *be,
                   enum precision precision, struct asr_model **ret, struct err *err);
void whisper_free(struct asr_model *m);
const struct whisper_config *whisper_config(const struct asr_model *m);
/* How its sessions keep the windows' keys and values; before the first one. AUTO, as it is at
 * first: cache_precision_resolve. */
void whisper_keep(struct asr_model *m, enum cache_precision cache);
uint64_t whisper_slot_bytes(const struct asr_model *m, struct asr_shape shape);
/* Enough rows for one reading of the decoder's weights to be shared, no more than a quarter of the
 * device's free memory holds. */
uint32_t whisper_default_slots(const struct asr_model *m, struct asr_shape shape);

#define WHISPER_MAX_ALIGN_HEADS 64

/* Bytes of device memory that such a session takes beside the weights. Equals the allocations of
 * whisper_session_new, except for the scratch memory of several windows at once, which is estimated
 * from one window's and may be less. */
uint64_t whisper_session_bytes(const struct asr_model *m, struct asr_shape shape);
/* The same and the weights for a model that is not loaded: a prediction within a few percent, for
 * planning. cache: resolved. halves: of a device that keeps float32 weights of decoder steps as
 * float16 (backend_host_halves), and which are such numbers, as those of published models are: one
 * whose are not takes two bytes more for each. Pure. windows 0: 1. */
uint64_t whisper_predict_bytes(const struct whisper_config *c, enum precision precision,
                               enum cache_precision cache, bool halves, struct asr_shape shape);

/* Members of asr_ops. */
uint32_t whisper_prompt(const struct vocabulary *v, struct asr_task task, int32_t *ret);
void whisper_meter(const struct asr_model *m, struct asr_shape shape, struct asr_meter *ret);
int whisper_session_new(struct asr_model *m, struct asr_shape shape, struct asr_session **ret,
                        struct err *err);
void whisper_session_free(struct asr_session *s);
int whisper_session_rules(struct asr_session *s, const struct rules_spec *spec, struct err *err);
int whisper_encode_begin(struct asr_session *s, const struct asr_window *windows, uint32_t n,
                         struct err *err);
int whisper_encoded(struct asr_session *s, bool wait, uint32_t *ret, struct err *err);
int whisper_choose_begin(struct asr_session *s, const struct asr_row *rows,
                         const struct choice_ask *asks, uint32_t n, bool top, struct err *err);
int whisper_choose_end(struct asr_session *s, struct choice *ret, struct candidate *top,
                       struct err *err);
int whisper_branch(struct asr_session *s, const struct asr_move *moves, uint32_t n,
                   struct err *err);

/* encode_begin and encoded in one, after all that are under way. */
int whisper_encode(struct asr_session *s, const struct asr_window *windows, uint32_t n,
                   struct err *err);
/* choose_begin and choose_end in one. */
int whisper_choose(struct asr_session *s, const struct asr_row *rows, const struct choice_ask *asks,
                   uint32_t n, struct choice *ret, struct candidate *top, struct err *err);
/* Rows as of choose_begin; logits: n x vocab_size float32, row-major, written to host memory of the
 * caller. NULL: only fill caches (prompts). */
int whisper_step(struct asr_session *s, const struct asr_row *rows, uint32_t n, float *logits,
                 struct err *err);

struct whisper_head {
    uint32_t layer, head; /* of the decoder */
};

/* asr_ops.align by given heads of the cross-attention. matrix: NULL, or host memory
 * [tokens of all windows][WHISPER_POSITIONS], is set: what the paths go through (gpu/backend.h,
 * align), row i of a window for its token i + 1. */
int whisper_align(struct asr_session *s, const struct asr_alignment *windows, uint32_t n,
                  const struct whisper_head *heads, uint32_t head_count, float *matrix,
                  struct err *err);

/* Copies of a slot's log-mel [mel_bins][3000] and encoder output [1500][d_model] as float32, for
 * parity tests and tools. ERR_EMPTY: it is not the last window of the last whisper_encode,
 * or has its silence sparsely. */
int whisper_peek_mel(struct asr_session *s, uint32_t slot, float *out, struct err *err);
int whisper_peek_encoder(struct asr_session *s, uint32_t slot, float *out, struct err *err);

/* ---- which heads of the decoder follow the words; of OpenAI's models also for layouts that do not
 * say it */

/* Decoder layer and head, n of them. Static. NULL: no model of these sizes is known, or two are
 * whose heads differ (large-v1 and large-v2). */
const uint8_t (*whisper_known_heads(const struct whisper_config *c, size_t *n))[2];

/* The decoder's heads to look at: the model's own that exist, or, where it names none, all heads of
 * the upper half of the layers (v NULL: it names none). Returns how many there are. Writes at most
 * max of them, ascending as they are given; of more, so many evenly spread ones. */
uint32_t whisper_heads(const struct vocabulary *v, const struct whisper_config *c,
                       struct whisper_head *ret, uint32_t max);

/* ---- the tokens of a Whisper model, in any layout
 *
 * Hugging Face's files are read as they are (vocabulary.h). Other layouts say the same in other
 * ways: CTranslate2's config.json has the suppressed tokens and the alignment heads under names of
 * its own, and vocabulary.json or vocabulary.txt is the list of tokens where there is no
 * tokenizer.json. whisper.cpp's file has the text tokens; which special tokens follow them is a
 * matter of how many there are. An adapter has its base's. */

/* model: a path as model_dir_find returns it. ERR_MODEL names the file and what is wrong in it. */
int whisper_vocabulary(const char *model, struct vocabulary **ret, struct err *err);

#endif
