/* Predicts the device memory of a model and a session before anything is loaded. */
#include "workers/models/whisper/whisper_net.h"

#define KEYS_ROUND 16 /* backends keep keys in whole blocks */

/* Weights of out x in of so many bytes each, bias, and scales where that is one. */
static uint64_t linear_bytes(uint32_t weight, uint64_t out, uint64_t in)
{
    return out * in * weight + out * sizeof(float) * (weight == 1 ? 2 : 1);
}

static uint64_t encoder_layer_bytes(const struct whisper_config *c, enum precision p)
{
    uint64_t d = c->d_model, ffn = c->encoder_ffn;
    uint32_t wide = precision_weight_bytes(p);

    return linear_bytes(wide, 3 * d, d) + linear_bytes(wide, d, d) + linear_bytes(wide, ffn, d) +
           linear_bytes(wide, d, ffn) + 4 * d * sizeof(float);
}

/* Bytes of a weight that steps multiply by (LINEAR_ROWS). */
static uint32_t step_bytes(enum precision p, bool halves)
{
    return halves && p == PRECISION_F32 ? 2 : precision_weight_bytes(precision_of_rows(p));
}

static uint64_t decoder_layer_bytes(const struct whisper_config *c, enum precision p, bool halves)
{
    uint64_t d = c->d_model, ffn = c->decoder_ffn;
    uint32_t step = step_bytes(p, halves);

    return linear_bytes(step, 3 * d, d) + 3 * linear_bytes(step, d, d) +
           linear_bytes(precision_weight_bytes(p), 2 * d, d) + linear_bytes(step, ffn, d) +
           linear_bytes(step, d, ffn) + 6 * d * sizeof(float);
}

static uint64_t weight_bytes(const struct whisper_config *c, enum precision p, bool halves)
{
    uint32_t fine = precision_weight_bytes(precision_fine(p));
    uint64_t d = c->d_model, vocab = c->vocab_size, size = dtype_size(precision_type(p));
    uint64_t positions = (uint64_t)c->max_source_positions + c->max_target_positions;

    return linear_bytes(fine, d, 3 * (uint64_t)c->mel_bins) + linear_bytes(fine, d, 3 * d) +
           c->encoder_layers * encoder_layer_bytes(c, p) +
           c->decoder_layers * decoder_layer_bytes(c, p, halves) + vocab * d * size +
           linear_bytes(step_bytes(precision_fine(p), halves), vocab, d) +
           (positions + 4) * d * sizeof(float);
}

static uint64_t keys_bytes(const struct whisper_config *c, uint64_t keys, uint64_t size)
{
    return 2 * ((keys + KEYS_ROUND - 1) / KEYS_ROUND * KEYS_ROUND) * c->d_model * size;
}

/* In the order of whisper_session.h. */
static uint64_t window_bytes(const struct whisper_config *c, uint64_t size)
{
    uint64_t d = c->d_model, frames = WHISPER_FRAMES, positions = WHISPER_POSITIONS;

    return frames * c->mel_bins * (sizeof(float) + size) + frames * d * size +
           positions * (d * (6 * size + 2 * sizeof(float)) + c->encoder_ffn * size);
}

static uint64_t row_bytes(const struct whisper_config *c, uint64_t size)
{
    uint64_t d = c->d_model;

    return d * (6 * size + sizeof(float)) + c->decoder_ffn * size +
           c->vocab_size * (uint64_t)sizeof(float);
}

/* The backend's scratch memory: one window's keys and values during its attention, and its audio;
 * on processors also the rows of 8-bit products, of all windows that are encoded at once. */
static uint64_t scratch_bytes(const struct whisper_config *c, enum precision p, uint64_t windows)
{
    uint64_t size = dtype_size(precision_type(p)), rows = windows * WHISPER_POSITIONS;
    uint64_t widest = c->encoder_ffn > c->d_model ? c->encoder_ffn : c->d_model;
    bool eight = p == PRECISION_INT8_F32 || p == PRECISION_INT8_BF16;

    return keys_bytes(c, WHISPER_POSITIONS, size) + WHISPER_WINDOW_SAMPLES * sizeof(float) +
           (eight ? rows * widest : 0);
}

/* The buffers of whisper_align. */
static uint64_t align_bytes(const struct whisper_config *c, uint64_t heads)
{
    return heads ? (heads + 1) * c->max_target_positions * WHISPER_POSITIONS * sizeof(float) : 0;
}

uint64_t whisper_predict_bytes(const struct whisper_config *c, enum precision precision,
                               enum cache_precision cache, bool halves, struct asr_shape shape)
{
    enum dtype cross = cache_precision_type(cache, precision);
    uint64_t scales = cross == DTYPE_I8 ? 2 * (uint64_t)c->d_model * sizeof(float) : 0;
    uint64_t size = dtype_size(precision_type(precision)), layers = c->decoder_layers;
    uint64_t branches = (uint64_t)shape.slots * (shape.branches ? shape.branches : 1);
    uint64_t rows = branches > WHISPER_PROMPT_ROWS ? branches : WHISPER_PROMPT_ROWS;
    uint64_t shared = shape.branches > 1 ? c->max_target_positions * sizeof(uint16_t) : 0;
    uint64_t windows = shape.windows ? shape.windows : 1;

    return weight_bytes(c, precision, halves) + scratch_bytes(c, precision, windows) +
           shape.slots * layers * (keys_bytes(c, WHISPER_POSITIONS, dtype_size(cross)) + scales) +
           branches * layers * keys_bytes(c, c->max_target_positions, size) +
           rows * (row_bytes(c, size) + shared) + align_bytes(c, shape.align_heads) +
           windows * window_bytes(c, size);
}

/* ---- what it computes ---- */

static double encoder_flop(const struct whisper_config *c)
{
    double d = c->d_model, t = WHISPER_POSITIONS, ffn = c->encoder_ffn;
    double conv = 2.0 * WHISPER_FRAMES * d * 3.0 * c->mel_bins + 2.0 * t * d * 3.0 * d;

    return conv + c->encoder_layers * (2.0 * t * (4.0 * d * d + 2.0 * d * ffn) + 4.0 * t * t * d);
}

static double step_read(const struct whisper *w, uint32_t slots)
{
    const struct whisper_config *c = &w->config;
    enum precision precision = w->asr.precision;
    double size = (double)dtype_size(precision_type(precision)), d = c->d_model;
    double weights = c->decoder_layers * (6.0 * d * d + 2.0 * d * c->decoder_ffn);
    double cross = (double)dtype_size(cache_precision_type(w->asr.cache, precision));

    return precision_weight_bytes(precision) * weights + size * (double)c->vocab_size * d +
           cross * (double)slots * c->decoder_layers * 2.0 * d * WHISPER_POSITIONS;
}

void whisper_meter(const struct asr_model *m, struct asr_shape shape, struct asr_meter *ret)
{
    const struct whisper *w = whisper_of(m);

    *ret = (struct asr_meter){
        .weight_bytes = w->weight_bytes,
        .slot_bytes = whisper_slot_bytes(m, shape.branches),
        .encoder_flop = encoder_flop(&w->config),
        .step_bytes = step_read(w, shape.slots),
    };
}
