#include "workers/models/clap/clap_audio.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/clap/clap_maps.h"
#include "workers/models/clap/clap_mel.h"
#include "workers/models/files/weights.h"

#define NORM_EPSILON 1e-5f /* PyTorch's own, where the config does not say it */
#define ENCODER "audio_model.audio_encoder."
#define NAME_BYTES 160

struct clap_norm {
    struct tensor gamma, beta; /* [1][cols] float32 */
};

struct clap_layer {
    struct clap_order order;
    struct clap_norm before, after;
    struct linear *qkv, *out, *up, *down;
    struct tensor bias; /* [kinds * heads * n][n] float32 */
};

struct clap_stage {
    uint32_t grid, width, heads, ffn;
    struct clap_layer layer[CLAP_MAX_DEPTH];
    /* To the plain order from the image's or the stage's before (four rows to one, then), and
     * between the plain and the shifted one. Device memory; NULL where not wanted. */
    int32_t *enter, *shift, *unshift;
    uint32_t *plain, *shifted;   /* host: kinds of the windows; shifted NULL where not wanted */
    struct clap_norm merge_norm; /* of the stage before: [4 * its width] */
    struct linear *merge;
};

struct clap_audio_tower {
    struct backend *be; /* borrowed */
    struct clap_config config;
    enum precision precision;
    enum dtype type;
    uint32_t group; /* windows of one call of the device */
    struct clap_mel *mel;
    struct conv2d *patch;
    struct clap_norm patch_norm, norm;
    struct clap_stage stage[CLAP_MAX_STAGES];
    struct linear *project1, *project2;
    uint32_t *spans;       /* host: rows of attention windows, [group * windows + 1] */
    uint32_t *image_spans; /* host: rows of an image in the last stage, [group + 1] */

    /* Device memory, of `group` windows (here W), the first stage's sizes. */
    float *image;        /* [W * image^2] */
    float *x, *other;    /* [W * grid^2][width] */
    void *h, *attended;  /* the same, of `type` */
    void *qkv;           /* three times as wide */
    void *ffn;           /* [W * grid^2][ffn] */
    float *pooled;       /* [W][last stage's width] */
    float *hidden, *out; /* [W][size] */
};

/* ---- running */

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

/* The first n windows' images in t->image to patches in t->x, row by row. */
static int embed_patches(struct clap_audio_tower *t, uint32_t n, struct err *err)
{
    uint32_t bins = t->config.mel_bins, frames = t->config.image / bins * t->config.image;
    uint32_t grid = t->stage[0].grid;
    int64_t rows = (int64_t)n * grid * grid, width = t->stage[0].width;
    struct tensor image = tensor_of(DTYPE_F32, t->image, (int64_t)n * frames, bins);
    struct tensor x = tensor_of(DTYPE_F32, t->x, rows, width);
    struct tensor other = tensor_of(DTYPE_F32, t->other, rows, width);
    int rc = clap_mel_run(t->mel, n, image, err);

    image = tensor_of(DTYPE_F32, t->image, (int64_t)n * frames * bins, 1);
    if (rc == 0)
        rc = t->be->ops->conv2d(t->be, t->patch, n, frames, bins, image, EPILOGUE_NONE, other, err);
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

int clap_audio_put(struct clap_audio_tower *t, const struct clap_audio *audio, uint32_t n,
                   struct err *err)
{
    return clap_mel_put(t->mel, audio, n, err);
}

float *clap_audio_samples(struct clap_audio_tower *t) { return clap_mel_samples(t->mel); }

int clap_audio_run(struct clap_audio_tower *t, uint32_t n, float *ret, struct err *err)
{
    int rc = embed_patches(t, n, err);

    for (uint32_t i = 0; rc == 0 && i < t->config.stages; i++)
        rc = run_stage(t, i, n, err);
    if (rc == 0)
        rc = project_patches(t, n, err);
    return rc == 0 ? t->be->ops->read(t->be, ret, t->out,
                                      (size_t)n * t->config.size * sizeof(float), err)
                   : rc;
}

/* ---- memory, but for the weights */

static int take_host(struct clap_audio_tower *t, struct err *err)
{
    const struct clap_config *c = &t->config;
    uint32_t side = clap_grid(c, 0) / c->window, each = c->window * c->window;
    uint32_t last = clap_grid(c, c->stages - 1);

    t->spans = malloc(((size_t)t->group * side * side + 1) * sizeof(*t->spans));
    t->image_spans = malloc(((size_t)t->group + 1) * sizeof(*t->image_spans));
    if (!t->spans || !t->image_spans)
        return err_set(err, ERR_NOMEM, "no memory for the audio tower of CLAP");
    for (uint32_t i = 0; i <= t->group * side * side; i++)
        t->spans[i] = i * each;
    for (uint32_t i = 0; i <= t->group; i++)
        t->image_spans[i] = i * last * last;
    return 0;
}

static int take_device(struct clap_audio_tower *t, struct err *err)
{
    const struct clap_config *c = &t->config;
    size_t patches = (size_t)t->group * clap_grid(c, 0) * clap_grid(c, 0);
    size_t values = patches * c->width, each = dtype_size(t->type);
    struct {
        size_t ret; /* offset of the pointer in the tower */
        size_t bytes;
    } want[] = {
#define WANT(field, bytes) {offsetof(struct clap_audio_tower, field), bytes}
        WANT(image, (size_t)t->group * c->image * c->image * sizeof(float)),
        WANT(x, values * sizeof(float)),
        WANT(other, values * sizeof(float)),
        WANT(h, values * each),
        WANT(attended, values * each),
        WANT(qkv, 3 * values * each),
        WANT(ffn, patches * t->stage[0].ffn * each),
        WANT(pooled, (size_t)t->group * clap_width(c, c->stages - 1) * sizeof(float)),
        WANT(hidden, (size_t)t->group * c->size * sizeof(float)),
        WANT(out, (size_t)t->group * c->size * sizeof(float)),
#undef WANT
    };
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = t->be->ops->alloc(t->be, want[i].bytes, &p, err);
        if (rc == 0)
            memcpy((char *)t + want[i].ret, &p, sizeof(p));
    }
    return rc;
}

static int take_memory(struct clap_audio_tower *t, struct err *err)
{
    int rc = take_host(t, err);

    return rc == 0 ? take_device(t, err) : rc;
}

static void free_norm(struct backend *be, struct clap_norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

static void free_stage(struct backend *be, struct clap_stage *s)
{
    for (uint32_t k = 0; k < CLAP_MAX_DEPTH; k++) {
        struct clap_layer *l = &s->layer[k];

        free_norm(be, &l->before);
        free_norm(be, &l->after);
        be->ops->linear_free(be, l->qkv);
        be->ops->linear_free(be, l->out);
        be->ops->linear_free(be, l->up);
        be->ops->linear_free(be, l->down);
        be->ops->release(be, l->bias.data);
    }
    free_norm(be, &s->merge_norm);
    be->ops->linear_free(be, s->merge);
    be->ops->release(be, s->enter);
    be->ops->release(be, s->shift);
    be->ops->release(be, s->unshift);
    free(s->plain);
    free(s->shifted);
}

void clap_audio_free(struct clap_audio_tower *t)
{
    struct backend *be;

    if (!t)
        return;
    be = t->be;
    {
        void *const device[] = {t->image, t->x,   t->other,  t->h,      t->attended,
                                t->qkv,   t->ffn, t->pooled, t->hidden, t->out};

        for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++)
            be->ops->release(be, device[i]);
    }
    for (uint32_t i = 0; i < CLAP_MAX_STAGES; i++)
        free_stage(be, &t->stage[i]);
    be->ops->conv2d_free(be, t->patch);
    be->ops->linear_free(be, t->project1);
    be->ops->linear_free(be, t->project2);
    free_norm(be, &t->patch_norm);
    free_norm(be, &t->norm);
    clap_mel_free(t->mel);
    free(t->spans);
    free(t->image_spans);
    free(t);
}

/* ---- weights */

struct loader {
    struct clap_audio_tower *t;
    const struct weights *w;
    char stage[NAME_BYTES / 2]; /* "audio_model.audio_encoder.layers.N." */
};

static float *allocate_floats(uint64_t count, struct err *err)
{
    float *p = malloc((size_t)count * sizeof(*p));

    if (!p)
        err_no_memory(err, "the audio tower of CLAP");
    return p;
}

/* ---- pieces */

/* Values to device memory: *ret is [rows][cols]. */
static int to_device(struct loader *l, const float *values, int64_t rows, int64_t cols,
                     struct tensor *ret, struct err *err)
{
    void *p = NULL;
    int rc = l->t->be->ops->alloc(l->t->be, (size_t)(rows * cols) * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    *ret = tensor_of(DTYPE_F32, p, rows, cols);
    return l->t->be->ops->put(l->t->be, *ret, values, err);
}

static int load_vector(struct loader *l, const char *name, const char *tail, uint64_t count,
                       struct tensor *ret, struct err *err)
{
    float *values = allocate_floats(count, err);
    char full[NAME_BYTES];
    int rc;

    if (!values)
        return ERR_NOMEM;
    snprintf(full, sizeof(full), "%s%s", name, tail);
    rc = weights_values(l->w, full, 1, &count, values, err);
    if (rc == 0)
        rc = to_device(l, values, 1, (int64_t)count, ret, err);
    free(values);
    return rc;
}

static int load_norm(struct loader *l, const char *name, uint64_t count, struct clap_norm *ret,
                     struct err *err)
{
    int rc = load_vector(l, name, ".weight", count, &ret->gamma, err);

    return rc == 0 ? load_vector(l, name, ".bias", count, &ret->beta, err) : rc;
}

/* The weight and the bias of one linear layer to w and (unless NULL) b. */
static int read_linear(struct loader *l, const char *name, uint64_t out, uint64_t in, float *w,
                       float *b, struct err *err)
{
    const uint64_t dim[2] = {out, in};
    char full[NAME_BYTES];
    int rc;

    snprintf(full, sizeof(full), "%s.weight", name);
    rc = weights_values(l->w, full, 2, dim, w, err);
    snprintf(full, sizeof(full), "%s.bias", name);
    return rc == 0 && b ? weights_values(l->w, full, 1, dim, b, err) : rc;
}

/* count layers of the same input as one, their outputs side by side. rows: of its input. */
static int load_linear(struct loader *l, const char (*names)[NAME_BYTES], uint32_t count,
                       int64_t rows, uint64_t out, uint64_t in, bool bias, struct linear **ret,
                       struct err *err)
{
    float *w = allocate_floats(count * out * in, err), *b = allocate_floats(count * out, err);
    int rc = w && b ? 0 : ERR_NOMEM;

    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = read_linear(l, names[i], out, in, w + i * out * in, bias ? b + i * out : NULL, err);
    if (rc == 0)
        rc = l->t->be->ops->linear_new(l->t->be, l->t->precision, LINEAR_WIDE, rows,
                                       (int64_t)(count * out), (int64_t)in, w, bias ? b : NULL, ret,
                                       err);
    free(w);
    free(b);
    return rc;
}

/* ---- layers */

static int load_bias(struct loader *l, const struct clap_stage *s, struct clap_layer *layer,
                     const char *name, struct err *err)
{
    uint32_t window = l->t->config.window, n = window * window, heads = s->heads;
    uint32_t kinds = layer->order.shift ? CLAP_MAP_KINDS : 1;
    uint64_t dim[2] = {(uint64_t)(2 * window - 1) * (2 * window - 1), heads};
    float *table = allocate_floats(dim[0] * dim[1], err);
    float *all = allocate_floats((uint64_t)kinds * heads * n * n, err);
    int rc = table && all ? weights_values(l->w, name, 2, dim, table, err) : ERR_NOMEM;

    if (rc == 0) {
        clap_map_bias(window, layer->order.shift, heads, table, all);
        rc = to_device(l, all, (int64_t)kinds * heads * n, n, &layer->bias, err);
    }
    free(table);
    free(all);
    return rc;
}

static int load_layer(struct loader *l, const struct clap_stage *s, uint32_t k,
                      struct clap_layer *layer, struct err *err)
{
    static const char *const tails[] = {"attention.self.query",
                                        "attention.self.key",
                                        "attention.self.value",
                                        "attention.output.dense",
                                        "intermediate.dense",
                                        "output.dense",
                                        "layernorm_before",
                                        "layernorm_after",
                                        "attention.self.relative_position_bias_table"};
    int64_t rows = (int64_t)l->t->group * s->grid * s->grid;
    char name[9][NAME_BYTES];
    int rc;

    for (size_t i = 0; i < 9; i++)
        snprintf(name[i], NAME_BYTES, "%sblocks.%u.%s", l->stage, k, tails[i]);
    rc = load_norm(l, name[6], s->width, &layer->before, err);
    if (rc == 0)
        rc = load_norm(l, name[7], s->width, &layer->after, err);
    if (rc == 0)
        rc = load_linear(l, &name[0], 3, rows, s->width, s->width, true, &layer->qkv, err);
    if (rc == 0)
        rc = load_linear(l, &name[3], 1, rows, s->width, s->width, true, &layer->out, err);
    if (rc == 0)
        rc = load_linear(l, &name[4], 1, rows, s->ffn, s->width, true, &layer->up, err);
    if (rc == 0)
        rc = load_linear(l, &name[5], 1, rows, s->width, s->ffn, true, &layer->down, err);
    return rc == 0 ? load_bias(l, s, layer, name[8], err) : rc;
}

/* ---- orders */

/* Copies a map of rows to device memory. */
static int map_to_device(struct loader *l, int32_t *map, uint64_t count, int32_t **ret,
                         struct err *err)
{
    const struct backend_ops *ops = l->t->be->ops;
    void *p = NULL;
    int rc = ops->alloc(l->t->be, (size_t)count * sizeof(*map), &p, err);

    if (rc != 0)
        return rc;
    *ret = p;
    return ops->write(l->t->be, p, map, (size_t)count * sizeof(*map), err);
}

/* How the stage's patches get into their order, and from one order to the other. */
static int load_orders(struct loader *l, uint32_t i, struct clap_stage *s, bool shifts,
                       struct err *err)
{
    const struct clap_config *c = &l->t->config;
    const struct clap_order plain = {s->grid, c->window, 0}, before = {2 * s->grid, c->window, 0};
    const struct clap_order shifted = {s->grid, c->window, c->window / 2};
    uint64_t count = (uint64_t)l->t->group * s->grid * s->grid, entering = i ? 4 * count : count;
    int32_t *map = malloc((size_t)entering * sizeof(*map));
    int rc = map ? 0 : err_no_memory(err, "the audio tower of CLAP");

    if (rc == 0 && i)
        clap_map_merge(before, plain, l->t->group, map);
    else if (rc == 0)
        clap_map_patches(c->mel_bins / c->patch, plain, l->t->group, map);
    if (rc == 0)
        rc = map_to_device(l, map, entering, &s->enter, err);
    if (rc == 0 && shifts) {
        clap_map_between(plain, shifted, l->t->group, map);
        rc = map_to_device(l, map, count, &s->shift, err);
        clap_map_between(shifted, plain, l->t->group, map);
        if (rc == 0)
            rc = map_to_device(l, map, count, &s->unshift, err);
    }
    free(map);
    return rc;
}

static int make_kinds(struct loader *l, struct clap_stage *s, struct err *err)
{
    const uint32_t window = l->t->config.window, side = s->grid / window;
    size_t count = (size_t)l->t->group * side * side;

    s->plain = malloc(count * sizeof(*s->plain));
    s->shifted = malloc(count * sizeof(*s->shifted));
    if (!s->plain || !s->shifted)
        return err_no_memory(err, "the audio tower of CLAP");
    clap_map_kinds((struct clap_order){s->grid, window, 0}, l->t->group, s->plain);
    clap_map_kinds((struct clap_order){s->grid, window, window / 2}, l->t->group, s->shifted);
    return 0;
}

static int load_merge(struct loader *l, uint32_t i, struct clap_stage *s, struct err *err)
{
    char name[2][NAME_BYTES]; /* of the stage before */
    int64_t rows = (int64_t)l->t->group * s->grid * s->grid;
    int rc;

    snprintf(name[0], NAME_BYTES, ENCODER "layers.%u.downsample.norm", i - 1);
    snprintf(name[1], NAME_BYTES, ENCODER "layers.%u.downsample.reduction", i - 1);
    rc = load_norm(l, name[0], 2 * (uint64_t)s->width, &s->merge_norm, err);
    return rc == 0 ? load_linear(l, &name[1], 1, rows, s->width, 2 * (uint64_t)s->width, false,
                                 &s->merge, err)
                   : rc;
}

static int load_stage(struct loader *l, uint32_t i, struct err *err)
{
    const struct clap_config *c = &l->t->config;
    struct clap_stage *s = &l->t->stage[i];
    bool shifts = s->grid > c->window && c->depth[i] > 1;
    int rc = i ? load_merge(l, i, s, err) : 0;

    snprintf(l->stage, sizeof(l->stage), ENCODER "layers.%u.", i);
    if (rc == 0)
        rc = load_orders(l, i, s, shifts, err);
    if (rc == 0)
        rc = make_kinds(l, s, err);
    for (uint32_t k = 0; rc == 0 && k < c->depth[i]; k++) {
        uint32_t shift = shifts && k % 2 ? c->window / 2 : 0;

        s->layer[k].order = (struct clap_order){s->grid, c->window, shift};
        rc = load_layer(l, s, k, &s->layer[k], err);
    }
    return rc;
}

/* ---- before and after the stages */

/* The batch norm of the bins as one factor and one addend each, and what is before it. */
static int load_mel(struct loader *l, struct err *err)
{
    static const char *const tails[] = {"weight", "bias", "running_mean", "running_var"};
    uint64_t bins = l->t->config.mel_bins;
    float *v = allocate_floats(6 * bins, err), *factor, *addend;
    char name[NAME_BYTES];
    int rc = 0;

    if (!v)
        return ERR_NOMEM;
    factor = v + 4 * bins;
    addend = v + 5 * bins;
    for (size_t i = 0; rc == 0 && i < 4; i++) {
        snprintf(name, sizeof(name), ENCODER "batch_norm.%s", tails[i]);
        rc = weights_values(l->w, name, 1, &bins, v + i * bins, err);
    }
    for (uint64_t b = 0; rc == 0 && b < bins; b++) {
        double variance = (double)v[3 * bins + b], scale;

        if (variance < 0.0)
            rc = err_set(err, ERR_MODEL, "tensor '%s' holds a negative variance", name);
        scale = (double)v[b] / sqrt(variance + 1e-5);
        factor[b] = (float)(scale * CLAP_MEL_DB);
        addend[b] = (float)((double)v[bins + b] - (double)v[2 * bins + b] * scale);
    }
    if (rc == 0)
        rc = clap_mel_new(&l->t->config, l->t->be, l->t->group, factor, addend, &l->t->mel, err);
    free(v);
    return rc;
}

static void turn_patch(float *w, uint32_t edge)
{
    for (uint32_t y = 0; y < edge; y++) {
        for (uint32_t x = 0; x < y; x++) {
            float value = w[y * edge + x];

            w[y * edge + x] = w[x * edge + y];
            w[x * edge + y] = value;
        }
    }
}

/* The image lies with its frames downwards: so is each patch. */
static int load_patches(struct loader *l, struct err *err)
{
    const struct clap_config *c = &l->t->config;
    const uint64_t dim[4] = {c->width, 1, c->patch, c->patch};
    const struct conv2d_spec spec = {.in = 1,
                                     .out = c->width,
                                     .kernel_h = c->patch,
                                     .kernel_w = c->patch,
                                     .stride_h = c->patch,
                                     .stride_w = c->patch};
    uint64_t count = dim[0] * dim[2] * dim[3];
    float *w = allocate_floats(count + c->width, err);
    int rc =
        w ? weights_values(l->w, ENCODER "patch_embed.proj.weight", 4, dim, w, err) : ERR_NOMEM;

    if (rc == 0)
        rc = weights_values(l->w, ENCODER "patch_embed.proj.bias", 1, dim, w + count, err);
    for (uint64_t i = 0; rc == 0 && i < c->width; i++)
        turn_patch(w + i * c->patch * c->patch, c->patch);
    if (rc == 0)
        rc = l->t->be->ops->conv2d_new(l->t->be, PRECISION_F32, &spec, w, w + count, &l->t->patch,
                                       err);
    free(w);
    return rc == 0 ? load_norm(l, ENCODER "patch_embed.norm", c->width, &l->t->patch_norm, err)
                   : rc;
}

/* One of the two projections, in float32: there is little of them. */
static int load_projection(struct loader *l, const char *name, uint64_t in, struct linear **ret,
                           struct err *err)
{
    uint64_t out = l->t->config.size;
    float *w = allocate_floats(out * in + out, err);
    int rc = w ? read_linear(l, name, out, in, w, w + out * in, err) : ERR_NOMEM;

    if (rc == 0)
        rc = l->t->be->ops->linear_new(l->t->be, PRECISION_F32, LINEAR_ROWS, l->t->group,
                                       (int64_t)out, (int64_t)in, w, w + out * in, ret, err);
    free(w);
    return rc;
}

static int load_weights(struct loader *l, struct err *err)
{
    struct clap_audio_tower *t = l->t;
    uint32_t last = clap_width(&t->config, t->config.stages - 1);
    int rc = load_mel(l, err);

    if (rc == 0)
        rc = load_patches(l, err);
    for (uint32_t i = 0; rc == 0 && i < t->config.stages; i++)
        rc = load_stage(l, i, err);
    if (rc == 0)
        rc = load_norm(l, ENCODER "norm", last, &t->norm, err);
    if (rc == 0)
        rc = load_projection(l, "audio_projection.linear1", last, &t->project1, err);
    if (rc == 0)
        rc = load_projection(l, "audio_projection.linear2", t->config.size, &t->project2, err);
    return rc;
}

/* ---- the whole */

/* Once on silence, so that what the device takes for that is taken now. */
static int warm_up_audio_tower(struct clap_audio_tower *t, struct err *err)
{
    float *out = allocate_floats((uint64_t)t->group * t->config.size, err);
    int rc =
        out ? clap_audio_run(t, t->group, out, err) : err_no_memory(err, "the audio tower of CLAP");

    free(out);
    return rc;
}

int clap_audio_load(const struct clap_config *c, const struct weights *w, struct backend *be,
                    enum precision precision, uint32_t group, struct clap_audio_tower **ret,
                    struct err *err)
{
    struct clap_audio_tower *t = calloc(1, sizeof(*t));
    struct loader l = {.t = t, .w = w};
    int rc;

    if (!t)
        return err_no_memory(err, "the audio tower of CLAP");
    t->be = be;
    t->config = *c;
    t->precision = precision;
    t->type = precision_type(precision);
    t->group = group;
    for (uint32_t i = 0; i < c->stages; i++) {
        t->stage[i].grid = clap_grid(c, i);
        t->stage[i].width = clap_width(c, i);
        t->stage[i].heads = c->heads[i];
        t->stage[i].ffn = clap_ffn(c, i);
    }
    rc = take_memory(t, err);
    if (rc == 0)
        rc = load_weights(&l, err);
    if (rc == 0) {
        t->be->rehearsing = true;
        rc = warm_up_audio_tower(t, err);
        t->be->rehearsing = false;
    }
    if (rc != 0) {
        clap_audio_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}
