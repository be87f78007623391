/* A session: windows through the encoder one by one, tokens through the decoder all slots at once.
 *
 * A window always takes the very same path (one window, 1500 rows), and every operation of a
 * decoder step treats rows apart, so what a slot yields cannot depend on its neighbours. Encoding
 * several windows as one matrix would save nothing on the host: 1500 rows fill it. */
#include "workers/models/whisper.h"

#include <stdlib.h>

#include "base/clock.h"

#include "workers/models/whisper_net.h"

struct slot {
    bool encoded;
    uint32_t seen; /* tokens in the decoder's cache */
};

struct whisper_session {
    struct whisper *w; /* borrowed */
    uint32_t slots;
    int64_t peek; /* slot whose spectrogram and encoder output are still there; -1: none */
    struct slot *slot;
    struct whisper_times times;
    struct mel *mel;
    char *cache; /* [slots][whisper_slot_bytes]: per layer cross, then own keys and values */
    void *workspace;

    struct tensor spectrogram;  /* [3000][mel] float32 */
    struct tensor conv_in;      /* the same in the model's type */
    struct tensor conv1, conv2; /* [3000][d], [1500][d] */
    struct tensor x;            /* [1500][d] float32: the running sum */
    struct tensor h, attended;  /* [1500][d] */
    struct tensor qkv;          /* [1500][3d] */
    struct tensor ffn;          /* [1500][ffn] */
    struct tensor output;       /* [1500][d] float32 */
    struct kv encoder_kv;
    struct tensor step_x; /* [slots][d] float32 */
    struct tensor step_h, step_attended, step_q, step_qkv, step_ffn;
    struct tensor logits; /* [slots][vocabulary] float32 */

    struct kv *row_kv;  /* [slots] of the rows of a call */
    uint32_t *row_pos;  /* [slots] */
    uint32_t *row_keys; /* [slots] */
    int32_t *row_id;    /* [slots] */
};

static size_t cross_bytes(const struct whisper *w)
{
    return w->be->ops->kv_bytes(w->type, w->config.decoder_heads, WHISPER_POSITIONS);
}

static size_t own_bytes(const struct whisper *w)
{
    return w->be->ops->kv_bytes(w->type, w->config.decoder_heads, w->config.max_target_positions);
}

uint64_t whisper_slot_bytes(const struct whisper *w)
{
    return (uint64_t)w->config.decoder_layers * (cross_bytes(w) + own_bytes(w));
}

/* Eight rows share a weight vector that was loaded; at sixteen the weights are a small part of what
 * a step reads, and the rest, each slot's own keys and values, is not shared by more. */
uint32_t whisper_default_slots(const struct whisper *w)
{
    uint64_t fit = w->be->info.memory_free / 4 / whisper_slot_bytes(w);

    return fit < 1 ? 1 : fit < 16 ? (uint32_t)fit : 16;
}

uint32_t whisper_session_slots(const struct whisper_session *s) { return s->slots; }

void whisper_session_times(const struct whisper_session *s, struct whisper_times *ret)
{
    *ret = s->times;
}

static struct kv cross_kv(const struct whisper_session *s, uint32_t slot, uint32_t layer)
{
    const struct whisper *w = s->w;
    char *p = s->cache + slot * whisper_slot_bytes(w) + layer * cross_bytes(w);

    return (struct kv){w->type, w->config.decoder_heads, WHISPER_POSITIONS, p};
}

static struct kv own_kv(const struct whisper_session *s, uint32_t slot, uint32_t layer)
{
    const struct whisper *w = s->w;
    char *p = s->cache + slot * whisper_slot_bytes(w) + w->config.decoder_layers * cross_bytes(w) +
              layer * own_bytes(w);

    return (struct kv){w->type, w->config.decoder_heads, w->config.max_target_positions, p};
}

/* Gives every scratch tensor its place; with base NULL only counts. */
static size_t place_tensors(struct whisper_session *s, char *base)
{
    const struct whisper_config *c = &s->w->config;
    enum dtype t = s->w->type;
    int64_t d = c->d_model, n = s->slots;
    const struct {
        struct tensor *tensor;
        enum dtype type;
        int64_t rows, cols;
    } all[] = {
        {&s->spectrogram, DTYPE_F32, WHISPER_FRAMES, c->mel_bins},
        {&s->conv_in, t, WHISPER_FRAMES, c->mel_bins},
        {&s->conv1, t, WHISPER_FRAMES, d},
        {&s->conv2, t, WHISPER_POSITIONS, d},
        {&s->x, DTYPE_F32, WHISPER_POSITIONS, d},
        {&s->h, t, WHISPER_POSITIONS, d},
        {&s->attended, t, WHISPER_POSITIONS, d},
        {&s->qkv, t, WHISPER_POSITIONS, 3 * d},
        {&s->ffn, t, WHISPER_POSITIONS, c->encoder_ffn},
        {&s->output, DTYPE_F32, WHISPER_POSITIONS, d},
        {&s->step_x, DTYPE_F32, n, d},
        {&s->step_h, t, n, d},
        {&s->step_attended, t, n, d},
        {&s->step_q, t, n, d},
        {&s->step_qkv, t, n, 3 * d},
        {&s->step_ffn, t, n, c->decoder_ffn},
        {&s->logits, DTYPE_F32, n, c->vocab_size},
    };
    size_t at = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (base)
            *all[i].tensor = tensor_of(all[i].type, base + at, all[i].rows, all[i].cols);
        at += ((size_t)(all[i].rows * all[i].cols) * dtype_size(all[i].type) + 63) / 64 * 64;
    }
    if (base)
        s->encoder_kv = (struct kv){t, c->encoder_heads, WHISPER_POSITIONS, base + at};
    return at + s->w->be->ops->kv_bytes(t, c->encoder_heads, WHISPER_POSITIONS);
}

int whisper_session_new(struct whisper *w, uint32_t slots, struct whisper_session **ret,
                        struct err *err)
{
    struct backend *be = w->be;
    struct whisper_session *s;
    void *cache = NULL;
    size_t bytes;
    int rc;

    if (slots < 1 || slots > 4096 ||
        __builtin_mul_overflow((size_t)whisper_slot_bytes(w), (size_t)slots, &bytes))
        return err_set(err, ERR_USAGE, "a session has 1 to 4096 slots, not %u", slots);
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory for a session");
    s->w = w;
    s->slots = slots;
    s->peek = -1;
    s->slot = calloc(slots, sizeof(*s->slot));
    s->row_kv = calloc(slots, sizeof(*s->row_kv));
    s->row_pos = calloc(slots, sizeof(*s->row_pos));
    s->row_keys = calloc(slots, sizeof(*s->row_keys));
    s->row_id = calloc(slots, sizeof(*s->row_id));
    if (!s->slot || !s->row_kv || !s->row_pos || !s->row_keys || !s->row_id)
        rc = err_set(err, ERR_NOMEM, "out of memory for a session");
    else
        rc = be->ops->mel_new(be, w->config.mel_bins, &s->mel, err);
    if (rc == 0)
        rc = be->ops->alloc(be, place_tensors(s, NULL), &s->workspace, err);
    if (rc == 0)
        rc = be->ops->alloc(be, bytes, &cache, err);
    if (rc != 0) {
        whisper_session_free(s);
        return rc;
    }
    s->cache = cache;
    place_tensors(s, s->workspace);
    *ret = s;
    return 0;
}

void whisper_session_free(struct whisper_session *s)
{
    if (!s)
        return;
    s->w->be->ops->mel_free(s->w->be, s->mel);
    s->w->be->ops->release(s->w->be, s->cache);
    s->w->be->ops->release(s->w->be, s->workspace);
    free(s->slot);
    free(s->row_kv);
    free(s->row_pos);
    free(s->row_keys);
    free(s->row_id);
    free(s);
}

static int norm(struct whisper_session *s, struct tensor x, const struct norm *n, struct tensor y,
                struct err *err)
{
    return s->w->be->ops->layer_norm(s->w->be, x, n->gamma, n->beta, y, err);
}

/* Audio to s->x, as it enters the first layer. */
static int encode_front(struct whisper_session *s, const float *pcm, size_t n, struct err *err)
{
    struct backend *be = s->w->be;
    struct tensor in = s->spectrogram;
    int64_t start = clock_mono_ns();
    int rc;

    rc = be->ops->mel(be, s->mel, pcm, n, s->spectrogram, err);
    s->times.mel_ns += clock_mono_ns() - start;
    start = clock_mono_ns();
    if (rc == 0 && s->w->type != DTYPE_F32) {
        rc = be->ops->copy(be, s->conv_in, s->spectrogram, err);
        in = s->conv_in;
    }
    if (rc == 0)
        rc = be->ops->conv1d(be, s->w->conv1, in, EPILOGUE_GELU, s->conv1, err);
    if (rc == 0)
        rc = be->ops->conv1d(be, s->w->conv2, s->conv1, EPILOGUE_GELU, s->conv2, err);
    if (rc == 0)
        rc = be->ops->copy(be, s->x, s->conv2, err);
    if (rc == 0)
        rc = be->ops->add(be, s->x, s->w->encoder_positions, err);
    s->times.encoder_ns += clock_mono_ns() - start;
    return rc;
}

static int encode_layer(struct whisper_session *s, const struct encoder_layer *l, struct err *err)
{
    struct backend *be = s->w->be;
    int64_t d = s->w->config.d_model;
    int rc;

    rc = norm(s, s->x, &l->attention_norm, s->h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->qkv, s->h, EPILOGUE_NONE, s->qkv, err);
    if (rc == 0)
        rc = be->ops->kv_fill(be, s->encoder_kv, tensor_columns(s->qkv, d, d),
                              tensor_columns(s->qkv, 2 * d, d), err);
    if (rc == 0)
        rc = be->ops->attention(be, tensor_columns(s->qkv, 0, d), s->encoder_kv, WHISPER_POSITIONS,
                                s->attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, s->attended, EPILOGUE_ADD, s->x, err);
    if (rc == 0)
        rc = norm(s, s->x, &l->ffn_norm, s->h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, s->h, EPILOGUE_GELU, s->ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, s->ffn, EPILOGUE_ADD, s->x, err);
    return rc;
}

/* The encoder's output to the keys and values that the slot's decoder layers look at. */
static int encode_cross(struct whisper_session *s, uint32_t slot, struct err *err)
{
    struct backend *be = s->w->be;
    int64_t d = s->w->config.d_model;
    struct tensor kv = tensor_of(s->w->type, s->qkv.data, WHISPER_POSITIONS, 2 * d);
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->w->config.decoder_layers; i++) {
        rc = be->ops->linear(be, s->w->decoder[i].cross_kv, s->h, EPILOGUE_NONE, kv, err);
        if (rc == 0)
            rc = be->ops->kv_fill(be, cross_kv(s, slot, i), tensor_columns(kv, 0, d),
                                  tensor_columns(kv, d, d), err);
    }
    return rc;
}

static int encode_window(struct whisper_session *s, const struct whisper_window *window,
                         struct err *err)
{
    struct backend *be = s->w->be;
    int64_t start;
    int rc;

    s->peek = -1;
    s->slot[window->slot] = (struct slot){0};
    rc = encode_front(s, window->pcm, window->n, err);
    start = clock_mono_ns();
    for (uint32_t i = 0; rc == 0 && i < s->w->config.encoder_layers; i++)
        rc = encode_layer(s, &s->w->encoder[i], err);
    if (rc == 0)
        rc = norm(s, s->x, &s->w->encoder_norm, s->output, err);
    if (rc == 0)
        rc = be->ops->copy(be, s->h, s->output, err);
    s->times.encoder_ns += clock_mono_ns() - start;
    start = clock_mono_ns();
    if (rc == 0)
        rc = encode_cross(s, window->slot, err);
    if (rc != 0)
        return rc;
    s->times.cross_ns += clock_mono_ns() - start;
    s->times.windows++;
    s->slot[window->slot].encoded = true;
    s->peek = window->slot;
    return 0;
}

int whisper_encode(struct whisper_session *s, const struct whisper_window *windows, uint32_t n,
                   struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (windows[i].slot >= s->slots || windows[i].n > WHISPER_WINDOW_SAMPLES)
            return err_set(err, ERR_DEVICE, "window %u: slot %u of %u, %zu samples of %d", i,
                           windows[i].slot, s->slots, windows[i].n, WHISPER_WINDOW_SAMPLES);
    }
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = encode_window(s, &windows[i], err);
    return rc;
}

static int check_rows(const struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                      struct err *err)
{
    if (n < 1 || n > s->slots)
        return err_set(err, ERR_DEVICE, "a step of %u rows in a session of %u slots", n, s->slots);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].slot >= s->slots || !s->slot[rows[i].slot].encoded ||
            rows[i].pos > s->slot[rows[i].slot].seen ||
            rows[i].pos >= s->w->config.max_target_positions)
            return err_set(err, ERR_DEVICE, "row %u: slot %u has no position %u", i, rows[i].slot,
                           rows[i].pos);
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= s->w->config.vocab_size)
            return err_set(err, ERR_MODEL,
                           "token %d is not in the model's vocabulary of %u: its tokenizer.json "
                           "and its weights do not belong together",
                           rows[i].token, s->w->config.vocab_size);
        for (uint32_t k = 0; k < i; k++) {
            if (rows[k].slot == rows[i].slot)
                return err_set(err, ERR_DEVICE, "slot %u is twice in one step", rows[i].slot);
        }
    }
    return 0;
}

/* The rows of this call out of a scratch tensor. */
static struct tensor head_rows(struct tensor t, uint32_t n)
{
    t.rows = n;
    return t;
}

static int step_own_attention(struct whisper_session *s, uint32_t layer,
                              const struct whisper_row *rows, uint32_t n, struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    int64_t d = s->w->config.d_model;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor qkv = head_rows(s->step_qkv, n), attended = head_rows(s->step_attended, n);
    int rc;

    for (uint32_t i = 0; i < n; i++) {
        s->row_kv[i] = own_kv(s, rows[i].slot, layer);
        s->row_keys[i] = rows[i].pos + 1;
    }
    rc = norm(s, x, &l->attention_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->qkv, h, EPILOGUE_NONE, qkv, err);
    if (rc == 0)
        rc = be->ops->kv_append(be, s->row_kv, s->row_pos, tensor_columns(qkv, d, d),
                                tensor_columns(qkv, 2 * d, d), err);
    if (rc == 0)
        rc = be->ops->attention_rows(be, tensor_columns(qkv, 0, d), s->row_kv, s->row_keys,
                                     attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, attended, EPILOGUE_ADD, x, err);
    return rc;
}

static int step_cross_attention(struct whisper_session *s, uint32_t layer,
                                const struct whisper_row *rows, uint32_t n, struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor q = head_rows(s->step_q, n), attended = head_rows(s->step_attended, n);
    int rc;

    for (uint32_t i = 0; i < n; i++) {
        s->row_kv[i] = cross_kv(s, rows[i].slot, layer);
        s->row_keys[i] = WHISPER_POSITIONS;
    }
    rc = norm(s, x, &l->cross_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->cross_q, h, EPILOGUE_NONE, q, err);
    if (rc == 0)
        rc = be->ops->attention_rows(be, q, s->row_kv, s->row_keys, attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->cross_out, attended, EPILOGUE_ADD, x, err);
    return rc;
}

static int step_ffn(struct whisper_session *s, uint32_t layer, uint32_t n, struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor ffn = head_rows(s->step_ffn, n);
    int rc;

    rc = norm(s, x, &l->ffn_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, h, EPILOGUE_GELU, ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, ffn, EPILOGUE_ADD, x, err);
    return rc;
}

static int step_logits(struct whisper_session *s, uint32_t n, float *logits, struct err *err)
{
    struct backend *be = s->w->be;
    struct tensor h = head_rows(s->step_h, n), out = head_rows(s->logits, n);
    int rc;

    rc = norm(s, head_rows(s->step_x, n), &s->w->decoder_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, s->w->logits, h, EPILOGUE_NONE, out, err);
    if (rc == 0)
        rc = be->ops->get(be, logits, out, err);
    return rc;
}

int whisper_step(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                 float *logits, struct err *err)
{
    struct backend *be = s->w->be;
    int64_t start = clock_mono_ns();
    int rc;

    rc = check_rows(s, rows, n, err);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        s->row_id[i] = rows[i].token;
        s->row_pos[i] = rows[i].pos;
    }
    rc = be->ops->embed(be, s->w->embedding, s->w->decoder_positions, s->row_id, s->row_pos,
                        head_rows(s->step_x, n), err);
    for (uint32_t i = 0; rc == 0 && i < s->w->config.decoder_layers; i++) {
        rc = step_own_attention(s, i, rows, n, err);
        if (rc == 0)
            rc = step_cross_attention(s, i, rows, n, err);
        if (rc == 0)
            rc = step_ffn(s, i, n, err);
    }
    if (rc == 0 && logits)
        rc = step_logits(s, n, logits, err);
    if (rc == 0)
        rc = be->ops->sync(be, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        s->slot[rows[i].slot].seen = rows[i].pos + 1;
    s->times.step_ns += clock_mono_ns() - start;
    s->times.steps++;
    s->times.tokens += n;
    return rc;
}

static int peek(const struct whisper_session *s, uint32_t slot, struct err *err)
{
    if (s->peek == (int64_t)slot)
        return 0;
    return err_set(err, ERR_EMPTY, "slot %u is not the one that was encoded last", slot);
}

int whisper_peek_mel(struct whisper_session *s, uint32_t slot, float *out, struct err *err)
{
    int64_t bins = s->w->config.mel_bins;
    float *frames;
    int rc = peek(s, slot, err);

    if (rc != 0)
        return rc;
    frames = malloc((size_t)(WHISPER_FRAMES * bins) * sizeof(float));
    if (!frames)
        return err_set(err, ERR_NOMEM, "out of memory for a spectrogram");
    rc = s->w->be->ops->get(s->w->be, frames, s->spectrogram, err);
    for (int64_t i = 0; rc == 0 && i < WHISPER_FRAMES * bins; i++)
        out[i % bins * WHISPER_FRAMES + i / bins] = frames[i];
    free(frames);
    return rc;
}

int whisper_peek_encoder(struct whisper_session *s, uint32_t slot, float *out, struct err *err)
{
    int rc = peek(s, slot, err);

    return rc != 0 ? rc : s->w->be->ops->get(s->w->be, out, s->output, err);
}
