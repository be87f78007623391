#include "workers/models/clap/clap_audio.h"

#include <math.h>
#include <stdbool.h>

#include "base/threads.h"
#include "workers/models/clap/clap_mel.h"

#define NORM_EPSILON 1e-5f /* PyTorch's own, where the config does not say it */

/* From the frames of window i to its image. */
static void make_mel_image(void *arg, uint32_t i)
{
    const struct clap_audio_tower *t = arg;
    size_t frames = (size_t)clap_mel_frames(&t->config) * t->config.mel_bins;
    size_t image = (size_t)t->config.image * t->config.image;

    clap_mel_image(t->mel, t->frames + i * frames, t->factor, t->addend, t->images + i * image);
}

int clap_audio_put(struct clap_audio_tower *t, uint32_t first, const float *audio, uint32_t n,
                   struct err *err)
{
    return t->be->ops->write(t->be, t->pcm + (size_t)first * CLAP_MEL_SAMPLES, audio,
                             (size_t)n * CLAP_MEL_SAMPLES * sizeof(float), err);
}

/* The windows to images in t->image. */
static int compute_images(struct clap_audio_tower *t, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = t->be->ops;
    size_t image = (size_t)t->config.image * t->config.image;
    int64_t samples = (int64_t)n * CLAP_MEL_SAMPLES, bins = t->config.mel_bins;
    int64_t frames = (int64_t)n * clap_mel_frames(&t->config);
    int rc = ops->filter_bank(t->be, t->bank, tensor_of(DTYPE_F32, t->pcm, 1, samples), t->at, n,
                              CLAP_MEL_SAMPLES, tensor_of(DTYPE_F32, t->heard, frames, bins), err);

    if (rc == 0)
        rc = ops->read(t->be, t->frames, t->heard, (size_t)(frames * bins) * sizeof(float), err);
    if (rc == 0)
        threads_run(t->be->info.host_threads, n, make_mel_image, t);
    return rc == 0 ? ops->write(t->be, t->image, t->images, n * image * sizeof(float), err) : rc;
}

static int apply_layer_norm(struct clap_audio_tower *t, const struct clap_norm *n, struct tensor x,
                            float epsilon, struct tensor y, struct err *err)
{
    return t->be->ops->layer_norm(t->be, x, n->gamma, n->beta, epsilon, y, err);
}

/* Rows of t->x to t->other in another order; then t->x is that. cols: of a row. */
static int reorder_rows(struct clap_audio_tower *t, const int32_t *rows, int64_t count,
                        int64_t cols, struct err *err)
{
    float *x = t->x;
    int rc = t->be->ops->gather(t->be, tensor_of(DTYPE_F32, x, count, cols), rows,
                                tensor_of(DTYPE_F32, t->other, count, cols), err);

    t->x = t->other;
    t->other = x;
    return rc;
}

static int attend_windows(struct clap_audio_tower *t, const struct clap_stage *s,
                          const struct clap_layer *l, uint32_t n, struct err *err)
{
    uint32_t window = t->config.window, side = s->grid / window, head = s->width / s->heads;
    int64_t rows = (int64_t)n * s->grid * s->grid, width = s->width;
    struct spans spans = {t->spans, n * side * side};
    struct attention_bias bias = {l->bias, l->order.shift ? CLAP_MAP_KINDS : 1,
                                  l->order.shift ? s->shifted : s->plain};
    struct tensor qkv = tensor_of(t->type, t->qkv, rows, 3 * width);

    return t->be->ops->attention_spans(
        t->be, spans, s->heads, head, 1.0f / sqrtf((float)head), tensor_columns(qkv, 0, width),
        tensor_columns(qkv, width, width), tensor_columns(qkv, 2 * width, width), &bias,
        tensor_of(t->type, t->attended, rows, width), err);
}

static int run_layer(struct clap_audio_tower *t, const struct clap_stage *s,
                     const struct clap_layer *l, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = t->be->ops;
    int64_t rows = (int64_t)n * s->grid * s->grid, width = s->width;
    struct tensor x = tensor_of(DTYPE_F32, t->x, rows, width);
    struct tensor h = tensor_of(t->type, t->h, rows, width);
    struct tensor ffn = tensor_of(t->type, t->ffn, rows, s->ffn);
    int rc = apply_layer_norm(t, &l->before, x, t->config.epsilon, h, err);

    if (rc == 0)
        rc = ops->linear(t->be, l->qkv, h, EPILOGUE_NONE,
                         tensor_of(t->type, t->qkv, rows, 3 * width), err);
    if (rc == 0)
        rc = attend_windows(t, s, l, n, err);
    if (rc == 0)
        rc = ops->linear(t->be, l->out, tensor_of(t->type, t->attended, rows, width), EPILOGUE_ADD,
                         x, err);
    if (rc == 0)
        rc = apply_layer_norm(t, &l->after, x, t->config.epsilon, h, err);
    if (rc == 0)
        rc = ops->linear(t->be, l->up, h, EPILOGUE_GELU, ffn, err);
    return rc == 0 ? ops->linear(t->be, l->down, ffn, EPILOGUE_ADD, x, err) : rc;
}

/* Four patches to one: from the stage before, in t->x, to this one's plain order. */
static int merge_patches(struct clap_audio_tower *t, const struct clap_stage *s, uint32_t n,
                         struct err *err)
{
    int64_t rows = (int64_t)n * s->grid * s->grid, width = 2 * (int64_t)s->width;
    struct tensor h = tensor_of(t->type, t->h, rows, width);
    int rc = reorder_rows(t, s->enter, 4 * rows, width / 4, err);

    if (rc == 0)
        rc = apply_layer_norm(t, &s->merge_norm, tensor_of(DTYPE_F32, t->x, rows, width),
                              NORM_EPSILON, h, err);
    if (rc == 0)
        rc = t->be->ops->linear(t->be, s->merge, h, EPILOGUE_NONE,
                                tensor_of(DTYPE_F32, t->x, rows, s->width), err);
    return rc;
}

static int run_stage(struct clap_audio_tower *t, uint32_t i, uint32_t n, struct err *err)
{
    const struct clap_stage *s = &t->stage[i];
    int64_t rows = (int64_t)n * s->grid * s->grid;
    bool shifted = false;
    int rc = i ? merge_patches(t, s, n, err) : reorder_rows(t, s->enter, rows, s->width, err);

    for (uint32_t k = 0; rc == 0 && k < t->config.depth[i]; k++) {
        const struct clap_layer *l = &s->layer[k];

        if (shifted != (l->order.shift != 0))
            rc = reorder_rows(t, shifted ? s->unshift : s->shift, rows, s->width, err);
        shifted = l->order.shift != 0;
        if (rc == 0)
            rc = run_layer(t, s, l, n, err);
    }
    return rc == 0 && shifted && i + 1 < t->config.stages
               ? reorder_rows(t, s->unshift, rows, s->width, err)
               : rc;
}

/* The images in t->image to patches in t->x, row by row. */
static int embed_patches(struct clap_audio_tower *t, uint32_t n, struct err *err)
{
    uint32_t edge = t->config.image, grid = t->stage[0].grid;
    int64_t rows = (int64_t)n * grid * grid, width = t->stage[0].width;
    struct tensor x = tensor_of(DTYPE_F32, t->x, rows, width);
    struct tensor other = tensor_of(DTYPE_F32, t->other, rows, width);
    int rc = t->be->ops->conv2d(t->be, t->patch, n, edge, edge,
                                tensor_of(DTYPE_F32, t->image, (int64_t)n * edge * edge, 1),
                                EPILOGUE_NONE, other, err);

    return rc == 0 ? apply_layer_norm(t, &t->patch_norm, other, NORM_EPSILON, x, err) : rc;
}

/* The last stage's patches in t->x to t->out. */
static int project_patches(struct clap_audio_tower *t, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = t->be->ops;
    const struct clap_stage *s = &t->stage[t->config.stages - 1];
    int64_t rows = (int64_t)n * s->grid * s->grid, size = t->config.size;
    struct tensor other = tensor_of(DTYPE_F32, t->other, rows, s->width);
    struct tensor pooled = tensor_of(DTYPE_F32, t->pooled, n, s->width);
    struct tensor hidden = tensor_of(DTYPE_F32, t->hidden, n, size);
    int rc = apply_layer_norm(t, &t->norm, tensor_of(DTYPE_F32, t->x, rows, s->width), NORM_EPSILON,
                              other, err);

    if (rc == 0)
        rc = ops->pool(t->be, POOL_MEAN, (struct spans){t->image_spans, n}, other, pooled, err);
    if (rc == 0)
        rc = ops->linear(t->be, t->project1, pooled, EPILOGUE_RELU, hidden, err);
    return rc == 0 ? ops->linear(t->be, t->project2, hidden, EPILOGUE_NONE,
                                 tensor_of(DTYPE_F32, t->out, n, size), err)
                   : rc;
}

int clap_audio_run(struct clap_audio_tower *t, uint32_t n, float *ret, struct err *err)
{
    int rc = compute_images(t, n, err);

    if (rc == 0)
        rc = embed_patches(t, n, err);
    for (uint32_t i = 0; rc == 0 && i < t->config.stages; i++)
        rc = run_stage(t, i, n, err);
    if (rc == 0)
        rc = project_patches(t, n, err);
    return rc == 0 ? t->be->ops->read(t->be, ret, t->out,
                                      (size_t)n * t->config.size * sizeof(float), err)
                   : rc;
}
