/* Windows through the encoder, as many at once as the session is made for.
 *
 * On a device that can do two things at once they run beside the steps, on a fork of the backend.
 * Both use the cross keys and values, in this order: an event delays storing them until all steps
 * begun before have finished (they may still read the slot's last window), and steps read them only
 * if begun after the host knows that they are stored. The scratch tensors and the log-mel belong to
 * the fork alone.
 *
 * Two waves may be under way, so that the fork always has work: while the first is computed, the
 * host takes the audio of the second, which takes a twentieth of the encoding's time. It then has
 * the time of a whole wave to notice that the first is done.
 *
 * If results must not depend on the grouping of windows, they are encoded one by one (1500 rows).
 * On the host a larger batch would save nothing: 1500 rows fill it.
 *
 * A window with `sparse_silence` is encoded alone, at all positions up to MARGIN_SECONDS behind its
 * audio, and at every TAIL_TIMES-th one from there to 30 s. Each of these counts TAIL_TIMES times
 * in the attention of the encoder and of the decoder, so that silence has the weight that the model
 * was trained with. Of 1,185 words whisper-base has 222 wrong so, and 221 with all positions. With
 * the tail cut off, as by whisper.cpp's --audio-ctx, it has 234, and 245 where 2 s are left. */
#include "base/clock.h"
#include "workers/models/whisper/whisper_net.h"

static int apply_layer_norm(struct whisper_session *s, struct tensor x, const struct norm *n,
                            struct tensor y, struct err *err)
{
    struct backend *be = s->w->encoder_be;

    return be->ops->layer_norm(be, x, n->gamma, n->beta, WHISPER_NORM_EPSILON, y, err);
}

#define MARGIN_SECONDS 5
#define TAIL_TIMES 8
#define POSITIONS_PER_SECOND (WHISPER_POSITIONS / 30)

static struct key_tail all_positions(void)
{
    return (struct key_tail){WHISPER_POSITIONS, WHISPER_POSITIONS, 1};
}

/* Whole seconds, so that there are few different lengths to prepare products for. */
static struct key_tail sparse_positions(size_t samples)
{
    uint32_t seconds = (uint32_t)((samples + ASR_RATE_HZ - 1) / ASR_RATE_HZ) + MARGIN_SECONDS;
    uint32_t dense = seconds * POSITIONS_PER_SECOND, rest;

    if (dense >= WHISPER_POSITIONS)
        return all_positions();
    rest = (WHISPER_POSITIONS - dense) / TAIL_TIMES;
    dense = WHISPER_POSITIONS - rest * TAIL_TIMES;
    return (struct key_tail){dense + rest, dense, TAIL_TIMES};
}

/* The rows of n windows out of a scratch tensor, each of them `rows` long. */
static struct tensor slice_window_rows(struct tensor t, uint32_t n, uint32_t rows)
{
    return head_rows(t, n * rows);
}

/* s->audio to s->spectrogram. */
static int encode_mel(struct whisper_session *s, uint32_t n, struct err *err)
{
    struct backend *be = s->w->encoder_be;

    return be->ops->mel(be, s->mel, s->audio, n,
                        slice_window_rows(s->spectrogram, n, WHISPER_FRAMES), err);
}

/* s->spectrogram to s->conv2. */
static int encode_front(struct whisper_session *s, uint32_t n, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    struct tensor in = slice_window_rows(s->spectrogram, n, WHISPER_FRAMES);
    struct tensor conv1 = slice_window_rows(s->conv1, n, WHISPER_FRAMES);
    struct tensor conv2 = slice_window_rows(s->conv2, n, WHISPER_POSITIONS);
    int rc = 0;

    if (s->w->type != DTYPE_F32) {
        struct tensor converted = slice_window_rows(s->conv_in, n, WHISPER_FRAMES);

        rc = be->ops->copy(be, converted, in, err);
        in = converted;
    }
    if (rc == 0)
        rc = be->ops->conv2d(be, s->w->conv1, n, 1, WHISPER_FRAMES, in, EPILOGUE_GELU, conv1, err);
    if (rc == 0)
        rc = be->ops->conv2d(be, s->w->conv2, n, 1, WHISPER_FRAMES, conv1, EPILOGUE_GELU, conv2,
                             err);
    return rc;
}

/* Rows [from, from + n * step) of s->conv2, the last of every `step`, and their positions, to rows
 * [to, to + n) of s->x. */
static int place_rows(struct whisper_session *s, uint32_t from, uint32_t step, uint32_t n,
                      uint32_t to, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    struct tensor x = tensor_rows(s->x, to, n), in = tensor_rows(s->conv2, from + step - 1, n);
    struct tensor positions = tensor_rows(s->w->encoder_positions, from + step - 1, n);
    int rc;

    in.stride *= step;
    positions.stride *= step;
    rc = be->ops->copy(be, x, in, err);
    return rc == 0 ? be->ops->add(be, x, positions, err) : rc;
}

/* s->conv2 to s->x, as it enters the first layer. */
static int encode_positions(struct whisper_session *s, uint32_t n, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    struct tensor x = slice_window_rows(s->x, n, WHISPER_POSITIONS);
    const struct key_tail *t = &s->computed;
    int rc;

    if (t->times == 1) {
        rc = be->ops->copy(be, x, slice_window_rows(s->conv2, n, WHISPER_POSITIONS), err);
        return rc == 0 ? be->ops->add(be, x, s->w->encoder_positions, err) : rc;
    }
    rc = place_rows(s, 0, 1, t->dense, 0, err);
    return rc == 0 ? place_rows(s, t->dense, t->times, t->keys - t->dense, t->dense, err) : rc;
}

/* q, k and v are columns of qkv. */
static int encode_attention(struct whisper_session *s, uint32_t n, struct tensor qkv,
                            struct tensor attended, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    int64_t d = s->w->config.d_model;
    struct tensor q = tensor_columns(qkv, 0, d), k = tensor_columns(qkv, d, d),
                  v = tensor_columns(qkv, 2 * d, d);

    return s->computed.times == 1
               ? be->ops->attention(be, n, q, k, v, attended, err)
               : be->ops->attention_tail(be, q, k, v, s->computed, attended, err);
}

static int encode_layer(struct whisper_session *s, const struct encoder_layer *l, uint32_t n,
                        struct err *err)
{
    struct backend *be = s->w->encoder_be;
    struct tensor x = slice_window_rows(s->x, n, s->computed.keys),
                  h = slice_window_rows(s->h, n, s->computed.keys);
    struct tensor qkv = slice_window_rows(s->qkv, n, s->computed.keys),
                  ffn = slice_window_rows(s->ffn, n, s->computed.keys);
    struct tensor attended = slice_window_rows(s->attended, n, s->computed.keys);
    int rc;

    rc = apply_layer_norm(s, x, &l->attention_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->qkv, h, EPILOGUE_NONE, qkv, err);
    if (rc == 0)
        rc = encode_attention(s, n, qkv, attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, attended, EPILOGUE_ADD, x, err);
    if (rc == 0)
        rc = apply_layer_norm(s, x, &l->ffn_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, h, EPILOGUE_GELU, ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, ffn, EPILOGUE_ADD, x, err);
    return rc;
}

/* s->x, through the first `layers` of the encoder, to s->output and s->h. */
static int encode_layers(struct whisper_session *s, uint32_t n, uint32_t layers, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    struct tensor output = slice_window_rows(s->output, n, s->computed.keys);
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < layers; i++)
        rc = encode_layer(s, &s->w->encoder[i], n, err);
    if (rc == 0)
        rc = apply_layer_norm(s, slice_window_rows(s->x, n, s->computed.keys), &s->w->encoder_norm,
                              output, err);
    if (rc == 0)
        rc = be->ops->copy(be, slice_window_rows(s->h, n, s->computed.keys), output, err);
    return rc;
}

/* The encoder's output to the keys and values that the slots' first `layers` decoder layers look
 * at. */
static int encode_cross(struct whisper_session *s, const uint32_t *slots, uint32_t n,
                        uint32_t layers, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    int64_t d = s->w->config.d_model;
    struct tensor h = slice_window_rows(s->h, n, s->computed.keys);
    struct tensor kv = tensor_of(s->w->type, s->qkv.data, h.rows, 2 * d);
    int rc = be != s->w->be ? be->ops->after(be, s->w->be, err) : 0;

    for (uint32_t i = 0; i < n; i++)
        s->window_keys[slots[i]] = s->computed;
    for (uint32_t i = 0; rc == 0 && i < layers; i++) {
        rc = be->ops->linear(be, s->w->decoder[i].cross_kv, h, EPILOGUE_NONE, kv, err);
        if (rc == 0)
            rc = be->ops->kv_fill(be, whisper_cross_kv(s, i), slots, n, tensor_columns(kv, 0, d),
                                  tensor_columns(kv, d, d), err);
    }
    return rc;
}

/* The end of a stage that began at *start. Without timing the device does not pause: it computes
 * while the next windows' audio is sent. */
static int time_encode_stage(struct whisper_session *s, int64_t *stage, int64_t *start,
                             struct err *err)
{
    int64_t now;
    int rc;

    /* The host's operations have run when they return. */
    if (!s->asr.apart && s->w->be->info.threads == 0)
        return 0;
    rc = s->w->encoder_be->ops->sync(s->w->encoder_be, err);
    now = clock_mono_ns();
    *stage += now - *start;
    *start = now;
    return rc;
}

/* s->audio to these slots; may still be under way when this returns. */
static int encode_some(struct whisper_session *s, const uint32_t *slots, uint32_t n,
                       struct err *err)
{
    int64_t start = clock_mono_ns();
    int rc = encode_mel(s, n, err);

    if (rc == 0)
        rc = time_encode_stage(s, &s->asr.times.mel_ns, &start, err);
    if (rc == 0)
        rc = encode_front(s, n, err);
    if (rc == 0)
        rc = encode_positions(s, n, err);
    if (rc == 0)
        rc = encode_layers(s, n, s->w->config.encoder_layers, err);
    if (rc == 0)
        rc = time_encode_stage(s, &s->asr.times.encoder_ns, &start, err);
    if (rc == 0)
        rc = encode_cross(s, slots, n, s->w->config.decoder_layers, err);
    if (rc == 0)
        rc = time_encode_stage(s, &s->asr.times.cross_ns, &start, err);
    return rc;
}

static struct key_tail choose_positions(const struct whisper_session *s,
                                        const struct asr_window *window)
{
    return window->sparse_silence && s->w->encoder_be->ops->attention_tail
               ? sparse_positions(window->n)
               : all_positions();
}

/* The next batch out of n windows: a whole one, or a single window. A device prepares itself for
 * each number of windows, an attention for seconds; these two are prepared when the session is
 * made, and no others come later. */
static uint32_t choose_batch_size(const struct whisper_session *s, const struct asr_window *windows,
                                  uint32_t n)
{
    if (n < s->shape.windows)
        return 1;
    for (uint32_t i = 0; i < s->shape.windows; i++)
        if (choose_positions(s, &windows[i]).times > 1)
            return 1;
    return s->shape.windows;
}

static bool is_under_way(const struct whisper_session *s, uint32_t slot)
{
    for (uint64_t i = s->waves_there; i < s->waves_begun; i++)
        for (uint32_t k = 0; k < s->wave[i % ASR_WAVES].n; k++)
            if (s->wave[i % ASR_WAVES].slots[k] == slot)
                return true;
    return false;
}

/* Slots that are in the call have no window from then on, until it has succeeded. */
static int check_windows(struct whisper_session *s, const struct asr_window *windows, uint32_t n,
                         struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (windows[i].slot >= s->shape.slots || windows[i].n > WHISPER_WINDOW_SAMPLES)
            return err_set(err, ERR_DEVICE, "window %u: slot %u of %u, %zu samples of %d", i,
                           windows[i].slot, s->shape.slots, windows[i].n, WHISPER_WINDOW_SAMPLES);
        for (uint32_t k = 0; k < i; k++)
            if (windows[k].slot == windows[i].slot)
                return err_set(err, ERR_DEVICE, "slot %u is twice in one call", windows[i].slot);
        if (is_under_way(s, windows[i].slot))
            return err_set(err, ERR_DEVICE, "slot %u has a window on its way", windows[i].slot);
    }
    for (uint32_t i = 0; i < n; i++) {
        s->encoded[windows[i].slot] = false;
        for (uint32_t b = 0; b < s->shape.branches; b++) {
            struct branch *branch = &s->branch[windows[i].slot * s->shape.branches + b];

            branch->seen = branch->stored = 0;
            branch->asked = false;
        }
    }
    return 0;
}

static bool under_way(const struct whisper_session *s) { return s->waves_begun != s->waves_there; }

/* The place of a wave, and of the mark behind it. */
static uint32_t place_of(uint64_t number) { return (uint32_t)(number % ASR_WAVES); }

/* The oldest wave is there. */
static uint32_t complete_oldest_wave(struct whisper_session *s)
{
    const struct wave *w = &s->wave[place_of(s->waves_there++)];
    int64_t now = clock_mono_ns();

    s->asr.times.encode_ns += now - (w->start > s->there_at ? w->start : s->there_at);
    s->asr.times.windows += w->n;
    s->there_at = now;
    for (uint32_t i = 0; i < w->n; i++)
        s->encoded[w->slots[i]] = true;
    return w->n;
}

int whisper_encoded(struct asr_session *session, bool wait, uint32_t *ret, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct backend *be = s->w->encoder_be;
    bool there = true;
    int rc = 0;

    *ret = 0;
    if (!under_way(s))
        return 0;
    if (be == s->w->be)
        rc = be->ops->sync(be, err);
    else if (wait)
        rc = be->ops->collect(be, s->wave_box + place_of(s->waves_there), NULL, 0, err);
    else
        rc = be->ops->posted(be, s->wave_box + place_of(s->waves_there), &there, err);
    if (rc == 0 && there)
        *ret = complete_oldest_wave(s);
    return rc;
}

/* n > 0 windows to w. */
static int encode_wave(struct whisper_session *s, struct wave *w, const struct asr_window *windows,
                       uint32_t n, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    int rc = 0;

    *w = (struct wave){n, w->slots, clock_mono_ns()};
    s->peek = -1;
    for (uint32_t at = 0; rc == 0 && at < n;) {
        uint32_t k = choose_batch_size(s, windows + at, n - at);

        for (uint32_t i = 0; i < k; i++) {
            s->audio[i] = (struct audio){windows[at + i].pcm, windows[at + i].n};
            w->slots[at + i] = windows[at + i].slot;
        }
        s->computed = choose_positions(s, &windows[at]);
        rc = encode_some(s, w->slots + at, k, err);
        s->peek_at = k - 1;
        at += k;
    }
    if (rc == 0 && be != s->w->be)
        rc = be->ops->post(be, s->wave_box + place_of(s->waves_begun), NULL, 0, err);
    if (rc == 0 && s->computed.times == 1)
        s->peek = w->slots[n - 1];
    return rc;
}

int whisper_encode_begin(struct asr_session *session, const struct asr_window *windows, uint32_t n,
                         struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    int rc;

    if (s->waves_begun - s->waves_there == ASR_WAVES)
        return err_set(err, ERR_DEVICE, "%d calls' windows are on their way", ASR_WAVES);
    rc = check_windows(s, windows, n, err);
    if (rc != 0 || n == 0)
        return rc;
    rc = encode_wave(s, &s->wave[place_of(s->waves_begun)], windows, n, err);
    if (rc == 0)
        s->waves_begun++;
    return rc;
}

static int land_all(struct whisper_session *s, struct err *err)
{
    uint32_t n;
    int rc = 0;

    while (rc == 0 && under_way(s))
        rc = whisper_encoded(&s->asr, true, &n, err);
    return rc;
}

int whisper_encode(struct asr_session *session, const struct asr_window *windows, uint32_t n,
                   struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    int rc = land_all(s, err);

    if (rc == 0)
        rc = whisper_encode_begin(session, windows, n, err);
    return rc == 0 ? land_all(s, err) : rc;
}

/* n windows of silence, through a layer of each kind. */
static int rehearse_silence(struct whisper_session *s, uint32_t n, struct err *err)
{
    int rc = encode_mel(s, n, err);

    s->computed = all_positions();
    if (rc == 0)
        rc = encode_front(s, n, err);
    if (rc == 0)
        rc = encode_positions(s, n, err);
    if (rc == 0)
        rc = encode_layers(s, n, 1, err);
    return rc == 0 ? encode_cross(s, s->wave[0].slots, n, 1, err) : rc;
}

/* Lets the backend find its fastest algorithm for each product. */
int whisper_warm_encoder(struct whisper_session *s, struct err *err)
{
    struct backend *be = s->w->encoder_be;
    static const float silence[1];
    struct err ignored;
    int rc = be->ops->rehearse ? be->ops->rehearse(be, true, err) : 0;

    for (uint32_t i = 0; i < s->shape.windows; i++) {
        s->audio[i] = (struct audio){silence, 1};
        s->wave[0].slots[i] = i;
    }
    if (rc == 0)
        rc = rehearse_silence(s, s->shape.windows, err);
    if (rc == 0 && s->shape.windows > 1)
        rc = rehearse_silence(s, 1, err);
    if (rc == 0)
        rc = be->ops->sync(be, err);
    if (be->ops->rehearse)
        (void)be->ops->rehearse(be, false, &ignored);
    s->asr.times = (struct asr_times){0};
    return rc;
}
