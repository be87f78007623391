/* A session's memory: predicted before anything is loaded, counted, and made whole or not at all,
 * never more of it afterwards. */
#include <stdlib.h>

#include "workers/models/whisper/whisper_net.h"

#define HOST_ROWS 16
#define HOST_SLOTS 4 /* at least, however many branches each has */
#define WIDE_ROWS 128
#define WIDE_SLOTS 32

/* ---- predicted ---- */

#define KEYS_ROUND 16 /* backends keep keys in whole blocks */

/* Weights of out x in with their bias. */
static uint64_t linear_bytes(enum precision p, uint64_t out, uint64_t in)
{
    return precision_product_bytes(p, out, in) + out * sizeof(float);
}

static uint64_t encoder_layer_bytes(const struct whisper_config *c, enum precision p)
{
    uint64_t d = c->d_model, ffn = c->encoder_ffn;

    return linear_bytes(p, 3 * d, d) + linear_bytes(p, d, d) + linear_bytes(p, ffn, d) +
           linear_bytes(p, d, ffn) + 4 * d * sizeof(float);
}

/* A precision whose weights have the size of those that steps multiply by (LINEAR_ROWS). */
static enum precision size_of_steps(enum precision p, bool halves)
{
    p = precision_of_rows(p);
    return halves && p == PRECISION_F32 ? PRECISION_F16 : p;
}

static uint64_t decoder_layer_bytes(const struct whisper_config *c, enum precision p, bool halves)
{
    uint64_t d = c->d_model, ffn = c->decoder_ffn;
    enum precision step = size_of_steps(p, halves);

    return linear_bytes(step, 3 * d, d) + 3 * linear_bytes(step, d, d) + linear_bytes(p, 2 * d, d) +
           linear_bytes(step, ffn, d) + linear_bytes(step, d, ffn) + 6 * d * sizeof(float);
}

static uint64_t weight_bytes(const struct whisper_config *c, enum precision p, bool halves)
{
    enum precision fine = precision_fine(p);
    uint64_t d = c->d_model, vocab = c->vocab_size, size = dtype_size(precision_type(p));
    uint64_t positions = (uint64_t)c->max_source_positions + c->max_target_positions;

    return linear_bytes(fine, d, 3 * (uint64_t)c->mel_bins) + linear_bytes(fine, d, 3 * d) +
           c->encoder_layers * encoder_layer_bytes(c, p) +
           c->decoder_layers * decoder_layer_bytes(c, p, halves) + vocab * d * size +
           linear_bytes(size_of_steps(fine, halves), vocab, d) +
           (positions + 4) * d * sizeof(float);
}

/* That a branch's cache has: all, or a short text's with the prompt before it and, where it is
 * aligned, its end. */
static uint32_t own_positions(const struct whisper_config *c, struct asr_shape shape)
{
    uint32_t most = c->max_target_positions;
    uint32_t text = most / 2 > ASR_SHORT_TEXT ? most / 2 : ASR_SHORT_TEXT;
    uint32_t all = (WHISPER_PROMPT_MAX + text + 1 + KEYS_ROUND - 1) / KEYS_ROUND * KEYS_ROUND;

    return shape.short_text && all < most ? all : most;
}

static uint64_t keys_bytes(const struct whisper_config *c, uint64_t keys, uint64_t size)
{
    return 2 * ((keys + KEYS_ROUND - 1) / KEYS_ROUND * KEYS_ROUND) * c->d_model * size;
}

/* In the order of whisper_net.h. */
static uint64_t window_bytes(const struct whisper_config *c, uint64_t size)
{
    uint64_t d = c->d_model, frames = WHISPER_FRAMES, positions = WHISPER_POSITIONS;

    return frames * c->mel_bins * (sizeof(float) + size) + frames * d * size +
           positions * (d * (6 * size + 2 * sizeof(float)) + c->encoder_ffn * size);
}

/* A row of a step, or of an alignment's pass, which has no logits of its own. */
static uint64_t pass_row_bytes(const struct whisper_config *c, uint64_t size)
{
    uint64_t d = c->d_model;

    return d * (6 * size + sizeof(float)) + c->decoder_ffn * size + sizeof(struct token_row) +
           sizeof(struct choice_ask) + sizeof(struct choice);
}

static uint64_t row_bytes(const struct whisper_config *c, uint64_t size)
{
    return pass_row_bytes(c, size) + c->vocab_size * (uint64_t)sizeof(float);
}

/* The backend's scratch memory: one window's keys and values during its attention, and its audio;
 * on processors also the rows of products of integers, of all windows that are encoded at once. */
static uint64_t scratch_bytes(const struct whisper_config *c, enum precision p, uint64_t windows)
{
    uint64_t size = dtype_size(precision_type(p)), rows = windows * WHISPER_POSITIONS;
    uint64_t widest = c->encoder_ffn > c->d_model ? c->encoder_ffn : c->d_model;
    bool integers = p == PRECISION_INT8_F32 || p == PRECISION_INT8_BF16 || p == PRECISION_INT16;

    return keys_bytes(c, WHISPER_POSITIONS, size) + WHISPER_WINDOW_SAMPLES * sizeof(float) +
           (integers ? precision_product_bytes(p, rows, widest) : 0);
}

#define ALIGNED_AT_ONCE 16 /* windows by a GPU: K_ALIGN_WINDOWS in gpu/cuda/kernels.h */

/* The buffers of whisper_align, and what a GPU keeps of each head's columns while it aligns (mean
 * and deviation in float64) of all windows of a call: short ones are more than align_windows. rows:
 * those that a step has. */
static uint64_t align_bytes(const struct whisper_config *c, struct asr_shape shape, uint64_t rows,
                            uint64_t size)
{
    uint64_t windows = shape.align_windows ? shape.align_windows : 1;
    uint64_t tokens = windows * c->max_target_positions;
    uint64_t more = windows > 1 && tokens > rows ? tokens - rows : 0;
    uint64_t at_once = shape.slots < ALIGNED_AT_ONCE ? shape.slots : ALIGNED_AT_ONCE;

    if (!shape.align_heads)
        return 0;
    return (shape.align_heads + 1) * tokens * WHISPER_POSITIONS * sizeof(float) +
           tokens * sizeof(uint32_t) + more * pass_row_bytes(c, size) +
           2 * at_once * shape.align_heads * BACKEND_MAX_KEYS * sizeof(double);
}

uint64_t whisper_predict_bytes(const struct whisper_config *c, enum precision precision,
                               enum cache_precision cache, bool halves, struct asr_shape shape)
{
    enum dtype cross = cache_precision_type(cache, precision);
    uint64_t scales = cross == DTYPE_I8 ? 2 * (uint64_t)c->d_model * sizeof(float) : 0;
    uint64_t size = dtype_size(precision_type(precision)), layers = c->decoder_layers;
    uint64_t branches = (uint64_t)shape.slots * (shape.branches ? shape.branches : 1);
    uint64_t rows = branches > WHISPER_PROMPT_ROWS ? branches : WHISPER_PROMPT_ROWS;
    uint64_t positions = own_positions(c, shape);
    uint64_t shared = shape.branches > 1 ? positions * sizeof(uint16_t) : 0;
    uint64_t windows = shape.windows ? shape.windows : 1;

    return weight_bytes(c, precision, halves) + scratch_bytes(c, precision, windows) +
           shape.slots * layers * (keys_bytes(c, WHISPER_POSITIONS, dtype_size(cross)) + scales) +
           branches * layers * keys_bytes(c, positions, size) +
           rows * (row_bytes(c, size) + shared) + align_bytes(c, shape, rows, size) +
           windows * window_bytes(c, size);
}

/* ---- how much ---- */

size_t whisper_cross_bytes(const struct whisper *w)
{
    return w->be->ops->kv_bytes(cache_precision_type(w->asr.cache, w->asr.precision),
                                w->config.decoder_heads, WHISPER_POSITIONS);
}

size_t whisper_own_bytes(const struct whisper *w, uint32_t positions)
{
    return w->be->ops->kv_bytes(w->type, w->config.decoder_heads, positions);
}

/* A window's keys and values over all layers, and a branch's. */
static uint64_t cross_stride(const struct whisper *w)
{
    return (uint64_t)w->config.decoder_layers * whisper_cross_bytes(w);
}

static uint64_t own_stride(const struct whisper *w, uint32_t positions)
{
    return (uint64_t)w->config.decoder_layers * whisper_own_bytes(w, positions);
}

uint64_t whisper_slot_bytes(const struct asr_model *m, struct asr_shape shape)
{
    const struct whisper *w = whisper_of(m);
    uint64_t branches = shape.branches ? shape.branches : 1;

    return cross_stride(w) + branches * own_stride(w, own_positions(&w->config, shape));
}

/* The memory that may still be allocated, as far as is known. */
static uint64_t find_free_memory(const struct backend *be)
{
    const struct backend *home = backend_home(be);
    uint64_t most = home->budget != 0 ? home->budget : home->info.memory_free, held, peak;

    backend_memory(be, &held, &peak);
    return most > held ? most - held : 0;
}

/* On the host eight rows share a weight vector that was loaded; at sixteen the weights are a small
 * part of what a step reads, and the rest, each slot's own keys and values, is not shared by more.
 * A device with wide batches needs as many rows as it has memory for to be busy in a step, and,
 * with many branches, still enough slots for the encoder to have windows to take at once. */
uint32_t whisper_default_slots(const struct asr_model *m, struct asr_shape shape)
{
    const struct whisper *w = whisper_of(m);
    bool wide = w->be->info.wide_batches;
    uint32_t most = (wide ? WIDE_ROWS : HOST_ROWS) / (shape.branches ? shape.branches : 1);
    uint32_t least = wide ? WIDE_SLOTS : HOST_SLOTS;
    uint64_t fit = find_free_memory(w->be) / 4 / whisper_slot_bytes(m, shape);

    if (most < least)
        most = least;
    return fit < 1 ? 1 : (uint32_t)(fit < most ? fit : most);
}

#define ROW_ALIGN 8 /* 16 bytes of the weights' 16-bit numbers */

/* Gives every scratch tensor its place; with base NULL only counts. Rows of logits end at multiples
 * of 8, as the operation `linear` may compute them then: a vocabulary of 51,866 is none, and
 * products whose rows or whose number of outputs are not aligned take slower kernels. All other
 * rows are of whole heads. */
static size_t place_tensors(struct whisper_session *s, char *base)
{
    const struct whisper_config *c = &s->w->config;
    int64_t d = c->d_model, n = s->asr.rows;
    int64_t frames = (int64_t)s->shape.windows * WHISPER_FRAMES;
    int64_t positions = (int64_t)s->shape.windows * WHISPER_POSITIONS;
    int64_t aligned = s->shape.align_heads ? s->asr.align_tokens : 0, pass = s->pass_rows;
    int64_t vocab = (c->vocab_size + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    enum dtype t = s->w->type, in = precision_input(s->w->asr.precision);
    bool eight = in == DTYPE_E4M3; /* then rows have scales; ffn's 8 bits lie where its 16 did */
    struct tensor h_scales, ffn_scales;
    const struct {
        struct tensor *tensor;
        enum dtype type;
        int64_t rows, cols;
    } tensors[] = {
        {&s->spectrogram, DTYPE_F32, frames, c->mel_bins},
        {&s->conv_in, t, frames, c->mel_bins},
        {&s->conv1, t, frames, d},
        {&s->conv2, t, positions, d},
        {&s->x, DTYPE_F32, positions, d},
        {&s->h, in, positions, d},
        {&h_scales, DTYPE_F32, eight ? positions : 0, 1},
        {&ffn_scales, DTYPE_F32, eight ? positions : 0, 1},
        {&s->attended, t, positions, d},
        {&s->qkv, t, positions, 3 * d},
        {&s->ffn, t, positions, c->encoder_ffn},
        {&s->output, DTYPE_F32, positions, d},
        {&s->step_x, DTYPE_F32, pass, d},
        {&s->step_h, t, pass, d},
        {&s->step_attended, t, pass, d},
        {&s->step_q, t, pass, d},
        {&s->step_qkv, t, pass, 3 * d},
        {&s->step_ffn, t, pass, c->decoder_ffn},
        {&s->logits, DTYPE_F32, n, vocab},
        {&s->scores, DTYPE_F32, s->shape.align_heads * aligned, WHISPER_POSITIONS},
        {&s->aligned, DTYPE_F32, aligned, WHISPER_POSITIONS},
    };
    const struct {
        void **place;
        size_t count, size;
    } arrays[] = {
        {(void **)&s->rows, s->pass_rows, sizeof(*s->rows)},
        {(void **)&s->asks, s->pass_rows, sizeof(*s->asks)},
        {(void **)&s->choices, s->pass_rows, sizeof(*s->choices)},
        {(void **)&s->candidates, s->asr.rows, sizeof(*s->candidates) * s->top},
        {(void **)&s->tails, s->asr.rows, sizeof(*s->tails)},
        {(void **)&s->lies_in, s->asr.rows,
         s->shape.branches > 1 ? sizeof(*s->lies_in) * s->positions : 0},
        {(void **)&s->first_frame, (size_t)aligned, sizeof(*s->first_frame)},
    };
    size_t at = 0;

    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        size_t bytes = (size_t)(tensors[i].rows * tensors[i].cols) * dtype_size(tensors[i].type);

        if (base)
            *tensors[i].tensor =
                tensor_of(tensors[i].type, base + at, tensors[i].rows, tensors[i].cols);
        at += (bytes + 255) / 256 * 256;
    }
    s->logits.cols = c->vocab_size; /* of a longer stride */
    if (base && eight) {
        s->h.scales = h_scales.data;
        s->ffn.type = in;
        s->ffn.stride = 2 * s->ffn.cols;
        s->ffn.scales = ffn_scales.data;
    }
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        if (base)
            *arrays[i].place = base + at;
        at += (arrays[i].size * arrays[i].count + 255) / 256 * 256;
    }
    return at;
}

/* The numbers that follow from a shape, whose windows are as they will be. */
static void size_session(struct whisper_session *s, struct asr_shape shape)
{
    uint32_t branches = shape.slots * shape.branches;

    s->shape = shape;
    s->asr.windows = shape.windows;
    s->asr.rows = branches > WHISPER_PROMPT_ROWS ? branches : WHISPER_PROMPT_ROWS;
    s->top = shape.branches > 1 ? shape.branches + 1 : 0;
    s->own_slots = branches;
    s->positions = own_positions(&s->w->config, shape);
    s->asr.align_tokens = shape.align_windows * s->w->config.max_target_positions;
    s->pass_rows = shape.align_heads && shape.align_windows > 1 && s->asr.align_tokens > s->asr.rows
                       ? s->asr.align_tokens
                       : s->asr.rows;
}

/* The scratch memory of one window is there since the model was loaded. */
static uint64_t bytes_of(const struct whisper *w, struct asr_shape shape)
{
    /* The counting leaves the model alone. */
    struct whisper_session s = {.w = (struct whisper *)(uintptr_t)w};

    size_session(&s, shape);
    return place_tensors(&s, NULL) + shape.slots * cross_stride(w) +
           s.own_slots * own_stride(w, s.positions) + w->mel_bytes +
           (uint64_t)shape.windows * w->mel_window_bytes +
           (uint64_t)(shape.windows - 1) * w->window_scratch;
}

/* The shape with what was left open: never more windows than slots; where grouping would change
 * results, one. */
static struct asr_shape resolve_shape(const struct whisper *w, struct asr_shape shape)
{
    const struct backend *be = w->be;
    bool chosen = shape.windows == 0, roomy = shape.align_windows == 0;

    if (roomy)
        shape.align_windows = whisper_wide_windows(be) > 1 ? ASR_ALIGN_WINDOWS : 1;
    if (shape.align_windows > shape.slots)
        shape.align_windows = shape.slots;
    shape.branches = shape.branches ? shape.branches : 1;
    if (chosen)
        shape.windows = whisper_wide_windows(be);
    if (be->info.deterministic)
        shape.windows = 1;
    if (shape.windows > shape.slots)
        shape.windows = shape.slots;
    while (roomy && shape.align_windows > 1 && bytes_of(w, shape) > find_free_memory(be))
        shape.align_windows /= 2;
    while (chosen && shape.windows > 1 && bytes_of(w, shape) > find_free_memory(be))
        shape.windows /= 2;
    return shape;
}

uint64_t whisper_session_bytes(const struct asr_model *m, struct asr_shape shape)
{
    const struct whisper *w = whisper_of(m);

    return bytes_of(w, resolve_shape(w, shape));
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
        .slot_bytes = whisper_slot_bytes(m, shape),
        .encoder_flop = encoder_flop(&w->config),
        .step_bytes = step_read(w, shape.slots),
    };
}

/* ---- making ---- */

struct kv whisper_cross_kv(const struct whisper_session *s, uint32_t layer)
{
    const struct whisper *w = s->w;

    return (struct kv){.type = cache_precision_type(w->asr.cache, w->asr.precision),
                       .heads = w->config.decoder_heads,
                       .capacity = WHISPER_POSITIONS,
                       .slots = s->shape.slots,
                       .slot_stride = cross_stride(w),
                       .tails = w->be->ops->attention_tail ? s->window_keys : NULL,
                       .data = s->cross + layer * whisper_cross_bytes(w)};
}

struct kv whisper_own_kv(const struct whisper_session *s, uint32_t layer)
{
    const struct whisper *w = s->w;

    return (struct kv){.type = w->type,
                       .heads = w->config.decoder_heads,
                       .capacity = s->positions,
                       .slots = s->own_slots,
                       .slot_stride = own_stride(w, s->positions),
                       .data = s->own + layer * whisper_own_bytes(w, s->positions),
                       .lies_in = s->shape.branches > 1 ? s->lies_in : NULL};
}

static int make_arrays(struct whisper_session *s, struct err *err)
{
    size_t branches = (size_t)s->shape.slots * s->shape.branches, rows = s->pass_rows;
    size_t tokens = s->shape.align_heads ? s->asr.align_tokens : 1;
    bool made = true;

    s->to_windows = calloc(tokens, sizeof(*s->to_windows));
    s->to_hold = calloc(tokens, sizeof(*s->to_hold));
    s->from_first_frame = calloc(tokens, sizeof(*s->from_first_frame));
    made = s->to_windows && s->to_hold && s->from_first_frame;

    s->encoded = calloc(s->shape.slots, sizeof(*s->encoded));
    s->window_keys = calloc(s->shape.slots, sizeof(*s->window_keys));
    s->branch = calloc(branches, sizeof(*s->branch));
    s->audio = calloc(s->shape.windows, sizeof(*s->audio));
    for (int i = 0; i < ASR_WAVES; i++) {
        s->wave[i].slots = calloc(s->shape.slots, sizeof(*s->wave[i].slots));
        made = made && s->wave[i].slots;
    }
    s->answered = calloc(rows, sizeof(*s->answered));
    s->to_rows = calloc(rows, sizeof(*s->to_rows));
    s->to_asks = calloc(rows, sizeof(*s->to_asks));
    s->to_lies_in =
        calloc(s->shape.branches > 1 ? branches : 1, s->positions * sizeof(*s->to_lies_in));
    s->from_choices = calloc(rows, sizeof(*s->from_choices));
    s->from_candidates = calloc(s->top ? rows : 1, (s->top ? s->top : 1) * sizeof(*s->candidates));
    for (uint32_t i = 0; s->window_keys && i < s->shape.slots; i++)
        s->window_keys[i] = (struct key_tail){WHISPER_POSITIONS, WHISPER_POSITIONS, 1};
    if (made && s->encoded && s->window_keys && s->branch && s->audio && s->answered &&
        s->to_rows && s->to_asks && s->to_lies_in && s->from_choices && s->from_candidates)
        return 0;
    return err_set(err, ERR_NOMEM, "out of memory for a session");
}

static int make_memory(struct whisper_session *s, struct err *err)
{
    struct backend *be = s->w->be, *encoder = s->w->encoder_be;
    void *cross = NULL, *own = NULL;
    int rc;

    rc = encoder->ops->mel_new(encoder, s->w->config.mel_bins, s->shape.windows, &s->mel, err);
    if (rc == 0)
        rc = be->ops->alloc(be, place_tensors(s, NULL), &s->workspace, err);
    if (rc == 0)
        rc = be->ops->alloc(be, s->shape.slots * (size_t)cross_stride(s->w), &cross, err);
    s->cross = cross;
    if (rc == 0)
        rc = be->ops->alloc(be, s->own_slots * (size_t)own_stride(s->w, s->positions), &own, err);
    s->own = own;
    if (rc == 0)
        place_tensors(s, s->workspace);
    if (rc == 0 && encoder != be) /* which uses what be has cleared, weights among it */
        rc = encoder->ops->after(encoder, be, err);
    return rc;
}

_Static_assert(ASR_FOLLOWS == TOKEN_FOLLOWS, "rows that follow");

/* Steps' answers come by boxes of the session's own where they come later; and so do marks of how
 * far its windows are, on a fork. */
static int take_boxes(struct whisper_session *s, struct err *err)
{
    struct backend *be = s->w->be, *encoder = s->w->encoder_be;
    bool ahead = s->records && be->ops->follow && s->shape.branches == 1 &&
                 s->asr.rows * sizeof(*s->choices) <= BACKEND_BOX_BYTES;
    int rc = 0;

    if (ahead)
        rc = backend_take_boxes(be, ASR_AHEAD, &s->answer_box, err);
    s->asr.ahead = ahead && rc == 0;
    if (rc == 0 && encoder != be) {
        rc = backend_take_boxes(encoder, ASR_WAVES, &s->wave_box, err);
        s->marks = rc == 0;
    }
    return rc;
}

static void give_boxes(struct whisper_session *s)
{
    if (s->asr.ahead)
        backend_give_boxes(s->w->be, s->answer_box, ASR_AHEAD);
    if (s->marks)
        backend_give_boxes(s->w->encoder_be, s->wave_box, ASR_WAVES);
}

static int check_shape(struct asr_shape shape, struct err *err)
{
    if (shape.slots < 1 || shape.slots > WHISPER_MAX_SLOTS)
        return err_set(err, ERR_USAGE, "a session has 1 to %d slots, not %u", WHISPER_MAX_SLOTS,
                       shape.slots);
    if (shape.branches > ASR_BRANCHES_MAX)
        return err_set(err, ERR_USAGE, "a window has at most %d branches, not %u", ASR_BRANCHES_MAX,
                       shape.branches);
    if (shape.slots * (shape.branches ? shape.branches : 1) > UINT16_MAX + 1) /* lies_in */
        return err_set(err, ERR_USAGE, "a session has at most %d branches, not %u times %u",
                       UINT16_MAX + 1, shape.slots, shape.branches);
    if (shape.align_heads > WHISPER_MAX_ALIGN_HEADS)
        return err_set(err, ERR_USAGE, "tokens are aligned by at most %d heads, not %u",
                       WHISPER_MAX_ALIGN_HEADS, shape.align_heads);
    return 0;
}

int whisper_session_new(struct asr_model *m, struct asr_shape shape, struct asr_session **ret,
                        struct err *err)
{
    struct whisper *w = whisper_of(m);
    struct whisper_session *s;
    int rc = check_shape(shape, err);

    if (rc != 0)
        return rc;
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory for a session");
    s->w = w;
    size_session(s, resolve_shape(w, shape));
    s->records = w->be->ops->record_begin != NULL;
    s->peek = -1;
    rc = take_boxes(s, err);
    if (rc == 0)
        rc = make_arrays(s, err);
    if (rc == 0)
        rc = make_memory(s, err);
    if (rc == 0 && s->shape.windows > 1)
        rc = whisper_warm_encoder(s, err);
    if (rc != 0) {
        whisper_session_free(&s->asr);
        return rc;
    }
    *ret = &s->asr;
    return 0;
}

static void free_recordings(struct whisper_session *s)
{
    for (int i = 0; i < WHISPER_BUCKETS; i++) {
        if (s->bucket[i].recording)
            s->w->be->ops->record_free(s->w->be, s->bucket[i].recording);
        s->bucket[i].recording = NULL;
    }
}

int whisper_session_rules(struct asr_session *session, const struct rules_spec *spec,
                          struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct backend *be = s->w->be;
    struct rules *r = NULL;
    int rc;

    if (spec->vocab != s->w->config.vocab_size)
        return err_set(err, ERR_MODEL, "the rules are for %u tokens, the model has %u", spec->vocab,
                       s->w->config.vocab_size);
    rc = be->ops->rules_new(be, spec, &r, err);
    if (rc != 0)
        return rc;
    free_recordings(s); /* they have the old rules in them */
    be->ops->rules_free(be, s->rules);
    s->rules = r;
    s->eot = spec->eot;
    return 0;
}

void whisper_session_free(struct asr_session *session)
{
    struct whisper_session *s = whisper_session_of(session);
    struct backend *be;

    if (!s)
        return;
    be = s->w->be;
    give_boxes(s);
    free_recordings(s);
    be->ops->rules_free(be, s->rules);
    s->w->encoder_be->ops->mel_free(s->w->encoder_be, s->mel);
    be->ops->release(be, s->own);
    be->ops->release(be, s->cross);
    be->ops->release(be, s->workspace);
    free(s->encoded);
    free(s->window_keys);
    free(s->branch);
    free(s->audio);
    for (int i = 0; i < ASR_WAVES; i++)
        free(s->wave[i].slots);
    free(s->answered);
    free(s->to_rows);
    free(s->to_asks);
    free(s->to_lies_in);
    free(s->from_choices);
    free(s->from_candidates);
    free(s->to_windows);
    free(s->to_hold);
    free(s->from_first_frame);
    free(s);
}

/* ---- looking inside ---- */

static int check_peek_slot(const struct whisper_session *s, uint32_t slot, struct err *err)
{
    if (s->peek == (int64_t)slot && s->encoded[slot])
        return 0;
    return err_set(err, ERR_EMPTY, "slot %u is not the one that was encoded last", slot);
}

/* The peeked window's share of a scratch tensor. */
static struct tensor peek_rows(const struct whisper_session *s, struct tensor t)
{
    t.rows /= s->shape.windows;
    t.data = (char *)t.data + (size_t)(s->peek_at * t.rows * t.stride) * dtype_size(t.type);
    return t;
}

int whisper_peek_mel(struct asr_session *session, uint32_t slot, float *out, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    int64_t bins = s->w->config.mel_bins;
    float *frames;
    int rc = check_peek_slot(s, slot, err);

    if (rc != 0)
        return rc;
    frames = malloc((size_t)(WHISPER_FRAMES * bins) * sizeof(float));
    if (!frames)
        return err_set(err, ERR_NOMEM, "out of memory for a spectrogram");
    rc = s->w->encoder_be->ops->get(s->w->encoder_be, frames, peek_rows(s, s->spectrogram), err);
    for (int64_t i = 0; rc == 0 && i < WHISPER_FRAMES * bins; i++)
        out[i % bins * WHISPER_FRAMES + i / bins] = frames[i];
    free(frames);
    return rc;
}

int whisper_peek_encoder(struct asr_session *session, uint32_t slot, float *out, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct backend *be = s->w->encoder_be;
    int rc = check_peek_slot(s, slot, err);

    return rc != 0 ? rc : be->ops->get(be, out, peek_rows(s, s->output), err);
}
