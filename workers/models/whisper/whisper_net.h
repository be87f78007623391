/* workers/models/whisper/whisper_net.h - Whisper's weights as they lie on the device. Private to
 * workers/models/whisper.
 *
 * log-mel [3000][mel] - conv 3/1, GELU - conv 3/2, GELU - + positions [1500][d]
 *   encoder layer, x times:  x += out(attend(qkv(norm(x))));  x += fc2(gelu(fc1(norm(x))))
 *   norm -> encoder output;  kv of every decoder layer from it, once a window
 * token + position [d]
 *   decoder layer, y times:  x += out(attend(qkv(norm(x)), own past));
 *                            x += out(attend(q(norm(x)), kv));  x += fc2(gelu(fc1(norm(x))))
 *   norm -> times the token embedding -> logits [vocabulary]
 *
 * The sums x are float32 throughout; the inputs of matrix products have the model's precision. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_NET_H

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"

#define WHISPER_MAX_LAYERS 64
#define WHISPER_WIDE_WINDOWS 16 /* at once, where that is faster: 24000 rows fill any device */

#define WHISPER_PROMPT_ROWS 64 /* that a step has room for at least: a prompt in a few steps */
#define WHISPER_NORM_EPSILON 1e-5f

struct norm {
    struct tensor gamma, beta; /* [1][d] float32 */
};

struct encoder_layer {
    struct norm attention_norm, ffn_norm;
    struct linear *qkv; /* [3d][d]: query, key (without bias), value */
    struct linear *out; /* [d][d] */
    struct linear *fc1; /* [ffn][d] */
    struct linear *fc2; /* [d][ffn] */
};

struct decoder_layer {
    struct norm attention_norm, cross_norm, ffn_norm;
    struct linear *qkv, *out, *fc1, *fc2; /* as the encoder's */
    struct linear *cross_q;               /* [d][d] */
    struct linear *cross_kv;              /* [2d][d], over the encoder's output: wide */
    struct linear *cross_out;             /* [d][d] */
};

struct whisper {
    struct asr_model asr;
    struct backend *be;         /* borrowed */
    struct backend *encoder_be; /* be's fork, owned; `be` itself where it has none: what windows
                                   become keys and values on, while steps run on be */
    struct whisper_config config;
    enum dtype type;
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS]; /* asr.align_heads of them */
    uint64_t weight_bytes;                /* and what the backend keeps to compute with them */
    uint64_t mel_bytes, mel_window_bytes; /* a session's log-mel: in any case, and per window */
    uint64_t window_scratch; /* what encoder_be keeps once a window has been encoded: at most so
                                much more for each further one at once */
    struct conv2d *conv1, *conv2;
    struct tensor encoder_positions; /* [1500][d] float32 */
    struct encoder_layer encoder[WHISPER_MAX_LAYERS];
    struct norm encoder_norm;
    struct tensor embedding;         /* [vocabulary][d] of `type` */
    struct tensor decoder_positions; /* [448][d] float32 */
    struct decoder_layer decoder[WHISPER_MAX_LAYERS];
    struct norm decoder_norm;
    struct linear *logits; /* the embedding again, packed; as the convolutions never of 8 bits,
                              which would cost words there and save little time */
};

static inline struct whisper *whisper_of(const struct asr_model *m)
{
    return (struct whisper *)(uintptr_t)m;
}

/* Windows that the encoder takes at once where the device may choose. */
static inline uint32_t whisper_wide_windows(const struct backend *be)
{
    return be->info.wide_batches && !be->info.deterministic ? WHISPER_WIDE_WINDOWS : 1;
}

/* Fills in w->asr, as of a model without a vocabulary. w->config is set. */
void whisper_describe(struct whisper *w, enum precision precision);

/* Checks that the program can run this configuration: ERR_MODEL says what it cannot. */
int whisper_check_config(const struct whisper_config *c, struct err *err);

#endif
