/* Convolutions over images (or over time: height 1), channels last.
 *
 * Large images go by oneDNN (images_dnn.c). A call of it costs more than a small image: the inputs
 * of small images' outputs are gathered into rows, those of all images one below the other, and
 * multiplied as such (rows.c). Which way an image goes depends on its own shape alone, and neither
 * lets its result depend on the others. Weights are kept as they came until the first image tells
 * for what they are to be packed.
 *
 * Over time, where what neighbours see overlaps little, large ones are gathered, too, and are
 * oneDNN's with a kernel of one: what it compiles for a wider one grows with the image, 20 to 60 ms
 * for the 3,000 frames of a window of Whisper's, longer than it computes.
 *
 * A depthwise convolution has nothing to multiply as a matrix: its kernel goes through a row of
 * outputs, channels abreast. */
#include "gpu/host/images.h"

#include <omp.h>
#include <stdlib.h>

#define CHUNK 32      /* outputs that a thread gathers at once */
#define SHORT 64      /* outputs of an image that goes as rows, or */
#define FEW (1 << 20) /* multiply-adds of one */
#define OVERLAP 4     /* outputs that see one step of time, of those that are gathered */
#define MOST_CHANNELS (1 << 20)

static bool spec_fits(const struct conv2d_spec *s)
{
    return s->in > 0 && s->out > 0 && s->in <= MOST_CHANNELS && s->out <= MOST_CHANNELS &&
           (!s->depthwise || s->in == s->out) && s->kernel_h > 0 && s->kernel_h < 256 &&
           s->kernel_w > 0 && s->kernel_w < 256 && s->stride_h > 0 && s->stride_h < 256 &&
           s->stride_w > 0 && s->stride_w < 256 && s->top < s->kernel_h &&
           s->bottom < s->kernel_h && s->left < s->kernel_w && s->right < s->kernel_w;
}

static int64_t taps_of(const struct conv2d_spec *s)
{
    return (int64_t)s->kernel_h * (int64_t)s->kernel_w;
}

bool images_gathered(const struct conv2d_spec *s)
{
    return !s->depthwise && s->kernel_h == 1 && s->kernel_w > 1 &&
           s->kernel_w <= OVERLAP * s->stride_w;
}

/* w as rows of [taps][in]. */
static void transpose_kernel_taps(const struct conv2d_spec *s, const float *w, float *ret)
{
    int64_t taps = taps_of(s), in = s->in;

    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t i = 0; i < in; i++)
            for (int64_t t = 0; t < taps; t++)
                ret[(o * taps + t) * in + i] = w[(o * in + i) * taps + t];
    }
}

static int pack_rows(struct host *h, struct conv2d *c, struct err *err)
{
    int64_t seen = taps_of(&c->spec) * c->spec.in;
    float *back = c->source ? NULL : malloc((size_t)(c->spec.out * seen) * sizeof(*back));
    int rc = 0;

    if (!c->source && !back)
        rc = err_set(err, ERR_NOMEM, "out of memory for weights");
    if (rc == 0 && back)
        rc = images_unpack(h, c, back, err);
    if (rc == 0)
        rc = host_rows_new(&h->base, c->type, false, c->spec.out, seen, back ? back : c->source,
                           c->bias, &c->rows, err);
    free(back);
    return rc;
}

static int store_conv_weights(struct backend *be, struct conv2d *c, const float *w,
                              const float *bias, struct err *err)
{
    int64_t taps = taps_of(&c->spec), in = c->spec.in;
    size_t n = (size_t)(c->spec.out * (c->spec.depthwise ? 1 : in) * taps);
    void *p = NULL;
    int rc = host_alloc(be, n * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    c->source = p;
    rc = host_alloc(be, (size_t)c->spec.out * sizeof(float), &p, err);
    if (rc != 0)
        return rc;
    c->bias = p;
    if (bias)
        memcpy(c->bias, bias, (size_t)c->spec.out * sizeof(float));
    if (!c->spec.depthwise)
        transpose_kernel_taps(&c->spec, w, c->source);
    for (int64_t i = 0; c->spec.depthwise && i < in; i++)
        for (int64_t t = 0; t < taps; t++)
            c->source[t * in + i] = w[i * taps + t];
    return 0;
}

int host_conv2d_new(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                    const float *w, const float *bias, struct conv2d **ret, struct err *err)
{
    struct conv2d *c;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc != 0)
        return rc;
    if (!spec_fits(spec))
        return host_shape(err, "conv2d_new");
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *c = (struct conv2d){.spec = *spec};
    c->type = spec->depthwise ? DTYPE_F32 : precision_type(precision);
    rc = store_conv_weights(be, c, w, bias, err);
    if (rc != 0) {
        host_conv2d_free(be, c);
        return rc;
    }
    *ret = c;
    return 0;
}

void host_conv2d_free(struct backend *be, struct conv2d *c)
{
    if (!c)
        return;
    images_forget(be, c);
    host_rows_free(be, &c->rows);
    host_release(be, c->source);
    host_release(be, c->bias);
    free(c);
}

void images_gather(const struct images *j, int64_t row, char *to)
{
    const struct conv2d_spec *s = &j->c->spec;
    int64_t outputs = j->out_height * j->out_width, image = row / outputs;
    int64_t y = row % outputs / j->out_width * s->stride_h - s->top;
    int64_t x = row % j->out_width * s->stride_w - s->left, end = x + s->kernel_w;
    int64_t first = x < 0 ? 0 : x, last = end < j->width ? end : j->width;
    size_t pixel = (size_t)s->in * dtype_size(j->c->type), all = s->kernel_w * pixel;
    const char *from = (const char *)j->x.data + (size_t)(image * j->height * j->width) * pixel;

    for (int64_t k = 0; k < s->kernel_h; k++, y++, to += all) {
        size_t before = (size_t)(first - x) * pixel, some = (size_t)(last - first) * pixel;

        if (y < 0 || y >= j->height || last <= first) {
            memset(to, 0, all);
            continue;
        }
        memset(to, 0, before);
        memcpy(to + before, from + (size_t)(y * j->width + first) * pixel, some);
        memset(to + before + some, 0, all - before - some);
    }
}

static int run_rows(struct host *h, const struct images *j, struct err *err)
{
    const struct row_weights *w = &j->c->rows;
    int64_t chunks = (j->y.rows + CHUNK - 1) / CHUNK, blocks = host_rows_blocks(w);
    int64_t seen = taps_of(&j->c->spec) * j->c->spec.in;
    size_t size = dtype_size(w->type), row = (size_t)w->in * size;
    size_t part = (CHUNK * row + 63) / 64 * 64;
    int threads = host_threads(h, (size_t)j->y.rows * row);
    int rc = host_grow(h, &h->scratch, &h->scratch_bytes, (size_t)threads * part, err);

    if (rc != 0 || h->base.rehearsing)
        return rc;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t first = i * CHUNK, n = j->y.rows - first < CHUNK ? j->y.rows - first : CHUNK;
        char *patches = (char *)h->scratch + (size_t)omp_get_thread_num() * part;

        for (int64_t r = 0; r < n; r++) {
            images_gather(j, first + r, patches + (size_t)r * row);
            memset(patches + (size_t)r * row + (size_t)seen * size, 0, row - (size_t)seen * size);
        }
        for (int64_t b = 0; b < blocks; b++)
            host_rows_block(h, w, b, tensor_of(w->type, patches, n, w->in), j->epilogue,
                            tensor_rows(j->y, first, n));
    }
    return 0;
}

static void run_depthwise(struct host *h, const struct images *j)
{
    const struct conv2d_spec *s = &j->c->spec;
    int64_t rows = j->y.rows / j->out_width; /* of outputs, of all images */
    int64_t image = j->height * j->width * s->in;

#pragma omp parallel for schedule(static) \
    num_threads(host_threads(h, (size_t)(j->x.rows * s->in) * sizeof(float)))
    for (int64_t r = 0; r < rows; r++) {
        struct depthwise_job job = {
            .x = (const float *)j->x.data + r / j->out_height * image,
            .w = j->c->source,
            .bias = j->c->bias,
            .y = (float *)j->y.data + r * j->out_width * s->in,
            .channels = (size_t)s->in,
            .height = j->height,
            .width = j->width,
            .columns = j->out_width,
            .from = r % j->out_height * s->stride_h - s->top,
            .kernel_h = s->kernel_h,
            .kernel_w = s->kernel_w,
            .stride_w = s->stride_w,
            .left = s->left,
            .epilogue = j->epilogue,
        };

        h->kernels->depthwise(&job);
    }
}

static int run_convolution(struct host *h, const struct images *j, struct err *err)
{
    const struct conv2d_spec *s = &j->c->spec;
    int64_t outputs = j->out_height * j->out_width;
    /* The ReLU of a sum is a pass of its own behind oneDNN's, over float32. */
    bool done = false, able = j->epilogue != EPILOGUE_ADD_RELU || j->y.type == DTYPE_F32;
    int rc = 0;

    omp_set_num_threads(h->threads);
    if (able && outputs > SHORT && outputs * s->out * s->in * taps_of(s) >= FEW)
        rc = images_by_dnn(h, j, &done, err);
    if (rc == 0 && !done && !j->c->rows.w)
        rc = pack_rows(h, j->c, err);
    return rc != 0 || done ? rc : run_rows(h, j, err);
}

int host_conv2d(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                struct err *err)
{
    struct host *h = host_of(be);
    const struct conv2d_spec *s = &c->spec;
    int64_t tall = (int64_t)s->top + height + s->bottom - s->kernel_h;
    int64_t wide = (int64_t)s->left + width + s->right - s->kernel_w;
    struct images j = {c, images, height,  width, tall / s->stride_h + 1, wide / s->stride_w + 1,
                       x, y,      epilogue};

    if (images < 1 || height < 1 || width < 1 || tall < 0 || wide < 0 || x.type != c->type ||
        x.cols != s->in || x.stride != x.cols || y.cols != s->out || y.stride != y.cols ||
        (y.type != DTYPE_F32 && y.type != c->type) || x.rows % images != 0 ||
        x.rows / images != (int64_t)height * width || y.rows % images != 0 ||
        y.rows / images != j.out_height * j.out_width)
        return host_shape(err, "conv2d");
    if (s->depthwise) {
        run_depthwise(h, &j);
        return 0;
    }
    return run_convolution(h, &j, err);
}
