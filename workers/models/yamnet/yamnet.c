/* MobileNet v1 over log-mel patches, images of 96 frames by 64 bins, channels last:
 *
 *   layer 1      3 x 3 convolution, stride 2        [96 x 64][1] -> [48 x 32][32]
 *   layer 2-14   3 x 3 of each channel by itself, then 1 x 1 over the channels; stride 2 in the
 *                former of layers 3, 5, 7 and 13    -> [3 x 2][1024]
 *   mean over the 6 places -> [1024], the vector; linear, sigmoid -> [classes]
 *
 * ReLU after each convolution; batch norms lie folded in the weights. Padding is TensorFlow's SAME:
 * with stride 2 one zero at the bottom and right alone. Google's YAMNet (tensorflow/models,
 * research/audioset/yamnet). */
#include "workers/models/yamnet/yamnet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/files/weights.h"
#include "workers/models/yamnet/yamnet_dir.h"

#define FEW_PATCHES 16   /* of a call where more at once gain nothing */
#define MANY_PATCHES 128 /* a minute */
#define IMAGE ((size_t)YAMNET_FRAMES * YAMNET_BINS)
#define LARGEST ((size_t)48 * 32 * 64) /* values between two convolutions, of a patch */
#define PLACES 6                       /* of the last image */

struct yamnet {
    struct backend *be; /* borrowed */
    uint32_t patches;   /* a call takes */
    struct yamnet_names names;
    struct filter_bank *bank;
    struct conv2d *wide[YAMNET_LAYERS];  /* 3 x 3 */
    struct conv2d *point[YAMNET_LAYERS]; /* 1 x 1; none of layer 1 */
    struct linear *logits;

    float *a, *b;    /* device memory: [patches * LARGEST] */
    float *vectors;  /* device memory: [patches][1024] */
    float *scores;   /* device memory: [patches][classes] */
    float *staged;   /* host: [patches][1024], the vectors back */
    float *silence;  /* host: [YAMNET_PATCH], behind a last patch that is not whole */
    uint32_t *spans; /* host: [patches + 1] */
    uint32_t *at;    /* host: [patches], where each begins among the samples */
};

/* Magnitudes of 25 ms every 10 ms, in triangles whose sides are straight over mel. */
static const struct filter_bank_spec bank = {
    .mel = {.scale = MEL_HTK,
            .linear_in_mel = true,
            .rate_hz = 16000,
            .fft = YAMNET_FFT,
            .bins = YAMNET_BINS,
            .low_hz = 125.0,
            .high_hz = 7500.0},
    .frame = YAMNET_FRAME,
    .step = YAMNET_FRAME_HOP,
    .window = FRAME_HANN,
    .scale = 1.0,
    .magnitudes = true,
    .logarithm = true,
    .offset = 0.001,
};

/* ---- loading */

/* One convolution and its bias. in 0: of each channel by itself. */
static int load_conv(struct yamnet *y, const struct weights *w, const char *prefix, uint32_t in,
                     uint32_t out, uint32_t kernel, uint32_t stride, struct conv2d **ret,
                     struct err *err)
{
    const uint64_t dim[4] = {out, in ? in : 1, kernel, kernel};
    const uint32_t around = kernel == 3, before = around && stride == 1;
    const struct conv2d_spec spec = {.in = in ? in : out,
                                     .out = out,
                                     .depthwise = !in,
                                     .kernel_h = kernel,
                                     .kernel_w = kernel,
                                     .stride_h = stride,
                                     .stride_w = stride,
                                     .top = before,
                                     .bottom = around,
                                     .left = before,
                                     .right = around};
    size_t count = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    float *values = malloc((count + out) * sizeof(*values));
    char name[64];
    int rc;

    if (!values)
        return err_no_memory(err, "the model of sounds");
    snprintf(name, sizeof(name), "%s.weight", prefix);
    rc = weights_values(w, name, 4, dim, values, err);
    snprintf(name, sizeof(name), "%s.bias", prefix);
    if (rc == 0)
        rc = weights_values(w, name, 1, dim, values + count, err);
    if (rc == 0)
        rc = y->be->ops->conv2d_new(y->be, PRECISION_F32, &spec, values, values + count, ret, err);
    free(values);
    return rc;
}

static int load_layers(struct yamnet *y, const struct weights *w, struct err *err)
{
    uint32_t in = yamnet_layers[0].out;
    int rc = load_conv(y, w, "layer1.conv", 1, in, 3, yamnet_layers[0].stride, &y->wide[0], err);
    char prefix[40];

    for (uint32_t i = 1; rc == 0 && i < YAMNET_LAYERS; i++) {
        const struct yamnet_layer *l = &yamnet_layers[i];

        snprintf(prefix, sizeof(prefix), "layer%u.depthwise", i + 1);
        rc = load_conv(y, w, prefix, 0, in, 3, l->stride, &y->wide[i], err);
        snprintf(prefix, sizeof(prefix), "layer%u.pointwise", i + 1);
        if (rc == 0)
            rc = load_conv(y, w, prefix, in, l->out, 1, 1, &y->point[i], err);
        in = l->out;
    }
    return rc;
}

static int load_logits(struct yamnet *y, const struct weights *w, struct err *err)
{
    const uint64_t dim[2] = {y->names.count, YAMNET_VECTOR};
    size_t count = (size_t)(dim[0] * dim[1]);
    float *values = malloc((count + y->names.count) * sizeof(*values));
    int rc;

    if (!values)
        return err_no_memory(err, "the model of sounds");
    rc = weights_values(w, "logits.weight", 2, dim, values, err);
    if (rc == 0)
        rc = weights_values(w, "logits.bias", 1, dim, values + count, err);
    if (rc == 0)
        rc = y->be->ops->linear_new(y->be, PRECISION_F32, LINEAR_ROWS, y->patches, (int64_t)dim[0],
                                    YAMNET_VECTOR, values, values + count, &y->logits, err);
    free(values);
    return rc;
}

/* The samples of a number of patches, at least 1. */
static size_t reach(uint32_t patches) { return YAMNET_PATCH + (patches - 1) * (size_t)YAMNET_HOP; }

static int take_memory(struct yamnet *y, struct err *err)
{
    const struct {
        float **ret;
        size_t each;
    } want[] = {{&y->a, LARGEST},
                {&y->b, LARGEST},
                {&y->vectors, YAMNET_VECTOR},
                {&y->scores, y->names.count}};
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = y->be->ops->alloc(y->be, y->patches * want[i].each * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    if (rc != 0)
        return rc;
    y->staged = malloc(y->patches * YAMNET_VECTOR * sizeof(float));
    y->silence = calloc(YAMNET_PATCH, sizeof(float));
    y->spans = malloc((y->patches + (size_t)1) * sizeof(*y->spans));
    y->at = malloc(y->patches * sizeof(*y->at));
    if (!y->staged || !y->silence || !y->spans || !y->at)
        return err_no_memory(err, "the model of sounds");
    for (uint32_t i = 0; i < y->patches; i++)
        y->at[i] = i * YAMNET_HOP;
    for (uint32_t i = 0; i <= y->patches; i++)
        y->spans[i] = i * PLACES;
    return 0;
}

/* Runs a full batch of silent patches, so that the device allocates its memory now. */
static int warm_up_yamnet(struct yamnet *y, struct err *err)
{
    size_t n = reach(y->patches);
    float *pcm = calloc(n, sizeof(*pcm));
    float *scores = malloc((size_t)y->patches * y->names.count * sizeof(*scores));
    int rc;

    y->be->rehearsing = true;
    rc = pcm && scores ? yamnet_run(y, pcm, n, scores, NULL, err)
                       : err_no_memory(err, "the model of sounds");
    y->be->rehearsing = false;
    free(pcm);
    free(scores);
    return rc;
}

static int load_yamnet(struct yamnet *y, const char *dir, struct err *err)
{
    struct weights *w = NULL;
    int rc = yamnet_check_config(dir, err);

    if (rc == 0)
        rc = yamnet_names_read(dir, &y->names, err);
    if (rc == 0)
        rc = weights_open(dir, &w, err);
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    if (rc == 0)
        rc = load_layers(y, w, err);
    if (rc == 0)
        rc = load_logits(y, w, err);
    weights_close(w);
    if (rc == 0)
        rc = y->be->ops->filter_bank_new(y->be, &bank, &y->bank, err);
    if (rc == 0)
        rc = take_memory(y, err);
    return rc == 0 ? warm_up_yamnet(y, err) : rc;
}

int yamnet_load(const char *dir, struct backend *be, uint32_t patches, struct yamnet **ret,
                struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct yamnet *y;
    int rc;

    if (patches > YAMNET_MAX_PATCHES)
        return err_set(err, ERR_USAGE, "sounds of %u patches at once: at most %d", patches,
                       YAMNET_MAX_PATCHES);
    y = calloc(1, sizeof(*y));
    if (!y)
        return err_no_memory(err, "the model of sounds");
    y->be = be;
    y->patches = patches ? patches : wide ? MANY_PATCHES : FEW_PATCHES;
    rc = load_yamnet(y, dir, err);
    if (rc != 0) {
        if (rc == ERR_MODEL)
            err_prefix(err, "%.200s", dir);
        yamnet_free(y);
        return rc;
    }
    *ret = y;
    return 0;
}

void yamnet_free(struct yamnet *y)
{
    const struct backend_ops *ops;

    if (!y)
        return;
    ops = y->be->ops;
    for (int i = 0; i < YAMNET_LAYERS; i++) {
        ops->conv2d_free(y->be, y->wide[i]);
        ops->conv2d_free(y->be, y->point[i]);
    }
    ops->linear_free(y->be, y->logits);
    ops->release(y->be, y->a);
    ops->release(y->be, y->b);
    ops->release(y->be, y->vectors);
    ops->release(y->be, y->scores);
    yamnet_names_free(&y->names);
    ops->filter_bank_free(y->be, y->bank);
    free(y->staged);
    free(y->silence);
    free(y->spans);
    free(y->at);
    free(y);
}

uint32_t yamnet_patches(const struct yamnet *y) { return y->patches; }

uint32_t yamnet_classes(const struct yamnet *y) { return y->names.count; }

const char *yamnet_class_name(const struct yamnet *y, uint32_t class_id)
{
    return class_id < y->names.count ? y->names.name[class_id] : "";
}

uint64_t yamnet_predict_bytes(uint32_t patches)
{
    uint64_t weights = YAMNET_MAX_CLASSES / 4 * (uint64_t)(YAMNET_VECTOR + 1), in = 1;

    for (int i = 0; i < YAMNET_LAYERS; i++) {
        uint64_t out = yamnet_layers[i].out;

        weights += 10 * (i ? in : out) + (i ? (in + 1) * out : 0);
        in = out;
    }
    /* Twice: what the device packs the weights into, and what it computes with. */
    return 4 * (2 * weights + (patches ? patches : MANY_PATCHES) *
                                  (2 * LARGEST + YAMNET_VECTOR + YAMNET_MAX_CLASSES / 4));
}

/* ---- running */

uint32_t yamnet_count(size_t n)
{
    return n <= YAMNET_PATCH ? 1 : (uint32_t)(1 + (n - YAMNET_PATCH + YAMNET_HOP - 1) / YAMNET_HOP);
}

/* The patches' images in device memory at y->a. */
static int compute_patch_images(struct yamnet *y, const float *pcm, size_t n, uint32_t patches,
                                struct err *err)
{
    const struct backend_ops *ops = y->be->ops;
    size_t end = reach(patches);
    int rc;

    rc = ops->write(y->be, y->b, pcm, n * sizeof(float), err);
    if (rc == 0 && n < end)
        rc = ops->write(y->be, y->b + n, y->silence, (end - n) * sizeof(float), err);
    return rc == 0
               ? ops->filter_bank(
                     y->be, y->bank, tensor_of(DTYPE_F32, y->b, 1, (int64_t)end), y->at, patches,
                     YAMNET_PATCH,
                     tensor_of(DTYPE_F32, y->a, (int64_t)patches * YAMNET_FRAMES, YAMNET_BINS), err)
               : rc;
}

struct shape {
    uint32_t height, width, channels;
};

/* Convolution i (layer 1's, then two for each layer) of images of shape *s; *s becomes what lies at
 * `to` then. */
static int convolve_layer(struct yamnet *y, uint32_t i, uint32_t patches, const float *from,
                          float *to, struct shape *s, struct err *err)
{
    const struct yamnet_layer *l = &yamnet_layers[(i + 1) / 2];
    bool wide = i == 0 || i % 2;
    uint32_t stride = wide ? l->stride : 1;
    struct shape next = {s->height / stride, s->width / stride, i % 2 ? s->channels : l->out};
    int64_t rows = (int64_t)patches * s->height * s->width;
    int64_t out_rows = (int64_t)patches * next.height * next.width;
    struct tensor x = tensor_of(DTYPE_F32, (float *)from, rows, s->channels);
    int rc = y->be->ops->conv2d(y->be, wide ? y->wide[(i + 1) / 2] : y->point[i / 2], patches,
                                s->height, s->width, x, EPILOGUE_RELU,
                                tensor_of(DTYPE_F32, to, out_rows, next.channels), err);

    *s = next;
    return rc;
}

/* The first `convolutions` over the images in y->a; *ret, of shape *s, is y->a or y->b. */
static int convolve_all(struct yamnet *y, uint32_t patches, uint32_t convolutions, struct shape *s,
                        float **ret, struct err *err)
{
    float *from = y->a, *to = y->b, *next;
    int rc = 0;

    *s = (struct shape){YAMNET_FRAMES, YAMNET_BINS, 1};
    for (uint32_t i = 0; rc == 0 && i < convolutions; i++) {
        rc = convolve_layer(y, i, patches, from, to, s, err);
        next = from;
        from = to;
        to = next;
    }
    *ret = from;
    return rc;
}

int yamnet_look(struct yamnet *y, const float *image, uint32_t convolutions, float *ret,
                struct err *err)
{
    struct shape s;
    float *at;
    int rc = y->be->ops->write(y->be, y->a, image, IMAGE * sizeof(float), err);

    if (rc == 0)
        rc = convolve_all(y, 1, convolutions, &s, &at, err);
    if (rc == 0)
        rc = y->be->ops->read(y->be, ret, at,
                              (size_t)s.height * s.width * s.channels * sizeof(float), err);
    return rc;
}

/* From the images in y->a to y->vectors and y->scores. */
static int compute_sound_scores(struct yamnet *y, uint32_t patches, struct err *err)
{
    const struct backend_ops *ops = y->be->ops;
    struct spans spans = {y->spans, patches};
    struct tensor vectors = tensor_of(DTYPE_F32, y->vectors, patches, YAMNET_VECTOR);
    struct tensor scores = tensor_of(DTYPE_F32, y->scores, patches, y->names.count);
    struct shape s;
    float *at;
    int rc = convolve_all(y, patches, YAMNET_CONVOLUTIONS, &s, &at, err);

    if (rc == 0)
        rc = ops->pool(y->be, POOL_MEAN, spans,
                       tensor_of(DTYPE_F32, at, (int64_t)patches * PLACES, YAMNET_VECTOR), vectors,
                       err);
    if (rc == 0)
        rc = ops->linear(y->be, y->logits, vectors, EPILOGUE_NONE, scores, err);
    return rc == 0 ? ops->activate(y->be, ACTIVATION_SIGMOID, scores, scores, err) : rc;
}

/* No score and no value is outside of what it can be; a NaN is neither. */
static int check_output_range(const float *x, size_t n, float high, struct err *err)
{
    bool wrong = false;

    for (size_t i = 0; i < n; i++) /* without a way out, so that it goes many at a time */
        wrong |= !(x[i] >= 0.0f) | !(x[i] <= high);
    return wrong
               ? err_set(err, ERR_MODEL, "the model of sounds computed something that is no number")
               : 0;
}

static int check_size(const struct yamnet *y, size_t n, struct err *err)
{
    if (n > reach(YAMNET_MAX_PATCHES) || yamnet_count(n) > y->patches)
        return err_set(err, ERR_DEVICE, "sounds of %zu samples in a call for %u patches", n,
                       y->patches);
    return 0;
}

int yamnet_listen(struct yamnet *y, const float *pcm, size_t n, float *ret, struct err *err)
{
    uint32_t patches = yamnet_count(n);
    int rc = check_size(y, n, err);

    if (rc == 0)
        rc = compute_patch_images(y, pcm, n, patches, err);
    return rc == 0 ? y->be->ops->read(y->be, ret, y->a, patches * IMAGE * sizeof(float), err) : rc;
}

int yamnet_run(struct yamnet *y, const float *pcm, size_t n, float *scores, float *vectors,
               struct err *err)
{
    const struct backend_ops *ops = y->be->ops;
    uint32_t patches = yamnet_count(n);
    size_t count = (size_t)patches * y->names.count, values = (size_t)patches * YAMNET_VECTOR;
    int rc = check_size(y, n, err);

    if (rc == 0)
        rc = compute_patch_images(y, pcm, n, patches, err);
    if (rc == 0)
        rc = compute_sound_scores(y, patches, err);
    if (rc == 0)
        rc = ops->read(y->be, scores, y->scores, count * sizeof(*scores), err);
    if (rc == 0)
        rc = ops->read(y->be, y->staged, y->vectors, values * sizeof(float), err);
    if (rc == 0)
        rc = check_output_range(scores, count, 1.0f, err);
    if (rc == 0)
        rc = check_output_range(y->staged, values, 3.402823466e38f, err);
    if (rc == 0 && vectors)
        memcpy(vectors, y->staged, values * sizeof(*vectors));
    return rc;
}
